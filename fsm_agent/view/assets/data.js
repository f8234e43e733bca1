"use strict";
// The data of the page: an index that is read at once, and pieces that are parsed when something of them is shown.

const INDEX = JSON.parse(document.getElementById("index").textContent);
const STEPS = INDEX.steps;
const COUNT = STEPS.seq.length;
const MARK = { CONTINUE: 1, FAILURE: 2, CUT: 4, REJECTED: 8, IGNORED: 16, USER: 32, END: 64 };

// The place of the last number in a sorted list that is not above a value, -1 if all are.
function lastUpTo(list, value, key = (item) => item) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

class Pieces {
  constructor(name, firsts) {
    this.name = name;
    this.firsts = firsts;
    this.parsed = new Map();
  }
  get(number) {
    const first = this.firsts[lastUpTo(this.firsts, number)];
    let piece = this.parsed.get(first);
    if (piece === undefined) {
      piece = JSON.parse(document.getElementById(`${this.name}-${first}`).textContent);
      this.parsed.set(first, piece);
    }
    return piece[number - first];
  }
}

const DETAILS = new Pieces("steps", INDEX.stepPieces);
const POOL = new Pieces("pool", INDEX.poolPieces);
const CONTEXTS = new Pieces("contexts", INDEX.contextPieces);

function isReference(value) {
  return value !== null && typeof value === "object" && Object.hasOwn(value, "$p");
}

// Follow references, one level deep; what lies inside is followed when it is shown.
function known(value) {
  let depth = 0;
  while (isReference(value) && depth++ < 8) value = POOL.get(value.$p);
  return value;
}

// A value with every reference followed, as text to search in.
function fullText(value, depth = 0) {
  value = known(value);
  if (value === null || depth > 30) return "";
  if (typeof value !== "object") return String(value);
  if (Object.hasOwn(value, "$m")) {
    const [, , id, , , blocks] = INDEX.messages[value.$m];
    return `${id} ${blocks.map((block) => fullText(POOL.get(block), depth + 1)).join(" ")}`;
  }
  if (Array.isArray(value)) return value.map((item) => fullText(item, depth + 1)).join(" ");
  return Object.entries(value).filter(([key]) => key !== "$is" && key !== "traits").map(([, item]) => fullText(item, depth + 1)).join(" ");
}

// The working list of messages behind a step, as message numbers. Lists are rebuilt from the nearest kept one.
const kept = new Map();
function messagesAt(step) {
  const last = lastUpTo(INDEX.lists, step, (item) => item[0]);
  if (last < 0) return [];
  if (kept.has(last)) return kept.get(last);
  let from = last;
  while (from >= 0 && !kept.has(from)) from -= 1;
  let list = from < 0 ? [] : kept.get(from).slice();
  for (let place = from + 1; place <= last; place += 1) {
    list.length = INDEX.lists[place][1];
    list.push(...INDEX.lists[place][2]);
    if (place % 64 === 0) kept.set(place, list.slice());
  }
  kept.set(last, list);
  return list;
}

// Where the messages that this step put into the list begin, -1 if it put none.
function changedFrom(step) {
  const last = lastUpTo(INDEX.lists, step, (item) => item[0]);
  return last >= 0 && INDEX.lists[last][0] === step ? INDEX.lists[last][1] : -1;
}

// The reply in flight behind a step: numbers of its blocks, and of the results that have come.
function liveAt(step) {
  for (let place = step; place >= 0 && place > step - 4000; place -= 1) {
    const detail = DETAILS.get(place);
    if (detail.l) return detail.l;
  }
  return [[], []];
}

function flag(step, mark) { return (STEPS.flags[step] & mark) !== 0; }
function kindOf(step) { return INDEX.kinds[STEPS.kind[step]]; }
function phaseOf(step) { return INDEX.phases[STEPS.phase[step]]; }
