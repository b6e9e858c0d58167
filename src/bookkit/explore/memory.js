// A matrix as a memory: pairs are written one by one, added or corrected, and read back.
const STEPS = 6;
const LETTERS = "abcdef";
const zeros = (rows, columns) =>
  Array.from({ length: rows }, () => Array.from({ length: columns }, () => 0));

class MatrixMemory extends Explorable {
  static limits = {
    step: [0, STEPS],
    strength: [0, 2],
    keep: [0.5, 1],
    rule: ["add", "delta"],
    pairs: ["returns", "crowd"],
  };

  compute({ pairs, rule, step, strength, keep }) {
    const { keys, lists } = this.numbers;
    const written = lists[pairs].slice(0, step);
    let [S, old] = [zeros(4, 3), [0, 0, 0]];
    const read = (k) => turn(S).map((column) => dot(column, k));
    for (const [name, which] of written) {
      S = S.map((row) => row.map((x) => keep * x));
      old = read(keys[name]);
      const value = [0, 1, 2].map((n) => Number(n === which));
      const added = rule === "add" ? value : value.map((v, n) => strength * (v - old[n]));
      S = S.map((row, i) => row.map((x, n) => x + keys[name][i] * added[n]));
    }
    const answers = keys.map(read);
    const newest = new Map(written);
    const right = [...newest].filter(([name, which]) => this.says(answers[name]) === which);
    return { S, old, answers, known: newest.size, right: right.length };
  }

  // The number with the largest share; −1 if two are equally large, or all are 0.
  says(answer) {
    const best = Math.max(...answer);
    const alike = answer.flatMap((x, n) => (Math.abs(x - best) < 1e-9 ? [n] : []));
    return alike.length === 1 && best > 1e-9 ? alike[0] : -1;
  }

  build() {
    this.strip = Array.from({ length: STEPS }, (_, n) =>
      html("button", { type: "button", class: "pair", onclick: () => this.set({ step: n + 1 }) }),
    );
    const grid = (rows, role) =>
      Array.from({ length: rows }, () =>
        [0, 1, 2].map(() => html("div", { class: `cell ${role}` })),
      );
    [this.memory, this.answers] = [grid(4, "state"), grid(6, "output")];
    const head = (text) => html("div", { class: "head", text });
    const numbers = () => [1, 2, 3].map((n) => html("div", { class: "number", text: n }));
    const row = (n) => html("div", { text: `row ${n + 1}` });
    const rows = this.memory.flatMap((cells, n) => [row(n), ...cells]);
    const left = html("div", { class: "grid" }, html("div"), ...numbers(), ...rows);
    this.names = [...LETTERS].map((text) => html("div", { class: "name", text }));
    this.marks = [...LETTERS].map(() => html("div", { class: "mark" }));
    const asked = this.answers.flatMap((cells, n) => [this.names[n], ...cells, this.marks[n]]);
    const empty = () => html("div");
    const right = html("div", { class: "grid more" }, empty(), ...numbers(), empty(), ...asked);
    this.before = html("p", { class: "hint" });
    this.picture.append(
      html("div", { class: "strip" }, ...this.strip),
      html(
        "div",
        { class: "two" },
        html("div", {}, head("memory S"), left, this.before),
        html("div", {}, head("asked for a name, it answers"), right),
      ),
    );
    this.choice("rule", "rule", [
      ["add", "add"],
      ["delta", "correct, then add"],
    ]);
    this.choice("pairs", "list", [
      ["returns", "names return"],
      ["crowd", "six names"],
    ]);
    this.stepper("step", "written", 0, STEPS);
    this.force = this.slider("strength", "strength β", 0, 2, 0.25, say);
    this.slider("keep", "keep α", 0.5, 1, 0.05, say);
  }

  fill(cell, x) {
    set(cell, { text: num(x), style: `--v: ${Math.min(1, Math.abs(x)).toFixed(2)}` });
  }

  draw({ S, old, answers }) {
    const { pairs, step, rule } = this.state;
    const list = this.numbers.lists[pairs];
    const newest = new Map(list.slice(0, step));
    this.strip.forEach((node, n) => {
      const [name, which] = list[n];
      set(node, { text: `${LETTERS[name]} is ${which + 1}`, "aria-pressed": String(n < step) });
    });
    S.forEach((row, i) => row.forEach((x, n) => this.fill(this.memory[i][n], x)));
    answers.forEach((row, i) => {
      const there = newest.has(i);
      row.forEach((x, n) => {
        this.fill(this.answers[i][n], x);
        if (!there) set(this.answers[i][n], { text: "", style: "--v: 0" });
        this.answers[i][n].classList.toggle("framed", newest.get(i) === n);
      });
      this.names[i].classList.toggle("unasked", !there);
      const ok = there && this.says(row) === newest.get(i);
      set(this.marks[i], { text: there ? (ok ? "✓" : "✗") : "" });
    });
    const [name] = list[Math.max(0, step - 1)];
    const said = old.map(num).join(", ");
    const words = `Before this pair it answered ${LETTERS[name]} with (${said}).`;
    set(this.before, { text: step ? words : "Nothing is written yet." });
    this.force.hidden = rule === "add";
  }

  tell({ answers, known, right }) {
    const { pairs, step } = this.state;
    if (!step) return "Nothing is written yet: the memory answers 0 to every name.";
    const [name, which] = this.numbers.lists[pairs][step - 1];
    const letter = LETTERS[name];
    const answer = answers[name].map((x) => say(x)).join(", ");
    const count = `Of ${known} names, ${right} ${right === 1 ? "is" : "are"}`;
    const last = `Written last: ${letter} is ${which + 1}. Asked for ${letter}, the memory`;
    return `${last} answers (${answer}). ${count} answered with the newest number.`;
  }

  static style = `
    .strip { display: grid; grid-template-columns: repeat(6, 1fr); gap: 6px; margin-bottom: 14px }
    .pair { padding: 0 4px }
    .pair[aria-pressed=true] { background: var(--d-key); color: var(--d-paper) }
    .two { display: grid; grid-template-columns: 1fr 1.15fr; gap: 28px }
    .head { font-weight: 650; margin-bottom: 4px }
    .grid { display: grid; grid-template-columns: 3.4em repeat(3, 1fr); gap: 3px;
      align-items: center; font-size: 13px }
    .more { grid-template-columns: 1.4em repeat(3, 1fr) 1.2em }
    .number { text-align: center; color: var(--d-muted) }
    .grid .cell { height: 32px }
    .name { font-weight: 650 } .unasked { font-weight: 400; color: var(--d-muted) }
    .framed { outline: 2px solid var(--d-ink); outline-offset: -1px }
    .mark { text-align: center }
    .hint { margin-top: 8px }
    [hidden] { display: none !important }
    @container (max-width: 480px) {
      .strip { grid-template-columns: repeat(3, 1fr) }
      .two { grid-template-columns: 1fr; gap: 14px } }`;
}

define("attn-memory", MatrixMemory);
