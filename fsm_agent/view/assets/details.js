// The panel of one step: what happened, which rows were taken, what is to be done, what changed.

function rowChip(row) {
  const [name, kind, source, target, text] = INDEX.rows[row];
  const way = source && source !== target ? `${source} → ${target}` : source ? `stays in ${source}` : "nothing changes";
  return el("li", { class: `taken-row ${kind}` }, el("b", {}, name), el("span", { class: "way" }, way), text ? el("span", { class: "why" }, text) : null);
}

function effectBody(effect) {
  const rest = Object.fromEntries(Object.entries(effect).filter(([key]) => key !== "$is" && key !== "$out"));
  return Object.keys(rest).length ? tree(rest, 1) : null;
}

function effectWords(effect) {
  const value = (name) => { const found = known(effect[name]); return typeof found === "string" || typeof found === "number" ? String(found) : ""; };
  switch (effect.$is) {
    case "call_model": return `${known(effect.request.model)}, ${effect.request.messages} messages, about ${tokens(effect.request.estimate)} tokens`;
    case "run_tool": return `${value("name")}`;
    case "cancel": return value("id");
    case "start_timer": return `${lasts(effect.delay_ms)}`;
    case "compact": return `${value("kind")}, ${effect.messages?.length ?? 0} messages`;
    case "emit": return value("text") || value("kind") || value("ending") || value("tool_use_id");
    default: return value("id");
  }
}

function effectItem(effect) {
  const shown = effect.$is === "emit";
  const name = shown ? effect.$out : effect.$is;
  const summary = el("summary", {}, el("span", { class: `effect ${shown ? "output" : "asked"}` }, shown ? "shows" : effect.$is === "cancel" ? "cancels" : "asks for"), el("b", {}, name), el("span", { class: "way" }, effectWords(effect).replace(/\s+/g, " ").slice(0, 120)));
  const box = el("details", { class: "effect-box" }, summary);
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(effectBody(effect) ?? el("p", { class: "null" }, "nothing more"));
  });
  return box;
}

function changeRow([path, was, now]) {
  return el("tr", {}, el("th", { scope: "row" }, path), el("td", { class: "was" }, was ?? "–"), el("td", { class: "is" }, now ?? "–"));
}

function eventBody(step, detail) {
  const event = detail.e;
  const rest = Object.entries(event).filter(([key]) => key !== "$is");
  const made = el("div", {});
  // What was said comes first and whole; the rest is fields.
  const fields = [];
  for (const [key, value] of rest) {
    const part = known(value);
    if (["block", "result", "summary"].includes(key) && part && typeof part === "object") {
      for (const block of Array.isArray(part) ? part : [part]) made.append(blockBody(known(block)));
    } else if (key === "messages" || key === "message") {
      for (const item of Array.isArray(part) ? part : [part]) made.append(Object.hasOwn(item, "$m") ? messageCard(item.$m) : tree(item));
    } else fields.push([key, value]);
  }
  if (fields.length) made.append(tree(Object.fromEntries(fields), step === 0 ? 0 : 1));
  return made;
}

function stepPanel(step) {
  const detail = DETAILS.get(step);
  const parts = [];
  const name = step === 0 ? "start" : kindOf(step);
  parts.push(el("h2", {}, step === 0 ? "Start" : `Step ${STEPS.seq[step]}`, el("span", { class: `event-name ${stepClass(step)}` }, name), el("span", { class: "when" }, `+${lasts(STEPS.at[step])}`)));
  if (detail.x) parts.push(el("p", { class: "refused" }, `refused: ${detail.x}`));
  const rows = STEPS.rows[step];
  if (rows.length) parts.push(el("h3", {}, rows.length > 1 ? `Rows taken, ${rows.length} microsteps` : "Row taken"), el("ol", { class: "taken-rows" }, ...rows.map(rowChip)));
  parts.push(el("h3", {}, step === 0 ? "Configuration" : "Event"), eventBody(step, detail));
  const effects = detail.f ?? [];
  if (effects.length) parts.push(el("h3", {}, `Effects, ${effects.length}`), el("div", { class: "effects" }, ...effects.map(effectItem)));
  if (detail.k?.length) parts.push(el("h3", {}, "Effects (by name only)"), el("p", {}, detail.k.join(", ")));
  const changed = detail.d ?? [];
  if (changed.length) {
    parts.push(el("h3", {}, `State, ${changed.length} ${changed.length === 1 ? "change" : "changes"}`));
    const more = changed.length > 40 ? el("button", { type: "button", class: "more" }, `… ${changed.length - 40} more`) : null;
    const body = el("tbody", {}, ...changed.slice(0, 40).map(changeRow));
    if (more) more.addEventListener("click", () => { body.append(...changed.slice(40).map(changeRow)); more.remove(); });
    parts.push(el("table", { class: "changes" }, el("thead", {}, el("tr", {}, el("th", {}, "field"), el("th", {}, "was"), el("th", {}, "is"))), body));
    if (more) parts.push(more);
  } else if (step > 0 && detail.d) parts.push(el("p", { class: "null" }, "The state did not change."));
  return parts;
}

// Every effect of the run around this step, with its times.
function effectsPanel(step) {
  const at = timeline.spans;
  const before = at.filter((span) => span.steps[0] <= step);
  const after = at.filter((span) => span.steps[0] > step).slice(0, 20);
  const shown = [...before.slice(-180), ...after];
  const head = el("tr", {}, ...["effect", "asked", "waited", "ran", "how", "in / out"].map((word) => el("th", {}, word)));
  const body = shown.map((span) => {
    const flying = span.steps[0] <= step && (span.open || span.steps[2] > step);
    const run = span.started === null ? span.issued : span.started;
    const classes = [flying ? "flying" : "", span.steps[0] > step ? "future" : "", ["failed", "error", "cancelled"].includes(span.how) ? "bad" : ""].join(" ");
    return el(
      "tr",
      { class: classes, "data-step": span.steps[0], tabindex: 0 },
      el("th", { scope: "row" }, span.kind === "tool" ? span.name : `${span.kind} ${span.name}`.trim()),
      el("td", {}, `+${lasts(span.issued)}`),
      el("td", {}, span.started === null ? "–" : lasts(span.started - span.issued)),
      el("td", {}, flying ? `${lasts(Math.max(0, STEPS.at[step] - run))} so far` : span.started === null && span.kind === "tool" ? "did not run" : lasts(span.ended - run)),
      el("td", {}, flying ? "in flight" : span.how, span.detail && !flying ? el("span", { class: "way" }, ` ${span.detail}`) : null),
      el("td", {}, !flying && (span.used[0] || span.used[1]) ? `${tokens(span.used[0])} / ${tokens(span.used[1])}` : ""),
    );
  });
  const table = el("table", { class: "spans" }, el("thead", {}, head), el("tbody", {}, ...body));
  const open = (event) => {
    const row = event.target.closest("[data-step]");
    if (row) go(Number(row.dataset.step));
  };
  table.addEventListener("click", open);
  table.addEventListener("keydown", (event) => { if (event.key === "Enter") open(event); });
  const hidden = before.length - 180;
  const flying = at.filter((span) => span.steps[0] <= step && (span.open || span.steps[2] > step)).length;
  return [el("h2", {}, "Effects", el("span", { class: "when" }, `${before.length} up to here, ${flying} in flight`)), hidden > 0 ? el("p", { class: "null" }, `${hidden} older ones are not listed; step back to see them`) : null, table];
}
