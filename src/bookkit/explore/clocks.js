// Two heads of the book's model: rotary pairs as arrows, head to tail; how high they reach is the score.
const PAIRS = 32;
const [TRAINED, FAR, UNIT] = [256, 512, 4096];
const TURN = 2 * Math.PI;
const GROUPS = { fast: [0, 8], middle: [8, 16], slow: [16, 32] };
const WAVES = { fast: "6 to 47", middle: "63 to 471", slow: "628 to 47,117" };
const TINTS = { fast: "output", middle: "value", slow: "position" };
const NAMES = Object.keys(GROUPS);
const sum = (row) => row.reduce((total, x) => total + x, 0);
const linear = (low, high, from, to) => (x) => from + ((to - from) * (x - low)) / (high - low);
const path = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
const groupOf = (i) => NAMES.find((name) => i < GROUPS[name][1]);
const SPEED = Array.from({ length: PAIRS }, (_, i) => 10000 ** (-i / PAIRS));
const AIMS = { previous: 8, repeat: 2 };
const [LOW, HIGH] = [-10, 11.5];

class Clocks extends Explorable {
  static limits = {
    head: ["previous", "repeat"],
    key: [0, 9],
    distance: [0, FAR - 1],
    speeds: ["trained", "half", "base"],
  };

  // A query and the keys of a head, 64 numbers each; i and i + 32 are a pair.
  vectors(head) {
    this.heads ??= {};
    return (this.heads[head] ??= (() => {
      const bytes = Uint8Array.from(atob(this.numbers.heads[head]), (c) => c.charCodeAt(0));
      const whole = [...new Int16Array(bytes.buffer)].map((x) => x / UNIT);
      return Array.from({ length: whole.length / 64 }, (_, n) => whole.slice(64 * n, 64 * n + 64));
    })());
  }

  speeds(name) {
    const how = { half: (w) => w / 2, base: (_, i) => 40000 ** (-i / PAIRS), trained: (w) => w };
    return SPEED.map(how[name]);
  }

  // Pairs of q with one key at distance 0: length, and how far it is turned from straight up.
  arrows(head, key) {
    const [q, ...keys] = this.vectors(head);
    const k = keys[key];
    return SPEED.map((_, i) => {
      const j = i + PAIRS;
      const [up, right] = [q[i] * k[i] + q[j] * k[j], q[j] * k[i] - q[i] * k[j]];
      return [Math.hypot(up, right) / 8, Math.atan2(right, up)];
    });
  }

  compute({ head, key, distance, speeds, ...on }) {
    const speed = this.speeds(speeds);
    const arrows = this.arrows(head, key);
    const part = (way, d) =>
      way.map(([long, from], i) => on[groupOf(i)] * long * Math.cos(from + d * speed[i]));
    const curve = Array.from({ length: FAR }, (_, d) => sum(part(arrows, d)));
    const T = this.numbers.words.length;
    const scores = this.numbers.words.map((_, n) => sum(part(this.arrows(head, n), T - 1 - n)));
    const powers = scores.map((s) => Math.exp(s - Math.max(...scores)));
    return {
      score: curve[distance],
      parts: part(arrows, distance),
      curve,
      weights: powers.map((power) => power / sum(powers)),
      new: speed.filter((w, i) => on[groupOf(i)] && this.isNew(w * distance, i)).length,
    };
  }

  // Whether no training text turned pair i so: those that came round have met all angles.
  isNew(angle, i) {
    return angle % TURN > (TRAINED - 1) * SPEED[i] + 1e-6;
  }

  build() {
    const { words } = this.numbers;
    const T = words.length;
    const go = (key) => ({ key, distance: T - 1 - key });
    const named = words.map((word, n) => [n, word.trim()]);
    this.tokens = this.choice("key", "", named, go);
    this.tokens.classList.add("tokens");
    set(this.tokens, { "aria-label": "key of which token" });
    this.marks = [...this.tokens.querySelectorAll("span")];
    this.marks.forEach((mark) => mark.classList.add("weight"));
    this.plot = svg("svg", { role: "group", "aria-label": "arrows, and the score by distance" });
    const rows = NAMES.map((name) => this.group(name));
    this.picture.append(this.tokens, this.plot, html("div", { class: "groups" }, ...rows));
    this.scene();
    const heads = [
      ["previous", "finds the token before"],
      ["repeat", "finds a repetition"],
    ];
    this.choice("head", "head", heads, (head) => ({ head, ...go(AIMS[head]) }));
    const speeds = [
      ["trained", "as trained"],
      ["half", "positions × ½"],
      ["base", "base 40,000"],
    ];
    this.choice("speeds", "frequencies", speeds);
    const wide = () => this.picture.clientWidth > 540;
    this.wide = wide();
    new ResizeObserver(() => {
      if (wide() === this.wide) return;
      this.wide = wide();
      this.redraw();
    }).observe(this.picture);
  }

  // A switch, and a face for each of its pairs.
  group(name) {
    const [from, to] = GROUPS[name];
    const flip = () => this.set({ [name]: !this.state[name] });
    const words = `${name}: a turn in ${WAVES[name]} tokens`;
    const button = html("button", { type: "button", onclick: flip, text: words });
    const faces = svg("svg", { "aria-hidden": "true", viewBox: `0 0 ${40 * (to - from)} 38` });
    const box = html("div", { class: `group ${TINTS[name]} ${name}` }, button, faces);
    this.faces ??= [];
    for (let i = from; i < to; i++) {
      const parts = ["rim", "unmet", "hand", "hub"].map((kind) =>
        svg(kind === "rim" || kind === "hub" ? "circle" : "path", { class: kind }),
      );
      set(parts[0], { r: 16 });
      set(parts[3], { r: 1.8 });
      const place = `translate(${20 + 40 * (i - from)} 19)`;
      this.faces.push(faces.appendChild(svg("g", { transform: place }, ...parts)));
    }
    this.syncs.push((state) => {
      set(button, { "aria-pressed": String(state[name]) });
      box.classList.toggle("off", !state[name]);
    });
    return box;
  }

  // Nodes that stay: they are moved, not made again.
  scene() {
    const node = (name, attributes) => this.plot.appendChild(svg(name, attributes));
    const stripe = svg("path", { d: "M0 0V7", class: "stripe" });
    const turned = { patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
    node("pattern", { id: "never", width: 7, height: 7, ...turned }).append(stripe);
    this.never = node("rect", { fill: "url(#never)" });
    this.hair = node("path", { class: "hair" });
    this.ghost = node("path", { class: "curve ghost" });
    this.rest = node("path", { class: "curve rest" });
    this.been = node("path", { class: "curve" });
    this.level = node("path", { class: "level" });
    this.ticks = node("g");
    this.rings = SPEED.map((_, i) => node("circle", { class: `ring ${TINTS[groupOf(i)]}` }));
    this.chain = SPEED.map((_, i) => node("path", { class: `arrow ${TINTS[groupOf(i)]}` }));
    this.tip = node("circle", { r: 5, class: "tip" });
    this.here = node("circle", { r: 5, class: "tip" });
    this.label = node("text", { class: "label" });
    const reach = svg("circle", { r: 22, class: "reach" });
    this.handle = node("g", { class: "handle key" });
    this.handle.append(reach, svg("circle", { r: 9 }), svg("path", { d: "M-3.5 -3V3M3.5 -3V3" }));
    this.grip();
  }

  grip() {
    const to = (distance) =>
      this.set({ distance: clamp(Math.round(distance), 0, FAR - 1) });
    const by = (step) => () => to(this.state.distance + step);
    this.keys(this.handle, {
      ArrowRight: by(1),
      ArrowUp: by(1),
      ArrowLeft: by(-1),
      ArrowDown: by(-1),
      PageUp: by(16),
      PageDown: by(-16),
      Home: () => to(this.start.distance),
    });
    const range = { "aria-valuemin": 0, "aria-valuemax": FAR - 1 };
    set(this.handle, { tabindex: 0, role: "slider", "aria-label": "distance of the key", ...range });
    this.drag(this.handle, () => {
      const from = this.at(this.state.distance);
      const scale = this.W / this.plot.getBoundingClientRect().width;
      return (dx) => to(this.back(from + dx * scale));
    });
    this.syncs.push(({ distance, key }) => {
      const words = `${this.word(key)}, ${distance} tokens back`;
      set(this.handle, { "aria-valuenow": distance, "aria-valuetext": words });
    });
  }

  word(key) {
    return `“${this.numbers.words[key].trim()}”`;
  }

  measures() {
    const { wide } = this;
    const [W, H, left, right] = wide ? [650, 292, 262, 640] : [350, 270, 138, 344];
    const [axis, foot] = [wide ? 122 : 62, H - 34];
    const high = linear(LOW, HIGH, foot, 8);
    const root = Math.sqrt(FAR - 1);
    this.W = W;
    this.at = (d) => left + ((right - left) * Math.sqrt(d)) / root;
    this.back = (x) => (clamp((x - left) / (right - left), 0, 1) * root) ** 2;
    return { W, H, left, right, axis, foot, high, unit: high(0) - high(1) };
  }

  draw({ curve, score, weights, parts }) {
    const { head, key, distance, speeds, ...on } = this.state;
    const { W, H, left, right, axis, foot, high, unit } = this.measures();
    const { at } = this;
    set(this.plot, { viewBox: `0 0 ${W} ${H}` });
    const edge = at(TRAINED - 0.5);
    set(this.never, { x: edge, y: 8, width: right - edge, height: foot - 8 });
    const zero = high(0);
    set(this.hair, {
      d: `M${axis} ${foot}V8M${axis - 3} ${zero}h6M${left} ${zero}H${right}M${left} ${foot}V8`,
    });
    this.marksOf({ left, right, foot, high, edge });
    const points = (row, from, to) =>
      path(row.slice(from, to + 1).map((y, n) => [at(from + n), high(y)]));
    const whole = speeds === "trained" && NAMES.every((name) => on[name]);
    const as = { fast: true, middle: true, slow: true, speeds: "trained", distance: 0 };
    const before = whole ? "" : points(this.compute({ head, key, ...as }).curve, 0, FAR - 1);
    set(this.ghost, { d: before });
    set(this.rest, { d: points(curve, distance, FAR - 1) });
    set(this.been, { d: points(curve, 0, distance) });
    this.hang(axis, zero, unit);
    const y = high(score);
    set(this.level, { d: `M${this.end[0]} ${y}H${at(distance)}M${at(distance)} ${y}V${foot}` });
    set(this.tip, { cx: this.end[0], cy: y });
    set(this.here, { cx: at(distance), cy: y });
    const before256 = at(distance) < right - 50;
    set(this.label, {
      x: at(distance) + (before256 ? 10 : -10),
      y: clamp(y - 8, 20, foot - 8),
      "text-anchor": before256 ? "start" : "end",
      text: say(score),
    });
    set(this.handle, { transform: `translate(${at(distance)} ${foot})` });
    this.turnHands();
    this.marks.forEach((mark, n) => mark.style.setProperty("--v", weights[n]));
  }

  marksOf({ left, right, foot, high, edge }) {
    const text = (x, y, words, anchor = "middle") =>
      svg("text", { x, y, text: words, "text-anchor": anchor, class: "tick" });
    const ds = this.wide ? [0, 1, 4, 16, 64, 128, 256] : [0, 4, 32, 128, 256];
    const parts = ds.map((d) => text(this.at(d), foot + 28, num(d)));
    for (const y of [-5, 0, 5, 10]) parts.push(text(left - 6, high(y) + 4, num(y), "end"));
    parts.push(text(right, foot + 28, "511", "end"));
    parts.push(text((edge + right) / 2, foot - 10, this.wide ? "never trained" : "untrained"));
    parts.push(text(left - 16, foot + 28, "tokens back:", "end"));
    this.ticks.replaceChildren(...parts);
  }

  // The arrows, the slowest at the foot and the fastest at the tip.
  hang(axis, zero, unit) {
    const { head, key, distance, speeds, ...on } = this.state;
    const speed = this.speeds(speeds);
    let [x, y] = [axis, zero];
    this.hands = this.arrows(head, key).map(([long, from], i) => [long, from + speed[i] * distance]);
    for (let i = PAIRS - 1; i >= 0; i--) {
      const [long, way] = this.hands[i];
      const shown = on[groupOf(i)];
      const [dx, dy] = [unit * long * Math.sin(way), -unit * long * Math.cos(way)];
      const tip = Math.min(6, 0.4 * unit * long);
      const side = (at) => `l${-tip * Math.sin(way + at)} ${tip * Math.cos(way + at)}`;
      const [from, to] = [`M${x} ${y}`, `M${x + dx} ${y + dy}`];
      const d = `${from}L${to.slice(1)}${side(0.5)}${to}${side(-0.5)}`;
      set(this.chain[i], { d: shown ? d : "" });
      set(this.rings[i], { cx: x, cy: y, r: shown ? unit * long : 0 });
      this.chain[i].classList.toggle("fresh", this.isNew(speed[i] * distance, i));
      if (shown) [x, y] = [x + dx, y + dy];
    }
    this.end = [x, y];
  }

  turnHands() {
    const { head, key, speeds, distance } = this.state;
    const speed = this.speeds(speeds);
    const point = (way, r) => `${(r * Math.sin(way)).toFixed(2)} ${(-r * Math.cos(way)).toFixed(2)}`;
    this.arrows(head, key).forEach(([long, from], i) => {
      const [, unmet, hand] = this.faces[i].children;
      const met = (TRAINED - 1) * SPEED[i];
      const [start, stop] = [from + met, from + TURN];
      const arc = `M0 0L${point(start, 16)}A16 16 0 ${stop - start > Math.PI ? 1 : 0} 1`;
      set(unmet, { d: met < TURN ? `${arc} ${point(stop, 16)}z` : "" });
      const width = clamp(1.2 + 2.4 * long, 1.2, 5);
      set(hand, { d: `M0 0L${point(this.hands[i][1], 14)}`, "stroke-width": width });
      this.faces[i].classList.toggle("fresh", this.isNew(speed[i] * distance, i));
    });
  }

  tell({ score, new: fresh }) {
    const { head, key, distance, speeds, ...on } = this.state;
    const never = fresh ? ` ${fresh} of 32 pairs show an angle that they never had in training.` : "";
    const back = `${distance} token${distance === 1 ? "" : "s"} back`;
    const first = `${this.word(key)} ${back}: the arrows reach ${say(score)}, the score.${never}`;
    const shares = this.numbers.shares[head];
    const bits = sum(NAMES.map((name, n) => (on[name] ? 2 ** n : 0)));
    const before = head === "previous";
    if (!bits) return `${first} Without any pair the head attends to all tokens alike.`;
    const aim = before ? "the token before" : "what followed last time";
    const how = { trained: "", half: ", positions halved,", base: ", with the larger base," }[speeds];
    if (distance >= TRAINED && bits === 7) {
      const [found, beyond] = shares[speeds].far;
      const lost = before ? `, all that is further back than 255 gets ${say(beyond)}` : "";
      const longer = before ? "In texts of 512 tokens" : "When 300 random tokens come again";
      return `${first} ${longer}${how} ${aim} gets ${say(found)} of this head’s attention${lost}.`;
    }
    const where = before ? "On held-out text" : "When 48 random tokens come again";
    const off = NAMES.filter((name) => !on[name]);
    const less = off.length ? `${how || ","} without the ${off.join(" and ")} pairs,` : how;
    const than = bits < 7 || how ? ` (as trained: ${say(shares.trained.near[6])})` : "";
    const share = `${aim} gets ${say(shares[speeds].near[bits - 1])} of this head’s attention`;
    return `${first} ${where}${less} ${share}${than}.`;
  }

  static style = `
    .say { min-height: 4.4em }
    .tokens.tokens { display: flex; flex-wrap: wrap; gap: 3px; background: none; margin-bottom: 4px }
    .tokens.tokens input + span { padding: 0 7px; border-radius: 5px; color: var(--d-cell);
      background: color-mix(in srgb, var(--f) calc(100% * (.1 + var(--v) * (var(--r) - .1))), var(--d-paper)) }
    .tokens.tokens input:checked + span { box-shadow: inset 0 0 0 3px var(--d-key) }
    .tokens label:last-child { border-bottom: 3px solid var(--d-query) }
    .hair { stroke: var(--d-line); opacity: .55; fill: none }
    .stripe { stroke: var(--d-muted); stroke-width: 1.6; opacity: .5 }
    .curve { fill: none; stroke: var(--d-weight); stroke-width: 1.8; stroke-linejoin: round }
    .rest { stroke-width: 1; opacity: .65 }
    .ghost { stroke: var(--d-muted); stroke-width: 1; opacity: .45 }
    .level { fill: none; stroke: var(--d-weight); stroke-dasharray: 2 4; stroke-width: 1.3 }
    .arrow { fill: none; stroke: var(--c); stroke-width: 2.2; stroke-linecap: round; stroke-linejoin: round }
    .arrow.fresh { stroke-dasharray: 3 3.5 }
    .ring { fill: none; stroke: var(--c); opacity: .3 }
    .tip { fill: var(--d-weight); stroke: var(--d-paper); stroke-width: 1.5 }
    .label.label { font-weight: 650; font-size: 16px; fill: var(--d-weight); paint-order: stroke;
      stroke: var(--d-paper); stroke-width: 5px }
    .tick.tick { font-size: 12px; fill: var(--d-muted); paint-order: stroke; stroke: var(--d-paper);
      stroke-width: 4px }
    .handle { cursor: ew-resize; touch-action: none; fill: var(--d-key); stroke: var(--d-paper);
      stroke-width: 1.5 }
    .reach { fill: transparent; stroke: none }
    .groups { display: grid; grid-template-columns: 1fr 1fr; gap: 4px 10px; margin-top: 6px }
    .group.slow { grid-column: 1 / -1 }
    .group button { width: 100%; justify-content: start; gap: 8px; font-size: 13px; background: none }
    .group button::before { content: ""; width: 14px; height: 14px; border-radius: 4px; flex: none;
      border: 2px solid var(--c) }
    .group button[aria-pressed=true] { background: none; color: inherit }
    .group button[aria-pressed=true]::before { background: var(--c) }
    .off svg { opacity: .28 }
    .rim { fill: none; stroke: var(--d-line); stroke-width: 1 }
    .unmet { fill: var(--d-muted); opacity: .22 }
    .hand { stroke: var(--c); stroke-linecap: round }
    .fresh .hand { stroke-dasharray: 3 3; stroke-linecap: butt }
    .hub { fill: var(--c) }
    @container (max-width: 560px) { .groups { grid-template-columns: 1fr } .say { min-height: 7.3em } }`;
}

define("attn-clocks", Clocks);
