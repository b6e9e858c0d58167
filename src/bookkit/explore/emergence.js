// Two heads while they are learned: their maps at one step, and below it the curves of all steps.
const T = 16;
const CELLS = (T * (T + 1)) / 2;
const TOP = 10;
const FREEZE = ["none", "layer 0", "layer 1"];
// Of each curve: name, role, the greatest value, words.
const CURVES = [["before", "key", 1, "layer 0: token before"],
  ["follows", "weight", 1, "layer 1: what followed"], ["loss", "output", 4, "loss"]];

class Emergence extends Explorable {
  static limits = { stop: [0, 21], seed: [0, 2], freeze: FREEZE, guess: FREEZE };

  // runs[seed][freeze][stop]: the curves' points, then the levels of maps and probabilities.
  read() {
    const { stops, from, coded: letters } = this.numbers;
    const next = coded(letters, 4, TOP + 4);
    const kept = stops.indexOf(from) + 1;
    this.runs = this.numbers.half.map(() => {
      const both = [];
      return FREEZE.map((_, n) => {
        const run = n ? both.slice(0, kept) : both;
        while (run.length < stops.length) {
          const last = run.at(-1)?.levels ?? Array(2 * CELLS + T - 1).fill(0);
          const points = CURVES.map(([, , most]) =>
            ([1, 2, 3].reduce((so, place) => 16 * so + next(TOP + place), 0) * most) / 4095);
          run.push({ points, levels: last.map(next) });
        }
        return run;
      });
    });
  }

  run(freeze = this.state.freeze) {
    if (!this.runs) this.read();
    return this.runs[this.state.seed][FREEZE.indexOf(freeze)];
  }

  compute({ stop }) {
    const { points, levels } = this.run()[stop];
    const shares = levels.map((level) => level / TOP);
    return {
      step: this.numbers.stops[stop],
      ...Object.fromEntries(points.map((value, n) => [CURVES[n][0], value])),
      maps: [shares.slice(0, CELLS), shares.slice(CELLS, 2 * CELLS)],
      right: shares.slice(2 * CELLS),
    };
  }

  build() {
    this.values = CURVES.map(() => html("b"));
    const legend = CURVES.map(([name, role, , words], n) =>
      html("span", { class: role }, html("i", { class: name }), `${words} `, this.values[n]));
    this.maps = svg("svg", { "aria-hidden": "true" });
    this.plot = svg("svg", { role: "group", "aria-label": "both scores and the loss by step" });
    this.picture.append(this.maps, html("p", { class: "legend" }, ...legend), this.plot);
    this.scene();
    const heads = FREEZE.slice(1).map((name) => [name, `${name}’s head`]);
    const guessed = (guess) => ({ guess, stop: this.middle(), freeze: "none" });
    this.choice("guess", "learned first", heads, guessed);
    this.choice("seed", "seed", [0, 1, 2].map((seed) => [seed, String(seed)]));
    const freeze = FREEZE.map((name, n) => [name, n ? name : "nothing"]);
    this.choice("freeze", `frozen after step ${this.numbers.from}`, freeze);
    const wide = () => this.picture.clientWidth > 540;
    this.wide = wide();
    this.lay();
    new ResizeObserver(() => {
      if (wide() === this.wide) return;
      this.wide = wide();
      this.lay();
      this.redraw();
    }).observe(this.picture);
  }

  // The stop at which layer 1's head is half-way.
  middle() {
    const { stops, half } = this.numbers;
    return stops.findIndex((step) => step >= half[this.state.seed][1] - 2.5);
  }

  // Nodes that stay: they are moved, not made again.
  scene() {
    const into = (place) => (name, attributes) => place.appendChild(svg(name, attributes));
    const [map, plot] = [into(this.maps), into(this.plot)];
    this.cells = [0, 1].map((n) =>
      Array.from({ length: CELLS }, () => map("rect", { class: `c${n}` })));
    this.aims = [0, 1].map((n) => map("path", { class: `aim c${n}` }));
    this.bars = Array.from({ length: T - 1 }, () => map("rect", { class: "likely" }));
    this.words = map("g");
    this.axes = plot("path", { class: "hair" });
    this.cold = plot("path", { class: "cold" });
    this.ticks = plot("g");
    this.lines = ["ghost", "ahead", "been"].map((kind) =>
      CURVES.map(([name, role]) => plot("path", { class: `curve ${kind} ${name} ${role}` })));
    this.now = plot("path", { class: "now" });
    this.dots = CURVES.map(([, role]) => plot("circle", { r: 5, class: `dot ${role}` }));
    const jump = ({ clientX }) => this.go(clientX - this.plot.getBoundingClientRect().left);
    this.field = plot("rect", { class: "field", onclick: jump });
    this.handle = plot("g", { class: "handle" });
    this.handle.append(svg("circle", { r: 22, class: "reach" }), svg("circle", { r: 10 }),
      svg("path", { d: "M-2.5 -4L-6.5 0L-2.5 4M2.5 -4L6.5 0L2.5 4" }));
    this.grip();
  }

  grip() {
    const last = this.numbers.stops.length - 1;
    const to = (stop) => this.set({ stop: clamp(stop, 0, last) });
    const by = (n) => () => to(this.state.stop + n);
    this.keys(this.handle, { ArrowRight: by(1), ArrowUp: by(1), ArrowLeft: by(-1),
      ArrowDown: by(-1), PageUp: by(5), PageDown: by(-5), End: () => to(last),
      Home: () => to(this.start.stop) });
    set(this.handle, { tabindex: 0, role: "slider", "aria-label": "step of training",
      "aria-valuemin": 0, "aria-valuemax": this.numbers.stops.at(-1) });
    this.drag(this.handle, () => {
      const from = this.x(this.numbers.stops[this.state.stop]) * this.scale();
      return (dx) => this.go(from + dx);
    });
    this.syncs.push(({ stop }) => {
      const step = this.numbers.stops[stop];
      set(this.handle, { "aria-valuenow": step, "aria-valuetext": `${step} steps` });
    });
  }

  scale() {
    return this.plot.getBoundingClientRect().width / this.W;
  }

  // To the stop that is nearest to so many pixels from the left edge.
  go(pixels) {
    const away = this.numbers.stops.map((step) => Math.abs(this.x(step) * this.scale() - pixels));
    this.set({ stop: away.indexOf(Math.min(...away)) });
  }

  // Where everything stands, for a wide window or a phone.
  lay() {
    const { wide, numbers } = this;
    const { row, from } = numbers;
    const [W, c, lefts, top] = wide ? [640, 12, [24, 264], 38] : [350, 9, [0, 156], 36];
    this.W = W;
    set(this.maps, { viewBox: `0 0 ${W} ${top + T * c + 4}` });
    const words = [];
    const put = (x, y, text, look = "", anchor = "middle") =>
      words.push(svg("text", { x, y, text, class: look, "text-anchor": anchor }));
    lefts.forEach((left, n) => {
      let i = 0;
      let goal = "";
      for (let t = 0; t < T; t++)
        for (let s = 0; s <= t; s++, i++) {
          const [x, y] = [left + s * c, top + t * c];
          set(this.cells[n][i], { x, y, width: c, height: c });
          if (t >= T / 2 && t - s === (n ? T / 2 - 1 : 1)) goal += `M${x} ${y}h${c}v${c}h-${c}z`;
        }
      set(this.aims[n], { d: goal });
      put(left, 14, CURVES[n][3], `head ${CURVES[n][1]}`, "start");
      if (wide)
        [...row].forEach((letter, t) => {
          put(left + (t + 0.5) * c, top - 5, letter, "tick");
          put(left - 6, top + (t + 0.5) * c + 4, letter, "tick", "end");
        });
      else ["row", "again"].forEach((word, k) => put(left + (4 + 8 * k) * c, top - 6, word, "tick"));
    });
    const start = lefts[1] + T * c + (wide ? 12 : 5);
    this.most = W - start;
    if (wide) put(start, 14, "P(next token)", "head output", "start");
    else put(start, top - 6, "next", "tick", "start");
    this.bars.forEach((bar, t) => set(bar, { x: start, y: top + t * c + 1, height: c - 2 }));
    this.words.replaceChildren(...words);

    const [left, right, high, foot] = wide ? [40, 596, 8, 140] : [28, 322, 8, 128];
    this.x = (step) => left + ((right - left) * step) / 200;
    this.y = (value, n) => foot - ((foot - high) * value) / CURVES[n][2];
    Object.assign(this, { foot, high });
    set(this.plot, { viewBox: `0 0 ${W} ${foot + 42}` });
    set(this.field, { x: left, y: 0, width: right - left, height: foot });
    set(this.axes, { d: `M${left} ${high}V${foot}H${right}V${high}` });
    set(this.cold, { d: `M${this.x(from)} ${high}V${foot}` });
    words.length = 0;
    for (const step of [0, 50, 100, 150, 200]) put(this.x(step), foot + 36, step, "tick");
    for (const v of [0, 0.5, 1]) put(left - 6, this.y(v, 0) + 4, num(v), "tick", "end");
    for (const v of [0, 2, 4]) put(right + 6, this.y(v, 2) + 4, v, "tick", "start");
    if (wide) put(W, high + 4, "nats", "tick", "end");
    put(this.x(25), foot + 36, "step", "tick");
    this.ticks.replaceChildren(...words);
  }

  draw({ step, maps, right }) {
    const { stop, freeze, guess } = this.state;
    const { stops } = this.numbers;
    maps.forEach((map, n) =>
      map.forEach((v, i) => set(this.cells[n][i], { "fill-opacity": Math.max(0.05, v).toFixed(2) })));
    this.bars.forEach((bar, t) => set(bar, { width: Math.max(1, this.most * right[t]).toFixed(1) }));
    const last = guess === "none" ? stop : stops.length - 1;
    const [run, both] = [this.run(), this.run("none")];
    CURVES.forEach((_, n) => {
      const at = ({ points }, k) => `${this.x(stops[k]).toFixed(1)} ${this.y(points[n], n).toFixed(1)}`;
      const line = (which, from, to) => `M${which.map(at).slice(from, to + 1).join("L")}`;
      const [ghost, ahead, been] = this.lines.map((kind) => kind[n]);
      set(ghost, { d: freeze === "none" ? "" : line(both, 0, last) });
      set(ahead, { d: line(run, stop, last) });
      set(been, { d: line(run, 0, stop) });
      const value = run[stop].points[n];
      set(this.dots[n], { cx: this.x(step), cy: this.y(value, n) });
      set(this.values[n], { text: n === 2 ? `${say(value)} nats` : num(value) });
    });
    this.cold.style.display = freeze === "none" ? "none" : "";
    set(this.now, { d: `M${this.x(step)} ${this.high}V${this.foot}` });
    set(this.handle, { transform: `translate(${this.x(step)} ${this.foot})` });
  }

  tell({ step, before, follows, loss }) {
    const { seed, freeze, guess } = this.state;
    const { half, ends, even } = this.numbers;
    const now = `After ${step} steps ${say(before)} of layer 0’s attention is on the token before, ` +
      `${say(follows)} of layer 1’s on what followed last time; the loss is ${say(loss)} nats.`;
    if (freeze !== "none") {
      const end = ends[seed].map((nats) => say(nats));
      return `${now} With ${freeze} frozen the loss after 300 steps is ` +
        `${end[FREEZE.indexOf(freeze)]} nats, with nothing frozen ${end[0]}.`;
    }
    if (guess === "none") return `${now} Even attention gives both ${say(even)}. Which head is half-way first?`;
    const [first, second, fall] = half[seed].map(Math.round);
    const right = (guess === "layer 0") === half[seed][0] < half[seed][1];
    return `${now} ${right ? "Right" : "No"}: with seed ${seed} layer 1’s head is half-way after ` +
      `${second} steps, layer 0’s after ${first}, the loss after ${fall}.`;
  }

  static style = `
    .c0 { fill: var(--d-key) } .c1 { fill: var(--d-weight) }
    .aim { fill: none; stroke: var(--d-ink); stroke-width: .8; opacity: .55 }
    .likely { fill: var(--d-output) }
    .head.head { font-weight: 650; fill: var(--c) }
    .tick.tick { font-size: 12px; fill: var(--d-muted) }
    .legend { display: flex; flex-wrap: wrap; gap: 0 18px; margin: 6px 0 2px; font-size: 14px }
    .legend span { color: var(--c); white-space: nowrap }
    .legend b { display: inline-block; min-width: 1.9em }
    .legend i { display: inline-block; width: 20px; border-top: 3px solid; margin-right: 6px; vertical-align: 4px }
    .legend i.loss { border-top-style: dashed }
    .hair { stroke: var(--d-line); opacity: .6; fill: none }
    .curve { fill: none; stroke: var(--c); stroke-width: 2.4; stroke-linejoin: round }
    .curve.loss { stroke-dasharray: 6 4 }
    .ahead { opacity: .4; stroke-width: 1.6 }
    .ghost { stroke: var(--d-muted); opacity: .5; stroke-width: 1.2 }
    .cold { stroke: var(--d-query); stroke-dasharray: 2 3 }
    .now { stroke: var(--d-ink); stroke-width: 1.2 }
    .dot { fill: var(--c); stroke: var(--d-paper); stroke-width: 1.5 }
    .field { fill: transparent; cursor: pointer }
    .handle { cursor: ew-resize; touch-action: none; fill: var(--d-ink); stroke: var(--d-paper); stroke-width: 1.5 }
    .reach { fill: transparent; stroke: none }
    .say { min-height: 4.5em }
    @container (max-width: 560px) { .say { min-height: 8.8em } .head.head { font-size: 12.5px } .legend { font-size: 13px } }
    @container (max-width: 345px) { .say { min-height: 10.2em } }`;
}

define("attn-emergence", Emergence);
