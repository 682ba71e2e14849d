// A term's definition beside its link, for the pointer and the keyboard; Escape closes it. The page holds the text.
(() => {
  let link, tip, pending;
  const hide = () => { if (tip) tip.hidden = true; link = tip = undefined; };
  const place = () => {
    if (!tip) return;
    const [at, edge] = [link.getBoundingClientRect(), 8];
    const below = at.bottom + tip.offsetHeight + edge < innerHeight || at.top < tip.offsetHeight + edge;
    tip.style.top = `${below ? at.bottom : at.top - tip.offsetHeight}px`;
    const right = document.documentElement.clientWidth - tip.offsetWidth - edge;
    tip.style.left = `${Math.max(edge, Math.min(link.getClientRects()[0].left, right))}px`;
  };
  const enter = ({target}) => {
    const term = target.closest?.("a[aria-describedby^='tip-term-']");
    if (!term || term === link) return;
    hide();
    [link, tip] = [term, document.getElementById(term.getAttribute("aria-describedby"))];
    tip.hidden = false;
    place();
  };
  const leave = () => {       // the pointer has time to move onto the definition
    clearTimeout(pending);
    pending = setTimeout(() => { if (tip && !link.matches(":hover, :focus") && !tip.matches(":hover")) hide(); }, 250);
  };
  for (const event of ["pointerover", "focusin"]) document.addEventListener(event, enter);
  for (const event of ["pointerout", "focusout"]) document.addEventListener(event, leave);
  document.addEventListener("keydown", ({key}) => { if (key === "Escape") hide(); });
  document.addEventListener("click", hide);
  for (const event of ["scroll", "resize"]) addEventListener(event, place, {capture: true, passive: true});
})();
