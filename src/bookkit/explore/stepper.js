// A small whole number between − and +, which can be dragged, too.
const stepping = {
  stepper(key, name, min, max, show = String, patch = (value) => ({ [key]: value })) {
    const get = () => this.state[key];
    const put = (value) => this.set(patch(value));
    const by = (n) => () => put(clamp(get() + n, min, max));
    const value = html("output", {});
    const touched = Object.keys(patch(min));
    const first = () => Object.fromEntries(touched.map((name) => [name, this.start[name]]));
    const home = () => this.set(first());
    this.scrub(value, { label: name, get, put, home, min, max, step: 1, pixels: 14, show });
    const box = this.control(name);
    const less = this.button("−", by(-1), { "aria-label": `less: ${name}`, tabindex: -1 }, box);
    box.append(value);
    const more = this.button("+", by(1), { "aria-label": `more: ${name}`, tabindex: -1 }, box);
    this.syncs.push(() => {
      set(value, { text: show(get()) });
      less.disabled = get() <= min;
      more.disabled = get() >= max;
    });
    return box;
  },
};

Object.assign(Explorable.prototype, stepping);
