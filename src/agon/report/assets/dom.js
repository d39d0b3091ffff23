// Elements and numbers. Text from a model becomes text nodes only; hidden characters are spelled out.

const byId = (id) => document.getElementById(id);

// Controls, line separators, marks that turn the direction of text, and characters without a shape.
const HIDDEN = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\r(?!\n)/gu;

function visible(text) {
  const out = [];
  let last = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const mark = document.createElement("span");
    mark.className = "hidden-mark";
    mark.textContent = `U+${match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    out.push(text.slice(last, match.index), mark);
    last = match.index + match[0].length;
  }
  return [...out, text.slice(last)];
}

function h(tag, options, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(options || {})) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role") node.setAttribute(key, value);
    else node[key] = value;
  }
  const wanted = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  node.append(...wanted.flatMap((child) => (typeof child === "string" ? visible(child) : [child])));
  return node;
}

// A sentence of the program, which names columns in backticks.
const prose = (sentence) => sentence.split("`").map((part, k) => (k % 2 ? h("code", {}, part) : part));

const count = (n) => n.toLocaleString("en");
const percent = (part, whole) => (whole ? `${(100 * part / whole).toFixed(1)}%` : "–");
// As `significant` of formatting.py: three digits, so that a small number is not 0.
const number = (x) => (x === null ? "–" : Math.abs(x) >= 999.5 && Math.abs(x) < 1e6 ? count(Math.round(x)) : Number(x.toPrecision(3)).toString());
const signed = (x) => (x > 0 ? "+" : x < 0 ? "−" : "±") + number(Math.abs(x));
const capital = (policy) => (policy.length === 1 ? policy.toUpperCase() : policy);

async function inflate(id) {
  const raw = atob(byId(id).textContent);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Texts come in blocks that are inflated when one is opened; the last few stay, for a reader who goes back.
const KEPT_BLOCKS = 12;

class Blocks {
  constructor(size) {
    this.size = size;
    this.kept = new Map();
  }
  async at(i) {
    const block = Math.floor(i / this.size);
    if (!this.kept.has(block)) {
      if (this.kept.size >= KEPT_BLOCKS) this.kept.delete(this.kept.keys().next().value);
      this.kept.set(block, await inflate(`block-${block}`));
    }
    return this.kept.get(block)[i % this.size];
  }
}
