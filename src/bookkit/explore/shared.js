// What the explorables share: making nodes, state, dragging, controls, the sentence.
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const snap = (x, step) => Number((Math.round(x / step) * step).toFixed(9));
const copy = (x) => JSON.parse(JSON.stringify(x));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// .48, −.5, 2: as numbers stand in the cells of the drawings.
function num(x, digits = 2) {
  const text = x.toFixed(digits);
  if (Number(text) % 1 === 0) return String(Math.round(x) || 0).replace("-", "−");
  return (Math.abs(x) < 1 ? text.replace("0.", ".") : text).replace("-", "−");
}
const say = (x, digits = 2) => x.toFixed(digits).replace("-", "−");

function set(node, { text, ...attributes }) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === false || value == null) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : value);
  }
  if (text !== undefined && node.textContent !== String(text)) node.textContent = text;
  return node;
}

function make(node, attributes, children) {
  set(node, attributes).append(...children);
  return node;
}
const html = (name, attributes = {}, ...children) =>
  make(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const ROLES = "query key value weight output position state gradient ink muted".split(" ");
const STYLE = `
  :host { display: block; container-type: inline-size; max-width: 44rem; margin: 1.2rem auto }
  * { box-sizing: border-box }
  .card { background: var(--d-paper); color: var(--d-ink); border-radius: 10px; padding: 12px 16px;
    border: 1px solid color-mix(in srgb, var(--d-line) 45%, transparent);
    font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
    font-variant-numeric: tabular-nums; overflow-wrap: break-word }
  p { margin: 0 }
  .ask { font-size: 17px; font-weight: 650; margin-bottom: 10px }
  .say { margin: 10px 0; min-height: 2.9em; font-size: 16px }
  .picture { touch-action: pan-y; user-select: none; -webkit-user-select: none }
  svg { display: block; width: 100%; height: auto; overflow: visible }
  svg text { fill: var(--d-ink); font-size: 14px }
  .controls { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 18px; font-size: 14px }
  .picture + .controls { margin-top: 12px }
  .control { display: flex; align-items: center; gap: 8px; flex-wrap: wrap }
  .set { display: inline-flex; flex-wrap: wrap; border-radius: 8px; background: var(--d-surface) }
  .set label { position: relative; cursor: pointer }
  .set input { position: absolute; opacity: 0; inset: 0; margin: 0; cursor: pointer }
  .set span, button { display: inline-flex; align-items: center; justify-content: center;
    min-height: 34px; min-width: 34px; padding: 0 11px; border-radius: 8px }
  .set input:checked + span { background: var(--d-ink); color: var(--d-paper) }
  .set input:disabled + span { color: var(--d-line); cursor: default }
  button { font: inherit; color: inherit; background: var(--d-surface); border: 0; cursor: pointer }
  button:hover, .set label:hover { box-shadow: inset 0 0 0 1.5px var(--d-line) }
  .set label { border-radius: 8px }
  button[aria-pressed=true] { background: var(--d-ink); color: var(--d-paper) }
  button:disabled { color: var(--d-line); cursor: default; box-shadow: none }
  .reset { margin-left: auto }
  input[type=range] { width: 9.5rem; height: 34px; margin: 0; accent-color: var(--d-query) }
  output { min-width: 2.6em; line-height: 34px; text-align: center; font-weight: 650 }
  [role=spinbutton], [role=slider] { cursor: ew-resize }
  [role=spinbutton] { text-decoration: underline dotted 1px;
    text-decoration-color: color-mix(in srgb, currentColor 60%, transparent);
    text-underline-offset: 4px }
  .hint { font-size: 13px; color: var(--d-muted) }
  :focus { outline: none }
  :focus-visible, .set input:focus-visible + span {
    outline: 3px solid var(--d-query); outline-offset: 2px }
  .cell { display: flex; align-items: center; justify-content: center; border-radius: 4px;
    font-size: 13px; color: var(--d-cell); background: color-mix(in srgb,
      var(--f) calc(100% * (.13 + var(--v, 0) * (var(--r) - .13))), var(--d-paper)) }
  .tint { color: var(--c) }
  .quiet { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  slot { display: none }
  @container (max-width: 480px) { .card { padding: 10px 9px } }
  @media print { slot { display: block } .card { display: none } }
  ${ROLES.map(
    (role) => `.${role} { --c: var(--d-${role}); --f: var(--d-${role}-fill);
    --r: var(--d-${role}-reach) }`,
  ).join("\n")}`;

class Explorable extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    this.numbers = JSON.parse(this.dataset.numbers);
    this.start = this.numbers.start;
    this.state = copy(this.start);
    this.syncs = [];
    this.held = null; // the result when the finger came down
    this.picture = html("div", { class: "picture" });
    this.controls = html("div", { class: "controls" });
    this.sentence = html("p", { class: "say" });
    this.aloud = html("div", { class: "quiet", "aria-live": "polite" });
    const style = html("style", { text: STYLE + (this.constructor.style ?? "") });
    const ask = html("p", { class: "ask", text: this.numbers.question });
    const parts = [ask, this.picture, this.sentence, this.controls, this.aloud];
    const frame = { class: "card", role: "group", "aria-label": this.numbers.question };
    const card = html("div", frame, ...parts);
    this.attachShadow({ mode: "open" }).append(style, card, html("slot"));
    this.build();
    this.button("Reset", () => this.reset(), { class: "reset" });
    set(card, { onkeydown: (event) => event.key === "Escape" && this.reset() });
    this.render();
    this.ready = Promise.resolve();
  }

  set(patch) {
    for (const [key, value] of Object.entries(patch)) {
      if (!(key in this.start)) throw new Error(`no "${key}" in the state`);
      const limits = this.constructor.limits?.[key];
      const named = typeof limits?.[0] === "string";
      if (limits && !(named ? limits.includes(value) : value >= limits[0] && value <= limits[1]))
        throw new RangeError(`${key} is ${limits.join(named ? " or " : " to ")}: ${value}`);
    }
    this.state = { ...this.state, ...copy(patch) };
    this.known = null;
    this.redraw();
  }

  reset() {
    this.set(this.start);
  }

  get result() {
    return (this.known ??= this.compute(this.state));
  }

  redraw() {
    if (this.frame) return;
    this.ready = new Promise((done) => {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.render();
        done();
      });
    });
  }

  render() {
    this.syncs.forEach((sync) => sync(this.state));
    this.draw(this.result, this.held);
    const words = this.explained?.() ?? this.tell(this.result);
    if (words === this.sentence.textContent) return;
    const first = !this.sentence.textContent;
    this.sentence.textContent = words;
    clearTimeout(this.later);
    if (!first) this.later = setTimeout(() => set(this.aloud, { text: words }), 250);
  }

  // start(event) is called when the finger comes down and returns what follows it: (dx, dy, event).
  drag(node, start) {
    const down = (event) => {
      if (event.button) return;
      event.preventDefault();
      node.focus({ preventScroll: true });
      node.setPointerCapture(event.pointerId);
      this.held = this.result;
      const follow = start(event);
      const { clientX: x, clientY: y } = event;
      node.onpointermove = (to) => follow(to.clientX - x, to.clientY - y, to);
    };
    const up = () => {
      node.onpointermove = null;
      this.held = null;
      this.redraw();
    };
    set(node, { onpointerdown: down, onpointerup: up, onpointercancel: up });
  }

  keys(node, table) {
    const press = (event) => {
      if (!table[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      table[event.key](event);
    };
    set(node, { onkeydown: press });
  }

  // A number that is scrubbed: dragged sideways, or moved with arrow and Page keys.
  scrub(
    node,
    { label, get, put, first, home, min, max, step, pixels = 7, role = "slider", show = say },
  ) {
    const to = (x) => put(snap(clamp(x, min, max), step));
    const by = (steps) => () => to(get() + steps * step);
    const up = { ArrowUp: by(1), PageUp: by(10), ArrowDown: by(-1), PageDown: by(-10) };
    const across = role === "slider" ? { ArrowRight: by(1), ArrowLeft: by(-1) } : {};
    this.keys(node, { ...up, ...across, Home: home ?? (() => to(first())) });
    this.drag(node, () => {
      const begin = get();
      return (dx) => to(begin + Math.round(dx / pixels) * step);
    });
    const range = { "aria-valuemin": min, "aria-valuemax": max, "aria-label": label };
    set(node, { role, ...range, tabindex: node.getAttribute("tabindex") ?? 0 });
    this.syncs.push(() => {
      const now = { "aria-valuenow": get(), "aria-valuetext": show(get()) };
      set(node, now);
    });
    return node;
  }

  // One Tab stop for many nodes; keys maps a key to how far it goes.
  rove(nodes, keys) {
    nodes.forEach((node, at) => {
      const go = (by) => () => {
        const seen = nodes.filter((other) => other.offsetParent ?? other.ownerSVGElement);
        seen[clamp(seen.indexOf(node) + by, 0, seen.length - 1)].focus();
      };
      this.keys(node, Object.fromEntries(Object.entries(keys).map(([key, by]) => [key, go(by)])));
      const enter = () =>
        nodes.forEach((other) => set(other, { tabindex: other === node ? 0 : -1 }));
      set(node, { tabindex: at ? -1 : 0, onfocus: enter });
    });
  }

  control(name, ...nodes) {
    const box = html("div", { class: "control" }, html("span", { text: name }), ...nodes);
    this.controls.append(box);
    return box;
  }

  // Buttons of which one is down: options are [value, name, icon if there is one].
  choice(key, name, options, patch = (value) => ({ [key]: value })) {
    const group = html("div", { class: "set", role: "radiogroup", "aria-label": name || key });
    for (const [value, words, icon = ""] of options) {
      const onchange = () => this.set(patch(value));
      const input = html("input", { type: "radio", name: key, "aria-label": words, onchange });
      group.append(html("label", {}, input, html("span", { "aria-hidden": "true" }, icon, words)));
      this.syncs.push((state) => (input.checked = same(state[key], value)));
    }
    const touched = Object.keys(patch(options[0][0]));
    const first = () => Object.fromEntries(touched.map((name) => [name, this.start[name]]));
    this.keys(group, { Home: () => this.set(first()) });
    return name ? this.control(name, group) : (this.controls.append(group), group);
  }

  button(name, onclick, attributes = {}, parent = this.controls) {
    const node = html("button", { type: "button", text: name, onclick, ...attributes });
    parent.append(node);
    return node;
  }

  slider(key, name, min, max, step, show = say) {
    const oninput = () => this.set({ [key]: snap(Number(input.value), step) });
    const input = html("input", { type: "range", min, max, step, oninput, "aria-label": name });
    const output = html("output", { "aria-hidden": "true" });
    this.keys(input, { Home: () => this.set({ [key]: this.start[key] }) });
    this.syncs.push((state) => {
      input.value = state[key];
      set(input, { "aria-valuetext": show(state[key]) });
      set(output, { text: show(state[key]) });
    });
    return this.control(name, input, output);
  }
}

function define(tag, type) {
  if (!customElements.get(tag)) customElements.define(tag, type);
}
