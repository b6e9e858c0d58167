// Fit a scaling law to some of the models, and see where the others lie.
const EXPONENTS = Array.from({ length: 300 }, (_, i) => 0.01 * 100 ** (i / 299));
const BOTH = Array.from({ length: 69 }, (_, i) => 0.05 * 30 ** (i / 68));
const [WIDTH, HEIGHT] = [400, 270];
const BOX = { left: 40, right: 386, top: 12, bottom: 228 };
const UNIT = 6 * 1024 * 6.6e6;
const average = (row) => sum(row) / row.length;
const budgetOf = (N, D) => Math.round(Math.log2((6 * N * D) / UNIT));
const POWERS = Array.from({ length: 60 }, (_, i) => 0.05 * 20 ** (i / 59));
const lossOf = ({ alpha, beta, a, b, c, p }, N, D) =>
  c + (a * N ** -alpha + b * D ** -beta) ** p;
const many = (x) => String(Math.round(x)).replace(/(\d)(?=(\d{3})+$)/g, "$1,");

// For each exponent a and c are a straight line's slope and intercept.
function powerLaw(N, L, floor) {
  let best = { error: Infinity };
  for (const alpha of EXPONENTS) {
    const u = N.map((n) => n ** -alpha);
    const [middle, level] = floor ? [average(u), average(L)] : [0, 0];
    const apart = u.map((x) => x - middle);
    const a = sum(apart.map((x, i) => x * (L[i] - level))) / sum(apart.map((x) => x * x));
    const c = level - a * middle;
    const error = sum(u.map((x, i) => (a * x + c - L[i]) ** 2));
    if (c >= 0 && error < best.error) best = { error, alpha, beta: 0, a, b: 0, c, p: 1 };
  }
  return best;
}

function pair(uu, vv, uv, uL, vL) {
  const area = uu * vv - uv * uv;
  return [(uL * vv - vL * uv) / area, (vL * uu - uL * uv) / area];
}

// For each pair of exponents a, b and c come from least squares; c is 0 if it would be less.
function jointLaw(N, D, L) {
  const level = average(L);
  const off = L.map((x) => x - level);
  const tables = [N, D].map((part) =>
    BOTH.map((exponent) => {
      const row = part.map((x) => x ** -exponent);
      const middle = average(row);
      const apart = row.map((x) => x - middle);
      return { row, middle, apart, square: dot(apart, apart), loss: dot(row, off) };
    }),
  );
  let best = { error: Infinity };
  tables[0].forEach((u, i) =>
    tables[1].forEach((v, j) => {
      let [a, b] = pair(u.square, v.square, dot(u.apart, v.apart), u.loss, v.loss);
      let c = level - a * u.middle - b * v.middle;
      if (c < 0) {
        const [uu, vv, uv] = [dot(u.row, u.row), dot(v.row, v.row), dot(u.row, v.row)];
        [[a, b], c] = [pair(uu, vv, uv, dot(u.row, L), dot(v.row, L)), 0];
      }
      if (a < 0 || b < 0) return;
      let error = 0;
      for (let k = 0; k < L.length; k += 1)
        error += (a * u.row[k] + b * v.row[k] + c - L[k]) ** 2;
      if (error >= best.error) return;
      best = { error, alpha: BOTH[i], beta: BOTH[j], a, b, c, p: 1 };
    }),
  );
  return best;
}

// A power of a sum: for each power and exponent a and b come from weighted least squares.
function kaplanLaw(N, D, L) {
  let best = { error: Infinity };
  const rows = BOTH.map((alpha) => N.map((n) => n ** -alpha));
  for (const p of POWERS) {
    const weight = L.map((x) => p * x ** (1 - 1 / p));
    const y = L.map((x, i) => x ** (1 / p) * weight[i]);
    const v = D.map((d, i) => weight[i] / d);
    const [vv, vy] = [dot(v, v), dot(v, y)];
    rows.forEach((row, j) => {
      const u = row.map((x, i) => x * weight[i]);
      const [a, b] = pair(dot(u, u), vv, dot(u, v), dot(u, y), vy);
      if (a < 0 || b < 0) return;
      const off = row.map((x, i) => (a * x + b / D[i]) ** p - L[i]);
      const error = dot(off, off);
      if (error < best.error) best = { error, alpha: BOTH[j], beta: 1, a, b, c: 0, p };
    });
  }
  return best;
}

class ScalingFit extends Explorable {
  static limits = {
    view: ["sizes", "both"],
    used: [4, 15],
    floor: ["no floor", "floor"],
    hidden: ["hidden", "shown"],
    guess: [1.4, 2.4],
    budget: [3, 7],
    form: ["sum", "power"],
  };

  compute({ view, used, floor, budget, form }) {
    const alone = view === "sizes";
    const rows = alone ? this.numbers.sizes.map(([N, L]) => [N, 1, L]) : this.numbers.grid;
    const seen = (row, n) => (alone ? n < used : budgetOf(row[0], row[1]) <= budget);
    const fitted = rows.filter(seen);
    const rest = rows.filter((row, n) => !seen(row, n));
    const [N, D, L] = turn(fitted);
    const both = form === "sum" ? jointLaw : kaplanLaw;
    const { error, ...law } = alone ? powerLaw(N, L, floor === "floor") : both(N, D, L);
    const off = (part) => part.map(([n, d, loss]) => loss - lossOf(law, n, d));
    const exponents = law.alpha + law.beta;
    const share = ((law.alpha * law.a) / (law.beta * law.b)) ** (1 / exponents);
    const size = (C) => share * (C / 6) ** (law.beta / exponents);
    return {
      ...law,
      miss: Math.sqrt(average(off(fitted).map((x) => x * x))),
      above: rest.length ? average(off(rest)) : 0,
      fitted: fitted.length,
      best: alone ? [] : Array.from({ length: 8 }, (_, k) => size(UNIT * 2 ** k)),
    };
  }

  build() {
    this.atX = linear(2.8, 6.05, BOX.left, BOX.right);
    this.atY = linear(1.4, 2.5, BOX.bottom, BOX.top);
    this.plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group" });
    set(this.plot, { "aria-label": "held-out loss against the number of parameters" });
    this.shapes = svg("g");
    this.hand = this.marker();
    this.plot.append(this.axes(), this.shapes, this.hand);
    this.picture.append(this.plot);
    this.choice("view", "law in", [
      ["sizes", "N"],
      ["both", "N and D"],
    ]);
    this.alone = [
      this.slider("used", "models fitted", 4, 15, 1, String),
      this.choice("floor", "", [
        ["no floor", "no floor"],
        ["floor", "floor"],
      ]),
      this.choice("hidden", "the others", [
        ["hidden", "hidden"],
        ["shown", "shown"],
      ]),
    ];
    const upTo = (k) => `${say((UNIT * 2 ** k) / 1e12, 1)} TFLOP`;
    this.together = [
      this.slider("budget", "fitted up to", 3, 7, 1, upTo),
      this.choice("form", "form", [
        ["sum", "Hoffmann’s sum"],
        ["power", "Kaplan’s power"],
      ]),
    ];
  }

  // The reader's guess for the largest model.
  marker() {
    const area = svg("rect", { x: -22, y: -22, width: 44, height: 44, fill: "transparent" });
    const node = svg("g", { class: "mark" }, area, svg("path", { d: "M-9 0L0 -9L9 0L0 9Z" }));
    const label = "your guess of the largest model's loss, nats";
    const get = () => this.state.guess;
    const put = (guess) => this.set({ guess });
    const first = () => this.start.guess;
    this.scrub(node, { label, get, put, first, min: 1.4, max: 2.4, step: 0.01 });
    this.drag(node, () => {
      const begin = get();
      const up = 1.1 / (BOX.bottom - BOX.top);
      return (dx, dy) => put(snap(clamp(begin + (dx - dy) * up, 1.4, 2.4), 0.01));
    });
    return node;
  }

  axes() {
    const { left, right, bottom } = BOX;
    const word = (x, y, text, anchor) =>
      svg("text", { x, y, text, class: "tick", "text-anchor": anchor });
    const parts = [];
    for (const loss of [1.4, 1.6, 1.8, 2, 2.2, 2.4]) {
      const y = this.atY(loss);
      parts.push(svg("path", { d: `M${left} ${y}H${right}`, class: "hair" }));
      parts.push(word(left - 6, y + 4, say(loss, 1), "end"));
    }
    for (const [power, text] of [
      [3, "1,000"],
      [4, "10,000"],
      [5, "100,000"],
    ])
      parts.push(word(this.atX(power), bottom + 17, text, "middle"));
    parts.push(word(right, bottom + 17, "1 million", "end"));
    parts.push(word(left + 2, BOX.top + 2, "held-out loss, nats", "start"));
    parts.push(word((left + right) / 2, bottom + 35, "parameters N", "middle"));
    return svg("g", {}, ...parts);
  }

  curve(law, D, look, from = 894, to = 885696) {
    const points = Array.from({ length: 41 }, (_, i) => {
      const N = from * (to / from) ** (i / 40);
      return [this.atX(Math.log10(N)), this.atY(lossOf(law, N, D(N)))];
    }).filter(([, y]) => y >= BOX.top - 4 && y <= BOX.bottom);
    return points.length > 1 ? [svg("path", { d: path(points), class: `curve ${look}` })] : [];
  }

  dot(N, L, look) {
    return svg("circle", { cx: this.atX(Math.log10(N)), cy: this.atY(L), r: 4, class: look });
  }

  draw(law) {
    const { view, used, hidden, guess, budget } = this.state;
    const alone = view === "sizes";
    const show = (node, on) => (node.style.display = on ? "" : "none");
    this.alone.forEach((node) => show(node, alone));
    this.together.forEach((node) => show(node, !alone));
    const parts = [];
    if (alone) {
      parts.push(...this.curve(law, () => 1, "output"));
      this.numbers.sizes.forEach(([N, L], n) => {
        const x = this.atX(Math.log10(N));
        const veil = svg("path", { d: `M${x} ${BOX.top + 10}V${BOX.bottom}`, class: "veil" });
        if (n < used) parts.push(this.dot(N, L, "full"));
        else parts.push(hidden === "hidden" ? veil : this.dot(N, L, "open"));
      });
    } else {
      for (let k = 0; k < 8; k += 1) {
        const tokens = (N) => (UNIT * 2 ** k) / (6 * N);
        parts.push(...this.curve(law, tokens, k > budget ? "later" : "output", 1608, 394368));
        const N = law.best[k];
        const L = lossOf(law, N, tokens(N));
        if (N > 700 && N < 1e6 && L > 1.42) parts.push(this.dot(N, L, "least"));
      }
      for (const [N, D, L] of this.numbers.grid) {
        const k = budgetOf(N, D);
        if (k >= 0) parts.push(this.dot(N, L, k <= budget ? "full" : "open"));
      }
    }
    this.shapes.replaceChildren(...parts);
    show(this.hand, alone);
    const x = this.atX(Math.log10(this.numbers.sizes[15][0]));
    set(this.hand, { transform: `translate(${x} ${this.atY(guess)})` });
  }

  tell(law) {
    const { view, hidden, guess, budget } = this.state;
    const miss = `typical miss ${say(law.miss, 3)} nats.`;
    if (view === "both") {
      const exponents = `α = ${say(law.alpha)}, β = ${say(law.beta)}`;
      const end = law.p < 1 ? `power ${say(law.p, 3)}` : `floor ${say(law.c)}`;
      const said = `${exponents}, ${end}, ${miss}`;
      const side = law.above < 0 ? "below" : "above";
      const off = `${say(Math.abs(law.above), 3)} ${side} the law on average`;
      const rest = budget < 7 ? ` The later ones lie ${off}.` : "";
      const at = ` At the last budget it advises ${many(law.best[7])} parameters.`;
      return `Fitted to ${law.fitted} runs: ${said}${rest}${at}`;
    }
    const [N, L] = this.numbers.sizes[15];
    const law0 = `Fitted to ${law.fitted} models: α = ${say(law.alpha, 3)}, ${miss}`;
    const says = `${law0} For the largest the law says ${say(lossOf(law, N, 1))}.`;
    if (hidden === "hidden") return `${says} And you? Drag the mark, then show the others.`;
    return `${says} It has ${say(L)}; you said ${say(guess)}.`;
  }

  static style = `
    .picture svg { max-width: 32rem; margin: 0 auto }
    .curve { fill: none; stroke: var(--c); stroke-width: 2.2 }
    .later { stroke: var(--d-line); stroke-dasharray: 4 4 }
    .full { fill: var(--d-state) }
    .open { fill: var(--d-paper); stroke: var(--d-state); stroke-width: 1.6 }
    .least { fill: var(--d-output); stroke: var(--d-paper); stroke-width: 1.5; r: 6px }
    .veil { stroke: var(--d-line); stroke-dasharray: 3 4 }
    .mark { cursor: grab; touch-action: none }
    .mark path { fill: var(--d-gradient) }
    .tick { font-size: 13px; fill: var(--d-muted) }
    .hair { stroke: var(--d-line); opacity: .35 }`;
}

define("attn-scaling", ScalingFit);
