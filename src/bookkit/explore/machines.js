// One sentence in four machines: words as strong as their influence, and how each machine looks.
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const PAIRS = [["key", "keys"], ["cabinet", "cabinets"], ["hall", "halls"]];
const NOUNS = ["subject", "second", "third"];
const WORDS = ["The", 0, "to", "the", "old", 1, "in", "the", 2];
const LOOKS = { RNN: 0, LSTM: 0, attention: 1, transformer: 2 };
const FULL = 0.52; // moved by a word that decides alone: half of the others have the other number
const BITS = [0, 1];
const VARIANTS = [
  ...BITS.flatMap((a) => BITS.flatMap((b) => BITS.map((c) => [a, b, c]))),
  ...BITS.flatMap((a) => BITS.map((b) => [a, b])),
];
const HOW = {
  RNN: "one state is carried from word to word",
  LSTM: "gates protect a second state on its way",
  attention: "the last state looks back at every state",
  transformer: "two rounds of looks, no state on the way",
};
const length = (variant) => (variant.length === 3 ? 9 : 6);
const percent = (share) => Math.floor(100 * share + 0.5);

class FourMachines extends Explorable {
  static limits = { stage: [0, 2], seed: [0, 2], word: [-1, 8] };

  compute(state) {
    const many = NOUNS.slice(0, state.long ? 3 : 2).map((noun) => Number(state[noun]));
    const at = VARIANTS.findIndex((variant) => same(variant, many));
    const found = {};
    for (const [name, text] of this.numbers.machines) {
      const size = (variant) => 1 + length(variant) * (1 + LOOKS[name]);
      const round = VARIANTS.reduce((total, variant) => total + size(variant), 0);
      let from = (state.seed * this.numbers.stages.length + state.stage) * round;
      for (const variant of VARIANTS.slice(0, at)) from += size(variant);
      const row = [...text.slice(from, from + size(many))].map((one) => LETTERS.indexOf(one) / 63);
      const T = length(many);
      const cut = (n) => row.slice(1 + n * T, 1 + (n + 1) * T);
      const looks = Array.from({ length: LOOKS[name] }, (_, n) => cut(n + 1));
      found[name] = { are: row[0], influence: cut(0), looks };
    }
    return found;
  }

  words() {
    const words = WORDS.slice(0, this.state.long ? 9 : 6);
    return words.map((w) => (typeof w === "number" ? PAIRS[w][Number(this.state[NOUNS[w]])] : w));
  }

  build() {
    this.line = html("p", { class: "line" });
    this.nouns = {};
    for (const word of WORDS) {
      if (typeof word !== "number") this.line.append(html("span", { text: word }));
      else {
        const onclick = () => this.set({ [NOUNS[word]]: !this.state[NOUNS[word]] });
        this.nouns[word] = this.button("", onclick, { class: "noun" }, this.line);
      }
    }
    this.line.append(html("span", { text: "…" }));
    this.rows = this.numbers.machines.map(([name, , , , weights]) => {
      const here = this.numbers.here.includes(name);
      const verdict = html("span", { class: "verdict" });
      const view = svg("svg", { "aria-hidden": "true" });
      const hint = html("span", { class: "hint", text: HOW[name] });
      const head = html("div", { class: "head" }, html("b", { text: name }), hint, verdict);
      const box = html("div", { class: here ? "row here" : "row" }, head, view);
      return { name, box, view, verdict, weights };
    });
    // Doors stand below the picture: it is one thing that is moved, with nothing to press within.
    const doors = this.numbers.machines
      .filter(([name]) => !this.numbers.here.includes(name))
      .map(([name, , chapter, page]) =>
        html("a", { href: `${page}.html`, text: `${name} → ${chapter}` }));
    this.doors = html("p", { class: "doors" }, ...doors.flatMap((door) => [door, " "]));
    this.rowsBox = html("div", { class: "rows" }, ...this.rows.map(({ box }) => box));
    this.scrub(this.rowsBox, {
      label: "word that is followed", min: -1, max: 8, step: 1, pixels: 24,
      get: () => Math.min(this.state.word, this.words().length - 1),
      put: (word) => this.set({ word: Math.min(word, this.words().length - 1) }),
      first: () => this.start.word,
      show: (word) => (word < 0 ? "none" : this.words()[word]),
    });
    const at = ({ clientX }) => {
      const box = this.rows[0].view.getBoundingClientRect();
      const x = ((clientX - box.left) / box.width) * this.wide;
      return this.places().findIndex(([from, size]) => x >= from - 2 && x < from + size + 2);
    };
    set(this.rowsBox, {
      onpointermove: (event) => {
        if (event.pointerType === "mouse" && !event.buttons && at(event) !== this.state.word)
          this.set({ word: at(event) });
      },
      onpointerleave: (event) => event.pointerType === "mouse" && this.set({ word: -1 }),
      onclick: (event) => this.set({ word: at(event) }),
    });
    this.picture.append(this.line, this.rowsBox);
    if (doors.length && /\/book\/[^/]*$/.test(location.pathname)) this.picture.append(this.doors);
    const steps = this.numbers.stages.map((stage, n) => [n, String(stage)]);
    this.choice("stage", "steps of training", steps);
    this.choice("seed", "seed", [0, 1, 2].map((seed) => [seed, String(seed)]));
    this.more = this.button("", () => this.set({ long: !this.state.long, word: -1 }));
    new ResizeObserver(() => {
      if (this.wide !== this.width()) this.redraw();
    }).observe(this);
  }

  width() {
    return this.clientWidth > 560 ? 640 : 344;
  }

  // Where each word stands: [left, width], for the longest form of the nouns, so that nothing moves.
  places() {
    const phone = this.width() < 600;
    const [letter, pad, gap] = phone ? [7, 5, 3] : [8.3, 18, 10];
    let x = phone ? 0 : 4;
    return WORDS.slice(0, this.state.long ? 9 : 6).map((word) => {
      const long = typeof word === "number" ? PAIRS[word][1] : word;
      const size = long.length * letter + pad;
      x += size + gap;
      return [x - size - gap, size];
    });
  }

  draw(result) {
    const { subject, stage, seed, long, word } = this.state;
    this.wide = this.width();
    const [words, places] = [this.words(), this.places()];
    [...this.line.children].forEach((node, n) =>
      set(node, { style: !long && n > 5 && n < 9 ? "display: none" : "" }));
    for (const [n, node] of Object.entries(this.nouns)) {
      const many = this.state[NOUNS[n]];
      set(node, { text: PAIRS[n][Number(many)], "aria-label": `${PAIRS[n][Number(many)]}, exchange` });
    }
    set(this.more, { text: long ? "Leave out the third noun" : "Put in the third noun" });
    for (const row of this.rows) {
      const { are, influence, looks } = result[row.name];
      const good = are > 0.5 === subject;
      const verb = are > 0.5 ? "are" : "is";
      const shown = `${verb} ${good ? "✓" : "✗"} ${percent(Math.max(are, 1 - are))} %`;
      set(row.verdict, { text: shown, class: good ? "verdict" : "verdict wrong" });
      set(row.view, { viewBox: `0 0 ${this.wide} 74` });
      row.view.replaceChildren(...this.lines(row.name, places, influence, looks));
      places.forEach(([x, size], n) => {
        const v = Math.min(1, influence[n] / FULL).toFixed(3);
        const edge = n === word ? " followed" : "";
        const box = { x, y: 48, width: size, height: 24, rx: 3, class: `output ink-of${edge}` };
        row.view.append(
          svg("rect", { ...box, style: `--v: ${v}` }),
          svg("text", { x: x + size / 2, y: 65, "text-anchor": "middle", text: words[n] }),
        );
      });
      const [x, size] = places.at(-1);
      const at = { x: x + size + (this.wide < 600 ? 4 : 12), y: 65, class: good ? "verb" : "verb bad" };
      row.view.append(svg("text", { ...at, text: verb }));
    }
  }

  // The way from each word to the blank: a thread of states, a fan, or two storeys of arcs.
  lines(name, places, influence, looks) {
    const middles = places.map(([x, size]) => x + size / 2);
    const [last, width] = places.at(-1);
    const end = last + width + (this.wide < 600 ? 12 : 24);
    const found = [];
    const path = (d, thick, kind, n) => {
      const dim = this.state.word >= 0 && n >= 0 && n !== this.state.word ? " dim" : "";
      const style = `stroke-width: ${thick.toFixed(2)}`;
      if (thick > 0.02) found.push(svg("path", { d, style, class: kind + dim }));
    };
    if (name === "RNN" || name === "LSTM") {
      let carried = 0;
      const bars = name === "LSTM" ? [32, 20] : [28];
      middles.forEach((x, n) => {
        carried = Math.min(FULL * 1.3, carried + influence[n]);
        const to = middles[n + 1] ?? end;
        path(`M${x} 48V${bars.at(-1)}`, 0.8 + (8 * influence[n]) / FULL, "thread", n);
        bars.forEach((y, b) => {
          path(`M${x} ${y}H${to}`, b < bars.length - 1 ? 1 : 0.8 + (8 * carried) / FULL, "thread", -1);
          found.push(svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8, rx: 2, class: "knot" }));
        });
      });
      path(`M${end} ${bars.at(-1)}V46`, 0.8 + (8 * carried) / FULL, "thread", -1);
    } else {
      if (name === "attention") path(`M${middles[0]} 43H${end}`, 1, "thread", -1);
      looks.forEach((row, storey) => {
        const top = looks.length === 1 ? 4 : [24, 2][storey];
        row.forEach((weight, n) => {
          const x = middles[n];
          const high = top + 30 * (1 - (end - x) / (end - middles[0])) * (storey ? 0.5 : 0.6);
          const bend = `C${x} ${high} ${end} ${high} ${end} 44`;
          path(`M${x} 46${bend}`, 0.5 + 7 * weight, storey ? "arc above" : "arc", n);
        });
      });
    }
    return found;
  }

  tell(result) {
    const { stage, subject, word } = this.state;
    const names = this.numbers.machines.map(([name]) => name);
    const words = this.words();
    const steps = this.numbers.stages[stage];
    if (word >= 0 && word < words.length) {
      const each = names.map((name) => `${name} ${percent(result[name].influence[word])}`).join(", ");
      return `Exchange “${words[word]}” for another word of its kind, and the chance of are moves by so many points: ${each}.`;
    }
    const good = names.filter((name) => result[name].are > 0.5 === subject).length;
    const top = names.map((name) => `${name} ${words[argmax(result[name].influence)]}`).join(", ");
    return `After ${steps} steps of training ${good} of 4 say ${subject ? "are" : "is"}. What moves each most: ${top}.`;
  }

  static style = `
    .line { display: flex; flex-wrap: wrap; align-items: center; gap: 0 7px; font-size: 18px; margin-bottom: 8px }
    .line .noun { font-weight: 650; padding: 0 9px; min-height: 34px; text-decoration: underline dotted 1px; text-underline-offset: 4px }
    .rows { display: grid; gap: 6px; border-radius: 6px }
    .row { padding: 2px 6px 4px; border-left: 4px solid transparent; cursor: default }
    .row.here { border-left-color: var(--d-weight) }
    .head { display: flex; align-items: baseline; gap: 10px; font-size: 15px }
    .head .hint { flex: 1 }
    .doors { margin: 6px 0 0; font-size: 14px }
    .doors a { color: inherit; display: inline-block; padding: 4px 14px 4px 0 }
    .verdict { font-weight: 650; color: var(--d-value); white-space: nowrap }
    .verdict.wrong { color: var(--d-gradient) }
    .row svg { overflow: hidden }
    .row text { fill: var(--d-cell); font-size: 15px }
    .row text.verb { fill: var(--d-value); font-weight: 700; font-size: 17px }
    .row text.bad { fill: var(--d-gradient) }
    .ink-of { fill: var(--f); fill-opacity: calc(.13 + var(--v, 0) * (var(--r) - .13)) }
    .followed { stroke: var(--d-ink); stroke-width: 2 }
    path { fill: none; stroke-linecap: round }
    .thread { stroke: var(--d-output); opacity: .75 }
    .arc { stroke: var(--d-weight); opacity: .6 }
    .dim { opacity: .12 }
    .knot { fill: var(--d-paper); stroke: var(--d-state); stroke-width: 1.5 }
    @container (max-width: 560px) {
      .head .hint { display: none } .head { justify-content: space-between }
      .row { padding: 0 0 0 4px; border-left-width: 2px }
      .row text { font-size: 12.5px } .row text.verb { font-size: 13px }
      .line { font-size: 16px; gap: 0 5px } .line .noun { padding: 0 6px }
    }`;
}

define("attn-machines", FourMachines);
