// Boxes of the directive `try-it`: a reader's sentence, the model's verb, what probes read, and edits of the state.
//
// `pocket_model.js` computes, in a worker where the browser allows one. It and the model's numbers (try_it/*.js) are read
// by script elements when a box is first used, since a page that was opened from a disk may read nothing else.
(() => {
  const base = document.currentScript.src.replace(/[^/]*$/, ""), boxes = document.querySelectorAll("form.try-it");
  const NUMBER = ["singular", "plural"], BAD = "The model’s files are not beside this page: build the book with “probebook build”.";
  const STEPS = {INLP: [1, "directions erased"], LEACE: [1, "0: off, 1: on"], AlterRep: [.25, "α"], MeanShift: [.05, "of the way to the other mean"],
    FGSM: [.02, "radius in σ"], PGD: [.02, "radius in σ"]};
  const START = {INLP: 8, LEACE: 1, AlterRep: 1, MeanShift: 1, FGSM: .4, PGD: .4};
  const percent = (p, places = p > .001 && p < .01 || p > .99 && p < .999 ? 1 : 0) => `${(100 * p).toFixed(places)}\u00a0%`;
  let model;                                                     // a promise of ask(operation, value), for all boxes

  const script = address => new Promise((done, fail) => {
    const element = Object.assign(document.createElement("script"), {src: base + address, onload: done, onerror: () => fail(new Error(BAD))});
    document.head.append(element);
  });

  async function load(progress) {
    let about;
    const parts = [];
    await script("pocket_model.js");
    pocketModel.about = found => { about = found; };
    pocketModel.part = (i, text) => { parts[i] = text; };
    await script("try_it/model.js");
    for (let i = 0; i < about.parts.length; i++) {
      progress(i / (about.parts.length + 1));
      await script(`try_it/part_${String(i).padStart(2, "0")}.js`);
    }
    progress(about.parts.length / (about.parts.length + 1));
    const ask = inWorker() ?? onPage();
    const clouds = await ask("open", [about, parts]);
    return {ask, about, clouds};
  }

  // The script's own text runs in the worker: no file is read, so a page from a disk may start it.
  function inWorker() {
    const serve = `${pocketModel}
      const model = pocketModel();
      onmessage = async ({data: [id, name, given]}) => {
        try {
          const answer = await model[name](...given);
          postMessage([id, name == "open" ? model.clouds() : answer]);
        } catch (error) { postMessage([id, undefined, error.message]); }
      };`;
    try {
      const worker = new Worker(URL.createObjectURL(new Blob([serve], {type: "text/javascript"})));
      const waiting = new Map();
      let count = 0;
      worker.onmessage = ({data: [id, answer, line]}) => {
        const {done, fail} = waiting.get(id);
        waiting.delete(id);
        line === undefined ? done(answer) : fail(new Error(line));
      };
      return (name, given) => new Promise((done, fail) => {
        waiting.set(++count, {done, fail});
        worker.postMessage([count, name, given]);
      });
    } catch { return null; }
  }

  function onPage() {
    const own = pocketModel();
    return async (name, given) => {
      const answer = await own[name](...given);
      return name == "open" ? own.clouds() : answer;
    };
  }

  const element = (tag, attributes = {}, ...inside) => {
    const made = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    made.append(...inside);
    return made;
  };
  const drawn = (tag, attributes, ...inside) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    made.append(...inside);
    return made;
  };

  // The sentence with its verb in bold, and how sure the model is.
  function said(place, found, verb, why) {
    const [before, after] = found.text.split("[MASK]"), chosen = verb.plural > .5 ? 1 : 0;
    place.replaceChildren(before, element("strong", {}, verb.forms[chosen]), `${after} `, element("span", {class: "why"},
      `${why}${verb.forms[chosen]} ${percent(verb.probability[chosen])}, ${verb.forms[1 - chosen]} ${percent(verb.probability[1 - chosen])} of all words`));
  }

  // One table: a row for each reading, a column for each state.
  function table(shows, states, about, layer) {
    const body = element("tbody"), cell = p => p === undefined ? element("td", {}, "as before")
      : element("td", {style: `--share: ${100 * p}%`}, percent(p));
    const heading = text => body.append(element("tr", {class: "kind"}, element("th", {colspan: states.length + 2, scope: "rowgroup"}, text)));
    const row = (name, right, cells, kind = "") =>
      body.append(element("tr", {class: kind}, element("th", {scope: "row"}, name), element("td", {class: "right"}, right), ...cells));
    if (shows.has("verb") || shows.has("words")) heading("The verb");
    if (shows.has("verb")) row("plural form against singular", "", states.map(([, s]) => cell(s.verb.plural)));
    if (shows.has("words")) row("likeliest words", "", states.map(([, s]) =>
      element("td", {class: "words"}, s.words.slice(0, 3).map(([word, p]) => `${word} ${percent(p)}`).join(", "))));
    for (const [kind, name, probes] of [["linear", "linear", "Linear probes"], ["oracle", "perceptron", "Judges"]]) {
      if (!shows.has(kind)) continue;
      for (const noun of ["subject", "attractor"]) {
        heading(`${probes}: chance that the ${noun} is plural`);
        for (const at of Object.keys(about.layers).map(Number)) {
          if (kind == "oracle" && at != layer && at != about.depth) continue;
          const {accuracy, usable} = about.layers[at][name][noun];
          row(`layer ${at}`, `${percent(accuracy, 0)}${usable ? "" : ": no judge"}`, states.map(([, s]) => cell(s[name][at]?.[noun])),
            usable ? "" : "unusable");
        }
      }
    }
    const heads = element("tr", {}, element("td"), element("th", {scope: "col"}, "correct on"),
      ...states.map(([name]) => element("th", {scope: "col"}, name)));
    return element("div", {class: "scrolls", tabindex: 0, role: "region", "aria-label": "What verb, probes and judges say"},
      element("table", {}, element("thead", {}, heads), body));
  }

  // The state on its way through the cloud of the layer's states.
  function picture(cloud, states, layer) {
    const W = 460, H = 240, M = 26, places = states.filter(([, s]) => s.place[layer]).map(([name, s]) => [name, ...s.place[layer]]);
    const dots = Array.from({length: cloud.length / 3}, (_, i) => cloud.slice(3 * i, 3 * i + 3));
    const every = [...dots, ...places.map(([, x, y]) => [x, y])], side = i => every.map(point => point[i]);
    const [left, right, low, high] = [Math.min(...side(0)), Math.max(...side(0)), Math.min(...side(1)), Math.max(...side(1))];
    const at = (x, y) => [M + (W - 2 * M) * (x - left) / (right - left), H - M - (H - 2 * M) * (y - low) / (high - low)];
    const marks = dots.map(([x, y, z]) => {
      const [a, b] = at(x, y);
      return z ? drawn("rect", {class: "plural", x: a - 2.5, y: b - 2.5, width: 5, height: 5}) : drawn("circle", {class: "singular", cx: a, cy: b, r: 2.7});
    });
    const named = places.map(([name, x, y], i) => {
      const [a, b] = at(x, y), end = a > W - 110;
      const label = drawn("text", {x: end ? a - 11 : a + 11, y: b + (i == 1 ? 15 : -6), "text-anchor": end ? "end" : "start"}, name);
      return drawn("g", {class: name.split(" ")[0]}, drawn("circle", {cx: a, cy: b, r: 7}), label);
    });
    const [from, to] = [places[0], places.find(([name]) => name == "edited")];
    const way = to ? [drawn("line", Object.fromEntries(["x1", "y1", "x2", "y2"].map((name, i) => [name, [...at(from[1], from[2]), ...at(to[1], to[2])][i]])))] : [];
    const axes = [drawn("text", {class: "axis", x: W - 4, y: H - 6, "text-anchor": "end"}, "towards plural subjects →"),
      drawn("text", {class: "axis", x: 4, y: 13}, "↑ towards plural attractors")];
    const text = `States at layer ${layer}. ${places.map(([name, x, y]) => `${name}: ${x.toFixed(1)} and ${y.toFixed(1)}`).join("; ")}.`;
    const key = element("figcaption", {}, `The blank’s state at layer ${layer} among those of ${dots.length} other sentences: `,
      element("span", {class: "singular"}, "●"), "\u00a0singular subject, ", element("span", {class: "plural"}, "■"), "\u00a0plural subject.");
    return element("figure", {}, drawn("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": text}, ...marks, ...way, ...named, ...axes), key);
  }

  for (const box of boxes) {
    const {example, text, method, layer, to, strength, flip, noun} = box.elements, {dataset} = box;
    const part = name => box.querySelector(name), shows = new Set(dataset.show.split(" ")), bar = part("progress"), line = part("[role=alert]");
    let found, edited, asked, busy = false;                      // the sentence read; its edit; what waits

    const show = () => {
      const {about, clouds} = box.model, at = dataset.methods ? +layer.value : about.depth;
      const states = [["before", found], ...(edited ? [["edited", edited]] : []), ...(found.flipped ? [["flipped", found.flipped]] : [])];
      const now = edited ?? found;
      said(part(".said"), found, now.verb, edited ? `after ${edited.method}: ` : "");
      const parts = shows.has("picture") ? [picture(clouds[at], states, at)] : [];
      part(".found").replaceChildren(...parts, table(shows, states, about, at));
    };
    const refuse = error => {
      line.textContent = error.message;
      part(".shown").hidden = true;
    };

    // The latest wish is answered; those in between are left out while the model is busy.
    const answer = async kind => {
      asked = asked == "read" ? asked : kind;
      if (busy) return;
      busy = true;
      try {
        await ready();
        while (asked) {
          const wish = asked;
          asked = undefined;
          if (wish == "read") await read();
          if (dataset.methods) edited = await box.model.ask("edit", [{text: found.text, layer: +layer.value, method: method.value, strength: +strength.value, to: +to.value}]);
          show();
        }
      } catch (error) { refuse(error); asked = undefined; }
      busy = false;
    };
    const read = async () => {
      const {ask} = box.model, turned = flip.checked ? Math.max(noun.selectedIndex, 0) : undefined;
      const kept = found?.text;
      found = await ask("read", [text.value, turned]);
      line.textContent = found.unknown.length ? `The model does not know ${found.unknown.join(", ")}: it reads a sign for “unknown” there.` : "";
      if (found.text != kept) {
        const nouns = found.flips.map(({word, other}) => `${word} → ${other}`);
        noun.replaceChildren(...(nouns.length ? nouns : ["no noun that this page knows"]).map(text => element("option", {}, text)));
        part(".flip").disabled = !found.flips.length;
        to.value = found.towards;
      }
      part(".shown").hidden = false;
    };
    const ready = async () => {
      if (box.model) return;
      bar.hidden = false;
      model ??= load(share => document.querySelectorAll("form.try-it progress").forEach(p => { p.value = share; }));
      try { box.model = await model; } catch (error) { model = undefined; throw error; } finally { bar.hidden = true; }
      part(".loading").hidden = true;
      const {about} = box.model, layers = (dataset.layers || Object.keys(about.layers).join(" ")).split(" ");
      layer.replaceChildren(...layers.map(k => element("option", {value: k}, k == about.depth ? `${k}, the last` : k)));
      layer.value = layers.at(-1);
      range();
    };
    const range = () => {
      if (!dataset.methods) return;
      Object.assign(strength, {min: 0, max: box.model.about.strengths[method.value], step: STEPS[method.value][0]});
      strength.value = START[method.value];
      part(".to").hidden = ["INLP", "LEACE"].includes(method.value);
      label();
    };
    const label = () => {
      part(".value").textContent = `${+strength.value} (${STEPS[method.value][1]})`;
      strength.setAttribute("aria-valuetext", part(".value").textContent);
    };

    box.onsubmit = () => { answer("read"); return false; };
    box.onkeydown = event => event.stopPropagation();              // the theme's own keys, such as arrows, are not meant
    box.oninput = ({target}) => { if (target == strength) { label(); answer("edit"); } };
    box.onchange = ({target}) => {
      if (target == strength || target == text) return;
      if (target == example) text.value = example.value;
      if (target == method) range();
      if (target == noun) flip.checked = true;
      answer([example, flip, noun].includes(target) ? "read" : "edit");
    };
  }
})();
