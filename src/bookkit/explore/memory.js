// Pairs of a name and a picture, kept in four ways: a cache, a sum, the delta rule, the gated one.
const [D, SIDE, MOST, LEVELS] = [16, 8, 4, 5];
const [DV, STEPS, SHARP, AHEAD] = [SIDE * SIDE, 20, 12, 0.1];
const ROOM = Math.floor((D * DV) / (D + DV)); // pairs in as many bytes as a matrix
const NAMES = [..."abcdefghijklmnop"];
const LANES = ["KV cache", "sum", "delta", "gated delta"];
const KINDS = ["0", "1", "right angles"];
const still = matchMedia("(prefers-reduced-motion: reduce)");
const zeros = (rows, columns) => Array.from({ length: rows }, () => Array(columns).fill(0));
const unit = (row) => row.map((x) => x / Math.sqrt(dot(row, row) + 1e-6));
const read = (S, k) => S[0].map((_, n) => S.reduce((total, row, i) => total + k[i] * row[n], 0));
const thousands = (n) => n.toLocaleString("en-US");
const words = (list) => `${list.slice(0, -1).join(", ")} and ${list.at(-1)}`;

function centred(row) {
  const middle = sum(row) / row.length;
  const rest = row.map((x) => x - middle);
  const length = Math.sqrt(dot(rest, rest));
  return length < 1e-6 ? null : rest.map((x) => x / length);
}

// S ← α S, then S ← S + k (v − Sᵀ k)ᵀ; with `add`, S ← S + k vᵀ.
function written(S, k, v, keep, add) {
  const faded = S.map((row) => row.map((x) => keep * x));
  const old = add ? v.map(() => 0) : read(faded, k);
  return faded.map((row, i) => row.map((x, n) => x + k[i] * (v[n] - old[n])));
}

class FourMemories extends Explorable {
  static limits = {
    step: [0, STEPS],
    ask: NAMES,
    keep: [0.5, 1],
    keys: KINDS,
    cache: ["all", "equal"],
  };

  // Pictures as zeros and ones, and the keys of each kind.
  get tables() {
    return (this.made ??= (() => {
      const { pictures, random } = this.numbers;
      const bits = (text) =>
        [...text].flatMap((digit) => [8, 4, 2, 1].map((bit) => Number((parseInt(digit, 16) & bit) > 0)));
      const odd = (n) => [...n.toString(2)].filter((bit) => bit === "1").length % 2;
      const rows = (text) => {
        const all = text.split(" ").map(Number);
        return NAMES.map((_, n) => unit(all.slice(D * n, D * n + D)));
      };
      const signs = NAMES.map((_, i) => unit(NAMES.map((_, j) => (odd(i & j) ? -1 : 1))));
      const values = Object.values(pictures).map(bits);
      return {
        called: Object.keys(pictures),
        values,
        shapes: values.map(centred),
        keys: { 0: rows(random[0]), 1: rows(random[1]), "right angles": signs },
      };
    })());
  }

  // What was read, in order: [name, picture].
  pairs({ step, again }) {
    const [names, whats] = this.numbers.story;
    const pairs = [...names].slice(0, step).map((name, n) => [NAMES.indexOf(name), parseInt(whats[n], 16)]);
    for (const name of [...again].slice(0, MOST)) {
      const at = NAMES.indexOf(name);
      if (at < 0) throw new RangeError(`names are a to p: ${name}`);
      const old = new Map(pairs).get(at) ?? 0;
      pairs.push([at, (old + 5) % this.tables.values.length]);
    }
    return pairs;
  }

  compute(state) {
    const { values, shapes, keys } = this.tables;
    const pairs = this.pairs(state);
    const key = keys[state.keys];
    let S = [zeros(D, DV), zeros(D, DV), zeros(D, DV)];
    for (const [name, what] of pairs) {
      const [k, v] = [key[name], values[what]];
      S = S.map((old, n) => written(old, k, v, n === 2 ? state.keep : 1, n === 0));
    }
    const kept = state.cache === "all" ? pairs : pairs.slice(-ROOM);
    const [k, v] = [kept.map(([name]) => key[name]), kept.map(([, what]) => values[what])];
    const look = (q) => softmax(k.map((one) => SHARP * dot(q, one)));
    const mix = (q) => (kept.length ? read(v, look(q)) : zeros(1, DV)[0]);
    const answers = (q) => [mix(q), ...S.map((s) => read(s, q))];
    const fits = (answer) => {
      const shape = centred(answer);
      return shapes.map((one) => (shape ? dot(one, shape) : 0));
    };
    const newest = new Map(pairs);
    const ask = NAMES.indexOf(state.ask);
    const now = answers(key[ask]);
    const fit = now.map(fits);
    const right = LANES.map(() => 0);
    for (const [name, what] of newest)
      answers(key[name]).forEach((answer, n) => {
        right[n] += Number(same(this.says(fits(answer)), [what]));
      });
    const numbers = [kept.length * (D + DV), ...S.map(() => D * DV)];
    return {
      S,
      weights: kept.length ? look(key[ask]) : [],
      answers: now,
      says: fit.map(this.says),
      match: fit.map((row) => (newest.has(ask) ? row[newest.get(ask)] : 0)),
      known: newest.size,
      right,
      bytes: numbers.map((n) => 4 * n),
    };
  }

  // The picture that fits best, and the second if it is close behind.
  says(fit) {
    const [one, two] = fit.map((_, n) => n).sort((a, b) => fit[b] - fit[a] || a - b);
    if (fit[one] <= 1e-9) return [];
    return fit[one] - fit[two] < AHEAD ? [one, two] : [one];
  }

  build() {
    const { called } = this.tables;
    const box = this.choice("ask", "", NAMES.map((name) => [name, name]));
    box.classList.add("names");
    set(box, { "aria-label": "name that is asked for" });
    this.tiles = [...box.querySelectorAll("label")].map((label) => {
      const [input, face] = label.children;
      const [view, paths] = this.screen(8, 8, "value");
      face.append(view);
      return { label, input, paths };
    });
    this.over = html("button", {
      type: "button",
      onclick: () => this.set({ again: this.state.again + this.state.ask }),
    });
    const hint = html("span", { class: "hint", text: "Touch a name to ask for it. Red is below 0." });
    this.lanes = LANES.map((name, n) => this.lane(name, n));
    const boxes = this.lanes.map(({ node }) => node);
    const line = html("div", { class: "line" }, hint);
    this.player = this.button("", () => this.play(), {}, line);
    line.append(this.over);
    this.picture.append(box, line, html("div", { class: "lanes" }, ...boxes));
    this.slider("step", "pairs read", 0, STEPS, 1, String);
    this.choice("cache", "cache", [
      ["all", "keeps all"],
      ["equal", "equal bytes"],
    ]);
    const random = (seed) => [String(seed), `seed ${seed}`];
    this.choice("keys", "keys", [random(0), random(1), ["right angles", "right angles"]]);
    this.syncs.push(({ again, ask, step }) => {
      set(this.over, { text: `Overwrite ${ask}`, disabled: again.length >= MOST });
      set(this.player, { text: still.matches ? "Next" : this.timer ? "Stop" : "Play" });
      const newest = new Map(this.pairs(this.state));
      this.tiles.forEach(({ input }, n) => {
        const what = newest.has(n) ? called[newest.get(n)] : "not read yet";
        set(input, { "aria-label": `${NAMES[n]}: ${what}` });
      });
    });
  }

  // An SVG whose squares are as strong as their numbers are large: one path for each strength.
  screen(width, height, role) {
    const view = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    return [view, this.layer(view, role)];
  }

  layer(view, role) {
    return [role, "gradient"].map((colour) =>
      Array.from({ length: LEVELS }, (_, n) => {
        const style = `opacity: ${(n + 1) / LEVELS}`;
        return view.appendChild(svg("path", { class: `pixel ${colour}`, style }));
      }),
    );
  }

  // Squares for [x, y, number].
  shade(paths, squares) {
    const found = paths.map((row) => row.map(() => ""));
    for (const [x, y, number] of squares) {
      const level = Math.round(LEVELS * Math.min(1, Math.abs(number)));
      if (level) found[number > 0 ? 0 : 1][level - 1] += `M${x} ${y}h1v1h-1z`;
    }
    paths.forEach((row, sign) => row.forEach((node, n) => set(node, { d: found[sign][n] })));
  }

  lane(name, n) {
    const [view, answer] = this.screen(8, 8, "output");
    const store = svg("svg", { viewBox: `0 0 35 ${n ? 35 : 65}`, "aria-hidden": "true", class: "kept" });
    const paths = this.layer(store, "state");
    const parts = { answer, paths };
    if (!n) {
      Object.assign(parts, { values: this.layer(store, "value"), keys: this.layer(store, "key") });
      parts.frames = Array.from({ length: STEPS + MOST }, (_, j) =>
        store.appendChild(svg("rect", { ...this.corner(j), width: 9, height: 11, class: "frame" })),
      );
      parts.edge = store.appendChild(svg("path", { class: "edge", d: "M-.5 32.5H35.5" }));
    }
    parts.how = html("span", { class: "hint" });
    if (n === LANES.length - 1) {
      parts.rate = html("span", { class: "rate" });
      this.scrub(parts.rate, {
        label: "what is kept before each pair", min: 0.5, max: 1, step: 0.05, pixels: 12,
        get: () => this.state.keep,
        put: (keep) => this.set({ keep }),
        first: () => this.start.keep,
      });
      this.syncs.push(({ keep }) => set(parts.rate, { text: `α ${say(keep)}` }));
      parts.how.append("fades, ", parts.rate);
    }
    for (const part of ["said", "match", "bytes", "share"]) parts[part] = html("div", { class: part });
    const head = html("div", {}, html("b", { text: name }), parts.how);
    const told = html("div", { class: "told" }, parts.said, parts.match, parts.share);
    const hold = html("div", { class: "hold" }, parts.bytes, store);
    parts.node = html("div", { class: "lane" }, head, html("div", { class: "answer" }, view), told, hold);
    return parts;
  }

  corner(j) {
    return { x: 9 * (j % 4) - 0.5, y: 11 * Math.floor(j / 4) - 0.5 };
  }

  play() {
    const next = () => {
      const { step } = this.state;
      this.set({ step: (step + 1) % (STEPS + 1) });
      if (step + 1 === STEPS) this.stop();
    };
    if (still.matches) return next();
    if (this.timer) return this.stop();
    this.timer = setInterval(next, 600);
    next();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.redraw();
  }

  reset() {
    this.stop();
    super.reset();
  }

  disconnectedCallback() {
    this.stop();
  }

  draw({ S, weights, answers, says, match, known, right, bytes }) {
    const { called, values, keys } = this.tables;
    const { ask, keys: kind, cache } = this.state;
    const pairs = this.pairs(this.state);
    const newest = new Map(pairs);
    const truth = newest.get(NAMES.indexOf(ask));
    const square = (row, x = 0, y = 0, scale = 1) =>
      row.map((v, n) => [x + (n % SIDE), y + Math.floor(n / SIDE), v * scale]);
    const came = pairs.length === this.before + 1 ? pairs.at(-1)[0] : -1;
    this.before = pairs.length;
    this.tiles.forEach(({ label, paths }, n) => {
      this.shade(paths, newest.has(n) ? square(values[newest.get(n)]) : []);
      label.classList.toggle("came", n === came);
    });
    const kept = pairs.slice(pairs.length - weights.length);
    this.lanes.forEach((lane, n) => {
      this.shade(lane.answer, square(answers[n]));
      const told = says[n].map((what) => called[what]).join(" or ") || "nothing";
      const there = truth !== undefined;
      const ok = same(says[n], [truth]);
      set(lane.said, { text: there ? `${told}\u00a0${ok ? "✓" : "✗"}` : told });
      lane.said.classList.toggle("wrong", there && !ok);
      set(lane.match, { text: there ? `match ${num(match[n])}` : "not read" });
      set(lane.share, { text: `${right[n]}/${known} right` });
      set(lane.bytes, { text: `${thousands(bytes[n])} bytes` });
      if (n) {
        const tile = (row, i) => square(row, 9 * (i % 4), 9 * Math.floor(i / 4));
        this.shade(lane.paths, S[n - 1].flatMap(tile));
      }
    });
    const [first, sums, delta] = this.lanes;
    const at = (j) => [9 * (j % 4), 11 * Math.floor(j / 4)];
    const tops = kept.flatMap(([name], j) => square(keys[kind][name], ...at(j), 2));
    const below = ([, what], j) => square(values[what], at(j)[0], at(j)[1] + 2);
    this.shade(first.keys, tops);
    this.shade(first.values, kept.flatMap(below));
    first.frames.forEach((node, j) => set(node, { style: `opacity: ${(weights[j] ?? 0).toFixed(3)}` }));
    first.edge.classList.toggle("over", cache === "equal" || kept.length > ROOM);
    set(first.how, { text: cache === "all" ? "keeps all" : `keeps the last ${ROOM}` });
    set(sums.how, { text: "adds up" });
    set(delta.how, { text: "corrects" });
  }

  tell({ says, match, known, right }) {
    const { called } = this.tables;
    const { ask } = this.state;
    const pairs = this.pairs(this.state);
    if (!pairs.length)
      return "Nothing is read yet: the cache keeps 0 bytes, and each matrix 4,096, all of them zeros.";
    const first = `After ${pairs.length} pair${pairs.length === 1 ? "" : "s"} “${ask}”`;
    const last = `Of ${known} name${known === 1 ? "" : "s"} they get ${words(right)} right.`;
    const whats = pairs.filter(([name]) => NAMES[name] === ask).map(([, what]) => called[what]);
    if (!whats.length) {
      const answering = says.filter((said) => said.length).length;
      return `${first} has not come yet, and still ${answering} of 4 memories answer something. ${last}`;
    }
    const before = whats.length > 1 ? `; before, it was the ${whats.at(-2)}` : "";
    const found = words(LANES.map((name, n) => `${name} ${say(match[n])}`));
    return `${first} is the ${whats.at(-1)}${before}. The answers match it: ${found}. ${last}`;
  }

  static style = `
    .say { min-height: 4.4em }
    .names.names { display: grid; grid-template-columns: repeat(16, 1fr); gap: 3px; background: none }
    .names.names input + span { flex-direction: column; width: 100%; min-width: 0; padding: 1px 3px 5px; gap: 1px;
      border-radius: 6px; line-height: 1.3; background: var(--d-surface) }
    .names.names input:checked + span { background: var(--d-surface); color: inherit; font-weight: 650;
      box-shadow: inset 0 0 0 3px var(--d-query) }
    .names svg { max-width: 28px }
    .pixel { fill: var(--c) }
    .line button { white-space: nowrap; flex: none }
    .line { display: flex; align-items: center; gap: 8px; margin: 6px 0 12px }
    .line .hint { margin-right: auto }
    .lanes { display: grid; grid-template-columns: repeat(4, minmax(0, 126px)); justify-content: space-between;
      grid-template-rows: repeat(4, auto); gap: 0 12px; line-height: 1.3 }
    .lane { display: grid; grid-row: span 4; grid-template-rows: subgrid; align-content: start }
    .lane b, .lane .hint { display: block }
    .rate { display: inline-flex; align-items: center; min-height: 32px; margin: -8px 0; touch-action: none; color: var(--d-ink);
      font-weight: 650 }
    .answer { border-radius: 4px; outline: 1px solid color-mix(in srgb, var(--d-line) 55%, transparent);
      outline-offset: 2px; margin-top: 4px }
    .told { font-size: 13px; margin: 7px 0 10px }
    .said { font-weight: 650 } .wrong { color: var(--d-gradient) }
    .match, .share { color: var(--d-muted) }
    .hold { font-size: 13px; min-width: 0 }
    .bytes { margin-bottom: 4px; white-space: nowrap }
    .frame { fill: none; stroke: var(--d-weight); stroke-width: 1.3 }
    .edge { stroke: none } .over { stroke: var(--d-ink); stroke-width: .6; stroke-dasharray: 2 1.5 }
    @media (prefers-reduced-motion: no-preference) { .came svg { animation: fall .35s ease-out } }
    @keyframes fall { from { transform: translateY(-22px); opacity: 0 } }
    @container (max-width: 560px) { .names.names { grid-template-columns: repeat(8, 1fr) } .say { min-height: 7.3em }
      .lane b { font-size: 14px } .told, .hold { font-size: 12px } .told { min-height: 5.2em } }`;
}

define("attn-memory", FourMemories);
