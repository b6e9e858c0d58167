// A small language model that is trained in the page: forward and backward pass, AdamW, written out.
(() => {
if (window.attnTraining) return;

// Everything that learns. It is also sent to a worker, as text, and so knows nothing of what is outside.
const engine = () => {
  const SIZES = { T: 32, B: 16, C: 32, H: 2, depth: 2, hidden: 128 };
  const PLAN = { rate: 0.03, warmup: 30, clip: 1, decay: 0.1, betas: [0.9, 0.99], eps: 1e-8 };
  // What each ruin changes, and nothing else.
  const RUINS = { none: {}, rate: { rate: 10 * PLAN.rate }, warmup: { warmup: 0 }, mask: { ahead: 1 },
    target: { shift: 0 } };
  const EPS = 1e-6; // of the norms
  const CUTS = [8, 16, 24, 32]; // where the text is cut, if the mask lets the future through
  const WINDOWS = 64; // of held-out text, as far from each other as it allows

  // Arrays that a pass has used are used again by the next one: nothing is left to be collected.
  const shelf = new Map();
  let lent = [];
  function take(length) {
    const array = shelf.get(length)?.pop() ?? new Float64Array(length);
    lent.push(array);
    return array;
  }
  const zeros = (length) => take(length).fill(0);
  function giveBack() {
    for (const array of lent) {
      if (!shelf.has(array.length)) shelf.set(array.length, []);
      shelf.get(array.length).push(array);
    }
    lent = [];
  }
  function plus(x, y) {
    const to = take(x.length);
    for (let i = 0; i < x.length; i += 1) to[i] = x[i] + y[i];
    return to;
  }

  // A generator of numbers in [0, 1) whose state is one whole number: mulberry32.
  class Random {
    constructor(seed) { this.state = seed | 0; }
    next() {
      this.state = (this.state + 0x6d2b79f5) | 0;
      let x = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
      x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
      return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
    }
    normal() {
      return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
    }
  }

  // to[n, m] = Σ_k a[n, k] b[m, k], or is added to it: eight sums at a time.
  function product(a, b, to, N, M, K, add = false) {
    for (let n = 0; n < N; n += 2) {
      const row = n * K, one = n + 1 < N ? K : 0; // a last odd row is computed twice
      for (let m = 0; m < M; m += 4) {
        const most = (M - 1) * K, j0 = m * K;
        const j1 = Math.min(j0 + K, most), j2 = Math.min(j0 + 2 * K, most), j3 = Math.min(j0 + 3 * K, most);
        let s0 = 0, s1 = 0, s2 = 0, s3 = 0, z0 = 0, z1 = 0, z2 = 0, z3 = 0;
        for (let k = 0; k < K; k += 1) {
          const x = a[row + k], y = a[row + one + k];
          const b0 = b[j0 + k], b1 = b[j1 + k], b2 = b[j2 + k], b3 = b[j3 + k];
          s0 += x * b0; s1 += x * b1; s2 += x * b2; s3 += x * b3;
          z0 += y * b0; z1 += y * b1; z2 += y * b2; z3 += y * b3;
        }
        const at = n * M + m;
        if (m + 3 < M) {
          if (add) { to[at] += s0; to[at + 1] += s1; to[at + 2] += s2; to[at + 3] += s3; }
          else { to[at] = s0; to[at + 1] = s1; to[at + 2] = s2; to[at + 3] = s3; }
          if (!one) continue;
          if (add) { to[at + M] += z0; to[at + M + 1] += z1; to[at + M + 2] += z2; to[at + M + 3] += z3; }
          else { to[at + M] = z0; to[at + M + 1] = z1; to[at + M + 2] = z2; to[at + M + 3] = z3; }
        } else
          [s0, s1, s2].slice(0, M - m).forEach((s, i) => {
            to[at + i] = s + (add ? to[at + i] : 0);
            if (one) to[at + M + i] = [z0, z1, z2][i] + (add ? to[at + M + i] : 0);
          });
      }
    }
  }

  function transposed(a, rows, columns) {
    const to = take(rows * columns);
    for (let i = 0; i < rows; i += 1)
      for (let j = 0; j < columns; j += 1) to[j * rows + i] = a[i * columns + j];
    return to;
  }

  // A matrix of weights (or a gain) with its gradient and AdamW's two means.
  class Weight {
    constructor(name, rows, columns) {
      Object.assign(this, { name, rows, columns });
      for (const part of ["data", "grad", "m", "v"]) this[part] = new Float64Array(rows * columns);
    }
    // y = x Wᵀ, as torch's Linear without a bias.
    forward(x, N) {
      const y = take(N * this.rows);
      product(x, this.data, y, N, this.rows, this.columns);
      return y;
    }
    // Given dL/dy: adds dL/dW = dyᵀ x and returns dL/dx = dy W.
    backward(dy, x, N) {
      const { rows, columns } = this;
      product(transposed(dy, N, rows), transposed(x, N, columns), this.grad, rows, columns, N, true);
      const dx = take(N * columns);
      product(dy, transposed(this.data, rows, columns), dx, N, columns, rows);
      return dx;
    }
  }

  // RMSNorm: y = g x / √(mean x² + ε).
  function normed(x, gain, N) {
    const C = gain.data.length, y = take(N * C), inverse = take(N);
    for (let n = 0, at = 0; n < N; n += 1, at += C) {
      let squares = 0;
      for (let i = at; i < at + C; i += 1) squares += x[i] * x[i];
      inverse[n] = 1 / Math.sqrt(squares / C + EPS);
      for (let i = 0; i < C; i += 1) y[at + i] = x[at + i] * inverse[n] * gain.data[i];
    }
    return { y, inverse };
  }
  // Adds dL/dg and returns dL/dx = r (g dy − x r² mean(g dy x)), r the inverse of the size.
  function unnormed(dy, x, inverse, gain, N) {
    const C = gain.data.length, dx = take(N * C);
    for (let n = 0, at = 0; n < N; n += 1, at += C) {
      const r = inverse[n];
      let along = 0;
      for (let i = 0; i < C; i += 1) {
        gain.grad[i] += dy[at + i] * x[at + i] * r;
        along += gain.data[i] * dy[at + i] * x[at + i];
      }
      along *= (r * r) / C;
      for (let i = 0; i < C; i += 1) dx[at + i] = r * (gain.data[i] * dy[at + i] - x[at + i] * along);
    }
    return dx;
  }

  function softmax(scores, from, to) {
    let most = -Infinity, total = 0;
    for (let i = from; i < to; i += 1) if (scores[i] > most) most = scores[i];
    for (let i = from; i < to; i += 1) total += scores[i] = Math.exp(scores[i] - most);
    for (let i = from; i < to; i += 1) scores[i] /= total;
    return most + Math.log(total);
  }

  class Model {
    constructor(V, sizes = SIZES) {
      Object.assign(this, sizes, { V, D: sizes.C / sizes.H });
      const { C, hidden } = sizes;
      this.weights = [];
      const make = (name, rows, columns) => {
        const weight = new Weight(`${name}.weight`, rows, columns);
        this.weights.push(weight);
        return weight;
      };
      this.embed = make("embed.tokens", V, C);
      this.blocks = Array.from({ length: sizes.depth }, (_, n) => {
        const [attention, network] = ["attention", "feedforward"].map((part) => `body.blocks.${n}.${part}`);
        return {
          before: make(`${attention}.norm`, 1, C),
          qkv: make(`${attention}.sublayer.project.to_qkv`, 3 * C, C),
          out: make(`${attention}.sublayer.to_out`, C, C),
          between: make(`${network}.norm`, 1, C),
          up: make(`${network}.sublayer.up`, hidden, C),
          down: make(`${network}.sublayer.down`, C, hidden),
        };
      });
      this.last = make("body.norm", 1, C);
      this.head = make("lm_head", V, C);
      this.cos = new Float64Array((sizes.T * this.D) / 2);
      this.sin = new Float64Array(this.cos.length);
      for (let t = 0, at = 0; t < sizes.T; t += 1)
        for (let i = 0; i < this.D / 2; i += 1, at += 1) {
          const angle = Math.fround(t * Math.fround(10000 ** ((-2 * i) / this.D)));
          [this.cos[at], this.sin[at]] = [Math.fround(Math.cos(angle)), Math.fround(Math.sin(angle))];
        }
    }

    // GPT-2's normal numbers for this width; smaller where a part is added to the stream.
    initialise(random) {
      const std = 0.02 * Math.sqrt(768 / this.C);
      for (const { name, data, rows } of this.weights) {
        const less = /to_out|down/.test(name) ? 1 / Math.sqrt(2 * this.depth) : 1;
        for (let i = 0; i < data.length; i += 1) data[i] = rows === 1 ? 1 : std * less * random.normal();
      }
    }

    get size() { return this.weights.reduce((sum, { data }) => sum + data.length, 0); }

    // Queries and keys turned by their position (way 1), or a gradient turned back (way −1).
    rotate(qkv, N, T, way) {
      const { C, H, D, cos, sin } = this, half = D / 2;
      for (let n = 0; n < N; n += 1)
        for (let h = 0; h < 2 * H; h += 1) // heads of queries, then of keys
          for (let i = 0, at = n * 3 * C + h * D, turn = (n % T) * half; i < half; i += 1) {
            const a = qkv[at + i], b = qkv[at + half + i];
            const c = cos[turn + i], s = way * sin[turn + i];
            qkv[at + i] = a * c - b * s;
            qkv[at + half + i] = b * c + a * s;
          }
    }

    // Each position looks at those before it and itself, and at `ahead` more.
    attend(qkv, B, T, ahead) {
      const { C, H, D } = this, scale = 1 / Math.sqrt(D), row = 3 * C;
      const looks = zeros(B * H * T * T), heard = zeros(B * T * C);
      for (let b = 0; b < B; b += 1)
        for (let h = 0; h < H; h += 1)
          for (let t = 0; t < T; t += 1) {
            const query = (b * T + t) * row + h * D, at = ((b * H + h) * T + t) * T;
            const seen = Math.min(T, t + 1 + ahead);
            for (let s = 0; s < seen; s += 1) {
              const key = (b * T + s) * row + C + h * D;
              let score = 0;
              for (let i = 0; i < D; i += 1) score += qkv[query + i] * qkv[key + i];
              looks[at + s] = score * scale;
            }
            softmax(looks, at, at + seen);
            const to = (b * T + t) * C + h * D;
            for (let s = 0; s < seen; s += 1) {
              const value = (b * T + s) * row + 2 * C + h * D, weight = looks[at + s];
              for (let i = 0; i < D; i += 1) heard[to + i] += weight * qkv[value + i];
            }
          }
      return { looks, heard };
    }

    // dL/d(q, k, v), given dL/d(what was heard).
    unattend(dheard, qkv, looks, B, T, ahead) {
      const { C, H, D } = this, scale = 1 / Math.sqrt(D), row = 3 * C;
      const dqkv = zeros(B * T * row), dlook = take(T);
      for (let b = 0; b < B; b += 1)
        for (let h = 0; h < H; h += 1)
          for (let t = 0; t < T; t += 1) {
            const query = (b * T + t) * row + h * D, at = ((b * H + h) * T + t) * T;
            const seen = Math.min(T, t + 1 + ahead), from = (b * T + t) * C + h * D;
            let mean = 0;
            for (let s = 0; s < seen; s += 1) {
              const value = (b * T + s) * row + 2 * C + h * D, weight = looks[at + s];
              let d = 0;
              for (let i = 0; i < D; i += 1) {
                d += dheard[from + i] * qkv[value + i];
                dqkv[value + i] += weight * dheard[from + i];
              }
              dlook[s] = d;
              mean += weight * d;
            }
            for (let s = 0; s < seen; s += 1) {
              const key = (b * T + s) * row + C + h * D;
              const dscore = looks[at + s] * (dlook[s] - mean) * scale;
              for (let i = 0; i < D; i += 1) {
                dqkv[query + i] += dscore * qkv[key + i];
                dqkv[key + i] += dscore * qkv[query + i];
              }
            }
          }
      return dqkv;
    }

    // Logits of B rows of T tokens, and what the way back needs; until the next call.
    forward(tokens, B, T, ahead = 0) {
      const { C } = this, N = B * T;
      giveBack();
      let x = take(N * C);
      for (let n = 0; n < N; n += 1)
        for (let i = 0; i < C; i += 1) x[n * C + i] = this.embed.data[tokens[n] * C + i];
      const kept = this.blocks.map((block) => {
        const one = { x, read: normed(x, block.before, N) };
        one.qkv = block.qkv.forward(one.read.y, N);
        this.rotate(one.qkv, N, T, 1);
        Object.assign(one, this.attend(one.qkv, B, T, ahead));
        one.middle = plus(x, block.out.forward(one.heard, N));
        one.inside = normed(one.middle, block.between, N);
        one.active = block.up.forward(one.inside.y, N);
        for (let i = 0; i < one.active.length; i += 1) if (one.active[i] < 0) one.active[i] = 0;
        x = plus(one.middle, block.down.forward(one.active, N));
        return one;
      });
      const end = normed(x, this.last, N);
      return { tokens, B, T, ahead, kept, x, end, logits: this.head.forward(end.y, N) };
    }

    // The mean loss; the logits become dL/dlogits = (softmax − target) / N.
    loss(run, targets) {
      const { V } = this, { logits } = run, N = targets.length;
      let sum = 0;
      for (let n = 0, at = 0; n < N; n += 1, at += V) {
        const wanted = logits[at + targets[n]];
        sum += softmax(logits, at, at + V) - wanted;
        logits[at + targets[n]] -= 1;
        for (let i = at; i < at + V; i += 1) logits[i] /= N;
      }
      return sum / N;
    }

    // Adds dL/dW of every weight, from dL/dlogits.
    backward({ tokens, B, T, ahead, kept, x, end, logits }) {
      const N = B * T, { C } = this;
      let dx = unnormed(this.head.backward(logits, end.y, N), x, end.inverse, this.last, N);
      for (let n = this.blocks.length - 1; n >= 0; n -= 1) {
        const block = this.blocks[n], one = kept[n];
        const dactive = block.down.backward(dx, one.active, N);
        for (let i = 0; i < dactive.length; i += 1) if (!(one.active[i] > 0)) dactive[i] = 0;
        const din = block.up.backward(dactive, one.inside.y, N);
        const d = unnormed(din, one.middle, one.inside.inverse, block.between, N);
        dx = plus(dx, d);
        const dheard = block.out.backward(dx, one.heard, N);
        const dqkv = this.unattend(dheard, one.qkv, one.looks, B, T, ahead);
        this.rotate(dqkv, N, T, -1);
        const dread = block.qkv.backward(dqkv, one.read.y, N);
        const e = unnormed(dread, one.x, one.read.inverse, block.before, N);
        dx = plus(dx, e);
      }
      for (let n = 0; n < N; n += 1)
        for (let i = 0; i < C; i += 1) this.embed.grad[tokens[n] * C + i] += dx[n * C + i];
    }
  }

  // Text as numbers, and what counting knows of it.
  class Text {
    constructor({ train, held }) {
      this.symbols = [...new Set(train + held)].sort().join("");
      this.V = this.symbols.length;
      [this.train, this.held] = [train, held].map((text) => this.encode(text));
    }
    encode(text) { return Int32Array.from(text, (symbol) => this.symbols.indexOf(symbol)); }
    decode(tokens) { return Array.from(tokens, (token) => this.symbols[token]).join(""); }
    // Where the held-out windows begin.
    starts(T = SIZES.T) {
      const apart = Math.floor((this.held.length - T - 1) / (WINDOWS - 1));
      return Array.from({ length: WINDOWS }, (_, n) => n * apart);
    }
    // Held-out loss of a table of counts, each plus 1: of characters, and of pairs of neighbours.
    counted(T = SIZES.T) {
      const { V, train, held } = this;
      const one = new Float64Array(V).fill(1), two = new Float64Array(V * V).fill(1);
      train.forEach((token, i) => { one[token] += 1; if (i) two[train[i - 1] * V + token] += 1; });
      const rows = Array.from({ length: V }, (_, a) => two.subarray(a * V, a * V + V).reduce((x, y) => x + y));
      let single = 0, pair = 0;
      for (const start of this.starts(T))
        for (let i = start + 1; i <= start + T; i += 1) {
          single -= Math.log(one[held[i]] / (train.length + V));
          pair -= Math.log(two[held[i - 1] * V + held[i]] / rows[held[i - 1]]);
        }
      return { unigram: single / (WINDOWS * T), bigram: pair / (WINDOWS * T) };
    }
  }

  // One run: a model, its optimizer, its place in the text.
  class Run {
    constructor(text, { seed = 0, ruin = "none" } = {}, sizes = SIZES) {
      Object.assign(this, { text, seed, step: 0 });
      this.model = new Model(text.V, sizes);
      this.model.initialise(new Random(1000 + seed));
      this.draw = new Random(2000 + seed);
      this.under(ruin);
    }
    under(ruin) {
      this.ruin = ruin;
      this.plan = { ...PLAN, ahead: 0, shift: 1, ...RUINS[ruin] };
      return this;
    }
    // The same weights, means and place, with another ruin from here on.
    branch(ruin) {
      const other = new Run(this.text, this, this.model);
      this.model.weights.forEach((weight, n) => {
        for (const part of ["data", "m", "v"]) other.model.weights[n][part].set(weight[part]);
      });
      Object.assign(other, { step: this.step });
      other.draw.state = this.draw.state;
      return other.under(ruin);
    }
    batch() {
      const { B, T } = this.model, { train } = this.text;
      const x = new Int32Array(B * T), next = new Int32Array(B * T);
      for (let b = 0; b < B; b += 1) {
        const from = Math.floor(this.draw.next() * (train.length - T));
        x.set(train.subarray(from, from + T), b * T);
        next.set(train.subarray(from + 1, from + T + 1), b * T);
      }
      return { x, next };
    }
    rate() {
      const { rate, warmup } = this.plan;
      return rate * Math.min(1, (this.step + 1) / Math.max(1, warmup));
    }
    // Loss of the batch and norm of all gradients, before they are cut to length 1.
    train(batch = this.batch()) {
      const { model, plan } = this, { weights } = model;
      for (const { grad } of weights) grad.fill(0);
      const run = model.forward(batch.x, model.B, model.T, plan.ahead);
      const loss = model.loss(run, plan.shift ? batch.next : batch.x);
      model.backward(run);
      let squares = 0;
      for (const { grad } of weights) for (let i = 0; i < grad.length; i += 1) squares += grad[i] * grad[i];
      const norm = Math.sqrt(squares);
      if (Number.isFinite(norm)) this.update(Math.min(1, plan.clip / (norm + 1e-6)));
      this.step += 1;
      return { loss, norm };
    }
    // AdamW: Loshchilov and Hutter 2019, algorithm 2.
    update(cut) {
      const rate = this.rate(), { betas: [b1, b2], eps, decay } = this.plan, t = this.step + 1;
      const first = 1 - b1 ** t, second = Math.sqrt(1 - b2 ** t);
      for (const { data, grad, m, v } of this.model.weights)
        for (let i = 0; i < data.length; i += 1) {
          const g = grad[i] * cut;
          m[i] = b1 * m[i] + (1 - b1) * g;
          v[i] = b2 * v[i] + (1 - b2) * g * g;
          data[i] -= rate * (decay * data[i] + m[i] / first / (Math.sqrt(v[i]) / second + eps));
        }
    }
    // Held-out losses: by the run's own code, and in use, where only the past is there.
    examine() {
      const { model, plan, text } = this, { T } = model, windows = WINDOWS, starts = text.starts(T);
      const part = (from, T) => {
        const to = new Int32Array(windows * T);
        starts.forEach((start, n) => to.set(text.held.subarray(start + from, start + from + T), n * T));
        return to;
      };
      const x = part(0, T), next = part(1, T);
      const own = model.loss(model.forward(x, windows, T, plan.ahead), plan.shift ? next : x);
      if (!plan.ahead) return { own, used: plan.shift ? own : model.loss(model.forward(x, windows, T), next) };
      let sum = 0;
      for (const t of CUTS) {
        const { logits } = model.forward(part(0, t), windows, t, plan.ahead), wanted = part(t, 1);
        for (let n = 0; n < windows; n += 1) {
          const at = (n * t + t - 1) * model.V, chosen = logits[at + wanted[n]];
          sum += softmax(logits, at, at + model.V) - chosen;
        }
      }
      return { own, used: sum / windows / CUTS.length };
    }
    // A T and so many characters, each drawn from what the model expects after the last ones.
    write(length = 96) {
      const { model, plan, text } = this, random = new Random(3000 + this.seed);
      const tokens = [text.symbols.indexOf("T")];
      while (tokens.length <= length) {
        const given = tokens.slice(-model.T), T = given.length;
        const { logits } = model.forward(given, 1, T, plan.ahead), at = (T - 1) * model.V;
        softmax(logits, at, at + model.V);
        let left = random.next(), token = 0;
        while (token < model.V - 1 && (left -= logits[at + token]) > 0) token += 1;
        tokens.push(token);
      }
      return text.decode(tokens);
    }
    // Attention of all heads on the first held-out window: (layers · heads, T, T).
    looks() {
      const { model: { T, forward }, plan, text } = this;
      const { kept } = forward.call(this.model, text.held.subarray(0, T), 1, T, plan.ahead);
      const all = new Float32Array(kept.length * kept[0].looks.length);
      kept.forEach(({ looks }, n) => all.set(looks, n * looks.length));
      return all;
    }
  }

  return { SIZES, PLAN, RUINS, Model, Text, Run };
};

// In the worker: it trains while nobody asks for anything else, and tells what it found.
const worker = (engine) => {
  const EVERY = 20, PAUSE = 90; // steps from look to look at the run; milliseconds from report to report
  let text, job = null, turning = false;
  const runs = {};
  const look = (name) => {
    const run = runs[name];
    postMessage({ name, id: run.id, look: { step: run.step, ...run.examine(), text: run.write(), looks: run.looks() } });
  };
  const turn = () => {
    turning = false;
    if (!job) return;
    const { name, until } = job, run = runs[name], { id } = run, found = [], begin = performance.now();
    while (run.step < until && performance.now() - begin < PAUSE) {
      if (run.looked !== run.step && (run.step % EVERY === 0 || run.looked === undefined)) {
        look(name);
        run.looked = run.step;
        break; // the report comes before more steps
      }
      const { loss, norm } = run.train();
      found.push(loss, norm);
    }
    const done = run.step >= until;
    if (found.length) postMessage({ name, id, found, took: performance.now() - begin });
    if (done) {
      if (run.looked !== run.step) look(name);
      run.looked = run.step;
      job = null;
      postMessage({ name, id, done: run.step });
    } else again();
  };
  const again = () => {
    if (!turning) setTimeout(turn);
    turning = true;
  };
  const orders = {
    read: (given) => { text = new engine.Text(given); },
    begin: ({ name, id, ...settings }) => { runs[name] = Object.assign(new engine.Run(text, settings), { id }); },
    branch: ({ from, to, id, ruin }) => { runs[to] = Object.assign(runs[from].branch(ruin), { id }); },
    train: (given) => {
      job = given;
      again();
    },
    stop: () => { job = null; },
  };
  onmessage = ({ data: [order, given] }) => orders[order](given);
};

// A worker from this very text: a page on a disk may start no other.
const start = () => {
  const source = `(${worker})((${engine})())`;
  return new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
};

// The text to learn from: a script and no fetch, as for the model of `model.js`.
let asked = null;
const load = (address) => (asked ??= new Promise((done, failed) => {
  const script = document.createElement("script");
  window.attnText = done;
  script.onerror = () => {
    script.remove();
    asked = null;
    failed(new Error("The text could not be loaded: the file is not there, or there is no network."));
  };
  script.src = address;
  document.head.append(script);
}));

window.attnTraining = { ...engine(), start, load };
})();
