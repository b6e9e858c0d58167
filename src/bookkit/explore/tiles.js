// Softmax and weighted mean in one pass, tile by tile, for one query; the table is never stored.
class Tiles extends Explorable {
  static limits = { T: [4, 8], block: [1, 8], tile: [1, 8], row: [0, 7] };

  compute({ T, block, tile, row, causal, powers, values }) {
    const tiles = Math.ceil(T / block);
    const query = Math.min(row, T - 1);
    const seen = (j) => !causal || j <= query;
    const [passed, answers] = [[], []];
    let [top, z, u] = [0, 0, 0];
    for (let n = 0; n < tiles; n += 1) {
      const keys = powers.slice(0, T).map((p, j) => (seen(j) ? p : 0));
      const here = keys.map((p, j) => (Math.floor(j / block) === n ? p : 0));
      const greatest = Math.max(top, ...here);
      const shrink = greatest ? top / greatest : 1;
      const weights = here.map((p) => (greatest ? p / greatest : 0));
      z = z * shrink + sum(weights);
      u = u * shrink + dot(weights, values.slice(0, T));
      top = greatest;
      passed.push({ top, z, u });
      answers.push(z ? u / z : 0);
    }
    const now = passed[Math.min(tile, tiles) - 1];
    return {
      ...now,
      answer: answers[Math.min(tile, tiles) - 1],
      answers,
      ...this.count(T, block, causal),
    };
  }

  // Of the whole table: tiles that are computed and skipped, scores computed, scores held at once.
  count(T, block, causal) {
    const found = { tiles: 0, skipped: 0, scored: 0, held: 0 };
    for (let i = 0; i < T; i += block) {
      const rows = Math.min(block, T - i);
      for (let j = 0; j < T; j += block) {
        const cells = rows * Math.min(block, T - j);
        const empty = causal && j > i + rows - 1;
        found[empty ? "skipped" : "tiles"] += 1;
        if (!empty) found.scored += cells;
        if (!empty) found.held = Math.max(found.held, cells);
      }
    }
    return found;
  }

  build() {
    const T = this.start.powers.length;
    this.strip = html("div", { class: "strip" });
    const label = (text, role) => html("div", { class: `label tint ${role}`, text });
    const places = Array.from({ length: T }, (_, j) => j);
    const row = (name, words, role, more) => {
      const cells = places.map((j) => this.number(name, words, role, j, more));
      this.rove(cells, { ArrowLeft: -1, ArrowRight: 1 });
      this.strip.append(label(words, role), ...cells);
      return cells;
    };
    this.power = row("powers", "exp(s)", "weight", { max: 16 });
    this.value = row("values", "value", "value", { max: 60 });
    this.slots = ["largest", "z, the sum", "u, weighted", "answer u / z"].map((name, n) => {
      const cell = html("div", { class: `cell ${n < 3 ? "state" : "output"}` });
      return { node: html("div", { class: "slot" }, html("span", { text: name }), cell), cell };
    });
    const slots = html("div", { class: "slots" }, ...this.slots.map(({ node }) => node));
    this.ruler = svg("svg", { viewBox: "0 0 380 74", role: "img" });
    set(this.ruler, { "aria-label": "the answer after each tile, and the exact one" });
    this.table = svg("svg", { viewBox: "0 0 170 170", role: "img", class: "table" });
    set(this.table, { "aria-label": "the table of scores, in tiles" });
    this.counts = html("div", { class: "counts" });
    const left = html("div", {}, this.steps(), this.strip, slots, this.ruler);
    const right = html("div", { class: "right" }, this.table, this.counts);
    this.picture.append(html("div", { class: "two" }, left, right));
    const sizes = [4, 6, 8].map((T) => [T, String(T)]);
    this.choice("T", "keys", sizes, (T) => this.fit({ T }));
    this.stepper("block", "block", 1, T, String, (block) => this.fit({ block }));
    this.choice("causal", "mask", [
      [false, "all"],
      [true, "causal"],
    ]);
    this.query = this.stepper("row", "query", 0, T - 1);
  }

  // What the other numbers become when the table or the tiles change their size.
  fit(patch) {
    const { T, block, tile, row } = { ...this.state, ...patch };
    const most = Math.min(block, T);
    const last = Math.ceil(T / most);
    return { ...patch, block: most, tile: Math.min(tile, last), row: Math.min(row, T - 1) };
  }

  number(name, words, role, j, { max }) {
    const node = html("div", { class: `cell ${role}`, "data-cell": `${name} ${j}` });
    const get = () => this.state[name][j];
    const put = (x) => this.set({ [name]: this.state[name].map((old, i) => (i === j ? x : old)) });
    const first = () => this.start[name][j];
    const range = { min: 0, max, step: 1, role: "spinbutton", show: String };
    this.scrub(node, { label: `${words} ${j}`, get, put, first, ...range });
    this.syncs.push(() => set(node, { text: get(), style: `--v: ${get() / max}` }));
    return node;
  }

  steps() {
    const box = html("div", { class: "steps" });
    const last = () => Math.ceil(this.state.T / this.state.block);
    const go = (by) => () => this.set({ tile: clamp(this.state.tile + by, 1, last()) });
    const back = this.button("◀", go(-1), { "aria-label": "tile before" }, box);
    const title = html("span", { class: "title", "aria-live": "polite" });
    box.append(title);
    const next = this.button("▶", go(1), { "aria-label": "next tile" }, box);
    this.syncs.push(({ tile }) => {
      set(title, { text: `tile ${Math.min(tile, last())} of ${last()}` });
      back.disabled = tile <= 1;
      next.disabled = tile >= last();
    });
    return box;
  }

  draw(result, held) {
    const { T, block, tile, causal, row, values } = this.state;
    set(this.strip, { style: `--T: ${T}` });
    const last = Math.ceil(T / block);
    const present = Math.min(tile, last) - 1;
    for (const cells of [this.power, this.value])
      cells.forEach((cell, j) => {
        const at = Math.floor(j / block);
        cell.hidden = j >= T;
        cell.classList.toggle("late", at > present);
        cell.classList.toggle("now", at === present);
        cell.classList.toggle("edge", j > 0 && j % block === 0);
        cell.classList.toggle("barred", causal && j > row);
      });
    const { top, z, u, answer } = result;
    [top, z, u, answer].forEach((x, n) => set(this.slots[n].cell, { text: num(x) }));
    this.query.hidden = !causal;
    this.line(result, present, held, Math.max(...values.slice(0, T), 1));
    this.grid(present);
    const { tiles, skipped, scored, held: kept } = result;
    const lines = [`${kept} of ${T * T} scores held at a time`, `${scored} scores computed`];
    lines.push(`${tiles} tiles${skipped ? `, ${skipped} skipped` : ""}`);
    this.counts.replaceChildren(...lines.map((text) => html("div", { text })));
  }

  line({ answers }, present, held, most) {
    const at = linear(0, most, 16, 364);
    const exact = at(answers.at(-1));
    const text = (x, y, words, kind) =>
      svg("text", { x: clamp(x, 24, 352), y, text: words, class: kind, "text-anchor": "middle" });
    const parts = [svg("path", { d: "M16 42H364", class: "hair" })];
    parts.push(svg("path", { d: `M${exact} 24V56`, class: "exact" }));
    answers.slice(0, present + 1).forEach((x, n) => {
      const kind = n === present ? "dot" : "dot old";
      parts.push(svg("circle", { cx: at(x), cy: 42, r: n === present ? 7 : 4, class: kind }));
    });
    if (held) parts.push(svg("circle", { cx: at(held.answer), cy: 42, r: 5, class: "ghost" }));
    parts.push(text(exact, 16, `exact ${num(answers.at(-1))}`, "name"));
    parts.push(text(at(answers[present]), 70, `now ${num(answers[present])}`, "name output"));
    this.ruler.replaceChildren(...parts);
  }

  // The table in tiles: passed, present, skipped; the followed query is a row of it.
  grid(present) {
    const { T, block, causal, row } = this.state;
    const side = 164 / T;
    const parts = [];
    const query = Math.floor(Math.min(row, T - 1) / block);
    for (let i = 0; i < T; i += block)
      for (let j = 0; j < T; j += block) {
        const [height, width] = [T - i, T - j].map((rest) => Math.min(block, rest) * side - 2);
        const [a, b] = [i / block, j / block];
        const empty = causal && j > i + Math.min(block, T - i) - 1;
        const done = a < query || (a === query && b <= present);
        const kind = empty ? "empty" : a === query && b === present ? "here" : done ? "done" : "";
        const box = { x: 3 + j * side, y: 3 + i * side, width, height, rx: 2 };
        parts.push(svg("rect", { ...box, class: `tile ${kind}` }));
        if (empty) {
          const cross = `M${box.x} ${box.y}l${width} ${height}m0 ${-height}l${-width} ${height}`;
          parts.push(svg("path", { d: cross, class: "cross" }));
        }
      }
    const mark = {
      x: 1.5,
      y: 1.5 + Math.min(row, T - 1) * side,
      width: 167,
      height: side + 1,
      rx: 3,
    };
    this.table.replaceChildren(...parts, svg("rect", { ...mark, class: "mark" }));
  }

  tell({ answer, answers, held }) {
    const { T, block, tile } = this.state;
    const last = Math.ceil(T / block);
    const now = Math.min(tile, last);
    const tidy = (x) => say(x).replace(".00", "");
    const exact = tidy(answers.at(-1));
    const kept = `${held} of the ${T * T} scores ${held > 1 ? "are" : "is"} held at a time.`;
    if (now === last) return `After the last tile the answer is exact: ${exact}. Only ${kept}`;
    const stop = `After ${now} of ${last} tiles the answer would be ${tidy(answer)}`;
    return `${stop}, the exact one is ${exact}. Only ${kept}`;
  }

  static style = `
    .two { display: grid; grid-template-columns: 1fr 180px; gap: 24px }
    .steps { display: flex; align-items: center; gap: 10px; margin-bottom: 8px }
    .title { font-weight: 650; min-width: 7em; text-align: center }
    .strip { display: grid; gap: 4px; grid-template-columns: 62px repeat(var(--T), 1fr) }
    .strip .cell { height: 36px }
    .label { font-size: 13px; font-weight: 650; display: flex; align-items: center }
    .late { background: none; color: var(--d-muted);
      box-shadow: inset 0 0 0 1px color-mix(in srgb, var(--d-line) 50%, transparent) }
    .now { box-shadow: 0 0 0 2px var(--d-ink) }
    .edge { margin-left: 5px }
    .barred { background: repeating-linear-gradient(135deg, transparent 0 4px,
      color-mix(in srgb, var(--d-muted) 40%, transparent) 4px 5px); color: var(--d-muted) }
    .slots { display: grid; grid-template-columns: repeat(4, 1fr); gap: 8px; margin: 14px 0 8px }
    .slot span { font-size: 12.5px; color: var(--d-muted); white-space: nowrap }
    .slot .cell { height: 38px; font-size: 16px; font-weight: 650; --v: .55 }
    .hair { stroke: var(--d-line) }
    .exact { stroke: var(--d-ink); stroke-width: 2 }
    .dot { fill: var(--d-output) } .old { opacity: .4 }
    .ghost { fill: none; stroke: var(--d-output); stroke-width: 1.5; opacity: .6 }
    .name { font-size: 14px; font-weight: 650 } .name.output { fill: var(--d-output) }
    .tile { fill: var(--d-surface) }
    .tile.done { fill: color-mix(in srgb, var(--d-weight-fill) 40%, var(--d-paper)) }
    .tile.here { fill: var(--d-weight-fill) }
    .tile.empty { fill: none } .cross { stroke: var(--d-line); opacity: .5 }
    .mark { fill: none; stroke: var(--d-ink); stroke-width: 2 }
    .table { max-width: 180px }
    .counts { font-size: 13px; color: var(--d-muted); margin-top: 8px }
    [hidden] { display: none !important }
    @container (max-width: 560px) {
      .strip { gap: 3px; grid-template-columns: 46px repeat(var(--T), 1fr) }
      .edge { margin-left: 2px }
      .two { grid-template-columns: 1fr }
      .right { display: flex; gap: 16px; align-items: center } .table { flex: 0 0 130px } }`;
}

define("attn-tiles", Tiles);
