// How much of a gradient is left k steps back through h_t = U h_{t-1}, U = [[r, s], [0, r/2]].
const STEPS = 50;
const [WIDTH, HEIGHT] = [400, 250];
const BOX = { left: 44, right: 386, top: 12, bottom: 212 };

function norm([[a, b], [c, d]]) {
  const squares = a * a + b * b + c * c + d * d;
  const determinant = a * d - b * c;
  const root = Math.sqrt(Math.max(0, squares * squares - 4 * determinant * determinant));
  return Math.sqrt((squares + root) / 2);
}

class Decay extends Explorable {
  static limits = { radius: [0.5, 1.5], skew: [0, 3], steps: [1, STEPS] };

  compute({ radius, skew }) {
    const U = [
      [radius, skew],
      [0, radius / 2],
    ];
    const norms = [1];
    for (let P = U; norms.length <= STEPS; P = matmul(P, U)) norms.push(norm(P));
    return { norms, largest: norm(U) };
  }

  build() {
    this.plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    this.plot.setAttribute("aria-label", "size of the gradient against steps back, on a log scale");
    this.grid = svg("g");
    const { left, right, top, bottom } = BOX;
    const inside = { x: left, y: top, width: right - left, height: bottom - top };
    const clip = svg("clipPath", { id: "inside" }, svg("rect", inside));
    const lines = svg("g", { "clip-path": "url(#inside)" });
    const line = (kind) => lines.appendChild(svg("path", { class: `line ${kind}` }));
    [this.ghost, this.bound, this.rate, this.curve] = ["ghost", "bound", "rate", "curve"].map(line);
    const labels = svg("g");
    this.names = ["gradient", "muted", "muted"].map((role) =>
      labels.appendChild(svg("text", { class: `name ${role}` })),
    );
    this.plot.append(clip, this.grid, lines, labels);
    const matrix = html("div", { class: "matrix" }, ...this.entries());
    const U = html("div", { class: "beside" }, html("span", { text: "U =" }), matrix);
    const hint = html("span", { class: "hint", text: "Drag the underlined numbers." });
    this.picture.append(html("div", { class: "two" }, this.plot, html("div", {}, U, hint)));
    this.choice("steps", "steps shown", [
      [10, "10"],
      [50, "50"],
    ]);
  }

  entries() {
    const entry = (key, label, step) => {
      const node = html("div", { class: "cell state" });
      const [min, max] = Decay.limits[key];
      const get = () => this.state[key];
      const put = (x) => this.set({ [key]: x });
      const first = () => this.start[key];
      this.scrub(node, { label, get, put, first, min, max, step, role: "spinbutton", pixels: 12 });
      const value = html("span");
      node.append(html("i", { text: label[0], "aria-hidden": "true" }), value);
      this.syncs.push(() => set(value, { text: say(get()) }));
      return node;
    };
    const half = html("div", { class: "cell ink" });
    const number = html("span");
    half.append(html("i", { text: "r/2", "aria-hidden": "true" }), number);
    this.syncs.push((state) => set(number, { text: num(state.radius / 2, 3) }));
    return [
      entry("radius", "r, the spectral radius", 0.05),
      entry("skew", "s, off the diagonal", 0.25),
      html("div", { class: "cell ink", text: "0" }),
      half,
    ];
  }

  // Powers of ten from the smallest to the largest value shown; kept while a finger is down.
  fit(curves) {
    if (this.held && this.range) return this.range;
    const logs = curves.flat().map(Math.log10);
    const [low, high] = [Math.min(...logs), Math.max(...logs)];
    const room = Math.max(0.12, (high - low) * 0.08);
    return (this.range = [low - room, high + 2.5 * room]);
  }

  draw({ norms, largest }, held) {
    const { radius, steps } = this.state;
    const { left, right, top, bottom } = BOX;
    const cut = (row) => row.slice(0, steps + 1);
    const rate = norms.map((_, k) => radius ** k);
    const [low, high] = this.fit([cut(norms), cut(rate)]);
    const atX = linear(0, steps, left, right);
    const atY = linear(low, high, bottom, top);
    const points = (row) => cut(row).map((y, k) => [atX(k), atY(Math.log10(y))]);
    const bound = norms.map((_, k) => largest ** k);
    set(this.curve, { d: path(points(norms)) });
    set(this.rate, { d: path(points(rate)) });
    set(this.bound, { d: path(points(bound)) });
    set(this.ghost, { d: held ? path(points(held.norms)) : "M0 0" });
    this.marks(atX, atY, low, high);
    const [name, below, above] = this.names;
    const [last, end] = [points(norms)[steps], points(rate)[steps]];
    const apart = end[1] - last[1] > 16;
    const near = points(norms)[Math.round(steps * 0.6)];
    set(name, { text: "gradient", x: near[0] + 6, y: Math.max(top + 14, near[1] - 10) });
    const foot = points(rate)[Math.round(steps * 0.35)];
    set(below, {
      text: apart ? "rᵏ" : "rᵏ, too",
      x: foot[0] - 10,
      y: Math.min(bottom - 8, foot[1] + 20),
    });
    set(below, { "text-anchor": "end" });
    const leaves = points(bound).findIndex(([, y]) => y < top + 4);
    const k = leaves < 1 ? steps : leaves;
    const shown = largest > radius + 0.05;
    set(above, {
      text: shown ? "σᵏ, the bound" : "",
      x: Math.min(points(bound)[k][0] + 8, 280),
      y: top + 12,
    });
  }

  marks(atX, atY, low, high) {
    const { left, right, bottom } = BOX;
    const parts = [];
    const powers = decades(low, high);
    for (const p of powers.length > 1 ? powers : [low, high].map((x) => Math.round(x * 10) / 10)) {
      const y = atY(p);
      parts.push(svg("path", { class: p ? "hair" : "one", d: `M${left} ${y}H${right}` }));
      const text = Number.isInteger(p) && (p < -1 || p > 2) ? `10${raised(p)}` : num(10 ** p);
      parts.push(svg("text", { class: "tick", x: left - 7, y: y + 4, "text-anchor": "end", text }));
    }
    const { steps } = this.state;
    for (let k = 0; k <= steps; k += steps / 5) {
      const at = { x: atX(k), y: bottom + 18, "text-anchor": "middle", text: k };
      parts.push(svg("text", { class: "tick", ...at }));
    }
    const middle = { x: (left + right) / 2, y: bottom + 35, "text-anchor": "middle" };
    parts.push(svg("text", { class: "tick", ...middle, text: "k, steps back" }));
    this.grid.replaceChildren(...parts);
  }

  tell({ norms }) {
    const peak = argmax(norms);
    const rise = `On the way it grows, to ${size(norms[peak])} at step ${peak}.`;
    const times = `multiplied by up to ${size(norms[STEPS])}.`;
    const end = `${STEPS} steps back, a gradient has been ${times}`;
    return peak > 0 && peak < STEPS ? `${end} ${rise}` : end;
  }

  static style = `
    .two { display: grid; grid-template-columns: 1fr 170px; gap: 20px; align-items: center }
    .matrix { display: grid; grid-template-columns: 1fr 1fr; gap: 3px; width: 116px;
      border: 1.5px solid var(--d-ink); border-width: 0 1.5px; border-radius: 7px; padding: 0 6px }
    .matrix .cell { height: 46px; font-size: 14px; flex-direction: column; line-height: 1.25 }
    .matrix i { font: italic 13px/1 "STIX Two Text", "Times New Roman", serif }
    .matrix .state { --v: .5 }
    .beside { display: flex; align-items: center; gap: 8px; margin-bottom: 10px }
    .line { fill: none; stroke-linejoin: round }
    .curve { stroke: var(--d-gradient); stroke-width: 3.2 }
    .rate { stroke: var(--d-muted); stroke-width: 1.8; stroke-dasharray: 8 5 }
    .bound { stroke: var(--d-muted); stroke-width: 1.8; stroke-dasharray: 1.5 4;
      stroke-linecap: round }
    .ghost { stroke: var(--d-gradient); stroke-width: 2; opacity: .3 }
    .name { font-weight: 650; font-size: 14px; fill: var(--c); paint-order: stroke;
      stroke: var(--d-paper); stroke-width: 4px }
    .tick { font-size: 13px; fill: var(--d-muted) }
    .hair { stroke: var(--d-line); opacity: .35 }
    .one { stroke: var(--d-line); stroke-width: 1.5 }
    @container (max-width: 560px) { .two { grid-template-columns: 1fr; gap: 8px } }`;
}

define("attn-decay", Decay);
