// A sentence and the passages it rests on light up together, from both sides. Without script they are links to each other.
const numbers = (element) => (element.dataset.claims ?? "").split(" ").filter(Boolean);

function light(element, on) {
  const wanted = new Set(numbers(element));
  for (const other of (element.closest("[data-case]") ?? document).querySelectorAll("[data-claims]")) {
    if (numbers(other).some((number) => wanted.has(number))) other.classList.toggle("lit", on);
  }
}

const linked = (event) => (event.target instanceof Element ? event.target.closest("[data-claims]") : null);
for (const [kind, on] of [["pointerover", true], ["pointerout", false], ["focusin", true], ["focusout", false]]) {
  document.addEventListener(kind, (event) => { const element = linked(event); if (element) light(element, on); });
}
document.addEventListener("click", (event) => {
  const element = linked(event);
  const href = element?.getAttribute("href");
  if (!href) return;
  const target = document.getElementById(href.slice(1));
  target?.closest("details")?.setAttribute("open", "");
});
// The address may name a passage in a folded chunk.
const named = location.hash && document.getElementById(location.hash.slice(1));
if (named) { named.closest("details")?.setAttribute("open", ""); named.scrollIntoView({ block: "center" }); }
