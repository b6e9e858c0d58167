// A chip with a few slots, and tiles of attention that are fetched into it in some order.
const [N, B, LONG, D] = [4, 4, 512, 128];
const SLOT = 2 * LONG * D;
const ONE = "two requests";
const ROWS = { "all pairs": N, causal: N, [ONE]: 2 };
const LOOKS = { q: "query", k: "key", v: "value", y: "output", s: "weight" };
const WHERE = { here: "on the chip", away: "written out", open: "not begun", asked: "computable", ready: "in slow memory", spent: "used up" };
const range = (n) => Array.from({ length: n }, (_, i) => i);
const pairOf = (tile) => [parseInt(tile[1], 16) >> 2, parseInt(tile[1], 16) % N];
// Q₀; scores by their pair, Q₀K₁.
const called = (tile) => (tile[0] === "s" ? pairOf(tile).map((n, side) => called("qk"[side] + n)).join("") : tile[0].toUpperCase() + "₀₁₂₃"[tile[1]]);
const total = (row) => row.reduce((all, x) => all + x, 0);
const mega = (bytes, digits = 1) => `${say(bytes / 1e6, digits)} MB`;
const whole = (x) => (x < 100 ? num(x, 1) : Math.round(x).toLocaleString("en-US"));
// With the table: queries, keys, values, answers; scores and weights are written and read.
const FULL = SLOT * (4 * N + 4 * B * N * N);

class Chip {
  constructor(name, slots) {
    Object.assign(this, { name, slots: Array(slots).fill(""), moved: 0, paid: [], course: [[0, 0]] });
    this.pairs = range(ROWS[name] * N).map((n) => [n >> 2, n % N]).filter(([i, j]) => name !== "causal" || j <= i);
    [this.saved, this.done] = [new Set(), new Set()];
  }

  size(tile) {
    if (/[qy]/.test(tile) && this.name === ONE) return 2 * D;
    return SLOT * (tile[0] === "s" ? B : 1);
  }

  pay(tile, how) {
    const name = tile[0] === "s" ? `Scores ${called(tile)}, four tiles,` : called(tile);
    this.moved += this.size(tile);
    this.paid.push(name + (how || (this.paid.includes(name) ? " again" : "")));
  }

  // Operations for each byte.
  ratio() {
    return (4 * (this.name === ONE ? 1 : LONG) * LONG * D * this.done.size) / (this.moved || 1);
  }

  has(tile) {
    return this.slots.includes(tile);
  }

  open() {
    return this.pairs.filter(([i, j]) => !this.done.has(i * N + j));
  }

  // Pairs that still need this tile.
  left(tile) {
    const side = /[qy]/.test(tile) ? 0 : 1;
    return this.open().filter((pair) => pair[side] === +tile[1]).length;
  }

  spent(tile) {
    return !tile || (/[qkv]/.test(tile) && !this.left(tile));
  }

  room() {
    return this.slots.filter((tile) => this.spent(tile)).length;
  }

  place(tile) {
    const empty = this.slots.indexOf("");
    this.slots[empty < 0 ? this.slots.findIndex((old) => this.spent(old)) : empty] = tile;
  }

  drop(tile) {
    this.slots = this.slots.map((old) => (old === tile ? "" : old));
  }

  // "q0" brings tile 0 of Q, "Q0" takes it out; false if that is not possible.
  move(move) {
    const tile = move.toLowerCase();
    const before = this.done.size;
    if (!(move === tile ? this.bring(tile) : this.takeOut(tile))) return false;
    while (this.open().some(([i, j]) => this.compute(i, j)));
    this.course.push([this.done.size, this.moved]);
    this.news = this.done.size - before;
    return true;
  }

  takeOut(tile) {
    if (!this.has(tile)) return false;
    if (/[ys]/.test(tile) && !this.saved.has(tile)) {
      this.pay(tile, " written out");
      this.saved.add(tile);
    }
    this.drop(tile);
    return true;
  }

  bring(tile) {
    const [kind, n, there] = [tile[0], parseInt(tile[1], 16), this.saved.has(tile)];
    const scores = kind === "s";
    const known = scores ? this.name !== ONE && this.open().some(([i, j]) => i * N + j === n) && (there || (this.has(`q${n >> 2}`) && this.has(`k${n % N}`)))
      : kind === "y" ? there : n < (kind === "q" ? ROWS[this.name] : N);
    const count = scores ? B : 1;
    if (!known || this.has(tile) || this.room() < count) return false;
    if (there || !scores) this.pay(tile, there && " read back");
    if (!scores) this.saved.delete(tile);
    range(count).forEach(() => this.place(tile));
    return true;
  }

  // What a pair lacks: tiles that must be there, slots that must be free.
  wants(i, j) {
    const [scores, answer] = [`s${(i * N + j).toString(16)}`, `y${i}`];
    const waiting = this.has(scores);
    const fresh = !this.has(answer);
    const needs = waiting ? [`v${j}`] : [`q${i}`, `k${j}`, `v${j}`];
    const away = fresh && this.saved.has(answer);
    const lacks = fresh - this.room() - (waiting ? B : -1);
    return { scores, answer, fresh, away, lacks, needs, here: needs.every((tile) => this.has(tile)) };
  }

  compute(i, j) {
    const { scores, answer, fresh, away, lacks, here } = this.wants(i, j);
    if (!here || away || lacks > 0) return false;
    this.drop(scores);
    if (fresh) this.place(answer);
    this.done.add(i * N + j);
    if (!this.left(answer)) {
      this.pay(answer, " written");
      this.drop(answer);
    }
    return true;
  }
}

// By rows, queries stay with their answers, keys and values pass by: FlashAttention 2; else 1.
function order(name, slots, [byRows, most]) {
  const chip = new Chip(name, slots);
  const [stay, come, side] = byRows ? ["q", "kv", 0] : ["kv", "yq", 1];
  const tiles = (kinds, places) => places.flatMap((n) => [...kinds].map((kind) => kind + n));
  const outs = (list) => list.map((tile) => tile.toUpperCase());
  const step = Math.min(most, (slots - 3) >> 1);
  const places = range(side ? N : ROWS[name]);
  return places.filter((n) => n % step === 0).flatMap((first) => {
    const group = places.slice(first, first + step);
    const passing = range(N).filter((n) => chip.pairs.some((p) => group.includes(p[side]) && p[1 - side] === n));
    return [...tiles(stay, group), ...passing.flatMap((n) => [...tiles(come, [n]), ...outs(tiles(come, [n]))]), ...outs(tiles(stay, group))];
  }).filter((move) => chip.move(move));
}

const FLASH = { "FlashAttention 1": [false, N], "FlashAttention 2": [true, N] };
const TOGETHER = { "one by one": [true, 1], "both at once": [true, N] };

class MemoryController extends Explorable {
  static limits = { level: Object.keys(ROWS), slots: [5, 12] };
  past = [];
  from = "";

  chip(moves = this.state.moves) {
    const chip = new Chip(this.state.level, this.state.slots);
    for (const move of moves.match(/../g) ?? []) chip.move(move);
    return chip;
  }

  compute({ level, slots }) {
    const chip = this.chip();
    return {
      chip,
      orders: Object.entries(level === ONE ? TOGETHER : FLASH).map(([name, how]) => {
        const moves = order(level, slots, how);
        return { name, moves, chip: this.chip(moves.join("")) };
      }),
      saved: [...chip.saved].sort(),
      done: [...chip.done].sort((a, b) => a - b),
      intensity: chip.ratio(),
      speed: this.reached(chip.ratio()),
      kept: this.kept(level, chip.done),
    };
  }

  reached(ratio) {
    return Math.min(this.numbers.roof[0], this.numbers.roof[1] * ratio);
  }

  // Maximum, sum and answer of each query, tile by tile.
  kept(level, done) {
    const { q, k, v } = this.numbers.numbers;
    const size = level === ONE ? 1 : B;
    return range(ROWS[level] * size).map((i) => {
      let [m, z, u] = [-Infinity, 0, 0];
      for (const pair of done) {
        if (pair >> 2 !== Math.floor(i / size)) continue;
        const keys = range(B).map((c) => (pair % N) * B + c).filter((j) => level !== "causal" || j <= i);
        const larger = Math.max(m, ...keys.map((j) => q[i] * k[j]));
        const e = keys.map((j) => Math.exp(q[i] * k[j] - larger));
        z = z * Math.exp(m - larger) + total(e);
        u = u * Math.exp(m - larger) + total(e.map((x, n) => x * v[keys[n]]));
        m = larger;
      }
      return [z && m, z, z && u / z];
    });
  }

  build() {
    const plot = (label) => `<svg viewBox="0 0 210 152" role=img aria-label="${label}"></svg>`;
    this.picture.innerHTML = `<div class=two><div><p class=hint>slow memory</p><div class=memory></div></div>
      <div><p class=hint></p><div class=board></div><div class=hands></div></div></div>
      <div class=below><table></table>${plot("bytes moved")}${plot("roofline")}</div>`;
    const found = this.picture.querySelectorAll(".hint, .memory, .board, .hands, .below, table, svg");
    [, this.memory, this.head, this.board, , , this.rows, this.graph, this.roof] = found;
    found[5].before(this.sentence);
    this.cells = range(12).map((n) => html("button", { type: "button", draggable: "true", onclick: () => this.touch(n) }, html("b"), html("span")));
    this.board.append(...this.cells);
    this.rove(this.cells, { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -3, ArrowDown: 3 });
    // A mouse drags a tile on a slot, or out of the chip.
    set(this.picture, {
      ondragstart: ({ target }) => (this.dragged = target.tile),
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => {
        event.preventDefault();
        const tile = this.dragged;
        if (!this.board.contains(event.target)) this.tries(tile.toUpperCase());
        else if (!this.result.chip.has(tile) && !this.tries(tile)) this.tries(...this.out(this.cells.indexOf(event.target.closest("button"))), tile);
      },
    });
    this.undo = this.button("Undo", () => this.stop(this.past.length && this.go(this.past.pop())), {}, found[4]);
    this.button("Empty", () => this.set({ moves: "" }), {}, found[4]);
    this.five = this.button("Try 5 slots", () => this.tiles[1].focus(this.set({ slots: 5, moves: "" })), {}, found[4]);
    const choose = (key, list) => this.choice(key, key, list.map((x) => [x, x]), (x) => ({ [key]: x, moves: "" }));
    choose("level", Object.keys(ROWS));
    choose("slots", [5, 7, 12]);
    this.machines = range(2).map((n) => this.button("", () => this.machine(n), { class: `g${n}` }));
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
    const all = moves.every((move) => chip.move(move));
    if (all) this.set({ moves: this.state.moves + moves.join("") });
    return all;
  }

  out(n) {
    const old = this.result.chip.slots[n];
    return old ? [old.toUpperCase()] : [];
  }

  // A tile of slow memory is touched: in, out, or it waits for slots.
  pick(tile) {
    if (this.tries(tile.toUpperCase()) || this.tries(tile)) return;
    const larger = this.chip();
    larger.slots.push("", "", "", "");
    this.want(this.wanted !== tile && larger.move(tile) ? tile : "");
  }

  // A slot is touched: what lies there goes out, for the tile that waits.
  touch(n) {
    const { wanted } = this;
    if (wanted && this.tries(...this.out(n), wanted)) return;
    this.tries(...this.out(n));
    this.want(wanted);
  }

  // The machine's next step; with motion it goes on by itself.
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
      let at = moves.join("").startsWith(now) ? (now.length / 2) % moves.length : 0;
      do at += 1;
      while (at < moves.length && /^([A-Z]|k.v|y.q)/.test(moves[at - 1] + moves[at]));
      if (at === moves.length) this.stop();
      this.go({ moves: moves.slice(0, at).join("") });
    };
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.timer = setInterval(next, 420);
      this.board.scrollIntoView({ block: "nearest" });
    }
    next();
  }

  stop() {
    this.timer = clearInterval(this.timer);
  }

  // Slow memory: queries at the left of their row, keys and values above their column.
  lay(level) {
    const rows = range(ROWS[level]);
    const above = ["k", "v"].flatMap((kind) => ["", ...range(N).map((j) => kind + j), ""]);
    const below = rows.flatMap((i) => [`q${i}`, ...range(N).map((j) => `s${(i * N + j).toString(16)}`), `y${i}`]);
    this.tiles = [...above, ...below].map((tile) => {
      const node = html("button", { type: "button", onclick: () => this.pick(tile), draggable: "true" });
      if (!tile) node.style.visibility = "hidden";
      return Object.assign(node, { tile });
    });
    this.memory.replaceChildren(...this.tiles);
    this.rove(this.tiles, { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -6, ArrowDown: 6 });
    set(this.tiles[1], { tabindex: 0 });
    this.laid = level;
  }

  draw(result) {
    const { chip, orders } = result;
    const { level, slots } = this.state;
    if (this.laid !== level) this.lay(level);
    set(this.head, { text: `chip: ${chip.slots.filter(Boolean).length} of ${slots} slots taken, ${mega(chip.moved, 2)} moved` });
    for (const node of this.tiles.filter(({ tile }) => tile)) {
      const { tile } = node;
      const [i, j] = pairOf(tile);
      let where = chip.has(tile) ? "here" : chip.saved.has(tile) ? "away" : /[ys]/.test(tile) ? "open" : "ready";
      let [name, text] = [called(tile), called(tile)];
      if (tile[0] === "s") {
        name = `scores of ${name}`;
        if (chip.done.has(i * N + j)) where = "done";
        else if (level === "causal" && j > i) where = "masked";
        else if (where === "open" && level !== ONE && chip.has(`q${i}`) && chip.has(`k${j}`)) where = "asked";
        text = { done: "✓", here: "S", away: "S", asked: "S?", masked: "×" }[where] ?? "";
        node.disabled = where === "masked" || level === ONE;
      } else if (!chip.left(tile)) where = tile[0] === "y" ? "done" : "spent";
      set(node, { text, class: `cell ${LOOKS[tile[0]]} ${where} ${this.wanted === tile ? "wanted" : ""}`, "aria-label": `${name}: ${WHERE[where] ?? where}` });
    }
    this.undo.disabled = !this.past.length;
    this.five.style.display = chip.open()[0] || slots < 6 ? "none" : "";
    const seen = {};
    this.cells.forEach((node, n) => {
      const tile = chip.slots[n] ?? "";
      const row = (seen[tile] = (seen[tile] ?? -1) + 1);
      // The strip that was used for the last pair.
      const strip = chip.news && n === chip.slots.indexOf("");
      const [name, numbers] = tile ? this.inside(tile, row, result.kept) : ["", strip ? "strip, gone" : ""];
      const look = tile ? `cell ${LOOKS[tile[0]]} ${chip.spent(tile) ? "spent" : ""}` : strip ? "weight asked" : "";
      set(node, { class: look, "aria-label": `slot ${n + 1}: ${name} ${numbers}` });
      set(node.firstChild, { text: name });
      set(node.lastChild, { text: numbers });
      node.style.display = n < slots ? "" : "none";
      node.tile = tile;
    });
    this.table(result);
    this.plots(result);
    this.machines.forEach((node, n) => set(node, { text: `${this.timer && this.plays === n ? "■" : "▶"} ${orders[n].name}: ${mega(orders[n].chip.moved)}` }));
  }

  // Name and numbers of a tile; a slot of scores holds those of one query.
  inside(tile, row, kept) {
    const { q, k, v } = this.numbers.numbers;
    const [i, j] = pairOf(tile);
    const part = (list, n, size = B) => list.slice(n * size, n * size + size).map((x) => num(x, 0)).join("  ");
    if (tile[0] === "s") return [`${called(tile)} ${row + 1}/4`, part(k.map((x) => x * q[i * B + row]), j)];
    const one = this.state.level === ONE && /[qy]/.test(tile);
    return [called(tile), part({ q, k, v, y: kept.map((row) => row[2]) }[tile[0]], j, one ? 1 : B)];
  }

  // What is kept of the queries whose tile was computed last.
  table({ chip, kept }) {
    const { level } = this.state;
    const last = ([...chip.done].at(-1) ?? 0) >> 2;
    const places = level === ONE ? [0, 1] : range(B).map((r) => last * B + r);
    const exact = this.kept(level, chip.pairs.map(([i, j]) => i * N + j));
    const row = (name, cell) => `<tr><th scope=row>${name}</th>${places.map((at) => `<td>${cell(at)}</td>`).join("")}</tr>`;
    const now = (n, digits) => (at) => (kept[at][1] ? num(kept[at][n], digits) : "–");
    this.rows.innerHTML = row("query", (at) => at) + row("largest m", now(0, 0)) + row("sum z", now(1, 2)) +
      row("answer u/z", now(2, 1)) + row("exact", (at) => num(exact[at][2], 1));
  }

  // Bytes against pairs, and operations against bytes: the machines' orders and one's own.
  plots({ chip, orders, intensity, speed }) {
    const one = this.state.level === ONE;
    const all = chip.pairs.length;
    const most = one ? 3e6 : 8e6;
    const line = (points, look) => `<path class="${look}" d="M${points.join("L")}"/>`;
    const text = (x, y, words, look = "end") => `<text x=${x} y=${y} class="${look}">${words}</text>`;
    const dot = ([x, y], look, r = 6) => `<circle cx=${x} cy=${y} r=${r} class="${look}"/>`;
    const end = (chip) => at([chip.done.size, chip.moved]);
    const at = ([n, bytes]) => [30 + (170 * n) / all, Math.max(8, 126 - (112 * bytes) / most)];
    const top = at([(all * most) / FULL, most]);
    this.graph.innerHTML = line([[30, 14], [30, 126], [200, 126]], "") + text(24, 20, most / 1e6) + text(24, 37, "MB") +
      text(200, 142, `${all} pairs`) + (one ? "" : line([[30, 126], top], "weight") + text(top[0] + 6, 22, `table: ${mega(FULL)}`, "weight")) +
      orders.map(({ name, chip }, n) => line(chip.course.map(at), `ghost g${n}`) + text(200, n ? end(chip)[1] + 19 : Math.max(44, end(chip)[1] - 9), name.replace("Attention", ""), `end g${n}`)).join("") +
      line(chip.course.map(at), "mine") + dot(end(chip), "");
    const under = (ratio) => [32 + 12.5 * (Math.log2(Math.max(ratio, 0.5)) + 1), 116 - 32 * Math.log10(Math.max(this.reached(ratio), 1))];
    const [x, y] = under((4 * N * N * LONG * LONG * D) / FULL);
    const [peak, bandwidth] = this.numbers.roof;
    this.roof.innerHTML = line([0.5, peak / bandwidth, 4096].map(under), "ink") + text(2, 12, "roofline: TFLOP/s", "") + text(36, 26, 1000) +
      [1, 64, 4096].map((n) => text(under(n)[0] + 8, 134, n)).join("") + text(180, 150, "operations per byte") +
      (one ? "" : dot([x, y], "weight", 4) + text(x + 8, y + 12, "table", "weight")) +
      (intensity ? dot(under(intensity), "") + text(196, 92, `${whole(intensity)} per byte`, "mine end") + text(196, 109, `${whole(speed)} TFLOP/s`, "mine end") : "");
  }

  // What the last step moved; a vector is too little to tell.
  cause(chip) {
    const before = this.chip(this.from);
    const paid = chip.paid.slice(before.paid.length);
    const cost = chip.moved - before.moved;
    if (!this.state.moves.startsWith(this.from) || cost < SLOT || paid.length > 8) return "";
    return `${paid.join(", ").replace(/ again(?=, .. again)/g, "")}: +${mega(cost, 2)}. `;
  }

  tell({ chip, orders, intensity, speed }) {
    const { level, slots, moves } = this.state;
    const [n, all, moved, room] = [chip.done.size, chip.pairs.length, chip.moved, chip.room()];
    const waits = chip.slots.filter((tile) => tile[0] === "s").length;
    const wants = chip.open().map((pair) => chip.wants(...pair));
    const half = wants.filter(({ needs: [q, k, v], here, scores }) => v && !here && chip.has(q) && chip.has(k) && !chip.saved.has(scores));
    if (this.wanted) {
      const pair = half.find(({ scores }) => scores === this.wanted);
      return (this.wanted[0] === "s" ? `Scores without their V need 4 free slots, not ${room}` : `The chip is full, and ${called(this.wanted)} needs a slot`) +
        (pair ? `. Bring ${called(pair.needs[2])} first: then a strip at a time is enough.` : ": touch what shall go out.");
    }
    if (waits && !n && !room)
      return `The scores of ${waits / B} of ${all} pairs of tiles take ${waits} of ${slots} slots, and no answer has begun. Bring V₀: what happens to the scores?`;
    const alone = level === ONE && slots < 7 ? "In 5 slots the machines share nothing: try 7, or let K and V stay for both." : "";
    if (!moves)
      return level === ONE ? `Q₀ and Q₁ are single queries of two requests on the same text. ${alone || "Whom do you serve first?"}`
        : `Bring a Q, a K and a V; ${all} pairs make four answers.`;
    if (n === all) {
      const rate = whole(intensity);
      const [peak, bandwidth] = this.numbers.roof;
      const limit = speed < peak ? "" : `could compute at its peak; above ${mega((moved * intensity * bandwidth) / peak)} it `;
      const best = Math.min(...orders.map(({ chip }) => chip.moved));
      const end = moved < best ? "That beats both machines. " : moved > best ? `It can be done with ${mega(best)}. ` : "";
      const then = level === ONE ? alone || "No order gets past 2: only more requests that share K and V help."
        : slots > 5 ? "Are 5 slots enough?" : "Five do for a text of any length.";
      return `Every answer is exact. ${mega(moved)} moved, ${rate} operation${rate === "1" ? "" : "s"} per byte: an H100 ${limit}waits for memory. ${end}${then}`;
    }
    const cause = this.cause(chip);
    const [kind, j] = moves.slice(-2);
    const asks = chip.slots.filter((tile) => tile[0] === "q" && chip.left(tile));
    if (level === "causal" && /[kv]/.test(kind) && asks[0] && asks.every((q) => q[1] < j))
      return `${asks.map(called).join(" and ")} may not look at ${called(`k${j}`)}: ${mega(SLOT * (chip.has(`k${j}`) + chip.has(`v${j}`)))} for nothing.`;
    const stuck = wants.find(({ here }) => here);
    const [q, k, v] = half[0]?.needs.map(called) ?? [];
    const why = stuck?.away ? `${called(stuck.answer)} lies unfinished in slow memory: bring it back. `
      : stuck ? `${stuck.needs.map(called).join(", ")} are here; free slots still needed: ${stuck.lacks}. `
        : chip.news ? `The scores of ${chip.news} pair${chip.news > 1 ? "s" : ""} were added up and thrown away. `
          : waits ? `Scores wait for their V in ${waits} slots: 512 × 512 numbers are four tiles of 512 × 128. `
            : q ? `${q} and ${k} are here: ${level === ONE || room < B ? `bring ${v}: then a strip at a time is enough` : `tap their cell, S?, for the scores, or bring ${v}`}. `
              : "";
    return `${cause}${why}Pairs done: ${n} of ${all}.`;
  }

  static style = `
    .two { display: grid; grid-template-columns: 1fr 296px; gap: 22px }
    .memory, .board { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 4px }
    .memory button, .board button { min-width: 0; min-height: 36px; padding: 1px; border-radius: 5px }
    .memory button { font-size: 15px; font-weight: 650; --v: .3 }
    .memory .open, .memory .here, .memory .weight { color: var(--c) }
    .memory .open, .memory .here, .board button:not(.cell) { background: none; box-shadow: inset 0 0 0 1px var(--d-surface) }
    .memory .here { box-shadow: inset 0 0 0 2.5px }
    .two .spent, .memory .masked.weight { background: none; color: var(--d-muted); text-decoration: line-through }
    .two .asked { border: 2px dashed; color: var(--c) }
    .output.done { background: var(--c); color: var(--d-paper) }
    .memory .wanted { outline: 3px solid var(--d-ink) }
    .memory .weight:not(.here) { background: var(--d-surface) }
    .board { grid-template-columns: repeat(auto-fill, minmax(74px, 1fr)); padding: 6px; scroll-margin: 99px; border-radius: 9px; box-shadow: inset 0 0 0 2px var(--d-line) }
    .board button { flex-direction: column; min-height: 46px; font-size: 11.5px; line-height: 1.35; --v: .7 }
    b { font-size: 15px } .board span { white-space: pre }
    .hands button { margin: 4px 8px 0 0 }
    .below { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 16px }
    table { border-collapse: collapse; font-size: 12.5px; table-layout: fixed; align-self: start; width: 100% }
    th { text-align: left; color: var(--d-muted); font-weight: 400; white-space: nowrap; width: 36% }
    td { text-align: right } tr:nth-child(4) { font-weight: 650; color: var(--d-output) }
    .end { text-anchor: end }
    .weight { fill: var(--c) } .mine { fill: var(--d-output); font-weight: 650 }
    path[class] { fill: none; stroke: var(--c, var(--d-line)); stroke-width: 1.5 }
    path.mine { stroke: var(--d-output); stroke-width: 3 }
    circle { fill: var(--d-output) }
    .g0 { stroke-dasharray: 6 3; text-decoration: underline dashed }
    .g1 { stroke-dasharray: 2 3; text-decoration: underline dotted }
    @container (max-width: 600px) { .two { grid-template-columns: 1fr; gap: 8px } .say { min-height: 5.8em }
      .card button, .set span { min-height: 44px; min-width: 44px } .controls > [class^=g] { width: 100% } .reset { margin: 0 }
      table { grid-column: 1 / -1 } }`;
}

define("attn-controller", MemoryController);
