// What the widgets' library leaves open: room for a widget before it is drawn, names for its handle and its picture.
(() => {
  const kind = "script[type='application/vnd.jupyter.widget-";
  const state = document.querySelector(`${kind}state+json']`);
  const models = state ? JSON.parse(state.textContent).state : {};
  const png = id => {                                                            // that of a stack's page on top
    const {state: {children = [], selected_index: top}, buffers} = models[id];
    const shown = top == null ? children : [children[top]];
    return buffers?.[0].data ?? shown.reduce((found, child) => found ?? png(child.replace("IPY_MODEL_", "")), undefined);
  };

  document.querySelectorAll(`${kind}view+json']`).forEach(view => {
    const head = atob(png(JSON.parse(view.textContent).model_id)?.slice(0, 32) ?? "");   // its sides stand at 16 and 20
    const [width, height] = [16, 20].map(at => [0, 1, 2, 3].reduce((n, i) => 256 * n + head.charCodeAt(at + i), 0));
    if (!width) return;
    const least = width > 560 ? `${.8 * width}px` : "0px";                          // on a phone it scrolls sideways
    view.parentElement.style.setProperty("--least", least);
    view.parentElement.style.minHeight
      = `calc(34px + max(${least}, min(${width}px, 100cqi - 4px)) * ${height / width})`;
  });

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
