// Programs with colours. Every piece of a program becomes a text node, as all text does.

const PIECES = /(?<comment>#[^\n]*)|(?<string>\b[rbfuRBFU]{1,2}(?=["'])|"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?)|(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_]\w*)/g;
const KEYWORDS = new Set(("False None True and as assert async await break case class continue def del elif else except finally for from global if import in is " +
  "lambda match nonlocal not or pass raise return try while with yield").split(" "));

function program(text) {
  const out = h("code", { class: "program" });
  let last = 0;
  for (const match of text.matchAll(PIECES)) {
    const { comment, string, number, word } = match.groups;
    const kind = comment ? "comment" : string ? "string" : number ? "number" : KEYWORDS.has(word) ? "keyword" : text[match.index + word.length] === "(" ? "call" : "";
    out.append(...visible(text.slice(last, match.index)), ...(kind ? [h("span", { class: kind }, match[0])] : visible(match[0])));
    last = match.index + match[0].length;
  }
  out.append(...visible(text.slice(last)));
  return out;
}

// Several lines with something that programs have and formulas have not.
const isProgram = (text) => /\n/.test(text.trim()) && /[=(:]/.test(text) && !/\\[a-zA-Z]{2}|[$]/.test(text);
