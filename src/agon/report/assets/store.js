// The bouts: columns for filters and the list; texts in blocks that are inflated when a bout is opened.

const OUTCOMES = ["converted", "regressed", "kept", "lost", "disagree", "right", "wrong"];
const MARKS = ["leak", "empty peek", "infra", "truncated", "dead"];

class Store {
  static async open() {
    return new Store(await inflate("index"));
  }
  constructor(index) {
    Object.assign(this, index);
    this.blocks = new Blocks(this.block_size);
    this.steps = [...new Set(this.columns.step)].sort((a, b) => a - b);
    this.words = this.problems.map(([id, question, answer]) => `${id}\n${question}\n${answer}`.toLowerCase());
    this.titles = this.problems.map(([, question]) => plain(question.slice(0, 400)).slice(0, 120));
    this.groups = new Map();
    for (let i = 0; i < this.size; i++) {
      const key = this.key(i);
      if (!this.groups.has(key)) this.groups.set(key, []);
      this.groups.get(key).push(i);
    }
  }
  key(i) { return `${this.columns.step[i]} ${this.columns.problem[i]}`; }
  group(i) { return this.groups.get(this.key(i)); }
  problem(i) { return this.problems[this.columns.problem[i]]; }
  has(i, outcome) { return Boolean(this.columns.outcomes[i] & (1 << OUTCOMES.indexOf(outcome))); }
  marked(i, mark) { return Boolean(this.columns.marks[i] & (1 << MARKS.indexOf(mark))); }
  value(i, side, name) { return this.columns[`${side}_${name}`][i]; }
  hasChallenge(i) { return this.columns.challenger[i] !== null; }

  texts(i) { return this.blocks.at(i); }

  // Rows that pass, and how many each chip would leave if it were the only one of its kind.
  filter(state) {
    const { step, problem, drafter, outcomes, marks } = this.columns;
    const wanted = mask(OUTCOMES, state.outcomes), needed = mask(MARKS, state.marks);
    const word = state.search.trim().toLowerCase();
    const hit = word ? this.words.map((text) => text.includes(word)) : null;
    const rows = [], byOutcome = OUTCOMES.map(() => 0), byMark = MARKS.map(() => 0);
    for (let i = 0; i < this.size; i++) {
      if (state.step !== null && step[i] !== state.step) continue;
      if (state.drafter && drafter[i] !== state.drafter) continue;
      if (hit && !hit[problem[i]]) continue;
      const any = !wanted || (outcomes[i] & wanted), all = (marks[i] & needed) === needed;
      if (all) for (let k = 0; k < byOutcome.length; k++) byOutcome[k] += (outcomes[i] >> k) & 1;
      if (any) for (let k = 0; k < byMark.length; k++) byMark[k] += (marks[i] >> k) & 1;
      if (any && all) rows.push(i);
    }
    return { rows, byOutcome, byMark };
  }
  tally(rows) {
    const found = { drafts: 0, draftsRight: 0, challenges: 0, challengesRight: 0, wrong: 0, right: 0, converted: 0, regressed: 0, shown: 0, leaks: 0, empty: 0 };
    const { draft_graded, draft_correct, challenge_graded, challenge_correct, shown } = this.columns;
    for (const i of rows) {
      found.drafts += draft_graded[i];
      found.draftsRight += draft_correct[i];
      found.challenges += challenge_graded[i] || 0;
      found.challengesRight += challenge_correct[i] || 0;
      if (draft_graded[i] && challenge_graded[i]) draft_correct[i] ? found.right++ : found.wrong++;
      found.converted += this.has(i, "converted");
      found.regressed += this.has(i, "regressed");
      found.shown += shown[i];
      found.leaks += this.marked(i, "leak");
      found.empty += this.marked(i, "empty peek");
    }
    return found;
  }
}

const mask = (names, chosen) => names.reduce((bits, name, k) => bits | (chosen.has(name) ? 1 << k : 0), 0);
