// Rotary positions: each pair of coordinates of q and k is turned by its place; scores by distance.
const PAIRS = 4;
const FAR = 63;
const TRAINED = 32;
const BASES = [1, 100, 10000, 1000000];

const speeds = (base) => Array.from({ length: PAIRS }, (_, i) => base ** (-i / PAIRS));

// Coordinate i is paired with i + D/2, as in the module.
function rotate(x, place, base) {
  const y = [...x];
  speeds(base).forEach((speed, i) => {
    const [cos, sin] = [Math.cos(place * speed), Math.sin(place * speed)];
    y[i] = x[i] * cos - x[i + PAIRS] * sin;
    y[i + PAIRS] = x[i + PAIRS] * cos + x[i] * sin;
  });
  return y;
}

class Rope extends Explorable {
  static limits = { t: [0, FAR], s: [0, FAR], shift: [0, FAR], pair: [1, PAIRS] };

  compute({ q, k, t, s, shift, pair, base }) {
    const score = (a, b) => dot(rotate(q, a, base), rotate(k, b, base));
    const part = (a, b, i) => {
      const [x, y] = [rotate(q, a, base), rotate(k, b, base)];
      return x[i] * y[i] + x[i + PAIRS] * y[i + PAIRS];
    };
    const places = Array.from({ length: 2 * FAR + 1 }, (_, n) => n - FAR);
    const curve = places.map((d) => score(0, d));
    const own = places.map((d) => part(0, d, pair - 1));
    const rises = curve.slice(FAR).map((x, d, row) => (d ? x > row[d - 1] : null));
    const turns = rises.filter((up, d) => d > 1 && up !== rises[d - 1]).length;
    const angle = speeds(base)[pair - 1] * (s - t);
    const shifted = score(t + shift, s + shift);
    return { score: score(t, s), shifted, angle, part: part(t, s, pair - 1), curve, own, turns };
  }

  build() {
    this.dials = [this.dial(true), this.dial(false)];
    this.plot = svg("svg", { viewBox: "0 0 640 196", role: "img" });
    set(this.plot, { "aria-label": "score against how far k stands from q" });
    const boxes = this.dials.map(({ box }) => box);
    this.picture.append(html("div", { class: "dials" }, ...boxes), this.plot);
    const places = [
      ["t", "place of q", "query"],
      ["s", "place of k", "key"],
    ];
    places.forEach(([key, name, role]) => {
      const control = this.slider(key, name, 0, FAR, 1, String);
      control.classList.add(role, "tint");
      boxes[0].append(control);
    });
    boxes[1].append(this.slider("shift", "both moved by", 0, 60, 1, String));
    this.choice(
      "pair",
      "pair",
      [1, 2, 3, 4].map((n) => [n, String(n)]),
    );
    const bases = BASES.map((base) => [base, base.toLocaleString("en")]);
    this.choice("base", "base", bases);
  }

  dial(first) {
    const picture = svg("svg", { viewBox: "0 0 190 190", role: "group", class: "dial" });
    set(picture, { "aria-label": first ? "one pair of q and k" : "the same pair, moved on" });
    const node = (name, attributes) => picture.appendChild(svg(name, attributes));
    node("circle", { cx: 95, cy: 95, r: 70, class: "rim" });
    const met = node("path", { class: "met" });
    const wedge = node("path", { class: "wedge" });
    const arrows = { q: this.arrow(picture, "q", first), k: this.arrow(picture, "k", first) };
    const words = html("div", { class: "words" });
    return { box: html("div", {}, picture, words), met, wedge, arrows, words, first };
  }

  arrow(picture, name, first) {
    const role = name === "q" ? "query" : "key";
    const line = svg("line", { x1: 95, y1: 95, class: `arrow ${role}` });
    const head = svg("circle", { r: 8, class: `head ${role}` });
    const reach = svg("circle", { r: 19, class: "reach" });
    const tip = svg("g", { class: first ? "tip" : "" }, ...(first ? [reach, head] : [head]));
    const label = svg("text", { class: `name ${role}`, text: name, "text-anchor": "middle" });
    picture.append(line, tip, label);
    if (first) this.grip(tip, name);
    return { line, tip, label };
  }

  // A tip is dragged on the dial; keys turn it (left, right) or change its length (up, down).
  grip(tip, name) {
    const content = () => {
      const i = this.state.pair - 1;
      return [this.state[name][i], this.state[name][i + PAIRS]];
    };
    const put = ([x, y]) => {
      const vector = [...this.state[name]];
      const i = this.state.pair - 1;
      [vector[i], vector[i + PAIRS]] = [x, y].map((v) => clamp(Number(v.toFixed(4)), -2, 2));
      this.set({ [name]: vector });
    };
    const by = (angle, longer) => () => {
      const [x, y] = content();
      const [length, way] = [Math.hypot(x, y), Math.atan2(y, x) + angle];
      const long = clamp(length + longer, 0, 1.5);
      put([long * Math.cos(way), long * Math.sin(way)]);
    };
    const turn = { ArrowLeft: by(0.1, 0), ArrowRight: by(-0.1, 0) };
    const size = { ArrowUp: by(0, 0.1), ArrowDown: by(0, -0.1) };
    const far = { PageUp: by(1, 0), PageDown: by(-1, 0) };
    const home = { Home: () => this.set({ [name]: this.start[name] }) };
    this.keys(tip, { ...turn, ...size, ...far, ...home });
    const label = `direction of ${name} in this pair`;
    const range = { "aria-valuemin": -180, "aria-valuemax": 180 };
    set(tip, { tabindex: 0, role: "slider", "aria-label": label, ...range });
    this.drag(tip, () => {
      const unit = 190 / tip.ownerSVGElement.getBoundingClientRect().width;
      const [x, y] = this.tips[name];
      const place = this.state[name === "q" ? "t" : "s"];
      const angle = -place * speeds(this.state.base)[this.state.pair - 1];
      return (dx, dy) => {
        const [a, b] = [x + (dx * unit) / this.unit, y - (dy * unit) / this.unit];
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        put([a * cos - b * sin, b * cos + a * sin]);
      };
    });
    this.syncs.push(() => {
      const [x, y] = content();
      const way = Math.round((Math.atan2(y, x) * 180) / Math.PI);
      const words = `${way} degrees, length ${say(Math.hypot(x, y), 1)}`;
      set(tip, { "aria-valuenow": way, "aria-valuetext": words });
    });
  }

  draw({ score, shifted, angle, curve, own }, held) {
    const { q, k, t, s, shift, pair, base } = this.state;
    const i = pair - 1;
    if (!held) {
      const long = [q, k].map((x) => Math.hypot(x[i], x[i + PAIRS]));
      this.unit = 70 / Math.max(0.5, ...long) / 1.02;
    }
    const speed = speeds(base)[i];
    this.dials.forEach((dial) => {
      const move = dial.first ? 0 : shift;
      const [x, y] = [rotate(q, t + move, base), rotate(k, s + move, base)];
      const ends = { q: [x[i], x[i + PAIRS]], k: [y[i], y[i + PAIRS]] };
      if (dial.first) this.tips = ends;
      Object.entries(ends).forEach(([name, [a, b]]) => {
        const [ex, ey] = [95 + a * this.unit, 95 - b * this.unit];
        const { line, tip, label } = dial.arrows[name];
        set(line, { x2: ex, y2: ey });
        set(tip, { transform: `translate(${ex} ${ey})` });
        const far = Math.hypot(a, b) || 1;
        set(label, { x: ex - (b / far) * 18, y: ey - (a / far) * 18 + 5 });
      });
      const ways = [ends.q, ends.k].map(([a, b]) => Math.atan2(b, a));
      set(dial.wedge, { d: this.sector(ways[0], ways[1], 24) });
      set(dial.met, { d: this.arc(Math.min(speed * (TRAINED - 1), 2 * Math.PI - 0.01), 84) });
      const [a, b] = [t + move, s + move];
      const value = dial.first ? score : shifted;
      set(dial.words, { text: `q at ${a}, k at ${b}: ${dial.first ? "score" : "again"} ${say(value)}` });
    });
    this.curves(curve, own, s - t, held);
  }

  // The smaller angle between two directions, and an arc from the east on, both as paths.
  sector(from, to, r) {
    let by = (to - from) % (2 * Math.PI);
    if (by > Math.PI) by -= 2 * Math.PI;
    if (by < -Math.PI) by += 2 * Math.PI;
    const at = (way) => `${95 + r * Math.cos(way)} ${95 - r * Math.sin(way)}`;
    return `M95 95L${at(from)}A${r} ${r} 0 0 ${by > 0 ? 0 : 1} ${at(from + by)}z`;
  }

  arc(angle, r) {
    const end = `${95 + r * Math.cos(angle)} ${95 - r * Math.sin(angle)}`;
    return `M${95 + r} 95A${r} ${r} 0 ${angle > Math.PI ? 1 : 0} 0 ${end}`;
  }

  curves(curve, own, distance, held) {
    if (!held || !this.range)
      this.range = [Math.min(...curve, ...own) - 0.1, Math.max(...curve, ...own) + 0.1];
    const atX = linear(-FAR, FAR, 40, 630);
    const atY = linear(...this.range, 166, 30);
    const line = (row, kind) => {
      const points = row.map((y, n) => [atX(n - FAR), atY(y)]);
      return svg("path", { d: path(points), class: `curve ${kind}` });
    };
    const text = (x, y, words, more) => svg("text", { x, y, text: words, class: "tick", ...more });
    const middle = { "text-anchor": "middle" };
    const parts = [svg("path", { class: "hair", d: `M40 ${atY(0)}H630M${atX(0)} 30V166` })];
    for (const d of [-60, -40, -20, 0]) parts.push(text(atX(d), 184, num(d), middle));
    parts.push(text(630, 184, "places from q to k", { "text-anchor": "end" }));
    parts.push(text(34, atY(0) + 4, "0", { "text-anchor": "end" }));
    parts.push(line(own, "own"), line(curve, "all"));
    if (held) parts.push(line(held.curve, "was"));
    const [x, y] = [atX(distance), atY(curve[distance + FAR])];
    parts.push(svg("path", { class: "leader", d: `M${x} ${y - 6}V24` }));
    parts.push(svg("circle", { cx: x, cy: y, r: 6, class: "here" }));
    const at = { "text-anchor": "middle", class: "label" }; // above the curve, which it would hide
    parts.push(text(clamp(x, 62, 606), 17, say(curve[distance + FAR]), at));
    this.plot.replaceChildren(...parts);
  }

  tell({ score, shifted, angle, turns }) {
    const { t, s, shift, pair, base } = this.state;
    const moved = `${t} and ${s}, or ${t + shift} and ${s + shift}`;
    const turned = `pair ${pair} is turned apart by ${say(angle)} rad`;
    const first = `Places ${moved}: ${turned}, the score is ${say(score)}.`;
    const met = (speeds(base)[pair - 1] * (TRAINED - 1)) / (2 * Math.PI);
    const share = met >= 1 ? "comes round" : `meets ${say(100 * met, 1)} % of the circle`;
    const second = `Further away it does not just fall: it turns ${turns} times up or down.`;
    return `${first} ${second} Within ${TRAINED} places this pair ${share}.`;
  }

  static style = `
    .dials { display: grid; grid-template-columns: 1fr 1fr; gap: 8px 28px; margin-bottom: 8px }
    .dial { max-width: 230px; margin: auto }
    .words { text-align: center; font-weight: 650; font-size: 14px; margin: 2px 0 6px }
    .dials .control { flex-wrap: nowrap; font-size: 14px }
    .dials .control span { white-space: nowrap }
    .dials input { flex: 1; min-width: 60px }
    .dials .control.tint { font-weight: 650 }
    .rim { fill: none; stroke: var(--d-line); opacity: .7 }
    .met { fill: none; stroke: var(--d-position); stroke-width: 4; opacity: .7 }
    .wedge { fill: color-mix(in srgb, var(--d-position) 26%, transparent) }
    .arrow { stroke: var(--c); stroke-width: 3 }
    .head { fill: var(--c); stroke: var(--d-paper); stroke-width: 1.5 }
    .reach { fill: transparent }
    .tip { cursor: grab; touch-action: none }
    .name { fill: var(--c); font-weight: 650; pointer-events: none }
    .curve { fill: none; stroke-linejoin: round }
    .all { stroke: var(--d-weight); stroke-width: 2.5 }
    .own { stroke: var(--d-position); stroke-width: 1.5; opacity: .75; stroke-dasharray: 5 3 }
    .was { stroke: var(--d-weight); opacity: .3; stroke-width: 2 }
    .hair { stroke: var(--d-line); opacity: .55; fill: none }
    .leader { stroke: var(--d-weight); stroke-width: 1; fill: none }
    .here { fill: var(--d-weight); stroke: var(--d-paper); stroke-width: 1.5 }
    .label { font-weight: 650; fill: var(--d-weight); paint-order: stroke;
      stroke: var(--d-paper); stroke-width: 4px }
    .tick { font-size: 13px; fill: var(--d-muted) }
    .label.label { font-size: 15px; fill: var(--d-weight) }
    @container (max-width: 560px) {
      .dials { gap: 6px }
      .dials .control { flex-wrap: wrap; justify-content: space-between; gap: 0 8px }
      .dials input { order: 3; flex: 1 0 100% }
      .dials .words { font-size: 13px }
      .tick { font-size: 21px } .label.label { font-size: 23px } }`;
}

define("attn-rope", Rope);
