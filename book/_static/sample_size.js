// How many items a comparison needs: `probebook.measures.sample_size` and `pilots` for forms that need no kernel.
// `sampleSize.accuracies(fields)` and `.files(fields)` answer {name: [text, numbers]} or throw one line. `figures.calculator` of the chapters
// makes the forms; their fields are acc_a, acc_b, differ (in percent), dim, items or file_a, file_b, dim. It follows arithmetic.js.
(() => {
  const COLLAPSE = .02, POWER = .8, {Z_ALPHA, recommend, itemsNeeded, itemsForDifference, mcnemarPower} = arithmetic;
  const refuse = line => { throw new Error(line); };
  function judge(a, b, n) {                  // intervals: mean ± 1.96 standard deviations of the Dirichlet posterior
    const x = (n * a + .5) / (n + 1.5), y = (n * b + .5) / (n + 1.5), gap = x - y, power = mcnemarPower(a, b, n);
    const away = Z_ALPHA * Math.sqrt((x + y - gap * gap) / (n + 2.5)), low = gap - away, high = gap + away;
    const train = (d, p = Math.max(x + y, d)) => d > 0 ? 4 * itemsNeeded((p + d) / 2, (p - d) / 2) : Infinity;
    const range = a > b ? [train(high), train(low)] : a < b ? [train(-low), train(-high)] : [Infinity, Infinity];
    const word = power >= POWER ? "enough" : Math.max(-low, high) < COLLAPSE ? "collapsed" : "need N";
    return {low, high, power, word, range};
  }
  const count = n => isFinite(n) ? Math.ceil(n).toLocaleString("en-US") : "no number";
  const percent = (share, places = 2) => (100 * share).toFixed(places), signed = d => (d < 0 ? "" : "+") + percent(d);
  const within = texts => ` [${texts.join(", ")}]`;
  const either = ([one, two]) => two ? `${one} (nested errors) to ${two} (independent errors)` : one;
  function report(delta, ends, n, dim) {     // field: [text, numbers]; `ends`: one or two times [only A, only B]
    const all = n ? ends.map(([a, b]) => judge(a, b, n)) : [], words = [...new Set(all.map(v => v.word))];
    const test = ends.map(([a, b]) => itemsNeeded(a, b)), train = test.map(v => 4 * v), sure = all[1] ? [] : all;
    const cared = ends.map(([a, b]) => itemsForDifference(a + b));
    const [paper, right] = ["paper", "correct"].map(rule => recommend(delta, dim, rule));
    const why = {enough: "the power on the pilot is at least 80 %", collapsed: "less than 2 percentage points apart",
      "need N": delta ? `${either(train.map(count))} training items, by power` : "but there is no difference to go by"};
    const verdict = !n ? "none without the number of items in the pilot" : !words[1] ? `${words}: ${why[words]}`
      : `${words.join(" or ")}: it depends on how often both err on the same items`;
    return {verdict: [verdict], items: [n ? count(n) : "not given", n], test: [either(test.map(count)), test],
      delta: [signed(delta) + sure.map(v => within([v.low, v.high].map(signed))), sure.flatMap(v => [v.low, v.high])],
      only: [either(ends.map(e => e.map(v => percent(v)).join(", "))), ends], paper: [count(paper), paper],
      power: [n ? either(all.map(v => percent(v.power, 1))) : "–", all.map(v => v.power)],
      correct: [count(right), right], cared: [either(cared.map(count)), cared],
      train: [either(train.map(count)) + sure.map(v => within(v.range.map(count))), sure.flatMap(v => v.range)]};
  }
  const number = field => field.validity.valid ? field.valueAsNumber           // NaN: nothing was typed
    : refuse(`${field.labels[0].textContent.trim()}: ${field.title}.`);
  const share = field => Math.round(1e10 * number(field)) / 1e12;              // the double of .813 from 81.3
  function accuracies({acc_a, acc_b, dim, items, differ}) {
    const [a, b, p] = [acc_a, acc_b, differ].map(share), [width, n] = [dim, items].map(number), gap = Math.abs(a - b);
    const most = Math.min(a + b, 2 - a - b), high = Math.max(a, b), low = Math.min(a, b);
    if (high <= .01) refuse("Accuracies of 1 % or less: type percent, such as 71, not .71.");
    if (!gap) refuse("Equal accuracies: no number of items tells A from B.");
    if (p < gap - 1e-9 || p > most + 1e-9)
      refuse(`With these accuracies A and B disagree on ${+percent(gap, 4)} % to ${+percent(most, 4)} % of the items.`);
    const ends = p >= 0 ? [[(p + gap) / 2, Math.max(0, p - gap) / 2]]
      : [[gap, 0], [high * (1 - low), low * (1 - high)]];
    return report(a - b, a > b ? ends : ends.map(e => e.reverse()), n, width);
  }
  const BITS_READ = {0: 0, 1: 1, "0.0": 0, "1.0": 1, False: 0, True: 1};
  function pilot(text, name) {                     // as `pilots.read`; a row an item: its id, what each seed got right
    const cells = line => Array.from((line + ",").matchAll(/"((?:[^"]|"")*)",|([^,]*),/g),
      ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain);
    const [head = [], ...rows] = text.split(/\r?\n/).filter(line => line.trim()).map(cells);
    const [id, given, label] = ["id", "prediction", "label"].map(key => head.indexOf(key));
    const same = (v, w) => +(v !== "" && (v == w || w !== "" && +v == +w));
    const found = rows.map(row => ({id: row[id], right: Math.min(given, label) >= 0 ? [same(row[given], row[label])]
      : row.filter((_, i) => i != id).map(v => BITS_READ[v])}));
    const fits = ({right}, i) => rows[i].length == head.length && right.length && !right.includes(undefined);
    return found.length && found.every(fits) ? found
      : refuse(`${name}: give a CSV file with columns prediction and label, or 0 and 1 (right) in one column a seed.`);
  }
  async function files({file_a, file_b, dim}) {
    const picked = [file_a, file_b].map(f => f.files[0] ?? refuse("Choose both files, that of A and that of B."));
    const [a, b] = await Promise.all(picked.map(async file => pilot(await file.text(), file.name)));
    const named = "id" in a[0] && a[0].id != null && b[0].id != null, n = a.length, seeds = a[0].right.length;
    if (named) [a, b].forEach(rows => rows.sort((v, w) => v.id < w.id ? -1 : 1));
    if (b.length != n || named && a.some((v, i) => v.id != b[i].id || i && v.id == a[i - 1].id))
      refuse(`A has ${count(n)} items, B ${count(b.length)}: both files need the same items, each once.`);
    if (b[0].right.length != seeds) refuse("Both files need as many columns of 0 and 1 (seeds).");
    const won = sign => a.flatMap(({right}, i) => right.filter((v, j) => v - b[i].right[j] == sign)).length / n / seeds;
    return report(won(1) - won(-1), [[won(1), won(-1)]], n, number(dim));
  }
  globalThis.sampleSize = {accuracies, files};
})();
