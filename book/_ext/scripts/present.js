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
      node.classList.remove("present-path", "present-now");
      node.style.removeProperty("zoom");
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
    scrollTo(0, 0);
    if (remember) { // on a disk the address may not be changed this way
      try { history.replaceState(null, "", arrived.startsWith(`#${name(slide)}=`) ? arrived : `#${name(slide)}`); } catch { /* then it stays */ }
    }
  };
  const fit = (node) => { // as large as the window allows
    const { width, height } = node.getBoundingClientRect();
    const largest = /^H[1-3]$/.test(node.tagName) ? 2 : 2.6;
    const zoom = Math.min(largest, (innerWidth * 0.94) / width, (innerHeight - 130) / height);
    if (zoom > 0 && Number.isFinite(zoom)) node.style.zoom = Math.max(0.4, zoom).toFixed(3);
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
  const SHEET = { width: 1040, height: 548 }; // pixels of CSS inside the margins of present.css
  let paper, theme;
  const sheet = (inside, title, page = document.createElement("section")) => { // returns by how much it was enlarged
    const holder = document.createElement("div");
    page.replaceChildren(...(title ? [Object.assign(document.createElement("p"), { className: "present-title", textContent: title })] : []), holder);
    holder.append(inside);
    paper.append(page);
    holder.querySelectorAll("[data-numbers]").forEach(({ shadowRoot }) => {
      shadowRoot?.querySelector(".card")?.style.setProperty("display", "none");
      shadowRoot?.querySelector("slot")?.style.setProperty("display", "block");
    });
    const head = title ? page.firstChild.offsetHeight : 0;
    const { width, height } = holder.getBoundingClientRect();
    const zoom = Math.min(1.9, SHEET.width / Math.max(width, holder.scrollWidth), (SHEET.height - head - 12) / height);
    holder.style.zoom = zoom.toFixed(3);
    return zoom;
  };
  const layOut = () => {
    paper?.remove();
    paper = document.createElement("div");
    paper.className = "bd-article present-paper";
    document.body.append(paper);
    for (const { node, title } of slides) {
      const copy = node.cloneNode(true);
      copy.classList.remove("present-now", "present-path");
      copy.style.removeProperty("zoom");
      copy.querySelectorAll("details.compare").forEach((each) => { each.open = true; });
      copy.querySelectorAll("details:not(.compare, [open]), script, .headerlink, .copybtn, .verdict").forEach((each) => each.remove());
      copy.querySelectorAll("img").forEach((image) => { image.loading = "eager"; });
      if (sheet(copy, title) < 0.75) { // an answer of many parts: after the question a page for each
        const parts = copy.querySelectorAll(":scope > .compare > :not(summary)");
        if (parts.length) sheet(copy, title, paper.lastChild, copy.querySelector(".compare").remove());
        parts.forEach((part) => sheet(part, title));
      }
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
