// The book's language model as a page computes it: loaded once, whoever asks for it first.
(() => {
if (window.attnEngine) return;

// Whole numbers of eight bits, a scale for each row.
class Matrix {
  constructor(levels, scales) {
    Object.assign(this, { levels, scales, rows: scales.length, columns: levels.length / scales.length });
  }

  at(row, column) {
    return this.levels[row * this.columns + column] * this.scales[row];
  }

  row(n) {
    return Float32Array.from({ length: this.columns }, (_, i) => this.at(n, i));
  }

  times(x) {
    const { levels, scales, columns } = this;
    return Float32Array.from(scales, (scale, n) => {
      let sum = 0;
      for (let i = 0, at = n * columns; i < columns; i += 1, at += 1) sum += levels[at] * x[i];
      return sum * scale;
    });
  }
}

const size = (x) => Math.sqrt(x.reduce((sum, value) => sum + value * value, 0) / x.length);
// Without the norm only its gain is left.
function normed(x, gain, off) {
  const by = off ? 1 : 1 / Math.sqrt(size(x) ** 2 + 1e-6);
  return x.map((value, i) => value * by * gain[i]);
}
const added = (x, y) => x.map((value, i) => value + y[i]);
const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b));
  const powers = Array.from(scores, (score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}

// Number i and number i + D/2 are a hand that turns with the position.
function turned(x, position) {
  const half = x.length / 2;
  const to = new Float32Array(x.length);
  for (let i = 0; i < half; i += 1) {
    const angle = position * 10000 ** (-i / half);
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    to[i] = x[i] * cos - x[i + half] * sin;
    to[i + half] = x[i + half] * cos + x[i] * sin;
  }
  return to;
}

// A byte without a token is spelled: an escape and two hexadecimal digits.
const ESCAPE = "\u241b";
const SPELLED = Array.from({ length: 256 }, (_, n) => (/[\n -~]/.test(String.fromCharCode(n))
  ? String.fromCharCode(n) : ESCAPE + n.toString(16).padStart(2, "0")));
const SPLIT = /\u241b..|'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?\d+| ?[^\sA-Za-z\d\u241b]+|\s+(?!\S)|\s+/g;
const SIGNS = { " ": "\u0120", "\n": "\u010a" };
const TEXT = new TextDecoder("utf-8", { ignoreBOM: true });
const WHOLE = new Set();

class Model {
  constructor({ sizes, context, tokens, merges, weights }) {
    Object.assign(this, { sizes, context, tokens });
    this.numbers = new Map(tokens.map((token, n) => [token, n]));
    this.ranks = new Map(merges.map((pair, n) => [pair, n]));
    const bytes = Uint8Array.from(atob(weights), (sign) => sign.charCodeAt(0));
    const size = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const stored = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
    this.part = (name) => {
      const { dtype, data_offsets: [from, to] } = stored[name];
      const data = bytes.slice(8 + size + from, 8 + size + to).buffer;
      return dtype === "I8" ? new Int8Array(data) : new Float32Array(data);
    };
    const matrix = (name) =>
      new Matrix(this.part(`${name}.matrix.stored`), this.part(`${name}.matrix.scales`));
    const gain = (name) => this.part(`${name}.weight`);
    this.embed = matrix("embed.tokens");
    this.blocks = Array.from({ length: sizes.depth }, (_, n) => {
      const [attention, network] = ["attention", "feedforward"].map((x) => `body.blocks.${n}.${x}`);
      return {
        before: [gain(`${attention}.norm`), gain(`${network}.norm`)],
        toQkv: matrix(`${attention}.sublayer.project.to_qkv`),
        toOut: matrix(`${attention}.sublayer.to_out`),
        qkGain: gain(`${attention}.sublayer.project.q_norm`),
        gate: matrix(`${network}.sublayer.gate`),
        up: matrix(`${network}.sublayer.up`),
        down: matrix(`${network}.sublayer.down`),
      };
    });
    this.gain = gain("body.norm");
    this.toVocab = matrix("lm_head");
  }

  encode(text) {
    const signs = Array.from(new TextEncoder().encode(text), (byte) => SPELLED[byte]).join("");
    return (signs.match(SPLIT) ?? []).flatMap((piece) => {
      const symbols = [...piece].map((sign) => SIGNS[sign] ?? sign), spelled = piece[0] === ESCAPE;
      for (;;) {
        let best = Infinity, at = -1;
        for (let i = 0; i + 1 < symbols.length && !spelled; i += 1) {
          const rank = this.ranks.get(`${symbols[i]} ${symbols[i + 1]}`) ?? Infinity;
          if (rank < best) [best, at] = [rank, i];
        }
        if (at < 0) return symbols.map((symbol) => this.numbers.get(symbol));
        symbols.splice(at, 2, symbols[at] + symbols[at + 1]);
      }
    });
  }

  decode(tokens) {
    const signs = tokens.map((token) => this.tokens[token]).join("");
    const byte = (spelled) => {
      const n = SPELLED.indexOf(spelled);
      return n < 0 ? spelled : String.fromCharCode(n);
    };
    const bytes = signs.replace(/\u241b[\da-f]{2}/g, byte).replaceAll(ESCAPE, "\\x")
      .replaceAll("\u0120", " ").replaceAll("\u010a", "\n");
    return TEXT.decode(Uint8Array.from(bytes, (sign) => sign.charCodeAt(0)));
  }

  word(token) {
    return this.decode([token]);
  }

  caches() {
    return this.blocks.map(() => ({ keys: [], values: [] }));
  }

  // The logits after one more token, whose key and value join the caches. `off` names what is left
  // out: a head "2.1", a network "2.network", all "rotary" turns, all "norms" of the stream. What
  // was computed on the way is kept as `trace`: the stream before and after each part, for one.
  // `put` may give another stream at any stage: what stands there in another run, for one.
  step(token, caches, off = WHOLE, put = null) {
    const trace = { token, stream: [], parts: [] };
    const stream = (x) => {
      const now = put?.(trace.stream.length) ?? x;
      trace.stream.push(now);
      return now;
    };
    let x = stream(this.embed.row(token));
    this.blocks.forEach((block, n) => {
      const part = { read: normed(x, block.before[0], off.has("norms")) };
      this.attend(block, part, caches[n], (head) => off.has(`${n}.${head}`), off.has("rotary"));
      x = stream(added(x, part.attention));
      part.inside = normed(x, block.before[1], off.has("norms"));
      part.up = block.up.times(part.inside);
      part.gate = block.gate.times(part.inside);
      part.hidden = part.gate.map((g, i) => (g / (1 + Math.exp(-g))) * part.up[i]);
      part.network = block.down.times(part.hidden);
      if (off.has(`${n}.network`)) part.network = part.network.fill(0);
      x = stream(added(x, part.network));
      trace.parts.push(part);
    });
    this.trace = trace;
    this.looks = trace.parts.map(({ looks }) => looks); // of each head, from this token back
    return (trace.logits = this.lens(x, off));
  }

  // The logits if the stream ended with x: the logit lens.
  lens(x, off = WHOLE) {
    return this.toVocab.times(normed(x, this.gain, off.has("norms")));
  }

  attend({ toQkv, toOut, qkGain }, part, { keys, values }, silent, still) {
    const { width, heads, kv_heads: shared } = this.sizes;
    const D = width / heads;
    const all = toQkv.times(part.read);
    const head = (n) => all.subarray(n * D, (n + 1) * D);
    const place = still ? 0 : keys.length;
    const ready = (n) => turned(normed(head(n), qkGain), place);
    keys.push(Array.from({ length: shared }, (_, n) => ready(heads + n)));
    values.push(Array.from({ length: shared }, (_, n) => head(heads + shared + n).slice()));
    const heard = new Float32Array(width);
    Object.assign(part, { all, queries: [], scores: [], looks: [], heard });
    for (let n = 0; n < heads; n += 1) {
      const query = ready(n);
      const at = Math.floor((n * shared) / heads); // several queries share a key
      const scores = keys.map((key) => dot(query, key[at]) / Math.sqrt(D));
      const shares = softmax(scores);
      part.queries.push(query);
      part.scores.push(scores);
      part.looks.push(shares);
      if (silent(n)) continue;
      shares.forEach((share, j) => {
        const value = values[j][at];
        for (let i = 0; i < D; i += 1) heard[n * D + i] += share * value[i];
      });
    }
    part.attention = toOut.times(heard);
  }
}

// A script and no fetch: that also works where the book is a folder on a disk.
let asked = null;
const load = (address) => (asked ??= new Promise((done, failed) => {
  const script = document.createElement("script");
  window.attnModel = (parts) => setTimeout(() => done(new Model(parts)));
  script.onerror = () => {
    script.remove();
    asked = null;
    failed(new Error("The model could not be loaded: the file is not there, or there is no network. " +
      'In Python it is attnbook.shipped.language.load("book-lm").'));
  };
  script.src = address;
  document.head.append(script);
}));

window.attnEngine = { load, softmax, normed, size };
})();
