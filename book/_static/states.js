// The state of an explorable in the address: #fig-masks='seed':1 says what differs from the start.
document.addEventListener("DOMContentLoaded", () => {
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  // Quotation marks that an address need not write as %22.
  const swapped = (text) => text.replace(/["']/g, (mark) => (mark === '"' ? "'" : '"'));
  // Whether a value is of the same kind: a number, a string, a list or an object of such.
  const alike = (a, b) => {
    if (a === null || b === null) return a === b || typeof (a ?? b) !== "object" || Array.isArray(a ?? b);
    if (typeof a !== typeof b || Array.isArray(a) !== Array.isArray(b)) return false;
    if (typeof a === "number") return Number.isFinite(a);
    if (typeof a !== "object") return true;
    if (Array.isArray(a)) return a.length <= 4096 && (!b.length || a.every((part) => alike(part, b[0])));
    return same(Object.keys(a).sort(), Object.keys(b).sort()) && Object.keys(a).every((key) => alike(a[key], b[key]));
  };
  const place = (node) => node.closest("figure[id]")?.id ?? node.localName;
  const link = (node) => {
    const differs = Object.entries(node.state).filter(([key, value]) => !same(value, node.start[key]));
    const said = swapped(JSON.stringify(Object.fromEntries(differs)).slice(1, -1));
    return said ? `#${place(node)}=${encodeURIComponent(said)}` : `#${place(node)}`;
  };
  // What does not fit leaves everything as it is.
  const take = (node, said) => {
    const before = node.state;
    try {
      const patch = JSON.parse(`{${swapped(said)}}`);
      for (const [key, value] of Object.entries(patch)) {
        if (!Object.hasOwn(node.start, key) || !alike(value, node.start[key])) throw new TypeError(key);
      }
      node.set({ ...node.start, ...patch });
      node.render();
    } catch {
      node.set(before);
    }
  };
  const arrive = (node) => {
    let name, said;
    try { [name, said] = decodeURIComponent(location.hash.slice(1)).split(/=(.*)/s); } catch { return; }
    if (said && name === place(node)) take(node, said);
  };
  const copied = async (text) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const field = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
  };
  const nodes = [...document.querySelectorAll("[data-numbers]")];
  nodes.forEach((node) => customElements.whenDefined(node.localName).then(() => {
    if (!node.button) return;
    // What can be dragged is seen to be so: its line is thicker here than a notebook can know.
    const style = document.createElement("style");
    style.textContent = "[role=spinbutton]:not(svg *) { text-decoration: underline dotted 2px color-mix(in srgb, currentColor 85%, transparent); border-radius: 4px }"
      + "[role=spinbutton]:hover { box-shadow: 0 0 0 1.5px currentColor }"
      + ".reset-and-link { display: flex; gap: 8px 18px; margin-left: auto }";
    node.shadowRoot.append(style);
    const press = node.button("Copy link", async () => {
      const whole = new URL(link(node), location.href);
      try { history.replaceState(null, "", whole); } catch { /* a page on a disk keeps its address */ }
      whole.search = "";
      await copied(whole.href);
      press.textContent = "Copied";
      setTimeout(() => { press.textContent = "Copy link"; }, 1600);
    }, { title: "A link to the picture as it is now" });
    // It stays beside Reset where a line is full.
    const reset = node.shadowRoot.querySelector("button.reset");
    const ends = Object.assign(document.createElement("div"), { className: "reset-and-link" });
    reset.before(ends);
    ends.append(reset, press);
    arrive(node);
  }));
  if (nodes.length) addEventListener("hashchange", () => nodes.forEach(arrive));
  window.attnStates = { link, take };
});
