// A text at the pace of a machine: the bound of a step, the guesses of a draft, a queue.
const [N, K, HOUR] = [128, 3, 3600];
const sum = (row) => row.reduce((total, x) => total + x, 0);
const digits = (x, unit) => `${x.toFixed(x >= 100 ? 0 : x >= 10 ? 1 : 2)} ${unit}`;
const bytes = (x) => digits(x / 1e9, "GB");
const secs = (x) => (x >= 1 ? digits(x, "s") : digits(1000 * x, "ms"));
const whole = (x) => Math.round(x).toLocaleString("en");
const plural = (n, thing) => `${whole(n)} ${thing}${n === 1 ? "" : "s"}`;
const least = (part) => Math.max(part.reading, part.computing);
const words = (lists, n) => lists.split("#")[n]?.split("|") ?? [];

class Speed extends Explorable {
  static limits = {
    machine: ["one core", "T4", "A100", "H100"],
    model: ["8 B", "70 B"],
    b: [0, 8],
    t: [0, 6],
    draft: ["none", "counts", "coarse"],
    load: [0, 9],
    at: [0, HOUR],
  };

  // How many tokens each call brings to a text.
  brings(n) {
    const { draft } = this.state;
    if (draft === "none") return Array(N).fill(1);
    return [...this.numbers.kept[draft][n]].map((kept) => Number(kept) + 1);
  }

  // The least times of a call for so many texts.
  pace({ machine, model, bits, t, draft }) {
    const [m, d] = [this.numbers.machines[machine], this.numbers.models[model]];
    const T = 1000 * 2 ** t;
    const parts = (rows, wide, tokens) => {
      const weights = (d.N * wide) / 8;
      const moved = weights + rows * T * d.p;
      const work = rows * tokens * (2 * d.N + d.C * T);
      const fits = moved <= (m.memory || Infinity);
      const [reading, computing] = [moved / m.bandwidth, work / m.speed];
      return { weights, moved, work, fits, reading, computing };
    };
    const wide = bits === 4 ? 4.5 : bits;
    const check = (rows) => parts(rows, wide, draft === "none" ? 1 : K + 1);
    const guess = (rows) => (draft === "coarse" ? least(parts(rows, 3.5, 1)) : 0);
    const call = (rows) => least(check(rows)) + K * guess(rows);
    return { m, check, guess, call, alone: (rows) => least(parts(rows, wide, 1)) };
  }

  // Who has a slot gets a token in each step; who has ended leaves, who waits comes in.
  schedule({ at, ...state }) {
    const key = JSON.stringify(state);
    if (this.key === key) return;
    this.key = key;
    const { call } = this.pace(state);
    const B = 2 ** state.b;
    const times = state.load
      ? this.numbers.moments.map((at) => at / 2 ** (state.load - 3))
      : Array(B).fill(0);
    this.you = state.load ? times.length / 2 : 0;
    const all = times.map((at, n) => {
      const text = n === this.you ? 0 : 1 + (n % 3);
      return { at, text, brings: this.brings(text), ends: [] };
    });
    let [now, next, queue, running] = [0, 0, 0, []];
    while (queue < all.length || running.length) {
      if (!running.length && queue === next) now = Math.max(now, all[next].at);
      while (next < all.length && all[next].at <= now) next++;
      while (queue < next && running.length < B) running.push(all[queue++]);
      const took = call(running.length);
      now += took;
      for (const one of running) {
        one.came ??= now - took;
        one.ends.push(now);
      }
      running = running.filter(({ ends, brings }) => ends.length < brings.length);
    }
    this.all = all;
  }

  compute(state) {
    const pace = this.pace(state);
    const B = 2 ** state.b;
    const full = pace.check(B);
    this.lanes = [];
    this.done = this.end = 0;
    if (!full.fits) return { fits: false, moved: full.moved, waiting: 0 };
    this.schedule(state);
    const you = this.all[this.you];
    const now = you.at + state.at + 1e-9;
    const waiting = this.all.filter(({ at, came }) => at <= now && now < came).length;
    const busy = this.all.filter(({ came, ends }) => came <= now && now <= ends.at(-1) + 2e-9);
    this.lanes = state.load ? busy : this.all;
    for (const one of this.lanes) one.done = one.ends.filter((end) => end <= now).length;
    const rows = busy.length || B;
    const done = (this.done = you.ends.filter((end) => end <= now).length);
    this.end = Math.min(HOUR, you.ends.at(-1) - you.at);
    const written = sum(you.brings.slice(0, done));
    const since = now - (done ? you.ends[done - 1] : you.came);
    const most = state.draft !== "none" && since >= 0 ? clamp(N - written - 1, 0, K) : 0;
    const each = pace.guess(rows);
    const waits = this.all.map(({ at, ends }) => ends[0] - at).sort((a, b) => a - b);
    const half = waits.length / 2;
    const check = pace.check(rows);
    const rate = N / you.brings.length / pace.call(rows);
    return {
      fits: true,
      rows,
      moved: check.moved,
      reading: check.reading,
      computing: check.computing,
      guessing: K * each,
      rate,
      gain: rate * pace.alone(rows),
      written,
      pale: each ? clamp(Math.floor(since / each), 0, most) : most,
      waiting,
      first: you.ends[0] - you.at,
      median: (waits[Math.ceil(half) - 1] + waits[Math.floor(half)]) / 2,
    };
  }

  build() {
    const head = html("div", { class: "head" });
    this.press = this.button("", () => this.play(), {}, head);
    this.time = html("b", {});
    const put = (at) => this.set({ at });
    const [get, home] = [() => this.state.at, () => put(this.start.at)];
    const range = { min: 0, max: HOUR, step: 0.1, pixels: 4, show: (x) => `${say(x)} seconds` };
    this.scrub(this.time, { label: "time since you asked", get, put, home, ...range });
    this.pulse = html("span");
    head.append(this.time, this.pulse);
    this.page = html("div", { class: "page" });
    this.others = [1, 2, 3].map(() => html("div", { class: "other" }));
    this.slots = svg("svg", { "aria-hidden": "true", class: "slots" });
    this.cells = ["line", "output", "gradient"].map((look) => svg("path", { class: look }));
    this.slots.append(...this.cells);
    this.places = html("p", { class: "hint" });
    this.plot = svg("svg", { viewBox: "0 0 280 322", "aria-hidden": "true", class: "plot" });
    this.scene();
    const left = html("div", {}, this.page, ...this.others, this.places, this.slots);
    this.picture.append(head, html("div", { class: "two" }, left, this.plot));
    const { machine, model } = this.constructor.limits;
    const named = (list) => list.map((x) => [x, String(x)]);
    this.choice("machine", "machine", named(machine));
    this.choice("model", "parameters", named(model));
    this.choice("bits", "bits per weight", named([16, 8, 4]));
    this.slider("b", "batch B", 0, 8, 1, (b) => String(2 ** b));
    this.slider("t", "context T", 0, 6, 1, (t) => `${2 ** t},000`);
    const coarse = ["coarse", "itself in 3 bits"];
    this.choice("draft", "draft", [["none", "none"], ["counts", "n-gram model"], coarse]);
    const asked = (load) => ["off", "¼", "½"][load] ?? String(2 ** (load - 3));
    this.slider("load", "requests a second", 0, 9, 1, asked);
  }

  // The roofs of all machines, and the working points of all batches.
  scene() {
    const x = (v) => 34 + 62 * (Math.log10(v) + 0.3);
    const y = (v) => 226 - 38.5 * (Math.log10(v) - 10);
    this.point = (v, m) => [x(v), y(Math.min(v * m.bandwidth, m.speed))];
    const node = (name, attributes) => this.plot.appendChild(svg(name, attributes));
    const tick = (x, y, text, anchor = "start") =>
      node("text", { x, y, text, "text-anchor": anchor });
    node("path", { d: "M34 14V226H278", class: "roof" });
    this.roofs = Object.entries(this.numbers.machines).map(([name, m]) => {
      const at = [0.55, m.speed / m.bandwidth, 3900].map((v) => this.point(v, m).join(" "));
      tick(278, this.point(3900, m)[1] - 5, name, "end");
      return [name, node("path", { d: `M${at.join("L")}` })];
    });
    for (const v of [1, 10, 100, 1000]) tick(x(v), 241, whole(v), "middle");
    ["¹¹", "¹³", "¹⁵"].forEach((p, n) => tick(30, y(10 ** (11 + 2 * n)) + 4, `10${p}`, "end"));
    tick(156, 257, "operations per byte", "middle");
    tick(38, 14, "operations a second");
    this.dots = Array.from({ length: 10 }, (_, b) =>
      node("circle", { r: b < 9 ? 3 : 7, class: `output${b < 9 ? "" : " here"}` }),
    );
    const caches = svg("tspan", { class: "key", text: "caches" });
    tick(4, 273, "reading weights, ").append(caches);
    tick(4, 305, "computing");
    this.took = [273, 305].map((y) => tick(276, y, "", "end"));
    this.bars = ["muted", "key", "weight"].map((look, n) =>
      node("rect", { y: n < 2 ? 278 : 310, height: 11, class: look }),
    );
  }

  draw(now) {
    const { machine, at, b } = this.state;
    const { m, check } = this.pace(this.state);
    this.write(now);
    set(this.press, { text: this.running ? "Pause" : "Play" });
    set(this.time, { text: at < 100 ? `${say(at)} s` : secs(at) });
    const late = now.waiting && now.first > at;
    const rate = now.fits ? `${digits(now.rate, "")}tokens a second` : "does not fit";
    set(this.pulse, { text: late ? "you wait" : rate, class: late && "gradient" });
    for (const [name, roof] of this.roofs)
      set(roof, { class: name === machine ? "roof chosen" : "roof" });
    const here = check(now.rows ?? 2 ** b);
    this.dots.forEach((dot, n) => {
      const one = n < 9 ? check(2 ** n) : here;
      const [cx, cy] = this.point(one.work / one.moved, m);
      set(dot, { cx, cy, display: !one.fits && "none" });
    });
    ["reading", "computing"].forEach((what, n) =>
      set(this.took[n], { text: now.fits ? secs(here[what]) : "" }));
    const scale = 272 / least(here);
    const first = (scale * here.reading * here.weights) / here.moved;
    const wide = [first, scale * here.reading - first, scale * here.computing];
    wide.forEach((w, n) => set(this.bars[n], { x: n === 1 ? 4 + first : 4, width: Math.max(1, w) }));
    this.fill(now);
  }

  // The reader's text: what was kept, the last wrong guesses, those that are not checked yet.
  write({ fits, pale }) {
    const { draft } = this.state;
    const text = words(this.numbers.texts, 0);
    const parts = [html("b", { text: "KING HENRY: " })];
    const put = (look, list) => {
      const text = list.join("");
      if (parts.at(-1).className === look) parts.at(-1).append(text);
      else if (text) parts.push(html("span", { class: look, text }));
    };
    let from = 0;
    this.brings(0).forEach((brings, n) => {
      const own = from + brings - 1;
      const wrong = draft === "none" ? [] : words(this.numbers.wrong[draft], n);
      if (n < this.done) put("value", text.slice(from, own));
      if (n === this.done - 1) put("gradient", wrong);
      if (n < this.done) put("ink", [text[own]]);
      if (n === this.done) put("muted", [...text.slice(from, own), ...wrong].slice(0, pale ?? 0));
      from = own + 1;
    });
    if (fits && this.done < this.brings(0).length) parts.push(html("i"));
    this.page.replaceChildren(...parts);
  }

  // Other texts, the slots with how much is written in each, and who waits.
  fill({ waiting }) {
    const B = 2 ** this.state.b;
    const across = this.page.clientWidth || 340;
    const shown = this.lanes.filter((one) => one !== this.all[this.you]);
    this.others.forEach((row, i) => {
      const { text, brings = [], done } = shown[i] ?? {};
      const so = words(this.numbers.texts, text).slice(0, sum(brings.slice(0, done)));
      set(row, { text: so.join("").replace(/\n/g, " ").slice(-across / 7.6) || " " });
    });
    const per = Math.max(Math.floor(across / 9), Math.ceil((B + 63) / 4));
    const wide = (0.78 * across) / per;
    const cell = (i, part = 1) => {
      const [x, y] = [(across / per) * (i % per), 11 * Math.floor(i / per)];
      return `M${x} ${y + 9}h${wide}v${-9 * part}h-${wide}z`;
    };
    const row = (length, from) => Array.from({ length }, (_, i) => cell(from + i)).join("");
    const taken = this.lanes.map(({ done, brings }, i) => cell(i, done / brings.length));
    const drawn = [row(B, 0), taken.join(""), row(waiting, B)];
    drawn.forEach((d, n) => set(this.cells[n], { d }));
    set(this.slots, { viewBox: `0 0 ${across} 44` });
    set(this.places, { text: `one bar per text${waiting ? `; red: ${waiting} waiting` : ""}` });
  }

  // From the start, or from where it was paused; without motion at once to the end.
  play() {
    if (this.running) this.running = false;
    else if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.set({ at: this.end });
    else {
      this.running = true;
      if (!this.paused || this.state.at >= this.end) this.set({ at: 0 });
      let last = performance.now();
      const frame = (now) => {
        if (!this.running || !this.isConnected) return;
        this.tick(clamp((now - last) / 1000, 0, 0.25)); // a frame may have begun before the press
        last = now;
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    }
    this.paused = !this.running;
    this.redraw();
  }

  // So many seconds pass.
  tick(seconds) {
    const at = Math.min(this.end, this.state.at + seconds);
    if (at === this.end) this.running = this.paused = false;
    this.set({ at });
  }

  reset() {
    this.running = this.paused = false;
    super.reset();
  }

  tell(now) {
    const { b, draft, load, at, machine } = this.state;
    const B = 2 ** b;
    const texts = plural(now.rows ?? B, "text");
    if (!now.fits) {
      const has = `one ${machine} has ${bytes(this.numbers.machines[machine].memory)}`;
      return `Weights and caches of ${texts} need ${bytes(now.moved)}, ${has}: nothing is written.`;
    }
    const plain = draft === "none";
    const waits = now.reading > now.computing ? "memory" : "arithmetic";
    const said = [
      `A ${plain ? "step" : "check"} for ${texts} reads ${bytes(now.moved)} and ` +
        `waits for ${waits}.`,
    ];
    if (!plain) said.push(this.drafted(now));
    const all = B > 1 && plain ? `, all ${B} have ${whole(B * now.written)}` : "";
    if (load) {
      said.push(`Your first token comes after ${secs(now.first)}; median ${secs(now.median)}.`);
    } else said.push(`After ${secs(at)} your text has ${plural(now.written, "token")}${all}.`);
    return said.join(" ");
  }

  drafted({ guessing, gain }) {
    const { draft, load } = this.state;
    const cost = guessing ? `Three guesses take ${secs(guessing)}` : "The n-gram model takes no time";
    const mean = `a check brings ${say(N / this.brings(0).length)} tokens`;
    const fast = `${cost}, ${mean}: ${say(gain)} times as fast as without a draft.`;
    const [word] = words(this.numbers.wrong[draft], this.done - 1);
    if (!word || load) return fast;
    const chance = this.numbers.percent[draft][this.done - 1];
    return `${fast} The model gave “${word.trim()}” probability ${say(chance / 100)}.`;
  }

  static style = `
    .say { min-height: 4.4em }
    .head { display: flex; align-items: center; gap: 14px; margin-bottom: 10px }
    .head button { min-width: 78px; background: var(--d-ink); color: var(--d-paper) }
    .head b { font-size: 22px; line-height: 36px; min-width: 92px; touch-action: none;
      text-decoration: underline dotted 1px }
    .two { display: grid; grid-template-columns: minmax(0, 1fr) 280px; gap: 22px }
    .page { min-height: 12.6em; white-space: pre-wrap; margin-bottom: 8px }
    .two span, .gradient { color: var(--c) }
    .value { text-decoration: underline }
    span.muted { text-decoration: underline dotted }
    .two .gradient { text-decoration: line-through }
    i { padding: 0 4px; margin-left: 2px; background: var(--d-output) }
    .other { font-size: 13px; line-height: 22px; color: var(--d-muted); overflow: hidden;
      white-space: pre; border-top: 1px solid var(--d-surface) }
    .slots { height: 44px; margin: 4px 0 }
    .slots path, rect { fill: var(--c) }
    .slots .line { fill: var(--d-line); opacity: .35 }
    .plot text { font-size: 12px; fill: var(--d-muted) }
    tspan { fill: var(--c) }
    .roof { fill: none; stroke: var(--d-line); opacity: .6 }
    .chosen { stroke: var(--d-ink); stroke-width: 2; opacity: 1 }
    circle { fill: var(--d-paper); stroke: var(--c) }
    .here { fill: var(--c); stroke: var(--d-paper) }
    @container (max-width: 600px) { .two { grid-template-columns: 1fr } .say { min-height: 8.8em }
      .plot { max-width: 280px } .head { gap: 8px } }
    @container (max-width: 345px) { .page { min-height: 14.6em } .head { font-size: 12px } .say { min-height: 10.2em } }`;
}

define("attn-speed", Speed);
