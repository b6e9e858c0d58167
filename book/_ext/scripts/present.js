// A page as slides: its titles, pictures, explorables, predictions and results, one at a time.
// They stay where they are in the page and alive; everything else is not shown.
window.attnPresent = () => {
  const article = document.querySelector("article.bd-article") ?? document.querySelector("article");
  const SHOWN = "figure, .opening :is(.question, .repeated, .abilities), .predict, .result, .summary, .slide, .exercise, .pst-scrollable-table-container";
  const live = (node) => node.localName.startsWith("attn-");
  const picture = (node) => node.localName === "figure" || live(node);
  const folded = (node) => node.parentElement.closest("details");
  const dropped = (node) => node.closest(".no-slide, .solution, .notes, .tag_no-slide") || (folded(node) && !picture(node));
  const keyStep = (node) => node.matches(".cell") && node.querySelector(":scope > .cell_input") && document.querySelector("details.fold.code")
    && node.querySelector("pre").textContent.trim().split("\n").length <= 16;

  // The nodes of the slides, in the order of the page.
  const gather = () => {
    const slides = [], seen = new Set();
    const add = (node, title) => {
      if ([...seen].some((other) => other.contains(node))) return;
      seen.add(node);
      slides.push({ node, title });
    };
    const asked = article.querySelector(".opening .question");
    let title = "";
    for (const node of article.querySelectorAll("*")) {
      if (dropped(node)) continue;
      if (/^H[1-3]$/.test(node.tagName) && !node.closest("figure, .admonition, .predict, .result")) {
        title = clean(node);
        if (node.tagName !== "H1" || !asked) add(node, "");
      } else if (node === asked) {
        node.dataset.title = title; // the title of the page and its question are one slide
        add(node, "");
      } else if (node.matches(SHOWN) || live(node) || keyStep(node)) {
        add(live(node) ? node.closest("figure, .cell_output") ?? node : node, title);
      }
    }
    return slides;
  };
  const clean = (node) => {
    const copy = node.cloneNode(true);
    copy.querySelectorAll(".headerlink, mjx-assistive-mml").forEach((each) => each.remove());
    return copy.textContent.trim();
  };

  const slides = gather();
  slides.forEach((slide) => { slide.notes = []; });
  article.querySelectorAll(".notes").forEach((note) => { // a note belongs to what stands before it
    const before = slides.filter(({ node }) => node.compareDocumentPosition(note) & (Node.DOCUMENT_POSITION_FOLLOWING));
    before.at(-1)?.notes.push(note);
  });
  slides.forEach(({ node }, at) => { // a title whose section has nothing to show says how the section begins
    if (!/^H[23]$/.test(node.tagName) || !/^H[1-3]$/.test(slides[at + 1]?.node.tagName ?? "H1")) return;
    const first = node.parentElement.querySelector(":scope > p");
    const sentence = first && !first.querySelector(".math") ? clean(first).match(/^.+?[.?!](?=\s|$)/s)?.[0] : "";
    if (sentence && sentence.length < 160) node.dataset.lead = sentence;
  });
  const name = (slide) => {
    const { node } = slide;
    const id = /^H[1-3]$/.test(node.tagName) ? node.closest("section")?.id : node.id || node.querySelector("figure[id]")?.id;
    return id || `slide-${slides.indexOf(slide) + 1}`;
  };

  const bar = document.createElement("div");
  bar.className = "present-bar";
  bar.innerHTML = `<span class="present-title"></span><output class="present-notes" hidden></output>
    <nav aria-label="Slides"><button data-go="-1" aria-label="Previous slide">←</button>
    <span class="present-count" role="status"></span><button data-go="1" aria-label="Next slide">→</button>
    <button data-act="notes">Notes (n)</button><button data-act="full">Full screen (f)</button>
    <button data-act="leave">Leave (Esc)</button></nav>`;
  document.body.append(bar);
  document.documentElement.classList.add("presenting");
  const at = (selector) => bar.querySelector(selector);
  let now = 0;

  const arrived = location.hash;
  const show = (index, { remember = true } = {}) => {
    now = Math.max(0, Math.min(slides.length - 1, index));
    const slide = slides[now];
    document.querySelectorAll(".present-path, .present-now").forEach((node) => {
      node.classList.remove("present-path", "present-now", "stacked", "beside");
      [node, ...node.children].forEach((each) => each.style.removeProperty("zoom"));
    });
    slide.node.classList.add("present-now");
    for (let above = slide.node.parentElement; above; above = above.parentElement) {
      above.classList.add("present-path");
      if (above.localName === "details") above.open = true;
    }
    at(".present-title").textContent = slide.title;
    at(".present-count").textContent = `${now + 1} / ${slides.length}`;
    at(".present-notes").textContent = slide.notes.map((note) => note.textContent.trim()).join("\n");
    at('[data-act="notes"]').hidden = !slides.some((each) => each.notes.length);
    fit(slide.node);
    setTimeout(() => { // an explorable draws once it is seen
      if (slides[now] === slide && [slide.node, ...slide.node.querySelectorAll("*")].some(live)) fit(slide.node);
    }, 200);
    scrollTo(0, 0);
    if (remember) { // on a disk the address may not be changed this way
      try { history.replaceState(null, "", arrived.startsWith(`#${name(slide)}=`) ? arrived : `#${name(slide)}`); } catch { /* then it stays */ }
    }
  };
  const fit = (node) => { // as large as the window allows
    const room = { width: innerWidth * 0.94, height: innerHeight - 130, letters: Math.max(16, innerWidth / 76), largest: 2.6 };
    const largest = /^H[1-3]$/.test(node.tagName) ? 2 : room.largest;
    if (node.localName === "figure" && node.querySelector(":scope > figcaption")) {
      arrange(node, room);
      return;
    }
    const take = () => {
      node.style.removeProperty("zoom");
      const { width, height } = node.getBoundingClientRect();
      const zoom = Math.min(largest, room.width / width, room.height / height);
      if (zoom > 0 && Number.isFinite(zoom)) node.style.zoom = Math.max(0.4, zoom).toFixed(3);
      return isCut(node) ? zoom / 2 : zoom;
    };
    node.classList.remove("stacked");
    const beside = take();
    if (!node.matches(".predict:has(> .compare[open])")) return;
    node.classList.add("stacked");
    if (take() > beside) return;
    node.classList.remove("stacked");
    take();
  };
  const isCut = (node) => [...node.querySelectorAll("pre, .pst-scrollable-table-container")].some((each) => each.clientWidth && each.scrollWidth > each.clientWidth + 2);
  // A picture and its caption, below it or beside it: whichever leaves the picture larger. The caption's letters do not shrink with it.
  const arrange = (figure, { width, height, letters, largest }) => {
    const caption = figure.querySelector(":scope > figcaption");
    const parts = [...figure.children].filter((each) => each !== caption && each.localName !== "script");
    const gap = letters * 0.8, column = letters * 17;
    const place = (beside) => {
      figure.classList.toggle("beside", beside);
      figure.style.setProperty("--caption", beside ? `${column}px` : `${Math.min(width, letters * 52)}px`);
      caption.style.fontSize = `${letters}px`;
      parts.forEach((part) => part.style.removeProperty("zoom"));
      const boxes = parts.map((part) => part.getBoundingClientRect());
      const wide = Math.max(...boxes.map((box) => box.width)), high = boxes.reduce((sum, box) => sum + box.height, 0);
      const zoom = Math.min(largest, (width - (beside ? column + gap : 0)) / wide, (height - (beside ? 0 : caption.getBoundingClientRect().height + gap)) / high);
      parts.forEach((part) => { part.style.zoom = Math.max(0.4, zoom).toFixed(3); });
      return zoom;
    };
    const below = place(false);
    return place(true) > below * 1.05 ? undefined : void place(false);
  };
  // The answer to a prediction is a step of its own.
  const step = (by) => {
    const answer = slides[now].node.querySelector("details.compare:not([open])");
    if (by === 1 && answer) {
      answer.open = true;
      slides[now].node.style.removeProperty("zoom");
      fit(slides[now].node);
    } else show(now + by);
  };
  const leave = () => { location.href = `${location.pathname}#${name(slides[now])}`; };
  const full = () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen?.());
  const notes = () => { at(".present-notes").hidden = !at(".present-notes").hidden; };

  bar.addEventListener("click", ({ target }) => {
    if (target.dataset.go) step(Number(target.dataset.go));
    ({ notes, full, leave })[target.dataset.act]?.();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const owner = event.composedPath()[0]; // a slider's arrow keys are its own
    const typing = owner.matches?.("input, select, textarea, [role=slider], [role=grid] *, [role=gridcell], [contenteditable]");
    const pressing = owner.matches?.("button, a, summary, label");
    const keys = { PageDown: 1, PageUp: -1 };
    if (!typing) Object.assign(keys, { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 });
    if (!typing && !pressing) keys[" "] = event.shiftKey ? -1 : 1;
    if (keys[event.key]) step(keys[event.key]);
    else if (!typing && event.key === "Home") show(0);
    else if (!typing && event.key === "End") show(slides.length - 1);
    else if (event.key === "Escape" && !document.fullscreenElement) leave();
    else if (!typing && event.key === "f") full();
    else if (!typing && event.key === "n") notes();
    else return;
    event.preventDefault();
  });
  addEventListener("resize", () => show(now, { remember: false }));

  // On paper: one slide on each page, as large as the page allows. Explorables stand still there.
  const SHEET = { width: 1040, height: 548, letters: 16, largest: 1.9 }; // pixels of CSS inside the margins of present.css
  const LEAST = 0.85; // smaller than this letters are hard to read from the last row
  let paper, theme;
  const still = (holder) => { // an explorable's picture in place of its controls
    holder.querySelectorAll("[data-numbers]").forEach(({ shadowRoot }) => {
      shadowRoot?.querySelector(".card")?.style.setProperty("display", "none");
      shadowRoot?.querySelector("slot")?.style.setProperty("display", "block");
    });
  };
  const sheet = (inside, title) => { // returns by how much it was enlarged, less if something is cut
    const page = document.createElement("section"), holder = document.createElement("div");
    page.append(...(title ? [Object.assign(document.createElement("p"), { className: "present-title", textContent: title })] : []), holder);
    holder.append(inside);
    paper.append(page);
    still(holder);
    const height = SHEET.height - (title ? page.firstChild.offsetHeight : 0) - 12;
    const figure = inside.matches("figure") ? inside : inside.querySelector(":scope > figure:only-child");
    if (figure?.querySelector(":scope > figcaption")) {
      const drawn = Math.max(0, ...[...figure.querySelectorAll("svg, img")].map((each) => each.getBoundingClientRect().width));
      const width = figure.querySelector("[data-numbers]") ? Math.max(drawn, 440) : drawn;
      holder.classList.add("pictured");
      if (width) figure.style.setProperty("--picture", `${Math.ceil(width)}px`);
      arrange(figure, { ...SHEET, width: SHEET.width - 16, height: height - 8 }); // letters may stand out by a hair
      return 1;
    }
    const cut = isCut(holder);
    const largest = () => {
      const { width, height: high } = holder.getBoundingClientRect();
      return Math.min(SHEET.largest, SHEET.width / Math.max(width, holder.scrollWidth), height / high);
    };
    let zoom = largest();
    if (zoom < 1 && inside.querySelector("tbody") && !inside.matches(".predict")) { // a high table becomes lower where it is wide
      holder.style.width = holder.style.maxWidth = "62rem";
      const wider = largest();
      if (wider > zoom) zoom = wider;
      else holder.style.width = holder.style.maxWidth = "";
    }
    holder.style.zoom = zoom.toFixed(3);
    return cut ? Math.min(zoom, LEAST / 2) : zoom;
  };
  // What is too long for a sheet goes on on the next: a listing at an empty line, a table at a row.
  const halves = (whole) => {
    const table = whole.querySelector("tbody"), listing = [...whole.querySelectorAll("pre")].sort((a, b) => b.textContent.length - a.textContent.length)[0];
    const rest = whole.cloneNode(true);
    if (table?.rows.length > 3) {
      const other = rest.querySelector("tbody"), half = Math.ceil(table.rows.length / 2);
      [...table.rows].slice(half).forEach((row) => row.remove());
      [...other.rows].slice(0, half).forEach((row) => row.remove());
      return [whole, rest];
    }
    const lines = listing?.textContent.split("\n") ?? [];
    if (lines.length < 16) return null;
    const middle = lines.map((line, at) => [line.trim() ? 6 : 0, at]).slice(5, -5).sort((a, b) => (a[0] + Math.abs(a[1] - lines.length / 2)) - (b[0] + Math.abs(b[1] - lines.length / 2)))[0][1];
    const at = lines.slice(0, middle).join("\n").length;
    const keep = (root, from, to) => { // the letters of a listing that stay, in their colours
      let seen = 0;
      const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), texts = [];
      while (walk.nextNode()) texts.push(walk.currentNode);
      for (const text of texts) {
        const begin = seen;
        seen += text.length;
        text.data = text.data.slice(Math.max(0, from - begin), Math.max(0, to - begin));
      }
    };
    const nth = [...whole.querySelectorAll("pre")].indexOf(listing), other = rest.querySelectorAll("pre")[nth];
    keep(listing, 0, at);
    keep(other, at + 1, Infinity);
    const alone = (step, root, side) => { // what stands before the listing is on the first sheet, what follows on the last
      for (; step !== root; step = step.parentElement) while (step[side]) step[side].remove();
    };
    alone(listing, whole, "nextElementSibling");
    alone(other, rest, "previousElementSibling");
    return [whole, rest];
  };
  const sheets = (inside, title, depth = 0) => {
    if (sheet(inside, title) >= LEAST || depth > 2) return;
    const two = halves(inside);
    if (!two) return;
    paper.lastChild.remove();
    two.forEach((half) => sheets(half, title, depth + 1));
  };
  const answered = (copy, title) => { // the question by itself; then what came out, beside it or below, or part by part
    const asked = copy.cloneNode(true);
    asked.querySelector(".compare").remove();
    sheet(asked, title);
    const fits = (way) => {
      const zoom = sheet(way, title);
      paper.lastChild.remove();
      return zoom;
    };
    const stacked = copy.cloneNode(true);
    stacked.classList.add("stacked");
    const ways = [[fits(copy), copy], [fits(stacked), stacked]].sort((a, b) => b[0] - a[0]);
    if (ways[0][0] >= LEAST) sheet(ways[0][1], title);
    else copy.querySelectorAll(":scope > .compare > :not(summary)").forEach((part) => sheets(part, title));
  };
  const layOut = () => {
    paper?.remove();
    paper = document.createElement("div");
    paper.className = "bd-article present-paper";
    document.body.append(paper);
    for (const { node, title } of slides) {
      const copy = node.cloneNode(true);
      copy.classList.remove("present-now", "present-path", "stacked", "beside");
      [copy, ...copy.children].forEach((each) => each.style?.removeProperty("zoom"));
      copy.querySelectorAll("details.compare").forEach((each) => { each.open = true; });
      copy.querySelectorAll("details:not(.compare, [open]), script, .headerlink, .copybtn, .verdict, .stages, .cell:has(> .cell_output :is(table, figure)) > .cell_input").forEach((each) => each.remove());
      copy.querySelectorAll("img").forEach((image) => { image.loading = "eager"; });
      copy.querySelectorAll(".cell:not(:has(*))").forEach((each) => each.remove()); // its code was folded, and it printed nothing
      if (copy.matches(".predict:has(> .compare)")) answered(copy, title);
      else sheets(copy, title);
    }
    return paper;
  };
  window.attnPaper = layOut;
  addEventListener("beforeprint", () => {
    theme ??= document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    layOut();
  });
  addEventListener("afterprint", () => {
    paper?.remove();
    if (theme) document.documentElement.dataset.theme = theme;
    theme = undefined;
  });

  const [wanted] = decodeURIComponent(location.hash.slice(1)).split("="); // after = the state of an explorable
  const target = wanted && document.getElementById(wanted);
  const first = () => {
    if (!target) return Math.max(0, (Number(wanted.match(/^slide-(\d+)$/)?.[1]) || 1) - 1);
    const exact = slides.findIndex((slide) => name(slide) === wanted || slide.node === target || slide.node.contains(target));
    if (exact >= 0) return exact;
    const inside = slides.findIndex(({ node }) => target.contains(node));
    if (inside >= 0) return inside;
    const before = slides.filter(({ node }) => node.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING);
    return Math.max(0, before.length - 1);
  };
  const begin = first();
  show(begin, { remember: Boolean(wanted) });
  window.MathJax?.startup?.promise?.then(() => show(now, { remember: false }));
  document.fonts.ready.then(() => show(now, { remember: false }));
  document.querySelectorAll("img[loading=lazy]").forEach((image) => { image.loading = "eager"; });
  document.addEventListener("load", (event) => {
    if (slides[now].node.contains(event.target)) show(now, { remember: false });
  }, true);
};
