// Four heads of a trained model: what they write is added up, so any of them can be left out.
const HEADS = 4;
const SEATS = 12;
const DRINKS = 10;
const LEVELS = 5;
const NAMES = ["left", "friend", "both"];

const unpack = (text) =>
  new Int16Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
const percent = (share) => `${Math.floor(100 * share + 0.5)} %`;
const range = (n) => Array.from({ length: n }, (_, i) => i);

function switched(on) {
  const heads = range(HEADS).filter((head) => on[head]);
  if (!heads.length) return "No head is on, so everybody says the same.";
  if (heads.length === 1) return `Only head ${heads[0]} is on.`;
  return `Heads ${heads.slice(0, -1).join(", ")} and ${heads.at(-1)} are on.`;
}

class HeadSwitchboard extends Explorable {
  static limits = { seed: [0, 2], seat: [0, SEATS - 1] };

  // The biases are part 0, what the heads write are parts 1 to 4.
  logits({ on, seed }) {
    const { parts, step } = this.models[seed];
    const used = [0, ...range(HEADS).flatMap((head) => (on[head] ? [head + 1] : []))];
    const at = (seat, which, drink) =>
      step * sum(used.map((part) => parts[((part * SEATS + seat) * 2 + which) * DRINKS + drink]));
    return range(SEATS).map((seat) =>
      [0, 1].map((which) => range(DRINKS).map((drink) => at(seat, which, drink))),
    );
  }

  compute(state) {
    this.models ??= this.numbers.models.map((model) => ({
      ...model,
      parts: unpack(model.parts),
    }));
    const logits = this.logits(state);
    const code = state.on.reduce((total, on) => 2 * total + Number(on), 0);
    const counts = this.models[state.seed].right[code];
    return {
      said: logits.map((two) => two.map(argmax)),
      chances: logits[state.seat].map((row) => softmax(row)),
      ...Object.fromEntries(NAMES.map((name, n) => [name, counts[n] / 3600])),
    };
  }

  build() {
    this.maps = range(HEADS).map((head) => {
      const shades = range(LEVELS).map((n) => svg("path", { opacity: (n + 1) / LEVELS }));
      const row = svg("rect", { x: 0.5, width: 107, height: 9, class: "row" });
      const marks = ["left", "friend"].map((who) =>
        svg("rect", { width: 9, height: 9, class: who }));
      const view = { viewBox: "-1 -1 110 110", "aria-hidden": "true" };
      const picture = svg("svg", view, ...shades, row, ...marks);
      const onclick = () => this.flip(head);
      const name = html("span");
      const node = html("button", { type: "button", class: "map", onclick }, name, picture);
      return { node, name, shades, row, marks };
    });
    this.bars = NAMES.map((name) => {
      const [bar, words] = [html("span", { class: "bar" }), html("span")];
      return { bar, words, row: [html("span", { text: name }), html("span", {}, bar), words] };
    });
    this.says = NAMES.slice(0, 2).map((name) => {
      const cells = range(DRINKS).map((drink) =>
        html("span", { class: "cell value", text: drink }));
      const ten = html("span", { class: "ten" }, ...cells);
      return { cells, row: [html("span", { text: name }), ten] };
    });
    this.asked = html("p", { class: "hint" });
    const nodes = this.maps.map(({ node }) => node);
    const shares = html("div", { class: "bars" }, ...this.bars.flatMap(({ row }) => row));
    const said = html("div", { class: "bars two" }, ...this.says.flatMap(({ row }) => row));
    this.picture.append(html("div", { class: "maps" }, ...nodes), shares, this.asked, said);
    const seeds = range(3).map((seed) => [seed, String(seed)]);
    this.choice("seed", "seed", seeds);
    this.slider("seat", "seat", 0, SEATS - 1, 1, String);
  }

  flip(head) {
    this.set({ on: this.state.on.map((on, n) => (n === head ? !on : on)) });
  }

  draw({ chances, ...shares }) {
    const { on, seed, seat } = this.state;
    const [{ maps }, { sits, truth }] = [this.models[seed], this.numbers];
    this.maps.forEach(({ node, name, shades, row, marks }, head) => {
      set(node, { "aria-pressed": String(on[head]), "aria-label": `head ${head}` });
      set(name, { text: `${head} ${on[head] ? "on" : "off"}` });
      const paths = range(LEVELS).map(() => "");
      range(SEATS * SEATS).forEach((cell) => {
        const level = Number(maps[head * SEATS * SEATS + cell]);
        const place = `M${9 * (cell % SEATS)} ${9 * Math.floor(cell / SEATS)}`;
        if (level) paths[level - 1] += `${place}h9v9h-9z`;
      });
      shades.forEach((shade, n) => set(shade, { d: paths[n] }));
      set(row, { y: 9 * seat });
      const at = [(seat + SEATS - 1) % SEATS, sits[seat]];
      marks.forEach((mark, n) => set(mark, { x: 9 * at[n], y: 9 * seat }));
    });
    this.bars.forEach(({ bar, words }, n) => {
      set(bar, { style: `width: ${100 * shares[NAMES[n]]}%` });
      set(words, { text: percent(shares[NAMES[n]]) });
    });
    set(this.asked, { text: `What seat ${seat} says, and how sure it is; framed: what is right` });
    this.says.forEach(({ cells }, which) =>
      cells.forEach((cell, drink) => {
        const framed = truth[seat][which] === drink ? " framed" : "";
        const style = `--v: ${chances[which][drink].toFixed(3)}`;
        set(cell, { class: `cell value${framed}`, style });
      }),
    );
  }

  tell({ said, left, friend, both }) {
    const { on, seat } = this.state;
    const truth = this.numbers.truth[seat];
    const shares = `left ${percent(left)}, friend ${percent(friend)}, both ${percent(both)}`;
    const says = `Seat ${seat} says ${said[seat].join(" and ")}; right is ${truth.join(" and ")}.`;
    return `${switched(on)} Right answers: ${shares}. ${says}`;
  }

  static style = `
    .maps { display: grid; grid-template-columns: repeat(4, 1fr); gap: 10px; margin-bottom: 12px }
    .map, .map[aria-pressed=true] { flex-direction: column; gap: 4px; padding: 4px;
      background: none; color: var(--d-ink); box-shadow: inset 0 0 0 1.5px var(--d-line) }
    .map[aria-pressed=true] { box-shadow: inset 0 0 0 2.5px var(--d-weight) }
    .map[aria-pressed=false] svg { opacity: .35 }
    .map path { fill: var(--d-weight) }
    .map rect { fill: none; stroke: var(--d-ink); stroke-width: .8 }
    .map .left { stroke: var(--d-position); stroke-width: 2 }
    .map .friend { stroke: var(--d-key); stroke-width: 2 }
    .bars { display: grid; grid-template-columns: 3.4em 1fr 3.2em; gap: 4px 8px;
      align-items: center; font-size: 14px }
    .two { grid-template-columns: 3.4em 1fr; margin-top: 4px }
    .bar { display: block; height: 16px; border-radius: 3px; background: var(--d-output) }
    .hint { margin-top: 10px }
    .ten { display: grid; grid-template-columns: repeat(10, 1fr); gap: 3px }
    .ten .cell { height: 26px }
    .framed { outline: 2px solid var(--d-ink); outline-offset: -1px }`;
}

define("attn-heads", HeadSwitchboard);
