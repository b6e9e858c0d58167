// One transformer block on three tokens, step by step, and what is left of them after many blocks.
const [T, HEADS, DEPTH] = [3, 2, 12];
const [SPACE, FIRST, SIDE] = [114, 44, 36];

// Matrix number n holds the sines of n, 2n, … over 2, row by row, from sin 0 on.
function sines(n, rows, columns) {
  const at = (i, j) => Math.sin((i * columns + j) * n) / 2;
  return Array.from({ length: rows }, (_, i) =>
    Array.from({ length: columns }, (_, j) => at(i, j)),
  );
}
const affine = (n, rows, columns) => {
  const [W, [b]] = [turn(sines(n, rows, columns)), sines(n + 1, 1, rows)];
  return (x) => matmul(x, W).map((row) => row.map((value, i) => value + b[i]));
};
const toQKV = affine(1, 12, 4);
const toOut = affine(3, 4, 4);
const up = affine(5, 16, 4);
const down = affine(7, 4, 16);

const add = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));
const length = (row) => Math.hypot(...row);

function layerNorm(x) {
  return x.map((row) => {
    const middle = sum(row) / row.length;
    const variance = sum(row.map((value) => (value - middle) ** 2)) / row.length;
    return row.map((value) => (value - middle) / Math.sqrt(variance + 1e-5));
  });
}

function attention(x) {
  const qkv = toQKV(x);
  const [q, k, v] = [0, 4, 8].map((from) => qkv.map((row) => row.slice(from, from + 4)));
  const heads = [0, 1].map((h) => {
    const part = (rows) => rows.map((row) => row.slice(2 * h, 2 * h + 2));
    const scores = matmul(part(q), turn(part(k))).map((row) => row.map((s) => s / Math.sqrt(2)));
    const weights = scores.map((row) => softmax(row));
    return { scores, weights, output: matmul(weights, part(v)) };
  });
  const mixed = toOut(x.map((_, t) => heads.flatMap((head) => head.output[t])));
  return { heads, mixed };
}

function network(x) {
  const raw = up(x);
  const wide = raw.map((row) => row.map((value) => Math.max(0, value)));
  return { raw, wide, thought: down(wide) };
}

// What happens to x in one block; `seen` are the copies that the two parts read.
function block(x, norm, stream) {
  const before = norm === "before" ? layerNorm : (y) => y;
  const after = norm === "after" ? layerNorm : (y) => y;
  const plus = (y, found) => (stream ? add(y, found) : found);
  const seen = before(x);
  const { heads, mixed } = attention(seen);
  const first = plus(x, mixed);
  const z = after(first);
  const seen2 = before(z);
  const { raw, wide, thought } = network(seen2);
  const second = plus(z, thought);
  return { x, seen, heads, mixed, first, z, seen2, raw, wide, thought, second, y: after(second) };
}

// What share of the vectors' size is not the same in all positions?
function spread(x) {
  const middle = mean(x);
  const apart = length(x.flatMap((row) => row.map((value, i) => value - middle[i])));
  return apart / (length(x.flat()) || 1);
}

function spreads(x, norm, stream) {
  const found = [spread(x)];
  for (let y = x; found.length <= DEPTH;) {
    y = block(y, norm, stream).y;
    found.push(spread(y));
  }
  return found;
}

const STEPS = {
  norm1: "norm",
  scores: "scores",
  weights: "weights",
  add1: "add",
  norm2: "norm",
  widen: "widen",
  cut: "cut at 0",
  narrow: "narrow",
  add2: "add",
};
const ORDER = {
  before: ["norm1", "scores", "weights", "add1", "norm2", "widen", "cut", "narrow", "add2"],
  after: ["scores", "weights", "add1", "norm1", "widen", "cut", "narrow", "add2", "norm2"],
  none: ["scores", "weights", "add1", "widen", "cut", "narrow", "add2"],
};

class BlockWalk extends Explorable {
  static limits = {
    token: [1, T],
    depth: [1, DEPTH],
    norm: Object.keys(ORDER),
    step: Object.keys(STEPS),
  };

  compute({ x, norm, stream }) {
    const now = block(x, norm, stream);
    return { ...now, kept: spreads(x, norm, true), lost: spreads(x, norm, false) };
  }

  build() {
    this.left = html("div", { class: "left" });
    this.right = html("div", { class: "right" });
    this.picture.append(html("div", { class: "two" }, this.left, this.right));
    const tokens = [1, 2, 3].map((t) => [t, `token ${t}`]);
    const group = this.choice("token", "", tokens);
    set(group, { "aria-label": "token", class: "set tokens" });
    this.left.append(group, this.diagram());
    this.right.append(this.stepping(), this.numbersOf(), this.chart());
    this.choice("stream", "residual stream", [
      [true, "on"],
      [false, "off"],
    ]);
    const norms = ["before", "after", "none"].map((norm) => [norm, norm]);
    this.choice("norm", "norm", norms, (norm) => this.renorm(norm));
    this.slider("depth", "blocks", 1, DEPTH, 1, String);
  }

  renorm(norm) {
    const { step } = this.state;
    const steps = ORDER[norm];
    return { norm, step: steps.includes(step) ? step : step === "norm1" ? "scores" : "widen" };
  }

  // The three streams, the bands of the two parts, what hangs on each stream.
  diagram() {
    const picture = svg("svg", { viewBox: "0 0 352 446", role: "img" });
    set(picture, { "aria-label": "three residual streams through attention and network" });
    const band = (y, role) =>
      svg("rect", { x: 2, y, width: 348, height: 166, rx: 10, class: `band ${role}` });
    picture.append(band(32, "weight"), band(232, "muted"));
    const name = (x, y, role, text) => {
      const at = { x: FIRST + x, y, class: `band-name ${role}`, text };
      picture.append(svg("text", at));
    };
    name(10, 50, "weight", "attention");
    name(10 + SPACE, 50, "weight", "mixes tokens");
    name(10, 250, "ink", "network");
    name(10 + SPACE, 250, "ink", "each alone");
    this.parts = [];
    const part = (step, t, ...nodes) => {
      const node = svg("g", {}, ...nodes);
      this.parts.push({ step, t, node });
      return node;
    };
    this.bypass = [];
    this.lines = [];
    const places = [0, 1, 2].map((t) => FIRST + SPACE * t);
    places.forEach((x, t) => picture.append(...this.stream(x, part, t)));
    places.forEach((to, t) => {
      const lines = places.map((from) =>
        svg("path", {
          class: "share",
          d: `M${from + SIDE} 108C${from + SIDE} 132 ${to + SIDE} 132 ${to + SIDE} 156`,
        }),
      );
      this.lines.push(lines);
      picture.append(part("weights", t, ...lines));
    });
    places.forEach((x, t) => picture.append(...this.branch(x, part, t)));
    return picture;
  }

  stream(x, part, t) {
    const line = (from, to) => svg("path", { class: "stream", d: `M${x} ${from}V${to}` });
    const around = [line(64, 182), line(264, 382)];
    this.bypass.push(...around);
    const head = svg("path", { class: "tip", d: `M${x - 8} 434L${x} 445L${x + 8} 434z` });
    const whole = [line(6, 64), ...around, line(182, 264), line(382, 436), head];
    this.syncs.push(({ token }) =>
      whole.forEach((node) => node.classList.toggle("apart", token !== t + 1)),
    );
    return whole;
  }

  branch(x, part, t) {
    const at = x + SIDE;
    const flow = (d) => svg("path", { class: "flow", d });
    const dot = (y) => svg("circle", { cx: at, cy: y, r: 5, class: "dot" });
    const pill = (cx, cy) => [
      svg("rect", { x: cx - 22, y: cy - 11, width: 44, height: 22, rx: 11, class: "box" }),
      svg("text", { x: cx, y: cy + 4.5, "text-anchor": "middle", class: "small", text: "norm" }),
    ];
    const plus = (y) => [
      svg("circle", { cx: x, cy: y, r: 10, class: "ring" }),
      svg("path", { class: "sign", d: `M${x - 5} ${y}h10M${x} ${y - 5}v10` }),
    ];
    const out = (y) => flow(`M${x} ${y}H${at - 7}q7 0 7 7v${28}`);
    const back = (from, y) => flow(`M${at} ${from}V${y - 7}q0 7 -7 7H${x + 12}`);
    const box = svg("rect", { x: at - 30, y: 312, width: 60, height: 28, rx: 5, class: "box" });
    const words = { x: at, y: 330.5, "text-anchor": "middle", class: "small", text: "4→16→4" };
    const inside = svg("text", words);
    const wire = [out(64), back(156, 182), out(264), flow(`M${at} 299V312`), back(340, 382)];
    const norms = ["before", "after"].flatMap((norm) =>
      [1, 2].map((n) => {
        const place = norm === "before" ? [at, 200 * n - 116] : [x, 200 * n + 12];
        const node = part(`norm${n}`, t, ...pill(...place));
        this.syncs.push((state) => (node.style.display = state.norm === norm ? "" : "none"));
        return node;
      }),
    );
    return [
      ...wire,
      ...norms,
      part("scores", t, dot(108), dot(156)),
      part("add1", t, ...plus(182)),
      part("network", t, box, inside),
      part("add2", t, ...plus(382)),
    ];
  }

  stepping() {
    const box = html("div", { class: "steps" });
    const go = (by) => () => {
      const order = ORDER[this.state.norm];
      const at = clamp(order.indexOf(this.state.step) + by, 0, order.length - 1);
      this.set({ step: order[at] });
    };
    this.back = this.button("◀", go(-1), { "aria-label": "step back" }, box);
    this.caption = html("span", { class: "title", "aria-live": "polite" });
    box.append(this.caption);
    this.next = this.button("▶", go(1), { "aria-label": "next step" }, box);
    return box;
  }

  // The followed token's own numbers, which can be dragged, and those of the step.
  numbersOf() {
    const own = [0, 1, 2, 3].map((d) => {
      const node = html("div", { class: "cell state", "data-cell": `x ${d}` });
      const get = () => this.state.x[this.state.token - 1][d];
      const put = (value) => {
        const x = copy(this.state.x);
        x[this.state.token - 1][d] = value;
        this.set({ x });
      };
      const first = () => this.start.x[this.state.token - 1][d];
      const range = { min: -3, max: 3, step: 0.1, role: "spinbutton" };
      this.scrub(node, { label: `x, number ${d + 1}`, get, put, first, ...range });
      this.syncs.push(() => this.fill(node, get()));
      return node;
    });
    this.rove(own, { ArrowLeft: -1, ArrowRight: 1 });
    this.strips = html("div", { class: "strips" });
    const label = html("div", { class: "label state tint", text: "x" });
    const row = html("div", { class: "strip" }, label, ...own);
    return html("div", { class: "numbers" }, row, this.strips);
  }

  fill(node, x) {
    set(node, { text: num(x), style: `--v: ${Math.min(1, Math.abs(x) / 2).toFixed(2)}` });
  }

  chart() {
    const picture = svg("svg", { viewBox: "0 0 280 132", role: "img", class: "chart" });
    set(picture, { "aria-label": "how different the tokens are, against the number of blocks" });
    const line = (kind) => svg("path", { class: `curve ${kind}` });
    this.curves = { kept: line("kept"), lost: line("lost"), was: line("was") };
    this.marker = svg("path", { class: "marker" });
    this.dots = { kept: svg("circle", { r: 4.5 }), lost: svg("circle", { r: 4.5 }) };
    set(this.dots.kept, { class: "kept" });
    set(this.dots.lost, { class: "lost" });
    this.grid = svg("g");
    const text = (x, y, words, more) => svg("text", { x, y, text: words, ...more });
    this.names = { kept: text(0, 0, "with stream"), lost: text(0, 0, "without") };
    set(this.names.kept, { class: "curve-name state", "text-anchor": "end" });
    set(this.names.lost, { class: "curve-name gradient" });
    const title = text(26, 12, "what differs between the tokens", { class: "small" });
    picture.append(this.grid, this.marker, title, ...Object.values(this.curves));
    picture.append(...Object.values(this.dots), ...Object.values(this.names));
    const middle = { class: "tick", "text-anchor": "middle" };
    for (const n of [0, 4, 8]) this.grid.append(text(26 + 20 * n, 129, n, middle));
    this.grid.append(text(266, 129, "12 blocks", { class: "tick", "text-anchor": "end" }));
    for (const y of [0, 0.5, 1]) {
      const height = 112 - 92 * y;
      this.grid.append(svg("path", { class: "hair", d: `M26 ${height}H266` }));
      const tick = { class: "tick", "text-anchor": "end" };
      this.grid.append(text(21, height + 4, num(y, 1), tick));
    }
    return picture;
  }

  draw(result, held) {
    const { step, token, norm, stream, depth } = this.state;
    const order = ORDER[norm];
    const place = order.indexOf(step);
    set(this.caption, { text: `${place + 1} of ${order.length}: ${this.named(step)}` });
    this.back.disabled = place === 0;
    this.next.disabled = place === order.length - 1;
    const part = ["widen", "cut", "narrow"].includes(step) ? "network" : step;
    this.parts.forEach(({ step: own, t, node }) => {
      const here = own === part || (part === "scores" && own === "weights");
      set(node, { class: here && t === token - 1 ? "now" : t === token - 1 ? "own" : "other" });
    });
    this.bypass.forEach((line) => line.classList.toggle("cut", !stream));
    this.left.classList.toggle("off", !stream);
    this.lines.forEach((lines, to) =>
      lines.forEach((line, from) => {
        const w = sum(result.heads.map((head) => head.weights[to][from])) / HEADS;
        set(line, { "stroke-width": (0.6 + 7 * w).toFixed(2) });
      }),
    );
    this.strips.replaceChildren(...this.rows(result).map((row) => this.strip(...row)));
    this.plot(result, held, depth);
  }

  named(step) {
    return !this.state.stream && step.startsWith("add") ? "replace" : STEPS[step];
  }

  // The lines of numbers of a step, each "label name role" with a name of the result.
  rows(now) {
    const { step, token, norm, stream } = this.state;
    const t = token - 1;
    const after = norm === "after";
    const read = (x) => (norm === "before" ? `norm(${x})` : x);
    const plus = stream ? "+" : "found";
    const lines = {
      norm1: after ? "sum first state|z z output" : "norm(x) seen output",
      scores: `${read("x")} seen state|head scores weight`,
      weights: "head weights weight|found mixed output",
      add1: `${plus} mixed weight|${after ? "sum" : "z"} first output`,
      norm2: after ? "sum second state|y y output" : "z z state|norm(z) seen2 output",
      widen: `${read("z")} seen2 state|16 raw ink`,
      cut: "16 wide ink",
      narrow: "16 wide ink|found thought output",
      add2: `z z state|${plus} thought weight|${after ? "sum" : "y"} second output`,
    }[step].split("|");
    return lines.flatMap((line) => {
      const [label, name, role] = line.split(" ");
      if (label !== "head") return [[label, now[name][t], role]];
      return now.heads.map((head, h) => [`head ${h + 1}`, head[name][t], role]);
    });
  }

  strip(label, numbers, role) {
    const cells = numbers.map((x) => {
      const cell = html("div", { class: `cell ${role}` });
      this.fill(cell, x);
      return cell;
    });
    const name = html("div", { class: `label ${role} tint`, text: label });
    const kind = numbers.length > 4 ? "strip long" : numbers.length < 4 ? "strip three" : "strip";
    return html("div", { class: kind }, name, ...cells);
  }

  plot({ kept, lost }, held, depth) {
    const point = (value, n) => [26 + 20 * n, 112 - 92 * Math.min(1, value)];
    const d = (row) => path(row.map(point));
    const { stream } = this.state;
    set(this.curves.kept, { d: d(kept) });
    set(this.curves.lost, { d: d(lost) });
    set(this.curves.was, { d: held ? d(held.kept) : "M0 0" });
    set(this.marker, { d: `M${26 + 20 * depth} 20V112` });
    for (const [name, row] of [
      ["kept", kept],
      ["lost", lost],
    ]) {
      const [cx, cy] = point(row[depth], depth);
      set(this.dots[name], { cx, cy });
      set(this.curves[name], { opacity: (name === "kept") === stream ? 1 : 0.45 });
    }
    const top = point(Math.max(...kept.slice(8, 12)), 0)[1];
    set(this.names.kept, { x: 264, y: Math.max(26, top - 9) });
    const low = lost.findIndex((value) => value < 0.03);
    set(this.names.lost, { x: 34 + 20 * Math.min(low < 0 ? 6 : low, 8), y: 106 });
  }

  tell(now) {
    const { step, token, stream, depth } = this.state;
    const t = token - 1;
    const list = (row) => `(${row.map((x) => say(x)).join(", ")})`;
    const who = `token ${token}`;
    const both = now.heads.map((head) => head.weights[t]);
    const own = sum(both.map((row) => row[t])) / HEADS;
    const found = (name, what) =>
      stream
        ? `${name} adds ${list(what[t])} to ${who}, and what was there stays in the sum.`
        : `Without the stream ${list(what[t])} takes the place of ${who}.`;
    const best = now.heads.map((head) => argmax(head.scores[t]) + 1);
    const after = this.state.norm === "after";
    const normed = (from, to) => {
      const [a, b] = [from, to].map((name) => say(length(now[name][t])));
      return `The norm takes ${who} from length ${a} to ${b}.`;
    };
    const zeros = now.wide[t].filter((x) => x === 0).length;
    const first = {
      norm1: () => (after ? normed("first", "z") : normed("x", "seen")),
      scores: () => `Head 1 scores token ${best[0]} best for ${who}, head 2 token ${best[1]}.`,
      weights: () =>
        `Over both heads ${who} takes ${say(own)} from itself, ${say(1 - own)} from others.`,
      add1: () => found("Attention", now.mixed),
      norm2: () => (after ? normed("second", "y") : normed("z", "seen2")),
      widen: () => "4 numbers become 16, by the same matrix for each token.",
      cut: () => `${zeros} of the 16 numbers were below 0 and are 0 now.`,
      narrow: () => `16 numbers become 4 again: ${list(now.thought[t])}.`,
      add2: () => found("The network", now.thought),
    }[step]();
    const [kept, lost] = [now.kept[depth], now.lost[depth]].map(size);
    const blocks = `After ${depth} block${depth > 1 ? "s" : ""} ${kept} of the vectors differs`;
    return `${first} ${blocks} between tokens; without the stream ${lost}.`;
  }

  static style = `
    .two { display: grid; grid-template-columns: minmax(0, 345px) 1fr; gap: 18px }
    .tokens { display: grid; grid-template-columns: repeat(3, 1fr); margin-bottom: 4px }
    .tokens span { width: 100%; padding: 0 }
    .right { display: flex; flex-direction: column; gap: 10px }
    .steps { display: flex; align-items: center; gap: 8px }
    .title { flex: 1; text-align: center; font-weight: 650 }
    .numbers { min-height: 190px }
    .strips { display: grid; gap: 4px; margin-top: 4px }
    .strip { display: grid; gap: 3px; grid-template-columns: 58px repeat(4, 1fr) }
    .strip .cell { height: 32px }
    .three { grid-template-columns: 58px repeat(3, 1fr) }
    .long .label { grid-row: span 4 }
    .long .cell { font-size: 12px; height: 24px }
    .label { display: flex; align-items: center; font-size: 13px; font-weight: 650 }
    .band { fill: color-mix(in srgb, var(--c) 9%, var(--d-paper)) }
    .band-name { font-size: 13px; font-weight: 650; fill: var(--c) }
    .stream { stroke: var(--d-state); stroke-width: 7; fill: none }
    .stream.cut { stroke-width: 2; stroke-dasharray: 2 6; opacity: .6 }
    .tip { fill: var(--d-state) }
    .flow { fill: none; stroke: var(--d-muted); stroke-width: 1.75 }
    .dot { fill: var(--d-weight) }
    .share { fill: none; stroke: var(--d-weight) }
    .other .share { opacity: .16 } .own .share { opacity: .5 } .now .share { opacity: .75 }
    .box { fill: var(--d-surface); stroke: var(--d-line); stroke-width: 1.25 }
    .ring { fill: var(--d-paper); stroke: var(--d-ink); stroke-width: 2 }
    .sign { stroke: var(--d-ink); stroke-width: 2 }
    .small { font-size: 12.5px }
    .now .box, .now .ring { stroke: var(--d-ink); stroke-width: 3; fill: var(--d-paper) }
    .now .dot { stroke: var(--d-ink); stroke-width: 2.5 }
    .other .ring, .other .sign { stroke: var(--d-line) }
    .other .dot { opacity: .5 }
    .apart { opacity: .45 } .off .sign { display: none }
    .curve { fill: none; stroke-width: 3; stroke-linejoin: round }
    .kept { stroke: var(--d-state) } .lost { stroke: var(--d-gradient) }
    .was { stroke: var(--d-state); stroke-width: 1.5; opacity: .4 }
    circle.kept { fill: var(--d-state); stroke: none }
    circle.lost { fill: var(--d-gradient); stroke: none }
    .marker { stroke: var(--d-line); stroke-dasharray: 2 3 }
    .curve-name { font-size: 13px; font-weight: 650; fill: var(--c); paint-order: stroke;
      stroke: var(--d-paper); stroke-width: 3px }
    .hair { stroke: var(--d-line); opacity: .4 }
    .tick { font-size: 12px; fill: var(--d-muted) }
    @container (max-width: 600px) { .two { grid-template-columns: 1fr } }`;
}

define("attn-block", BlockWalk);
