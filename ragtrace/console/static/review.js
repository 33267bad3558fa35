// One log after the other: two keys judge one, and the next one, fetched in advance, is there at once. What was judged is
// sent meanwhile; it stays in this page until the server has said that it is stored.
const work = document.querySelector("[data-work]");
const live = document.querySelector("[data-live]");  // it outlives the log that is shown, so it is read out
let prefetched = null;
let saving = Promise.resolve();  // until then the server would give the log that was just judged once more
let unsaved = 0;
let since = 0;
let held = 0;  // the item that was fetched in advance
let waits = false;  // the log on screen was judged, and the next one is not here yet: no key is for it

function here(trace = "") {
  const query = [trace && `trace=${trace}`, work.dataset.query].filter(Boolean).join("&");
  return query ? `/review?${query}` : "/review";
}
const current = () => work.querySelector("[data-task]");
const form = () => work.querySelector("[data-review]");
const asks = () => [...work.querySelectorAll("[data-ask]")];

function say(text, bad = false) {
  const place = work.querySelector("[data-state]");
  live.textContent = text;
  if (!place) return;
  place.textContent = text;
  place.classList.toggle("bad", bad);
}

function choose(at) {
  const all = asks();
  all.forEach((ask) => ask.classList.remove("now"));
  const ask = all[Math.max(0, Math.min(all.length - 1, at))];
  if (!ask) return;
  ask.classList.add("now");
  ask.closest("details")?.setAttribute("open", "");
  if (at > 0) ask.scrollIntoView({ block: "nearest" });
}

const chosen = () => Math.max(0, asks().findIndex((ask) => ask.classList.contains("now")));

async function fetchNext() {
  const item = current()?.dataset.task;
  if (!item || item === "0") return null;
  const response = await fetch(`/review/next?skip=${encodeURIComponent(item)}&${work.dataset.query}`, { headers: { Accept: "text/html" } });
  if (!response.ok) throw new Error(String(response.status));
  const html = await response.text();
  held = Number(/data-task="(\d+)"/.exec(html)?.[1] ?? 0);
  return html;
}

function ahead() {
  prefetched = saving.then(fetchNext).catch(() => null);
}

function show(html) {
  held = 0;
  // Our own server's markup, escaped there like every page; innerHTML runs no script, and the policy allows none.
  work.innerHTML = html;
  scrollTo({ top: 0, behavior: "instant" });
  work.focus({ preventScroll: true });
  begin();
}

function begin() {
  waits = false;
  since = performance.now();
  choose(0);
  const target = form();
  target?.addEventListener("submit", submit);
  // What the lock's clock says is the server's.
  if (current()?.dataset.task !== "0") ahead();
  tick();
}

async function send(body, tries = 4) {
  for (let i = 1; ; i++) {
    try {
      const response = await fetch("/review", { method: "POST", body, headers: { Accept: "application/json" } });
      if (response.ok) return null;
      if (response.status < 500 || i === tries) {
        const told = await response.json().catch(() => ({}));
        return told.detail || told.title || `the server said ${response.status}`;
      }
    } catch {
      if (i === tries) return "the server is away";
    }
    await new Promise((done) => setTimeout(done, 400 * 2 ** i));
  }
}

function hold(on) {
  waits = on;
  form().inert = on;
  if (on) say("The next log is on its way.");
}

function judged(data) {
  const said = [...data].some(([name, value]) => /^(v-|q-|mark$)/.test(name) && value.trim());
  return said || data.get("comment").trim() || data.get("corrected").trim();
}

async function submit(event) {
  event.preventDefault();
  if (waits) return;
  const target = event.target;
  const data = new FormData(target);
  const action = event.submitter?.value ?? "submit";
  data.set("do", action);
  data.set("seconds", ((performance.now() - since) / 1000).toFixed(2));
  const question = asks()[0];
  if (action === "submit" && (question ? !data.get(question.querySelector("input, textarea").name) && !judged(data) : !judged(data))) {
    return say("First press 1 or 2, or write something.", true);
  }
  const body = new URLSearchParams(data);
  const old = { trace: current().dataset.trace };
  const next = current().dataset.task === "0" ? null : prefetched;
  unsaved++;
  hold(true);
  const stored = saving = send(body);
  const html = next && await next;
  if (!html) {  // it could not be fetched in advance
    const failed = await stored;
    unsaved--;
    if (!failed) return location.assign(here());
    hold(false);
    return say(`Not saved: ${failed}`, true);
  }
  show(html);
  performance.mark("ragtrace-next");
  say("saving …");
  const failed = await stored;
  unsaved--;
  if (failed) {
    const place = work.querySelector("[data-state]");
    say(`The last one was not saved (${failed}). `, true);
    const link = document.createElement("a");
    link.href = here(old.trace);
    link.textContent = "Judge it again";
    place?.append(link);
    return;
  }
  if (action === "submit") count();
  const last = document.querySelector("[data-last]");
  last.href = here(old.trace);
  last.closest("p").hidden = false;
  say(action === "submit" ? "saved" : "skipped");
}

function count() {
  for (const [name, by] of [["[data-done]", 1], ["[data-waiting]", -1]]) {
    const place = document.querySelector(name);
    if (place) place.textContent = String(Math.max(0, Number(place.textContent.replaceAll(",", "")) + by));
  }
}

// The page comes without anything that an evaluator said: it is fetched when the reviewer asks for it.
async function reveal() {
  const link = work.querySelector("[data-reveal]");
  if (!link) return;
  const task = current();
  try {
    const response = await fetch(link.dataset.reveal, { headers: { Accept: "text/html" } });
    if (!response.ok) throw new Error(String(response.status));
    const parts = new DOMParser().parseFromString(await response.text(), "text/html");
    if (task !== current()) return;
    for (const name of ["[data-body]", "[data-scores]"]) task.querySelector(name).replaceWith(parts.querySelector(name));
    link.closest("p").remove();
    task.querySelector("[data-scores]").scrollIntoView({ block: "nearest" });
  } catch {
    say("What the evaluators said could not be fetched.", true);
  }
}
work.addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-reveal]")) return;
  event.preventDefault();
  reveal();
});

function undo() {
  const link = document.querySelector("[data-last]");
  if (unsaved) say("The last one is being saved; try again in a moment.", true);
  else if (link && !link.closest("p").hidden) location.assign(link.href);
}

function endDay() {
  if (unsaved) say("The last one is being saved; try again in a moment.", true);
  else document.querySelector("[data-done-form] button").click();
}

function unfold(name, field) {
  const part = work.querySelector(name);
  if (part instanceof HTMLDetailsElement) part.open = true;
  work.querySelector(field)?.focus();
}

function tick() {
  const place = work.querySelector("[data-until]");
  if (!place) return;
  const left = Math.round(Number(place.dataset.until) - Date.now() / 1000);
  place.textContent = left > 0 ? `yours for ${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` : "no longer held for you";
}
setInterval(tick, 1000);

function answer(field) {
  field.closest("details")?.setAttribute("open", "");
  choose(asks().indexOf(field.closest("[data-ask]")));
  if (field.type === "radio") field.checked = true;
  else field.focus();
  say("");
}

let went = 0;  // when g was pressed: the next letter goes to a page
addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.altKey) return;
  const field = event.target instanceof Element && event.target.matches("textarea, select, input:not([type=radio], [type=checkbox])");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    form()?.requestSubmit();
    return event.preventDefault();
  }
  if (field || event.ctrlKey || event.metaKey) return;
  const going = Date.now() - went < 1200;
  went = event.key === "g" ? Date.now() : 0;
  if (going) return;
  if (event.key === "u" || event.key === "d") {
    if (event.key === "u") undo();
    else endDay();
    event.stopImmediatePropagation();
    return event.preventDefault();
  }
  if (!form()) return;
  if (waits) return event.preventDefault();
  const ask = asks()[chosen()];
  const hot = /^[a-z]$/i.test(event.key) && form().querySelector(`[data-hotkey="${event.key}"]`);
  if (hot) answer(hot);
  else if (/^[1-9]$/.test(event.key) && ask) {
    const choices = ask.querySelectorAll("input[type=radio]");
    if (!choices.length) return ask.querySelector("input, textarea").focus();  // the digit is written there
    if (choices.length >= Number(event.key)) answer(choices[Number(event.key) - 1]);
  } else if (event.key === "Backspace" && ask) {
    for (const choice of ask.querySelectorAll("input:checked")) choice.checked = false;
  } else if (event.key === "Enter") {
    if (event.target instanceof Element && event.target.matches("a, button, summary")) return;
    form().requestSubmit();
  } else if (event.key === "j" || event.key === "k") choose(chosen() + (event.key === "j" ? 1 : -1));
  else if (event.key === "c") unfold("[data-review]", "#comment");
  else if (event.key === "e") unfold("[data-corrected]", "#corrected");
  else if (event.key === "s") unfold("[data-skip]", "#reason");
  else if (event.key === "h") reveal();
  else if (event.key === "m") { const more = work.querySelector("[data-review] > details:has([data-ask])"); if (more) more.open = !more.open; }
  else return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

work.addEventListener("focusin", (event) => {
  const at = asks().indexOf(event.target.closest?.("[data-ask]"));
  if (at >= 0 && at !== chosen()) choose(at);
});
addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });
// Whoever leaves gives back what was fetched in advance and never seen.
addEventListener("pagehide", () => {
  const csrf = form()?.elements.csrf?.value;
  if (held && csrf) navigator.sendBeacon("/review", new URLSearchParams({ csrf, item: String(held), do: "release" }));
});
begin();
