// Two translators that differ in their seed, and how much each looks at the words of the source.
const LONGEST = 29;
const COLOURS = ["weight", "query"];
const percent = (share) => `${Math.floor((Math.floor(1000 * share + 0.5) + 5) / 10)} %`;

class Alignment extends Explorable {
  static limits = { sentence: [0, 11], seed: [0, 1], word: [0, LONGEST] };

  get here() {
    return this.numbers.sentences[this.state.sentence];
  }

  compute({ sentence, seed, word }) {
    const { said, weights } = this.numbers.sentences[sentence];
    const mine = said[seed];
    const place = Math.min(word, mine.length - 1);
    const same = (row) => row.flatMap((found, n) => (found === mine[place] ? [n] : []));
    const nth = same(mine).indexOf(place);
    const at = [place, place];
    at[1 - seed] = same(said[1 - seed])[nth] ?? -1;
    const looks = at.map((n, i) => (n < 0 ? [] : weights[i][n].map((x) => x / 1000)));
    return { word: mine[place], at, looks };
  }

  build() {
    this.source = html("p", { class: "line" });
    this.fixedLine = html("p", { class: "line" });
    this.rows = [0, 1].map((seed) => {
      const words = html("div", { class: "words", role: "group" });
      set(words, { "aria-label": `what seed ${seed} wrote` });
      const name = html("span", { class: `who ${COLOURS[seed]} tint`, text: `seed ${seed}` });
      return { words, row: html("div", { class: "said" }, name, words) };
    });
    this.table = html("div", { class: "table" });
    const written = this.rows.map(({ row }) => row);
    this.picture.append(this.source, this.fixedLine, ...written, this.table);
    const last = this.numbers.sentences.length - 1;
    this.slider("sentence", "sentence", 0, last, 1, (n) => `${n + 1} of ${last + 1}`);
    this.choice("seed", "follow seed", [
      [0, "0"],
      [1, "1"],
    ]);
    this.button("Next word", () => this.next());
  }

  next() {
    const count = this.here.said[this.state.seed].length;
    this.set({ word: (this.result.at[this.state.seed] + 1) % count });
  }

  // The nodes of a sentence are made when it is first drawn.
  lay() {
    if (this.laid === this.state.sentence) return;
    this.laid = this.state.sentence;
    const { source, reference, fixed, said } = this.here;
    set(this.source, { text: `${source.join(" ")} → ${reference}` });
    this.fixedLine.replaceChildren(html("span", { class: "who", text: "one vector" }), fixed);
    this.buttons = said.map((words, seed) =>
      words.map((text, word) =>
        html("button", { type: "button", text, onclick: () => this.set({ seed, word }) }),
      ),
    );
    this.rows.forEach(({ words }, seed) => {
      words.replaceChildren(...this.buttons[seed]);
      this.rove(this.buttons[seed], { ArrowLeft: -1, ArrowRight: 1 });
    });
    this.bars = source.map((word) => {
      const two = COLOURS.map((role) => html("span", { class: `bar ${role}` }));
      const shares = COLOURS.map((role) => html("span", { class: `share ${role} tint` }));
      const name = html("span", { class: "word", text: word });
      return { two, shares, nodes: [name, html("span", { class: "track" }, ...two), ...shares] };
    });
    this.table.replaceChildren(...this.bars.flatMap(({ nodes }) => nodes));
  }

  draw({ at, looks }) {
    this.lay();
    const { seed: followed } = this.state;
    this.buttons.forEach((row, seed) =>
      row.forEach((node, word) => {
        const later = seed === followed && word > at[seed] ? "later" : "";
        set(node, { "aria-pressed": String(word === at[seed]), class: later });
      }),
    );
    this.bars.forEach(({ two, shares }, n) =>
      looks.forEach((row, seed) => {
        set(two[seed], { style: `width: ${100 * (row[n] ?? 0)}%` });
        set(shares[seed], { text: row.length ? percent(row[n]) : "–" });
      }),
    );
  }

  tell({ word, looks }) {
    const { seed } = this.state;
    const { source } = this.here;
    const [mine, other] = [looks[seed], looks[1 - seed]].map((row) => {
      const place = argmax(row);
      return row.length ? `“${source[place]}” (${percent(row[place])})` : "";
    });
    const end = other ? `at ${other}.` : "never writes it.";
    return `Writing “${word}”, seed ${seed} looks most at ${mine}; seed ${1 - seed} ${end}`;
  }

  static style = `
    .line { font-size: 15px; margin-bottom: 6px }
    .who { font-size: 13px; font-weight: 650; min-width: 6.4em; display: inline-block }
    .said { display: flex; align-items: center; margin-bottom: 6px }
    .said .who { flex: none; color: var(--c) }
    .words { display: flex; flex-wrap: wrap; gap: 4px }
    .words button { padding: 0 7px }
    .words .later { color: var(--d-muted) }
    .table { display: grid; grid-template-columns: auto 1fr 3em 3em; gap: 2px 8px;
      align-items: center; margin-top: 10px }
    .word { text-align: right; font-weight: 650; font-size: 14px }
    .track { display: block; height: 22px; padding: 2px 0; border-radius: 4px;
      background: var(--d-surface) }
    .bar { display: block; height: 8px; margin-top: 1px; border-radius: 2px;
      background: var(--c) }
    .share { font-size: 13px; text-align: right; color: var(--c) }
    @container (max-width: 480px) { .table { grid-template-columns: auto 1fr 2.7em 2.7em } }`;
}

define("attn-alignment", Alignment);
