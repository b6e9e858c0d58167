// A language model that is trained in the page: loss, gradient norm, attention, what it writes.
const NAMES = ["none", "rate", "warmup", "mask", "target"];
const TITLES = { none: "healthy", rate: "rate × 10", warmup: "no warm-up", mask: "mask off by one",
  target: "targets not shifted" };
const END = 300, MOST = 1200;
const T = 32, MAPS = ["0.0", "0.1", "1.0", "1.1"];
const nats = (x) => (x < 10 ? say(x) : say(x, 1));
const fresh = () => ({ losses: [], norms: [], looks: [], begun: false });

class TrainHere extends Explorable {
  static limits = { guess: [0, 4.2], seed: [0, 2], a: NAMES, b: ["", ...NAMES], from: [0, MOST], run: ["a", "b"] };

  build() {
    this.runs = { a: fresh(), b: fresh() };
    this.made = this.asked();
    this.fork = -1; // the step at which the worker has kept run A
    this.ids = 0;
    this.loss = svg("svg", { role: "group", "aria-label": "loss by step", class: "plot" });
    this.norm = svg("svg", { role: "img", class: "plot", "aria-label": "gradient norm by step" });
    this.writes = html("div", { class: "writes" });
    this.who = html("b");
    this.maps = MAPS.map((name) => {
      const canvas = html("canvas", { width: T, height: T, role: "img" });
      const words = html("span");
      return { name, canvas, words, box: html("div", { class: "map" }, words, canvas) };
    });
    const panel = (name, title, ...parts) => html("div", { class: `panel ${name}` }, html("p", { class: "title" }, ...title), ...parts);
    const key = html("span", { class: "key" });
    this.legend = key;
    this.picture.append(html("div", { class: "board" },
      html("div", { class: "column" },
        panel("one", [html("b", { text: "loss, nats" }), key], this.loss,
          html("p", { class: "key", text: "thin: the batch · thick: held out, with only the past given · dashed: held out, by the run’s own code" })),
        panel("four", [html("b", { text: "gradient norm" }), html("span", { class: "key", text: "above 1 it is clipped" })], this.norm)),
      html("div", { class: "column" },
        panel("two", [this.who], this.writes),
        panel("three", [html("b", { text: "attention of a row on columns" })],
          html("div", { class: "maps" }, ...this.maps.map(({ box }) => box))))));
    this.scene();
    this.press = this.button("", () => this.toggle(), { class: "strong" });
    this.pace = html("span", { class: "hint pace" });
    this.controls.append(this.pace);
    const options = NAMES.map((name) => [name, TITLES[name]]);
    this.ruins = this.choice("ruin", "ruin it", options, (ruin) => this.ruined(ruin));
    this.syncs.push(({ run }) => {
      this.ruins.querySelectorAll("input").forEach((input, n) => (input.checked = NAMES[n] === this.state[run]));
    });
    this.keys(this.ruins.querySelector(".set"), { Home: () => this.set(this.ruined("none")) });
    this.branch = this.button("Branch here", () => this.set({ b: this.state.a, from: this.runs.a.losses.length, run: "b" }),
      { title: "a second run goes on from these weights" });
    this.both = this.choice("run", "run", [["a", "A"], ["b", "B"]]);
    this.choice("seed", "seed", [0, 1, 2].map((seed) => [seed, String(seed)]));
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.watchers();
  }

  // What is chosen while run A has steps becomes a run B from the same start.
  ruined(ruin) {
    const { run, a, b } = this.state;
    if (run === "b") return { b: ruin };
    if (this.runs.a.losses.length && ruin !== a) return { b: ruin, from: 0, run: "b" };
    return b && ruin !== a ? { a: ruin, b: "", from: 0 } : { a: ruin };
  }

  watchers() {
    this.inView = true;
    new IntersectionObserver(([entry]) => {
      this.inView = entry.isIntersecting;
      this.steer();
    }).observe(this);
    document.addEventListener("visibilitychange", () => this.steer());
    const again = () => { this.ink = null; this.redraw(); };
    new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme", "theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
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

  set(patch) {
    super.set(patch);
    if (this.state.run === "b" && !this.state.b) this.state.run = "a";
    this.state.from = Math.round(this.state.from);
    const { b, from } = this.state, asked = this.asked();
    for (const name of ["a", "b"]) if (asked[name] !== this.made[name]) this.drop(name);
    // A run that is further than the branch, and was not kept there, begins anew.
    if (b && from && this.fork !== from && this.runs.a.losses.length > from) this.drop("a");
    this.made = asked;
    this.steer();
  }

  // What each run is to be: if that changes, what it was is forgotten.
  asked() {
    const { seed, a, b, from } = this.state, one = `${seed} ${a}`;
    return { a: one, b: b && `${from ? one : seed} ${from} ${b}` };
  }

  drop(name) {
    this.runs[name] = fresh();
    if (name === "a") this.fork = -1;
  }

  reset() {
    this.training = false;
    this.trouble = "";
    this.drop("a");
    this.drop("b");
    super.reset();
  }

  get active() { return this.runs[this.state.run]; }
  steps(name = this.state.run) { return this.first(name) + this.runs[name].losses.length; }
  first(name) { return name === "b" ? this.state.from : 0; }

  toggle() {
    this.training = !this.training;
    if (this.training) this.until = Math.min(MOST, END * (Math.floor(this.steps() / END) + 1));
    this.trouble = "";
    this.steer();
    this.redraw();
  }

  async awake() {
    const text = await window.attnTraining.load(this.numbers.text);
    this.worker = window.attnTraining.start();
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = () => this.fail("The training stopped with an error in this browser.");
    this.order("read", text);
  }

  fail(words) {
    this.training = false;
    this.trouble = words;
    this.redraw();
  }

  order(...what) { this.worker.postMessage(what); }

  // Gives the worker its next job, or none; only while one looks.
  steer() {
    if (!this.training || !this.inView || document.hidden) {
      if (this.sent) this.order("stop");
      this.sent = null;
      return;
    }
    if (!this.worker) {
      this.waking ??= this.awake().then(() => this.steer(), ({ message }) => {
        this.waking = null;
        this.fail(message);
      });
      return;
    }
    const { run, seed, a, b, from } = this.state, { runs } = this;
    const begin = (name, what, given) => {
      runs[name].begun = true;
      runs[name].id = this.ids += 1;
      this.order(what, { ...given, id: this.ids });
    };
    if (run === "a" || from) {
      if (!runs.a.begun) begin("a", "begin", { name: "a", seed, ruin: a });
    }
    let job = { name: run, until: this.until };
    if (run === "b" && from && this.fork !== from) {
      if (runs.a.losses.length < from) job = { name: "a", until: from };
      else {
        this.order("branch", { from: "a", to: "fork", ruin: a });
        this.fork = from;
      }
    }
    if (job.name === "b" && !runs.b.begun) {
      if (from) begin("b", "branch", { from: "fork", to: "b", ruin: b });
      else begin("b", "begin", { name: "b", seed, ruin: b });
    }
    if (run === "b" && this.until <= from) job.until = this.until = END * (Math.floor(from / END) + 1);
    const sent = `${runs[job.name].id} ${job.until}`;
    if (this.sent === sent) return;
    this.sent = sent;
    this.order("train", job);
  }

  hear({ name, id, found, took, look, done }) {
    const run = this.runs[name];
    if (!run || run.id !== id) return; // of a run that was dropped meanwhile
    if (found) {
      for (let i = 0; i < found.length; i += 2) {
        run.losses.push(found[i]);
        run.norms.push(found[i + 1]);
      }
      const now = found.length / 2 / (took / 1000);
      this.speed = this.speed ? 0.8 * this.speed + 0.2 * now : now;
    }
    if (look) run.looks.push(look);
    if (done !== undefined && this.sent === `${id} ${done}`) {
      this.sent = null;
      if (name === this.state.run && done >= this.until) this.training = false;
      this.steer();
    }
    if (look || done !== undefined || !this.still) this.redraw();
  }

  compute() {
    const { run } = this.state, { active } = this;
    return { run, step: this.steps(), look: active.looks.at(-1) ?? null, loss: active.losses.at(-1) ?? null,
      norm: active.norms.at(-1) ?? null };
  }

  redraw() {
    this.known = null;
    super.redraw();
  }

  // ------------------------------------------------------------------ the picture

  scene() {
    const into = (place) => (name, attributes) => place.appendChild(svg(name, attributes));
    const [loss, norm] = [into(this.loss), into(this.norm)];
    this.marks = loss("g");
    this.ghost = loss("path", { class: "ghost position" });
    this.lines = {};
    for (const name of ["a", "b"]) {
      const role = name === "a" ? "output" : "gradient";
      this.lines[name] = {
        batch: loss("path", { class: `batch ${role}` }), used: loss("path", { class: `used ${role}` }),
        own: loss("path", { class: `own ${role}` }), dot: loss("circle", { r: 4, class: `dot ${role}` }),
        letter: loss("text", { class: `letter ${role}`}),
        norm: norm("path", { class: `batch norm ${role}` }),
      };
    }
    this.normMarks = norm("g");
    this.handle = loss("g", { class: "handle position" });
    this.handle.append(svg("circle", { r: 22, class: "reach" }), svg("path", { d: "M0 -9L9 0L0 9L-9 0z" }),
      svg("path", { class: "way", d: "M-5 -13L0 -18L5 -13M-5 13L0 18L5 13" }));
    const to = (guess) => !this.fixed && this.set({ guess: snap(clamp(guess, 0, 4.2), 0.05) });
    const by = (n) => () => to(this.state.guess + n * 0.05);
    this.keys(this.handle, { ArrowUp: by(1), ArrowRight: by(1), ArrowDown: by(-1), ArrowLeft: by(-1),
      PageUp: by(10), PageDown: by(-10), Home: () => !this.fixed && this.set({ guess: this.start.guess }) });
    this.drag(this.handle, () => {
      const begin = this.state.guess, scale = this.loss.getBoundingClientRect().width / this.W;
      const unit = Math.abs(this.y(1) - this.y(0)) * scale;
      return (_, dy) => to(begin - dy / unit);
    });
    set(this.handle, { tabindex: 0, role: "slider", "aria-orientation": "vertical", "aria-valuemin": 0,
      "aria-valuemax": 4.2, "aria-label": `your guess of the loss after ${END} steps` });
    this.syncs.push(({ guess }) => set(this.handle, { "aria-valuenow": guess, "aria-valuetext": `${say(guess)} nats`,
      "aria-disabled": String(this.fixed) }));
  }

  // Once there is a run the guess stays.
  get fixed() { return this.runs.a.losses.length + this.runs.b.losses.length > 0; }

  lay() {
    const { wide } = this;
    this.W = wide ? 400 : 350;
    [this.left, this.right, this.high, this.foot] = wide ? [26, 318, 8, 300] : [24, 262, 8, 196];
    this.deep = wide ? 128 : 76;
    set(this.loss, { viewBox: `0 0 ${this.W} ${this.foot + 20}` });
    set(this.norm, { viewBox: `0 0 ${this.W} ${this.deep + 20}` });
  }

  marked(top, span) {
    const { left, right, x, y } = this, { chance, unigram, bigram } = this.numbers;
    const key = [top, span, this.wide].join();
    if (key === this.marksKey) return;
    this.marksKey = key;
    const parts = [], text = (x, y, words, look = "tick", anchor = "end") =>
      parts.push(svg("text", { x, y, text: words, class: look, "text-anchor": anchor }));
    const line = (d, look) => parts.push(svg("path", { d, class: look }));
    line(`M${left} ${y(0)}H${right}`, "hair");
    const step = top > 9 ? 4 : top > 5 ? 2 : 1;
    for (let v = 0; v <= top; v += step) text(left - 6, y(v) + 4, v);
    for (let s = 0; s <= span; s += span / 3) text(clamp(x(s), 0, right - 8), y(0) + 16, s, "tick", s ? "middle" : "start");
    let last = -99;
    for (const [value, words] of [[chance, `ln ${this.numbers.V}`], [unigram, "unigram"], [bigram, "bigram"]]) {
      line(`M${left} ${y(value)}H${right}`, "base");
      last = Math.max(y(value) + 4, last + 13);
      text(right + 12, last, `${words} ${say(value)}`, "tick", "start");
    }
    this.marks.replaceChildren(...parts);
  }

  draw() {
    const { a, b } = this.runs, { run, guess, from } = this.state;
    const all = [a, b].flatMap(({ losses, looks }) => [...losses, ...looks.flatMap(({ own, used }) => [own, used])]);
    const most = all.reduce((x, y) => Math.max(x, Math.min(y, 99)), 0), top = most < 4.8 ? 4.6 : most < 9 ? 9 : 18;
    const span = END * Math.max(1, Math.ceil(Math.max(this.steps("a"), this.state.b ? this.steps("b") : 0) / END));
    this.x = linear(0, span, this.left, this.right);
    const y = linear(0, top, this.foot, this.high);
    this.y = (value) => y(Math.min(value, top));
    const g = linear(-1, 2, this.deep, 8);
    this.marked(top, span);
    for (const [name, one] of Object.entries(this.runs)) {
      const { batch, used, own, dot, letter, norm } = this.lines[name], first = this.first(name);
      const points = (list, height) => (list.length ? path(list.map((v, i) => [this.x(first + i), height(v)])) : "");
      const seen = (what) => one.looks.map((look) => [this.x(look.step), this.y(look[what])]);
      const look = `${name !== run ? " pale" : ""}`;
      set(batch, { d: points(one.losses, this.y), class: `batch ${name === "a" ? "output" : "gradient"}${look}` });
      set(used, { d: one.looks.length ? path(seen("used")) : "", class: `used ${name === "a" ? "output" : "gradient"}${look}` });
      const leaks = ["mask", "target"].includes(this.state[name]);
      set(own, { d: leaks && one.looks.length ? path(seen("own")) : "" });
      set(norm, { d: points(one.norms, (v) => g(Math.log10(clamp(v, 0.1, 100)))),
        class: `batch norm ${name === "a" ? "output" : "gradient"}${look}` });
      const [cx, cy] = seen("used").at(-1) ?? [0, 0];
      set(dot, { cx, cy, visibility: cx ? "visible" : "hidden" });
      set(letter, { x: cx + 7, y: Math.max(cy + 4, 14), text: cx && this.state.b ? name.toUpperCase() : "" });
    }
    const gx = this.x(END), gy = this.y(guess);
    set(this.handle, { transform: `translate(${gx} ${gy})`, class: `handle position${this.fixed ? " fixed" : ""}` });
    set(this.ghost, { d: `M${this.left} ${gy}H${gx}` });
    this.axes(g, span);
    this.shown(this.active.looks.at(-1));
    this.press.textContent = this.training ? "Pause" : !this.active.losses.length ? this.worker ? "Train" : this.numbers.load
      : this.steps() < MOST ? "Train on" : "Trained";
    this.press.disabled = !this.training && this.steps() >= MOST;
    this.branch.disabled = !a.losses.length || run === "b" || a.losses.length >= MOST;
    set(this.both, { hidden: !this.state.b });
    const at = this.steps();
    set(this.pace, { text: at ? `step ${at}${this.training && this.speed ? ` · ${say(this.speed, this.speed < 9.5 ? 1 : 0)} a second` : ""}` : "" });
    const B = this.state.b ? ` · B: ${TITLES[this.state.b]}${from ? ` from ${from}` : ""}` : "";
    set(this.legend, { text: this.state.b ? `A: ${TITLES[this.state.a]}${B}` : "" });
  }

  axes(g, span) {
    const key = `${span} ${this.wide}`;
    if (key === this.normKey) return;
    this.normKey = key;
    const parts = [svg("path", { d: `M${this.left} ${g(-1)}H${this.right}`, class: "hair" }),
      svg("path", { d: `M${this.left} ${g(0)}H${this.right}`, class: "base" })];
    for (const [p, text] of [[-1, ".1"], [0, "1"], [1, "10"], [2, "100"]])
      parts.push(svg("text", { x: this.left - 6, y: g(p) + 4, text, class: "tick", "text-anchor": "end" }));
    for (let s = 0; s <= span; s += span / 3)
      parts.push(svg("text", { x: clamp(this.x(s), 0, this.right - 8), y: this.deep + 16, text: s, class: "tick", "text-anchor": s ? "middle" : "start" }));
    this.normMarks.replaceChildren(...parts);
  }

  // What the model writes and where its heads look, at the last look.
  shown(look) {
    const who = this.state.b ? `run ${this.state.run.toUpperCase()}` : "it";
    set(this.who, { text: look ? `what ${who} writes, step ${look.step}` : "what it writes" });
    set(this.writes, { text: look ? look.text : "Nothing yet: press Train, and it writes again every 20 steps.",
      class: look ? "writes" : "writes none" });
    const colour = (role) => getComputedStyle(this).getPropertyValue(role).trim().match(/\w\w/g).map((x) => parseInt(x, 16));
    this.ink ??= ["--d-weight", "--d-surface"].map(colour);
    const key = `${look?.step} ${this.state.run} ${this.active.id} ${this.ink}`;
    if (key === this.mapKey) return;
    this.mapKey = key;
    this.maps.forEach(({ name, canvas, words }, n) => {
      const pen = canvas.getContext("2d"), picture = pen.createImageData(T, T), [ink, ground] = this.ink;
      const at = (t, s) => (look ? look.looks[(n * T + t) * T + s] : 0);
      const by = [-1, 1].map((way) => {
        let sum = 0;
        for (let t = 1; t < T - 1; t += 1) sum += at(t, t + way);
        return sum / (T - 2);
      });
      for (let t = 0; t < T; t += 1)
        for (let s = 0; s < T; s += 1) {
          const share = Math.sqrt(at(t, s)), to = 4 * (t * T + s);
          if (s > t && !share) continue;
          for (let i = 0; i < 3; i += 1) picture.data[to + i] = ground[i] + (ink[i] - ground[i]) * share;
          picture.data[to + 3] = 255;
        }
      pen.putImageData(picture, 0, 0);
      const [before, after] = by, next = after > 0.005;
      set(words, { text: `${name}${look ? ` · ${num(next ? after : before)} ${next ? "next" : "prev."}` : ""}` });
      set(canvas, { "aria-label": `attention of head ${name}: ${num(before)} on the character before, ${num(after)} on the next` });
    });
  }

  // ------------------------------------------------------------------ the sentence

  tell() {
    const { numbers } = this, { guess, run, from } = this.state, look = this.active.looks.at(-1);
    if (this.trouble) return this.trouble;
    const ruin = this.state[run], name = this.state.b ? `Run ${run.toUpperCase()}` : "The model";
    if (!look) {
      if (this.training) return this.worker ? `Training towards step ${this.until} …` : "Loading the text …";
      if (this.state.b) return `${name}: ${TITLES[ruin]}${from ? ` from step ${from} of run A on` : ", from the same start"}. Press Train, and compare.`;
      return `Untrained, it gives each of ${numbers.V} characters the same chance: ln ${numbers.V} = ${say(numbers.chance)} nats. ` +
        `A table of pairs has ${say(numbers.bigram)}. Drag the diamond to your guess of the loss after ${END} steps, then train.`;
    }
    const { step, used, own } = look, at = `${name} after ${step} steps: held-out loss ${nats(used)} nats`;
    if (ruin === "mask") return `${name} after ${step} steps: ${nats(own)} nats on held-out text, ${own < numbers.bigram - 0.6 ? "too good to be true" : "still plausible"}; ` +
      `without it, given only the prefix, ${nats(used)}. Its heads look at the next character (right of the diagonal).`;
    if (ruin === "target") return `${name} after ${step} steps: ${nats(own)} nats, since it need only copy; for the next character ${nats(used)}. ` +
      "It writes one letter again and again.";
    const beside = used < numbers.bigram ? `below the table of pairs, ${say(numbers.bigram)}` : used < numbers.unigram
      ? `between single characters, ${say(numbers.unigram)}, and pairs, ${say(numbers.bigram)}` : `no better than the frequencies of single characters, ${say(numbers.unigram)}`;
    const other = this.runs[run === "a" ? "b" : "a"].looks.findLast((one) => one.step <= step && one.step >= step - 20);
    const compared = this.state.b && other ? ` Run ${run === "a" ? "B" : "A"} had ${nats(other.used)} there.` : "";
    const sign = { none: "", rate: " Each step throws the weights about.", warmup: " The first steps had full length." }[ruin];
    const verdict = step >= END && ruin === "none" && !this.state.b && guess !== this.start.guess
      ? ` You guessed ${say(guess)}.` : "";
    const next = step >= END && !this.training && !this.state.b ? " Now ruin it, or branch." : "";
    return `${at}, ${beside}.${sign}${verdict}${compared}${next}`;
  }

  static style = `
    .board { display: flex; gap: 18px }
    .column { display: flex; flex-direction: column; gap: 10px; flex: 1.55; min-width: 0 } .column + .column { flex: 1 }
    .title { display: flex; flex-wrap: wrap; gap: 0 12px; justify-content: space-between; font-size: 13px; margin-bottom: 4px }
    .title b { font-weight: 650 } .key { color: var(--d-muted); font-size: 12px }
    .writes { font: 12.5px/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre-wrap;
      background: var(--d-surface); border-radius: 6px; padding: 8px 10px; height: 13.4em; overflow: hidden; overflow-wrap: anywhere }
    .none { color: var(--d-muted); font-family: inherit; white-space: normal }
    .maps { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 8px }
    .map span { font-size: 12px; color: var(--d-weight); white-space: nowrap }
    canvas { display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated;
      border: 1px solid color-mix(in srgb, var(--d-line) 40%, transparent); border-radius: 3px }
    .plot .tick { font-size: 12px; fill: var(--d-muted); paint-order: stroke; stroke: var(--d-paper); stroke-width: 3px }
    .hair { stroke: var(--d-line); opacity: .6; fill: none }
    .base { stroke: var(--d-muted); stroke-dasharray: 3 3; opacity: .8; fill: none }
    .batch { fill: none; stroke: var(--c); stroke-width: 1.1; opacity: .55; stroke-linejoin: round } .norm { opacity: .9 }
    .used { fill: none; stroke: var(--c); stroke-width: 2.6; stroke-linejoin: round }
    .own { fill: none; stroke: var(--c); stroke-width: 1.4; stroke-dasharray: 5 3 }
    .pale { opacity: .4 }
    .dot { fill: var(--c); stroke: var(--d-paper); stroke-width: 1.5 }
    .plot .letter { fill: var(--c); font-weight: 650; font-size: 13px }
    .ghost { stroke: var(--c); stroke-width: 1.6; stroke-dasharray: 7 4; opacity: .75; fill: none }
    .handle { cursor: ns-resize; touch-action: none; fill: var(--c); stroke: var(--d-paper); stroke-width: 1.5 }
    .handle .way { fill: none; stroke: var(--c); stroke-width: 2 } .fixed { cursor: default } .fixed .way { display: none }
    .reach { fill: transparent; stroke: none }
    .strong { background: var(--d-ink); color: var(--d-paper); min-width: 7em }
    .pace { min-width: 11em }
    [hidden] { display: none !important }
    .say { min-height: 4.4em }
    @container (max-width: 560px) {
      .board { flex-direction: column; gap: 8px } .column { display: contents } .four { order: 1 }
      .maps { grid-template-columns: repeat(4, 1fr); gap: 4px } .map span { font-size: 11px }
      .writes { height: 9.6em }
      .say { min-height: 7.4em }
      .set span { padding: 0 8px }
    }`;
}

define("attn-train-here", TrainHere);
