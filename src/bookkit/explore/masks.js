// A Boolean mask to paint: who may look at whom, and who hears of whom after some layers.
const LAYERS = 4;

// As in Python: row i looks at column j; w is the width.
const PATTERNS = {
  all: () => true,
  causal: (i, j) => i >= j,
  window: (i, j, w) => i >= j && i - j < w,
  blocks: (i, j, w) => Math.floor(i / w) === Math.floor(j / w),
  hubs: (i, j, w) => i < w || j < w,
  global: (i, j) => i >= j && (j === 0 || i === j),
  prefix: (i, j, w) => i >= j || j < w,
  documents: (i, j, w) => i >= j && i < w === j < w,
  strided: (i, j, w) => (((i - j) % w) + w) % w === 0,
};

const table = (T, cell) =>
  Array.from({ length: T }, (_, i) => Array.from({ length: T }, (_, j) => cell(i, j)));
const compose = (a, b) => table(a.length, (i, j) => a[i].some((seen, k) => seen && b[k][j]));

// Who hears of whom after 1, 2, … layers.
function reaches(mask) {
  const found = [mask];
  while (found.length < LAYERS) found.push(compose(found.at(-1), mask));
  return found;
}

// "row 2", "rows 2 to 8", "rows 1 and 4", "5 rows".
function rowsNamed(rows) {
  if (rows.length === 1) return `row ${rows[0]}`;
  const [first, last] = [rows[0], rows.at(-1)];
  if (last - first === rows.length - 1) return `rows ${first} to ${last}`;
  return rows.length > 3 ? `${rows.length} rows` : `rows ${rows.join(", ")}`;
}

class MaskPainter extends Explorable {
  static limits = { pattern: Object.keys(PATTERNS), layers: [1, LAYERS], width: [1, 12] };

  compute({ pattern, width, flips, row }) {
    const base = table(this.numbers.T, (i, j) => PATTERNS[pattern](i, j, width));
    const mask = base.map((line) => [...line]);
    for (const [i, j] of flips) mask[i][j] = !mask[i][j];
    const [all, before] = [reaches(mask), reaches(base)];
    const fresh = all.map((reach, n) =>
      reach.map((line, i) => line.map((x, j) => x && !before[n][i][j])),
    );
    const told = fresh.map((lines) => lines.flatMap((line, i) => (line.some(Boolean) ? [i] : [])));
    const reach = all.map((lines) => lines[row]);
    const pairs = mask.flat().filter(Boolean).length;
    return {
      mask,
      reach,
      told,
      pairs,
      complete: all.map((r) => r.flat().every(Boolean)),
      all,
      fresh,
    };
  }

  build() {
    const { T } = this.numbers;
    this.board = html("div", { class: "board", style: `--T: ${T}` });
    this.grid = html("div", {
      class: "mask",
      role: "grid",
      "aria-label": "mask: rows look at columns",
    });
    const heads = Array.from({ length: T }, (_, j) => html("span", { class: "head", text: j }));
    this.board.append(html("span"), ...heads, this.grid);
    this.cells = Array.from({ length: T }, (_, i) => this.row(i, T));
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -T, ArrowDown: T };
    this.rove(this.cells.flat(), moves);
    this.rove(this.names, { ArrowUp: -1, ArrowDown: 1 });
    this.paint();
    this.heading = html("div", { class: "of" });
    this.board.append(this.heading);
    this.strips = Array.from({ length: LAYERS }, (_, n) => {
      const cells = heads.map(() => html("span", { class: "strip" }));
      this.board.append(html("span", { class: "head", text: `×${n + 1}` }), ...cells);
      return cells;
    });
    this.side = html("div", { class: "side" });
    const left = html("div", {}, this.board, this.sentence);
    this.picture.append(html("div", { class: "two" }, left, this.side));
    this.patterns();
    this.side.append(this.code());
  }

  row(i, T) {
    const pick = () => this.set({ row: i });
    const name = html("button", { type: "button", class: "pick", text: i, onclick: pick });
    set(name, { "aria-label": `follow row ${i}` });
    (this.names ??= []).push(name);
    const cells = Array.from({ length: T }, (_, j) => {
      const node = html("span", { class: "box", role: "gridcell", "data-cell": `${i} ${j}` });
      const flip = () => this.put(i, j, !this.result.mask[i][j]);
      this.keys(node, { " ": flip, Enter: flip });
      return node;
    });
    const head = html("span", { role: "rowheader", class: "name" }, name);
    this.grid.append(html("div", { role: "row", class: "row" }, head, ...cells));
    return cells;
  }

  // Where the mask differs from its pattern is kept as a list of flips.
  put(i, j, seen) {
    if (this.result.mask[i][j] === seen) return;
    const others = this.state.flips.filter(([a, b]) => a !== i || b !== j);
    const flips = others.length < this.state.flips.length ? others : [...others, [i, j]];
    this.set({ flips: flips.sort(([a, b], [c, d]) => a - c || b - d) });
  }

  // A mouse paints at once; a finger after 120 ms or when it moves sideways, else it scrolls.
  paint() {
    let brush = null;
    const at = ({ clientX, clientY }) => {
      const T = this.numbers.T;
      const [first, last] = [this.cells[0][0], this.cells[T - 1][T - 1]];
      const [a, b] = [first.getBoundingClientRect(), last.getBoundingClientRect()];
      const place = (x, low, high) => clamp(Math.floor(((x - low) / (high - low)) * T), 0, T - 1);
      return [place(clientY, a.top, b.bottom), place(clientX, a.left, b.right)];
    };
    const start = () => {
      if (!brush || brush.on) return;
      brush.on = true;
      this.put(...brush.cell, brush.seen);
    };
    const down = (event) => {
      if (event.button || !event.target.dataset.cell) return;
      const cell = at(event);
      brush = { cell, seen: !this.result.mask[cell[0]][cell[1]], x: event.clientX };
      this.grid.setPointerCapture(event.pointerId);
      if (event.pointerType === "touch") brush.timer = setTimeout(start, 120);
      else start();
      this.cells[cell[0]][cell[1]].focus({ preventScroll: true });
      if (event.pointerType !== "touch") event.preventDefault();
    };
    const move = (event) => {
      if (brush && Math.abs(event.clientX - brush.x) > 8) start();
      if (brush?.on) this.put(...at(event), brush.seen);
    };
    const up = (event) => {
      if (event.type === "pointerup") start();
      clearTimeout(brush?.timer);
      brush = null;
    };
    set(this.grid, {
      onpointerdown: down,
      onpointermove: move,
      onpointerup: up,
      onpointercancel: up,
    });
    const hold = (event) => brush?.on && event.cancelable && event.preventDefault();
    this.grid.addEventListener("touchmove", hold, { passive: false });
  }

  patterns() {
    const icon = (pattern) => {
      const cells = table(5, (i, j) => PATTERNS[pattern](i, j, 2) && [i, j])
        .flat()
        .filter(Boolean);
      const d = cells.map(([i, j]) => `M${j * 6} ${i * 6}h5v5h-5z`).join("");
      return svg("svg", { viewBox: "0 0 29 29", class: "icon" }, svg("path", { d }));
    };
    const options = Object.keys(PATTERNS).map((pattern) => [pattern, pattern, icon(pattern)]);
    const fresh = (pattern) => ({ pattern, flips: [] });
    const group = this.choice("pattern", "", options, fresh);
    set(group, { "aria-label": "pattern" }).classList.add("patterns");
    this.width = this.stepper("width", "width", 1, this.numbers.T);
    const layers = this.stepper("layers", "layers", 1, LAYERS);
    this.side.append(group, html("div", { class: "steps" }, this.width, layers));
  }

  code() {
    this.python = html("pre", {
      class: "code",
      tabindex: 0,
      role: "group",
      "aria-label": "in Python",
    });
    const box = html("div", { class: "python" }, this.python);
    this.copier = this.button("Copy", () => this.copy(), {}, box);
    return box;
  }

  async copy() {
    const range = document.createRange();
    range.selectNodeContents(this.python);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    try {
      await navigator.clipboard.writeText(this.python.textContent);
      this.copier.textContent = "Copied";
    } catch {
      this.copier.textContent = "Selected"; // where the browser does not let a page copy
    }
    setTimeout(() => (this.copier.textContent = "Copy"), 1500);
  }

  draw({ mask, reach, all, fresh }) {
    const { pattern, width, flips, row, layers } = this.state;
    const flipped = new Set(flips.map(String));
    const [heard, news] = [all[layers - 1], fresh[layers - 1]];
    this.cells.forEach((cells, i) => {
      set(this.names[i], { "aria-pressed": String(i === row) });
      cells.forEach((node, j) => {
        const kinds = ["box", mask[i][j] ? "seen" : "hidden", i === row && "here"];
        if (!mask[i][j] && heard[i][j]) kinds.push(news[i][j] ? "news" : "heard");
        if (flipped.has(`${i},${j}`)) kinds.push("flip");
        const words = kinds.filter(Boolean).join(" ");
        if (node.className === words) return;
        const label = `${i} ${mask[i][j] ? "looks" : "does not look"} at ${j}`;
        set(node, { class: words, "aria-label": label, "aria-selected": String(mask[i][j]) });
      });
    });
    this.strips.forEach((cells, n) => {
      cells.forEach((node, j) => {
        const kind = !reach[n][j] ? "" : fresh[n][row][j] ? "new" : "full";
        set(node, { class: `strip ${kind} ${n < layers ? "" : "later"}` });
      });
    });
    set(this.heading, { text: `Row ${row} hears of (after 1 to ${LAYERS} layers)` });
    this.width.hidden = ["all", "causal", "global"].includes(pattern);
    const { T, python } = this.numbers;
    const lines = [`i = torch.arange(${T})[:, None]`, `j = torch.arange(${T})`];
    lines.push(`mask = ${python[pattern].replaceAll("w", width)}`);
    const part = (n) => (flips.length > 1 ? `[${flips.map((f) => f[n]).join(", ")}]` : flips[0][n]);
    if (flips.length) lines.push(`mask[${part(0)}, ${part(1)}] ^= True`);
    set(this.python, { text: lines.join("\n") });
  }

  tell({ mask, reach, told, complete }) {
    const { flips, row, layers } = this.state;
    const counts = reach.map((line) => line.filter(Boolean).length);
    const places = counts[0]
      ? `hears of ${counts.join(", ")} places`
      : "sees nothing and gets zeros";
    const here = `Row ${row} ${places}${counts[0] ? ` after 1, 2, 3, 4 layers` : ""}.`;
    const all = complete.indexOf(true) + 1;
    const whole = all ? ` All hear of all after ${all} layer${all > 1 ? "s" : ""}.` : "";
    if (!flips.length) return here + whole;
    const cells =
      flips.length > 1 ? `${flips.length} flipped cells tell` : "One flipped cell tells";
    const [now, then] = [told[0], told[layers - 1]];
    if (!then.length) return `${cells} nobody anything new. ${here}`;
    const first = now.length ? rowsNamed(now) : "nobody";
    const later = layers > 1 ? `, and after ${layers} layers ${rowsNamed(then)}` : "";
    return `${cells} ${first} something new${later}. ${here}`;
  }

  static style = `
    .two { display: grid; grid-template-columns: minmax(0, 395px) 1fr; gap: 20px }
    .board { display: grid; gap: 2px; grid-template-columns: 28px repeat(var(--T), minmax(0, 1fr)) }
    .mask { display: grid; grid-column: 1 / -1; grid-template-columns: subgrid; gap: 2px;
      cursor: cell }
    .row { display: contents }
    .head { font-size: 12px; color: var(--d-muted); text-align: center; align-self: center }
    .name { display: grid }
    .pick { padding: 0; min-width: 0; min-height: 0; font-size: 12px; background: none;
      color: var(--d-muted); border-radius: 5px }
    .box { aspect-ratio: 1; border-radius: 3px; display: grid; place-items: center }
    .seen { background: color-mix(in srgb, var(--d-weight-fill) 78%, var(--d-paper)) }
    .hidden { background: repeating-linear-gradient(135deg, transparent 0 4px,
      color-mix(in srgb, var(--d-muted) 38%, transparent) 4px 5px) }
    .seen.here { background: var(--d-weight-fill) }
    .hidden.here { box-shadow: inset 0 0 0 1px var(--d-line) }
    .heard::after, .news::after { content: ""; width: 34%; aspect-ratio: 1; border-radius: 50%;
      background: var(--d-weight) }
    .news::after { width: 56%; background: var(--d-ink) }
    .flip { outline: 2.5px solid var(--d-ink); outline-offset: -1px }
    .of { grid-column: 1 / -1; font-size: 13px; color: var(--d-muted); margin-top: 8px }
    .strip { height: 15px; border-radius: 3px; background: var(--d-surface) }
    .strip.full { background: color-mix(in srgb, var(--d-weight-fill) 78%, var(--d-paper)) }
    .strip.new { background: var(--d-ink) }
    .later { opacity: .45 }
    .side { display: flex; flex-direction: column; gap: 12px }
    .patterns { display: grid; grid-template-columns: repeat(3, 1fr); background: none; gap: 4px }
    .patterns span { flex-direction: column; gap: 5px; padding: 7px 2px 4px; width: 100%;
      font-size: 13px; background: var(--d-surface) }
    .icon { width: 34px; height: 34px; fill: currentColor }
    .steps { display: flex; flex-wrap: wrap; gap: 8px 14px; font-size: 14px; min-height: 34px }
    .python { background: var(--d-surface); border-radius: 8px; padding: 9px 10px;
      display: flex; flex-direction: column; align-items: flex-end; gap: 4px }
    .python button { background: var(--d-paper); font-size: 13px }
    .code { margin: 0; width: 100%; white-space: pre-wrap; font: 12.5px/1.5 ui-monospace,
      "Cascadia Mono", "DejaVu Sans Mono", monospace; user-select: text; -webkit-user-select: text }
    [hidden] { display: none !important }
    @container (max-width: 600px) {
      .two { grid-template-columns: 1fr }
      .board { grid-template-columns: repeat(calc(var(--T) + 1), minmax(0, 1fr)); gap: 1px }
      .mask { gap: 1px } }`;
}

define("attn-masks", MaskPainter);
