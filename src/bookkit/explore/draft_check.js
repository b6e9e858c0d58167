// A draft proposes a token, the model accepts it or not: what is kept, what is drawn instead.
const ROWS = 6;
const shown = (token) => token.replace(/^ +| +$/g, "").replace(/\n/g, "↵") || "␣";

class DraftCheck extends Explorable {
  static limits = { place: [1, 12], draft: ["counts", "coarse"], token: [0, 4] };

  at({ place, draft, token }) {
    const here = this.numbers.places[place - 1];
    return { here, p: here.p, ...here[draft], token: Math.min(token, here.p.length - 2) };
  }

  compute(state) {
    const { p, q, both, token } = this.at(state);
    const last = p.length - 1;
    const kept = p.map((share, n) => (n < last ? Math.min(share, q[n]) : both));
    const overlap = sum(kept);
    const rest = p.map((share, n) => (share - kept[n]) / (1 - overlap));
    return { kept, rest, overlap, chance: q[token] ? kept[token] / q[token] : 0 };
  }

  build() {
    this.text = html("p", { class: "text" });
    this.table = html("div", { class: "table" });
    this.rows = Array.from({ length: ROWS }, (_, n) => this.row(n));
    this.rove(this.rows.map(({ name }) => name), { ArrowUp: -1, ArrowDown: 1 });
    const legend = html("div", { class: "legend" });
    for (const [look, words] of [
      ["key", "the draft's probability"],
      ["value", "kept"],
      ["output", "left for the model's own draw"],
    ])
      legend.append(html("span", {}, html("i", { class: look }), words));
    this.picture.append(this.text, this.table, legend);
    this.slider("place", "place", 1, 12, 1, String);
    this.choice("draft", "draft", [
      ["counts", "table of counts"],
      ["coarse", "itself in 3 bits"],
    ]);
  }

  row(n) {
    const onclick = () => n < ROWS - 1 && this.set({ token: n });
    const name = this.button("", onclick, { class: "word" }, this.table);
    const bars = ["value", "output", "key"].map((look) => html("span", { class: `bar ${look}` }));
    const above = html("div", { class: "above" }, bars[0], bars[1]);
    const track = html("div", { class: "track" }, above, bars[2]);
    const number = html("div", { class: "number" });
    this.table.append(track, number);
    return { name, bars, track, number };
  }

  draw({ kept }) {
    const { here, p, q, token } = this.at(this.state);
    const last = p.length - 1;
    const most = Math.max(...p, ...q);
    const wide = (x) => `width: ${((100 * x) / most).toFixed(2)}%`;
    set(this.text, { text: `…${here.before.replace(/\n */g, " ")} ▁` });
    this.rows.forEach(({ name, bars, track, number }, n) => {
      for (const node of [name, track, number]) node.hidden = n > last;
      if (n > last) return;
      set(name, { text: n < last ? shown(here.tokens[n]) : "others",
        "aria-pressed": String(n === token) });
      name.disabled = n === last;
      [kept[n], p[n] - kept[n], q[n]].forEach((x, i) => set(bars[i], { style: wide(x) }));
      set(number, { text: num(p[n]) });
    });
  }

  tell({ chance, overlap }) {
    const { here, p, q, token } = this.at(this.state);
    const [had, has] = [q[token].toFixed(2), p[token].toFixed(2)];
    const word = `“${shown(here.tokens[token])}” was proposed with probability ${had}`;
    const stays = `the model has ${has}, so it stays with ${chance.toFixed(2)}`;
    return `${word}; ${stays}. Of all proposals here ${(100 * overlap).toFixed(0)} % stay.`;
  }

  static style = `
    .text { margin: 0 0 10px; font-size: 15px; overflow-wrap: anywhere }
    .table { display: grid; gap: 4px 10px; align-items: center;
      grid-template-columns: 5.4em 1fr 2.4em }
    .word { overflow: hidden; white-space: nowrap; font-size: 15px; padding: 0 4px;
      min-height: 34px }
    .table [hidden] { display: none }
    .above { display: flex; height: 15px }
    .bar { display: block; background: var(--c) }
    .track > .bar { height: 7px; margin-top: 2px }
    .number { font-size: 14px; text-align: right }
    .legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin-top: 10px; font-size: 14px }
    .legend i { display: inline-block; width: 14px; height: 10px; margin-right: 6px;
      background: var(--c) }`;
}

define("attn-draft-check", DraftCheck);
