// How a number came about, said while it is pointed at.
const explaining = {
  // While a node is pointed at or has the focus, words() stands below the picture and lit() glows.
  explain(node, words, lit = () => []) {
    const on = () => {
      this.off?.();
      this.explained = words;
      const nodes = lit();
      nodes.forEach((other) => other.classList.add("lit"));
      this.off = () => nodes.forEach((other) => other.classList.remove("lit"));
      this.redraw();
    };
    const off = () => {
      this.off?.();
      this.explained = this.off = null;
      this.redraw();
    };
    set(node, { onpointerenter: on, onfocus: on, onpointerleave: off, onblur: off });
    this.syncs.push(() => set(node, { "aria-label": words() }));
  },
};

Object.assign(Explorable.prototype, explaining);
