// pocket-agreement in plain JavaScript: tokenizer, forward pass, probes and edits, for pages that are opened from a disk.
//
//   const model = pocketModel();
//   await model.open(about, parts);                             // what `probebook_book.try_it` wrote
//   model.read("The keys to the cabinet [MASK] here.");         // verb, likeliest words, what probes read
//   model.edit({layer: 4, method: "AlterRep", strength: 1});    // the same, for the sentence read last
//
// The function is whole in itself, so that a page may hand its text to a worker. Arrays of states are row after row.
function pocketModel() {
  const refuse = line => { throw new Error(line); };
  let about, arrays, tokenIds, nouns, last;

  // ---- reading the scripts -------------------------------------------------------------------------------------------

  // Seven bits of each character: `publish.try_it._characters`.
  function bytesOf(text, length, bytes, start) {
    for (let i = 0, held = 0, bits = 0, at = start; at < start + length; i++) {
      held = held << 7 | text.charCodeAt(i) & 127;
      bits += 7;
      if (bits >= 8) {
        bits -= 8;
        bytes[at++] = held >> bits;
        held &= (1 << bits) - 1;
      }
    }
  }

  // Floats from their bytes, which lie apart: all first ones, then all second ones (`publish.try_it._planes`).
  function joined(bytes, start, count, Words) {
    const size = Words.BYTES_PER_ELEMENT, whole = new Uint8Array(count * size);
    for (let b = 0; b < size; b++)
      for (let i = 0, from = start + b * count; i < count; i++) whole[i * size + b] = bytes[from + i];
    return new Words(whole.buffer);
  }

  function fromHalf(bits) {                                      // an IEEE float16
    const sign = bits >> 15 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * fraction / 1024);
  }

  async function open(description, parts) {
    if (typeof DecompressionStream == "undefined") refuse("This browser is too old to unpack the model: please update it.");
    about = description;
    const packed = new Uint8Array(about.parts.reduce((sum, n) => sum + n));
    about.parts.reduce((start, n, i) => (bytesOf(parts[i], n, packed, start), start + n), 0);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const size = shape => shape.reduce((product, n) => product * n, 1);
    const count = shapes => Object.values(shapes).reduce((sum, shape) => sum + size(shape), 0);
    const table = Float64Array.from({length: 65536}, (_, bits) => fromHalf(bits));
    const halves = joined(bytes, 0, count(about.halves), Uint16Array);
    const singles = joined(bytes, 2 * count(about.halves), count(about.singles), Float32Array);
    arrays = {};
    const take = (shapes, values) => Object.entries(shapes).reduce((start, [name, shape]) => {
      arrays[name] = values.slice(start, start + size(shape));
      return start + size(shape);
    }, 0);
    const weights = new Float64Array(halves.length);
    for (let i = 0; i < halves.length; i++) weights[i] = table[halves[i]];
    take(about.halves, weights);
    take(about.singles, Float64Array.from(singles));
    tokenIds = new Map(about.vocabulary.map((word, i) => [word, i]));
    nouns = new Map(about.nouns.flatMap(([one, many]) => [[one, many], [many, one]]));
  }

  // ---- the tokenizer: BERT's uncased WordPiece -----------------------------------------------------------------------

  const BLANK = "[MASK]";
  function pieces(word) {                                        // the longest known pieces, from the left
    const found = [];
    if ([...word].length > 100) return ["[UNK]"];
    for (let start = 0, end; start < word.length; start = end) {
      const mark = start ? "##" : "";
      for (end = word.length; end > start && !tokenIds.has(mark + word.slice(start, end)); end--);
      if (end == start) return ["[UNK]"];
      found.push(mark + word.slice(start, end));
    }
    return found;
  }

  const words = text => text.replace(/[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/gu, "").replace(/\p{Script=Han}/gu, " $& ")
    .normalize("NFD").replace(/\p{Mn}/gu, "").toLowerCase()
    .split(/\s+|([!-\/:-@[-`{-~]|\p{P})/u).filter(Boolean);

  // A blank is "[MASK]" or a line of underscores.
  function tokens(typed) {
    const text = typed.replace(/_+|\[mask\]/gi, BLANK).trim(), [before, after, ...more] = text.split(BLANK);
    if (!text) refuse("Type a sentence with a blank for its verb: The keys to the cabinet ___ on the table.");
    if (after === undefined) refuse("There is no blank: write ___ (underscores) where the verb belongs.");
    if (more.length) refuse("There are several blanks: leave one, where the verb belongs.");
    const parts = [before, after].map(part => words(part).map(word => [word, pieces(word)]));
    if (!parts.flat().length) refuse("There is nothing but a blank: type the words around it.");
    const unknown = parts.flat().filter(([, found]) => found[0] == "[UNK]").map(([word]) => `“${word.slice(0, 20)}”`);
    const [left, right] = parts.map(part => part.flatMap(([, found]) => found));
    const all = ["[CLS]", ...left, BLANK, ...right, "[SEP]"];
    if (all.length > about.tokens)
      refuse(`That is too long: the model reads ${about.tokens - 2} pieces of words at most, and this text has ${all.length - 2}.`);
    return {tokens: all, blank: left.length + 1, unknown, text, before: before.trimEnd(), after: after.trimStart()};
  }

  // ---- arithmetic on rows --------------------------------------------------------------------------------------------

  // x [n, inner] times the transpose of w [outer, inner]; eight products at a time, since each number read serves twice or more.
  // In double precision: numbers of single precision would be turned into double ones at each reading.
  function product(x, n, w, inner, out = w.length / inner) {
    const y = new Float64Array(n * out);
    for (let r = 0; r < n; r += 4) {
      const r1 = Math.min(r + 1, n - 1), r2 = Math.min(r + 2, n - 1), r3 = Math.min(r + 3, n - 1);
      const a = r * inner, b = r1 * inner, c = r2 * inner, d = r3 * inner;
      for (let o = 0; o < out; o += 2) {
        const o1 = Math.min(o + 1, out - 1), p = o * inner, q = o1 * inner;
        let ap = 0, aq = 0, bp = 0, bq = 0, cp = 0, cq = 0, dp = 0, dq = 0;
        if (n == 1) for (let i = 0; i < inner; i++) {
          const xa = x[i];
          ap += xa * w[p + i]; aq += xa * w[q + i];
        } else for (let i = 0; i < inner; i++) {
          const wp = w[p + i], wq = w[q + i], xa = x[a + i], xb = x[b + i], xc = x[c + i], xd = x[d + i];
          ap += xa * wp; aq += xa * wq; bp += xb * wp; bq += xb * wq;
          cp += xc * wp; cq += xc * wq; dp += xd * wp; dq += xd * wq;
        }
        y[r * out + o] = ap; y[r * out + o1] = aq;
        if (n == 1) continue;
        y[r1 * out + o] = bp; y[r1 * out + o1] = bq; y[r2 * out + o] = cp; y[r2 * out + o1] = cq;
        y[r3 * out + o] = dp; y[r3 * out + o1] = dq;
      }
    }
    return y;
  }

  const dot = (a, b, from = 0) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[from + i]; return sum; };
  const sigmoid = x => 1 / (1 + Math.exp(-x));
  function softmax(x) {
    const top = x.reduce((a, b) => Math.max(a, b)), e = Float64Array.from(x, v => Math.exp(v - top)), sum = e.reduce((a, b) => a + b);
    return e.map(v => v / sum);
  }
  function erf(x) {                                              // Abramowitz and Stegun 7.1.26, right to 1.5e-7
    const t = 1 / (1 + .3275911 * Math.abs(x));
    const tail = t * (.254829592 + t * (-.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return Math.sign(x) * (1 - tail * Math.exp(-x * x));
  }
  const gelu = x => x * .5 * (1 + erf(x * Math.SQRT1_2));
  function norm(x, gain, d = about.width) {                      // each row: mean 0, variance 1, times gain
    const y = new Float64Array(x.length);
    for (let start = 0; start < x.length; start += d) {
      let mean = 0, square = 0;
      for (let i = start; i < start + d; i++) mean += x[i] / d;
      for (let i = start; i < start + d; i++) square += (x[i] - mean) ** 2 / d;
      const scale = 1 / Math.sqrt(square + about.eps);
      for (let i = 0; i < d; i++) y[start + i] = (x[start + i] - mean) * scale * gain[i];
    }
    return y;
  }

  // ---- the network: ModernBERT ---------------------------------------------------------------------------------------

  const weight = name => arrays[`model.${name}.weight`];
  const row = (x, r, d = about.width) => x.slice(r * d, (r + 1) * d);
  const added = (x, y) => x.map((v, i) => v + y[i]);

  // Queries and keys turn with their token's place (rotary positions).
  function rotate(qkv, place, start) {
    const d = about.width, size = d / about.heads, half = size / 2;
    for (let i = 0; i < half; i++) {
      const angle = place * about.theta ** (-2 * i / size), cos = Math.cos(angle), sin = Math.sin(angle);
      for (let at = start + i; at < start + 2 * d; at += size) {
        const a = qkv[at], b = qkv[at + half];
        qkv[at] = a * cos - b * sin;
        qkv[at + half] = b * cos + a * sin;
      }
    }
  }

  // Queries, keys and values [n, 3d] of the tokens at `places` that block k reads.
  function attended(k, h, places) {
    const x = k ? norm(h, weight(`layers.${k}.attn_norm`)) : h;
    const qkv = product(x, places.length, weight(`layers.${k}.attn.Wqkv`), about.width);
    places.forEach((place, i) => rotate(qkv, place, i * 3 * about.width));
    return qkv;
  }

  // What block k makes of the tokens at `places`, whose states are h; they read all t tokens' keys and values.
  function block(k, h, qkv, places) {
    const d = about.width, t = qkv.length / (3 * d), size = d / about.heads, mixed = new Float64Array(places.length * d);
    places.forEach((place, r) => {
      for (let head = 0; head < d; head += size) {
        const scores = new Float64Array(t);
        for (let j = 0; j < t; j++) {
          let sum = 0;
          for (let i = head; i < head + size; i++) sum += qkv[place * 3 * d + i] * qkv[j * 3 * d + d + i];
          scores[j] = sum / Math.sqrt(size);
        }
        softmax(scores).forEach((share, j) => {
          for (let i = head; i < head + size; i++) mixed[r * d + i] += share * qkv[j * 3 * d + 2 * d + i];
        });
      }
    });
    const part = name => weight(`layers.${k}.${name}`), n = places.length;
    const between = added(h, product(mixed, n, part("attn.Wo"), d));
    const wide = product(norm(between, part("mlp_norm")), n, part("mlp.Wi"), d), inner = wide.length / n / 2;
    const gated = new Float64Array(n * inner);
    for (let r = 0; r < n; r++)
      for (let i = 0; i < inner; i++) gated[r * inner + i] = gelu(wide[2 * r * inner + i]) * wide[(2 * r + 1) * inner + i];
    return added(between, product(gated, n, part("mlp.Wo"), inner));
  }

  // From the states that block `first` reads to the last layer: states of all tokens before each block, queries, keys and
  // values in it, and the blank's state at each layer. `known`: queries, keys and values of the first block.
  function onward(first, h, blank, known) {
    const {depth, width} = about, t = h.length / width, all = Array.from({length: t}, (_, i) => i);
    const inputs = {}, kept = {}, states = {};
    for (let k = first; k < depth; k++) {
      inputs[k] = h;
      states[k] = row(h, blank);
      kept[k] = k == first && known || attended(k, h, all);
      h = k < depth - 1 ? block(k, h, kept[k], all) : block(k, states[k], kept[k], [blank]);   // the head reads the blank alone
    }
    states[depth] = norm(h, weight("final_norm"));
    return {inputs, kept, states, blank};
  }

  function pass(ids, blank) {
    const d = about.width, h = new Float64Array(ids.length * d), table = weight("embeddings.tok_embeddings");
    ids.forEach((id, i) => h.set(row(table, id), i * d));
    return onward(0, norm(h, weight("embeddings.norm")), blank);
  }

  // The blank's states from `layer` on, once `state` stands there: `models.patching.carry`.
  function carried(run, layer, state) {
    if (layer == about.depth) return {[layer]: state};
    const h = run.inputs[layer].slice(), qkv = run.kept[layer].slice();
    h.set(state, run.blank * about.width);
    qkv.set(attended(layer, state, [run.blank]), run.blank * 3 * about.width);
    return onward(layer, h, run.blank, qkv).states;
  }

  function logits(state) {
    const x = norm(product(state, 1, arrays["head.dense.weight"], about.width).map(gelu), arrays["head.norm.weight"]);
    return added(product(x, 1, weight("embeddings.tok_embeddings"), about.width), arrays["decoder.bias"]);
  }

  // ---- probes and edits ----------------------------------------------------------------------------------------------

  const linear = (layer, noun, h) => { const w = arrays[`${layer}.linear.${noun}`]; return dot(h, w) + w[h.length]; };

  // A perceptron's inputs of each layer, then its log-odds of plural; and the gradient of these in the state.
  function perceptron(layer, noun, h) {
    const name = i => arrays[`${layer}.perceptron.${noun}.${i}`], inputs = [h];
    for (let i = 0, w; (w = name(i)); i++) {
      const x = inputs[i], n = x.length + 1, y = new Float64Array(w.length / n);
      y.forEach((_, o) => { y[o] = dot(x, w, o * n) + w[o * n + x.length]; });
      inputs.push(name(i + 1) ? y.map(v => Math.max(v, 0)) : y);
    }
    const [singular, plural] = inputs.at(-1);
    const gradient = () => {
      let up = Float64Array.of(-1, 1);
      for (let i = inputs.length - 2; i >= 0; i--) {
        const x = inputs[i], w = name(i), down = new Float64Array(x.length);
        up.forEach((g, o) => { for (let j = 0; j < x.length; j++) down[j] += g * w[o * (x.length + 1) + j]; });
        up = i ? down.map((g, j) => x[j] > 0 ? g : 0) : down;
      }
      return up;
    };
    return {odds: plural - singular, gradient};
  }

  // Steps of an attack towards the wanted number, within eps of the state in every coordinate.
  function attack(layer, h, to, eps, steps, length) {
    const toward = to ? 1 : -1, x = h.slice();
    for (let step = 0; step < steps; step++)
      perceptron(layer, "attacked", x).gradient().forEach((g, i) => {
        x[i] += toward * length * Math.sign(g);
        x[i] = Math.min(Math.max(x[i], h[i] - eps), h[i] + eps);
      });
    return x;
  }

  const EDITS = {                                                // (layer, state, strength, wanted number) → state
    INLP: (layer, h, rank) => along(h, arrays[`${layer}.inlp`].subarray(0, rank * h.length), x => -x),
    AlterRep: (layer, h, alpha, to) =>
      along(h, arrays[`${layer}.alterrep`], x => alpha * (to ? 1 : -1) * Math.abs(x) - x),
    LEACE: (layer, h, on) => {
      const d = h.length, numbers = arrays[`${layer}.leace`], right = numbers.subarray(d, 2 * d), mean = numbers.subarray(2 * d);
      const share = dot(right, h.map((v, i) => v - mean[i]));
      return h.map((v, i) => v - on * share * numbers[i]);
    },
    MeanShift: (layer, h, s, to) => h.map((v, i) => v + s * arrays[`${layer}.shift`][to * h.length + i]),
    FGSM: (layer, h, radius, to, eps = radius * arrays[`${layer}.sigma`][0]) => attack(layer, h, to, eps, 1, eps),
    PGD: (layer, h, radius, to, eps = radius * arrays[`${layer}.sigma`][0]) => attack(layer, h, to, eps, 40, 2.5 * eps / 40),
  };
  function along(h, directions, change) {                        // orthonormal rows; each part of h along one changes
    const parts = [], y = Float64Array.from(h);
    for (let at = 0; at < directions.length; at += h.length) parts.push(dot(h, directions, at));
    parts.forEach((part, r) => { for (let i = 0; i < h.length; i++) y[i] += change(part) * directions[r * h.length + i]; });
    return Float64Array.from(y);
  }

  // ---- answers -------------------------------------------------------------------------------------------------------

  // What verb, probes and picture say of a blank's states, by layer; forms: [singular, plural], or those the model likes best.
  function answer(states, forms) {
    const scores = logits(states[about.depth]), p = softmax(scores), of = word => p[tokenIds.get(word)];
    const pair = forms ?? about.verbs.reduce((a, b) => of(b[0]) + of(b[1]) > of(a[0]) + of(a[1]) ? b : a);
    const best = [];                                             // the five likeliest ids, the first one first
    p.forEach((share, id) => {
      if (best.length == 5 && share <= p[best[4]]) return;
      best.push(id);
      best.sort((a, b) => p[b] - p[a]).splice(5);
    });
    const at = Object.keys(states).map(Number).filter(layer => layer > 0), nounsOf = read => ({subject: read("subject"), attractor: read("attractor")});
    const axis = (layer, i) => dot(states[layer], arrays[`${layer}.axes`], i * about.width);
    const each = make => Object.fromEntries(at.map(layer => [layer, make(layer)]));
    return {
      verb: {forms: pair, probability: pair.map(of), plural: of(pair[1]) / (of(pair[0]) + of(pair[1]))},
      words: best.map(id => [about.vocabulary[id], p[id]]),
      linear: each(layer => nounsOf(noun => sigmoid(linear(layer, noun, states[layer])))),
      perceptron: each(layer => nounsOf(noun => sigmoid(perceptron(layer, noun, states[layer]).odds))),
      place: each(layer => [axis(layer, 0), axis(layer, 1)]),
    };
  }

  // Words of the lexicon of nouns before the blank, each with the sentence in which it has the other number.
  function flips({before, after}) {
    const swap = {this: "these", these: "this", that: "those", those: "that"};
    const parts = before.split(/([A-Za-z]+)/);
    return parts.flatMap((word, i) => {
      const other = nouns.get(word.toLowerCase());
      if (!other) return [];
      const changed = parts.slice(), article = parts[i - 2]?.toLowerCase();
      changed[i] = word[0] == word[0].toUpperCase() ? other[0].toUpperCase() + other.slice(1) : other;
      if (swap[article]) changed[i - 2] = /^[A-Z]/.test(parts[i - 2]) ? swap[article][0].toUpperCase() + swap[article].slice(1) : swap[article];
      return [{word, other, text: `${changed.join("")} ${BLANK} ${after}`.trim()}];
    });
  }

  function looked(typed, forms) {
    const found = tokens(typed), run = pass(found.tokens.map(token => tokenIds.get(token)), found.blank);
    const result = answer(run.states, forms);
    return {...found, run, forms: result.verb.forms, towards: result.verb.plural > .5 ? 0 : 1, result};
  }

  // `flipped`: also show the sentence in which the noun of this number among `flips` has the other number.
  function read(typed, flipped) {
    last = looked(typed);
    const {tokens: all, blank, unknown, text, result} = last, turned = flips(last), other = turned[flipped];
    return {text, tokens: all, blank, unknown, flips: turned, towards: last.towards, ...result,
      flipped: other && looked(other.text, last.forms).result};
  }

  // A sentence, by default the one read last, once its blank's state at a layer is edited; `to`: 0 singular, 1 plural, by
  // default the other number than the verb's.
  function edit({text = last.text, layer, method, strength, to}) {
    if (text != last?.text) last = looked(text);
    to ??= last.towards;
    if (!EDITS[method] || !(layer >= 1 && layer <= about.depth) || !(strength >= 0 && strength <= about.strengths[method]))
      refuse(`${method} at layer ${layer}, strength ${strength}: there is no such edit.`);
    const state = EDITS[method](layer, last.run.states[layer], strength, to);
    return {...answer(carried(last.run, layer, state), last.forms), layer, method, strength, to};
  }

  // For tests: all logits of the sentence read last, or of its edited state.
  const scores = () => Array.from(logits(last.run.states[about.depth]));
  const clouds = () => Object.fromEntries(Object.keys(about.layers).map(layer => [layer, Array.from(arrays[`${layer}.cloud`])]));
  return {open, read, edit, scores, clouds};
}
