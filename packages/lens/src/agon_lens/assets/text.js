// Texts of models: long ones are drawn in pieces, and parts fold.

const MANY = 6000, AT_ONCE = 4;

class TextView {
  constructor(box) {
    this.box = box;
    this.open = {};
    this.math = true;
  }
  // A long text is drawn in pieces that are laid out one by one, so that opening it never blocks the page.
  long(text, kind) {
    const box = h("div", { class: `text ${kind || ""}` }), pieces = [];
    for (let at = 0; at < text.length;) {
      const line = text.indexOf("\n", at + MANY);
      const to = line < 0 || line > at + 2 * MANY ? at + MANY + /^[\udc00-\udfff]/.test(text[at + MANY] || "") : line + 1;
      pieces.push(text.slice(at, line >= 0 && to === line + 1 && to < text.length ? line : to));
      at = to;
    }
    if (pieces.length < 2) {
      box.append(rich(text, this.math));
      return box;
    }
    const draw = () => {
      for (const piece of pieces.splice(0, AT_ONCE)) box.append(h("div", { class: "piece" }, rich(piece, this.math)));
      if (pieces.length && box.isConnected) requestAnimationFrame(draw);
    };
    box.append(h("div", { class: "piece" }, rich(pieces.shift(), this.math)));
    requestAnimationFrame(draw);
    return box;
  }
  folded(name, title, note, body) {
    const details = h("details", { class: "part" }, h("summary", {}, title, " ", h("small", {}, note)));
    const fill = () => { if (details.open && details.children.length < 2) details.append(body()); };
    details.addEventListener("toggle", fill);
    details.dataset.fold = name;
    details.open = Boolean(this.open[name]);
    fill();
    return details;
  }
  toggle(name) {
    this.open[name] = !this.open[name];
    for (const details of this.box.querySelectorAll(`details[data-fold="${name}"]`)) details.open = this.open[name];
  }
}
