// The book's language model in the page: nothing is loaded before somebody asks for it.
(() => {
const html = (name, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(name), attributes);
  node.append(...children);
  return node;
};

const { load, softmax } = window.attnEngine; // of model.js

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
  :host { display: block; margin: 1.2rem 0; max-width: 44rem; container-type: inline-size }
  * { box-sizing: border-box }
  .card { border: 1px solid color-mix(in srgb, var(--pst-color-text-muted) 45%, transparent);
    border-radius: 10px; padding: 12px 16px; color: var(--pst-color-text-base);
    font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
    font-variant-numeric: tabular-nums; --q: var(--writer, #17539B) }
  p { margin: 0 0 8px } .ask { font-size: 17px; font-weight: 650; margin-bottom: 10px }
  label { display: block; font-size: 14px }
  .row { display: flex; flex-wrap: wrap; gap: 8px 18px; margin: 10px 0 }
  .row label { display: flex; align-items: center; gap: 8px }
  textarea { width: 100%; font: inherit; font-size: 15px; padding: 6px 8px; border-radius: 8px;
    resize: vertical; color: inherit; background: var(--pst-color-surface);
    border: 1px solid var(--pst-color-text-muted) }
  button, select { font: inherit; font-size: 14px; color: inherit; border: 0; cursor: pointer;
    background: var(--pst-color-surface); border-radius: 8px; min-height: 34px; padding: 0 11px }
  button:hover:not(:disabled) {
    box-shadow: inset 0 0 0 1.5px color-mix(in srgb, var(--pst-color-text-muted) 60%, transparent) }
  button:disabled { cursor: default; color: var(--pst-color-text-muted) }
  input { width: 9.5rem; height: 34px; margin: 0; accent-color: var(--q) }
  output { min-width: 2.4em; font-weight: 650 }
  :focus { outline: none }
  :focus-visible { outline: 3px solid var(--q); outline-offset: 2px }
  .text { white-space: pre-wrap; overflow-wrap: anywhere; margin: 10px 0; font-size: 16px;
    line-height: 1.75 }
  .text > * { box-shadow: inset 0 calc(-9px * var(--look, 0)) 0 var(--q) }
  .text button { border-radius: 3px; padding: 0; min-height: 0; white-space: pre-wrap;
    font-size: 16px; background: color-mix(in srgb, var(--q) var(--odd), transparent) }
  .text button:hover:not(:disabled) { box-shadow: inset 0 calc(-9px * var(--look, 0)) 0 var(--q) }
  .text button[aria-pressed=true] { outline: 2px solid var(--pst-color-text-base) }
  .given { color: var(--pst-color-text-muted) }
  .next { display: grid; grid-template-columns: 6em 1fr 3em; gap: 3px 8px; align-items: center;
    font-size: 14px }
  .next :nth-child(3n + 1) { text-align: right; white-space: pre; overflow: hidden }
  .track { height: 16px; border-radius: 3px; background: var(--pst-color-surface) }
  .bar { height: 16px; border-radius: 3px; background: var(--q); opacity: .75 }
  [role=status] { min-height: 1.5em; margin: 10px 0 0; font-size: 16px }
  [hidden] { display: none !important }
  @media print { button, .row { display: none } }`;
const MOST = 48; // tokens for one press
const PAUSE = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 70; // ms: one can read along
const shown = (word) => word.replaceAll("\n", "↵").replaceAll(" ", "␣");

class Writer extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    this.status = html("p", { role: "status" });
    this.status.setAttribute("role", "status");
    this.load = html("button", { textContent: this.querySelector("button").textContent });
    this.load.onclick = () => this.fetchModel();
    const ask = html("p", { className: "ask", textContent: "What will it write?" });
    const { prompt, first = "" } = this.dataset;
    const begun = html("span", { className: "given", textContent: prompt });
    this.sample = html("div", { className: "text" }, begun, first);
    this.card = html("div", { className: "card" }, ask, this.sample, this.load, this.status);
    this.card.setAttribute("role", "group");
    this.card.setAttribute("aria-label", ask.textContent);
    this.attachShadow({ mode: "open" }).append(html("style", { textContent: STYLE }), this.card);
    this.say(this.querySelector("p").textContent);
  }

  say(words) {
    this.status.textContent = words;
  }

  async fetchModel() {
    this.load.disabled = true;
    this.say("Loading the model …");
    try {
      this.begin(await load(this.dataset.model));
    } catch (trouble) {
      this.load.disabled = false;
      this.load.textContent = "Try again";
      this.say(trouble.message);
    }
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
    const { depth, heads } = model.sizes;
    const names = Array.from({ length: depth * heads }, (_, n) => `${Math.floor(n / heads)}.${n % heads}`);
    this.head = html("select", { onchange: () => this.underline() },
      ...["all, mean", ...names].map((name) => html("option", { textContent: name })));
    const headLabel = html("label", {}, "underlined: where head", this.head, "looks");
    const focused = this.shadowRoot.activeElement === this.load;
    this.load.remove();
    this.sample.remove();
    this.status.before(
      html("label", {}, "How it begins", this.prompt),
      html("div", { className: "row" }, tauLabel, pLabel, this.go, clear), this.text, this.next,
      html("div", { className: "row" }, headLabel));
    this.clear();
    if (focused) this.prompt.focus();
  }

  clear() {
    this.running = false;
    this.written = [];
    this.given = this.model.encode(this.prompt.value);
    this.prompt.setAttribute("aria-invalid", String(!this.given.length));
    const words = this.given.map((token) => this.model.word(token));
    this.text.replaceChildren(
      ...words.map((textContent) => html("span", { className: "given", textContent })));
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
      (kept ? "" : " Signs without a token are read byte by byte: \\x and two digits."));
    this.table(this.logits, -1);
    this.underline((this.last = this.model.looks));
  }

  // How much the chosen head looks at each token: as a line below it.
  underline(looks = this.looks) {
    this.looks = looks;
    const place = this.head.selectedIndex - 1, { heads } = this.model.sizes;
    const rows = place < 0 ? looks.flat() : [looks[Math.floor(place / heads)][place % heads]];
    const tokens = [...this.text.querySelectorAll(".given, button")];
    tokens.forEach((node, j) => {
      const share = rows.reduce((all, row) => all + (row[j] ?? 0), 0) / rows.length;
      node.style.setProperty("--look", share.toFixed(3));
    });
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
        this.go.textContent = "Write on";
        return;
      }
      left -= 1;
      this.one(roll);
      setTimeout(on, PAUSE);
    };
    this.say("It writes …");
    on();
  }

  one(roll) {
    const { logits, model } = this;
    const token = chosen(logits, Number(this.tau.value), Number(this.p.value), roll);
    const n = this.written.push({ token, logits, looks: this.last }) - 1;
    const odd = Math.min(45, -8 * Math.log(softmax(logits)[token]));
    const word = model.word(token);
    const breaks = word.replace(/[^\n]/g, ""); // a button holds no line breaks
    const button = html("button", { tabIndex: n ? -1 : 0 });
    button.textContent = word.replaceAll("\n", "") || "\u21b5";
    button.style.setProperty("--odd", `${odd.toFixed(0)}%`);
    button.onclick = () => this.look(n);
    this.text.append(button, breaks);
    this.underline(this.last);
    this.logits = model.step(token, this.caches);
    this.last = model.looks; // others on the page step the same model
    this.table(this.logits, -1);
  }

  // So many draws, for a test of the dice.
  draws(logits, tau, p, times) {
    const roll = dice(1);
    return Array.from({ length: times }, () => chosen(logits, tau, p, roll));
  }

  look(n) {
    const buttons = this.text.querySelectorAll("button");
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === n)));
    const { token, logits, looks } = this.written[n];
    this.table(logits, token);
    this.underline(looks);
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
      html("div", { className: "track" },
        html("div", { className: "bar", style: `width: ${100 * shares[n]}%` })),
      html("span", { textContent: shares[n].toFixed(2) }),
    ]));
  }
}

customElements.define("attn-writer", Writer);
})();
