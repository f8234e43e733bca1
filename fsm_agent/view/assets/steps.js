// The list of steps, drawn only where it is seen, and the strip over the whole run.

const ROW_HEIGHT = 36;

const list = {
  box: document.getElementById("list"),
  rows: document.getElementById("rows"),
  step: 0,
  hits: new Set(),

  begin() {
    this.rows.style.height = `${COUNT * ROW_HEIGHT}px`;
    this.box.addEventListener("scroll", () => this.fill());
    this.box.addEventListener("click", (event) => {
      const row = event.target.closest("[data-step]");
      if (row) go(Number(row.dataset.step));
    });
    new ResizeObserver(() => this.fill()).observe(this.box);
  },

  paint(step) {
    this.step = step;
    const top = step * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop + ROW_HEIGHT || top > scrollTop + clientHeight - 2 * ROW_HEIGHT) {
      this.box.scrollTop = Math.max(0, top - clientHeight / 2);
    }
    this.fill();
  },

  fill() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW_HEIGHT) - 5);
    const last = Math.min(COUNT, Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW_HEIGHT) + 5);
    const made = [];
    for (let step = first; step < last; step += 1) made.push(this.row(step));
    this.rows.replaceChildren(...made);
    this.box.setAttribute("aria-activedescendant", `step-${this.step}`);
  },

  row(step) {
    const classes = ["row", stepClass(step)];
    if (step === this.step) classes.push("chosen");
    if (this.hits.has(step)) classes.push("hit");
    const turn = STEPS.turn[step];
    const begins = step > 0 && turn !== STEPS.turn[step - 1];
    const row = el(
      "div",
      { class: classes.join(" "), id: `step-${step}`, role: "option", "aria-selected": String(step === this.step), "data-step": step },
      el("span", { class: "seq" }, String(STEPS.seq[step])),
      el("span", { class: "kind" }, step === 0 ? "start" : kindOf(step)),
      begins ? el("span", { class: "turn" }, `round ${turn}`) : null,
      el("span", { class: "brief" }, STEPS.brief[step]),
    );
    row.style.top = `${step * ROW_HEIGHT}px`;
    row.style.setProperty("--phase", phaseColour(phaseOf(step), isDark()));
    return row;
  },
};

function stepClass(step) {
  if (flag(step, MARK.REJECTED)) return "rejected";
  if (flag(step, MARK.FAILURE)) return "failure";
  if (flag(step, MARK.END)) return "end";
  if (flag(step, MARK.CUT)) return "cut";
  if (flag(step, MARK.CONTINUE)) return "continue";
  if (flag(step, MARK.USER)) return "user";
  return flag(step, MARK.IGNORED) ? "ignored" : "plain";
}

const STRIP = 44;
const strip = {
  canvas: document.getElementById("strip"),

  begin() {
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.to(event);
    });
    this.canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) this.to(event); });
    new ResizeObserver(() => this.draw(list.step)).observe(this.canvas.parentElement);
  },

  to(event) {
    const box = this.canvas.getBoundingClientRect();
    go(Math.round(((event.clientX - box.left) / box.width) * (COUNT - 1)));
  },

  x(step) { return COUNT > 1 ? (step / (COUNT - 1)) * (this.width - 3) + 1.5 : 1.5; },

  // What does not depend on the step is drawn once for each width, theme and search.
  draw(step) {
    const key = `${this.canvas.parentElement.clientWidth} ${window.devicePixelRatio} ${isDark()} ${[...list.hits].join()}`;
    if (key !== this.key) { this.key = key; this.paper = this.base(); }
    this.canvas.width = this.paper.width;
    this.canvas.height = this.paper.height;
    const pen = this.canvas.getContext("2d");
    pen.drawImage(this.paper, 0, 0);
    const ratio = window.devicePixelRatio || 1;
    pen.scale(ratio, ratio);
    pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--now").trim();
    pen.fillRect(this.x(step) - 1, 0, 2, STRIP);
  },

  base() {
    const ratio = window.devicePixelRatio || 1;
    this.width = Math.max(100, this.canvas.parentElement.clientWidth);
    const paper = el("canvas");
    paper.width = this.width * ratio;
    paper.height = STRIP * ratio;
    const pen = paper.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(name).trim();
    const dark = isDark();
    pen.scale(ratio, ratio);
    this.context(pen, ink);
    const wide = Math.max(1, this.width / COUNT);
    let last = -10;
    for (let place = 0; place < COUNT; place += 1) {
      const x = this.x(place);
      if (x - last < 0.5 && !(STEPS.flags[place] & (MARK.FAILURE | MARK.CUT | MARK.CONTINUE))) continue;
      last = x;
      pen.fillStyle = phaseColour(phaseOf(place), dark);
      pen.fillRect(x - wide / 2, STRIP - 9, wide + 0.6, 7);
    }
    for (const [mark, name, top] of [[MARK.CONTINUE, "--continue", 32], [MARK.CUT, "--cut", 26], [MARK.FAILURE, "--bad", 20]]) {
      pen.fillStyle = ink(name);
      let previous = -10;
      for (let place = 0; place < COUNT; place += 1) {
        if (!(STEPS.flags[place] & mark)) continue;
        const x = this.x(place);
        if (x - previous < 1.5) continue;
        previous = x;
        pen.fillRect(x - 1, top - (mark === MARK.FAILURE ? 6 : 3), 2, mark === MARK.FAILURE ? 8 : 4);
      }
    }
    pen.fillStyle = ink("--hit");
    for (const place of list.hits) pen.fillRect(this.x(place) - 0.5, 0, 1.5, 4);
    return paper;
  },

  // How full the window was, pass by pass.
  context(pen, ink) {
    if (!INDEX.contextPieces.length) return;
    const points = [];
    let top = 1;
    for (let number = 0; number <= STEPS.context[COUNT - 1]; number += 1) {
      const { step, tokens: size, limits } = CONTEXTS.get(number);
      points.push([step, size]);
      top = Math.max(top, size, limits[4] ?? 0);
    }
    pen.beginPath();
    pen.moveTo(this.x(0), STRIP - 10);
    let height = 0;
    for (const [step, size] of points) {
      pen.lineTo(this.x(step), STRIP - 10 - height);
      height = (size / top) * (STRIP - 13);
      pen.lineTo(this.x(step), STRIP - 10 - height);
    }
    pen.lineTo(this.x(COUNT - 1), STRIP - 10 - height);
    pen.lineTo(this.x(COUNT - 1), STRIP - 10);
    pen.closePath();
    pen.fillStyle = ink("--area");
    pen.fill();
  },
};
