// A decoder small enough for paper: scores, weights, context, new state, word.
const PARTS = ["scores", "weights", "context", "state", "word"];
const HOWS = ["look back", "without tanh", "one vector"];
const MOST = 6;
const pair = (row) => `(${row.map((x) => num(x)).join(", ")})`;

class Decoding extends Explorable {
  static limits = { how: HOWS, step: [1, MOST], part: PARTS };

  one(read, query, how) {
    const { states, vectors, toVocab, writes } = this.numbers;
    const bend = how === "look back" ? Math.tanh : (x) => x;
    const looks = how !== "one vector";
    const scores = looks ? states.map((h) => 2 * sum(h.map((x, i) => bend(x + query[i])))) : [];
    const weights = looks ? softmax(scores) : [];
    const context = looks ? matmul([weights], states)[0] : states[states.length - 1];
    const state = query.map((s, i) => Math.tanh(s + vectors[read][i] + context[i]));
    const p = softmax(toVocab.map((row) => dot(row, state)));
    return { read, query, scores, weights, context, state, p, said: writes[argmax(p)] };
  }

  compute({ how, step }) {
    const found = [this.one("<s>", [0, 0], how)];
    for (let now = found[0]; now.said !== "</s>" && found.length < MOST; found.push(now))
      now = this.one(now.said, now.state, how);
    const at = Math.min(step, found.length) - 1;
    return { ...found[at], at, words: found.map(({ said }) => said) };
  }

  build() {
    const { reads, writes, states } = this.numbers;
    const head = (words, role) => html("span", { class: `head ${role} tint`, text: words });
    this.line = html("p", { class: "line" });
    const heads = [head("", "ink"), head("key h", "key"), head("s + h", "ink")];
    heads.push(head("score", "ink"), head("weight", "weight"));
    this.rows = reads.map((word, n) => {
      const key = this.pair("key", states[n]);
      const both = this.pair("ink", [0, 0]);
      const score = html("span", { class: "cell ink" });
      const bar = html("span", { class: "bar weight" });
      const share = html("span", { class: "share weight tint" });
      const name = html("span", { class: "word", text: word });
      const nodes = [name, key.box, both.box, score, html("span", { class: "track" }, bar, share)];
      return { both, score, bar, share, nodes };
    });
    const table = html("div", { class: "table" }, ...heads);
    table.append(...this.rows.flatMap(({ nodes }) => nodes));
    const names = [
      ["query", "query"], ["word", "value"], ["context", "output"], ["state", "query"]];
    this.parts = names.map(([name, role], n) => {
      const it = this.pair(role, [0, 0]);
      const title = html("span", { class: `head ${role} tint`, text: name });
      const sign = html("span", { class: "sign", text: ["+", "+", "→ tanh", ""][n] });
      return { ...it, title, node: html("div", { class: "part" }, title, it.box), sign };
    });
    const sums = this.parts.flatMap(({ node, sign }) => [node, sign]);
    this.words = writes.map((word) => {
      const node = html("span", { class: "likely" });
      return { word, node };
    });
    const list = html("div", { class: "next" }, ...this.words.map(({ node }) => node));
    this.picture.append(this.line, table, html("div", { class: "sums" }, ...sums), list);
    this.button("Next", () => this.next());
    this.choice("part", "up to", PARTS.map((part) => [part, part]));
    this.slider("step", "step", 1, MOST, 1, () => `${this.result.at + 1}`);
    this.choice("how", "", HOWS.map((how) => [how, how]));
  }

  pair(role, numbers) {
    const cells = numbers.map((x) => html("span", { class: `cell ${role}`, text: num(x) }));
    const box = html("span", { class: "pair" }, ...cells);
    const put = (row) =>
      cells.forEach((cell, i) =>
        set(cell, { text: num(row[i]), style: `--v: ${Math.min(1, Math.abs(row[i]) / 4)}` }),
      );
    put(numbers);
    return { box, put };
  }

  next() {
    const { words, at } = this.result;
    const part = PARTS.indexOf(this.state.part) + 1;
    if (part < PARTS.length) this.set({ part: PARTS[part] });
    else this.set({ part: PARTS[0], step: ((at + 1) % words.length) + 1 });
  }

  draw({ words, at, query, read, scores, weights, context, state, p }) {
    const part = PARTS.indexOf(this.state.part);
    const looks = scores.length > 0;
    const show = (node, from) => (node.style.visibility = part >= from ? "" : "hidden");
    const done = words.slice(0, part < 4 ? at : at + 1).join(" ");
    set(this.line, { text: `${this.numbers.reads.join(" ")} → ${done} ▁` });
    this.rows.forEach(({ both, score, bar, share, nodes }, n) => {
      both.put(this.numbers.states[n].map((x, i) => x + query[i]));
      set(score, { text: looks ? num(scores[n]) : "–" });
      set(bar, { style: `width: ${60 * (weights[n] ?? 0)}%` });
      set(share, { text: looks ? num(weights[n]) : "–" });
      nodes[2].style.visibility = looks ? "" : "hidden";
      show(nodes[4], 1);
    });
    const rows = [query, this.numbers.vectors[read], context, state];
    this.parts.forEach(({ put, node, sign, title }, n) => {
      put(rows[n]);
      const from = [0, 3, 2, 3][n];
      show(node, from);
      show(sign, Math.max(from, 3));
      if (n === 1) set(title, { text: read });
    });
    const best = argmax(p);
    this.words.forEach(({ word, node }, n) => {
      const look = n === best ? "likely best" : "likely";
      set(node, { text: `${word} ${num(p[n])}`, style: `--w: ${100 * p[n]}%`, class: look });
      show(node, 4);
    });
  }

  tell({ words, at, query, read, scores, weights, context, state, p }) {
    const { reads } = this.numbers;
    const step = `Step ${at + 1}`;
    if (!scores.length && PARTS.indexOf(this.state.part) < 3)
      return `${step}: nobody asks; the context is the last state, ${pair(context)}, at each step.`;
    const best = argmax(weights);
    const last = at === words.length - 1;
    const end = words[at] === "</s>" ? "the sentence has ended" : "and so on without an end";
    return {
      scores: `${step}: the state ${pair(query)} asks; its sum with each key makes a score.`,
      weights: `${step}: the softmax gives “${reads[best]}” ${num(weights[best] ?? 0)}.`,
      context: `${step}: the states, mixed by the weights, are the context ${pair(context)}.`,
      state: `${step}: state, vector of “${read}” and context make the new state ${pair(state)}.`,
      word:
        `${step}: the new state ${pair(state)} gives “${words[at]}” the probability ` +
        `${num(Math.max(...p))}, the largest; ${last ? end : "the next step reads it"}.`,
    }[this.state.part];
  }

  static style = `
    .line { font-size: 15px; margin-bottom: 6px }
    .table { display: grid; grid-template-columns: auto auto auto auto 1fr; gap: 4px 12px;
      align-items: center }
    .head { font-size: 13px; font-weight: 650; text-align: center }
    .word { text-align: right; font-weight: 650; font-size: 14px }
    .pair { display: inline-flex; gap: 2px; justify-content: center }
    .cell { min-width: 42px; height: 26px }
    .track { display: flex; align-items: center; gap: 6px }
    .bar { height: 16px; border-radius: 2px; background: var(--c) }
    .share { font-size: 13px }
    .sums { display: flex; flex-wrap: wrap; align-items: end; gap: 4px 8px; margin-top: 10px }
    .part { display: flex; flex-direction: column; gap: 3px }
    .sign { line-height: 26px; font-size: 14px }
    .next { display: grid; grid-template-columns: repeat(4, 1fr); gap: 2px 10px; margin-top: 10px }
    .likely { font-size: 13px; line-height: 24px; padding-left: 4px;
      background: linear-gradient(90deg, var(--d-surface) var(--w), transparent 0) }
    .best { font-weight: 650 }
    .set span { padding: 0 8px }
    @container (max-width: 480px) { .table { gap: 4px 6px } .cell { min-width: 36px }
      .next { grid-template-columns: repeat(2, 1fr) } }`;
}

define("attn-decoding", Decoding);
