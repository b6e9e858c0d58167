// The book's language model in the page: nothing is loaded before somebody asks for it.
(() => {
const html = (name, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(name), attributes);
  node.append(...children);
  return node;
};

// Whole numbers of eight bits, a scale for each row.
class Matrix {
  constructor(levels, scales) {
    Object.assign(this, { levels, scales, columns: levels.length / scales.length });
  }

  row(n) {
    const { levels, scales, columns } = this;
    return Float32Array.from(levels.subarray(n * columns, (n + 1) * columns), (x) => x * scales[n]);
  }

  times(x) {
    const { levels, scales, columns } = this;
    return Float32Array.from(scales, (scale, n) => {
      let sum = 0;
      for (let i = 0, at = n * columns; i < columns; i += 1, at += 1) sum += levels[at] * x[i];
      return sum * scale;
    });
  }
}

function normed(x, gain) {
  const by = 1 / Math.sqrt(x.reduce((sum, value) => sum + value * value, 0) / x.length + 1e-6);
  return x.map((value, i) => value * by * gain[i]);
}
const added = (x, y) => x.map((value, i) => value + y[i]);
const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b));
  const powers = Array.from(scores, (score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}

// Number i and number i + D/2 are a hand that turns with the position.
function turned(x, position) {
  const half = x.length / 2;
  const to = new Float32Array(x.length);
  for (let i = 0; i < half; i += 1) {
    const angle = position * 10000 ** (-i / half);
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    to[i] = x[i] * cos - x[i + half] * sin;
    to[i + half] = x[i + half] * cos + x[i] * sin;
  }
  return to;
}

const SPLIT = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
const SIGNS = { " ": "\u0120", "\n": "\u010a" };

class Model {
  constructor({ sizes, context, tokens, merges, weights }) {
    Object.assign(this, { sizes, context, tokens });
    this.numbers = new Map(tokens.map((token, n) => [token, n]));
    this.ranks = new Map(merges.map((pair, n) => [pair, n]));
    const bytes = Uint8Array.from(atob(weights), (sign) => sign.charCodeAt(0));
    const size = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const stored = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
    this.part = (name) => {
      const { dtype, data_offsets: [from, to] } = stored[name];
      const data = bytes.slice(8 + size + from, 8 + size + to).buffer;
      return dtype === "I8" ? new Int8Array(data) : new Float32Array(data);
    };
    const matrix = (name) =>
      new Matrix(this.part(`${name}.matrix.stored`), this.part(`${name}.matrix.scales`));
    const gain = (name) => this.part(`${name}.gain`);
    this.embed = matrix("embed.tokens");
    this.blocks = Array.from({ length: sizes.depth }, (_, n) => {
      const [attention, network] = ["attention", "feedforward"].map((x) => `body.blocks.${n}.${x}`);
      return {
        before: [gain(`${attention}.norm`), gain(`${network}.norm`)],
        toQkv: matrix(`${attention}.part.project.to_qkv`),
        toOut: matrix(`${attention}.part.to_out`),
        qkGain: gain(`${attention}.part.rotate.norm`),
        gate: matrix(`${network}.part.gate`),
        up: matrix(`${network}.part.up`),
        down: matrix(`${network}.part.down`),
      };
    });
    this.gain = gain("body.norm");
    this.toVocab = matrix("to_vocab");
  }

  encode(text) {
    return (text.match(SPLIT) ?? []).flatMap((piece) => {
      let symbols = [...piece].map((sign) => SIGNS[sign] ?? sign);
      symbols = symbols.filter((sign) => this.numbers.has(sign));
      for (;;) {
        let best = Infinity, at = -1;
        for (let i = 0; i + 1 < symbols.length; i += 1) {
          const rank = this.ranks.get(`${symbols[i]} ${symbols[i + 1]}`) ?? Infinity;
          if (rank < best) [best, at] = [rank, i];
        }
        if (at < 0) return symbols.map((symbol) => this.numbers.get(symbol));
        symbols.splice(at, 2, symbols[at] + symbols[at + 1]);
      }
    });
  }

  word(token) {
    return this.tokens[token].replaceAll("\u0120", " ").replaceAll("\u010a", "\n");
  }

  caches() {
    return this.blocks.map(() => ({ keys: [], values: [] }));
  }

  // The logits after one more token, whose key and value join the caches.
  step(token, caches) {
    let x = this.embed.row(token);
    this.blocks.forEach((block, n) => {
      x = added(x, this.attend(block, normed(x, block.before[0]), caches[n]));
      const inside = normed(x, block.before[1]);
      const up = block.up.times(inside);
      const gated = block.gate.times(inside).map((g, i) => (g / (1 + Math.exp(-g))) * up[i]);
      x = added(x, block.down.times(gated));
    });
    return this.toVocab.times(normed(x, this.gain));
  }

  attend({ toQkv, toOut, qkGain }, x, { keys, values }) {
    const { width, heads, kv_heads: shared } = this.sizes;
    const D = width / heads;
    const all = toQkv.times(x);
    const head = (n) => all.subarray(n * D, (n + 1) * D);
    const place = keys.length;
    const ready = (n) => turned(normed(head(n), qkGain), place);
    keys.push(Array.from({ length: shared }, (_, n) => ready(heads + n)));
    values.push(Array.from({ length: shared }, (_, n) => head(heads + shared + n).slice()));
    const out = new Float32Array(width);
    for (let n = 0; n < heads; n += 1) {
      const query = ready(n);
      const at = Math.floor((n * shared) / heads); // several queries share a key
      const shares = softmax(keys.map((key) => dot(query, key[at]) / Math.sqrt(D)));
      shares.forEach((share, j) => {
        const value = values[j][at];
        for (let i = 0; i < D; i += 1) out[n * D + i] += share * value[i];
      });
    }
    return toOut.times(out);
  }
}

function dice(seed) { // mulberry32
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// Temperature 0 takes the likeliest; else what is left of top-p after the temperature is drawn.
function chosen(logits, tau, p, roll) {
  const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a]);
  if (!tau) return order[0];
  const shares = softmax(order.map((token) => logits[token] / tau));
  let before = 0;
  const kept = shares.filter((share) => (before += share) - share < p || p === 1);
  let left = roll() * kept.reduce((a, b) => a + b);
  return order[Math.max(0, kept.findIndex((share) => (left -= share) < 0))];
}

const STYLE = `
  :host { display: block; margin: 1.2rem 0 }
  * { box-sizing: border-box }
  .card { border: 1px solid var(--pst-color-border); border-radius: 10px; padding: 12px 16px;
    color: var(--pst-color-text-base); font: 15px/1.5 system-ui, sans-serif }
  p { margin: 0 0 8px } .ask { font-size: 17px; font-weight: 650 }
  label { display: block } .row { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 8px 0 }
  .row label { display: flex; align-items: center; gap: 8px }
  textarea { width: 100%; font: inherit; padding: 6px 8px; border-radius: 8px; resize: vertical;
    color: inherit; background: var(--pst-color-surface);
    border: 1px solid var(--pst-color-text-muted) }
  button { font: inherit; color: inherit; background: var(--pst-color-surface); cursor: pointer;
    border: 1px solid var(--pst-color-border); border-radius: 8px; min-height: 36px;
    padding: 0 12px }
  button:disabled { cursor: default; color: var(--pst-color-text-muted) }
  input { height: 36px; accent-color: var(--pst-color-link) }
  output { min-width: 2.4em; font-variant-numeric: tabular-nums }
  :focus-visible { outline: 3px solid var(--pst-color-link); outline-offset: 2px }
  .text { white-space: pre-wrap; overflow-wrap: anywhere; margin: 8px 0; font-size: 16px }
  .text button { border: 0; border-radius: 3px; padding: 0; min-height: 0; white-space: pre-wrap;
    background: color-mix(in srgb, var(--pst-color-link) var(--odd), transparent) }
  .text button[aria-pressed=true] { box-shadow: inset 0 -3px 0 var(--pst-color-link) }
  .given { color: var(--pst-color-text-muted) }
  .next { display: grid; grid-template-columns: 6em 1fr 3em; gap: 3px 8px; align-items: center;
    font-size: 14px }
  .next :nth-child(3n + 1) { text-align: right; white-space: pre; overflow: hidden }
  .bar { height: 16px; border-radius: 3px; background: var(--pst-color-link); opacity: .55 }
  [role=status] { min-height: 1.5em; margin: 8px 0 0; color: var(--pst-color-text-muted) }
  [hidden] { display: none !important }
  @media print { button, .row { display: none } }`;
const MOST = 48; // tokens for one press
const shown = (word) => word.replaceAll("\n", "↵").replaceAll(" ", "␣");

class Writer extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    this.status = html("p", { role: "status" });
    this.status.setAttribute("role", "status");
    this.load = html("button", { textContent: this.querySelector("button").textContent });
    this.load.onclick = () => this.fetchModel();
    const ask = html("p", { className: "ask", textContent: "What will it write?" });
    this.card = html("div", { className: "card" }, ask, this.load, this.status);
    this.card.setAttribute("role", "group");
    this.card.setAttribute("aria-label", ask.textContent);
    this.attachShadow({ mode: "open" }).append(html("style", { textContent: STYLE }), this.card);
    this.say(this.querySelector("p").textContent);
  }

  say(words) {
    this.status.textContent = words;
  }

  // A script and no fetch: that also works where the book is a folder on a disk.
  fetchModel() {
    this.load.disabled = true;
    this.say("Loading the model …");
    const script = html("script", { src: this.dataset.model });
    window.attnModel = (parts) => setTimeout(() => this.begin(new Model(parts)));
    script.onerror = () => {
      script.remove();
      this.load.disabled = false;
      this.load.textContent = "Try again";
      this.say("The model could not be loaded: the file is not there, or there is no network. " +
        "In Python it is attnbook.models.load(\"book-lm\").");
    };
    document.head.append(script);
  }

  begin(model) {
    Object.assign(this, { model, seed: 0, written: [] });
    this.prompt = html("textarea", { rows: 2, value: this.dataset.prompt });
    const slide = (words, min, max, step, value) => {
      const input = html("input", { type: "range", min, max, step, value });
      const output = html("output", { textContent: value, ariaHidden: "true" });
      input.oninput = () => { output.textContent = input.value; };
      return [input, html("label", {}, words, input, output)];
    };
    const [tau, tauLabel] = slide("temperature", 0, 2, 0.1, 0.8);
    const [p, pLabel] = slide("top-p", 0.05, 1, 0.05, 0.95);
    Object.assign(this, { tau, p });
    this.go = html("button", { textContent: "Write", onclick: () => this.press() });
    const clear = html("button", { textContent: "Begin again", onclick: () => this.clear() });
    this.text = html("div", { className: "text" });
    this.text.setAttribute("role", "group");
    this.text.setAttribute("aria-label", "the text");
    this.text.onkeydown = (event) => this.rove(event);
    this.next = html("div", { className: "next" });
    this.prompt.oninput = () => this.clear();
    const focused = this.shadowRoot.activeElement === this.load;
    this.load.remove();
    this.status.before(
      html("label", {}, "How it begins", this.prompt),
      html("div", { className: "row" }, tauLabel, pLabel, this.go, clear), this.text, this.next);
    this.clear();
    if (focused) this.prompt.focus();
  }

  clear() {
    this.running = false;
    this.written = [];
    this.given = this.model.encode(this.prompt.value);
    this.prompt.setAttribute("aria-invalid", String(!this.given.length));
    this.text.replaceChildren(html("span", { className: "given", textContent: this.prompt.value }));
    this.go.disabled = !this.given.length || this.given.length >= this.model.context;
    this.go.textContent = "Write";
    this.caches = this.model.caches();
    if (this.go.disabled) {
      this.next.replaceChildren();
      this.say(this.given.length ? `The model reads ${this.model.context} tokens at most.`
        : "Write at least one letter.");
      return;
    }
    for (const token of this.given) this.logits = this.model.step(token, this.caches);
    const kept = [...this.prompt.value].every((sign) => /[\n -~]/.test(sign));
    this.say(`${this.given.length} tokens read.` +
      (kept ? "" : " Signs that are not ASCII it does not know: they are left out."));
    this.table(this.logits, -1, "next");
  }

  press() {
    this.running = !this.running;
    this.go.textContent = this.running ? "Stop" : "Write";
    if (!this.running) return this.say("Stopped.");
    const roll = dice((this.seed += 1));
    let left = MOST;
    const on = () => {
      const full = this.given.length + this.written.length >= this.model.context;
      if (!this.running || !left || full) {
        if (this.running) {
          this.say(full ? "256 tokens: it was trained for no more. Begin again."
            : `${this.written.length} tokens written. The darker one is, the less it was expected.`);
          this.go.disabled = full;
        }
        this.running = false;
        this.go.textContent = "Write";
        return;
      }
      left -= 1;
      this.one(roll);
      setTimeout(on);
    };
    this.say("It writes …");
    on();
  }

  one(roll) {
    const { logits, model } = this;
    const token = chosen(logits, Number(this.tau.value), Number(this.p.value), roll);
    const n = this.written.push({ token, logits }) - 1;
    const odd = Math.min(45, -8 * Math.log(softmax(logits)[token]));
    const word = model.word(token);
    const breaks = word.replace(/[^\n]/g, ""); // a button holds no line breaks
    const button = html("button", { tabIndex: n ? -1 : 0 });
    button.textContent = word.replaceAll("\n", "") || "\u21b5";
    button.style.setProperty("--odd", `${odd.toFixed(0)}%`);
    button.onclick = () => this.look(n);
    this.text.append(button, breaks);
    this.logits = model.step(token, this.caches);
    this.table(this.logits, -1, "next");
  }

  // So many draws, for a test of the dice.
  draws(logits, tau, p, times) {
    const roll = dice(1);
    return Array.from({ length: times }, () => chosen(logits, tau, p, roll));
  }

  look(n) {
    const buttons = this.text.querySelectorAll("button");
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === n)));
    const { token, logits } = this.written[n];
    this.table(logits, token);
    const share = softmax(logits)[token];
    this.say(`“${shown(this.model.word(token))}” had probability ${share.toFixed(2)} here.`);
  }

  rove(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const buttons = [...this.text.querySelectorAll("button")];
    const at = buttons.indexOf(this.shadowRoot.activeElement);
    if (!by || at < 0 || !buttons[at + by]) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    buttons[at + by].tabIndex = 0;
    buttons[at + by].focus();
  }

  // The six likeliest, and the chosen one if it is not among them.
  table(logits, token) {
    const shares = softmax(logits);
    const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]).slice(0, 6);
    if (token >= 0 && !order.includes(token)) order[5] = token;
    this.next.replaceChildren(...order.flatMap((n) => [
      html("span", { textContent: shown(this.model.word(n)) }),
      html("div", { className: "bar", style: `width: ${100 * shares[n] / shares[order[0]]}%` }),
      html("span", { textContent: shares[n].toFixed(2) }),
    ]));
  }
}

customElements.define("attn-writer", Writer);
})();
