// Inside a trained model: what each layer expects after a token, and where a head looks from there.
const OFF = { none: "none", 3.3: "3.3", five: "five that look back", others: "five others" };
const LAYERS = ["embedding", "after layer 0", "after layer 1", "after layer 2", "after layer 3"];
const SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const shown = (token) => token.replace(/^ +| +$/g, "").replace("\n", "↵") || "␣";

class Inside extends Explorable {
  static limits = { place: [0, 19], head: [0, 15], off: Object.keys(OFF) };

  compute({ place, head, off }) {
    const run = this.numbers.runs[off];
    const from = (place * (place + 1)) / 2;
    const looks = run.looks[head] || this.numbers.runs.none.looks[head];
    const letters = [...looks].slice(from, from + place + 1);
    return {
      best: run.p.map((layer) => layer[place] / 100),
      right: run.right.map((layer) => layer[place] / 1000),
      looks: letters.map((letter) => SIGNS.indexOf(letter) / 63),
    };
  }

  build() {
    const { tokens } = this.numbers;
    this.line = html("div", { class: "line" });
    this.words = tokens.map((token, place) => {
      const last = place === tokens.length - 1;
      return this.button(shown(token), () => this.set({ place }), { disabled: last }, this.line);
    });
    this.rove(this.words.slice(0, -1), { ArrowLeft: -1, ArrowRight: 1 });
    this.table = html("div", { class: "table" });
    this.head = html("div", { class: "wide" });
    this.table.append(html("div"), html("div", { class: "muted", text: "its guess" }), this.head);
    this.rows = LAYERS.map((name) => {
      const guess = html("div", { class: "guess" });
      const bar = html("div", { class: "bar" });
      const now = html("div", { class: "now" });
      const layer = html("div", { class: "layer", text: name });
      this.table.append(layer, guess, html("div", { class: "track" }, bar), now);
      return { guess, bar, now };
    });
    const grid = html("div", { class: "heads" });
    this.heads = Array.from({ length: 16 }, (_, head) => {
      const name = `${Math.floor(head / 4)}.${head % 4}`;
      const label = { "aria-label": `head ${name}` };
      const button = this.button(name, () => this.set({ head }), label, grid);
      button.prepend(this.map(head));
      return button;
    });
    this.rove(this.heads, { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -4, ArrowDown: 4 });
    this.picture.append(this.line, this.table);
    this.controls.append(html("div", { class: "pick" }, html("span", { text: "where does head" }),
      grid, html("span", { text: "look?" })));
    this.choice("off", "heads at their mean", Object.entries(OFF));
  }

  // All that a head looks at, small: a row for each token, a column for each that it sees.
  map(head) {
    const count = this.words.length;
    const canvas = html("canvas", { width: count, height: count });
    const pen = canvas.getContext("2d");
    const picture = pen.createImageData(count, count);
    const letters = this.numbers.runs.none.looks[head];
    for (let row = 0, n = 0; row < count; row += 1) {
      for (let column = 0; column <= row; column += 1, n += 1) {
        picture.data[4 * (row * count + column) + 3] = 4 * SIGNS.indexOf(letters[n] ?? "A");
      }
    }
    pen.putImageData(picture, 0, 0);
    return html("span", { class: "map", style: `--map: url(${canvas.toDataURL()})` });
  }

  draw({ best, right, looks }) {
    const { place, head, off } = this.state;
    const { tokens, names, runs } = this.numbers;
    this.words.forEach((word, t) => {
      const style = `--v: ${(looks[t] ?? 0).toFixed(3)}`;
      set(word, { "aria-pressed": String(t === place), class: t > place ? "later" : "weight",
        style });
    });
    this.heads.forEach((node, n) => set(node, { "aria-pressed": String(n === head) }));
    set(this.head, { text: `chance of “${shown(tokens[place + 1])}”` });
    this.rows.forEach(({ guess, bar, now }, n) => {
      set(guess, { text: `${shown(names[runs[off].best[n][place]])} ${num(best[n])}` });
      set(bar, { style: `width: ${100 * right[n]}%` });
      set(now, { text: num(right[n], 3) });
    });
  }

  tell({ right, looks }) {
    const { place, head } = this.state;
    const { tokens } = this.numbers;
    const most = looks.indexOf(Math.max(...looks));
    return `After “${shown(tokens[place])}” comes “${shown(tokens[place + 1])}”; the layers give ` +
      `it ${right.map((p) => p.toFixed(2)).join(", ")}. Head ${Math.floor(head / 4)}.${head % 4} ` +
      `looks at “${shown(tokens[most])}” with weight ${looks[most].toFixed(2)}.`;
  }

  static style = `
    .line { display: flex; flex-wrap: wrap; gap: 4px; margin-bottom: 12px }
    .line button { min-width: 32px; padding: 0 7px; font-size: 16px; color: var(--d-cell);
      background: color-mix(in srgb, var(--f, transparent)
        calc(100% * (.06 + var(--v, 0) * (var(--r, .4) - .06))), var(--d-paper)) }
    .line button[aria-pressed=true] { color: var(--d-cell); font-weight: 700;
      box-shadow: inset 0 0 0 2.5px var(--d-ink) }
    .line .later { color: var(--d-muted); background: none;
      box-shadow: inset 0 0 0 1px color-mix(in srgb, var(--d-line) 45%, transparent) }
    .table { display: grid; gap: 4px 10px; align-items: center; font-size: 14px;
      grid-template-columns: 7em 6em 1fr 3em }
    .wide { grid-column: span 2; color: var(--d-muted) }
    .muted { color: var(--d-muted); text-align: right }
    .layer, .guess, .now { text-align: right; white-space: nowrap }
    .guess, .now { font-weight: 650 }
    .track { height: 22px }
    .bar { height: 22px; border-radius: 4px; min-width: 1px; background: var(--d-output) }
    .pick { display: flex; align-items: center; gap: 8px; flex-wrap: wrap }
    .heads { display: grid; grid-template-columns: repeat(8, 1fr); gap: 3px }
    .heads button { min-height: 32px; min-width: 44px; padding: 4px 4px 1px; font-size: 13px;
      display: grid; justify-items: center; gap: 1px }
    .map { width: 32px; height: 32px; background: linear-gradient(currentcolor, currentcolor);
      mask: var(--map) center / 100% 100% no-repeat; image-rendering: pixelated }
    .heads button[aria-pressed=false] .map { background: var(--d-weight) }
    @container (max-width: 480px) { .table { grid-template-columns: 6.4em 5em 1fr 2.6em;
      gap: 4px 6px; font-size: 13px } .say { min-height: 5.8em } .line button { font-size: 15px }
      .heads button { min-width: 34px } .map { width: 26px; height: 26px } }`;
}

define("attn-inside", Inside);
