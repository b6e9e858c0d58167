// What one written token costs: bytes of weights and cache, operations, and what it waits for.
const fixed = (x, unit) =>
  `${x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2)} ${unit}`;
const bytes = (x) => (x >= 1e9 ? fixed(x / 1e9, "GB") : fixed(x / 1e6, "MB"));
const tera = (x) => (x >= 1e11 ? fixed(x / 1e12, "TFLOP") : fixed(x / 1e9, "GFLOP"));
const duration = (x) =>
  x >= 1 ? fixed(x, "s") : x >= 1e-3 ? fixed(x * 1e3, "ms") : fixed(x * 1e6, "µs");
const percent = (x) => `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`;

class Cost extends Explorable {
  static limits = { t: [0, 17], b: [0, 8], bits: [4, 16] };

  compute({ model, machine, t, b, bits }) {
    const m = this.numbers.models[model];
    const { bandwidth, speed, memory } = this.numbers.machines[machine];
    const [T, B] = [2 ** t, 2 ** b];
    const attention = 2 * m.width * m.heads * m.D + 2 * m.width * m.kv * m.D;
    const expert = m.maps * m.width * m.hidden;
    const router = m.experts > 1 ? m.width * m.experts : 0;
    const table = m.V * m.width;
    const rest = m.layers * m.blockExtra + m.extra;
    const parts = (experts) => m.layers * (attention + experts * expert + router);
    const parameters = parts(m.experts) + rest + table * (m.tied ? 1 : 2);
    const used = parts(m.active) + table;
    const seen = m.window ? Math.min(T, m.window) : T;
    const matrices = 2 * used;
    const scores = 4 * seen * m.heads * m.D * m.layers;
    const cache = (2 * m.layers * m.kv * m.D * seen * B * 16) / 8;
    const weights = (parameters * bits) / 8;
    const woken = m.experts * (1 - (1 - m.active / m.experts) ** B);
    const read = ((parts(woken) + rest + table) * bits) / 8;
    const moved = read + cache;
    const flops = B * (matrices + scores);
    const times = { memory: moved / bandwidth, arithmetic: flops / speed };
    const catchUp = matrices / (4 * m.heads * m.D * m.layers);
    const machines = Math.ceil((weights + cache) / memory);
    return {
      parameters,
      weights,
      cache,
      matrices,
      scores,
      moved,
      flops,
      ...times,
      catchUp,
      machines,
    };
  }

  build() {
    const bar = (name, roles) => {
      const pieces = roles.map((role) => html("span", { class: `piece ${role}` }));
      const line = html("span", { class: "limit" });
      const track = html("div", { class: "track" }, ...pieces, line);
      const value = html("div", { class: "value" });
      this.table.append(html("div", { class: "name", text: name }), track, value);
      return { pieces, line, value, track };
    };
    this.table = html("div", { class: "table" });
    this.filled = bar("memory", ["state", "key"]);
    this.wait = bar("time to read it", ["state", "key"]);
    this.work = bar("arithmetic", ["position", "weight"]);
    this.think = bar("time to do it", ["position", "weight"]);
    const dots = { weights: "state", cache: "key", matrices: "position", scores: "weight" };
    const legend = Object.entries(dots).map(([word, role]) =>
      html("span", { class: "part" }, html("span", { class: `dot ${role}` }), word),
    );
    this.words = html("div", { class: "legend" });
    this.picture.append(this.table, html("div", { class: "legend" }, ...legend), this.words);
    const names = (table) => Object.keys(table).map((name) => [name, name]);
    this.choice("model", "model", names(this.numbers.models));
    const doubled = (x) => (2 ** x).toLocaleString("en");
    this.slider("t", "tokens before", 0, 17, 1, doubled);
    this.slider("b", "readers", 0, 8, 1, doubled);
    this.choice(
      "bits",
      "bits of a weight",
      [16, 8, 4].map((n) => [n, String(n)]),
    );
    this.choice("machine", "machine", names(this.numbers.machines));
  }

  draw(result, held) {
    const { weights, cache, matrices, scores, moved, memory, arithmetic, catchUp } = result;
    const { memory: room, bandwidth } = this.numbers.machines[this.state.machine];
    const scale = held ? this.scale : Math.max(weights + cache, room) * 1.04;
    this.scale = scale;
    const wide = (node, share) => {
      const least = share > 0 ? "; min-width: 2px" : "";
      set(node, { style: `width: ${(100 * share).toFixed(3)}%${least}` });
    };
    wide(this.filled.pieces[0], weights / scale);
    wide(this.filled.pieces[1], cache / scale);
    set(this.filled.line, { style: `left: ${(100 * room) / scale}%` });
    set(this.filled.value, { text: `${bytes(weights)} + ${bytes(cache)}` });
    const work = matrices + scores;
    wide(this.work.pieces[0], matrices / work);
    wide(this.work.pieces[1], scores / work);
    set(this.work.value, { text: `${percent(scores / work)} scores` });
    const longest = Math.max(memory, arithmetic);
    wide(this.wait.pieces[0], (moved - cache) / bandwidth / longest);
    wide(this.wait.pieces[1], cache / bandwidth / longest);
    wide(this.think.pieces[0], ((matrices / work) * arithmetic) / longest);
    wide(this.think.pieces[1], ((scores / work) * arithmetic) / longest);
    set(this.wait.value, { text: duration(memory) });
    set(this.think.value, { text: duration(arithmetic) });
    const { machine } = this.state;
    const legend = `The line: ${bytes(room)}, one ${machine}. Both times have one scale.`;
    const meet = Math.round(catchUp).toLocaleString("en");
    set(this.words, { text: `${legend} Scores catch up with the matrices at ${meet} tokens.` });
  }

  tell({ moved, flops, memory, arithmetic, machines }) {
    const { b, t, model, machine } = this.state;
    const readers = 2 ** b;
    const who = readers > 1 ? `One token for each of ${readers} readers` : "Writing one token";
    const moves = `${who} moves ${bytes(moved)} and computes ${tera(flops)}`;
    const waits = memory > arithmetic ? "it waits for memory" : "arithmetic is what takes the time";
    const many = machines > 1 ? ` It needs the memory of ${machines} machines (${machine}).` : "";
    const { places } = this.numbers.models[model];
    const few = places && places < 2 ** t;
    const end = few ? ` But ${model} has learned ${places} positions only.` : "";
    return `${moves}: ${waits}.${many}${end}`;
  }

  static style = `
    .table { display: grid; gap: 8px 12px; align-items: center;
      grid-template-columns: auto 1fr 142px }
    .name { font-size: 14px; font-weight: 650; text-align: right }
    .track { position: relative; display: flex; height: 28px; border-radius: 4px;
      background: var(--d-surface) }
    .piece { background: color-mix(in srgb, var(--f) 78%, var(--d-paper)) }
    .piece:first-child { border-radius: 4px 0 0 4px }
    .limit { position: absolute; top: -4px; bottom: -4px; width: 2px; background: var(--d-ink) }
    .track .limit:not([style]) { display: none }
    .value { font-size: 14px; font-weight: 650 }
    .part { margin-right: 16px }
    .dot { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 5px;
      background: color-mix(in srgb, var(--f) 78%, var(--d-paper)) }
    .legend { font-size: 13px; color: var(--d-muted); margin-top: 8px }
    @container (max-width: 560px) {
      .table { grid-template-columns: 1fr auto; gap: 3px 10px }
      .name { text-align: left; grid-row: auto } .track { grid-column: 1 / -1; order: 0 }
      .value { grid-column: 1 / -1; margin-bottom: 6px } .name { grid-column: 1 / -1 } }`;
}

define("attn-cost", Cost);
