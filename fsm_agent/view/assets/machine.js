// The machine: how often each row was taken up to a step, where the run stands, and which way it came.

const LABEL_LINE = 15;
const ROW_NAMES = INDEX.rows.map((row) => row[0]);

const machine = {
  svg: document.getElementById("machine"),
  at: -1,
  counts: new Int32Array(INDEX.rows.length),
  entered: new Map(),
  nodes: new Map(),
  edges: [],

  begin() {
    for (const node of this.svg.querySelectorAll(".node[data-phase]")) {
      this.nodes.set(node.dataset.phase, { node, stays: numbers(node.dataset.stays), small: node.querySelector(".small"), name: node.querySelector(".name") });
    }
    this.fit();
    for (const edge of this.svg.querySelectorAll(".edge[data-rows]")) {
      this.edges.push({ edge, rows: numbers(edge.dataset.rows), label: edge.querySelector(".label"), word: edge.querySelector(".abort-word") });
    }
  },

  // Names are set as large as their boxes allow, whatever font the reader has.
  fit() {
    for (const { node, name } of this.nodes.values()) {
      name.style.fontSize = "17px";
      name.style.fontWeight = "650";
      const room = Number(node.querySelector("rect").getAttribute("width")) - 14;
      const wide = name.getComputedTextLength();
      name.style.fontWeight = "";
      if (wide > room) name.style.fontSize = `${Math.floor((170 * room) / wide) / 10}px`;
    }
  },

  // Count forwards or backwards from where the counts stand.
  move(step) {
    const add = (place, by) => {
      for (const row of STEPS.rows[place]) {
        this.counts[row] += by;
        const [, , source, target] = INDEX.rows[row];
        if (source !== target) this.entered.set(target, (this.entered.get(target) ?? 0) + by);
      }
    };
    while (this.at < step) add(++this.at, 1);
    while (this.at > step) add(this.at--, -1);
  },

  paint(step) {
    this.move(step);
    const now = new Set(STEPS.rows[step]);
    const phase = phaseOf(step);
    const passed = new Set();
    for (const row of now) { passed.add(INDEX.rows[row][2]); passed.add(INDEX.rows[row][3]); }
    for (const { edge, rows, label, word } of this.edges) {
      const taken = rows.filter((row) => this.counts[row] > 0);
      edge.classList.toggle("taken", taken.length > 0);
      edge.classList.toggle("hot", rows.some((row) => now.has(row)));
      if (word) word.textContent = taken.length ? `an abort ×${taken.reduce((sum, row) => sum + this.counts[row], 0)}` : "an abort";
      this.label(edge, label, taken, now);
    }
    for (const [name, { node, stays, small, name: title }] of this.nodes) {
      const visits = this.entered.get(name) ?? 0;
      const idle = stays.reduce((sum, row) => sum + this.counts[row], 0);
      node.classList.toggle("now", name === phase);
      node.classList.toggle("passed", name !== phase && passed.has(name));
      node.classList.toggle("taken", visits > 0 || idle > 0 || name === phase);
      const words = [];
      if (visits) words.push(`×${visits}`);
      if (idle) words.push(`stays ×${idle}`);
      if (name === phase && INDEX.terminal && name === INDEX.terminal.reason) words.splice(0, words.length, INDEX.terminal.cause);
      small.textContent = words.join("  ");
      title.classList.toggle("raised", words.length > 0);
    }
  },

  label(edge, text, taken, now) {
    if (edge.dataset.x === undefined) return;
    const rows = taken.slice().sort((a, b) => now.has(b) - now.has(a) || this.counts[b] - this.counts[a]);
    const room = Math.max(1, Math.min(4, Number(edge.dataset.lines)));
    const lines = rows.slice(0, rows.length > room ? room - 1 : room).map((row) => [`${ROW_NAMES[row]} ×${this.counts[row]}`, now.has(row)]);
    if (rows.length > lines.length) lines.push([`+ ${rows.length - lines.length} more`, false]);
    // Where there is no room beside a name its count stands below it; where the edge runs below the label it grows upwards.
    const shown = edge.dataset.narrow ? lines.flatMap(([line, hot]) => line.split(/ (?=×)/).map((part) => [part, hot])) : lines;
    const rise = (shown.length - 1) * LABEL_LINE;
    const top = Number(edge.dataset.y) - (edge.dataset.above ? rise : rise / 2) + 4.5;
    text.replaceChildren(...shown.map(([line, hot], place) => {
      const span = document.createElementNS("http://www.w3.org/2000/svg", "tspan");
      span.setAttribute("x", edge.dataset.x);
      span.setAttribute("y", String(top + place * LABEL_LINE));
      if (hot) span.setAttribute("class", "hot");
      span.textContent = line;
      return span;
    }));
  },
};

function numbers(text) { return text ? text.split(" ").map(Number) : []; }
