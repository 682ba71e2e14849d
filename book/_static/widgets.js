// Names for what the widgets' library leaves without one: a slider's handle, and the picture that it moves.
(() => {
  const name = () => document.querySelectorAll(".widget-vbox").forEach(box => {
    const label = box.querySelector(".widget-label")?.textContent ?? "slider";
    const shown = box.querySelector(".widget-readout")?.textContent ?? "";
    box.querySelectorAll(".noUi-handle").forEach(handle => {
      if (handle.getAttribute("aria-valuetext") !== shown) handle.setAttribute("aria-valuetext", shown);
      handle.setAttribute("aria-label", label);
    });
    box.querySelectorAll("img.widget-image").forEach(image => {
      if (image.alt !== `${label} ${shown}`) image.alt = `${label} ${shown}`;
    });
  });
  new MutationObserver(name).observe(document.documentElement, {childList: true, subtree: true, characterData: true});
})();
