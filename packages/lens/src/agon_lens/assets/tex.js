// Formulas: a small part of TeX becomes MathML, built node by node. Anything else stays as text.

const MATHML = "http://www.w3.org/1998/Math/MathML";
const MAX_FORMULA = 3000, MAX_DEPTH = 30;
// no prototype: \constructor is not a letter
const table = (text) => Object.assign(Object.create(null), Object.fromEntries(text.trim().split(/\s+/).map((pair) => pair.split("="))));

const LETTERS = table(`alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ
  lambda=λ mu=μ nu=ν xi=ξ pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω
  Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω infty=∞ partial=∂ nabla=∇ ell=ℓ hbar=ℏ
  Re=ℜ Im=ℑ aleph=ℵ emptyset=∅ varnothing=∅ ldots=… cdots=⋯ dots=… vdots=⋮ ddots=⋱ prime=′ degree=° imath=ı jmath=ȷ`);
const SIGNS = table(`cdot=⋅ times=× div=÷ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=∙ oplus=⊕ otimes=⊗ le=≤ leq=≤ leqslant=≤ ge=≥ geq=≥
  geqslant=≥ ne=≠ neq=≠ equiv=≡ approx=≈ sim=∼ simeq=≃ cong=≅ propto=∝ ll=≪ gg=≫ to=→ rightarrow=→ leftarrow=← Rightarrow=⇒
  Leftarrow=⇐ leftrightarrow=↔ Leftrightarrow=⇔ iff=⇔ implies=⇒ mapsto=↦ longrightarrow=⟶ in=∈ notin=∉ ni=∋ subset=⊂ subseteq=⊆
  supset=⊃ supseteq=⊇ cup=∪ cap=∩ setminus=∖ land=∧ wedge=∧ lor=∨ vee=∨ neg=¬ lnot=¬ forall=∀ exists=∃ mid=∣ nmid=∤
  parallel=∥ perp=⊥ angle=∠ triangle=△ therefore=∴ because=∵ langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ lvert=| rvert=|
  lVert=‖ rVert=‖ vert=| Vert=‖ colon=: backslash=\\ lbrace={ rbrace=} square=□ blacksquare=■ checkmark=✓`);
const BIG = table("sum=∑ prod=∏ coprod=∐ int=∫ iint=∬ iiint=∭ oint=∮ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂");
const NAMED = new Set(("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim max min sup inf gcd lcm det dim " +
  "ker deg arg mod hom Pr limsup liminf").split(" "));
const LIMITS = new Set(["lim", "max", "min", "sup", "inf", "gcd", "limsup", "liminf"]);
const ACCENTS = table("bar=¯ overline=‾ hat=^ widehat=^ tilde=~ widetilde=~ vec=→ overrightarrow=→ dot=˙ ddot=¨");
const UPRIGHT = new Set(["text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "mathsf", "operatorname", "mbox", "boldsymbol"]);
const SPACES = { __proto__: null, ",": ".17em", ":": ".22em", ";": ".28em", " ": ".25em", "!": "0", quad: "1em", qquad: "2em" };
const IGNORED = new Set(["displaystyle", "textstyle", "limits", "nolimits", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl",
  "Bigr", "biggl", "biggr", "middle", "hfill", "nonumber", "notag", "allowbreak"]);
const DOUBLE = { __proto__: null, R: "ℝ", N: "ℕ", Z: "ℤ", Q: "ℚ", C: "ℂ", P: "ℙ", H: "ℍ", F: "𝔽", E: "𝔼" };
const WITHHELD = "[withheld]";
const TOKEN = /\[withheld\]|\\[a-zA-Z]+\*?|\\[^]|\d+(?:[.,]\d+)*|\s+|[^]/gu;

class Unreadable extends Error {}

function mathNode(tag, ...children) {
  const node = document.createElementNS(MATHML, tag);
  node.append(...children);
  return node;
}

function withClass(node, name) {
  node.setAttribute("class", name);
  return node;
}

function tight(text, before) {
  const node = mathNode("mo", text);
  node.setAttribute("lspace", before || "0");
  node.setAttribute("rspace", "0");
  return node;
}

class Formula {
  constructor(source) {
    if (source.length > MAX_FORMULA || source.search(HIDDEN) >= 0) throw new Unreadable();
    this.tokens = source.match(TOKEN) || [];
    this.place = 0;
    this.depth = 0;
  }
  peek() { return this.tokens[this.place]; }
  next() { return this.tokens[this.place++]; }
  space() { while (this.peek() !== undefined && /^\s/.test(this.peek())) this.place++; }

  row(ends) {
    if (++this.depth > MAX_DEPTH) throw new Unreadable();
    const found = [];
    for (this.space(); this.peek() !== undefined && !ends.includes(this.peek()); this.space()) {
      if (this.peek() === "^" || this.peek() === "_") found.push(this.script(found.pop() || mathNode("mrow")));
      else found.push(this.atom());
    }
    this.depth--;
    return found;
  }
  group() {
    this.space();
    if (this.peek() !== "{") return this.atom();
    this.next();
    const inside = this.row(["}"]);
    if (this.next() !== "}") throw new Unreadable();
    return mathNode("mrow", ...inside);
  }
  script(base) {
    let low = null, high = null;
    for (this.space(); this.peek() === "^" || this.peek() === "_"; this.space()) {
      if (this.next() === "^") high = this.group(); else low = this.group();
    }
    const over = base.agonLimits;
    if (low && high) return mathNode(over ? "munderover" : "msubsup", base, low, high);
    return low ? mathNode(over ? "munder" : "msub", base, low) : mathNode(over ? "mover" : "msup", base, high);
  }
  raw() {
    this.space();
    if (this.peek() !== "{") return this.next() || "";
    this.next();
    let text = "";
    for (let open = 1; ;) {
      const token = this.next();
      if (token === undefined) throw new Unreadable();
      open += token === "{" ? 1 : token === "}" ? -1 : 0;
      if (!open) return text;
      text += token;
    }
  }
  atom() {
    this.space();
    const token = this.next();
    if (token === undefined || token === "}" || token === "&") throw new Unreadable();
    if (token === "{") { this.place--; return this.group(); }
    if (token === WITHHELD) return withClass(mathNode("mtext", "withheld"), "held");
    if (token.startsWith("\\")) return this.command(token.slice(1));
    if (/^\d/.test(token)) return mathNode("mn", token);
    if (/^\p{L}/u.test(token)) return mathNode("mi", token);
    return token === "." ? tight(token) : mathNode("mo", token === "-" ? "−" : token === "*" ? "∗" : token);
  }
  command(name) {
    if (name in LETTERS) return mathNode("mi", LETTERS[name]);
    if (name in SIGNS) return mathNode("mo", SIGNS[name]);
    if (name in BIG) { const node = mathNode("mo", BIG[name]); node.agonLimits = !name.includes("int"); return node; }
    if (NAMED.has(name)) return this.named(name);
    if (name in SPACES) { const node = mathNode("mspace"); node.setAttribute("width", SPACES[name]); return node; }
    if (name in ACCENTS) { const node = mathNode("mover", this.group(), mathNode("mo", ACCENTS[name])); node.setAttribute("accent", "true"); return node; }
    if (UPRIGHT.has(name.replace("*", ""))) return mathNode("mtext", this.raw());
    if (IGNORED.has(name)) return mathNode("mrow");
    if (/^[dtc]?frac$/.test(name)) return mathNode("mfrac", this.group(), this.group());
    if (/^[dt]?binom$/.test(name)) return this.binomial();
    return this.structure(name);
  }
  named(name) {
    const node = tight(name, ".17em");
    this.space();
    if (/^[\p{L}\d\\]/u.test(this.peek() || "") && this.peek() !== "\\left") node.setAttribute("rspace", ".17em");
    node.agonLimits = LIMITS.has(name);
    return node;
  }
  structure(name) {
    switch (name) {
      case "sqrt": return this.root();
      case "boxed": case "fbox": return withClass(mathNode("mrow", this.group()), "boxed");
      case "underline": return mathNode("munder", this.group(), mathNode("mo", "_"));
      case "overset": case "stackrel": { const above = this.group(); return mathNode("mover", this.group(), above); }
      case "underset": { const below = this.group(); return mathNode("munder", this.group(), below); }
      case "mathbb": { const text = this.raw(); return mathNode("mi", DOUBLE[text] || text); }
      case "mathcal": case "mathfrak": case "mathscr": return mathNode("mi", this.raw());
      case "pmod": return mathNode("mrow", mathNode("mtext", " (mod "), this.group(), mathNode("mtext", ")"));
      case "bmod": return mathNode("mo", "mod");
      case "left": return this.fenced();
      case "begin": return this.environment();
      case "tag": this.raw(); return mathNode("mrow");
      case "\\": return mathNode("mspace");
      case "{": case "}": case "%": case "$": case "#": case "&": case "_": return mathNode("mo", name);
      case "|": return mathNode("mo", "‖");
    }
    throw new Unreadable();
  }
  root() {
    this.space();
    if (this.peek() !== "[") return mathNode("msqrt", this.group());
    this.next();
    const index = mathNode("mrow", ...this.row(["]"]));
    this.next();
    return mathNode("mroot", this.group(), index);
  }
  binomial() {
    const fraction = mathNode("mfrac", this.group(), this.group());
    fraction.setAttribute("linethickness", "0");
    return mathNode("mrow", mathNode("mo", "("), fraction, mathNode("mo", ")"));
  }
  fence() {
    this.space();
    const token = this.next() || "";
    const name = token.slice(1);
    if (!token.startsWith("\\")) return token === "." ? "" : token;
    return SIGNS[name] || (name === "|" ? "‖" : name);
  }
  fenced() {
    const open = this.fence(), inside = this.row(["\\right"]);
    if (this.next() !== "\\right") throw new Unreadable();
    return mathNode("mrow", mathNode("mo", open), ...inside, mathNode("mo", this.fence()));
  }
  environment() {
    const name = this.raw().replace("*", "");
    if (name === "array") this.raw();
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(mathNode("mtd", ...this.row(["&", "\\\\", "\\end"])));
      const end = this.next();
      if (end === undefined) throw new Unreadable();
      if (end === "\\end") break;
      if (end === "\\\\") rows.push([]);
    }
    this.raw();
    const body = mathNode("mtable", ...rows.map((cells) => mathNode("mtr", ...cells)));
    const [open, close] = { __proto__: null, pmatrix: "()", bmatrix: "[]", vmatrix: "||", Bmatrix: "{}", cases: "{ " }[name] || "  ";
    return mathNode("mrow", mathNode("mo", open.trim()), body, mathNode("mo", close.trim()));
  }
}

function formula(source, block) {
  try {
    const reader = new Formula(source);
    const rows = reader.row([]);
    const node = mathNode("math", mathNode("mrow", ...rows));
    if (block) node.setAttribute("display", "block");
    node.setAttribute("alttext", source);
    return node;
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return h("code", { class: "tex" }, source);
  }
}

const SPECIAL = new RegExp([
  String.raw`(?<ticks>\`{3,}|~{3,})(?<language>[^\n\`]{0,40})\n(?<code>[^]*?)(?<end>\k<ticks>|$)`,
  String.raw`\$\$(?<a>[^]{1,3000}?)\$\$`, String.raw`\\\[(?<b>[^]{1,3000}?)\\\]`, String.raw`\\\((?<c>[^]{1,3000}?)\\\)`,
  String.raw`\$(?<d>(?![\s$])(?:[^$\\\n]|\\.){0,600}?(?:[^$\\\s]|\\.))\$(?!\d)`,
  String.raw`<answer>(?<e>[^<]{1,4000})</answer>`, String.raw`(?<f></?(?:think|answer)>)`, String.raw`(?<g>\[withheld\])`,
].join("|"), "g");

// Text with formulas, tags and withheld answers made visible.
function rich(text, withMath) {
  const out = document.createDocumentFragment();
  let last = 0, before = 0;
  for (const match of text.matchAll(SPECIAL)) {
    last = match.index + match[0].length;
    const mark = /^[.,;:!?)]+/.exec(text.slice(last, last + 4));
    const node = special(match, withMath);
    out.append(...visible(text.slice(before, match.index)), mark && node.tagName === "math" ? h("span", { class: "whole" }, node, mark[0]) : node);
    if (mark && node.tagName === "math") last += mark[0].length;
    before = last;
  }
  out.append(...visible(text.slice(last)));
  return out;
}

function special(match, withMath) {
  const { a, b, c, d, e, f, g, ticks, language, code, end } = match.groups;
  if (ticks) return h("span", {}, h("span", { class: "tag" }, ticks + language), program(code), h("span", { class: "tag" }, end));
  if (e !== undefined) {
    return h("span", {}, h("span", { class: "tag" }, "<answer>"), answered(e, withMath), h("span", { class: "tag" }, "</answer>"));
  }
  if (f) return h("span", { class: "tag" }, f);
  if (g) return h("span", { class: "held", title: "the draft's final answer stood here" }, "withheld");
  return withMath ? formula(a || b || c || d, Boolean(a || b)) : match[0];
}

function answered(text, withMath) {
  if (/`{3}|~{3}/.test(text)) return h("span", {}, rich(text, withMath));
  return isProgram(text) ? program(text.trim()) : h("span", { class: "answer" }, bare(text, withMath));
}

// An answer is often a formula without its dollars.
function bare(text, withMath) {
  return withMath && /\\[a-zA-Z]|[\^_]/.test(text) && !/[$]|\\[([]/.test(text) ? formula(text, false) : rich(text, withMath);
}

// One line of plain characters, for the list.
function plain(text) {
  return text
    .replace(/\^\{?([0-9n])\}?(?![0-9])/g, (all, x) => "⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ"["0123456789n".indexOf(x)])
    .replace(/\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}/g, "$1/$2")
    .replace(/\\([a-zA-Z]+)/g, (all, name) => LETTERS[name] || SIGNS[name] || BIG[name] || (name === "sqrt" ? "√" : NAMED.has(name) ? name : " "))
    .replace(/\\./g, " ").replace(/[${}]/g, "").replace(/\s+/g, " ").trim();
}
