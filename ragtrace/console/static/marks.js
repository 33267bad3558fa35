// Parts of the answer are marked as wrong, by mouse or by keyboard. Places are code points of the stored text, as the
// server counts them. The list of checkboxes is what the form sends; the colour in the answer follows it.
const work = document.querySelector("[data-work]");
const live = document.querySelector("[data-live]");
const NAMES = { unsupported: "not supported", contradicted: "contradicted" };
const ADDED = ".sign, .hidden, .ctl:not([data-n])";  // what the page adds to the answer's own text

const box = () => work.querySelector("[data-marks]");
const answers = () => [...work.querySelectorAll("[data-body] .answer")];

// The text nodes of an answer, and the elements that stand for characters without a shape, each with its length.
function* parts(node) {
  for (const child of node.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) yield [child, [...child.data].length];
    else if (child.nodeType === Node.ELEMENT_NODE && !child.matches(ADDED)) {
      if (child.dataset.n) yield [child, Number(child.dataset.n)];
      else yield* parts(child);
    }
  }
}

const all = () => answers().flatMap((root) => [...parts(root)]);
const size = (root) => [...parts(root)].reduce((sum, [, count]) => sum + count, 0);
const characters = () => all().flatMap(([node, count]) => (node.nodeType === Node.TEXT_NODE ? [...node.data] : Array(count).fill("\ufffd")));

function placeOf(node, offset) {
  let before = 0;
  for (const root of answers()) {
    if (root.contains(node)) {
      const range = document.createRange();
      range.setStart(root, 0);
      range.setEnd(node, offset);
      return before + size(range.cloneContents());
    }
    before += size(root);
  }
  return null;
}

function pointAt(place, isEnd) {
  let left = place;
  for (const [node, count] of all()) {
    if (left < count || (isEnd && left === count)) {
      if (node.nodeType === Node.TEXT_NODE) return [node, [...node.data].slice(0, left).join("").length];
      return [node.parentNode, [...node.parentNode.childNodes].indexOf(node) + (isEnd ? 1 : 0)];
    }
    left -= count;
  }
  return null;
}

function rangeOf(start, end) {
  const from = pointAt(start, false), to = pointAt(end, true);
  if (!from || !to) return null;
  const range = document.createRange();
  range.setStart(...from);
  range.setEnd(...to);
  return range;
}

// The selected part of the answer as [start, end], without white space around it; null where nothing of it is selected.
function selected() {
  const selection = getSelection();
  const roots = answers();
  if (!box() || selection.isCollapsed || !selection.rangeCount || !roots.length) return null;
  const range = selection.getRangeAt(0);
  if (!roots.some((root) => range.intersectsNode(root))) return null;
  const text = characters();
  let start = placeOf(range.startContainer, range.startOffset) ?? 0;
  let end = placeOf(range.endContainer, range.endOffset) ?? text.length;
  while (start < end && !text[start].trim()) start++;
  while (start < end && !text[end - 1].trim()) end--;
  return start < end ? [start, end] : null;
}

function select(start, end) {
  const range = rangeOf(start, end);
  if (!range) return;
  range.startContainer.parentElement?.closest("details")?.setAttribute("open", "");
  getSelection().setBaseAndExtent(range.startContainer, range.startOffset, range.endContainer, range.endOffset);
  range.startContainer.parentElement?.scrollIntoView({ block: "nearest" });
  live.textContent = characters().slice(start, end).join("");
}

const marks = () => [...(box()?.querySelectorAll("input[name=mark]:checked") ?? [])].map((input) => {
  const [start, end, verdict] = input.value.split(":");
  return { start: Number(start), end: Number(end), verdict, input };
});

function paint() {
  if (!globalThis.CSS?.highlights) return;  // the list says the same
  for (const verdict of Object.keys(NAMES)) {
    const ranges = marks().filter((mark) => mark.verdict === verdict).map((mark) => rangeOf(mark.start, mark.end));
    CSS.highlights.set(`mark-${verdict}`, new Highlight(...ranges.filter(Boolean)));
  }
}

function add(verdict) {
  const place = selected();
  if (!place) return false;
  const [start, end] = place;
  for (const mark of marks()) if (mark.start === start && mark.end === end) mark.input.closest("li").remove();
  const words = characters().slice(start, end).join("");
  const input = Object.assign(document.createElement("input"), { type: "checkbox", name: "mark", value: `${start}:${end}:${verdict}`, checked: true });
  const name = Object.assign(document.createElement("b"), { textContent: NAMES[verdict] });
  const text = document.createElement("span");
  text.append(`“${words.length > 120 ? `${words.slice(0, 119)}…` : words}” `, name);
  const label = Object.assign(document.createElement("label"), { className: "mark" });
  label.append(input, " ", text);
  const item = document.createElement("li");
  item.append(label);
  box().querySelector("ul").append(item);
  getSelection().removeAllRanges();
  live.textContent = `marked as ${NAMES[verdict]}: ${words}`;
  paint();
  return true;
}

function take() {
  const place = selected();
  if (!place) return false;
  for (const mark of marks()) if (mark.start < place[1] && mark.end > place[0]) mark.input.closest("li").remove();
  live.textContent = "mark taken away";
  paint();
  return true;
}

const sentences = () => (box()?.dataset.sentences ?? "").split(" ").filter(Boolean).map((pair) => pair.split("-").map(Number));

function words() {
  const text = characters();
  const places = [];
  const whole = text.join("");
  const pieces = globalThis.Intl?.Segmenter
    ? [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(whole)].filter((piece) => piece.isWordLike).map((piece) => [piece.index, piece.segment])
    : [...whole.matchAll(/\S+/gu)].map((piece) => [piece.index, piece[0]]);
  let unit = 0, place = 0;
  for (const [index, piece] of pieces) {
    place += [...whole.slice(unit, index)].length;
    unit = index;
    places.push([place, place + [...piece].length]);
  }
  return places;
}

function begin() {
  const list = sentences();
  const last = Math.max(-1, ...marks().map((mark) => mark.end));
  const next = list.find(([start]) => start >= last) ?? list[0];
  if (next) select(...next);
  return Boolean(next);
}

function move(key, more) {
  const place = selected();
  if (!place) return false;
  const [start, end] = place;
  if (key === "ArrowDown" || key === "ArrowUp") {
    const list = sentences();
    const next = key === "ArrowDown" ? list.find(([from]) => from > start) : list.findLast(([from]) => from < start);
    if (next) select(...next);
  } else if (more) {
    const list = words();
    const next = key === "ArrowRight" ? list.find(([, to]) => to > end) : list.findLast(([from, to]) => to < end && from >= start);
    if (next) select(start, next[1]);
  } else {
    const list = words();
    const next = key === "ArrowRight" ? list.find(([from]) => from > start) : list.findLast(([from]) => from < start);
    if (next) select(...next);
  }
  return true;
}

addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.altKey || event.ctrlKey || event.metaKey || !box()) return;
  if (event.target instanceof Element && event.target.matches("textarea, select, input:not([type=radio], [type=checkbox])")) return;
  let used = false;
  if (event.key === "w") used = add("unsupported") || begin();
  else if (event.key === "x") used = add("contradicted");
  else if (event.key.startsWith("Arrow")) used = move(event.key, event.shiftKey);
  else if (event.key === "Backspace" || event.key === "Delete") used = take();
  else if (event.key === "Escape" && selected()) { getSelection().removeAllRanges(); used = true; }
  if (!used) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

work.addEventListener("mousedown", (event) => { if (event.target.closest?.("[data-mark]")) event.preventDefault(); });  // the selection stays
work.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-mark]");
  if (button && !add(button.dataset.mark)) live.textContent = "Select words of the answer first.";
});
work.addEventListener("change", paint);

function ready() {
  const hint = box()?.querySelector("[data-mark-hint]");
  if (hint) hint.hidden = false;
  paint();
}
new MutationObserver(ready).observe(work, { childList: true, subtree: true });
ready();
