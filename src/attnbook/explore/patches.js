// A digit that is moved, cut into rows, and read by two trained networks.
const SIDE = 8;
const COLOURS = ["query", "key", "value", "position"];
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
      ...Object.fromEntries(NETS.map(([net]) => [net, this.numbers[net][move][state.digit]])),
      share: NETS.map(([net]) => this.numbers.share[net][move]),
    };
  }

  build() {
    const squares = () => Array.from({ length: 64 }, () => svg("rect", {}));
    [this.pixels, this.cells] = [squares(), squares()];
    const view = (name, parts) =>
      svg("svg", { viewBox: "0 0 200 200", role: "img", "aria-label": name }, ...parts);
    this.cuts = svg("path", { class: "cuts" });
    const two = [
      view("cut", [...this.pixels, this.cuts]),
      view("rows", this.cells),
    ];
    this.says = NETS.map(([, name]) => {
      const [bar, words] = [html("i"), html("b")];
      return [html("div", { class: "net" }, html("span", { text: name }), bar, words), bar, words];
    });
    const nets = html("div", {}, ...this.says.map(([line]) => line));
    this.picture.append(html("div", { class: "two" }, ...two), nets);
    this.slider("digit", "digit", 0, 9, 1, String);
    this.slider("right", "right", -2, 2, 1, (x) => num(x));
    this.slider("down", "down", -2, 2, 1, (x) => num(x));
    const sizes = ["1", "2", "4", "8"].map((size) => [size, size]);
    this.choice("size", "patch side", sizes);
    this.choice("way", "", [
      ["patches", "cut"],
      ["reshape", "reshape alone"],
    ]);
  }

  draw({ rows, ...found }) {
    const p = Number(this.state.size);
    const role = (i, j) => COLOURS[(Math.floor(i / p) % 2) * 2 + (Math.floor(j / p) % 2)];
    const shade = (x) => `--v: ${(x / 16).toFixed(2)}`;
    this.moved(this.state).forEach((row, i) =>
      row.forEach((x, j) => {
        const at = { x: 25 * j, y: 25 * i, width: 24, height: 24 };
        set(this.pixels[8 * i + j], { ...at, class: `p ${role(i, j)}`, style: shade(x) });
      }),
    );
    const lines = [];
    for (let n = p; n < SIDE; n += p) lines.push(`M${25 * n - 0.5} 0v200M0 ${25 * n - 0.5}h200`);
    set(this.cuts, { d: lines.join("") });
    const places = this.places(this.state);
    const [wide, high] = [Math.min(24, 200 / rows[0].length), Math.min(24, 200 / rows.length)];
    rows.forEach((row, n) =>
      row.forEach((x, k) => {
        const at = { x: wide * k, y: high * n, width: wide * 0.94, height: high * 0.84 };
        const look = { class: `p ${role(...places[n][k])}`, style: shade(x) };
        set(this.cells[n * row.length + k], { ...at, ...look });
      }),
    );
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
    .p { fill: color-mix(in srgb, var(--f) calc(100% * (.1 + var(--v, 0) * .8)), var(--d-paper)) }
    .cuts { stroke: var(--d-ink); stroke-width: 1.6; fill: none }
    .net { display: grid; grid-template-columns: 7rem 1fr 4.6rem; gap: 10px; align-items: center;
      max-width: 28rem; margin: 4px auto }
    .net i { height: 14px; border-radius: 3px; width: var(--w); background: var(--c) }
    .net b { font-weight: 650 }
    @container (max-width: 480px) { .two { gap: 12px } }`;
}

define("attn-patches", PatchRows);
