// A digit that is moved, cut into rows, and read by two trained networks.
const SIDE = 8;
const NETS = [
  ["cnn", "convolutional"],
  ["vit", "transformer"],
];

class PatchRows extends Explorable {
  static limits = {
    digit: [0, 9],
    down: [-2, 2],
    right: [-2, 2],
    size: ["1", "2", "4", "8"],
    way: ["patches", "reshape"],
  };

  // Which pixels stand in which row: [[row of pixel, column], …] for each.
  places({ size, way }) {
    const p = Number(size);
    const [many, long] = [(SIDE / p) ** 2, p * p];
    return Array.from({ length: many }, (_, n) =>
      Array.from({ length: long }, (_, k) => {
        if (way === "reshape") return [Math.floor((n * long + k) / SIDE), (n * long + k) % SIDE];
        const [top, left] = [Math.floor(n / (SIDE / p)) * p, (n % (SIDE / p)) * p];
        return [top + Math.floor(k / p), left + (k % p)];
      }),
    );
  }

  moved({ digit, down, right }) {
    const picture = this.numbers.digits[digit];
    return picture.map((row, i) => row.map((_, j) => picture[i - down]?.[j - right] ?? 0));
  }

  compute(state) {
    const pixels = this.moved(state);
    const move = (state.down + 2) * 5 + state.right + 2;
    return {
      rows: this.places(state).map((row) => row.map(([i, j]) => pixels[i][j])),
      ...Object.fromEntries(NETS.map(([net]) => [net, this.numbers[net][move][state.digit].split(",").map(Number)])),
      share: NETS.map(([net]) => this.numbers.share[net][move]),
    };
  }

  build() {
    const squares = () => Array.from({ length: 64 }, () => svg("rect", { class: "p" }));
    [this.pixels, this.cells] = [squares(), squares()];
    this.cuts = svg("path", { class: "cuts" });
    this.marks = [0, 1].map(() => svg("path", { class: "mark" }));
    const view = (about, ...parts) => svg("svg", { viewBox: "0 0 200 200", ...about }, ...parts);
    const held = "the digit: drag it, or move it with the arrow keys";
    this.paper = view(
      { role: "group", "aria-label": held, tabindex: 0, class: "paper" },
      ...this.pixels,
      this.cuts,
      this.marks[0],
    );
    const read = view({ role: "img", "aria-label": "the rows" }, ...this.cells, this.marks[1]);
    this.follow(this.paper, this.pixels);
    this.follow(read, this.cells);
    this.drag(this.paper, () => {
      const { right, down } = this.state;
      const pixel = this.paper.getBoundingClientRect().width / SIDE;
      return (dx, dy) => this.move(right + Math.round(dx / pixel), down + Math.round(dy / pixel));
    });
    const by = (right, down) => () =>
      this.move(this.state.right + right, this.state.down + down);
    const ways = { ArrowLeft: by(-1, 0), ArrowRight: by(1, 0), ArrowUp: by(0, -1), ArrowDown: by(0, 1) };
    this.keys(this.paper, { ...ways, Home: () => this.move(this.start.right, this.start.down) });
    const two = [this.paper, read];
    this.says = NETS.map(([, name]) => {
      const [bar, words] = [html("i"), html("b")];
      return [html("div", { class: "net" }, html("span", { text: name }), bar, words), bar, words];
    });
    const nets = html("div", {}, ...this.says.map(([line]) => line));
    this.picture.append(html("div", { class: "two" }, ...two), nets);
    this.choice(
      "digit",
      "digit",
      Array.from({ length: 10 }, (_, n) => [n, String(n)]),
    );
    const arrows = Object.entries({ ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" });
    const names = { "←": "to the left", "→": "to the right", "↑": "up", "↓": "down" };
    const pad = this.control("move");
    for (const [key, sign] of arrows) this.button(sign, ways[key], { "aria-label": names[sign] }, pad);
    const sizes = ["1", "2", "4", "8"].map((size) => [size, size]);
    this.choice("size", "patch side", sizes);
    this.choice("way", "", [
      ["patches", "cut"],
      ["reshape", "reshape alone"],
    ]);
  }

  move(right, down) {
    this.set({ right: clamp(right, -2, 2), down: clamp(down, -2, 2) });
  }

  // What is pointed at, in the picture or among the rows, is framed in both.
  follow(view, nodes) {
    set(view, {
      onpointermove: (event) => {
        const box = view.getBoundingClientRect();
        const at = [event.clientY - box.top, event.clientX - box.left];
        const [i, j] = at.map((x) => Math.floor((200 * x) / box.width));
        const row = nodes === this.cells ? Math.floor(i / this.high) : this.rowOf(i, j);
        if (row >= 0 && row !== this.over) [this.over] = [row, this.redraw()];
      },
    });
  }

  rowOf(y, x) {
    const [i, j] = [Math.floor(y / 25), Math.floor(x / 25)];
    return this.places(this.state).findIndex((row) => row.some(([a, b]) => a === i && b === j));
  }

  draw({ rows, ...found }) {
    const p = Number(this.state.size);
    const shade = (x, odd) => `--v: ${(x / 16).toFixed(2)}; --odd: ${odd ? 1 : 0}`;
    const places = this.places(this.state);
    const rowAt = new Map(places.flatMap((row, n) => row.map(([i, j]) => [8 * i + j, n])));
    const odd = (n) => (p < SIDE ? (Math.floor(n / (SIDE / p)) + n) % 2 : 0);
    this.moved(this.state).forEach((row, i) =>
      row.forEach((x, j) => {
        const at = { x: 25 * j, y: 25 * i, width: 25, height: 25 };
        set(this.pixels[8 * i + j], { ...at, style: shade(x, odd(rowAt.get(8 * i + j))) });
      }),
    );
    const lines = [];
    for (let n = p; n < SIDE; n += p) lines.push(`M${25 * n} 0v200M0 ${25 * n}h200`);
    set(this.cuts, { d: this.state.way === "patches" ? lines.join("") : "" });
    const [wide, high] = [Math.min(25, 200 / rows[0].length), Math.min(25, 200 / rows.length)];
    this.high = high;
    rows.forEach((row, n) =>
      row.forEach((x, k) => {
        const at = { x: wide * k, y: high * n, width: wide, height: high - 1.5 };
        set(this.cells[n * row.length + k], { ...at, style: shade(x, odd(n)) });
      }),
    );
    const dark = (row) => row.reduce((a, b) => a + b, 0);
    const most = rows.reduce((best, row, n) => (dark(row) > dark(rows[best]) ? n : best), 0);
    const over = this.over < rows.length ? this.over : most;
    const square = ([i, j]) => `M${25 * j + 1} ${25 * i + 1}h23v23h-23z`;
    set(this.marks[0], { d: places[over].map(square).join("") });
    set(this.marks[1], { d: `M1 ${high * over}H${wide * rows[0].length - 1}v${high - 1.5}H1z` });
    NETS.forEach(([net], n) => {
      const [, bar, words] = this.says[n];
      const best = Math.max(...found[net]);
      const answer = found[net].indexOf(best);
      const look = answer === this.state.digit ? "value" : "gradient";
      set(bar, { class: look, style: `--w: ${best}%` });
      set(words, { text: `${answer}, ${best} %` });
    });
  }

  tell({ rows, share }) {
    const { way, size, down, right } = this.state;
    const many = rows.length === 1 ? "1 row" : `${rows.length} rows`;
    const wrong = way === "reshape" && !["8", "1"].includes(size);
    const pieces = wrong ? "pieces of lines and no patches" : `patches with a side of ${size}`;
    const [cnn, vit] = share.map((x) => `${say(100 * x, 0)} %`);
    const where = down || right ? "moved so" : "in place";
    const all = `Of all 397 test digits ${where} the convolutional network recognises ${cnn},`;
    return `${many} of ${rows[0].length}: ${pieces}. ${all} the transformer ${vit}.`;
  }

  static style = `
    .two { display: grid; grid-template-columns: 1fr 1fr; gap: 26px; max-width: 28rem;
      margin: 0 auto 14px }
    .p { fill: color-mix(in srgb, var(--d-ink) calc(100% * (var(--odd) * .07 + var(--v, 0) * .9)),
      var(--d-paper)) }
    .paper { cursor: grab; touch-action: pan-y; box-shadow: 0 0 0 1px var(--d-line) }
    .paper:active { cursor: grabbing }
    .cuts { stroke: var(--d-paper); stroke-width: 3; fill: none }
    .mark { stroke: var(--d-gradient); stroke-width: 2; fill: none; pointer-events: none }
    .net { display: grid; grid-template-columns: 7rem 1fr 4.6rem; gap: 10px; align-items: center;
      max-width: 28rem; margin: 4px auto }
    .net i { height: 14px; border-radius: 3px; width: var(--w); background: var(--c) }
    .net b { font-weight: 650 }
    @container (max-width: 480px) { .two { gap: 12px } }`;
}

define("attn-patches", PatchRows);
