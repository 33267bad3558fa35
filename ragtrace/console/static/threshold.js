// The slider: figures come from the table of all thresholds, which the page has anyway.
const part = document.querySelector("[data-threshold]");
const slider = part?.querySelector("input[type=range]");
if (slider) {
  const rows = [...part.querySelectorAll("[data-step]")];
  const output = part.querySelector("output");
  const line = part.querySelector(".limit.threshold");
  const { left, right, low, high } = Object.fromEntries(Object.entries(slider.dataset).map(([key, value]) => [key, Number(value)]));
  const show = () => {
    const row = rows[Number(slider.value)];
    output.textContent = row.dataset.step;
    slider.setAttribute("aria-valuetext", row.dataset.step);
    const share = Math.min(1, Math.max(0, (Number(row.dataset.exact) - low) / (high - low)));
    for (const end of ["x1", "x2"]) line?.setAttribute(end, (left + (right - left) * share).toFixed(1));
    for (const figure of part.querySelectorAll("[data-figure]")) {
      const cell = row.querySelector(`[data-of="${figure.dataset.figure}"]`);
      figure.querySelector("[data-value]").textContent = cell.textContent;
      figure.querySelector("[data-span]").textContent = cell.dataset.span;
    }
  };
  slider.addEventListener("input", show);
  slider.addEventListener("change", () => {
    const address = new URL(location.href);
    address.searchParams.set("at", slider.value);
    address.searchParams.delete("threshold");
    history.replaceState(null, "", address);
  });
  const reset = part.querySelector("[data-reset]");
  if (reset) {
    reset.hidden = false;
    reset.addEventListener("click", () => { slider.value = reset.dataset.reset; slider.dispatchEvent(new Event("input")); slider.focus(); });
  }
}
