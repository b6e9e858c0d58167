// What the explorables share: SVG making, a frame in a shadow root, sliders with a visible value.
const NS = "http://www.w3.org/2000/svg";

function svg(name, attributes = {}, parent, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

const STYLE = `
  :host { display: block; max-width: 36rem; margin: 1rem auto; }
  .card { background: #fff; color: #222; border: 1px solid #ccc; border-radius: 6px; padding: .6rem .8rem;
          font: 15px/1.4 system-ui, sans-serif; }
  .controls { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; }
  label { display: flex; align-items: center; gap: .5rem; min-height: 2rem; }
  input[type=range] { width: 9rem; accent-color: #0072B2; }
  output { font-variant-numeric: tabular-nums; min-width: 3rem; }
  select { font: inherit; padding: .15rem; }
  svg { width: 100%; height: auto; display: block; touch-action: pan-y; }
  svg text { font: 15px system-ui, sans-serif; fill: #222; }
  p { margin: .3rem 0 0; }
  :focus-visible { outline: 3px solid #0072B2; outline-offset: 2px; }`;

class Explorable extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    this.numbers = JSON.parse(this.dataset.numbers);
    const root = this.attachShadow({ mode: "open" });
    root.innerHTML = `<style>${STYLE}</style><div class="card"><div class="controls"></div></div>`;
    this.card = root.querySelector(".card");
    this.controls = root.querySelector(".controls");
    this.build();
    this.draw();
  }

  slider(name, min, max, step, value) {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "range", min, max, step });
    const output = document.createElement("output");
    const shown = () => { output.textContent = Number(input.value).toFixed(step < 1 ? 2 : 0); };
    input.value = value;
    input.addEventListener("input", () => { shown(); this.draw(); });
    label.append(name, input, output);
    this.controls.append(label);
    shown();
    return input;
  }

  choice(name, options) {
    const label = document.createElement("label");
    const select = document.createElement("select");
    for (const option of options) select.append(new Option(option, option));
    select.addEventListener("change", () => this.draw());
    label.append(name, select);
    this.controls.append(label);
    return select;
  }

  sentence() {
    const line = document.createElement("p");
    line.setAttribute("aria-live", "polite");
    this.card.append(line);
    return line;
  }
}

function define(name, type) {
  if (!customElements.get(name)) customElements.define(name, type);
}
