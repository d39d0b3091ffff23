// A log in groups: rewards by row, what became of each group, and texts that are inflated when a group is opened.

const TRUNCATED = "some truncated", MIXED = "right and wrong";

class GroupStore {
  static async open() {
    return new GroupStore(await inflate("index"));
  }
  constructor(index) {
    Object.assign(this, index);
    this.size = this.groups.size.length;
    this.blocks = new Blocks(this.block_size);
    this.first = [];
    this.groups.size.reduce((at, size) => { this.first.push(at); return at + size; }, 0);
    this.steps = [...new Set(this.groups.step)].filter((step) => step !== null).sort((a, b) => a - b);
    this.kinds = [...new Set(["live", ...this.groups.kind])];
    this.marks = [...this.terms.map((name) => `only ${name}`), MIXED, TRUNCATED];
    this.bits = this.groups.size.map((_, g) => this.marks.map((mark, k) => this.marked(g, mark, k)));
    this.words = this.groups.title.map((title, g) => `${title}\n${this.groups.gold[g]}`.toLowerCase());
    this.range = extent(this.rows.total);
    this.ranges = this.rows.terms.map(extent);
  }
  texts(g) { return this.blocks.at(g); }
  members(g) { return Array.from({ length: this.groups.size[g] }, (_, k) => this.first[g] + k); }
  marked(g, mark, k) {
    const { correct, truncated } = this.rows, rows = this.members(g);
    if (mark === TRUNCATED) return rows.some((i) => truncated[i]);
    if (mark === MIXED) return rows.some((i) => correct[i] === true) && rows.some((i) => correct[i] === false);
    return this.groups.only[g] === k;
  }
  mean(g) {
    const paid = this.members(g).map((i) => this.rows.total[i]).filter((x) => x !== null);
    return paid.length ? paid.reduce((sum, x) => sum + x, 0) / paid.length : null;
  }
  // The place of a reward between the least and the greatest one of the log.
  place(value, [low, high]) { return value === null || high === low ? .5 : (value - low) / (high - low); }

  // Groups that pass, and how many each chip would leave if it were the only one of its kind.
  filter(state) {
    const word = state.search.trim().toLowerCase(), found = [];
    const byKind = this.kinds.map(() => 0), byMark = this.marks.map(() => 0);
    for (let g = 0; g < this.size; g++) {
      if (state.step !== null && this.groups.step[g] !== state.step) continue;
      if (word && !this.words[g].includes(word)) continue;
      const kind = !state.kinds.size || state.kinds.has(this.groups.kind[g]);
      const marks = this.marks.every((mark, k) => !state.marks.has(mark) || this.bits[g][k]);
      if (marks) byKind[this.kinds.indexOf(this.groups.kind[g])]++;
      if (kind) this.bits[g].forEach((bit, k) => { byMark[k] += bit; });
      if (kind && marks) found.push(g);
    }
    return { found, byKind, byMark };
  }
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const x of values) if (x !== null) { low = Math.min(low, x); high = Math.max(high, x); }
  return [low, high];
}
