// What holds the page together: the step in hand, keys, search, playing.

const $ = (id) => document.getElementById(id);
const PANELS = { step: stepPanel, messages: messagesPanel, tools: effectsPanel, context: contextPanel };
const TABS = Object.keys(PANELS);
let current = 0;
let tab = "step";
let timer = 0;
let found = [];

function go(step) {
  current = Math.max(0, Math.min(COUNT - 1, step));
  $("range").value = String(current);
  $("range").setAttribute("aria-valuetext", `step ${STEPS.seq[current]} of ${STEPS.seq[COUNT - 1]}, ${kindOf(current)}`);
  show($("place"), el("b", {}, `${STEPS.seq[current]} / ${STEPS.seq[COUNT - 1]}`), el("span", {}, ` +${lasts(STEPS.at[current])}`));
  totals();
  list.paint(current);
  machine.paint(current);
  strip.draw(current);
  timeline.paint(current);
  panel();
}

function totals() {
  const turn = STEPS.turn[current];
  const size = STEPS.context[current] >= 0 ? CONTEXTS.get(STEPS.context[current]).tokens : 0;
  const values = [["round", turn || "–"], ["phase", phaseOf(current)], ["in", tokens(STEPS.in[current])], ["out", tokens(STEPS.out[current])], ["context", tokens(size)], ["cost", money(STEPS.cost[current])]];
  show($("totals"), ...values.map(([name, value]) => el("div", { class: `total-${name}` }, el("dt", {}, name), el("dd", {}, String(value)))));
}

function panel() {
  for (const button of document.querySelectorAll("#tabs button")) button.setAttribute("aria-selected", String(button.dataset.tab === tab));
  const content = $("content");
  show(content, ...PANELS[tab](current));
  content.scrollTop = 0;
  if (tab === "messages") content.scrollTop = content.scrollHeight;
  if (tab === "tools") content.querySelector("tr:not(.future):last-of-type, tr.flying")?.scrollIntoView({ block: "center" });
}

function choose(name) { tab = name; panel(); }

function turnBy(direction) {
  let step = current;
  if (direction > 0) {
    while (step < COUNT - 1 && STEPS.turn[step] === STEPS.turn[current]) step += 1;
  } else {
    while (step > 0 && STEPS.turn[step - 1] === STEPS.turn[current]) step -= 1;
    if (step === current && step > 0) {
      step -= 1;
      while (step > 0 && STEPS.turn[step - 1] === STEPS.turn[step]) step -= 1;
    }
  }
  go(step);
}

function play(on = !timer) {
  clearInterval(timer);
  timer = 0;
  if (on) {
    if (current === COUNT - 1) go(0);
    timer = setInterval(() => { if (current >= COUNT - 1) play(false); else go(current + 1); }, 250);
  }
  $("play").textContent = on ? "‖" : "▶";
  $("play").setAttribute("aria-pressed", String(on));
}

// Everything that a step says, in lower case; made when the first search asks for it.
let haystack = null;
function search(query) {
  const words = query.trim().toLowerCase();
  found = [];
  if (words) {
    haystack ??= Array.from({ length: COUNT }, (_, step) => {
      const { e, f, x, d } = DETAILS.get(step);
      const asked = (f ?? []).map((effect) => (effect.$is === "emit" ? `${effect.$out} ${known(effect.text ?? "")}` : effect.$is));
      return [kindOf(step), STEPS.rows[step].map((row) => ROW_NAMES[row]).join(" "), fullText(e), asked.join(" "), x ?? "", (d ?? []).map(([path]) => path).join(" ")].join(" ").toLowerCase();
    });
    for (let step = 0; step < COUNT; step += 1) if (haystack[step].includes(words)) found.push(step);
  }
  list.hits = new Set(found);
  $("hits").textContent = !words ? "" : found.length ? `${found.length} ${found.length === 1 ? "step" : "steps"}` : "nothing";
  list.fill();
  strip.draw(current);
}

function hitBy(direction, self = false) {
  if (!found.length) return;
  const ahead = direction > 0 ? found.find((step) => (self ? step >= current : step > current)) : found.findLast((step) => step < current);
  go(ahead ?? (direction > 0 ? found[0] : found[found.length - 1]));
}

function theme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  go(current);
}

function large() { document.body.classList.toggle("large"); timeline.draw(); }

const KEYS = {
  ArrowRight: () => go(current + 1),
  ArrowLeft: () => go(current - 1),
  Home: () => go(0),
  End: () => go(COUNT - 1),
  "]": () => turnBy(1),
  "[": () => turnBy(-1),
  " ": () => play(),
  "/": () => { $("query").focus(); $("query").select(); },
  n: () => hitBy(1),
  N: () => hitBy(-1),
  1: () => choose(TABS[0]),
  2: () => choose(TABS[1]),
  3: () => choose(TABS[2]),
  4: () => choose(TABS[3]),
  r: () => timeline.round(),
  a: () => timeline.all(),
  d: large,
  t: theme,
  "?": () => $("keys").showModal(),
};

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const inside = event.target;
  if (inside === $("query")) {
    if (event.key === "Escape") { $("query").value = ""; search(""); $("query").blur(); $("list").focus(); }
    return;
  }
  if ((event.key === " " || event.key === "Enter") && inside.closest("button, summary, [data-step][tabindex]")) return;
  const act = event.shiftKey && event.key === "ArrowRight" ? () => turnBy(1) : event.shiftKey && event.key === "ArrowLeft" ? () => turnBy(-1) : KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  if (event.key !== " " && timer) play(false);
  act();
}

function begin() {
  $("prompt").textContent = INDEX.prompt || INDEX.log;
  const when = new Date(INDEX.created).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
  $("facts").textContent = [INDEX.model, when, lasts(STEPS.at[COUNT - 1]), `run ${INDEX.run}`, `session ${INDEX.session}`, INDEX.parent ? `continues ${INDEX.parent}` : "", INDEX.log].filter(Boolean).join("  ·  ");
  const end = INDEX.terminal;
  $("ending").className = !end ? "open" : end.success ? "good" : "bad";
  $("ending").textContent = end ? `${end.reason} / ${end.cause}` : "no end";
  $("ending").title = end ? end.detail : "the run is still on, or its process died";
  const problems = [INDEX.problem, INDEX.torn ? `The ${end ? "closing line" : "last record"} is torn: it was cut off while it was written.` : "", end && !end.success ? end.detail : ""].filter(Boolean);
  $("banner").hidden = !problems.length;
  $("banner").textContent = problems.join("  ");
  $("range").max = String(COUNT - 1);
  $("range").addEventListener("input", () => go(Number($("range").value)));
  for (const [id, act] of [["go-first", () => go(0)], ["go-back", () => go(current - 1)], ["play", () => play()], ["go-on", () => go(current + 1)], ["go-last", () => go(COUNT - 1)], ["theme", theme], ["help", () => $("keys").showModal()]]) $(id).addEventListener("click", act);
  for (const button of document.querySelectorAll("#tabs button")) button.addEventListener("click", () => choose(button.dataset.tab));
  $("find").addEventListener("submit", (event) => { event.preventDefault(); hitBy(1, true); $("list").focus(); });
  $("query").addEventListener("input", () => search($("query").value));
  $("picture").addEventListener("dblclick", large);
  document.addEventListener("keydown", key);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => go(current));
  machine.begin();
  list.begin();
  strip.begin();
  timeline.begin();
  const wanted = Number(new URLSearchParams(location.hash.slice(1)).get("step"));
  go(Number.isInteger(wanted) && wanted > 0 ? wanted : COUNT - 1);
  $("list").focus({ preventScroll: true });
  document.documentElement.dataset.ready = "yes";
}

begin();
