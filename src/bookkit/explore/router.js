// Tokens that a router sends to experts: choices, loads, a bias that balances, a limited room.
const [N, E] = [32, 8];
const RATE = 0.02;
const ROOMS = ["no limit", "1", "1.25", "1.5", "2"];
const count = (lines) => {
  const found = Array(E).fill(0);
  lines.forEach((line) => line.forEach((e) => (found[e] += 1)));
  return found;
};

class RouterLoads extends Explorable {
  static limits = {
    bias: ["off", "on"],
    step: [0, 3],
    seed: [0, 2],
    active: [1, 8],
    moves: [0, 40],
    room: ROOMS,
  };

  // Where two numbers are equal the lower expert goes first.
  chances({ bias, seed, step }) {
    const bytes = atob(this.numbers[bias][seed][step][0]);
    return Array.from({ length: N }, (_, n) =>
      Array.from({ length: E }, (_, e) => {
        const level = bytes.charCodeAt(n * E + e) - 128;
        return 1 / (1 + Math.exp(e / 1024 - level * this.numbers.unit));
      }),
    );
  }

  compute(state) {
    const { active, moves } = state;
    const chances = this.chances(state);
    let bias = [...this.numbers[state.bias][state.seed][state.step][1]];
    const choose = () =>
      chances.map((row) => {
        const wanted = row.map((p, e) => p + bias[e]);
        const order = wanted.map((_, e) => e).sort((a, b) => wanted[b] - wanted[a]);
        return order.slice(0, active);
      });
    for (let move = 0; move < moves; move += 1) {
      const load = count(choose());
      bias = bias.map((b, e) => b + RATE * Math.sign((N * active) / E - load[e]));
    }
    const chosen = choose();
    const share = chosen.map((line, n) => {
      const total = line.reduce((all, e) => all + chances[n][e], 1e-20);
      return line.map((e) => chances[n][e] / total);
    });
    const all = { chosen, share, bias, load: count(chosen) };
    return { ...all, ...this.limit(chosen, state.room) };
  }

  // First choices before second ones, earlier tokens first; who finds no place is dropped.
  limit(chosen, factor) {
    const active = chosen[0].length;
    const most = Math.ceil((Number(factor) * active * N) / E);
    const room = factor === ROOMS[0] ? N : Math.min(N, most);
    const kept = Array(E).fill(0);
    const stays = chosen.map((line) => line.map(() => false));
    for (let place = 0; place < active; place += 1)
      chosen.forEach((line, n) => {
        stays[n][place] = kept[line[place]] < room;
        kept[line[place]] += stays[n][place];
      });
    const alone = stays.filter((line) => !line.includes(true)).length;
    return { kept, stays, alone, room, dropped: stays.flat().filter((x) => !x).length };
  }

  build() {
    const view = { viewBox: "0 0 400 186", role: "img" };
    this.view = svg("svg", { ...view, "aria-label": "characters and their experts" });
    const text = (x, y, words, kind = "") =>
      this.view.appendChild(svg("text", { x, y, text: words, class: kind }));
    [...this.numbers.text].forEach((letter, n) =>
      text(22 + 7.9 * n, 13, letter.trim() || "·", "letter"),
    );
    text(362, 13, "load", "end");
    text(398, 13, "bias", "end");
    this.cells = Array.from({ length: N * E }, () => this.view.appendChild(svg("rect", {})));
    this.rows = Array.from({ length: E }, (_, e) => {
      text(6, 35 + 18 * e, e + 1, "expert");
      const bar = (kind) => this.view.appendChild(svg("rect", { class: kind }));
      const words = (x) => text(x, 35 + 18 * e, "", "end");
      const mark = this.view.appendChild(svg("path", { class: "many" }));
      return { lost: bar("lost"), bar: bar("bar"), load: words(362), bias: words(398), mark };
    });
    this.fair = this.view.appendChild(svg("path", { class: "fair" }));
    this.name = text(0, 182, "", "end");
    this.picture.append(this.view);
    this.choice("bias", "bias in training", [
      ["off", "off"],
      ["on", "on"],
    ]);
    const { steps } = this.numbers;
    this.slider("step", "training step", 0, 3, 1, (x) => String(steps[x]));
    this.slider("seed", "seed", 0, 2, 1, String);
    this.slider("active", "active experts", 1, 8, 1, String);
    this.slider("moves", "bias moved now", 0, 40, 1, String);
    this.choice("room", "capacity", ROOMS.map((room) => [room, room === "1" ? "1 ×" : room]));
  }

  draw({ chosen, share, stays, load, kept, bias, room }) {
    const { active, moves, step, seed } = this.state;
    this.cells.forEach((cell, at) => {
      const [n, e] = [Math.floor(at / E), at % E];
      const place = chosen[n].indexOf(e);
      const kind = place < 0 ? "none" : stays[n][place] ? "on weight" : "off";
      const box = { x: 18.5 + 7.9 * n, y: 23 + 18 * e, width: 7, height: 14, class: kind };
      set(cell, { ...box, style: place < 0 ? null : `--v: ${share[n][place].toFixed(2)}` });
    });
    const wide = (x) => (48 * x) / N;
    const many = this.numbers[this.state.bias][seed][step][2];
    this.rows.forEach((row, e) => {
      const y = 24 + 18 * e;
      set(row.bar, { x: 282, y, width: wide(kept[e]), height: 12 });
      const over = { x: 282 + wide(kept[e]), width: wide(load[e] - kept[e]) };
      set(row.lost, { ...over, y, height: over.width ? 12 : 0 });
      set(row.load, { text: load[e] });
      set(row.bias, { text: num(bias[e]) });
      const told = active === 2 && !moves;
      set(row.mark, { d: told ? `M${282 + wide(N * many[e])} ${y - 2}v16` : "M0 0" });
    });
    const line = (x) => `M${282 + wide(x)} 20v148`;
    set(this.fair, { d: line((N * active) / E) + (room < N ? line(room) : "") });
    const limit = room < N ? `, room ${room}` : "";
    set(this.name, { x: 398, text: `fair ${(N * active) / E}${limit}` });
  }

  tell({ load, dropped, alone, room }) {
    const { bias, step, active, moves } = this.state;
    const fair = (N * active) / E;
    const most = Math.max(...load);
    const idle = load.filter((x) => 4 * x < fair).length;
    const how = bias === "on" ? "with the bias" : "without a bias";
    const then = moves ? ` and ${moves} moves of it on this line` : "";
    const who = `expert ${load.indexOf(most) + 1} works on ${most} of ${N} characters`;
    const few = `${idle} of ${E} experts on less than a quarter of the fair share, ${fair}.`;
    const said = `After ${this.numbers.steps[step]} steps ${how}${then}: ${who}, ${few}`;
    if (room === N) return said;
    const lost = `${dropped} of ${N * active} visits are dropped`;
    return `${said} With room for ${room} each, ${lost}, and ${alone} characters have no expert.`;
  }

  static style = `
    .picture svg { max-width: 36rem; margin: 0 auto }
    svg text { font-size: 13px }
    .letter { font-family: ui-monospace, "DejaVu Sans Mono", monospace; text-anchor: middle }
    .expert { text-anchor: middle; font-weight: 650 }
    .end { text-anchor: end }
    .none { fill: var(--d-surface); opacity: .7 }
    .on { fill: color-mix(in srgb, var(--c) calc(100% * (.25 + var(--v) * .75)), var(--d-paper)) }
    .off { fill: none; stroke: var(--d-gradient); stroke-width: 1.2 }
    .bar { fill: var(--d-weight) }
    .lost { fill: none; stroke: var(--d-gradient); stroke-width: 1.2 }
    .many { stroke: var(--d-ink); stroke-width: 2 }
    .fair { stroke: var(--d-ink); stroke-dasharray: 4 3; fill: none }`;
}

define("attn-router", RouterLoads);
