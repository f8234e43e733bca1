// Small things for showing: elements, numbers, values. Text goes in as text only, never as markup.

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function show(parent, ...children) { parent.replaceChildren(...children.filter((child) => child !== null)); }

function tokens(number) {
  if (number < 10000) return number.toLocaleString("en");
  if (number < 1e6) return `${(number / 1000).toFixed(number < 1e5 ? 1 : 0)}k`;
  return `${(number / 1e6).toFixed(2)}M`;
}

function money(micro) {
  const dollars = micro / 1e6;
  return `$${dollars.toFixed(dollars >= 1 ? 2 : 4)}`;
}

function lasts(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  const seconds = Math.floor(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${seconds % 60} s`;
}

const PHASE_HUES = {
  ready: 145, preparing: 45, deciding: 45, calling_model: 215, backing_off: 25, compacting: 280,
  reactive_compacting: 300, running_tools: 175, gathering_attachments: 195, running_stop_hooks: 330,
  completed: 145,
};
function phaseColour(phase, dark) {
  const hue = PHASE_HUES[phase] ?? 5;
  return dark ? `hsl(${hue} 55% 55%)` : `hsl(${hue} 65% 50%)`;
}
const SPAN_HUES = { call: 215, tool: 175, compact: 280, collapse: 265, hooks: 330, attachments: 195, memory: 60, skills: 75, summary: 90, timer: 25 };

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

const SHORT_TEXT = 1200;
// A text, cut with a button that shows the rest.
function long(text, className = "") {
  if (text.length <= SHORT_TEXT) return el("pre", { class: className }, text);
  const shown = el("pre", { class: className }, text.slice(0, SHORT_TEXT));
  const more = el("button", { type: "button", class: "more" }, `… ${(text.length - SHORT_TEXT).toLocaleString("en")} more characters`);
  more.addEventListener("click", () => { shown.textContent = text; more.remove(); });
  return el("div", {}, shown, more);
}

function keyName(key) { return key.startsWith("\\") ? key.slice(1) : key; }

// A JSON value as nested lists; what is deep or long waits until it is opened.
function tree(value, depth = 0) {
  value = known(value);
  if (value === null) return el("span", { class: "null" }, "none");
  if (typeof value === "string") {
    if (value.includes("\n") || value.length > 160) return long(value, "text");
    return el("span", { class: "string" }, value === "" ? "“”" : value);
  }
  if (typeof value !== "object") return el("span", { class: "number" }, String(value));
  if (Object.hasOwn(value, "$m")) return messageReference(value.$m);
  const entries = Array.isArray(value) ? value.map((item, place) => [String(place), item]) : Object.entries(value).filter(([key]) => key !== "$is");
  if (!entries.length) return el("span", { class: "null" }, Array.isArray(value) ? "[ ]" : "{ }");
  if (Array.isArray(value) && entries.every(([, item]) => item === null || typeof item !== "object")) {
    if (value.length <= 12) return el("span", { class: "string" }, value.join(", "));
  }
  const fill = () => {
    const list = el("dl", { class: "tree" });
    for (const [key, item] of entries) list.append(el("dt", {}, keyName(key)), el("dd", {}, tree(item, depth + 1)));
    return list;
  };
  const few = Array.isArray(value) ? 2 : depth < 2 ? 60 : 6;
  if (depth < 4 && entries.length <= few) return fill();
  const box = el("details", {}, el("summary", {}, Array.isArray(value) ? `${entries.length} items` : entries.map(([key]) => keyName(key)).join(", ").slice(0, 80)));
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(fill()); });
  return box;
}

function messageReference(number) {
  const [role, kind, id, size] = INDEX.messages[number];
  const box = el("details", { class: "reference" }, el("summary", {}, `${kind} message ${id} (${role}, ${tokens(size)} tokens)`));
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(messageBody(number)); });
  return box;
}
