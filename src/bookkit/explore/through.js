// Through the model: a line of text on its way to the next token, and every weight it meets.
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const MOST = 24; // tokens of a line
const GOES = 24; // tokens that it goes on
const POOL = 16, STRONG = 4; // as in through.py
const FOUR = [0, 1, 2, 3];
const STOPS = 9;
const EXAMPLE = { was: "The class Zembla is new. An instance of Zem", text: "The class Zemzla is new. An instance of Zem" };
const HINTS = {
  words: "A cell shows the token that its stream would say if it were read out there, the surer the fuller its colour. Touch anything.",
  changes: "The more a stream has changed, the more it glows; what is grey is as it was, to the last digit.",
  effects: "Per cent of the old answer that come back when the old stream is put into this cell alone.",
};
const NAMES = { qkv: "queries, keys, values", out: "output map", gate: "gate", up: "up", down: "down" };
const shown = (word) => word.replaceAll("\n", "↵").replaceAll(" ", "␣");
const quoted = (word) => `“${word.trim() || shown(word)}”`;
const share = (x) => (x < 0.0005 ? "under .001" : num(x, x < 0.01 ? 3 : 2));
const levels = (text) => [...text].map((letter) => LETTERS.indexOf(letter) / 63);
const some = (x) => (Math.abs(x) >= 10 ? num(x, 1) : Math.abs(x) < 0.005 && x ? x.toFixed(4).replace("0.", ".").replace("-", "−") : num(x));
const rows = (count) => `${count} row${count === 1 ? "" : "s"}`;
const large = (x) => (x < 1000 ? num(x) : Math.round(x).toLocaleString("en"));
const part = (k) => `the ${k % 2 ? "network" : "attention"} of block ${k >> 1}`;
const named = (off) => off.map((name) => (name.endsWith("network") ? `network ${name[0]}`
  : /^\d/.test(name) ? `head ${name}` : name)).join(", ");
const top = (chances, count) =>
  [...chances.keys()].sort((a, b) => chances[b] - chances[a]).slice(0, count);

// What is shown of a line, as it is stored, or computed from the weights.
class StoredRun {
  constructor(numbers) {
    this.numbers = numbers;
    this.tokens = numbers.tokens;
    this.words = this.tokens.map((token) => numbers.words[token]);
  }
  pairs(rows) { return rows.map(([token, chance]) => [this.numbers.words[token], chance]); }
  says(s, t) { return this.pairs([this.numbers.says[s][t]])[0]; }
  size(s, t) { return this.numbers.sizes[s][t]; }
  raises(k, t) { return this.pairs(this.numbers.raises[k][t]); }
  next(t) { return this.pairs(this.numbers.next[t]); }
  looks(l, h, t) { return levels(this.numbers.looks[l][h][t]); }
  hidden(l, t) { return levels(this.numbers.hidden[l][t]); }
}

class LiveRun {
  constructor(model, off) {
    Object.assign(this, { model, off: new Set(off), rows: [], tokens: [], caches: model.caches() });
  }
  // Only from the first token that differs: what stands before it cannot know.
  read(tokens) {
    let same = 0;
    while (same < tokens.length && tokens[same] === this.tokens[same]) same += 1;
    this.rows.length = same;
    for (const { keys, values } of this.caches) keys.length = values.length = same;
    const { softmax, normed } = window.attnEngine;
    for (const token of tokens.slice(same)) {
      const t = this.rows.length;
      const logits = this.model.step(token, this.caches, this.off, this.put && ((s) => this.put(s, t)));
      const { trace } = this.model;
      trace.chances = trace.stream.map((x, s) =>
        softmax(s < trace.stream.length - 1 ? this.model.lens(x, this.off) : logits));
      trace.last = normed(trace.stream.at(-1), this.model.gain, this.off.has("norms"));
      this.rows.push(trace);
    }
    this.tokens = tokens;
    this.words = tokens.map((token) => this.model.word(token));
    return this;
  }
  // The same from token t on, with put(s, t) in place of the stream wherever it gives one.
  forked(t, put) {
    const fork = Object.assign(new LiveRun(this.model, this.off), { put,
      rows: this.rows.slice(0, t), tokens: this.tokens.slice(0, t) });
    fork.caches = this.caches.map(({ keys, values }) => ({ keys: keys.slice(0, t), values: values.slice(0, t) }));
    return fork;
  }
  // The last logits with one stream put in, and nothing else kept.
  logitsWith(t, s, x) {
    const { caches } = this.forked(t);
    let logits;
    this.tokens.slice(t).forEach((token, n) => {
      logits = this.model.step(token, caches, this.off, (at) => (!n && at === s ? x : null));
    });
    return logits;
  }
  pairs(chances, count) { return top(chances, count).map((n) => [this.model.word(n), chances[n], n]); }
  says(s, t) { return this.pairs(this.rows[t].chances[s], 1)[0]; }
  size(s, t) { return window.attnEngine.size(this.rows[t].stream[s]); }
  raises(k, t) {
    const [before, after] = this.rows[t].chances.slice(k, k + 2);
    return this.pairs(after.map((chance, n) => chance - before[n]), 5);
  }
  next(t) { return this.pairs(this.rows[t].chances.at(-1), 8); }
  looks(l, h, t) { return this.rows[t].parts[l].looks[h]; }
  hidden(l, t) { return Array.from(this.rows[t].parts[l].hidden, (x) => Math.min(1, Math.abs(x) / STRONG)); }
}

class Through extends Explorable {
  static limits = { token: [-1, MOST - 1], stop: [0, STOPS], view: ["words", "changes", "effects"] };

  build() {
    this.stored = new StoredRun(this.numbers.stored);
    this.runs = new Map();
    this.camera = { x: 0, y: 0, z: 1 };
    this.cursor = null; // the stage at which the keyboard is
    this.line = html("input", { type: "text", class: "line", readonly: true, maxlength: 90,
      "aria-label": "the line that is read", spellcheck: "false", autocomplete: "off" });
    set(this.line, {
      onfocus: () => (this.before = this.state.text),
      oninput: () => this.typed(),
      onkeydown: (event) => event.key !== "Escape" && event.stopPropagation(),
    });
    this.load = html("button", { type: "button", class: "load", text: this.numbers.load,
      onclick: () => this.fetchModel() });
    this.canvas = html("canvas", { tabindex: 0, role: "application", "aria-label": "The model as a " +
      "picture. Arrows up and down choose a token, left and right a part, Enter goes closer, plus and " +
      "minus zoom, 0 shows all; close up, arrows move the picture." });
    this.goes = html("p", { class: "goes" });
    this.hint = html("p", { class: "hint" });
    this.picture.append(html("div", { class: "top" }, this.line, this.load), this.canvas, this.hint, this.goes);
    this.pointers = new Map();
    set(this.canvas, {
      onpointerdown: (event) => this.down(event), onpointermove: (event) => this.move(event),
      onpointerup: (event) => this.up(event), onpointercancel: (event) => this.up(event),
      onpointerleave: ({ pointerType }) => pointerType === "mouse" && !this.pointers.size && this.point(null),
      ondblclick: (event) => this.zoom(3, this.spot(event)),
      onkeydown: (event) => this.key(event),
      onblur: () => { this.cursor = null; this.point(null); },
    });
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !this.big) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), this.spot(event));
    }, { passive: false });
    this.button("← Back", () => this.step(-1), { class: "back" });
    this.ahead = this.button("Next step →", () => this.step(1), { class: "strong" });
    const zooms = html("div", { class: "control", role: "group", "aria-label": "zoom" });
    this.controls.append(zooms);
    this.button("−", () => this.zoom(0.5), { "aria-label": "further away" }, zooms);
    this.button("+", () => this.zoom(2), { "aria-label": "closer" }, zooms);
    this.button("All", () => this.fly(null), {}, zooms);
    this.larger = this.button("Enlarge", () => this.enlarge(!this.big));
    this.views = this.choice("view", "cells show", [["words", "words"], ["changes", "change"], ["effects", "cause"]]);
    this.example = this.button("Try Zembla → Zemzla", () => this.set({ ...EXAMPLE, view: "changes", token: -1, stop: 0, put: [] }),
      { title: "one letter changed" });
    this.writes = this.button("", () => this.add());
    this.parts = html("details", { class: "parts" }, html("summary", { text: "Switch parts off" }),
      html("p", { class: "hint", text: "The line goes on without them, and mostly worse: compare below the picture." }));
    const table = html("div", { class: "switches" });
    for (const l of FOUR) {
      const column = html("div", { role: "group", "aria-label": `block ${l}` },
        html("span", { class: "hint", text: `block ${l}` }));
      for (const h of FOUR) this.toggle(`${l}.${h}`, `head ${l}.${h}`, column);
      this.toggle(`${l}.network`, "network", column);
      table.append(column);
    }
    const both = html("div", { class: "control" });
    this.toggle("rotary", "rotary positions", both);
    this.toggle("norms", "norms", both);
    this.parts.append(table, both);
    this.controls.append(this.parts);
    const again = () => { this.ink = this.bitmaps = null; this.redraw(); };
    new ResizeObserver(() => this.redraw()).observe(this);
    new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme", "theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  }

  toggle(name, words, parent) {
    const flip = () => {
      const off = this.state.off.filter((other) => other !== name);
      this.set({ off: off.length < this.state.off.length ? off : [...off, name].sort() });
    };
    const node = this.button(words, flip, {}, parent);
    this.syncs.push(() => set(node, { "aria-pressed": String(this.state.off.includes(name)), disabled: !this.model }));
  }

  // What an address asks for must be possible.
  set(patch) {
    const known = /^([0-3]\.([0-3]|network)|rotary|norms)$/;
    if (patch.off?.some((name) => !known.test(name))) throw new RangeError("no such part");
    if (patch.put?.some((cell) => !/^(1?\d|2[0-3])\.[0-8]$/.test(cell))) throw new RangeError("no such cell");
    for (const text of [patch.text, patch.was]) if (text?.length > 400) throw new RangeError("too long");
    if (patch.view || patch.text || patch.off) this.explained = this.pointed = null;
    super.set(patch);
  }

  reset() {
    this.explained = this.pointed = null;
    super.reset();
    this.fly(null);
  }

  async fetchModel() {
    set(this.load, { disabled: true, text: "Loading …" });
    try {
      this.model = await window.attnEngine.load(this.numbers.model);
    } catch (trouble) {
      set(this.load, { disabled: false, text: "Try again" });
      this.explained = () => trouble.message;
      return this.redraw();
    }
    const focused = this.shadowRoot.activeElement === this.load;
    this.load.remove();
    set(this.line, { readonly: false });
    if (focused) this.line.focus();
    this.known = this.explained = null;
    this.redraw();
  }

  encoded(text) { return this.model.encode(text).slice(0, MOST); }

  typed() {
    const text = this.line.value.replaceAll("↵", "\n");
    const none = !this.model.encode(text).length;
    set(this.line, { "aria-invalid": String(none) });
    this.explained = none ? () => "Write at least one letter." : null;
    if (none) return this.redraw();
    const same = text === this.before;
    this.set({ text, token: -1, stop: 0, put: [], was: same ? "" : this.before, view: same ? "words" : "changes" });
  }

  add() {
    const word = this.result.next(this.result.tokens.length - 1)[0][0], { off } = this.state;
    const whole = word === "\\x" ? [...this.continued(off)][0] : word; // no text ends in half a letter
    this.set({ text: this.state.text + whole, token: -1, was: "", put: [], view: "words" });
  }

  run(text, off) {
    const key = off.join() + (text === this.state.was ? "was" : "");
    if (!this.runs.has(key)) {
      if (this.runs.size > 6) this.runs.clear();
      this.runs.set(key, new LiveRun(this.model, off));
    }
    return this.runs.get(key).read(this.encoded(text));
  }

  compute({ text, off, put }) {
    if (!this.model) return this.stored;
    const now = this.run(text, off), old = this.old(now);
    const from = Math.min(...put.map((cell) => parseInt(cell, 10)));
    if (!old || from >= now.tokens.length) return now;
    const back = (s, t) => (put.includes(`${t}.${s}`) ? old.rows[t].stream[s] : null);
    return now.forked(from, back).read(now.tokens);
  }

  // The run before the change, if it has as many tokens.
  old(now) {
    const old = this.model && this.state.was ? this.run(this.state.was, this.state.off) : null;
    return old?.tokens.length === now.tokens.length ? old : null;
  }

  // How far an answer is on the way from the new one back to the old one, which the change took.
  swing() {
    const now = this.run(this.state.text, this.state.off), old = this.old(now);
    if (!old) return null;
    const [after, before] = [now, old].map((run) => run.rows.at(-1).logits);
    const [a, b] = [before, after].map((logits) => top(logits, 1)[0]);
    const by = (logits) => logits[a] - (a === b
      ? Math.log(logits.reduce((sum, z) => sum + Math.exp(z), 0)) : logits[b]);
    const back = (logits) => (by(logits) - by(after)) / (by(before) - by(after));
    return { now, old, a, b, back, words: [a, b].map((token) => quoted(this.model.word(token))) };
  }

  // What each cell alone would bring back: computed one after the other while one looks.
  effects() {
    const { text, was, off } = this.state, key = JSON.stringify([text, was, off, this.L.wide]);
    if (this.found?.key === key) return this.found.shares;
    const found = (this.found = { key, shares: new Map() }), swing = this.swing();
    if (!swing) return found.shares;
    const { now, old, back } = swing;
    const first = now.tokens.findIndex((token, t) => token !== old.tokens[t]);
    const todo = now.tokens.flatMap((_, t) => (t < first ? [] : this.L.stages.map((s) => [t, s]))).reverse();
    const some = () => {
      if (this.found !== found || this.state.view !== "effects") { this.found = null; return; }
      for (const until = performance.now() + 40; todo.length && performance.now() < until;) {
        const [t, s] = todo.shift();
        const same = now.rows[t].stream[s].every((x, i) => x === old.rows[t].stream[s][i]);
        found.shares.set(`${t}.${s}`, same ? 0 : back(now.logitsWith(t, s, old.rows[t].stream[s])));
      }
      if (todo.length) setTimeout(some);
      else found.done = true;
      this.redraw();
    };
    setTimeout(some);
    return found.shares;
  }

  putBack({ t, s }) {
    const cell = `${t}.${s}`, put = this.state.put.filter((other) => other !== cell);
    this.set({ put: put.length < this.state.put.length ? put : [...put, cell].sort() });
  }

  get chosen() {
    const last = this.result.tokens.length - 1;
    return this.state.token < 0 ? last : Math.min(last, this.state.token);
  }

  // How it goes on, always the likeliest; whole, and without what is switched off.
  continued(off) {
    const { model } = this;
    const key = this.state.text + off;
    this.kept ??= new Map();
    if (!this.kept.has(key)) {
      const caches = model.caches(), left = new Set(off);
      let logits;
      const words = [];
      for (const token of this.encoded(this.state.text)) logits = model.step(token, caches, left);
      for (let n = 0; n < GOES; n += 1) {
        const token = logits.indexOf(Math.max(...logits));
        words.push(token);
        if (n + 1 < GOES) logits = model.step(token, caches, left);
      }
      if (this.kept.size > 9) this.kept.clear();
      this.kept.set(key, model.decode(words));
    }
    return this.kept.get(key);
  }

  // ---- where everything stands, in units of the picture at rest ----
  lay() {
    const room = this.picture.clientWidth || 672;
    const wide = room >= 540;
    const T = this.result.tokens.length, W = wide ? 672 : 352;
    const h = clamp(264 / T, 15, 22), first = 26;
    const end = first + Math.max(11, T) * h, y = end + 32;
    const words = y + 60, count = wide ? 5 : 4;
    const bars = wide ? first : words + count * 14 + 12;
    const low = wide ? words + count * 14 + 18 : bars + 96;
    const s = wide ? 0.128 : 0.0905;
    const H = low + 1124 * s + 6;
    const place = (x, y, w, h) => ({ x, y, w, h });
    const cell = (s) => {
      if (!s) return wide ? [72, 44] : [50, 46];
      const l = (s - 1) >> 1;
      return wide ? [138 + l * 110 + ((s - 1) % 2) * 45, 43] : [112 + l * 61, 46];
    };
    const box = (k) => {
      const x = wide ? cell(k + 1)[0] : 100 + (k >> 1) * 61 + (k % 2) * 30;
      return place(x, y + 16, wide ? 43 : 27, 30);
    };
    const block = (l) => (wide ? 121 + l * 110 : 276 * s + l * 835 * s);
    const matrices = [];
    const matrix = (name, l, x, y, rows, columns, turned, more = {}) => matrices.push({
      name, l, rows, columns, turned, n: matrices.length,
      ...place(x, y, (turned ? rows : columns) * s, (turned ? columns : rows) * s), ...more });
    matrix("table", -1, wide ? 77 : 0, low + 16 * s, 1024, 256, false);
    for (const l of FOUR) {
      const [x, y] = [block(l), low];
      matrix("qkv", l, x + 16 * s, y + 16 * s, 512, 256, true);
      matrix("out", l, x + 540 * s, y + 16 * s, 256, 256, false);
      matrix("gate", l, x + 16 * s, y + 300 * s, 640, 256, true);
      matrix("up", l, x + 16 * s, y + 584 * s, 640, 256, true);
      matrix("down", l, x + 16 * s, y + 868 * s, 256, 640, false);
    }
    matrix("output", 4, wide ? 584 : W - 272 * s, low + 16 * s, 1024, 256, false);
    let base = room / W;
    if (this.big) base = Math.min(base, Math.max(0.6, (innerHeight - (this.clientWidth < 1000 ? 330 : 190)) / H));
    return { wide, W, H, T, h, first, end, y, words, count, bars, low, s, cell, box, base, matrices,
      stages: wide ? [0, 1, 2, 3, 4, 5, 6, 7, 8] : [0, 2, 4, 6, 8],
      row: (t) => first + t * h, place };
  }

  // ---- drawing ----
  colours() {
    const style = getComputedStyle(this);
    const names = "ink muted line paper surface cell query key value weight output gradient output-fill output-reach";
    this.ink = Object.fromEntries(names.split(" ").map((name) => [name, style.getPropertyValue(`--d-${name}`).trim()]));
    return this.ink;
  }

  draw(run) {
    const L = (this.L = this.lay());
    const ink = this.ink ?? this.colours();
    const dots = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(L.W * L.base), Math.round(L.H * L.base)];
    const { canvas } = this;
    if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
      Object.assign(canvas, { width: Math.round(width * dots), height: Math.round(height * dots) });
      Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    }
    this.bound();
    const { x, y, z } = this.camera;
    canvas.style.touchAction = z > 1 ? "none" : "pan-y";
    canvas.style.cursor = z > 1 ? "grab" : "default";
    const scale = (this.scale = L.base * z);
    const c = (this.c = canvas.getContext("2d"));
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.fillStyle = ink.paper;
    c.fillRect(0, 0, canvas.width, canvas.height);
    c.setTransform(dots * scale, 0, 0, dots * scale, -x * dots * scale, -y * dots * scale);
    c.textBaseline = "middle";
    set(this.hint, { text: HINTS[this.model ? this.state.view : "words"] });
    this.views.hidden = !(this.model && this.state.was);
    this.example.hidden = !this.model || !!this.state.was;
    this.writes.hidden = !this.model;
    this.writes.disabled = run.tokens.length >= MOST;
    set(this.writes, { text: `Add ${quoted(run.next(run.tokens.length - 1)[0][0])}` });
    set(this.ahead, { text: this.state.stop ? `Next step ${this.state.stop}/${STOPS} →` : "Next step →" });
    if (this.shadowRoot.activeElement !== this.line) this.line.value = this.state.text.replaceAll("\n", "↵");
    this.grid(run, L);
    this.bars(run, L);
    this.band(run, L);
    this.weights(run, L);
    this.lit(L);
    this.tellOn();
  }

  // Letters are set in pixels of the screen: far below one unit they would run together.
  type(size, bold) {
    const px = size * this.L.base * Math.min(this.camera.z, 2.4);
    this.c.font = `${bold ? "650 " : ""}${px}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
    return px / this.scale;
  }

  write(text, x, y) {
    const { c, camera, scale } = this, world = c.getTransform(), dots = window.devicePixelRatio || 1;
    c.setTransform(dots, 0, 0, dots, 0, 0);
    c.fillText(text, (x - camera.x) * scale, (y - camera.y) * scale);
    c.setTransform(world);
    c.globalAlpha = 1;
  }

  wide(text) { return this.c.measureText(text).width / this.scale; }

  // Words in a room: smaller first, then cut.
  words(text, x, y, { size = 12, colour = this.ink.ink, align = "left", room = 0, bold = false, alpha = 1 } = {}) {
    this.type(size, bold);
    if (room && this.wide(text) > room) {
      this.type(Math.min(size, 11), bold);
      while (text.length > 1 && this.wide(text) > room) text = `${text.slice(0, -(text.endsWith("…") ? 2 : 1))}…`;
    }
    Object.assign(this.c, { fillStyle: colour, textAlign: align, globalAlpha: alpha });
    this.write(text, x, y);
  }

  box(x, y, w, h, colour, alpha = 1) {
    Object.assign(this.c, { fillStyle: colour, globalAlpha: alpha });
    this.c.fillRect(x, y, w, h);
    this.c.globalAlpha = 1;
  }

  curve(points, colour, width, alpha = 1) {
    const { c } = this;
    Object.assign(c, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha });
    c.beginPath();
    c.moveTo(points[0], points[1]);
    if (points.length === 8) c.bezierCurveTo(...points.slice(2));
    else for (let n = 2; n < points.length; n += 2) c.lineTo(points[n], points[n + 1]);
    c.stroke();
    c.globalAlpha = 1;
  }

  // How far each cell is from what it was before the line was changed: from 0 to 1.
  changes(run) {
    if (!this.model || !this.state.was || this.state.view !== "changes") return null;
    const old = this.run(this.state.was, this.state.off);
    return run.rows.map((row, t) => row.stream.map((x, s) => {
      const other = old.rows[t]?.stream[s];
      if (!other) return 1;
      return window.attnEngine.size(x.map((value, i) => value - other[i])) / window.attnEngine.size(x);
    }));
  }

  grid(run, L) {
    const { ink, c } = this, at = this.chosen;
    const changed = (this.changed = this.changes(run));
    const effects = this.model && this.state.view === "effects" ? this.effects() : null;
    const heads = { size: 12, colour: ink.muted, align: "center" };
    this.words("token", 4, 12, { ...heads, align: "left" });
    this.words("table", L.cell(0)[0] + L.cell(0)[1] / 2, 12, heads);
    for (const l of FOUR) {
      const [x] = L.cell(2 * l + (L.wide ? 1 : 2)), w = L.wide ? 88 : 46;
      this.words(`block ${l}`, x + w / 2, 12, heads);
    }
    if (L.wide) this.words("next token", 578, 12, { ...heads, align: "left" });
    this.box(0, L.row(at), L.wide ? 564 : L.W, L.h, ink.surface);
    for (let t = 0; t < L.T; t += 1) {
      const y = L.row(t), later = t > at;
      const look = { size: 13, room: L.cell(0)[0] - 8, bold: t === at, colour: later ? ink.muted : ink.ink };
      this.words(shown(run.words[t]), 4, y + L.h / 2, look);
      for (const s of L.stages) {
        const [x, w] = L.cell(s);
        const [says, chance] = run.says(s, t);
        const moved = changed?.[t][s];
        const close = this.numbersSeen(L);
        const effect = effects?.get(`${t}.${s}`);
        if (effects) this.box(x, y + 1, w, L.h - 2, ink.value, 0.06 + 0.6 * clamp(effect ?? 0, 0, 1));
        else if (changed) {
          if (moved > 0) Object.assign(c, { shadowColor: ink.key, shadowBlur: 9 * Math.min(1, moved) * this.scale });
          this.box(x, y + 1, w, L.h - 2, moved ? ink.key : ink.line, moved ? 0.14 + 0.5 * Math.min(1, moved) : 0.1);
          c.shadowBlur = 0;
        } else {
          const most = Number(ink["output-reach"]);
          this.box(x, y + 1, w, L.h - 2, ink["output-fill"], (close ? 0.25 : later ? 0.4 : 1) * (0.1 + chance * (most - 0.1)));
        }
        const colour = (changed ? !moved : later) ? ink.muted : ink.cell;
        if (this.state.put.includes(`${t}.${s}`)) Object.assign(c, { strokeStyle: ink.value, lineWidth: 2.5 }).strokeRect(x + 1, y + 2, w - 2, L.h - 4);
        const word = !effects ? shown(says) : effect === undefined ? "" : Math.abs(effect) < 0.005 ? "·" : `${num(100 * effect, 0)} %`;
        this.words(word, x + w / 2, y + (close ? 0.2 : 0.5) * L.h, { colour, align: "center", room: w - 3 });
        if (close && run.rows) this.vector(run.rows[t].stream[s], this.patch(L, s, t), 32);
      }
    }
    for (const l of FOUR) {
      const [from, wide] = L.cell(2 * l), [to] = L.cell(L.wide ? 2 * l + 1 : 2 * l + 2);
      const all = FOUR.map((h) => run.looks(l, h, at));
      for (let j = 0; j <= at; j += 1) {
        const look = all.reduce((sum, row) => sum + row[j], 0) / 4;
        const [x, y, end] = [from + wide, L.row(j) + L.h / 2, L.row(at) + L.h / 2];
        const bend = (to - x) * 0.6;
        if (look > 0.02) this.curve([x, y, x + bend, y, to - bend, end, to, end], ink.weight, 0.4 + 5 * look, 0.7);
      }
    }
  }

  numbersSeen(L) { return this.camera.z * L.base * L.h > 70; }

  // Where the 256 numbers of a cell stand when one is close to it.
  patch(L, s, t) {
    const [x, w] = L.cell(s);
    return { x: x + 1, y: L.row(t) + 0.38 * L.h, w: w - 2, h: 0.58 * L.h };
  }

  // Numbers as cells, positive and negative; with their digits when there is room.
  vector(values, { x, y, w, h }, columns, most = 0) {
    const { ink, c } = this;
    const strong = most || 2.5 * window.attnEngine.size(values) || 1;
    const rows = Math.ceil(values.length / columns), [dx, dy] = [w / columns, h / rows];
    if (this.outside(x, y, w, h)) return;
    const digits = Math.min(dx, dy * 2) * this.scale > 26;
    values.forEach((value, i) => {
      const [px, py] = [x + (i % columns) * dx, y + Math.floor(i / columns) * dy];
      if (this.outside(px, py, dx, dy)) return;
      this.box(px, py, dx, dy, value > 0 ? ink.output : ink.muted, (digits ? 0.5 : 0.75) * Math.min(1, Math.abs(value) / strong));
      if (digits) this.digits(value, px + dx / 2, py + dy / 2, Math.min(dx, 2 * dy));
    });
    c.globalAlpha = 1;
  }

  digits(value, x, y, room) {
    const size = Math.min(13, room * 0.3 * this.scale);
    Object.assign(this.c, { fillStyle: this.ink.cell, textAlign: "center", globalAlpha: 1, font: `${size}px system-ui, sans-serif` });
    this.write(some(value), x, y);
  }

  outside(x, y, w, h) {
    const [wide, high] = [this.L.W / this.camera.z, this.L.H / this.camera.z];
    const { x: left, y: up } = this.camera;
    return x + w < left || x > left + wide || y + h < up || y > up + high;
  }

  bars(run, L) {
    const { ink } = this, whole = this.whole(run);
    run.next(this.chosen).slice(0, L.wide ? 8 : 6).forEach(([word, chance, token], n) => {
      const { x, y, w, h } = this.barAt(L, n);
      this.words(shown(word), x, y + 8, { size: 13, room: w - 30, bold: !n });
      this.words(num(chance, chance < 0.01 ? 3 : 2), x + w, y + 8, { size: 12, align: "right", colour: ink.muted });
      this.box(x, y + h - 8, w, 4, ink.surface);
      this.box(x, y + h - 8, w * chance, 4, ink.output);
      if (whole) this.box(x + w * whole[token] - 1, y + h - 11, 2, 10, ink.gradient);
    });
  }

  // The chances that the whole model would give, when something of it is switched off.
  whole(run) {
    const { text, off } = this.state;
    return this.model && off.length ? this.run(text, []).rows[this.chosen].chances.at(-1) : null;
  }

  barAt(L, n) {
    return L.wide ? L.place(578, L.bars + n * 27, 92, 25)
      : L.place((n % 2) * 182, L.bars + (n >> 1) * 25, 168, 24);
  }

  band(run, L) {
    const { ink, c } = this, t = this.chosen;
    const width = (s) => 1.7 * Math.sqrt(run.size(s, t));
    const centre = (k) => L.box(k).x + L.box(k).w / 2;
    const [x0, w0] = L.cell(0);
    const begin = x0 + w0 / 2, finish = L.wide ? 624 : L.W - 4;
    this.words(shown(run.words[t]), 4, L.y, { size: 14, bold: true, room: x0 - 14 });
    const legend = (words, y, colour) => this.words(words, 4, y, { size: 12, colour });
    legend("attention", L.y + 24, ink.weight);
    legend("network", L.y + 40, ink.value);
    legend("makes likelier", L.words + 9, ink.muted);
    this.curve([x0 - 4, L.row(t) + L.h / 2, x0 - 4, L.y, begin, L.y], ink.output, width(0), 0.8);
    let from = begin;
    for (let k = 0; k <= 8; k += 1) {
      const to = k < 8 ? centre(k) + L.box(k).w / 2 : finish;
      this.curve([from, L.y, to, L.y], ink.output, width(k), 0.8);
      from = to;
    }
    if (L.wide) { // up to the bars
      const foot = L.bars + 8 * 27 + 4;
      if (foot < L.y - 14) {
        this.curve([finish, L.y, finish, foot + 10], ink.output, width(8), 0.8);
        Object.assign(c, { fillStyle: ink.output, globalAlpha: 0.8 });
        c.beginPath();
        c.moveTo(finish - 10, foot + 9); c.lineTo(finish + 10, foot + 9); c.lineTo(finish, foot - 3);
        c.fill();
        c.globalAlpha = 1;
      }
    }
    for (let k = 0; k < 8; k += 1) {
      const { x, y, w, h } = L.box(k), l = k >> 1;
      const colour = k % 2 ? ink.value : ink.weight;
      const left = x + 5, right = x + w;
      const dead = this.model && (k % 2 ? this.state.off.includes(`${l}.network`)
        : FOUR.every((head) => this.state.off.includes(`${l}.${head}`)));
      this.curve([left, L.y, left, y], colour, 1.4, dead ? 0.3 : 1);
      this.curve([right, y, right, L.y + 6], colour, 1.4, dead ? 0.3 : 1);
      c.fillStyle = ink.paper;
      c.strokeStyle = colour;
      c.lineWidth = 1.5;
      c.beginPath();
      c.arc(right, L.y, 5.5, 0, 7);
      c.fill();
      c.stroke();
      this.curve([right - 3, L.y, right + 3, L.y], colour, 1.3);
      this.curve([right, L.y - 3, right, L.y + 3], colour, 1.3);
      this.box(x, y, w, h, ink.paper);
      if (k % 2) this.hiddenBox(run, l, t, L.box(k), dead);
      else for (const head of FOUR) this.looksBox(run, l, head, t, L.box(k));
      c.strokeStyle = colour;
      c.globalAlpha = dead ? 0.4 : 1;
      c.strokeRect(x, y, w, h);
      c.globalAlpha = 1;
      const raised = run.raises(k, t).filter(([, rise]) => rise > 0.004).slice(0, L.wide ? 5 : 2);
      raised.forEach(([word, rise], n) => {
        const line = L.wide ? 17 + n * 14 : 6 + ((k % 2) * 2 + n) * 14;
        const middle = L.wide ? x + w / 2 : L.cell(2 * l + 2)[0] + 20;
        this.words(shown(word), middle, L.words + line - 8, { colour: L.wide ? ink.ink : colour, size: 12, align: "center",
          room: L.wide ? 46 : 56, bold: rise > 0.1, alpha: clamp(0.62 + 3 * rise, 0, 1) });
      });
    }
  }

  // A head's row of the box: one cell a token, as strong as it attends.
  looksBox(run, l, head, t, { x, y, w, h }) {
    const row = run.looks(l, head, t), { ink } = this;
    const [dx, dy] = [w / this.L.T, h / 4], top = y + head * dy;
    const off = this.model && this.state.off.includes(`${l}.${head}`);
    for (let j = 0; j < this.L.T; j += 1) {
      if (j > t) this.box(x + j * dx, top, dx, dy, ink.line, 0.3);
      else if (!off) this.box(x + j * dx, top + 0.4, dx, dy - 0.8, ink.weight, 0.06 + 0.94 * row[j]);
      if (!head && this.scale * dx > 30) this.words(shown(this.result.words[j]), x + (j + 0.5) * dx, y - 1.6, { size: 4.4, align: "center", room: dx });
      if (this.scale * dx > 26 && j <= t) this.digits(row[j], x + (j + 0.5) * dx, top + dy / 2, dx);
    }
    if (this.scale * dy > 20) this.words(`${l}.${head}`, x - 2, top + dy / 2, { size: 5, align: "right", colour: ink.weight });
    if (off) this.curve([x + 2, top + dy / 2, x + w - 2, top + dy / 2], ink.gradient, 1.4);
  }

  hiddenBox(run, l, t, { x, y, w, h }, off) {
    const row = run.hidden(l, t), columns = row.length > 100 ? 40 : 10, { ink } = this;
    if (off) return this.curve([x + 3, y + h - 3, x + w - 3, y + 3], ink.gradient, 1.6);
    const [dx, dy] = [w / columns, h / (row.length / columns)];
    row.forEach((value, i) => this.box(x + (i % columns) * dx, y + Math.floor(i / columns) * dy, dx, dy, ink.value, 0.05 + 0.95 * value));
  }

  // ---- the weights, to scale ----
  bitmap(matrix) {
    this.bitmaps ??= [];
    if (this.bitmaps[matrix.n]) return this.bitmaps[matrix.n];
    const { ink } = this, live = this.model && this.matrixOf(matrix);
    // A canvas holds its pixels as alpha, blue, green, red.
    const pixel = (colour) => [5, 3, 1].reduce((all, at) => all * 256 + parseInt(colour.slice(at, at + 2), 16), 0);
    const minus = pixel(ink.muted);
    const paint = (values, pool, strength) => {
      const [rows, columns] = [matrix.rows / pool, matrix.columns / pool];
      const [w, h] = matrix.turned ? [rows, columns] : [columns, rows];
      const image = new ImageData(w, h), pixels = new Uint32Array(image.data.buffer);
      for (let r = 0; r < rows; r += 1) {
        const plus = pixel(ink[this.role(matrix, r * pool)]);
        for (let q = 0; q < columns; q += 1) {
          const value = values[r * columns + q];
          const alpha = 255 * clamp(strength(Math.abs(value)), 0, 1);
          pixels[matrix.turned ? q * w + r : r * w + q] = (alpha << 24) | (value > 0 ? plus : minus);
        }
      }
      const canvas = Object.assign(document.createElement("canvas"), { width: w, height: h });
      canvas.getContext("2d").putImageData(image, 0, 0);
      return canvas;
    };
    // From afar the mean sizes of squares, in units of the matrix's mean: what differs is seen.
    const apart = (x) => 0.42 + 0.75 * (x - 1);
    if (!live) {
      const squares = levels(this.numbers.stored.weights[matrix.n]).map((x) => STRONG * x);
      const small = paint(squares, POOL, apart);
      return (this.bitmaps[matrix.n] = { small, full: small, live });
    }
    const { rows, columns } = matrix, squares = new Float32Array((rows * columns) / 16);
    for (let r = 0, at = 0; r < rows; r += 1) {
      for (let q = 0; q < columns; q += 1, at += 1)
        squares[(r >> 2) * (columns >> 2) + (q >> 2)] += Math.abs(live.levels[at]) * live.scales[r] / 16;
    }
    const mean = squares.reduce((sum, x) => sum + x, 0) / squares.length;
    const whole = () => paint(Float32Array.from(live.levels, (x, at) =>
      x * live.scales[Math.floor(at / columns)]), 1, (x) => x / (STRONG * mean));
    const small = paint(squares, 4, (x) => apart(x / mean));
    let full; // only when one is close to it
    return (this.bitmaps[matrix.n] = { live, small, get full() { return (full ??= whole()); } });
  }

  // Whose colour a row of weights has.
  role({ name }, row) {
    if (name === "qkv") return row < 256 ? "query" : row < 384 ? "key" : "value";
    return { table: "output", output: "output", out: "weight" }[name] ?? "value";
  }

  matrixOf({ name, l }) {
    const { model } = this;
    if (name === "table") return model.embed;
    if (name === "output") return model.toVocab;
    const block = model.blocks[l];
    return { qkv: block.toQkv, out: block.toOut, gate: block.gate, up: block.up, down: block.down }[name];
  }

  // What a matrix reads and gives at the chosen token.
  sides({ name, l }) {
    const row = this.result.rows?.[this.chosen];
    if (!row) return null;
    const at = row.parts[l];
    return {
      table: () => [null, row.stream[0]], output: () => [row.last, row.logits],
      qkv: () => [at.read, at.all], out: () => [at.heard, at.attention],
      gate: () => [at.inside, at.gate], up: () => [at.inside, at.up], down: () => [at.hidden, at.network],
    }[name]();
  }

  // The strips at a matrix's edges: [values, their place, columns].
  strips(matrix, s) {
    const [reads, gives] = this.sides(matrix) ?? [];
    const { x, y, w, h } = matrix, thick = 12 * s;
    const above = { x, y: y - 14 * s, w, h: thick };
    const beside = matrix.turned ? { x: x - 16 * s, y, w: thick, h } : { x: x + w + 4 * s, y, w: thick, h };
    const found = [];
    if (matrix.turned) found.push([reads, beside, 1], [gives, above, matrix.rows]);
    else found.push([reads, above, matrix.columns], [matrix.name === "table" ? null : gives, beside, 1]);
    // The gains of the norms: of what is read, of queries and keys, of the last stream.
    const { model } = this, block = model?.blocks[matrix.l];
    const line = (values) => values && found.push([values, { x: x - 2.5 * s, y, w: s, h }, 1, "gain"]);
    const row = (values) => values && found.push([values, { x, y: y - 1.8 * s, w: values.length * s, h: s }, values.length, "gain"]);
    if (matrix.name === "qkv") line(block?.before[0]), row(block?.qkGain);
    if (matrix.name === "gate") line(block?.before[1]);
    if (matrix.name === "output") row(model?.gain);
    return found.filter(([values]) => values);
  }

  weights(run, L) {
    const { ink, c } = this;
    if (this.live !== !!this.model) this.bitmaps = null;
    this.live = !!this.model;
    for (const matrix of L.matrices) {
      const { x, y, w, h } = matrix;
      if (this.outside(x - 2, y - 2, w + 4, h + 4)) continue;
      const bitmap = this.bitmap(matrix), { live } = bitmap;
      c.imageSmoothingEnabled = !!live && this.scale * L.s < 1.5;
      c.imageSmoothingQuality = "high";
      const digits = this.scale * L.s > 24 && live;
      c.globalAlpha = digits ? 0.55 : 1;
      c.drawImage(this.scale * L.s > 0.6 ? bitmap.full : bitmap.small, x, y, w, h);
      c.globalAlpha = 1;
      if (digits) this.cells(matrix, L);
      if (live) this.strips(matrix, L.s).forEach(([values, where, columns]) => this.vector(Array.from(values), where, columns));
      if (live) this.silence(matrix);
      const lit = matrix.name === "table" ? run.tokens[this.chosen] : -1;
      if (lit >= 0) this.box(x - 3, y + lit * L.s - 0.4, w + 6, Math.max(L.s, 0.8), ink.gradient);
      const label = (name, middle) => {
        const px = this.type(11), wide = this.wide(name) + 6 / Math.min(this.camera.z, 3);
        this.box(middle - wide / 2, y + h / 2 - px * 0.65, wide, px * 1.3, ink.paper, 0.82);
        this.words(name, middle, y + h / 2, { size: 11, align: "center" });
      };
      const { name } = matrix, side = { size: 12, colour: ink.muted };
      if (name === "table") this.words(name, x, y - 9, side);
      else if (name === "output") this.words(name, x + w, y - 9, { ...side, align: "right" });
      else if (this.scale * L.s < 3 && (L.wide || this.scale * L.s > 0.2)) {
        if (name === "qkv") ["Q", "K", "V"].forEach((one, n) => label(one, x + w * [0.25, 0.62, 0.88][n]));
        else label(name, x + w / 2);
      }
    }
    if (L.wide) ["3,279,360", "weights,", "to scale"].forEach((words, n) => this.words(words, 4, L.low + 20 + 15 * n, { size: 12, colour: ink.muted }));
    else this.words("3,279,360 weights, to scale", L.W / 2, L.low - 8, { size: 12, colour: ink.muted, align: "center" });
  }

  // What is switched off is pale among the weights, too.
  silence({ name, l, x, y, w, h }) {
    const pale = (x, w) => this.box(x, y - 1, w, h + 2, this.ink.paper, 0.85);
    for (const part of this.state.off) {
      const head = Number(part[2]);
      if (part === `${l}.network` && "gate up down".includes(name)) pale(x - 2, w + 4);
      if (part[0] !== String(l) || Number.isNaN(head)) continue;
      if (name === "qkv") pale(x + (w * head) / 8, w / 8);
      if (name === "out") pale(x + (w * head) / 4, w / 4);
    }
  }

  // One weight as a cell with its number.
  cells(matrix, L) {
    const live = this.matrixOf(matrix), { s, W, H } = L, { x, y, z } = this.camera;
    const from = (a, b) => Math.max(0, Math.floor((a - b) / s));
    const [c0, r0] = [from(x, matrix.x), from(y, matrix.y)];
    const [c1, r1] = [from(x + W / z, matrix.x), from(y + H / z, matrix.y)];
    for (let r = r0; r <= Math.min(r1, matrix.h / s - 0.5); r += 1) {
      for (let q = c0; q <= Math.min(c1, matrix.w / s - 0.5); q += 1) {
        const value = matrix.turned ? live.at(q, r) : live.at(r, q);
        this.digits(value, matrix.x + (q + 0.5) * s, matrix.y + (r + 0.5) * s, s);
      }
    }
  }

  // ---- what is under a point, and what it says ----
  hit(x, y) {
    const { L, result: run } = this, t = Math.floor((y - L.first) / L.h);
    const inside = (box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;
    if (t >= 0 && t < L.T) {
      if (x < L.cell(0)[0] - 2) return { kind: "token", t, box: L.place(0, L.row(t), L.cell(0)[0] - 4, L.h) };
      for (const s of L.stages) {
        const [left, w] = L.cell(s);
        if (x < left || x >= left + w) continue;
        const box = L.place(left, L.row(t), w, L.h), patch = this.patch(L, s, t);
        if (run.rows && this.numbersSeen(L) && inside(patch)) {
          const [q, r] = [Math.floor((x - patch.x) / patch.w * 32), Math.floor((y - patch.y) / patch.h * 8)];
          return { kind: "number", s, t, i: r * 32 + q, box: L.place(patch.x + q * patch.w / 32, patch.y + r * patch.h / 8, patch.w / 32, patch.h / 8) };
        }
        return { kind: "cell", s, t, box };
      }
    }
    for (let n = 0; n < (L.wide ? 8 : 6); n += 1) {
      const box = this.barAt(L, n);
      if (inside(box)) return { kind: "bar", n, box };
    }
    for (let k = 0; k < 8; k += 1) {
      const box = L.box(k), l = k >> 1;
      if (inside(box)) {
        const [q, r] = [(x - box.x) / box.w, (y - box.y) / box.h];
        if (k % 2) return { kind: "hidden", l, i: Math.floor(r * 16) * 40 + Math.floor(q * 40), box };
        const [h, j] = [Math.floor(4 * r), Math.floor(q * L.T)];
        return { kind: "look", l, h, j, box: L.place(box.x + j * box.w / L.T, box.y + h * box.h / 4, box.w / L.T, box.h / 4) };
      }
      if (L.wide && inside(L.place(box.x, box.y + box.h, box.w, 90))) return { kind: "part", k, box: L.place(box.x - 2, L.y - 8, box.w + 8, 130) };
    }
    for (const matrix of L.matrices) {
      if (inside(matrix)) {
        const [q, r] = [Math.floor((x - matrix.x) / L.s), Math.floor((y - matrix.y) / L.s)];
        const [row, column] = matrix.turned ? [q, r] : [r, q];
        return { kind: "weight", matrix, row, column, box: L.place(matrix.x + q * L.s, matrix.y + r * L.s, L.s, L.s) };
      }
      for (const [values, place, columns, gain] of this.strips(matrix, L.s)) {
        if (!inside(place)) continue;
        const i = columns === 1 ? Math.floor((y - place.y) / L.s) : Math.floor((x - place.x) / L.s);
        return { kind: "strip", matrix, gain, value: values[i], i, box: columns === 1
          ? L.place(place.x, place.y + i * L.s, place.w, L.s) : L.place(place.x + i * L.s, place.y, L.s, place.h) };
      }
    }
    return null;
  }

  explain(hit) {
    const run = this.result, at = this.chosen, row = run.rows?.[hit.t ?? at];
    const here = quoted(run.words[at]);
    const wait = " Load the model, and its numbers stand here.";
    switch (hit.kind) {
      case "token":
        return `${quoted(run.words[hit.t])} is token ${run.tokens[hit.t]} of 1,024, at position ${hit.t}.`;
      case "cell": {
        const [word, chance] = run.says(hit.s, hit.t);
        const where = hit.s ? `After ${part(hit.s - 1)}` : "Straight from the table";
        const moved = this.changed?.[hit.t][hit.s];
        const change = moved === undefined ? "" : moved ? ` It has moved by ${num(100 * moved, 0)} % of its size.`
          : " Exactly as before the change: the mask lets nothing come from later tokens.";
        return `${where}, the stream of ${quoted(run.words[hit.t])} would say ${quoted(word)} with chance ${num(chance)}. ` +
          `Its 256 numbers have root mean square ${num(run.size(hit.s, hit.t), 1)}.${change}`;
      }
      case "number": {
        const now = row.stream[hit.s][hit.i];
        if (!hit.s) return `Number ${hit.i} of ${quoted(run.words[hit.t])}: ${some(now)}, from row ${run.tokens[hit.t]} of the table.`;
        const before = row.stream[hit.s - 1][hit.i];
        return `Number ${hit.i} of ${quoted(run.words[hit.t])} after ${part(hit.s - 1)}: ${some(before)} came, ${some(now - before)} is added, ${some(now)} goes on.`;
      }
      case "look": {
        const { l, h, j } = hit, name = `Head ${l}.${h}`;
        if (j > at) return `${quoted(run.words[j])} comes after ${here}: the causal mask hides it from ${name.toLowerCase()}.`;
        const share = run.looks(l, h, at)[j];
        if (!row) return `${name} attends to ${quoted(run.words[j])} with weight ${num(share)}.${wait}`;
        const scores = row.parts[l].scores[h];
        const total = scores.reduce((sum, score) => sum + Math.exp(score), 0);
        const off = this.state.off.includes(`${l}.${h}`) ? " It is switched off: nothing of it is added." : "";
        return `${name} at ${here} attends to ${quoted(run.words[j])}: score q·k/√64 = ${num(scores[j])}, weight e^${num(scores[j])} / ${large(total)} = ${num(share)}.${off}`;
      }
      case "hidden": {
        if (!row) return `640 hidden numbers of block ${hit.l}, the largest of each eight.${wait}`;
        const { gate, up, hidden } = row.parts[hit.l], i = hit.i;
        return `Hidden number ${i} of block ${hit.l}: gate g = ${some(gate[i])} gives g/(1 + e^−g) = ${some(gate[i] / (1 + Math.exp(-gate[i])))}, times up ${some(up[i])} is ${some(hidden[i])}.`;
      }
      case "part": {
        const raised = run.raises(hit.k, at).filter(([, rise]) => rise > 0.0005);
        const list = raised.map(([word, rise]) => `${quoted(word)} +${num(rise, 3)}`).join(", ");
        const name = part(hit.k);
        return `What ${name} adds at ${here} raises most, if the stream were read out here: ${list || "nothing"}.`;
      }
      case "bar": {
        const [word, chance, n] = run.next(at)[hit.n];
        if (!row) return `${quoted(word)} follows with chance ${num(chance, 3)}.${wait}`;
        const logits = row.logits, total = logits.reduce((sum, z) => sum + Math.exp(z), 0);
        return `${quoted(word)}: the last vector times row ${n} of the output layer is its logit ${num(logits[n])}; e^${num(logits[n])} / ${large(total)} = ${num(chance, 3)}.`;
      }
      case "weight": {
        const { matrix, row: r, column: q } = hit;
        const name = matrix.name === "table" ? "the table" : matrix.name === "output" ? "the output layer" : `${NAMES[matrix.name]}, block ${matrix.l}`;
        if (!this.model) return `${matrix.rows} × ${matrix.columns} weights: ${name}.${wait}`;
        const value = this.matrixOf(matrix).at(r, q), [reads, gives] = this.sides(matrix);
        if (!reads) return `Number ${q} of ${quoted(this.model.word(r))} in the table: ${some(value)}.${r === run.tokens[at] ? " This row is where the stream begins." : ""}`;
        const whose = matrix.name === "output" ? `the logit of ${quoted(this.model.word(r))}` : `number ${r}`;
        return `Weight ${q} → ${r} of ${name}: ${some(value)}. At ${here} it meets ${some(reads[q])}: ${some(value * reads[q])}, one of ${matrix.columns} terms of ${whose}, ${some(gives[r])}.`;
      }
      default:
        if (hit.gain) return `Gain ${hit.i} of a norm: ${some(hit.value)}, by which number ${hit.i} is multiplied.`;
        return `${NAMES[hit.matrix.name] ?? "output layer"}: number ${hit.i} at its edge is ${some(hit.value)} at ${here}.`;
    }
  }

  // Whether a touch puts an old stream back.
  surgery() {
    return this.model && this.state.view !== "words" && !!this.old(this.run(this.state.text, this.state.off));
  }

  point(hit) {
    const key = (one) => one && JSON.stringify(one.box);
    if (key(hit) === key(this.pointed)) return;
    this.pointed = hit;
    this.explained = hit ? () => this.explain(hit) : null;
    this.redraw();
  }

  lit(L) {
    const hit = this.pointed, { c, ink } = this;
    const ring = ({ x, y, w, h }, colour = ink.ink) => {
      Object.assign(c, { strokeStyle: colour, lineWidth: 2 / this.scale });
      c.strokeRect(x, y, w, h);
    };
    if (this.state.stop && this.state.stop !== 8) ring(this.target(this.state.stop).core, ink.gradient);
    if (!hit) return;
    ring(hit.box);
    const [column, row] = [L.cell, L.row];
    if (hit.kind === "look") ring(L.place(0, row(hit.j), column(0)[0] - 4, L.h), ink.weight);
    if (hit.kind === "cell" && hit.s) {
      const before = L.wide ? hit.s - 1 : hit.s - 2;
      ring(L.place(column(before)[0], row(hit.t), column(before)[1], L.h), ink.output);
    }
    if (hit.kind === "weight") { // its row and its column
      const { x, y, w, h } = hit.matrix;
      ring(L.place(x, hit.box.y, w, hit.box.h), ink.output);
      ring(L.place(hit.box.x, y, hit.box.w, h), ink.value);
    }
  }

  // ---- moving about ----
  bound() {
    const { camera, L } = this;
    camera.z = clamp(camera.z, 1, 420);
    camera.x = clamp(camera.x, 0, L.W - L.W / camera.z);
    camera.y = clamp(camera.y, 0, L.H - L.H / camera.z);
  }

  spot(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / this.scale + this.camera.x, (event.clientY - box.top) / this.scale + this.camera.y];
  }

  middle() {
    const { x, y, z } = this.camera;
    return [x + this.L.W / z / 2, y + this.L.H / z / 2];
  }

  zoom(by, [x, y] = this.focusSpot()) {
    const { camera } = this, z = clamp(camera.z * by, 1, 420);
    this.go({ x: x - ((x - camera.x) * camera.z) / z, y: y - ((y - camera.y) * camera.z) / z, z });
  }

  // At rest the buttons go closer to the chosen token, then to the middle.
  focusSpot() {
    if (this.camera.z > 1) return this.middle();
    return [this.L.cell(0)[0] + 20, this.L.row(this.chosen) + this.L.h / 2];
  }

  go(camera) {
    cancelAnimationFrame(this.moving);
    this.camera = camera;
    this.bound();
    this.redraw();
  }

  // To a box, which then fills most of the picture; to all without one.
  fly(box) {
    const { L } = this;
    const z = box ? clamp(Math.min(L.W / box.w, L.H / box.h) * 0.8, 1, 420) : 1;
    const to = box ? { z, x: box.x + box.w / 2 - L.W / z / 2, y: box.y + box.h / 2 - L.H / z / 2 } : { x: 0, y: 0, z };
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.go(to);
    const from = { ...this.camera }, begun = performance.now();
    cancelAnimationFrame(this.moving);
    const frame = (now) => {
      const done = Math.min(1, (now - begun) / 380), part = done * done * (3 - 2 * done);
      const z = from.z * (to.z / from.z) ** part;
      // The place moves as the size of what is seen does, so that the way is straight.
      const share = Math.abs(to.z - from.z) < 1e-9 ? part : (1 / from.z - 1 / z) / (1 / from.z - 1 / to.z);
      this.camera = { z, x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
      this.redraw();
      if (done < 1) this.moving = requestAnimationFrame(frame);
    };
    this.moving = requestAnimationFrame(frame);
  }

  down(event) {
    if (event.button) return;
    this.canvas.focus({ preventScroll: true });
    this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
    this.moved = 0;
    if (this.camera.z > 1 || this.pointers.size > 1) this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) {
      if (event.pointerType === "mouse") this.point(this.hit(...this.spot(event)));
      return;
    }
    const now = [event.clientX, event.clientY];
    const gap = () => { const [a, b] = [...this.pointers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
    const before = this.pointers.size === 2 ? gap() : 0;
    this.pointers.set(event.pointerId, now);
    this.moved += Math.abs(now[0] - last[0]) + Math.abs(now[1] - last[1]);
    if (this.pointers.size === 2) return this.zoom(gap() / (before || 1), this.spot(event));
    if (this.camera.z <= 1) return;
    const { x, y, z } = this.camera;
    this.go({ x: x - (now[0] - last[0]) / this.scale, y: y - (now[1] - last[1]) / this.scale, z });
  }

  up(event) {
    const tapped = this.pointers.delete(event.pointerId) && this.moved < 8 && event.type === "pointerup";
    if (!tapped) return;
    const hit = this.hit(...this.spot(event));
    if (hit?.kind === "cell" && this.surgery()) this.putBack(hit);
    else if (hit?.t !== undefined && hit.kind !== "number") this.set({ token: hit.t });
    this.pointed = null;
    this.point(hit);
    if (!hit) { this.explained = null; this.redraw(); }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { L, camera } = this;
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (event.key === "+" || event.key === "=") this.zoom(2);
    else if (event.key === "-") this.zoom(0.5);
    else if (event.key === "0" || event.key === "Home") this.fly(null);
    else if (event.key === "Enter" && this.pointed?.kind === "cell" && this.surgery()) this.putBack(this.pointed);
    else if (event.key === "Enter" && this.pointed) this.fly(this.pointed.box);
    else if (event.key === "Escape" && camera.z > 1) {
      this.fly(null);
      event.stopPropagation();
    } else if (dx || dy) {
      if (camera.z > 1) {
        const by = Math.min(0.1, 40 / L.W) / camera.z * L.W;
        this.go({ x: camera.x + dx * by, y: camera.y + dy * by, z: camera.z });
        this.point(this.hit(...this.middle()));
      } else {
        const token = clamp(this.chosen + dy, 0, L.T - 1);
        if (dy) this.set({ token });
        this.cursor = clamp((this.cursor ?? (dx > 0 ? -1 : 0)) + dx, 0, L.stages.length - 1);
        const s = L.stages[this.cursor], [x, w] = L.cell(s);
        this.point({ kind: "cell", s, t: token, box: L.place(x, L.row(token), w, L.h) });
      }
    } else return;
    event.preventDefault();
  }

  enlarge(big) {
    this.big = big;
    this.leave ??= (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.enlarge(false);
    };
    if (big) document.addEventListener("keydown", this.leave, true);
    else document.removeEventListener("keydown", this.leave, true);
    this.classList.toggle("big", big);
    document.documentElement.style.overflow = big ? "hidden" : "";
    set(this.larger, { text: big ? "Make small" : "Enlarge", "aria-pressed": String(big) });
    this.redraw();
  }

  // ---- nine stops ----
  step(by) {
    const stop = (this.state.stop + by + STOPS + 1) % (STOPS + 1);
    this.explained = this.pointed = null;
    this.set({ stop, view: "words" });
    this.render();
    this.fly(this.target(stop));
  }

  target(stop) {
    const { L } = this, t = this.chosen;
    const [x, w] = L.cell(0);
    const matrix = (name, l) => L.matrices.find((one) => one.name === name && one.l === l);
    const [next, far] = L.cell(L.wide ? 1 : 2);
    const about = (core, left, up = left, right = left, down = up) => ({ core,
      ...L.place(core.x - left, core.y - up, core.w + left + right, core.h + up + down) });
    const sum = (k) => about(L.box(k), 60, 44, 60, 100);
    return [
      null, about(L.place(0, L.row(t), x - 4, L.h), 4, 40, 120, 40), about(matrix("table", -1), 24, 12),
      about(matrix("qkv", 0), 6), about(L.box(0), 12),
      about(L.place(x, L.first, next + far - x, L.row(t) + L.h - L.first), x, 26, 20, 6),
      sum(0), sum(1), null,
      about(L.wide ? L.place(574, 0, 98, 220) : L.place(0, L.bars - 4, L.W, 82), 20, 12),
    ][stop];
  }

  tale(stop) {
    const run = this.result, t = this.chosen, here = quoted(run.words[t]);
    const list = (k) => run.raises(k, t).slice(0, 3).map(([word]) => quoted(word)).join(", ");
    const tells = (s) => { const [word, chance] = run.says(s, t); return `${quoted(word)} (${num(chance)})`; };
    let [h, j, most] = [0, 0, 0];
    for (const head of FOUR) run.looks(0, head, t).forEach((look, n) => { if (look > most) [h, j, most] = [head, n, look]; });
    const row = run.rows?.[t];
    const busy = row ? `, ${[...row.parts[0].hidden].filter((x) => Math.abs(x) > 1).length} of them larger than 1` : "";
    return [
      `1 of 9: ${here} is token ${run.tokens[t]} of 1,024. The model is given this number, and no letters.`,
      `2 of 9: Row ${run.tokens[t]} of the table, 256 numbers, becomes the residual stream of ${here}. Read out now, it would say ${tells(0)}.`,
      `3 of 9: Block 0 reads a copy of the stream, normed; 512 × 256 weights make of it four queries, two keys and two values.`,
      `4 of 9: Each head multiplies its query with the keys of all ${t + 1} tokens so far, both turned by their positions. Head 0.${h} gives ${quoted(run.words[j])} its highest score.`,
      `5 of 9: Softmax makes weights of the scores: head 0.${h} attends to ${quoted(run.words[j])} with ${num(most)}. The mask leaves later tokens nothing.`,
      `6 of 9: What the four heads fetched is added to the stream. It raises ${list(0)}; read out now, it would say ${tells(1)}.`,
      `7 of 9: The network makes 640 hidden numbers of the sum${busy}, and adds what they stand for: now it would say ${tells(2)}.`,
      `8 of 9: Three more blocks read and add: ${[4, 6, 8].map(tells).join(", then ")}.`,
      `9 of 9: The last vector meets the 1,024 rows of the output layer, and softmax makes chances: ${tells(8)}. One token is drawn, put at the end, and all begins again.`,
    ][stop - 1];
  }

  tell(run) {
    const { text, was, off, stop, view } = this.state;
    if (!this.model && (text !== this.start.text || off.length)) {
      const less = off.length ? " without " + named(off) : "";
      return `This link shows ${quoted(text)}${less}: load the model to see it. Until then another line stands here, of ${run.tokens.length} tokens.`;
    }
    if (stop) return this.tale(stop);
    const t = this.chosen;
    if (this.model && was && view !== "words") {
      const swing = this.swing();
      if (swing && this.state.put.length) {
        const row = run.rows.at(-1).chances.at(-1), cells = this.state.put.map((cell) => {
          const [at, s] = cell.split(".").map(Number);
          return `${quoted(run.words[at] ?? "")} ${s ? "after " + part(s - 1) : "from the table"}`;
        });
        return `Put back: ${cells.join("; ")}. ${swing.words[0]} now has chance ${share(row[swing.a])}, ${swing.words[1]} ${share(row[swing.b])}: ${num(100 * swing.back(run.rows.at(-1).logits), 0)} % of the way back to the line before.`;
      }
      if (view === "effects") {
        if (!swing) return "The two lines have different numbers of tokens: no stream has an old one in its place.";
        const best = [...this.effects()].sort((x, y) => y[1] - x[1])[0];
        const wait = this.found?.done ? "" : " Being tried, one after the other …";
        return `Before the change the line went on with ${swing.words[0]}, now with ${swing.words[1]}. A cell says how much of that comes back when its old stream is put there, and nothing else.${wait}${best ? " Touch one." : ""}`;
      }
      const first = run.tokens.findIndex((token, n) => token !== this.run(was, off).tokens[n]);
      if (first < 0) return `The ${run.tokens.length} tokens are the same as before.`;
      return `${quoted(run.words[first])} is the first token that differs. What depends on it glows, ${rows(run.tokens.length - first)}; ${rows(first)} above it ${first === 1 ? "is" : "are"} exactly as before, because the mask lets nothing flow back.${swing ? " Touch a glowing cell to put its old stream back." : ""}`;
    }
    const [word, chance] = run.next(t)[0], whole = this.whole(run);
    if (whole) {
      const best = top(whole, 1)[0], now = run.rows[t].chances.at(-1)[best];
      return `Without ${named(off)}: after ${quoted(run.words[t])} the chance of ${quoted(this.model.word(best))} is ${share(now)}, with it ${share(whole[best])} (the red marks). Likeliest now: ${quoted(word)}, ${share(chance)}.`;
    }
    const way = [0, 2, 6].map((s) => quoted(run.says(s, t)[0]));
    const more = this.model && this.model.encode(text).length > MOST;
    const cut = more ? ` Only the first ${MOST} tokens are read.`
      : /[^\n -~]/.test(text) ? " Signs without a token are read byte by byte: \\x and two digits." : "";
    return `After ${quoted(run.words[t])} comes ${quoted(word)} with chance ${num(chance)}. Read out earlier, its stream would say ${way[0]} before the blocks, ${way[1]} after block 0, ${way[2]} after block 2.${cut}`;
  }

  // How the line goes on stands below, and is computed when there is time.
  tellOn() {
    if (!this.model) return;
    const { off, text } = this.state, key = text + off;
    if (this.told === key) return;
    this.told = key;
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      const line = (name, words) => html("span", {}, html("b", { text: name }), ` ${shown(words).replaceAll("␣", " ")}`);
      const lines = [line(off.length ? "Whole, it goes on:" : "It goes on:", this.continued([]))];
      if (off.length) lines.push(line(`Without ${named(off)}:`, this.continued(off)));
      this.goes.replaceChildren(...lines);
    }, 120);
  }

  static style = `
    .top { display: flex; flex-wrap: wrap; gap: 8px; margin-bottom: 8px }
    .say { min-height: 4.4em } .reset { order: 1 } .parts { order: 2 }
    @container (max-width: 480px) { .say { min-height: 7.3em } }
    .line { flex: 1 1 12rem; min-width: 0; min-height: 36px; font: inherit; font-size: 16px; padding: 0 10px;
      color: inherit; background: var(--d-surface); border: 1px solid var(--d-line); border-radius: 8px }
    .load, .strong { background: var(--d-ink); color: var(--d-paper); min-height: 36px }
    canvas { display: block; margin: 0 auto; border-radius: 4px }
    p.hint { margin-top: 6px } .goes { margin: 6px 0 0; font-size: 15px } .goes span { display: block }
    .parts { flex-basis: 100% } summary { cursor: pointer; min-height: 34px; line-height: 34px }
    .switches { display: grid; grid-template-columns: repeat(4, 1fr); gap: 6px; margin: 4px 0 8px }
    .switches > div { display: grid; gap: 4px } .switches button { padding: 0 4px }
    .parts button[aria-pressed=true] { text-decoration: line-through }
    [hidden] { display: none !important }
    :host(.big) { position: fixed; inset: 0; z-index: 3000; max-width: none !important; width: 100% !important;
      margin: 0 !important; overflow: auto; background: var(--d-paper) }
    :host(.big) .card { border: 0; min-height: 100% }
    @container (min-width: 1000px) {
      :host(.big) .card { display: grid; grid-template: auto auto 1fr / minmax(0, 1fr) 21rem; column-gap: 24px }
      :host(.big) .picture { grid-area: 1 / 1 / 5 / 2 }
      :host(.big) :is(.ask, .say, .controls) { grid-column: 2; align-content: start }
    }`;
}

define("attn-through", Through);
