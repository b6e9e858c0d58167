// One query looks at a few keys in the plane: scores, softmax, and the weighted mean of the states.
const SIDE = 320;

const SCORES = {
  dot: (query, key) => dot(query, key),
  additive: (query, key, { W, U, v }) =>
    dot(
      v,
      v.map((_, i) => Math.tanh(dot(W[i], query) + dot(U[i], key))),
    ),
};

class Lookup extends Explorable {
  static limits = { score: ["additive", "dot"] };

  compute({ query, score }) {
    const { states, additive } = this.numbers;
    const weights = softmax(states.map((key) => SCORES[score](query, key, additive)));
    return { weights, context: matmul([weights], states)[0] };
  }

  build() {
    const { words, states, additive, names } = this.numbers;
    const most = Math.max(...[...states, this.start.query].flat().map(Math.abs), 0.5);
    this.reach = Math.ceil(most * 1.15 * 2) / 2;
    const half = SIDE / 2;
    const plane = svg("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, role: "group", class: "plane" });
    plane.setAttribute("aria-label", "the words in the plane");
    const frame = { x: 1, y: 1, width: SIDE - 2, height: SIDE - 2, rx: 8, class: "frame" };
    plane.append(svg("rect", frame));
    plane.append(svg("path", { class: "hair", d: `M1 ${half}H${SIDE - 1}M${half} 1V${SIDE - 1}` }));
    this.axis(plane);
    this.rays = states.map(() => plane.appendChild(svg("line", { class: "ray" })));
    this.ghost = plane.appendChild(svg("circle", { r: 9, class: "ghost" }));
    this.arrow = plane.appendChild(svg("line", { class: "arrow", x1: half, y1: half }));
    this.taken = states.map((state, i) => this.word(plane, state, words[i]));
    const mean = { width: 15, height: 15, rx: 2, class: "mean" };
    this.mean = plane.appendChild(svg("rect", mean));
    this.meanName = plane.appendChild(svg("text", { class: "name output", text: names[1] }));
    this.handle = plane.appendChild(this.grip());
    this.queryName = plane.appendChild(svg("text", { class: "name query", text: names[0] }));
    this.bars = html("div", { class: "bars" });
    this.lines = words.map((word) => this.bar(word));
    this.picture.append(html("div", { class: "two" }, plane, this.bars));
    if (additive)
      this.choice("score", "score", [
        ["additive", "additive"],
        ["dot", "dot"],
      ]);
    const hint = "Drag the blue dot, or move it with the arrow keys.";
    this.controls.append(html("span", { class: "hint", text: hint }));
  }

  at([x, y]) {
    return [SIDE / 2 + ((x / this.reach) * SIDE) / 2, SIDE / 2 - ((y / this.reach) * SIDE) / 2];
  }

  axis(plane) {
    for (const value of [-1, 1]) {
      const [x, y] = this.at([value, value]);
      const [across, up] = [this.at([value, 0]), this.at([0, value])];
      plane.append(
        svg("path", { class: "hair", d: `M${x} ${across[1] - 4}v8M${up[0] - 4} ${y}h8` }),
      );
    }
  }

  // A dot with its word, on the side where there is room; returns the space that the word takes.
  word(plane, state, text) {
    const [x, y] = this.at(state);
    plane.append(svg("circle", { cx: x, cy: y, r: 6.5, class: "dot" }));
    const [box, place] = this.room([x, y], text, this.placed ?? []);
    (this.placed ??= []).push(box, [x - 7, y - 7, x + 7, y + 7]);
    plane.append(svg("text", { ...place, class: "word", text }));
    return box;
  }

  // The first of eight places around a point where a text covers nothing and stays in the frame.
  room([x, y], text, taken, gap = 11) {
    const width = 8.2 * text.length;
    const tries = [
      [x + gap, y + 5],
      [x - gap - width, y + 5],
      [x - width / 2, y - gap - 3],
      [x - width / 2, y + gap + 12],
      [x + gap, y - gap],
      [x - gap - width, y - gap],
      [x + gap, y + gap + 10],
      [x - gap - width, y + gap + 10],
    ];
    const box = ([left, foot]) => [left - 2, foot - 14, left + width + 2, foot + 5];
    const cost = (b) => {
      const out = [4 - b[0], 4 - b[1], b[2] - SIDE + 4, b[3] - SIDE + 4];
      const covers = (t) =>
        Math.max(0, Math.min(b[2], t[2]) - Math.max(b[0], t[0])) *
        Math.max(0, Math.min(b[3], t[3]) - Math.max(b[1], t[1]));
      return 1000 * sum(out.map((x) => Math.max(0, x))) + sum(taken.map(covers));
    };
    const best = tries.reduce((a, b) => (cost(box(b)) < cost(box(a)) ? b : a));
    return [box(best), { x: best[0], y: best[1] }];
  }

  grip() {
    const parts = [
      svg("circle", { r: 22, class: "reach" }),
      svg("circle", { r: 10, class: "grip" }),
    ];
    const label = `${this.numbers.names[0]}, moved with the arrow keys`;
    const node = svg("g", { tabindex: 0, role: "slider", "aria-label": label }, ...parts);
    set(node, { "aria-valuemin": -this.reach, "aria-valuemax": this.reach, class: "handle" });
    const by = (dx, dy) => () => {
      const [x, y] = this.state.query;
      this.place([x + dx, y + dy]);
    };
    const small = { ArrowLeft: by(-0.1, 0), ArrowRight: by(0.1, 0) };
    const more = { ArrowUp: by(0, 0.1), ArrowDown: by(0, -0.1), PageUp: by(0, 1) };
    const rest = { PageDown: by(0, -1), Home: () => this.place(this.start.query) };
    this.keys(node, { ...small, ...more, ...rest });
    this.drag(node, () => {
      const [x, y] = this.state.query;
      const unit = (2 * this.reach) / node.ownerSVGElement.getBoundingClientRect().width;
      return (dx, dy) => this.place([x + dx * unit, y - dy * unit]);
    });
    return node;
  }

  place(query) {
    const within = (x) => clamp(Number(x.toFixed(4)), -this.reach, this.reach);
    this.set({ query: query.map(within) });
  }

  bar(word) {
    const name = html("span", { class: "of", text: word });
    const [full, ghost, text] = ["full", "was", "w"].map((kind) => html("span", { class: kind }));
    this.bars.append(name, html("div", { class: "track weight" }, full, ghost, text));
    return { full, ghost, text };
  }

  draw({ weights, context }, held) {
    const [x, y] = this.at(this.state.query);
    const [cx, cy] = this.at(context);
    set(this.handle, { transform: `translate(${x} ${y})` });
    set(this.arrow, { x2: x, y2: y });
    set(this.mean, { x: cx - 7.5, y: cy - 7.5 });
    const old = held && this.at(this.from ?? this.state.query);
    if (!held) this.from = this.state.query;
    set(this.ghost, { cx: old?.[0], cy: old?.[1], visibility: held ? "visible" : "hidden" });
    this.rays.forEach((ray, i) => {
      const [x2, y2] = this.at(this.numbers.states[i]);
      set(ray, { x1: cx, y1: cy, x2, y2, "stroke-width": 0.6 + 7 * weights[i] });
    });
    this.lines.forEach(({ full, ghost, text }, i) => {
      set(full, { style: `width: ${100 * weights[i]}%` });
      const was = held ? `left: ${100 * held.weights[i]}%` : "display: none";
      set(ghost, { style: was });
      set(text, { text: num(weights[i]) });
    });
    const [asks, mean] = this.numbers.names;
    const dots = [
      [x - 11, y - 11, x + 11, y + 11],
      [cx - 8, cy - 8, cx + 8, cy + 8],
    ];
    const [box, place] = this.room([x, y], asks, [...this.placed, dots[1]], 15);
    set(this.queryName, place);
    set(this.meanName, this.room([cx, cy], mean, [...this.placed, dots[0], box], 12)[1]);
    const at = this.state.query.map((value) => say(value, 1)).join(", ");
    set(this.handle, { "aria-valuetext": `(${at})`, "aria-valuenow": this.state.query[0] });
  }

  tell({ weights, context }) {
    const best = argmax(weights);
    const { words, names } = this.numbers;
    const at = this.state.query.map((value) => say(value, 1)).join(", ");
    const asks = names[0][0].toUpperCase() + names[0].slice(1);
    const most = `most weight on “${words[best]}”, ${say(weights[best])}`;
    return `${asks} (${at}): ${most}; ${names[1]} (${context.map((x) => say(x)).join(", ")}).`;
  }

  static style = `
    .two { display: grid; grid-template-columns: minmax(0, 340px) 1fr; gap: 22px;
      align-items: center }
    .frame { fill: none; stroke: var(--d-line); opacity: .6 }
    .hair { fill: none; stroke: var(--d-line); opacity: .5 }
    .ray { stroke: var(--d-weight); stroke-opacity: .62 }
    .dot { fill: var(--d-key) }
    .word, .name { paint-order: stroke; stroke: var(--d-paper); stroke-width: 3.5px }
    .word { fill: var(--d-key) }
    .name { font-weight: 650; fill: var(--c); pointer-events: none }
    .arrow { stroke: var(--d-query); stroke-width: 2 }
    .grip { fill: var(--d-query); stroke: var(--d-paper); stroke-width: 2 }
    .reach { fill: transparent }
    .handle { cursor: grab; touch-action: none }
    .ghost { fill: var(--d-query); opacity: .25 }
    .mean { fill: var(--d-output); stroke: var(--d-paper); stroke-width: 1.5 }
    .bars { display: grid; grid-template-columns: auto 1fr; gap: 5px 10px; align-items: center }
    .of { text-align: right; color: var(--d-key) }
    .track { position: relative; height: 28px; border-radius: 4px; display: flex;
      align-items: center; background: color-mix(in srgb, var(--c) 8%, var(--d-paper)) }
    .full { position: absolute; inset: 0 auto 0 0; border-radius: 4px;
      background: color-mix(in srgb, var(--f) calc(100% * var(--r)), var(--d-paper)) }
    .was { position: absolute; top: 0; bottom: 0; width: 2px; background: var(--d-muted) }
    .w { position: relative; margin-left: auto; padding: 0 8px; font-size: 13px }
    @container (max-width: 560px) {
      .two { grid-template-columns: 1fr; gap: 12px }
      .plane { max-width: 340px; margin: auto } }`;
}

define("attn-lookup", Lookup);
