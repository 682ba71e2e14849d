// Two small gaps between the book's parts. Loaded after MathJax, before widgets are drawn.

// Sphinx's search fetches each hit's page for its summary; over file:// a browser refuses that, so list titles only.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// ipywidgets typesets labels through MathJax 2's queue; MathJax 3 has a promise instead.
if (window.MathJax?.startup) {
  MathJax.Hub = {
    Queue: ([, , element]) => MathJax.startup.promise.then(() => MathJax.typesetPromise([element])),
  };
}
