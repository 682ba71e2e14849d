// Two switches a page, for all folds of code and for all folds that hold a table: all open, or all closed.
// The browser keeps the choices for the other pages.
(() => {
  const folds = {
    code: ".tag_hide-input > details.hide.above-input",
    numbers: ".tag_hide-cell > details.hide:has(table), .tag_hide-output > details.hide:has(table)",
  };
  document.querySelectorAll(".fold-switch").forEach(button => {
    const { folds: kind } = button.dataset, found = document.querySelectorAll(folds[kind]);
    const show = open => {
      found.forEach(fold => { fold.open = open; });
      button.textContent = `${open ? "Hide" : "Show"} all ${kind}`;
      button.setAttribute("aria-pressed", open);
    };
    const kept = () => { try { return localStorage.getItem(kind) === "open"; } catch { return false; } };
    show(kept());
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-pressed") !== "true";
      show(open);
      try { localStorage.setItem(kind, open ? "open" : "closed"); } catch { /* a browser that keeps nothing */ }
    });
  });
})();
