// What a term means, on hover and focus; ?present shows the page as slides. Both load what they need.
(() => {
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const load = (name, settings = {}) => new Promise((done, failed) => {
    const isStyle = name.endsWith(".css");
    const node = document.createElement(isStyle ? "link" : "script");
    Object.assign(node, isStyle ? { rel: "stylesheet", href: `${root}_static/${name}` } : { src: `${root}_static/${name}` }, settings);
    node.onload = done;
    node.onerror = () => failed(new Error(`${name} is not there`));
    document.head.append(node);
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (new URLSearchParams(location.search).has("present")) {
      Promise.all([load("find/present.css"), load("find/present.js")]).then(() => window.attnPresent());
    }
    document.querySelectorAll("a.button.present").forEach((link) => {
      link.addEventListener("click", () => { link.href = `?present${location.hash}`; });
    });
    terms();
    typed();
  });

  // The search dialog finds while one types; its index comes with the first letter.
  const typed = () => {
    const dialog = document.getElementById("pst-search-dialog"), field = dialog?.querySelector("input[name=q]");
    if (!field || document.getElementById("search-results")) return;
    const found = Object.assign(document.createElement("div"), { className: "found" });
    dialog.append(found);
    let index, waiting;
    const fetched = () => (index ??= load("language_data.js").then(() => load("find/search.js")).then(() => load("sections.js")));
    field.addEventListener("input", async () => {
      await fetched();
      clearTimeout(waiting);
      waiting = setTimeout(() => attnSearch.show(field.value, { results: found, root: root.href, most: 8 }), 80);
    });
    dialog.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const stops = [field, ...found.querySelectorAll("li > a")];
      if (!step || stops.length === 1) return;
      event.preventDefault();
      const at = stops.indexOf(document.activeElement) + step;
      stops[Math.max(0, Math.min(stops.length - 1, at))].focus();
    });
    found.addEventListener("click", (event) => event.target.closest("a") && dialog.close());
  };

  // The first sentence of the glossary's entry, once somebody points at a term.
  const terms = () => {
    const links = 'a[href*="glossary.html#term-"]';
    if (!document.querySelector(`article ${links}`)) return;
    const tip = Object.assign(document.createElement("div"), { id: "term-tip", role: "tooltip", hidden: true });
    document.body.append(tip);
    let known, over, waiting;
    window.attnTerms = (sentences) => { known = sentences; };

    const show = async (link) => {
      over = link;
      if (!known) await load("terms.js");
      const said = known?.[decodeURIComponent(link.hash.slice(1))];
      if (!said || over !== link) return;
      tip.textContent = said;
      tip.hidden = false;
      link.setAttribute("aria-describedby", tip.id);
      if (/\\\(/.test(said)) await window.MathJax?.typesetPromise?.([tip]);
      const { left, top, bottom } = link.getBoundingClientRect();
      const width = tip.offsetWidth, height = tip.offsetHeight;
      tip.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8)) + scrollX}px`;
      tip.style.top = `${(bottom + height + 8 < innerHeight ? bottom + 2 : top - height - 2) + scrollY}px`;
    };
    const hide = () => {
      over?.removeAttribute("aria-describedby");
      over = undefined;
      tip.hidden = true;
    };
    const later = (act, pause) => { clearTimeout(waiting); waiting = setTimeout(act, pause); };
    const of = (event) => event.target.closest?.(`article ${links}`);
    document.addEventListener("pointerover", (event) => {
      const link = of(event);
      if (link && event.pointerType !== "touch") later(() => show(link), over ? 0 : 150);
      else if (event.target.closest?.("#term-tip")) clearTimeout(waiting); // one may point at it, too
      else if (over && document.activeElement !== over) later(hide, 200);
      else if (!over) clearTimeout(waiting);
    });
    document.addEventListener("focusin", (event) => {
      const link = of(event);
      if (link?.matches(":focus-visible")) later(() => show(link), 0);
      else if (over) hide();
    });
    document.addEventListener("focusout", () => hide());
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  };
})();
