// A chip with a few slots, and tiles of attention that are fetched into it in some order.
const [N, B, LONG, D] = [4, 4, 512, 128];
const SLOT = 2 * LONG * D;
const ONE = "two requests";
const ROWS = { "all pairs": N, causal: N, [ONE]: 2 };
const LEVELS = Object.keys(ROWS);
// The first row is shown tile by tile: the first scores are kept until their V comes.
const GUIDE = "q0k0s0v0k1v1k2v2k3v3";
const LOOKS = { q: "query", k: "key", v: "value", y: "output", s: "weight" };
const range = (n) => Array.from({ length: n }, (_, i) => i);
// A pair is a number; row and column.
const sides = (pair) => [pair >> 2, pair % N];
const scoresOf = (pair) => `s${pair.toString(16)}`;
const number = (tile) => parseInt(tile[1], 16);
// Q₀; scores by their pair, S₀₁.
const called = (tile) => tile[0].toUpperCase() + (/s/i.test(tile) ? sides(number(tile)) : [tile[1]]).map((n) => "₀₁₂₃"[n]).join("");
const mega = (bytes) => `${say(bytes / 1e6)} MB`;
// With the table: queries, keys, values, answers; scores and weights are written and read.
const FULL = SLOT * (4 * N + 4 * B * N * N);

class Chip {
  constructor(name, slots) {
    Object.assign(this, { name, slots: Array(slots).fill(""), moves: "", moved: 0, course: [[0, 0]], saved: new Set(), done: [] });
    this.pairs = range(ROWS[name] * N).filter((pair) => name !== "causal" || pair % N <= pair >> 2);
  }

  pay(tile) {
    this.moved += /[qy]/.test(tile) && this.name === ONE ? 2 * D : SLOT * (tile[0] === "s" ? B : 1);
  }

  has(...tiles) {
    return tiles.every((tile) => this.slots.includes(tile));
  }

  open() {
    return this.pairs.filter((pair) => !this.done.includes(pair));
  }

  // Whether a pair still needs this tile.
  needs(tile) {
    const side = /[qy]/.test(tile) ? 0 : 1;
    return this.open().some((pair) => sides(pair)[side] === +tile[1]);
  }

  spent(tile) {
    return !tile || (/[qkv]/.test(tile) && !this.needs(tile));
  }

  room() {
    return this.slots.filter((tile) => this.spent(tile)).length;
  }

  place(tile) {
    this.slots[this.slots.findIndex((old) => this.spent(old))] = tile;
  }

  drop(tile) {
    this.slots = this.slots.map((old) => (old === tile ? "" : old));
  }

  // "q0" brings tile 0 of Q, "Q0" takes it out; false if that is not possible.
  move(move) {
    const tile = move.toLowerCase();
    if (!(move === tile ? this.bring(tile) : this.takeOut(tile))) return false;
    [this.news, this.ends] = ["", []];
    while (this.open().some((pair) => this.compute(pair)));
    this.moves += move;
    this.course.push([this.done.length, this.moved]);
    return true;
  }

  takeOut(tile) {
    const here = this.has(tile);
    if (here && /[ys]/.test(tile) && !this.saved.has(tile)) {
      this.pay(tile);
      this.saved.add(tile);
    }
    this.drop(tile);
    return here;
  }

  // Where a tile is; what is ready, saved or computable can be brought.
  where(tile) {
    const [pair, scores, out] = [number(tile), tile[0] === "s", /[ys]/.test(tile)];
    if (scores ? this.done.includes(pair) : !this.needs(tile)) return out ? "done" : "used";
    if (scores && !this.pairs.includes(pair)) return "masked";
    if (this.has(tile)) return "fetched";
    if (this.saved.has(tile)) return "saved";
    if (scores && this.name !== ONE && this.has(`q${pair >> 2}`, `k${pair % N}`)) return "computable";
    return out ? "open" : "ready";
  }

  known(tile) {
    return /ready|saved|computable/.test(this.where(tile));
  }

  bring(tile) {
    const count = tile[0] === "s" ? B : 1;
    if (!this.known(tile) || this.room() < count) return false;
    if (this.where(tile) !== "computable") this.pay(tile);
    if (count === 1) this.saved.delete(tile);
    range(count).forEach(() => this.place(tile));
    return true;
  }

  // What a pair lacks: tiles that must be there, slots that must be free.
  wants(pair) {
    const [i, j] = sides(pair);
    const [scores, answer] = [scoresOf(pair), `y${i}`];
    const waiting = this.has(scores);
    const fresh = !this.has(answer);
    const lacks = fresh - this.room() - (waiting ? B : -1);
    return { scores, answer, waiting, fresh, away: fresh && this.saved.has(answer), lacks, here: this.has(`v${j}`, ...(waiting ? [] : [`q${i}`, `k${j}`])) };
  }

  compute(pair) {
    const { scores, answer, waiting, fresh, away, lacks, here } = this.wants(pair);
    if (!here || away || lacks > 0) return false;
    this.drop(scores);
    if (fresh) this.place(answer);
    this.done.push(pair);
    this.news = waiting ? "kept" : "strip";
    if (!this.needs(answer)) {
      this.pay(answer);
      this.drop(answer);
      this.ends.push(called(answer));
    }
    return true;
  }
}

// What stays on the chip and what passes by, the side of a pair by which it stays, how many at most.
const FLASH = { "FlashAttention 1": ["kv", "yq", 1, N], "FlashAttention 2": ["q", "kv", 0, N] };
const TOGETHER = { "one by one": ["q", "kv", 0, 1], "both at once": ["q", "kv", 0, N] };

function played(name, slots, [stay, come, side, most]) {
  const chip = new Chip(name, slots);
  const inAndOut = (kinds, places, between) => {
    const tiles = places.flatMap((n) => [...kinds].map((kind) => kind + n));
    tiles.forEach((tile) => chip.move(tile));
    between?.();
    tiles.forEach((tile) => chip.move(tile.toUpperCase()));
  };
  const step = Math.min(most, (slots - 3) >> 1);
  for (const group of range(N)) {
    const pairs = chip.pairs.map(sides).filter((pair) => ((pair[side] / step) | 0) === group);
    const places = (side) => [...new Set(pairs.map((pair) => pair[side]))];
    inAndOut(stay, places(side), () => places(1 - side).forEach((n) => inAndOut(come, [n])));
  }
  return chip;
}

class MemoryController extends Explorable {
  static limits = { level: LEVELS, slots: [5, 12] };
  past = [];

  chip() {
    const chip = new Chip(this.state.level, this.state.slots);
    for (const move of this.state.moves.match(/../g) ?? []) chip.move(move);
    return chip;
  }

  compute({ level, slots }) {
    const chip = this.chip();
    const intensity = (2 * SLOT * (level === ONE ? 1 : LONG) * chip.done.length) / (chip.moved || 1);
    return {
      chip,
      orders: Object.entries(level === ONE ? TOGETHER : FLASH).map(([name, how]) => {
        const chip = played(level, slots, how);
        return { name, moves: chip.moves, chip };
      }),
      saved: [...chip.saved].sort(),
      done: chip.done,
      intensity,
      speed: this.reached(intensity),
      kept: this.kept(chip.done),
    };
  }

  reached(ratio) {
    return Math.min(this.numbers.roof[0], this.numbers.roof[1] * ratio);
  }

  // Queries in a tile.
  get size() {
    return this.state.level === ONE ? 1 : B;
  }

  // Maximum, sum and answer of each query, score by score.
  kept(done) {
    const { level } = this.state;
    const { q, k, v } = this.numbers.numbers;
    return range(ROWS[level] * this.size).map((i) => {
      let [m, z, u] = [-Infinity, 0, 0];
      for (const pair of done)
        for (const j of range(N * B)) {
          if (pair !== N * ((i / this.size) | 0) + (j >> 2) || (level === "causal" && j > i)) continue;
          const larger = Math.max(m, q[i] * k[j]);
          const [old, e] = [Math.exp(m - larger), Math.exp(q[i] * k[j] - larger)];
          [m, z, u] = [larger, z * old + e, u * old + e * v[j]];
        }
      return [z && m, z, z && u / z];
    });
  }

  build() {
    const plot = (label) => `<svg viewBox="0 0 210 152" role=img aria-label="${label}"></svg>`;
    this.picture.before(this.sentence);
    this.picture.innerHTML = "<div><p></p><div class=memory></div></div><div><p></p><div class=board></div></div>";
    this.controls.insertAdjacentHTML("afterend", `<div class=below>${plot("bytes moved")}<table></table>${plot("roofline")}</div>`);
    [, , this.score, this.memory, this.price, this.board, this.graph, this.rows, this.roof] = this.shadowRoot.querySelectorAll("p, .memory, .board, svg, table");
    this.cells = range(12).map((n) => html("button", { onclick: () => this.touch(n), draggable: "true" }, html("b"), html("span")));
    this.board.append(...this.cells);
    // Slow memory: keys and values above their column, queries at the left of their row.
    const above = ["k", "v"].flatMap((kind) => ["", ...range(N).map((j) => kind + j), ""]);
    const rows = range(N).flatMap((i) => [`q${i}`, ...range(N).map((j) => scoresOf(i * N + j)), `y${i}`]);
    this.tiles = [...above, ...rows].map((tile) =>
      html("button", { onclick: () => this.pick(tile), draggable: "true", value: tile, style: tile ? "" : "visibility: hidden" }));
    this.memory.append(...this.tiles);
    this.rove(this.tiles, { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -6, ArrowDown: 6 });
    set(this.tiles[1], { tabindex: 0 });
    this.rove(this.cells, { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -3, ArrowDown: 3 });
    // A mouse drags a tile on a slot, or out of the chip.
    set(this.picture, {
      ondragstart: ({ target }) => (this.dragged = target.value),
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => {
        event.preventDefault();
        const [tile, n] = [this.dragged, this.cells.indexOf(event.target.closest("button"))];
        if (n < 0) this.tries(tile.toUpperCase());
        else if (!this.result.chip.has(tile) && !this.tries(tile)) this.tries(this.out(n), tile);
      },
    });
    const choose = (key, list) => this.choice(key, key, list.map((x) => [x, x]), (x) => ({ [key]: x, moves: "" }));
    choose("level", LEVELS);
    choose("slots", [12, 5]);
    const box = this.control("from an empty chip");
    this.machines = range(2).map((n) => this.button("", () => this.machine(n), {}, box));
    this.undo = this.button("Undo", () => this.stop(this.go(this.past.pop() ?? {})));
    this.button("Empty", () => this.set({ moves: "" }));
    this.next = this.button("", () => {
      this.set(this.offer);
      this.tiles[1].focus();
    }, { class: "output done" });
  }

  // A change stops the machine, and Undo takes it back.
  set(patch) {
    const { state } = this;
    this.stop();
    this.go(patch);
    if (!same(state, this.state)) this.past.push(state);
  }

  go(patch) {
    [this.from, this.wanted] = [this.state.moves, ""];
    super.set(patch);
  }

  want(tile) {
    this.wanted = tile;
    this.redraw();
  }

  tries(...moves) {
    const chip = this.chip();
    const all = moves.every((move) => !move || chip.move(move));
    if (all) this.set({ moves: chip.moves });
    return all;
  }

  out(n) {
    return this.result.chip.slots[n].toUpperCase();
  }

  // A tile of slow memory is touched: in, out, or it waits for slots.
  pick(tile) {
    if (this.tries(tile.toUpperCase()) || this.tries(tile)) return;
    this.want(this.wanted !== tile && this.result.chip.known(tile) ? tile : "");
  }

  // A slot is touched: what lies there goes out, for the tile that waits.
  touch(n) {
    const { wanted } = this;
    if (this.tries(this.out(n), wanted)) return;
    this.tries(this.out(n));
    this.want(wanted);
  }

  // The machine's next step, the first with an empty chip; with motion it goes on by itself.
  machine(n) {
    const playing = this.timer && this.plays === n;
    this.stop();
    this.redraw();
    if (playing) return;
    this.plays = n;
    this.past.push(this.state);
    const next = () => {
      const { moves } = this.result.orders[n];
      const now = this.state.moves;
      const to = (moves.startsWith(now) ? now.length % moves.length : 0) + 2;
      if (to === moves.length) this.stop();
      this.go({ moves: moves.slice(0, to) });
    };
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.timer = setInterval(next, 260);
      this.tiles[1].scrollIntoView({ block: "nearest" });
    }
    next();
  }

  stop() {
    this.timer = clearInterval(this.timer);
  }

  // The tile that the guide brings next.
  get hint() {
    const { level, slots, moves } = this.state;
    return level === LEVELS[0] && slots > 11 && GUIDE.startsWith(moves) && GUIDE.slice(moves.length, moves.length + 2);
  }

  draw(result) {
    const { chip, orders } = result;
    const { level, slots } = this.state;
    const all = chip.pairs.length;
    const won = chip.done.length === all;
    set(this.score, { text: `slow memory: ${chip.done.length} of ${all} pairs done` });
    set(this.price, { text: `chip: ${mega(chip.moved)} moved` });
    this.tiles.forEach((node, n) => {
      const tile = node.value;
      if (!tile) return;
      node.style.display = n < 12 + 6 * ROWS[level] ? "" : "none";
      const where = chip.where(tile);
      const scores = tile[0] === "s";
      node.disabled = scores && (where === "masked" || level === ONE);
      set(node, {
        text: { done: "✓", masked: "×", open: "" }[scores && where] ?? called(tile),
        class: `cell ${LOOKS[tile[0]]} ${where} ${tile === (this.wanted || this.hint) ? "wanted" : ""}`,
        "aria-label": `${called(tile)}: ${where}`,
      });
    });
    this.undo.disabled = !this.past.length;
    this.offer = { level: slots > 5 ? level : LEVELS[LEVELS.indexOf(level) + 1], slots: slots > 5 ? 5 : 12, moves: "" };
    set(this.next, { text: `Next: ${slots > 5 ? "5 slots" : this.offer.level}` });
    this.next.style.visibility = won && this.offer.level ? "" : "hidden";
    this.sentence.className = won ? "say tint output" : "say";
    this.cells.forEach((node, n) => {
      const tile = chip.slots[n] ?? "";
      const row = chip.slots.slice(0, n).filter((other) => other === tile).length;
      // The strip that was used for the last pair.
      const strip = chip.news === "strip" && n === chip.slots.indexOf("");
      const [name, numbers] = tile ? this.inside(tile, row, result.kept) : ["", strip ? "scores, gone" : ""];
      const look = tile ? `cell ${LOOKS[tile[0]]} ${chip.spent(tile) ? "used" : ""}` : strip ? "weight computable" : "";
      set(node, { class: look, value: tile, "aria-label": `slot ${n + 1}: ${name} ${numbers}` });
      set(node.firstChild, { text: name });
      set(node.lastChild, { text: numbers });
      node.style.display = n < slots ? "" : "none";
    });
    this.below(result);
    this.machines.forEach((node, n) => set(node, { text: `${this.timer && this.plays === n ? "■" : "▶"} ${orders[n].name}: ${mega(orders[n].chip.moved)}` }));
  }

  // Name and numbers of a tile; a slot of scores holds those of one query.
  inside(tile, row, kept) {
    const { q, k, v } = this.numbers.numbers;
    const [i, j] = sides(number(tile));
    const list = { q, k, v, y: kept.map((row) => row[2]), s: k.map((x) => x * q[i * B + row]) }[tile[0]];
    const size = /[qy]/.test(tile) ? this.size : B;
    return [called(tile) + (tile[0] === "s" ? ` ${row + 1}/4` : ""), list.slice(j * size, j * size + size).map((x) => num(x, 0)).join("  ")];
  }

  // What is kept of the queries computed last; bytes against pairs, in the end operations against bytes.
  below({ chip, kept, orders, intensity, speed }) {
    const { size } = this;
    const last = chip.done.at(-1) >> 2;
    const row = (name, list, at, digits) => `<tr><th scope=row>${name}</th>${range(size).map((n) => `<td>${num(list[last * size + n][at], digits)}</td>`).join("")}</tr>`;
    this.rows.innerHTML = row(`row of ${called(`q${last}`)}`, kept.map((_, n) => [(n % size) + 1]), 0, 0) + row("largest m", kept, 0, 0) + row("sum z", kept, 1) +
      row("Y = u/z", kept, 2, 1) + row("exact", this.kept(chip.pairs), 2, 1);
    // Before the first pair its room is kept.
    this.rows.style.visibility = chip.done.length ? "" : "hidden";
    const one = size < B;
    const all = chip.pairs.length;
    let most = one ? 3e6 : 8e6;
    while (chip.moved > most) most *= 2;
    const line = (points, look = "") => `<path class="${look}" d="M${points.join("L")}"/>`;
    const text = (x, y, words, look = "") => `<text x=${x} y=${y} class="${look}">${words}</text>`;
    const dot = ([x, y], look = "output") => `<circle cx=${x} cy=${y} r=5 class="${look}"/>`;
    const at = ([n, bytes]) => [20 + (180 * n) / all, 126 - (112 * bytes) / most];
    const end = (chip) => at(chip.course.at(-1));
    const share = Math.min(1, most / FULL);
    this.graph.innerHTML = line([[20, 14], [20, 126], [200, 126]]) + text(2, 9, `${most / 1e6} MB`) +
      text(200, 145, `${all} pairs`, "end") + (one ? "" : line([[0, 0], [all * share, FULL * share]].map(at), "weight") + text(66, 9, `full table: ${mega(FULL)}`, "weight")) +
      orders.map(({ name, chip }, n) => line(chip.course.map(at), `g${n}`) + text(200, n ? end(chip)[1] + 19 : Math.max(44, end(chip)[1] - 9), name.replace("Attention", ""), "end")).join("") +
      line(chip.course.map(at), "output") + dot(end(chip));
    const under = (ratio) => [40 + 11 * Math.log2(ratio), 116 - 32 * Math.log10(this.reached(ratio))];
    const [x, y] = under((4 * (N * LONG) ** 2 * D) / FULL);
    const [peak, bandwidth] = this.numbers.roof;
    this.roof.innerHTML = chip.open().length ? "" : text(2, 12, "roofline, H100") + line([0.5, peak / bandwidth, 4096].map(under), "ink") +
      (one ? "" : dot([x, y], "weight") + text(x + 9, y + 12, "full table", "weight")) + dot(under(intensity)) +
      text(196, 109, `${num(speed, 1)} TFLOP/s`, "output end") + text(196, 130, `${num(intensity, 1)} FLOP per byte`, "output end");
  }

  tell({ chip, orders, speed, kept }) {
    const { level, slots, moves } = this.state;
    const { wanted, hint, size } = this;
    const all = chip.pairs.length;
    const there = (kind) => chip.slots.filter(([of]) => of === kind);
    const waits = there("s").length;
    const wants = chip.open().map((pair) => chip.wants(pair));
    if (this.timer) return `${orders[this.plays].name} began with an empty chip. Undo brings yours back.`;
    if (wanted) {
      const scores = wanted[0] === "s";
      return `${called(wanted)} needs ${scores ? "4 free slots" : "a free slot"}: tap on the chip what goes out.` +
        (scores && !chip.saved.has(wanted) ? ` With ${called(`v${number(wanted) % N}`)} there, one slot is enough.` : "");
    }
    if (!wants[0]) {
      const best = Math.min(...orders.map(({ chip }) => chip.moved));
      return `✓ Every answer is exact, with ${mega(chip.moved)} moved${chip.moved > best ? `; ${mega(best)} would do` : ""}. ${chip.moved < best ? "That beats both machines. " : ""}An H100 ` +
        `${speed < this.numbers.roof[0] ? "would wait for memory" : "could compute at its peak"}. ${level === ONE ? "At best each K and V serves both requests." : slots > 5 ? "" : "Five slots do for any length."}`;
    }
    // By how much the largest score of each row rose with the last step: what it had before shrinks.
    const old = this.kept(chip.done.slice(0, chip.course.at(-2)?.[0]));
    const rises = kept.map(([m], at) => old[at][1] && m - old[at][0]);
    const row = rises.findIndex(Boolean);
    // What the last step moved; a vector is too little to tell.
    const cost = moves.startsWith(this.from) && chip.moved - chip.course[this.from.length / 2]?.[1];
    const [kind, j] = moves.slice(-2);
    const stuck = wants.find(({ here }) => here);
    const why = !moves ? level === ONE ? "Q₀ and Q₁ are two requests on the same text. Can both use what you fetch?"
      : `${level === "causal" ? "No query sees later keys. " : ""}${all} pairs, ${slots} slots: each tile that moves costs ${mega(SLOT)}.`
      : level === "causal" && /[kv]/.test(kind) && there("q")[0] && there("q").every((q) => q[1] < j) ? `Masked: no query on the chip attends to ${called(`k${j}`)}.`
      : stuck?.away ? `${called(stuck.answer)} lies unfinished in slow memory: bring it back.`
        : stuck ? `No room to compute: free ${stuck.lacks} more.`
          : chip.news ? `✓ ${row < 0 ? `Scores ${chip.news === "strip" ? "made in one slot, " : ""}added up and thrown away` : `Row ${(row % size) + 1} of ${called(`q${(row / size) | 0}`)}: m rises by ${rises[row]}, old z and u shrink by e⁻${"⁰¹²³⁴⁵⁶⁷⁸"[rises[row]]} = ${num(Math.exp(-rises[row]))}`}. ${chip.ends[0] ? `${chip.ends.join(", ")} finished and written.` : ""}`
            : waits ? `The scores of ${waits / B} of ${all} pairs fill ${waits} of ${slots} slots; all would fill ${all * B}.`
              : "";
    return `${cost >= SLOT ? `${/[SY]/.test(kind) ? "Written out: " : ""}+${mega(cost)}. ` : ""}${why} ${hint ? `Tap ${called(hint)}.` : moves === GUIDE ? "Your turn: three rows left." : ""}`;
  }

  static style = `
    .picture { display: grid; grid-template-columns: 1fr 296px; gap: 22px }
    .picture > div { min-height: 259px }
    .memory, .board { display: grid; grid-template-columns: repeat(6, 1fr); gap: 4px }
    .picture button { min-height: 36px; padding: 1px }
    .memory button { font-size: 15px; font-weight: 650; --v: .3; scroll-margin: 200px }
    .memory :is(.open, .fetched, .weight) { color: var(--c) }
    .memory :is(.open, .fetched), .board button:not(.cell) { background: none; box-shadow: inset 0 0 0 1px var(--d-surface) }
    .memory .fetched { box-shadow: inset 0 0 0 2.5px }
    .picture .used { background: none; color: var(--d-muted); text-decoration: line-through }
    .picture .computable { border: 2px dashed; color: var(--c) }
    .output.done { background: var(--c); color: var(--d-paper) }
    .memory .wanted { outline: 3px solid var(--d-ink) }
    .memory .weight:not(.fetched) { background: var(--d-surface) }
    .board { grid-template-columns: repeat(auto-fill, minmax(74px, 1fr)); padding: 4px; border-radius: 9px; border: 2px solid var(--d-line) }
    .board button { flex-direction: column; min-height: 46px; font-size: 11.5px; line-height: 1.35; --v: .7 }
    b { font-size: 15px } th, .board span { white-space: pre }
    .below { display: grid; grid-template-columns: 5fr 6fr 5fr; gap: 16px; margin-top: 12px }
    table { font-size: 12.5px; align-self: start; width: 100% }
    th { text-align: left; color: var(--d-muted); font-weight: 400 }
    td { text-align: right } tr:nth-child(4) { font-weight: 650; color: var(--d-output) }
    .end { text-anchor: end }
    .weight, .output { fill: var(--c) }
    svg:empty { display: none }
    path[class] { fill: none; stroke: var(--c, var(--d-line)); stroke-width: 1.5 }
    svg .output { font-weight: 650; stroke-width: 3 }
    .g0 { stroke-dasharray: 6 3 } .g1 { stroke-dasharray: 2 3 }
    .control > button { min-width: 224px }
    @container (max-width: 600px) { .picture { display: block } .say { min-height: 5.8em } .picture > div { min-height: 182px } .picture > :first-child { min-height: 318px }
      .card button, .set span { min-height: 44px; min-width: 44px } .controls > button { flex: 1 1 25% } .control { width: 100% }
      .control > button { min-width: 40%; flex: 1 } span:has(+ button) { width: 100% }
      .below { grid-template-columns: 1fr 1fr } table { grid-column: 1 / -1; order: 1 } }`;
}

define("attn-controller", MemoryController);
