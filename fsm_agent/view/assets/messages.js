// Messages and the context: what the model was told, and what the layers made of it.

function resultText(content) {
  content = known(content);
  if (typeof content === "string") return [long(content, "text")];
  if (!Array.isArray(content)) return [tree(content)];
  return content.map((part) => blockBody(known(part)));
}

function blockBody(block) {
  if (block === null || typeof block !== "object") return el("div", { class: "block" }, tree(block));
  const text = (name) => { const value = known(block[name]); return typeof value === "string" ? value : ""; };
  switch (block.type) {
    case "text": return el("div", { class: "block said" }, long(text("text"), "text"));
    case "thinking": return el("div", { class: "block thinking" }, el("span", { class: "tag" }, "thinking"), text("thinking") ? long(text("thinking"), "text") : el("span", { class: "null" }, "not shown by the API"));
    case "tool_use": return el("div", { class: "block call" }, el("span", { class: "tag" }, "calls"), el("b", {}, text("name")), el("span", { class: "way" }, text("id")), tree(block.input ?? {}, 0));
    case "tool_result": return el("div", { class: `block result ${known(block.is_error) ? "bad" : ""}` }, el("span", { class: "tag" }, known(block.is_error) ? "error" : "result"), el("span", { class: "way" }, text("tool_use_id")), ...resultText(block.content ?? ""));
    case "image": case "document": return el("div", { class: "block" }, el("span", { class: "tag" }, block.type), tree(block.source ?? {}, 0));
    default: return el("div", { class: "block" }, el("span", { class: "tag" }, String(known(block.type) ?? "block")), tree(block, 1));
  }
}

function messageBody(number) {
  const blocks = INDEX.messages[number][5];
  return el("div", { class: "message-body" }, ...blocks.map((block) => blockBody(POOL.get(block))));
}

function messageCard(number, place = null, fresh = false) {
  const [role, kind, id, size, model] = INDEX.messages[number];
  const head = el("header", {}, place === null ? null : el("span", { class: "seq" }, String(place + 1)), el("b", {}, kind.replaceAll("_", " ")), el("span", { class: "way" }, [role === kind ? "" : role, `${tokens(size)} tokens`, model].filter(Boolean).join(" · ")), fresh ? el("span", { class: "fresh" }, "new") : null);
  head.title = id;
  return el("article", { class: `message ${role} ${kind} ${fresh ? "is-fresh" : ""}` }, head, messageBody(number));
}

const SHOWN = 60;
function messagesPanel(step) {
  const numbers = messagesAt(step);
  const from = changedFrom(step);
  const [blocks, results] = liveAt(step);
  const total = numbers.reduce((sum, number) => sum + INDEX.messages[number][3], 0);
  const parts = [el("h2", {}, "Messages", el("span", { class: "when" }, `${numbers.length}, about ${tokens(total)} tokens`))];
  const start = Math.max(0, numbers.length - SHOWN);
  const holder = el("div", { class: "messages" });
  const cards = (first, last) => numbers.slice(first, last).map((number, place) => messageCard(number, first + place, from >= 0 && first + place >= from));
  if (start > 0) {
    const more = el("button", { type: "button", class: "more" }, `${start} older messages`);
    more.addEventListener("click", () => { holder.prepend(...cards(0, start)); more.remove(); });
    parts.push(more);
  }
  holder.append(...cards(start, numbers.length));
  parts.push(holder);
  if (blocks.length || results.length) {
    parts.push(el("article", { class: "message assistant live" }, el("header", {}, el("b", {}, "reply in flight"), el("span", { class: "way" }, `${blocks.length} blocks, ${results.length} results so far`)), el("div", { class: "message-body" }, ...[...blocks, ...results].map((block) => blockBody(POOL.get(block))))));
  }
  if (!numbers.length && !blocks.length) parts.push(el("p", { class: "null" }, "There are no messages yet."));
  return parts;
}

const LAYERS = [["boundary", "after the last boundary"], ["result_budget", "tool-result budget"], ["media", "media limits"], ["snip", "snip"], ["microcompact", "microcompact"], ["collapse", "collapse"], ["thinking", "thinking"], ["compact", "compaction"]];

function bar(found) {
  const [stage, commit, auto, blocking, window_] = found.limits;
  const top = Math.max(window_ ?? 1, found.tokens, 1);
  const share = (value) => `${Math.min(100, (100 * value) / top)}%`;
  const box = el("div", { class: "window" });
  const fill = el("div", { class: `fill ${auto && found.tokens >= auto ? "over" : ""}` });
  fill.style.width = share(found.tokens);
  box.append(fill);
  for (const [name, at] of [["stage", stage], ["commit", commit], ["compact", auto], ["hard", blocking]]) {
    if (!at) continue;
    const line = el("span", { class: `limit ${name}`, title: `${name} at ${tokens(at)}` });
    line.style.left = share(at);
    box.append(line);
  }
  return box;
}

function contextPanel(step) {
  const number = STEPS.context[step];
  if (number < 0) return [el("h2", {}, "Context"), el("p", { class: "null" }, "No request was prepared up to here.")];
  const found = CONTEXTS.get(number);
  const parts = [el("h2", {}, "Context", el("span", { class: "when" }, `prepared in step ${STEPS.seq[found.step]} for ${found.model}`))];
  parts.push(bar(found));
  const [stage, commit, auto, blocking, window_] = found.limits;
  const facts = [["the view", found.tokens], ["with user context", found.blocking], ["cannot be cut", found.fixed], ["collapses staged at", stage], ["committed at", commit], ["compaction at", auto], ["hard limit", blocking], ["window", window_]];
  parts.push(el("dl", { class: "facts" }, ...facts.filter(([, value]) => value !== undefined).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, tokens(value))])));
  parts.push(el("h3", {}, "What the view holds"));
  const kinds = Object.entries(found.kinds).sort((a, b) => b[1][1] - a[1][1]);
  const all = Math.max(1, kinds.reduce((sum, [, [, size]]) => sum + size, 0));
  parts.push(el("table", { class: "kinds" }, el("tbody", {}, ...kinds.map(([kind, [count, size]]) => {
    const share = el("div", { class: `share ${kind}` });
    share.style.width = `${Math.max(1, (100 * size) / all)}%`;
    return el("tr", {}, el("th", { scope: "row" }, kind.replaceAll("_", " ")), el("td", {}, String(count)), el("td", {}, tokens(size)), el("td", { class: "wide" }, share));
  }))));
  parts.push(el("h3", {}, "What the layers did in this pass"));
  const reports = found.reports.map((report) => ({ layer: known(report.layer), freed: report.freed ?? 0, detail: known(report.detail ?? ""), ids: report.ids ?? [], cut: report.cut ?? false }));
  if (reports.length) {
    parts.push(el("table", { class: "layers" }, el("tbody", {}, ...reports.map((report) => el("tr", {}, el("th", { scope: "row" }, report.layer), el("td", {}, report.freed ? `freed ${tokens(report.freed)}` : ""), el("td", {}, report.detail || (report.ids.length ? `${report.ids.length} touched` : "")), el("td", {}, report.cut ? "declared cut" : ""))))));
  } else parts.push(el("p", { class: "null" }, "Nothing had to be cut."));
  const memory = [];
  if (found.replaced) memory.push(["results replaced by a preview", found.replaced]);
  if (found.freed) memory.push(["freed since the last real count", tokens(found.freed)]);
  if (found.base) memory.push(["last real count", `${tokens(found.base[0])} (${found.base[1]})`]);
  for (const [id, size, ready, committed] of found.spans) memory.push([`collapse ${id}`, `${tokens(size)}, ${committed ? "committed" : ready ? "staged" : "being made"}`]);
  if (memory.length) parts.push(el("h3", {}, "What the layers remember"), el("dl", { class: "facts" }, ...memory.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))])));
  const cuts = [];
  for (let place = step; place > 0 && cuts.length < 8; place -= 1) if (flag(place, MARK.CUT)) cuts.push(place);
  if (cuts.length) {
    parts.push(el("h3", {}, "Cuts up to here"), el("ul", { class: "cuts" }, ...cuts.map((place) => {
      const words = (DETAILS.get(place).f ?? []).filter((effect) => effect.$out === "boundary").map((effect) => `${known(effect.kind)} (${known(effect.trigger)}): ${tokens(effect.before)} → ${effect.after >= 0 ? tokens(effect.after) : "known to the API"} tokens${effect.detail ? `, ${known(effect.detail)}` : ""}`);
      const link = el("button", { type: "button", class: "link" }, `step ${STEPS.seq[place]}`);
      link.addEventListener("click", () => go(place));
      return el("li", {}, link, ` ${words.join("; ")}`);
    })));
  }
  return parts;
}
