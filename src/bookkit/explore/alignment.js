// Two translators that differ in their seed, and one with a single vector, write word by word.
const LONGEST = 29;
const ROW = 24;
const ONE_VECTOR = 2;
const NAMES = ["seed 0", "seed 1", "one vector"];
const COLOURS = ["weight", "query", "state"];
const percent = (share) => `${Math.floor((Math.floor(1000 * share + 0.5) + 5) / 10)} %`;

// A stored step is "word 412 other 300 third 50": the words and their thousandths.
function candidates(step) {
  const parts = step.split(" ");
  const words = parts.filter((_, n) => n % 2 === 0);
  return words.map((word, n) => [word, Number(parts[2 * n + 1]) / 1000]);
}

class Alignment extends Explorable {
  static limits = { sentence: [0, 7], follow: [0, 2], word: [0, LONGEST] };

  get here() {
    return this.numbers.sentences[this.state.sentence];
  }

  compute({ sentence, follow, word }) {
    const { next, weights } = this.numbers.sentences[sentence];
    const said = next.map((steps) => steps.map((step) => step.split(" ")[0]));
    const place = Math.min(word, said[follow].length - 1);
    const written = said[follow][place];
    const places = said.map((words) => words.flatMap((w, n) => (w === written ? [n] : [])));
    const nth = places[follow].indexOf(place);
    const at = places.map((found) => found[nth] ?? -1);
    const looks = weights.map((rows, i) => (rows[at[i]] ?? []).map((x) => x / 1000));
    const likely = next.map((steps) => (steps[place] ? candidates(steps[place]) : []));
    return { said, word: written, at, looks, next: likely };
  }

  build() {
    this.source = html("p", { class: "line" });
    this.rows = NAMES.map((name, n) => {
      const label = { role: "group", "aria-label": `what ${name} wrote` };
      const words = html("div", { class: "words", ...label });
      const who = html("span", { class: `who ${COLOURS[n]} tint`, text: name });
      return { words, row: html("div", { class: "said" }, who, words) };
    });
    this.lines = svg("svg", { role: "img", class: "lines" });
    this.likely = NAMES.map((name, n) => {
      const list = [0, 1, 2].map(() => html("span", { class: "likely" }));
      const who = html("span", { class: `who ${COLOURS[n]} tint`, text: name });
      return { list, column: html("div", {}, who, ...list) };
    });
    const columns = this.likely.map(({ column }) => column);
    const next = html("div", { class: "next" }, ...columns);
    const rows = this.rows.map(({ row }) => row);
    const hint = html("p", { class: "hint", text: "the likeliest words at this step:" });
    this.picture.append(this.source, ...rows, this.lines, hint, next);
    const last = this.numbers.sentences.length - 1;
    this.slider("sentence", "sentence", 0, last, 1, (n) => `${n + 1} of ${last + 1}`);
    this.choice("follow", "follow", [...NAMES.entries()]);
    this.button("Next word", () => this.next());
  }

  next() {
    const { said, at } = this.result;
    const { follow } = this.state;
    this.set({ word: (at[follow] + 1) % said[follow].length });
  }

  // The nodes of a sentence are made when it is first drawn.
  lay(said) {
    if (this.laid === this.state.sentence) return;
    this.laid = this.state.sentence;
    const { source, reference } = this.here;
    set(this.source, { text: `${source.join(" ")} → ${reference}` });
    this.buttons = said.map((words, follow) =>
      words.map((text, word) =>
        html("button", { type: "button", text, onclick: () => this.set({ follow, word }) }),
      ),
    );
    this.rows.forEach(({ words }, n) => {
      words.replaceChildren(...this.buttons[n]);
      this.rove(this.buttons[n], { ArrowLeft: -1, ArrowRight: 1 });
    });
  }

  // Source at the left, what was written at the right; a line is as wide as its weight.
  cross({ said, at, looks }) {
    const { source, weights } = this.here;
    const { follow } = this.state;
    const words = said[follow];
    const high = ROW * Math.max(source.length, words.length);
    const phone = this.getBoundingClientRect().width < 480;
    const [first, left, right, whole] = phone ? [30, 138, 212, 330] : [28, 150, 310, 460];
    const [start, end, middle] = [left + 8, right - 8, (left + right) / 2];
    const y = (n) => ROW * (n + 0.5);
    const text = (x, n, words, look) => svg("text", { x, y: y(n) + 5, class: look, text: words });
    const line = (from, to, weight, look) => {
      const bend = `C${middle} ${y(from)} ${middle} ${y(to)} ${end} ${y(to)}`;
      const d = `M${start} ${y(from)}${bend}`;
      const wide = (0.6 + 7 * weight).toFixed(2);
      return svg("path", { d, class: look, "stroke-width": wide });
    };
    const parts = [];
    for (const [to, row] of (weights[follow] ?? []).entries())
      for (const [from, share] of row.entries())
        if (share > 30 && to !== at[follow])
          parts.push(line(from, to, share / 1000, `look pale ${COLOURS[follow]}`));
    for (const seed of follow === 1 ? [0, 1] : [1, 0])
      for (const [from, share] of looks[seed].entries())
        if (share > 0.03 && (seed === follow || follow === ONE_VECTOR || at[seed] >= 0))
          parts.push(line(from, at[follow], share, `look ${COLOURS[seed]}`));
    source.forEach((word, n) => {
      parts.push(text(left, n, word, "from"));
      looks.forEach((row, seed) => {
        const words = row.length ? percent(row[n]) : "–";
        if (!row.length || row[n] >= 0.01)
          parts.push(text(first + 40 * seed, n, words, `share ${COLOURS[seed]}`));
      });
    });
    words.forEach((word, n) => {
      const node = text(right, n, word, n === at[follow] ? "to now" : "to");
      parts.push(set(node, { onclick: () => this.set({ word: n }) }));
    });
    const about = `where ${NAMES[follow]} looks, word by word`;
    set(this.lines, { viewBox: `0 0 ${whole} ${high}`, "aria-label": about }).replaceChildren(...parts);
  }

  draw({ said, at, looks, next }) {
    this.lay(said);
    const { follow } = this.state;
    this.buttons.forEach((row, n) =>
      row.forEach((node, word) => {
        const later = n === follow && word > at[n] ? "later" : "";
        set(node, { "aria-pressed": String(word === at[n]), class: later });
      }),
    );
    this.cross({ said, at, looks });
    this.likely.forEach(({ list }, n) =>
      list.forEach((node, k) => {
        const [word, share] = next[n][k] ?? ["–", 0];
        const text = next[n].length ? `${word} ${percent(share)}` : k ? "" : "has ended";
        set(node, { text, style: `--w: ${100 * share}%` });
      }),
    );
  }

  tell({ word, looks }) {
    const { follow } = this.state;
    const { source } = this.here;
    const parts = looks.map((row, seed) => {
      if (!row.length) return `seed ${seed} never writes it`;
      const place = argmax(row);
      return `seed ${seed} looks most at “${source[place]}” (${percent(row[place])})`;
    });
    if (follow === 1) parts.reverse();
    if (follow === ONE_VECTOR) parts.unshift("one vector has nowhere to look");
    return `Writing “${word}”, ${parts.join("; ")}.`;
  }

  static style = `
    .line { font-size: 15px; margin-bottom: 6px }
    .who { font-size: 13px; font-weight: 650; min-width: 6.4em; display: inline-block;
      color: var(--c) }
    .said { display: flex; align-items: center; margin-bottom: 4px }
    .said .who { flex: none }
    .words { display: flex; flex-wrap: wrap; gap: 4px }
    .words button { padding: 0 7px }
    .words .later { color: var(--d-muted) }
    .lines { max-width: 34rem; margin-top: 10px }
    .look { fill: none; stroke: var(--c); stroke-opacity: .8; stroke-linecap: round }
    .pale { stroke-opacity: .16 }
    .from { text-anchor: end; font-weight: 650 }
    .to { cursor: pointer } .now { font-weight: 650 }
    .lines .share { font-size: 12.5px; text-anchor: end; fill: var(--c) }
    .next { display: grid; grid-template-columns: repeat(3, 1fr); gap: 2px 12px }
    .hint { margin-top: 8px }
    .likely { display: block; font-size: 13px; line-height: 21px; min-height: 21px;
      background: linear-gradient(90deg, var(--d-surface) var(--w), transparent 0) }`;
}

define("attn-alignment", Alignment);
