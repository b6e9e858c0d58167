// Attention with every number in sight: queries, keys, scores, weights, values, outputs.
const SHARES = [
  [0.25, "less than a quarter"],
  [0.5, "less than half"],
  [0.75, "more than half"],
  [0.95, "most"],
];

class AttentionByHand extends Explorable {
  static limits = {
    tau: [0.05, 3],
    queries: [1, 2],
    divide: ["root", "one", "tau"],
    over: ["words", "queries"],
  };

  get divisor() {
    const { divide, tau, k } = this.state;
    const root = Math.sqrt(k[0].length);
    return { root, one: 1, tau: root * tau }[divide];
  }

  compute({ q, k, v, queries, over, mask }) {
    const products = matmul(q.slice(0, queries), turn(k));
    const scores = products.map((row) => row.map((x) => x / this.divisor));
    let weights = scores.map((row) => softmax(row, mask));
    if (over === "queries") {
      weights = turn(turn(scores).map((column) => softmax(column)));
      weights = weights.map((row) => row.map((w, j) => (mask[j] ? w : 0)));
    }
    return { scores, weights, output: matmul(weights, v) };
  }

  build() {
    const { words, asks } = this.numbers;
    this.cells = { q: [], k: [], v: [] };
    const grid = (side, width) => html("div", { class: `grid ${side}`, style: `--d: ${width}` });
    this.left = grid("left", this.start.k[0].length);
    this.right = grid("right", this.start.v[0].length);
    this.tables = html("div", { class: "tables" }, this.left, this.right);
    this.picture.append(this.tables);
    this.top(asks);
    this.rows = words.map((word, j) => this.row(word, j));
    this.outputs = asks.map((ask, t) => this.foot(t));
    this.plain = this.foot(-1);
    for (const name of "qkv") this.rove(this.cells[name].flat(), { ArrowLeft: -1, ArrowRight: 1 });
    const across = (pick) => this.rows.flatMap((row) => row[pick]);
    for (const pick of ["scores", "weights"])
      this.rove(across(pick), { ArrowUp: -1, ArrowDown: 1 });
    this.rove(
      this.outputs.flatMap((row) => row.cells),
      { ArrowLeft: -1, ArrowRight: 1 },
    );
    const root = `√${this.start.k[0].length}`;
    this.choice("divide", "divide by", [
      ["root", root],
      ["one", "1"],
      ["tau", `${root} · τ`],
    ]);
    this.tau = this.slider("tau", "τ", 0.05, 3, 0.05);
    this.choice("over", "softmax over", [
      ["words", "words"],
      ["queries", "queries"],
    ]);
    const hint = "Drag the underlined numbers. Touch a word to mask it.";
    this.controls.append(html("span", { class: "hint", text: hint }));
  }

  // The queries over the columns of the keys, and the names of all columns.
  top(asks) {
    const { features } = this.numbers;
    const label = (text, kind) => html("div", { class: `label ${kind}`, text });
    const head = (text, role, span) =>
      html("div", { class: `head tint ${role}`, text, style: `grid-column: span ${span}` });
    const names = (row) => row.map((_, d) => label(features[d] ?? d + 1, "feature"));
    this.left.append(label("", ""), ...names(this.start.q[0]), html("div", { class: "span" }));
    this.asked = asks.map((ask, t) => {
      const name = label(ask, "asks tint query");
      const cells = this.matrix("q", t, "query", `query ${ask}`);
      const rest = html("div", { class: "span more" });
      if (!t && asks.length > 1) this.second = this.button("", () => this.swap(), {}, rest);
      this.left.append(name, ...cells, rest);
      return [name, ...cells, rest];
    });
    this.rule = head("", "ink", "var(--q)");
    const [keys, weights] = [
      head("keys", "key", "var(--d)"),
      head("weights", "weight", "var(--q)"),
    ];
    this.left.append(label("", ""), keys, this.rule, weights);
    this.spacers = asks.map(() => html("div", { class: "spacer" }));
    const values = head("values", "value", "var(--d)");
    const blank = () => label("", "again");
    this.right.append(...this.spacers, blank(), values, blank(), ...names(this.start.v[0]));
  }

  swap() {
    this.set({ queries: 3 - this.state.queries });
  }

  // One row of numbers that can be scrubbed.
  matrix(name, t, role, label) {
    const start = this.start[name][t];
    const cells = start.map((_, d) => {
      const node = html("div", { class: `cell ${role}`, "data-cell": `${name} ${t} ${d}` });
      const get = () => this.state[name][t][d];
      const put = (x) => {
        const rows = copy(this.state[name]);
        rows[t][d] = x;
        this.set({ [name]: rows });
      };
      const [most, step] = name === "q" ? [8, 0.5] : [2, 0.1];
      const range = { min: -most, max: most, step, role: "spinbutton" };
      const words = `${label}, ${this.numbers.features[d] ?? d + 1}`;
      this.scrub(node, { label: words, get, put, first: () => start[d], ...range });
      this.syncs.push(() => this.fill(node, get(), most / 2));
      return node;
    });
    this.cells[name].push(cells);
    return cells;
  }

  row(word, j) {
    const mask = () => this.set({ mask: this.state.mask.map((on, i) => on !== (i === j)) });
    const look = this.button(
      word,
      mask,
      { class: "word", "aria-label": `look at ${word}` },
      this.left,
    );
    const keys = this.matrix("k", j, "key", `key of ${word}`);
    const each = (part) => this.numbers.asks.map((_, t) => part(t));
    const scores = each(() => html("div", { class: "cell ink", role: "img" }));
    const weights = each(() => {
      const parts = ["bar", "ghost", "w"].map((kind) => html("span", { class: kind }));
      return html("div", { class: "weights weight", role: "img" }, ...parts);
    });
    this.left.append(...keys, ...scores, ...weights);
    const again = html("div", { class: "label again" });
    const values = this.matrix("v", j, "value", `value of ${word}`);
    this.right.append(again, ...values);
    each((t) => {
      const both = () => [...this.cells.q[t], ...keys];
      this.explain(scores[t], () => this.scoring(t, j), both);
      const column = () => this.rows.map((row) => row.scores[t]);
      this.explain(weights[t], () => this.weighing(t, j), column);
    });
    return { look, scores, weights, again, values };
  }

  // A row below the values: an output, or (t = −1) the plain mean.
  foot(t) {
    const role = t < 0 ? "muted" : "output";
    const label = html("div", { class: `label foot tint ${role}` });
    const cells = this.start.v[0].map(() => html("div", { class: `cell ${role}` }));
    if (t >= 0) {
      cells.forEach((cell, d) => {
        const column = () => this.rows.flatMap((row) => [row.weights[t], row.values[d]]);
        set(cell, { role: "img" });
        this.explain(cell, () => this.mixing(t, d), column);
      });
    }
    const node = html("div", { class: "end" }, label, ...cells);
    this.right.append(node);
    return { node, label, cells };
  }

  scoring(t, j) {
    const { q, k, queries } = this.state;
    if (t >= queries) return "";
    const terms = q[t].map((x, d) => `${num(x)}·${num(k[j][d])}`).join(" + ");
    const product = dot(q[t], k[j]);
    const divided = `; ÷ ${num(this.divisor)} = ${say(product / this.divisor)}`;
    return `Score of “${this.numbers.words[j]}”: ${terms} = ${say(product)}${divided}.`;
  }

  weighing(t, j) {
    if (t >= this.state.queries) return "";
    const word = `Weight of “${this.numbers.words[j]}”:`;
    if (!this.state.mask[j]) return `${word} it is masked, so 0.`;
    const { scores, weights } = this.result;
    const along = this.state.over === "words" ? "all words that are not masked" : "the queries";
    const power = `e to the power of its score, ${say(scores[t][j])}`;
    const share = `divided by the sum of these powers over ${along}`;
    return `${word} ${power}, ${share}: ${say(weights[t][j])}.`;
  }

  mixing(t, d) {
    const { v, queries } = this.state;
    if (t >= queries) return "";
    const { weights, output } = this.result;
    const terms = v.map((row, j) => [weights[t][j], row[d]]).filter(([w, x]) => w && x);
    const written = terms.map(([w, x]) => `${num(w)}·${num(x)}`).join(" + ") || "0";
    const name = this.numbers.features[d] ?? `number ${d + 1}`;
    return `Output, ${name}: ${written} = ${say(output[t][d])}.`;
  }

  fill(cell, x, most = 1) {
    set(cell, { text: num(x), style: `--v: ${Math.min(1, Math.abs(x) / most).toFixed(2)}` });
  }

  draw({ scores, weights, output }, held) {
    const { queries, divide, mask, v } = this.state;
    const { words, asks } = this.numbers;
    set(this.tables, { style: `--q: ${queries}`, class: `tables q${queries}` });
    this.tau.hidden = divide !== "tau";
    const rule = { root: " ÷ √D", one: "", tau: " ÷ (√D τ)" }[divide];
    set(this.rule, { text: `scores${rule}` });
    if (this.second) set(this.second, { text: queries > 1 ? "one query" : "+ second query" });
    const most = Math.max(0.5, ...scores.flat().map(Math.abs));
    asks.forEach((_, t) => this.show(t, t < queries));
    for (let t = 0; t < queries; t++) {
      this.rows.forEach((row, j) => {
        this.fill(row.scores[t], scores[t][j], most);
        const [bar, ghost, text] = row.weights[t].children;
        const before = held?.weights[t]?.[j];
        set(bar, { style: `width: ${100 * weights[t][j]}%` });
        set(ghost, { style: before == null ? "display: none" : `left: ${100 * before}%` });
        set(text, { text: num(weights[t][j]) });
        row.weights[t].classList.toggle("best", weights[t][j] > 0 && j === argmax(weights[t]));
      });
      this.outputs[t].cells.forEach((cell, d) => this.fill(cell, output[t][d]));
      set(this.outputs[t].label, { text: queries > 1 ? `output, ${asks[t]}` : "output" });
    }
    this.rows.forEach(({ look, again, values, weights: boxes }, j) => {
      set(look, { "aria-pressed": String(mask[j]) });
      set(again, { text: `${weights.map((row) => num(row[j])).join(", ")} × ${words[j]}` });
      for (const part of [...values, ...boxes]) part.classList.toggle("masked", !mask[j]);
    });
    const all = mask.every(Boolean);
    const seen = v.filter((_, j) => mask[j]);
    set(this.plain.label, { text: all ? "plain mean" : "mean of the rest" });
    const plain = seen.length ? mean(seen) : v[0].map(() => 0);
    this.plain.cells.forEach((cell, d) => this.fill(cell, plain[d]));
  }

  show(t, on) {
    const nodes = [...this.asked[t], this.spacers[t], this.outputs[t].node];
    this.rows.forEach((row) => nodes.push(row.scores[t], row.weights[t]));
    nodes.forEach((node) => (node.hidden = !on));
  }

  tell({ scores, weights }) {
    const { words, asks } = this.numbers;
    const { over, queries, mask } = this.state;
    if (!mask.some(Boolean))
      return `Nothing may be looked at: all ${words.length} weights are 0, and so is the output.`;
    if (over === "words")
      return weights.map((row, t) => this.leader(scores[t], row, queries > 1 && asks[t])).join(" ");
    if (queries === 1)
      return "One query, softmax over the queries: each weight is 1, the output a sum of values.";
    const total = say(sum(weights[0]));
    return `Each word shares 1 between the queries; the row of “${asks[0]}” sums to ${total}.`;
  }

  leader(scores, weights, ask) {
    const seen = scores.map((s, j) => (this.state.mask[j] ? s : -Infinity));
    const j = argmax(seen);
    const [top, w] = [say(seen[j]), say(weights[j])];
    const tied = seen.filter((s) => Math.abs(s - seen[j]) < 1e-9).length;
    if (tied > 1) return `${tied} words share the best score, ${top}: each has the weight ${w}.`;
    const share = (SHARES.find(([limit]) => weights[j] < limit) ?? [1, "nearly all"])[1];
    const who = `${ask ? `${ask} ` : ""}“${this.numbers.words[j]}”`;
    const rest = ask ? "." : `; the others have ${say(1 - weights[j])} between them.`;
    return `${who} has the best score, ${top}, and ${share} of the weight: ${w}${rest}`;
  }

  static style = `
    .tables { display: flex; gap: 14px; justify-content: space-between; margin-top: -14px }
    .grid { display: grid; gap: 3px; grid-auto-rows: 34px; align-content: start }
    .grid > *, .end > * { min-width: 0 }
    .left { flex: 1.5; grid-template-columns: 64px repeat(var(--d), minmax(32px, 1fr))
      repeat(var(--q), minmax(38px, 1fr)) repeat(var(--q), minmax(56px, 2.4fr)) }
    .q2 .left { flex: 2.4; grid-template-columns: 64px repeat(var(--d), minmax(32px, 1fr))
      repeat(2, minmax(38px, .9fr)) repeat(2, minmax(46px, 1.1fr)) }
    .q2 .feature { font-size: 11px }
    .right { flex: .85; grid-template-columns: repeat(var(--d), minmax(32px, 1fr)) }
    .span { grid-column: span calc(2 * var(--q)) }
    .more { padding-left: 14px; display: flex }
    .more button { font-size: 13px; white-space: nowrap }
    .spacer, .end { grid-column: 1 / -1 }
    .end { display: grid; grid-template-columns: subgrid; position: relative }
    .label, .head { display: flex; align-items: end; font-size: 13px; line-height: 1.15 }
    .head { font-weight: 650; font-size: 14px; justify-content: center; padding-bottom: 3px;
      text-align: center }
    .feature { justify-content: center; font-size: 12px; padding-bottom: 3px;
      color: var(--d-muted) }
    .asks { align-items: center; font-weight: 650; white-space: nowrap }
    .again { display: none }
    .word { padding: 0 6px; justify-content: flex-start; font-size: 14px;
      border-left: 3px solid var(--d-key); border-radius: 0 8px 8px 0 }
    .word, .word[aria-pressed=true] { background: none; color: inherit }
    .word[aria-pressed=false] { text-decoration: line-through; color: var(--d-muted);
      border-left-color: transparent }
    .weights { position: relative; display: flex; align-items: center; border-radius: 4px;
      background: color-mix(in srgb, var(--d-weight) 8%, var(--d-paper)) }
    .masked.weights { background: repeating-linear-gradient(135deg, transparent 0 4px,
      color-mix(in srgb, var(--d-muted) 40%, transparent) 4px 5.2px) }
    .masked.weights .w { background: var(--d-paper); padding: 0 3px; margin-right: 4px }
    .masked.value { background: none }
    .masked.value { color: var(--d-muted) }
    .bar { position: absolute; inset: 0 auto 0 0; border-radius: 4px;
      background: color-mix(in srgb, var(--f) calc(100% * var(--r)), var(--d-paper)) }
    .lit { box-shadow: 0 0 0 2px var(--d-ink) }
    .best { box-shadow: 0 0 0 2px var(--d-ink) }
    .ghost { position: absolute; top: 0; bottom: 0; width: 2px; background: var(--d-muted) }
    .w { position: relative; margin-left: auto; padding: 0 7px; font-size: 13px }
    .foot { position: absolute; right: calc(100% + 14px); width: 170px; height: 34px;
      justify-content: flex-end; align-items: center; text-align: right; font-weight: 650 }
    [hidden] { display: none !important }
    @container (max-width: 420px) { .more { padding-left: 6px } .more button { padding: 0 6px } }
    @container (max-width: 600px) {
      .tables { flex-direction: column; gap: 0 }
      .left { grid-template-columns: 58px repeat(var(--d), minmax(32px, 1fr))
        repeat(var(--q), minmax(32px, 1fr)) repeat(var(--q), minmax(42px, 1.6fr)) }
      .right { grid-template-columns: 100px repeat(var(--d), minmax(32px, 1fr)) }
      .q2 .left { grid-template-rows: 54px;
        grid-template-columns: 46px repeat(var(--d), minmax(32px, 1fr))
        repeat(4, minmax(34px, 1fr)) }
      .q2 .left .feature { writing-mode: sideways-lr; align-items: center;
        justify-content: flex-start; padding: 0 }
      .q2 .asks { font-size: 11px }
      .q2 .head { font-size: 12.5px }
      .again { display: flex; align-items: center }
      .spacer { display: none }
      .foot { position: static; width: auto; justify-content: flex-start; text-align: left }
    }`;
}

define("attn-by-hand", AttentionByHand);
