// One switch a page: all folds of code open, or all closed. The browser keeps the choice for the other pages.
(() => {
  const button = document.querySelector(".code-switch");
  const folds = document.querySelectorAll(".tag_hide-input > details.hide.above-input");
  if (!button || !folds.length) return;
  const show = open => {
    folds.forEach(fold => { fold.open = open; });
    button.textContent = open ? "Hide all code" : "Show all code";
    button.setAttribute("aria-pressed", open);
  };
  const kept = () => { try { return localStorage.getItem("code") === "open"; } catch { return false; } };
  show(kept());
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    show(open);
    try { localStorage.setItem("code", open ? "open" : "closed"); } catch { /* a browser that keeps nothing */ }
  });
})();
