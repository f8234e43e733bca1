// The timeline: every effect as a bar from when it was asked for to its answer; what ran at once lies on lanes side by side.

const LANE = 17, AXIS = 20, LABELS = 74;
const GROUPS = [["model", ["call"]], ["tools", ["tool"]], ["context", ["compact", "collapse", "summary"]], ["around", ["hooks", "attachments", "memory", "skills", "timer"]]];

const PACES = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200].map((seconds) => seconds * 1000)];

// A time since the start, as exact as the marks beside it are apart.
function clock(time, pace) {
  const seconds = Math.floor(time / 1000);
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const digits = pace >= 1000 ? "" : `.${String(Math.round(time) % 1000).padStart(3, "0").slice(0, pace >= 100 ? 1 : pace >= 10 ? 2 : 3)}`;
  if (hours) return `${hours}:${two(minutes)}:${two(seconds % 60)}${digits}`;
  return minutes || pace >= 15000 ? `${minutes}:${two(seconds % 60)}${digits}` : `${seconds % 60}${digits} s`;
}

const timeline = {
  canvas: document.getElementById("lanes"),
  tip: document.getElementById("tip"),
  what: document.getElementById("time-what"),
  spans: [],
  groups: [],
  from: 0, to: 1, end: 1,
  follow: "round",
  step: 0,

  begin() {
    this.end = Math.max(1, STEPS.at[COUNT - 1]);
    this.spans = INDEX.spans.map(([id, kind, name, call, times, steps, how, detail, used]) => ({
      id, kind, name, call, issued: times[0], started: times[1], ended: times[2] ?? this.end, open: times[2] === null,
      steps, how, detail, used, lane: 0, group: 0,
    }));
    this.arrange();
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("dblclick", () => this.all());
    document.getElementById("time-all").addEventListener("click", () => this.all());
    document.getElementById("time-round").addEventListener("click", () => this.round());
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
  },

  // Each bar gets the first lane of its group that is free when it begins.
  arrange() {
    for (const [group, [name, kinds]] of GROUPS.entries()) {
      const ends = [];
      for (const span of this.spans) {
        if (!kinds.includes(span.kind)) continue;
        let lane = ends.findIndex((end) => end <= span.issued);
        if (lane < 0) lane = ends.length;
        ends[lane] = Math.max(span.ended, span.issued + 1e-6);
        span.lane = lane;
        span.group = group;
      }
      this.groups.push({ name, lanes: ends.length });
    }
  },

  all() { this.follow = "all"; this.window(); this.draw(); },
  round() { this.follow = "round"; this.window(); this.draw(); },

  // The stretch of time that is shown: all of it, or the round of the step in hand.
  window() {
    if (this.follow === "free") {
      const at = STEPS.at[this.step];
      if (at < this.from || at > this.to) { const width = this.to - this.from; this.from = at - width / 2; this.to = at + width / 2; }
      return;
    }
    let [from, to] = [0, this.end];
    if (this.follow === "round") {
      const turn = STEPS.turn[this.step];
      let first = this.step, last = this.step;
      while (first > 0 && STEPS.turn[first - 1] === turn) first -= 1;
      while (last < COUNT - 1 && STEPS.turn[last + 1] === turn) last += 1;
      [from, to] = [STEPS.at[first], STEPS.at[Math.min(COUNT - 1, last + 1)]];
    }
    const width = Math.max(1, to - from);
    this.from = from - width * 0.02;
    this.to = to + width * 0.02;
  },

  paint(step) { this.step = step; this.window(); this.draw(); },

  x(time) { return LABELS + ((time - this.from) / (this.to - this.from)) * (this.width - LABELS - 8); },
  time(x) { return this.from + ((x - LABELS) / (this.width - LABELS - 8)) * (this.to - this.from); },

  layout() {
    // Lanes of this window only: what is not shown takes no room.
    let y = AXIS;
    const rows = new Map();
    for (const [group, { name }] of this.groups.entries()) {
      const lanes = [...new Set(this.spans.filter((span) => span.group === group && this.seen(span)).map((span) => span.lane))].sort((a, b) => a - b);
      lanes.forEach((lane, place) => rows.set(`${group} ${lane}`, y + place * LANE));
      if (lanes.length) { rows.set(name, y); y += lanes.length * LANE + 5; }
    }
    return { rows, height: y + 2 };
  },
  seen(span) { return span.issued <= this.to && span.ended >= this.from; },

  draw() {
    const box = this.canvas.parentElement;
    this.width = Math.max(200, box.clientWidth);
    const { rows, height } = this.layout();
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = this.width * ratio;
    this.canvas.height = Math.max(60, height) * ratio;
    this.canvas.style.height = `${Math.max(60, height)}px`;
    this.rowsShown = rows;
    const pen = this.canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(name).trim();
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, this.width, height);
    this.axis(pen, ink, height);
    const now = STEPS.at[this.step];
    for (const span of this.spans) if (this.seen(span)) this.bar(pen, ink, span, rows.get(`${span.group} ${span.lane}`));
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.fillStyle = ink("--faint");
    for (const { name } of this.groups) if (rows.has(name)) pen.fillText(name, 8, rows.get(name) + 12);
    pen.strokeStyle = ink("--now");
    pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(this.x(now), 2); pen.lineTo(this.x(now), Math.max(60, height)); pen.stroke();
    const shown = this.follow === "all" ? "the whole run" : this.follow === "free" ? "a part" : STEPS.turn[this.step] ? `round ${STEPS.turn[this.step]}` : "before the first round";
    this.what.textContent = `${shown}, ${lasts(Math.round(this.to - this.from))}`;
  },

  axis(pen, ink, height) {
    const wide = this.to - this.from;
    const raw = wide / Math.max(2, (this.width - LABELS) / 110);
    const pace = PACES.find((part) => part >= raw) ?? Math.ceil(raw / 86400000) * 86400000;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    // Counted, not added up: a time so large that a pace more is the same time must not hold the page.
    const first = Math.max(0, Math.ceil(this.from / pace));
    for (let mark = 0; mark <= this.width; mark += 1) {
      const time = (first + mark) * pace;
      if (!(time <= this.to)) break;
      const x = this.x(time);
      pen.strokeStyle = ink("--line");
      pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(x, AXIS - 5); pen.lineTo(x, Math.max(60, height)); pen.stroke();
      pen.fillStyle = ink("--faint");
      pen.fillText(clock(time, pace), x, 11);
    }
  },

  bar(pen, ink, span, y) {
    const [left, right] = [Math.max(LABELS, this.x(span.issued)), Math.min(this.width - 4, this.x(span.ended))];
    const width = Math.max(2, right - left);
    const hue = SPAN_HUES[span.kind] ?? 0;
    const dark = isDark();
    const bad = span.how === "failed" || span.how === "error";
    const colour = bad ? ink("--bad") : `hsl(${hue} ${dark ? "45% 42%" : "60% 62%"})`;
    const future = span.issued > STEPS.at[this.step] && this.step < span.steps[0];
    pen.globalAlpha = future ? 0.35 : 1;
    // Waiting to start is drawn pale, running solid.
    const start = span.started === null ? left : Math.min(right, Math.max(left, this.x(span.started)));
    pen.fillStyle = `hsl(${hue} ${dark ? "30% 26%" : "60% 86%"})`;
    pen.fillRect(left, y + 2, width, LANE - 4);
    if (span.started !== null || !["tool", "call"].includes(span.kind)) {
      pen.fillStyle = colour;
      pen.fillRect(start, y + 2, Math.max(1.5, left + width - start), LANE - 4);
    }
    if (span.how === "cancelled" || span.open) {
      pen.strokeStyle = ink("--bad");
      pen.setLineDash([3, 2]);
      pen.strokeRect(left + 0.5, y + 2.5, width - 1, LANE - 5);
      pen.setLineDash([]);
    }
    const text = span.name || span.kind;
    if (width > 34) {
      pen.save();
      pen.beginPath(); pen.rect(left, y, width - 3, LANE); pen.clip();
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "left";
      pen.fillStyle = dark ? "#f5f7fa" : "#101828";
      pen.fillText(text, left + 4, y + 12.5);
      pen.restore();
    }
    pen.globalAlpha = 1;
  },

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const found = this.spans.filter((span) => {
      const top = this.rowsShown?.get(`${span.group} ${span.lane}`);
      return this.seen(span) && top !== undefined && y >= top && y < top + LANE && x >= this.x(span.issued) - 2 && x <= Math.max(this.x(span.ended), this.x(span.issued) + 2) + 2;
    });
    return { x, y, span: found[found.length - 1] };
  },

  press(event) {
    const { x, span } = this.at(event);
    if (span) { go(span.steps[0]); return; }
    const time = this.time(x);
    go(Math.max(0, lastUpTo(STEPS.at, time)));
  },

  hover(event) {
    const { x, y, span } = this.at(event);
    this.tip.hidden = !span;
    if (!span) return;
    this.tip.textContent = spanWords(span);
    this.tip.style.left = `${Math.min(x + 12, this.width - 250)}px`;
    this.tip.style.top = `${y + 40}px`;
  },

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) < Math.abs(event.deltaY)) return;
    event.preventDefault();
    this.follow = "free";
    const width = this.to - this.from;
    if (event.ctrlKey) {
      const centre = this.time(event.clientX - this.canvas.getBoundingClientRect().left);
      const scale = Math.exp(event.deltaY * 0.003);
      this.from = centre - (centre - this.from) * scale;
      this.to = centre + (this.to - centre) * scale;
    } else {
      const by = ((event.deltaX || event.deltaY) / this.width) * width;
      this.from += by;
      this.to += by;
    }
    this.draw();
  },
};

function spanWords(span) {
  const run = span.started === null ? span.issued : span.started;
  const parts = [span.name || span.kind, `${lasts(span.ended - run)}${span.open ? " and on" : ""}`];
  if (span.started !== null && span.started > span.issued) parts.push(`began after ${lasts(span.started - span.issued)}`);
  parts.push(span.how);
  if (span.detail) parts.push(span.detail);
  if (span.used[0] || span.used[1]) parts.push(`${tokens(span.used[0])} in, ${tokens(span.used[1])} out`);
  return parts.join(" · ");
}
