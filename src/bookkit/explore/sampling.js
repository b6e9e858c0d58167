// From probabilities to a drawn word: temperature, top-k and top-p, in any order.
const NAMES = { temperature: "temperature", top_k: "top-k", top_p: "top-p" };
const VALUE = { temperature: "tau", top_k: "k", top_p: "p" };
const PRESETS = {
  given: null,
  sure: [950, 20, 12, 9, 6, 3],
  unsure: [190, 180, 170, 160, 155, 145],
};

// Logits in, logits out, as in the module; −∞ is what was cut.
const FILTERS = {
  temperature: (logits, { tau }) => logits.map((x) => x / tau),
  top_k: (logits, { k }) => {
    const last = [...logits].sort((a, b) => b - a)[Math.min(k, logits.length) - 1];
    return logits.map((x) => (x < last ? -Infinity : x));
  },
  top_p: (logits, { p }) => {
    if (p === 1) return logits;
    const before = likelier(logits);
    return logits.map((x, i) => (before[i] >= p ? -Infinity : x));
  },
};

// For each word, what the likelier words have together.
function likelier(logits) {
  const shares = softmax(logits);
  const before = [];
  let total = 0;
  const order = shares.map((_, i) => i).sort((a, b) => logits[b] - logits[a]);
  for (const i of order) {
    total += shares[i];
    before[i] = total - shares[i];
  }
  return before;
}

// Mulberry32: a small seeded generator, 32 bits of state.
function* uniform(seed) {
  let a = seed;
  for (;;) {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    yield ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
}

function draw(shares, count, seed) {
  const tally = shares.map(() => 0);
  const numbers = uniform(seed);
  for (let n = 0; n < count; n += 1) {
    let rest = numbers.next().value;
    const found = shares.findIndex((share) => (rest -= share) < 0);
    tally[found < 0 ? shares.findLastIndex((share) => share > 0) : found] += 1;
  }
  return tally;
}

class Sampling extends Explorable {
  static limits = { tau: [0.1, 5], k: [1, 6], p: [0.05, 1], drawn: [0, 10000], seed: [0, 99] };

  compute(state) {
    const { weights, order, drawn, seed } = state;
    const total = sum(weights);
    const given = weights.map((w) => w / total);
    const logits = given.map(Math.log);
    const run = (names) => names.reduce((x, name) => FILTERS[name](x, state), logits);
    const shares = softmax(run(order));
    const kept = (x) => x.filter((share) => share > 0).length;
    const at = order.indexOf("top_p");
    const before = at < 0 ? null : likelier(run(order.slice(0, at)));
    const cut = at < 0 ? null : softmax(run(order.slice(0, at)));
    const sums = before?.map((x, i) => x + cut[i]) ?? null;
    const swapped = kept(softmax(run([...order].reverse())));
    const tally = draw(shares, drawn, seed);
    return { given, probabilities: shares, kept: kept(shares), swapped, sums, tally };
  }

  build() {
    const { words } = this.numbers;
    this.chips = html("div", { class: "chips" });
    this.boxes = Object.keys(NAMES).map((name) => this.chip(name));
    this.swaps = [0, 1].map((n) =>
      this.button("⇄", () => this.swap(n), { "aria-label": "swap these two" }, this.chips),
    );
    this.table = html("div", { class: "table" });
    const heads = ["", "given", "", "now", "sum"];
    this.heads = heads.map((text) => html("div", { class: "head", text }));
    this.table.append(...this.heads);
    this.rows = words.map((word, i) => this.row(word, i));
    this.rove(
      this.rows.map(({ given }) => given),
      { ArrowLeft: -1, ArrowRight: 1 },
    );
    this.picture.append(this.chips, this.table);
    const presets = Object.entries(PRESETS).map(([name, weights]) => [
      weights ?? this.start.weights,
      name,
    ]);
    this.choice("weights", "words", presets);
    this.button("draw 1", () => this.more(1));
    this.button("draw 100", () => this.more(100));
  }

  more(count) {
    this.set({ drawn: Math.min(10000, this.state.drawn + count) });
  }

  swap(n) {
    const order = [...this.state.order];
    [order[n], order[n + 1]] = [order[n + 1], order[n]];
    this.set({ order });
  }

  // A filter: its name switches it on and off, its number is dragged.
  chip(name) {
    const key = VALUE[name];
    const [min, max] = Sampling.limits[key];
    const steps = { tau: 0.1, k: 1, p: 0.05 };
    const flip = () => {
      const rest = this.state.order.filter((other) => other !== name);
      this.set({ order: rest.length < this.state.order.length ? rest : [...rest, name] });
    };
    const box = html("div", { class: "chip" });
    const toggle = this.button(NAMES[name], flip, {}, box);
    const value = html("span", { class: "value" });
    const get = () => this.state[key];
    const put = (x) => this.set({ [key]: x });
    const show = key === "k" ? String : (x) => say(x, key === "p" ? 2 : 1);
    const range = { min, max, step: steps[key], pixels: 9, role: "spinbutton", show };
    this.scrub(value, { label: NAMES[name], get, put, first: () => this.start[key], ...range });
    box.append(value);
    this.chips.append(box);
    this.syncs.push(({ order }) => {
      const on = order.includes(name);
      set(value, { text: show(get()) });
      set(toggle, { "aria-pressed": String(on) });
      set(box, {
        class: on ? "chip on" : "chip",
        style: `order: ${on ? 2 * order.indexOf(name) : 9}`,
      });
    });
    return box;
  }

  row(word, i) {
    const name = html("div", { class: "word", text: word });
    const given = html("div", { class: "cell ink", "data-cell": `weights ${i}` });
    const get = () => this.state.weights[i];
    const put = (x) => this.set({ weights: this.state.weights.map((w, j) => (j === i ? x : w)) });
    const show = (x) => `${x} of ${sum(this.state.weights)}`;
    const range = { min: 5, max: 995, step: 5, pixels: 3, role: "spinbutton", show };
    this.scrub(given, {
      label: `given for ${word}`,
      get,
      put,
      first: () => this.start.weights[i],
      ...range,
    });
    const [full, was, tick] = ["full", "was", "tick"].map((kind) => html("span", { class: kind }));
    const track = html("div", { class: "track" }, full, was, tick);
    const [now, sums] = ["now", "sums"].map((kind) => html("div", { class: kind }));
    this.table.append(name, given, track, now, sums);
    return { name, given, full, was, tick, track, now, sums };
  }

  draw({ given, probabilities, sums, tally }) {
    const { order, drawn } = this.state;
    const most = Math.max(...probabilities, ...given, ...tally.map((n) => (drawn ? n / drawn : 0)));
    const wide = (x) => `${(100 * x) / most}%`;
    this.swaps.forEach((node, n) => {
      node.hidden = order.length < n + 2;
      set(node, { style: `order: ${2 * n + 1}` });
    });
    set(this.heads[4], { text: sums ? "sum" : "" });
    this.rows.forEach(({ given: cell, full, was, tick, track, now, sums: total, name }, i) => {
      const p = probabilities[i];
      set(cell, { text: num(given[i]), style: `--v: ${given[i]}` });
      set(full, { style: `width: ${wide(p)}` });
      set(was, { style: `width: ${wide(given[i])}` });
      set(tick, { style: drawn ? `left: ${wide(tally[i] / drawn)}` : "display: none" });
      set(now, { text: p ? num(p) : "cut" });
      set(total, { text: sums ? num(sums[i]) : "" });
      track.classList.toggle("cut", !p);
      name.classList.toggle("gone", !p);
    });
  }

  tell({ kept, swapped, probabilities, tally }) {
    const { order, drawn, tau, k, p } = this.state;
    const { words } = this.numbers;
    const named = { temperature: `temperature ${tau}`, top_k: `top-k ${k}`, top_p: `top-p ${p}` };
    const chain = order.map((name) => named[name]).join(", then ");
    const stay = (n) => `${n} word${n > 1 ? "s stay" : " stays"}`;
    const turned = order.length > 1 ? `; the other way round ${stay(swapped)}` : "";
    const first = chain
      ? `${chain[0].toUpperCase()}${chain.slice(1)}: ${stay(kept)}${turned}.`
      : `Nothing is cut: all ${words.length} words can be drawn.`;
    if (!drawn) return first;
    const best = argmax(probabilities);
    const [found, expected] = [tally[best], say(drawn * probabilities[best], 1)];
    return `${first} Of ${drawn} drawn “${words[best]}” has ${found}, expected ${expected}.`;
  }

  static style = `
    .chips { display: flex; flex-wrap: wrap; align-items: center; gap: 6px; margin-bottom: 12px }
    .chip { display: flex; align-items: center; border-radius: 8px; border: 1.5px dashed
      var(--d-line); font-size: 14px }
    .chip.on { border: 1.5px solid var(--d-ink) }
    .chip button { border-radius: 6px 0 0 6px }
    .value { min-width: 44px; line-height: 34px; text-align: center; font-weight: 650 }
    .table { display: grid; gap: 4px 10px; align-items: center;
      grid-template-columns: auto 52px 1fr 42px 42px }
    .head { font-size: 12.5px; color: var(--d-muted); text-align: center }
    .cell { height: 32px }
    .word { font-weight: 650; text-align: right }
    .gone { color: var(--d-muted); font-weight: 400; text-decoration: line-through }
    .track { position: relative; height: 26px; border-radius: 4px }
    .full { position: absolute; inset: 0 auto 0 0; border-radius: 4px;
      background: color-mix(in srgb, var(--d-output-fill) 62%, var(--d-paper)) }
    .was { position: absolute; inset: 0 auto 0 0; border-radius: 4px;
      border: 1.5px dashed var(--d-muted) }
    .tick { position: absolute; top: -2px; bottom: -2px; width: 3px; background: var(--d-ink) }
    .cut { background: repeating-linear-gradient(135deg, transparent 0 4px,
      color-mix(in srgb, var(--d-muted) 28%, transparent) 4px 5px) }
    .now, .sums { font-size: 14px; text-align: center }
    .now { font-weight: 650 }
    .sums { color: var(--d-muted) }
    [hidden] { display: none !important }
    @container (max-width: 480px) {
      .table { gap: 4px 6px; grid-template-columns: auto 46px 1fr 34px 34px } }`;
}

define("attn-sampling", Sampling);
