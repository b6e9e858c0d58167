// How much of a gradient is left after k steps back through h_t = W h_{t-1}, W = [[r, s], [0, r/2]].
const STEPS = 50, LEFT = 48, RIGHT = 450, TOP = 8, BOTTOM = 230, LOW = -16, HIGH = 10;

function product(a, b) {
  return [0, 1].map((i) => [0, 1].map((j) => a[i][0] * b[0][j] + a[i][1] * b[1][j]));
}

function norm([[a, b], [c, d]]) {
  const sum = a * a + b * b + c * c + d * d, determinant = a * d - b * c;
  return Math.sqrt((sum + Math.sqrt(Math.max(0, sum * sum - 4 * determinant * determinant))) / 2);
}

const atStep = (k) => LEFT + ((RIGHT - LEFT) * k) / STEPS;
const atPower = (p) => BOTTOM - ((BOTTOM - TOP) * (Math.max(LOW, Math.min(HIGH, p)) - LOW)) / (HIGH - LOW);
const raised = (p) => String(p).replace("-", "⁻").replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);

function power(x) {
  if (x >= 0.01 && x < 1000) return x.toFixed(2);
  const [digit, p] = x.toExponential(0).split("e");
  return `${digit === "1" ? "" : digit + " · "}10${raised(Number(p))}`;
}

class Decay extends Explorable {
  build() {
    this.radius = this.slider("spectral radius", 0.5, 1.5, 0.05, this.numbers.radius);
    this.skew = this.slider("off the diagonal", 0, 3, 0.25, this.numbers.skew);
    const picture = svg("svg", { viewBox: "0 0 460 275", role: "img", "aria-label": "size of the gradient against steps back" }, this.card);
    for (let p = LOW + 1; p <= HIGH; p += 5) {
      svg("path", { d: `M${LEFT} ${atPower(p)}H${RIGHT}`, stroke: p === 0 ? "#888" : "#ddd" }, picture);
      const label = svg("text", { x: LEFT - 8, y: atPower(p) + 5, "text-anchor": "end" }, picture, p === 0 ? "1" : "10");
      if (p !== 0) svg("tspan", { dy: -6, "font-size": 10 }, label, String(p).replace("-", "−"));
    }
    for (let k = 0; k <= STEPS; k += 10) svg("text", { x: atStep(k), y: BOTTOM + 20, "text-anchor": "middle" }, picture, k);
    svg("text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 40, "text-anchor": "middle" }, picture, "steps back");
    const line = (attributes) => svg("path", { fill: "none", ...attributes }, picture);
    this.bound = line({ stroke: "#666", "stroke-dasharray": "3 4", "stroke-width": 2 });
    this.rate = line({ stroke: "#009E73", "stroke-dasharray": "9 5", "stroke-width": 2 });
    this.curve = line({ stroke: "#D55E00", "stroke-width": 3.5 });
    for (const [colour, text] of [["#B34700", "━ gradient"], ["#00735A", "╌ radius to the k"], ["#555", "┈ largest singular value to the k"]]) {
      this.controls.append(Object.assign(document.createElement("span"), { textContent: text, style: `color:${colour};font-weight:600` }));
    }
    this.line = this.sentence();
  }

  get matrix() {
    const r = Number(this.radius.value), s = Number(this.skew.value);
    return [[r, s], [0, r / 2]];
  }

  get norms() {
    const found = [1];
    for (let k = 1, W = this.matrix, P = W; k <= STEPS; k += 1, P = product(P, W)) found.push(norm(P));
    return found;
  }

  draw() {
    const norms = this.norms, r = Number(this.radius.value), sigma = norm(this.matrix);
    const path = (value) => "M" + norms.map((_, k) => `${atStep(k).toFixed(1)} ${atPower(Math.log10(value(k))).toFixed(1)}`).join("L");
    this.curve.setAttribute("d", path((k) => norms[k]));
    this.rate.setAttribute("d", path((k) => r ** k));
    this.bound.setAttribute("d", path((k) => sigma ** k));
    const peak = norms.indexOf(Math.max(...norms));
    const rise = peak > 0 && peak < STEPS ? ` On the way it grows, to ${power(norms[peak])} at step ${peak}.` : "";
    this.line.textContent = `${STEPS} steps back, a gradient has been multiplied by up to ${power(norms[STEPS])}.${rise}`;
  }
}

define("attn-decay", Decay);
