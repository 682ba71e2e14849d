// Small gaps between the book's parts. Loaded after MathJax, before widgets are drawn.

if (typeof Search !== "undefined") {
  // A page that holds the word both as a term and in its text is listed once, at the term.
  const search = Search._performSearch;
  Search._performSearch = (...words) => {
    const found = new Map();
    for (const hit of search(...words)) {              // the best hit is the last
      const place = `${hit[0]} ${hit[1]}`, other = found.get(place);
      found.delete(place);
      found.set(place, other && other[2] && !hit[2] ? [...hit.slice(0, 2), other[2], ...hit.slice(3)] : hit);
    }
    return [...found.values()];
  };

  // Sphinx's search fetches each hit's page for its excerpt; over file:// a browser refuses that.
  if (location.protocol === "file:") {
    const texts = new Promise((resolve) => {
      const script = document.body.appendChild(document.createElement("script"));
      script.onload = () => resolve(SEARCH_TEXTS);
      script.src = "_static/search_texts.js";
    });
    const name = (address) => address.replace(/^(\.?\/)*/, "").replace(/\.html$/, "");
    window.fetch = async (address) => ({ text: async () => (await texts)[name(address)] });
    Search.htmlToText = (text) => text;
  }
}

// ipywidgets typesets labels through MathJax 2's queue; MathJax 3 has a promise instead.
if (window.MathJax?.startup) {
  MathJax.Hub = {
    Queue: ([, , element]) => MathJax.startup.promise.then(() => MathJax.typesetPromise([element])),
  };
}
