// A model shared by many GPUs: what each holds, what it sends, how long a step takes.
const gigabytes = (x) => `${(x / 1e9).toFixed(x >= 1e11 ? 0 : 1)} GB`;
const seconds = (x) => `${x.toFixed(2)} s`;
const HOLDS = ["weights", "gradients", "optimizer", "activations"];
const SPENT = ["computing", "waiting", "tensor", "data", "pipeline"];

class Planner extends Explorable {
  static limits = { g: [0, 14], t: [0, 4], p: [0, 4], shard: [0, 3] };

  problem({ model, g, t, p }) {
    const { depth } = this.numbers.models[model];
    const { step, T } = this.numbers.rules;
    const [gpus, group, stages] = [2 ** g, 2 ** (t + p), 2 ** p];
    if (gpus < group) return `${group} GPUs hold one copy, and there are ${gpus}.`;
    if (depth % stages) return `${depth} blocks do not divide into ${stages} stages.`;
    if (gpus / group > step / T)
      return `A step has ${step / T} windows, too few for ${gpus / group} replicas.`;
    return "";
  }

  compute(state) {
    const problem = this.problem(state);
    if (problem) return { problem, need: 0, least: 0, most: 0, bubble: 0 };
    const m = this.numbers.models[state.model];
    const { peak, near, far } = this.numbers.kinds[state.gpu];
    const { step, T, each, products, machine, weight, moments } = this.numbers.rules;
    const [gpus, tensor, stages] = [2 ** state.g, 2 ** state.t, 2 ** state.p];
    const data = gpus / tensor / stages;
    const rounds = step / (T * data);
    const tables = m.tie || stages > 1 ? 1 : 2;
    const blocks = m.depth / stages;
    const mine = (blocks * m.block + tables * m.V * m.width) / tensor;
    const share = (least) => (state.shard >= least ? data : 1);
    const tokens = T / tensor;
    const kept = Math.min(stages, rounds) * blocks * 2 * m.width * tokens + 2 * m.kept * tokens;
    const logits = stages === 1 ? 8 * m.V * tokens : 0;
    const parts = [(weight * mine) / share(3), (2 * mine) / share(2), (moments * mine) / share(1)];
    parts.push(kept + logits);

    const ring = ((data - 1) / data) * mine;
    const scattered = ring * 2 * (state.shard >= 2 ? rounds : 1);
    const gathered = ring * [2, 2, 2, 4 * rounds][state.shard];
    const vectors = rounds * T * m.width * 2;
    const sums = (blocks * 6 * 2 * vectors * (tensor - 1)) / tensor;
    const ends = stages > 2 ? 2 : 1;
    const sent = [scattered + gathered, sums, stages > 1 ? (ends * vectors) / tensor : 0];

    const bubble = (stages - 1) / (rounds + stages - 1);
    const work = 4 * (2 * m.parameters + 4 * m.depth * m.width * T) * step;
    const busy = work / (gpus * peak * products);
    const speed = (size, neighbours) =>
      size <= neighbours ? near : Math.min(near, Math.min(size, neighbours) * far);
    const replicas = Math.max(1, Math.floor(machine / tensor));
    const sends = [sent[1] / speed(tensor, machine), sent[0] / speed(data, replicas)];
    const next = gpus <= machine ? near : far;
    const spent = [busy, (busy * bubble) / (1 - bubble), ...sends, sent[2] / next];
    const steps = (each * m.parameters) / step / 86400;
    return {
      problem: "",
      need: sum(parts),
      parts,
      sent,
      seconds: spent,
      bubble,
      least: steps * Math.max(spent[0] + spent[1], sum(spent.slice(2))),
      most: steps * sum(spent),
    };
  }

  build() {
    const bar = (name, words, roles) => {
      const pieces = roles.map((role) => html("span", { class: `piece ${role}` }));
      const line = html("span", { class: "limit" });
      const before = html("span", { class: "before" });
      const track = html("div", { class: "track" }, ...pieces, line, before);
      const title = html("span", { class: "room" });
      const legend = words.map((word, n) => {
        const value = html("b");
        const dot = html("span", { class: `dot ${roles[n]}` });
        return [html("span", { class: "part" }, dot, `${word} `, value), value];
      });
      const row = html("div", { class: "legend" }, ...legend.map(([part]) => part));
      this.picture.append(html("div", { class: "name", text: name }, title), track, row);
      return { pieces, line, before, title, values: legend.map(([, value]) => value) };
    };
    this.holds = bar("memory of a GPU", HOLDS, ["output", "gradient", "position", "value"]);
    this.spends = bar("time of a step", SPENT, ["weight", "waiting", "query", "key", "state"]);
    const power = (x) => (2 ** x).toLocaleString("en");
    const names = (table) => Object.keys(table).map((name) => [name, name.toUpperCase()]);
    this.choice("model", "model", names(this.numbers.models));
    this.slider("g", "GPUs", 0, 14, 1, power);
    this.choice(
      "shard",
      "ZeRO",
      [0, 1, 2, 3].map((n) => [n, String(n)]),
    );
    this.slider("t", "tensor", 0, 4, 1, power);
    this.slider("p", "pipeline", 0, 4, 1, power);
    this.choice("gpu", "kind", names(this.numbers.kinds));
  }

  fill({ pieces, values }, numbers, scale, show) {
    pieces.forEach((piece, n) => {
      const share = (100 * (numbers[n] ?? 0)) / scale;
      set(piece, { style: `width: ${share.toFixed(3)}%${share > 0.01 ? "; min-width: 3px" : ""}` });
      set(values[n], { text: numbers.length ? show(numbers[n]) : "–" });
    });
  }

  // What was before the last change is a line below the bar.
  draw({ parts = [], seconds: spent = [] }, held) {
    const room = this.numbers.kinds[this.state.gpu].memory;
    const key = JSON.stringify(this.state);
    if (key !== this.key) [this.key, this.before, this.now] = [key, this.now, [sum(parts), sum(spent)]];
    const [filled, took] = held ? [sum(held.parts ?? []), sum(held.seconds ?? [])] : (this.before ?? [0, 0]);
    const scale = held ? this.scale : Math.max(sum(parts), room) * 1.04;
    this.scale = scale;
    this.fill(this.holds, parts, scale, gigabytes);
    set(this.holds.line, { style: `left: ${(100 * room) / scale}%` });
    set(this.holds.title, { text: `the line: ${say(room / 1e9, 0)} GB` });
    const longest = Math.max(sum(spent), took) || 1;
    this.fill(this.spends, spent, longest, seconds);
    const line = (bar, x, all) => set(bar.before, { style: `width: ${Math.min(100, (100 * x) / all)}%` });
    line(this.holds, filled, scale);
    line(this.spends, took, longest);
    set(this.spends.title, { text: took ? "thin: before the last change" : "" });
  }

  tell({ problem, need, least, most, seconds: spent }) {
    if (problem) return problem;
    const room = this.numbers.kinds[this.state.gpu].memory;
    const fits = need < this.numbers.rules.room * room ? "It fits" : "It does not fit";
    const holds = `${say(need / 1e9, 1)} GB of ${say(room / 1e9, 0)} on each GPU.`;
    const [busy, waits, ...sends] = spent.map((x) => x);
    const step = `A step computes for ${say(busy)} s, waits ${say(waits)} s and sends for`;
    const days = `${say(least, 1)} to ${say(most, 1)} days`;
    return `${fits}: ${holds} ${step} ${say(sum(sends))} s: ${days}.`;
  }

  static style = `
    .name { font-size: 14px; font-weight: 650; margin: 6px 0 5px }
    .track { position: relative; display: flex; height: 28px; border-radius: 4px;
      background: var(--d-surface) }
    .before { position: absolute; left: 0; bottom: -5px; height: 3px; border-radius: 2px;
      background: var(--d-line) }
    .room { font-weight: 400; color: var(--d-muted); margin-left: 10px; font-size: 13px }
    .waiting { background: repeating-linear-gradient(45deg, var(--d-line) 0 1.5px,
      var(--d-surface) 1.5px 6px) !important }
    .piece { flex: none; background: color-mix(in srgb, var(--f) 78%, var(--d-paper)) }
    .limit { position: absolute; top: -4px; bottom: -4px; width: 2px; background: var(--d-ink) }
    .track .limit:not([style]) { display: none }
    .legend { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: 13px; margin: 8px 0 4px }
    .dot { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 5px;
      background: color-mix(in srgb, var(--f) 78%, var(--d-paper)) }`;
}

define("attn-planner", Planner);
