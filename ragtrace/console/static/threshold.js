// The slider has the scale of the picture below it, and stops where something changes. Figures come from the table of all
// thresholds, which the page has anyway.
const part = document.querySelector("[data-threshold]");
const slider = part?.querySelector("input[type=range]");
if (slider) {
  const rows = [...part.querySelectorAll("[data-step]")];
  const exact = rows.map((row) => Number(row.dataset.exact));
  const output = part.querySelector("output");
  const line = part.querySelector(".limit.threshold");
  const { left, right, low, high } = Object.fromEntries(Object.entries(slider.dataset).map(([key, value]) => [key, Number(value)]));
  const nearest = (value) => exact.reduce((best, one, i) => (Math.abs(one - value) < Math.abs(exact[best] - value) ? i : best), 0);
  let at = nearest(Number(slider.dataset.exact));
  const show = () => {
    const row = rows[at];
    output.textContent = row.dataset.step;
    slider.setAttribute("aria-valuetext", row.dataset.step);
    const share = Math.min(1, Math.max(0, (exact[at] - low) / (high - low)));
    for (const end of ["x1", "x2"]) line?.setAttribute(end, (left + (right - left) * share).toFixed(1));
    for (const figure of part.querySelectorAll("[data-figure]")) {
      const cell = row.querySelector(`[data-of="${figure.dataset.figure}"]`);
      figure.querySelector("[data-value]").textContent = cell.textContent;
      figure.querySelector("[data-span]").textContent = cell.dataset.span;
    }
  };
  const keep = () => {
    slider.value = exact[at];
    const address = new URL(location.href);
    address.searchParams.set("threshold", exact[at]);
    address.searchParams.delete("at");
    history.replaceState(null, "", address);
  };
  const go = (place) => {
    at = Math.max(0, Math.min(rows.length - 1, place));
    show();
    keep();
  };
  slider.addEventListener("input", () => { at = nearest(Number(slider.value)); show(); });
  slider.addEventListener("change", keep);
  const KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -rows.length, End: rows.length };
  slider.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    go(at + KEYS[event.key]);
  });
  const reset = part.querySelector("[data-reset]");
  if (reset) {
    reset.hidden = false;
    reset.addEventListener("click", () => { go(nearest(Number(reset.dataset.reset))); slider.focus(); });
  }
}
