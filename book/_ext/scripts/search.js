// The search by section, on Sphinx's search page. Its index, sections.js, is loaded after it.
const attnSearch = (() => {
  const idle = new Set([...stopwords, ..."what why how does do did my me i vs versus between difference when which who should shall have has had can could you we our your use used using an about explain explained mean meaning definition define work works working many much from get need want tell show example than so".split(" ")]);
  const alike = {
    attn: "attention", cnn: "convolution", convnet: "convolution", conv: "convolution", ffn: "feed-forward network",
    hyperparam: "hyperparameter", hyperparams: "hyperparameter", params: "parameter", lr: "learning rate",
    oom: "out of memory", fp16: "float16", bf16: "bfloat16", embed: "embedding", pe: "positional encoding",
    moe: "mixture of experts", gqa: "grouped-query attention", mqa: "multi-query attention", mla: "latent attention",
    bpe: "byte-pair encoding", ln: "layer norm", vit: "vision transformer", icl: "in-context learning",
    ssm: "state-space model", sgd: "gradient", nlp: "language", llm: "language model", llms: "language model",
    mha: "multi-head attention", sdpa: "scaled dot-product attention", swa: "sliding window attention",
    tokenizer: "tokenisation", tokeniser: "tokenisation", blank: "padding", lookahead: "causal mask",
    sinusoid: "sinusoidal", quadratic: "square", nan: "NaN", coref: "coreference", dropout: "dropout",
  };
  const signs = { "√": " sqrt ", "×": "x", "∞": " infinity ", "−": "-", "’": "'", "ᵀ": " transpose " };
  const stemmer = new Stemmer();
  const stem = (word) => stemmer.stemWord(word.replace(/iz(?=[eia])/g, "is").replaceAll("our", "or"));
  const camel = /(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/;
  let index, vocabulary;

  // Pieces of a question: a word, or a compound with its parts.
  const pieces = (text) => {
    text = text.replace(/[√×∞−’ᵀ]/g, (sign) => signs[sign]).normalize("NFKC").replaceAll("'", "");
    return (text.match(/[\p{L}\p{N}]+(?:[-–‑][\p{L}\p{N}]+)*/gu) ?? []).map((found) => {
      const parts = found.split(/[-–‑]/).flatMap((part) => part.split(camel)).map((part) => part.toLowerCase());
      const raw = parts.filter((part) => !stopwords.includes(part));
      return { raw, parts: raw.map(stem), whole: parts.length > 1 ? stem(parts.join("")) : null };
    });
  };

  // Whether two words are a slip apart, long ones two: a letter more, less, changed, or two swapped.
  const near = (a, b) => {
    const most = Math.min(a.length, b.length) > 5 ? 2 : 1;
    if (Math.abs(a.length - b.length) > most) return false;
    const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
    for (let i = 1; i <= a.length; i++) {
      rows[i] = [i];
      for (let j = 1; j <= b.length; j++) {
        const cost = a[i - 1] === b[j - 1] ? 0 : 1;
        rows[i][j] = Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + cost);
        const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
        if (swapped) rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
    return rows[a.length][b.length] <= most;
  };

  // {place: worth} of one word; what is not in the book may be a beginning or a slip.
  const postings = (word, last) => {
    const found = new Map();
    const add = (name, factor) => {
      const line = index.words[name];
      const rare = Math.log(1 + index.places.length / (line.length / 2));
      for (let i = 0, place = 0; i < line.length; i += 2) {
        place += line[i];
        const worth = factor * rare * line[i + 1] / 10;
        if (worth > (found.get(place) ?? 0)) found.set(place, worth);
      }
    };
    if (Object.hasOwn(index.words, word)) add(word, 1);
    else if (word.length > 2) {
      const starts = last ? vocabulary.filter((name) => name.startsWith(word)) : [];
      const slips = word.length > 3 && !starts.length ? vocabulary.filter((name) => name[0] === word[0] && near(name, word)) : [];
      starts.slice(0, 40).forEach((name) => add(name, 0.8));
      slips.slice(0, 10).forEach((name) => add(name, 0.7));
    }
    return found;
  };

  const strongest = (...maps) => {
    const found = new Map();
    for (const map of maps) for (const [place, worth] of map) if (worth > (found.get(place) ?? 0)) found.set(place, worth);
    return found;
  };
  const all = (maps) => { // of several words at once: the sum where all occur, half of it elsewhere
    const sum = new Map(), times = new Map();
    for (const map of maps) for (const [place, worth] of map) {
      sum.set(place, (sum.get(place) ?? 0) + worth);
      times.set(place, (times.get(place) ?? 0) + 1);
    }
    for (const [place, worth] of sum) sum.set(place, worth / maps.length * (times.get(place) === maps.length ? 1 : 0.5));
    return sum;
  };

  const chinese = (query) => {
    const runs = query.match(/\p{Script=Han}+/gu) ?? [];
    const fits = (place) => runs.every((run) => place[3].includes(run));
    return index.places.flatMap((place, at) => (runs.length && fits(place) ? [[at, 20 / place[3].length]] : []));
  };

  // [[place, score]…], best first.
  const find = (query) => {
    if (/\p{Script=Han}/u.test(query)) return chinese(query).sort((a, b) => b[1] - a[1]);
    query = query.replace(/\bhow many\b/gi, "number of");
    let asked = pieces(query).filter((piece) => piece.whole || piece.raw.some((word) => !idle.has(word)));
    if (!asked.length) asked = pieces(query).filter((piece) => piece.raw.length);
    if (!asked.length) return [];
    const counted = asked.map((piece, at) => {
      const last = at === asked.length - 1;
      const one = (word, raw) => {
        const also = Object.hasOwn(alike, raw) ? pieces(alike[raw]).flatMap((other) => other.parts) : null;
        const same = postings(word, last);
        return also ? strongest(same, all(also.map((other) => postings(other, false)))) : same;
      };
      const parts = piece.parts.map((word, i) => one(word, piece.raw[i]));
      return piece.whole ? strongest(all(parts), postings(piece.whole, last)) : all(parts);
    });
    for (let at = 0; at + 1 < asked.length; at++) { // flash attention: FlashAttention
      const joined = stem(asked[at].raw.join("") + asked[at + 1].raw.join(""));
      if (!Object.hasOwn(index.words, joined)) continue;
      const both = postings(joined, false);
      counted[at] = strongest(counted[at], both);
      counted[at + 1] = strongest(counted[at + 1], both);
    }
    const rarity = counted.map((map) => (map.size ? Math.log(1 + index.places.length / map.size) : 1));
    const total = rarity.reduce((a, b) => a + b, 0);
    const score = new Map(), covered = new Map();
    counted.forEach((map, at) => map.forEach((worth, place) => {
      score.set(place, (score.get(place) ?? 0) + worth);
      covered.set(place, (covered.get(place) ?? 0) + rarity[at] / total);
    }));
    for (const [place, worth] of score) score.set(place, worth * covered.get(place) ** 2);
    // A title or an entry of the index that the question contains, the more of it the better.
    phrases(asked).forEach((share, place) => score.set(place, (score.get(place) ?? 0) * (1 + 1.5 * share)));
    // A name of the module, written as it is.
    const names = new Set(query.split(/[^\p{L}\p{N}_]+/u).filter((word) => /[_A-Z]/.test(word)));
    for (const [place, worth] of score) {
      const [, anchor, , , , kind] = index.places[place];
      if (kind === "name" && names.has(anchor.split(".").at(-1))) score.set(place, 2.5 * worth);
    }
    const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
    const whole = plain(query);
    for (const [place, worth] of score) if (plain(index.places[place][3]) === whole) score.set(place, 2 * worth);
    return [...score].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  };

  // {place: share of the question that its title or its entry is}.
  const phrases = (asked) => {
    const covers = new Map(), best = new Map();
    const raw = asked.flatMap((piece) => piece.raw);
    raw.forEach((word, at) => {
      covers.set(stem(word), 1);
      if (at + 1 < raw.length) covers.set(stem(word + raw[at + 1]), 2);
    });
    asked.forEach((piece) => { if (piece.whole) covers.set(piece.whole, piece.raw.length); });
    for (const [phrase, places] of index.phrases) {
      if (!phrase.every((word) => covers.has(word))) continue;
      const share = Math.min(1, phrase.reduce((sum, word) => sum + covers.get(word), 0) / raw.length);
      places.forEach((place) => { if (share > (best.get(place) ?? 0)) best.set(place, share); });
    }
    return best;
  };

  const element = (name, text, settings = {}) => Object.assign(document.createElement(name), { textContent: text }, settings);

  const show = (query, { results = document.getElementById("search-results"), root = "", most = 30 } = {}) => {
    if (!results) return;
    results.replaceChildren();
    if (!query.trim()) return;
    const kinds = { glossary: "Glossary", name: "Module", module: "Module", lab: "Lab" };
    const found = find(query).slice(0, most);
    const words = pieces(query).flatMap((piece) => piece.raw).filter((word) => !idle.has(word));
    const list = element("ul", "", { className: "search" });
    for (const [at, worth] of found) {
      const [page, anchor, number, title, excerpt, kind] = index.places[at];
      const [address, chapter] = index.pages[page];
      const item = element("li", "");
      const link = element("a", `${number} ${title}`.trim(), { href: `${root}${address}.html${anchor ? `#${anchor}` : ""}` });
      link.dataset.score = worth.toFixed(2);
      item.append(link);
      const where = [kinds[kind], anchor && kind !== "glossary" ? chapter : ""].filter(Boolean).join(" · ");
      if (where) item.append(element("span", where, { className: "where" }));
      if (excerpt) item.append(marked(excerpt, words));
      list.append(item);
    }
    const many = found.length === most ? `The best ${most} places.` : `${found.length || "No"} place${found.length === 1 ? "" : "s"} found.`;
    const hint = found.length ? "" : " Try fewer or other words, or look into the index.";
    results.append(element("p", many + hint, { className: "search-summary", role: "status" }), list);
    try { localStorage.setItem("sphinx_highlight_terms", words.join(" ")); } catch { /* not allowed here */ }
  };

  const marked = (excerpt, words) => {
    const line = element("p", "", { className: "context" });
    const stems = new Set(words.map(stem));
    for (const part of excerpt.split(/([\p{L}\p{N}]+)/u)) {
      line.append(stems.has(stem(part.toLowerCase())) && /\p{L}/u.test(part) ? element("span", part, { className: "highlighted" }) : part);
    }
    return line;
  };

  const start = () => {
    if (!document.getElementById("search-results")) return; // in the dialog of another page
    const fields = [...document.querySelectorAll('input[name="q"]')];
    const query = new URLSearchParams(location.search).get("q") ?? "";
    fields.forEach((field) => { field.value = query; });
    show(query);
    let waiting;
    fields.forEach((field) => field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        show(field.value);
        const address = new URL(location.href);
        address.searchParams.set("q", field.value);
        try { history.replaceState(null, "", address); } catch { /* a page on a disk keeps its address */ }
      }, 120);
    }));
  };

  window.attnSections = (sections) => {
    for (const place of sections.places) if (place[5] === "name") place[3] = place[1];
    index = { ...sections, phrases: Object.entries(sections.phrases).map(([key, places]) => [key.split(" "), places]) };
    vocabulary = Object.keys(index.words);
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
    else start();
  };
  return { stem, show, words: (text) => pieces(text).flatMap((piece) => (piece.whole ? [...piece.parts, piece.whole] : piece.parts)), find: (query) => find(query).map(([at, worth]) => [...index.places[at], index.pages[index.places[at][0]][0], worth]) };
})();
