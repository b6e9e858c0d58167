// One query looks at a few keys in the plane: scores, softmax, and the weighted mean of the states.
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / total);
}

const SCORES = {
  dot: (query, key) => dot(query, key),
  additive: (query, key, { W, U, v }) =>
    dot(v, v.map((_, i) => Math.tanh(dot(W[i], query) + dot(U[i], key)))),
};

const REACH = 2, SIZE = 260, WIDTH = 460;
const toX = (x) => SIZE / 2 + (x / REACH) * (SIZE / 2);
const toY = (y) => SIZE / 2 - (y / REACH) * (SIZE / 2);

class Lookup extends Explorable {
  build() {
    const { words, states, query, additive, names } = this.numbers;
    this.query = [...query];
    this.score = this.choice("score", additive ? ["additive", "dot"] : ["dot"]);
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${SIZE}`, role: "group", "aria-label": "the words in the plane, and their weights" }, this.card);
    svg("rect", { x: 1, y: 1, width: SIZE - 2, height: SIZE - 2, fill: "none", stroke: "#999" }, picture);
    svg("path", { d: `M0 ${SIZE / 2}H${SIZE}M${SIZE / 2} 0V${SIZE}`, stroke: "#ddd" }, picture);
    this.rays = states.map(() => svg("line", { stroke: "#D55E00" }, picture));
    states.forEach(([x, y], i) => {
      svg("circle", { cx: toX(x), cy: toY(y), r: 6, fill: "#D55E00" }, picture);
      svg("text", { x: toX(x) + 9, y: toY(y) - 8 }, picture, words[i]);
    });
    this.mean = svg("rect", { width: 13, height: 13, fill: "#332288" }, picture);
    this.meanName = svg("text", {}, picture, names[1]);
    this.handle = svg("circle", {
      r: 11, fill: "#0072B2", tabindex: 0, role: "slider", "aria-label": `${names[0]}, moved with the arrow keys`, style: "cursor: grab",
    }, picture);
    this.handleName = svg("text", { "pointer-events": "none" }, picture, names[0]);
    const row = SIZE / (words.length + 1);
    this.bars = words.map((word, i) => {
      const y = row * (i + 0.6);
      svg("text", { x: 325, y: y + 15, "text-anchor": "end" }, picture, word);
      return [svg("rect", { x: 331, y, height: 20, fill: "#D55E00" }, picture), svg("text", { y: y + 15 }, picture)];
    });
    this.line = this.sentence();
    this.listen(picture);
  }

  listen(picture) {
    const follow = (event) => {
      const box = picture.getBoundingClientRect(), unit = WIDTH / box.width;
      this.move((event.clientX - box.left) * unit, (event.clientY - box.top) * unit);
    };
    this.handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.handle.focus();
      this.handle.setPointerCapture(event.pointerId);
      this.handle.onpointermove = follow;
    });
    for (const end of ["pointerup", "pointercancel"]) this.handle.addEventListener(end, () => { this.handle.onpointermove = null; });
    this.handle.style.touchAction = "none";
    const steps = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
    this.handle.addEventListener("keydown", (event) => {
      if (!steps[event.key]) return;
      event.preventDefault();
      this.place(this.query.map((x, i) => x + steps[event.key][i]));
    });
  }

  move(x, y) { this.place([(x / SIZE - 0.5) * 2 * REACH, (0.5 - y / SIZE) * 2 * REACH]); }

  place(query) {
    this.query = query.map((x) => Math.max(-REACH, Math.min(REACH, x)));
    this.draw();
  }

  get weights() {
    const score = SCORES[this.score.value];
    return softmax(this.numbers.states.map((key) => score(this.query, key, this.numbers.additive)));
  }

  get context() {
    const weights = this.weights;
    return [0, 1].map((i) => dot(weights, this.numbers.states.map((state) => state[i])));
  }

  draw() {
    const [x, y] = this.query.map((value, i) => (i ? toY(value) : toX(value)));
    const weights = this.weights, context = this.context;
    const [cx, cy] = [toX(context[0]), toY(context[1])];
    for (const [key, value] of Object.entries({ cx: x, cy: y })) this.handle.setAttribute(key, value);
    const left = x > SIZE / 2;
    for (const [key, value] of Object.entries({ x: left ? x - 15 : x + 15, y: y + 5, "text-anchor": left ? "end" : "start" })) this.handleName.setAttribute(key, value);
    for (const [key, value] of Object.entries({ x: cx - 6.5, y: cy - 6.5 })) this.mean.setAttribute(key, value);
    for (const [key, value] of Object.entries({ x: cx + 11, y: cy + 16 })) this.meanName.setAttribute(key, value);
    this.rays.forEach((ray, i) => {
      const [sx, sy] = this.numbers.states[i];
      for (const [key, value] of Object.entries({ x1: cx, y1: cy, x2: toX(sx), y2: toY(sy), "stroke-width": 1 + 7 * weights[i], "stroke-opacity": 0.35 })) ray.setAttribute(key, value);
    });
    this.bars.forEach(([bar, text], i) => {
      bar.setAttribute("width", Math.max(1, 85 * weights[i]));
      text.setAttribute("x", 337 + 85 * weights[i]);
      text.textContent = weights[i].toFixed(2);
    });
    const best = weights.indexOf(Math.max(...weights));
    const at = this.query.map((value) => value.toFixed(1)).join(", ");
    this.handle.setAttribute("aria-valuetext", `(${at})`);
    this.handle.setAttribute("aria-valuenow", this.query[0].toFixed(1));
    const [asks, mean] = this.numbers.names;
    this.line.textContent = `${asks[0].toUpperCase()}${asks.slice(1)} (${at}): most weight on “${this.numbers.words[best]}”, ${weights[best].toFixed(2)}; ${mean} (${context.map((value) => value.toFixed(2)).join(", ")}).`;
  }
}

define("attn-lookup", Lookup);
