// What every page has: theme, keys, lists. Without it all of them work with links and forms.
const root = document.documentElement;
const typing = (target) => target instanceof Element && target.matches("input:not([type=radio],[type=checkbox],[type=range]), textarea, select, [contenteditable]");

for (const button of document.querySelectorAll("[data-theme-toggle]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it holds for this page */ }
  });
}

const help = document.getElementById("keys");
for (const button of document.querySelectorAll("[data-keys]")) {
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
}

// What is open where there is room is folded on a phone.
if (matchMedia("(max-width: 40rem)").matches) for (const part of document.querySelectorAll("[data-wide]")) part.open = false;

document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// A table that is wider than its box says so; the shadow at its side is there without script, too.
for (const box of document.querySelectorAll(".scroll")) {
  const table = box.querySelector("table");
  if (!table) continue;
  const hint = Object.assign(document.createElement("p"), { className: "small soft sideways", textContent: "There is more at the side: scroll →", hidden: true });
  table.before(hint);
  const watch = new ResizeObserver(() => { hint.hidden = box.scrollWidth <= box.clientWidth + 1; });
  watch.observe(box);
  watch.observe(table);
}

// Times are in UTC; at the pointer they are also the reader's.
for (const time of document.querySelectorAll("time[datetime]")) time.title = `${new Date(time.dateTime).toLocaleString()}, your time`;

// Selects that need no button where there is script.
for (const control of document.querySelectorAll("[data-submit]")) {
  control.addEventListener("change", () => control.form.requestSubmit());
}
for (const part of document.querySelectorAll("[data-noscript]")) part.hidden = true;
// A form of filters leaves out what is empty, so that its address stays short.
for (const form of document.querySelectorAll("form[data-filters]")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  });
}
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[data-filters] :disabled")) field.disabled = false;
});

function step(by) {
  const items = [...document.querySelectorAll("[data-list] a.cover")];
  if (!items.length) return false;
  const at = items.indexOf(document.activeElement);
  const next = items[at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

let prefix = 0;
addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  const go = Date.now() - prefix < 1200 && document.querySelector(`.top nav a[data-key="${CSS.escape(event.key)}"]`);
  prefix = 0;
  if (go) location.assign(go.href);
  else if (event.key === "?") help.showModal();
  else if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (!field) { location.assign(document.querySelector(".top").dataset.traces); return event.preventDefault(); }
    field.focus();
    field.select();
  } else if (event.key === "g") prefix = Date.now();
  else if (event.key === "t") document.querySelector("[data-theme-toggle]")?.click();
  else if (event.key === "j" || event.key === "k") { if (!step(event.key === "j" ? 1 : -1)) return; }
  else if (event.key === "n" || event.key === "p") {
    const link = document.querySelector(`a[rel~="${event.key === "n" ? "next" : "prev"}"]`);
    if (!link) return;
    link.click();
  } else return;
  event.preventDefault();
});
