// Light or dark before anything is shown: on a first visit the theme itself decides only when its script has loaded,
// and what then changes its look would move.
(({dataset}) => {
  if (dataset.theme === "auto") dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
})(document.documentElement);
