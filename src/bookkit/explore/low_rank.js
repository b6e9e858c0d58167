// How much of a change a product of two thin matrices keeps, rank by rank.
const MOST = 48;
const [WIDTH, HEIGHT] = [400, 190];
const BOX = { left: 48, right: 390, top: 14, bottom: 150 };

class LowRankChange extends Explorable {
  static limits = { rank: [1, MOST], what: ["change", "model"] };

  compute({ rank, what }) {
    const { left, right } = this.numbers[what];
    const few = left.map((row) => row.slice(0, rank));
    return {
      kept: ["change", "model"].map((name) => this.numbers[name].kept[rank - 1]),
      numbers: rank * sum(this.numbers.shape),
      corner: matmul(few, right.slice(0, rank)),
    };
  }

  build() {
    const grid = () => this.numbers.change.corner.map((row) => row.map(() => html("div")));
    [this.whole, this.thin] = [grid(), grid()];
    this.heads = [0, 1].map(() => html("div", { class: "head" }));
    const table = (cells, n) => {
      const names = ["as it is", "of this rank"];
      const look = { class: "grid", role: "img", "aria-label": `8 × 8 numbers ${names[n]}` };
      return html("div", {}, this.heads[n], html("div", look, ...cells.flat()));
    };
    const tables = [this.whole, this.thin].map(table);
    this.plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    set(this.plot, { "aria-label": "share that is kept against the rank" });
    this.scale();
    this.picture.append(html("div", { class: "two" }, ...tables), this.plot);
    this.slider("rank", "rank", 1, MOST, 1, String);
    this.choice("what", "shown", [
      ["change", "the change"],
      ["model", "the matrix"],
    ]);
  }

  // Axes, the two curves and their names stay; two dots move.
  scale() {
    const { left, right, top, bottom } = BOX;
    this.atX = linear(1, MOST, left, right);
    this.atY = linear(0, 1, bottom, top);
    const line = (d, look) => svg("path", { d, class: look });
    const word = (x, y, text, anchor) =>
      svg("text", { x, y, text, class: "tick", "text-anchor": anchor });
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const y = this.atY(share);
      parts.push(line(`M${left} ${y}H${right}`, "hair"));
      parts.push(word(left - 8, y + 4, `${100 * share} %`, "end"));
    }
    for (const rank of [1, 12, 24, 36, 48])
      parts.push(word(this.atX(rank), bottom + 18, rank, "middle"));
    parts.push(word((left + right) / 2, bottom + 36, "rank", "middle"));
    for (const [what, look, name] of [
      ["change", "output", "of the change"],
      ["model", "state", "of the matrix itself"],
    ]) {
      const points = this.numbers[what].kept.map((y, n) => [this.atX(n + 1), this.atY(y)]);
      parts.push(line(path(points), `curve ${look}`));
      const [x, y] = points[points.length - 1];
      const below = what === "change" ? 22 : -14;
      const at = { x, y: y + below, class: `name ${look}`, "text-anchor": "end" };
      parts.push(svg("text", { ...at, text: name }));
    }
    this.dots = ["output", "state"].map((look) => svg("circle", { r: 5, class: `dot ${look}` }));
    this.plot.append(...parts, ...this.dots);
  }

  fill(cells, table) {
    table.forEach((row, i) =>
      row.forEach((x, j) => {
        const size = Math.min(1, Math.abs(x)).toFixed(2);
        set(cells[i][j], { class: `cell ${x > 0 ? "output" : "key"}`, style: `--v: ${size}` });
      }),
    );
  }

  draw({ kept, corner }) {
    const { rank, what } = this.state;
    this.fill(this.whole, this.numbers[what].corner);
    this.fill(this.thin, corner);
    set(this.heads[0], { text: what === "change" ? "the change" : "the matrix W" });
    set(this.heads[1], { text: `of rank ${rank}` });
    this.dots.forEach((dot, n) => set(dot, { cx: this.atX(rank), cy: this.atY(kept[n]) }));
  }

  tell({ kept, numbers }) {
    const [change, model] = kept.map((share) => `${say(100 * share, 0)} %`);
    const [rows, columns] = this.numbers.shape;
    const many = (x) => String(x).replace(/(\d)(?=(\d{3})+$)/g, "$1,");
    const few = `Rank ${this.state.rank} keeps ${change} of the change, with ${many(numbers)}`;
    const whole = `numbers instead of ${many(rows * columns)}.`;
    return `${few} ${whole} Of the matrix itself it would keep ${model}.`;
  }

  static style = `
    .two { display: grid; grid-template-columns: 1fr 1fr; gap: 26px; max-width: 30rem;
      margin: 0 auto 12px }
    .two + svg { max-width: 30rem; margin: 0 auto }
    .head { font-weight: 650; margin-bottom: 4px }
    .grid { display: grid; grid-template-columns: repeat(8, 1fr); gap: 1px }
    .grid .cell { aspect-ratio: 1; border-radius: 2px }
    .curve { fill: none; stroke: var(--c); stroke-width: 2.4 }
    .dot { fill: var(--c) }
    .name { font-weight: 650; fill: var(--c) }
    .tick { font-size: 13px; fill: var(--d-muted) }
    .hair { stroke: var(--d-line); opacity: .35 }
    @container (max-width: 480px) { .two { gap: 12px } }`;
}

define("attn-low-rank", LowRankChange);
