// The book's small arithmetic, for boxes that need no kernel: pure functions, each the same as the one that its line names in
// Python. Probabilities are lists, rates and accuracies are shares. A test compares both on a grid of 500 values.
(() => {
  const sum = values => values.reduce((total, v) => total + v, 0);

  // Completeness, selectivity and reliability of an edit (Canby et al., § 3): `probebook.measures.reliability`.
  const totalVariation = (p, q) => sum(p.map((v, i) => Math.abs(v - q[i]))) / 2;                  // δ (§ 3.1)
  const completeness = (edited, to = null) => to === null
    ? 1 - edited.length / (edited.length - 1) * totalVariation(edited, edited.map(() => 1 / edited.length))     // eq. 2
    : 1 - totalVariation(edited, edited.map((_, i) => +(i == to)));                               // eq. 1
  const selectivity = (edited, p) =>                                                              // eq. 3
    1 - totalVariation(edited, p) / Math.max(1 - Math.min(...p), Math.max(...p));
  const reliability = (c, s) => c + s == 0 ? 0 : 2 * c * s / (c + s);                             // eq. 4

  // The normal distribution: density φ, and the probability 1 − Φ to lie above `a`: by Laplace's continued fraction in the
  // tail, by the series of Marsaglia (2004) elsewhere.
  const density = a => Math.exp(-a * a / 2) / Math.sqrt(2 * Math.PI);
  function above(a) {
    if (a < 0) return 1 - above(-a);
    if (a > 3) {
      let fraction = a;
      for (let k = 200; k; k--) fraction = a + k / fraction;
      return density(a) / fraction;
    }
    let series = a, term = a;
    for (let k = 3; term > 1e-18; k += 2) series += term *= a * a / k;
    return .5 - density(a) * series;
  }

  // The linear world of McMilin (§ 3.1, appendix B) before and after selection: `toy_world.exact`; w, g, x, y are rows.
  // Cov(V | T > θα) = Cov V − λ (λ − a) c cᵀ / σ², c = Cov(V, T), σ² = Var T, a = θα/σ, λ = φ(a) / (1 − Φ(a)).
  function toyWorld(alpha, gamma, threshold, noise = 1) {
    const dot = (u, v) => sum(u.map((x, i) => x * v[i]));
    const loads = [[0, alpha / 2, 0, 0], [alpha, 0, 0, 0],                       // on the noises of G, W, X and Y
      [gamma * alpha, alpha / 2, 1, 0], [gamma * gamma * alpha + alpha, gamma * alpha / 2, gamma, 1]];
    const t = [alpha, alpha / 2, 0, 0], variance = dot(t, t) + noise * noise, a = threshold * alpha / Math.sqrt(variance);
    const c = loads.map(v => dot(v, t)), before = loads.map(u => loads.map(v => dot(u, v)));
    const kept = above(a), ratio = density(a) / kept, shrink = ratio * (ratio - a) / variance;
    return {kept, before, after: before.map((row, i) => row.map((v, j) => v - shrink * c[i] * c[j]))};
  }
  const correlation = (covariance, i, j) => covariance[i][j] / Math.sqrt(covariance[i][i] * covariance[j][j]);

  // Of `count` scores that are drawn from the normal distribution: the density of the least and of the greatest, and the
  // probability that the least of w scores lies above the greatest of 3w others (page 5/07): 1 / (4w choose w).
  const leastDensity = (x, count) => count * density(x) * above(x) ** (count - 1);
  const greatestDensity = (x, count) => leastDensity(-x, count);
  const allAbove = w => Array.from({length: w}, (_, i) => (i + 1) / (3 * w + i + 1)).reduce((share, v) => share * v, 1);

  // How many items a comparison needs (Zhu et al., § 3 and § 4): `measures.sample_size`.
  const FAIL = 1e-8, BITS = 32, CARE = .02, HALF_ALPHA = .025;
  const Z_ALPHA = 1.959963984540054, Z_POWER = .8416212335729143, Z_RESERVE = 1.2815515655446004; // of .975, .8, .9
  const logFunctions = (dim, rule, ways = BITS * Math.log(2)) => rule == "paper" ? Math.log(dim + 1) + ways : (dim + 1) * ways;
  const constant = (dim, rule = "paper", fail = FAIL) => 8 * (Math.log(2 / fail) + logFunctions(dim, rule));
  const recommend = (delta, dim, rule = "paper") => delta ? Math.floor(constant(dim, rule) / (delta * delta)) : Infinity;
  const itemsNeeded = (a, b, z = Z_POWER) => a == b ? Infinity             // test items, Connor's approximation
    : ((Z_ALPHA * Math.sqrt(a + b) + z * Math.sqrt(Math.max(a + b - (a - b) ** 2, 0))) / (a - b)) ** 2;
  const itemsForDifference = (differ, p = Math.max(differ, CARE)) => 4 * itemsNeeded((p + CARE) / 2, (p - CARE) / 2, Z_RESERVE);

  // McNemar's exact test; `a`, `b`: probability that only A, only B is right.
  const logGamma = x => x < 15 ? logGamma(x + 1) - Math.log(x)             // Stirling's series
    : (x - .5) * Math.log(x) - x + .9189385332046727 + (1 / 12 - (1 / 360 - 1 / 1260 / x / x) / x / x) / x;
  const times = (k, p) => k && k * Math.log(p);
  const pmf = (k, m, p) => k < 0 || k > m ? 0 : Math.exp(                  // of a binomial count
    logGamma(m + 1) - logGamma(k + 1) - logGamma(m - k + 1) + times(k, p) + times(m - k, 1 - p));
  const likely = (m, p, spread = 9 * Math.sqrt(m * p * (1 - p)) + 30) =>
    [Math.max(0, Math.floor(m * p - spread)), Math.min(m, Math.floor(m * p + spread))];
  function fewestWins(m) {                                                 // of m items that differ, for p ≤ .05
    let least = likely(m, .5)[1] + 1;
    for (let tail = 0; (tail += pmf(least - 1, m, .5)) <= HALF_ALPHA;) least--;
    return least;
  }
  function mcnemarPower(a, b, n) {
    const differ = Math.min(1, a + b), rates = [.5, a / differ, b / differ], tails = [0, 0, 0];
    if (!differ) return 0;
    const [first, last] = likely(n, differ);
    let least = fewestWins(first), total = 0;
    rates.forEach((p, i) => {                                              // P(at least so many wins), at each rate
      for (let k = least; k <= likely(first, p)[1]; k++) tails[i] += pmf(k, first, p);
    });
    for (let m = first; ; m++) {                                           // items on which A and B differ
      total += pmf(m, n, differ) * ((a >= b ? tails[1] : 0) + (b >= a ? tails[2] : 0));
      if (m == last) return Math.min(1, total);
      rates.forEach((p, i) => { tails[i] += p * pmf(least - 1, m, p); });
      if (tails[0] > HALF_ALPHA) rates.forEach((p, i) => { tails[i] -= pmf(least, m + 1, p); least += i == 2; });
    }
  }
  // All outcomes on n items: [A's lead in items, and the probabilities that it comes out and the test finds nothing, that A is
  // better, that B is].
  function outcomes(a, b, n) {
    const differ = Math.min(1, a + b), p = a / differ, [first, last] = likely(n, differ);
    const leads = Array.from({length: 2 * last + 1}, (_, i) => [i - last, 0, 0, 0]);
    let least = fewestWins(first), tail = 0;
    for (let k = least; k <= first; k++) tail += pmf(k, first, .5);
    for (let m = first; m <= last; m++) {
      const [low, high] = b ? likely(m, p) : [m, m];
      let chance = pmf(m, n, differ) * pmf(low, m, p);
      for (let k = low; k <= high; k++) {
        leads[2 * k - m + last][k >= least ? 2 : m - k >= least ? 3 : 1] += chance;
        chance *= (m - k) / (k + 1) * p / (1 - p);
      }
      tail += pmf(least - 1, m, .5) / 2;
      if (tail > HALF_ALPHA) tail -= pmf(least++, m + 1, .5);
    }
    return leads.filter(([, ...chances]) => sum(chances) > 0);
  }

  globalThis.arithmetic = {totalVariation, completeness, selectivity, reliability, density, above, toyWorld, correlation, leastDensity,
    greatestDensity, allAbove, constant, recommend, itemsNeeded, itemsForDifference, mcnemarPower, outcomes, Z_ALPHA};
})();
