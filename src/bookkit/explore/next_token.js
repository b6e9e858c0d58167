// What a trained model expects at each token of a line, and what a filter leaves of it.
const NAMES = { none: "no cut", top_k: "top-k", top_p: "top-p", min_p: "min-p" };
const VALUE = { top_k: "k", top_p: "p", min_p: "m" };

// Sorted logits in, how many of the first stay out: as in the module.
const CUTS = {
  none: (logits) => logits.length,
  top_k: (logits, { k }) => logits.filter((x) => x >= logits[k - 1]).length,
  top_p: (logits, { p }) => {
    if (p === 1) return logits.length;
    let total = 0;
    return softmax(logits).filter((share) => (total += share) - share < p).length;
  },
  min_p: (logits, { m }) => logits.filter((x) => x >= logits[0] + Math.log(m)).length,
};

const shown = (token) => token.replace(/^ +| +$/g, "").replace("\n", "↵") || "␣";

function unpacked(place) {
  const levels = [...atob(place.levels)].map((sign) => sign.charCodeAt(0));
  return [...place.first, ...levels.map((level) => place.from - place.step * level)];
}

class NextToken extends Explorable {
  static limits = { place: [0, 6], tau: [0.1, 3], cut: Object.keys(NAMES), k: [1, 60],
    p: [0.05, 1], m: [0.01, 0.5] };

  compute({ place, tau, cut, ...numbers }) {
    this.logits ??= this.numbers.places.map(unpacked);
    const given = this.logits[place];
    const shown = this.numbers.places[place].names.length;
    const warm = given.map((x) => x / tau);
    const kept = CUTS[cut](warm, numbers);
    const shares = softmax(warm);
    const had = sum(shares.slice(0, kept));
    const now = shares.map((share, i) => (i < kept ? share / had : 0));
    const first = (row) => row.slice(0, shown);
    const others = sum(now.slice(shown));
    return { given: first(softmax(given)), now: first(now), others, kept, had };
  }

  build() {
    const { before, tokens, places } = this.numbers;
    this.line = html("div", { class: "line" }, html("span", { class: "name", text: before }));
    this.words = tokens.map((token, place) =>
      this.button(shown(token), () => this.set({ place }), {}, this.line));
    this.rove(this.words, { ArrowLeft: -1, ArrowRight: 1 });
    this.table = html("div", { class: "table" });
    this.rows = [...places[0].names, "others"].map((_, n) => this.row(n));
    this.picture.append(this.line, this.table);
    this.slider("tau", "temperature", 0.1, 3, 0.1, (x) => say(x, 1));
    this.choice("cut", "", Object.entries(NAMES));
    this.cuts = {
      top_k: this.slider("k", "k", 1, 60, 1, String),
      top_p: this.slider("p", "p", 0.05, 1, 0.05),
      min_p: this.slider("m", "min-p", 0.01, 0.5, 0.01),
    };
  }

  row(n) {
    const name = html("div", { class: "word" });
    const [full, was] = ["full", "was"].map((kind) => html("span", { class: kind }));
    const many = html("span", { class: "many" });
    const track = html("div", { class: "track" }, full, was, many);
    const now = html("div", { class: "now" });
    this.table.append(name, track, now);
    return { name, full, was, many, track, now };
  }

  draw({ given, now, others, kept }) {
    const { place, cut } = this.state;
    const { names } = this.numbers.places[place];
    this.words.forEach((word, n) => {
      set(word, { "aria-pressed": String(n === place), class: n > place ? "later" : "" });
    });
    for (const [name, box] of Object.entries(this.cuts)) box.hidden = name !== cut;
    const most = Math.max(...given, ...now); // of single tokens: all others together are no token
    const wide = (x) => `${(100 * x) / most}%`;
    this.rows.forEach(({ name, full, was, many, track, now: words }, n) => {
      const rest = n === names.length;
      const share = rest ? others : now[n];
      set(name, { text: rest ? "others" : shown(names[n]) });
      set(full, { style: rest ? "display: none" : `width: ${wide(share)}` });
      set(many, { text: rest && share ? `${(kept - n).toLocaleString("en")} more, together` : "" });
      set(was, { style: rest ? "display: none" : `width: ${wide(given[n])}` });
      set(words, { text: share ? num(share) : "cut" });
      track.classList.toggle("cut", !share);
      name.classList.toggle("rest", rest);
    });
  }

  tell({ kept, now }) {
    const { place, tau, cut } = this.state;
    const { tokens, places } = this.numbers;
    const after = place ? `After “${shown(tokens[place - 1])}”` : "After the name";
    const filter = cut === "none" ? "" : `, ${NAMES[cut]} ${this.state[VALUE[cut]]}`;
    const best = shown(places[place].names[0]);
    const stay = kept.toLocaleString("en");
    const may = `${stay} of 1,024 tokens may come next`;
    return `${after}, at temperature ${tau}${filter}: ${may}. ` +
      `The likeliest, “${best}”, has ${now[0].toFixed(2)}.`;
  }

  static style = `
    .line { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; margin-bottom: 10px }
    .line button { min-width: 32px; padding: 0 8px; font-size: 16px }
    .line .later { color: var(--d-muted); background: none;
      box-shadow: inset 0 0 0 1px color-mix(in srgb, var(--d-line) 45%, transparent) }
    .name { white-space: nowrap; font-weight: 650; margin-right: 6px }
    .table { display: grid; gap: 4px 10px; align-items: center;
      grid-template-columns: 4.2em 1fr 2.6em }
    .word { font-weight: 650; text-align: right; font-size: 15px; white-space: nowrap }
    .rest { color: var(--d-muted); font-weight: 400 }
    .track { position: relative; height: 22px; border-radius: 4px }
    .full { position: absolute; inset: 0 auto 0 0; border-radius: 4px;
      background: color-mix(in srgb, var(--d-output-fill) 62%, var(--d-paper)) }
    .was { position: absolute; inset: 0 auto 0 0; border-radius: 4px;
      border: 1.5px dashed var(--d-muted) }
    .many { color: var(--d-muted); font-size: 14px; line-height: 22px }
    .cut { background: repeating-linear-gradient(135deg, transparent 0 4px,
      color-mix(in srgb, var(--d-muted) 28%, transparent) 4px 5px) }
    .now { font-size: 14px; font-weight: 650; text-align: right }
    [hidden] { display: none !important }
    @container (max-width: 480px) { .line button { font-size: 15px; padding: 0 6px }
      .say { min-height: 4.4em } }`;
}

define("attn-next-token", NextToken);
