// Two graphs, colours that are refined round by round, and attention along the edges.
const MOST = 4;
const [TOKENS, LOOKS] = ["nothing degree walks numbers".split(" "), ["edges", "all"]];
const RENUMBERED = "one, renumbered";

const grid = (N, cell) =>
  Array.from({ length: N }, (_, i) => Array.from({ length: N }, (_, j) => cell(i, j)));

function adjacency(N, edges) {
  const A = grid(N, () => 0);
  for (const [i, j] of edges) A[i][j] = A[j][i] = 1;
  return A;
}

// A vector of five numbers for each node: a one, and what it is told of itself.
function tokensOf(A, kind) {
  const rows = A.map((row) => [1, kind === "degree" ? sum(row) : 0, 0, 0, 0]);
  if (kind === "numbers")
    return rows.map((_, i) => {
      const angle = (2 * Math.PI * i) / A.length;
      return [1, Math.cos(angle), Math.sin(angle), 0, 0];
    });
  if (kind !== "walks") return rows;
  const step = A.map((row) => row.map((x) => x / sum(row)));
  let walk = step;
  for (let k = 1; k < 5; k += 1) {
    walk = matmul(walk, step);
    rows.forEach((row, i) => (row[k] = walk[i][i]));
  }
  return rows;
}

// As Python orders tuples.
function order(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i += 1) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}

// Numbers from 0 for the different signatures of both graphs, in their order.
function ranked(signatures) {
  const all = new Map(signatures.flat().map((each) => [String(each), each]));
  const names = [...all.values()].sort(order).map(String);
  return signatures.map((of) => of.map((each) => names.indexOf(String(each))));
}

function refine(graphs, colours) {
  const near = (row, own) => row.map((there, j) => (there ? own[j] : -1)).filter((c) => c >= 0);
  const sorted = (list) => list.sort((a, b) => a - b);
  const seen = graphs.map((A, g) =>
    A.map((row, i) => [colours[g][i], ...sorted(near(row, colours[g]))]),
  );
  return ranked(seen);
}

function answer(A, kind, look, layers, weights) {
  let x = tokensOf(A, kind);
  for (let n = 0; n < layers; n += 1) {
    const rows = x.map((q, i) => {
      const scores = x.map((k) => dot(q, k) / Math.sqrt(5));
      return softmax(scores, look === "edges" && A[i].map((there, j) => there || i === j));
    });
    const moved = matmul(matmul(rows, x), weights);
    x = x.map((row, i) => row.map((v, j) => v + Math.tanh(moved[i][j])));
  }
  return mean(x);
}

const counts = (colours) => {
  const found = new Map();
  for (const colour of [...colours].sort((a, b) => a - b))
    found.set(colour, (found.get(colour) ?? 0) + 1);
  return [...found];
};

class ColourRefinement extends Explorable {
  static limits = { tokens: TOKENS, look: LOOKS, rounds: [0, MOST] };

  compute({ pair, tokens, look, rounds }) {
    const { pairs, weights } = this.numbers;
    const graphs = pairs[pair].map(([at, edges]) => adjacency(at.length, edges));
    const start = graphs.map((A) =>
      tokensOf(A, tokens).map((row) => row.map((v) => Math.round(1e9 * v))),
    );
    const after = [ranked(start)];
    while (after.length <= graphs[0].length) after.push(refine(graphs, after.at(-1)));
    const apart = after.findIndex(([one, other]) => !same(counts(one), counts(other)));
    const [one, other] = graphs.map((A) => answer(A, tokens, look, rounds, weights));
    const gap = Math.max(...one.map((v, i) => Math.abs(v - other[i])));
    return { colours: after[rounds], apart, gap };
  }

  build() {
    const side = (n) => {
      const name = ["left", "right"][n];
      const box = { viewBox: "0 0 200 200", role: "img", "aria-label": `the graph on the ${name}` };
      const [graph, list] = [svg("svg", box), html("div", { class: "list" })];
      this.picture.querySelector(".two").append(html("div", {}, graph, list));
      return { graph, list };
    };
    this.picture.append(html("div", { class: "two" }));
    this.sides = [0, 1].map(side);
    const named = (names) => names.map((name) => [name, name]);
    this.choice("pair", "graphs", named(Object.keys(this.numbers.pairs)));
    this.choice("tokens", "a node is told", [
      ["nothing", "nothing"],
      ["degree", "its degree"],
      ["walks", "walks home"],
      ["numbers", "its number"],
    ]);
    this.choice("look", "attention", [
      ["edges", "along edges"],
      ["all", "to all"],
    ]);
    this.stepper("rounds", "rounds, layers", 0, MOST);
  }

  draw({ colours }) {
    const role = (colour) => this.numbers.roles[colour % this.numbers.roles.length];
    this.sides.forEach(({ graph, list }, n) => {
      const [at, edges] = this.numbers.pairs[this.state.pair][n];
      const lines = edges.map(([i, j]) => {
        const [[x1, y1], [x2, y2]] = [at[i], at[j]];
        return svg("line", { x1, y1, x2, y2, class: "edge" });
      });
      const nodes = at.map(([cx, cy], i) => {
        const colour = colours[n][i];
        const dot = svg("circle", { cx, cy, r: 14, class: `node ${role(colour)}` });
        const look = { x: cx, y: cy + 5, class: "number", "text-anchor": "middle" };
        return svg("g", {}, dot, svg("text", { ...look, text: colour }));
      });
      graph.replaceChildren(...lines, ...nodes);
      const chips = counts(colours[n]).map(([colour, times]) => {
        const box = html("span", { class: `cell ${role(colour)}`, style: "--v: 1", text: colour });
        return html("span", { class: "chip" }, html("span", { text: `${times} ×` }), box);
      });
      list.replaceChildren(...chips);
    });
  }

  tell({ apart, gap }) {
    const { pair, look, rounds } = this.state;
    let colours = "Colours: the same in both, as often, and no further round changes that.";
    if (rounds < apart) colours = `Colours: still the same; round ${apart} tells the graphs apart.`;
    else if (apart >= 0) {
      const since = apart ? `since round ${apart}` : "in the tokens already";
      colours = `Colours: they tell the graphs apart, ${since}.`;
    }
    const whom = look === "edges" ? "along the edges" : "at all nodes";
    const far = gap >= 5e-4 || gap < 1e-12 ? num(gap, 3) : "under .001";
    const layers = `${rounds} layer${rounds === 1 ? "" : "s"}`;
    const attention = `Attention ${whom}: after ${layers} the answers are ${far} apart.`;
    const one = pair === RENUMBERED && apart >= 0 ? " But it is one graph." : "";
    return `${colours} ${attention}${one}`;
  }

  static style = `
    .two { display: grid; grid-template-columns: 1fr 1fr; gap: 20px; max-width: 30rem;
      margin: 0 auto }
    .edge { stroke: var(--d-line); stroke-width: 2 }
    .node { fill: color-mix(in srgb, var(--f) calc(100% * var(--r)), var(--d-paper));
      stroke: var(--d-line); stroke-width: 1 }
    .number { fill: var(--d-cell) }
    .list { display: flex; flex-wrap: wrap; gap: 4px 10px; justify-content: center;
      font-size: 13px; min-height: 24px; margin-top: 6px }
    .chip { display: inline-flex; gap: 4px; align-items: center }
    .chip .cell { width: 24px; height: 22px }
    @container (max-width: 480px) { .two { gap: 8px } }`;
}

define("attn-colours", ColourRefinement);
