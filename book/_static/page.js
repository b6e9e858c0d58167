// Folds: "Show all code" and ?code, links that lead into a fold. Anchors that moved. Colour by cell.
document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // One button opens the code of every cell, remembers it, and closes it again.
  const folds = all("details.fold.code");
  const show = document.querySelector(".btn-show-code");
  const setAll = (open) => {
    folds.forEach((fold) => { fold.open = open; });
    document.documentElement.toggleAttribute("data-code", open);
    if (show) {
      show.setAttribute("aria-pressed", open);
      show.querySelector(".btn__text-container").textContent = open ? "Hide code" : "Show all code";
    }
  };
  const asked = new URLSearchParams(location.search).has("code");
  if (asked || localStorage.getItem("code") === "shown") setAll(true);
  show?.removeAttribute("onclick");
  show?.addEventListener("click", () => {
    const open = !document.documentElement.hasAttribute("data-code");
    setAll(open);
    if (open) localStorage.setItem("code", "shown");
    else localStorage.removeItem("code");
  });

  // Long lines of code are wrapped: what goes on hangs further right than what it goes on from.
  all(".bd-article div.highlight pre").filter((pre) => /.{40}/.test(pre.textContent)).forEach((pre) => {
    pre.innerHTML = pre.innerHTML.trimEnd().split("\n").map((line) => {
      const deep = line.replace(/<[^>]*>/g, "").match(/^ */)[0].length;
      return `<span class="line" style="--deep: ${deep + 2}ch">${line}\n</span>`;
    }).join("");
  });

  // A link into a fold opens it; an anchor that is not here is looked up.
  const goTo = () => {
    const [name, state] = decodeURIComponent(location.hash.slice(1)).split(/=(.*)/s); // after = the state of an explorable
    if (!name) return;
    const target = document.getElementById(name) ?? (state && document.querySelector(CSS.escape(name)));
    if (!target) return lookUp(name);
    let inside = false;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      inside ||= !fold.open;
      fold.open = true;
    }
    if (inside || state) target.scrollIntoView();
  };
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  const lookUp = (name) => {
    window.attnMoved = (moved) => {
      const here = decodeURIComponent(location.href.split(/[?#]/)[0].slice(root.href.length));
      const page = moved[`${here.replace(/\.html$/, "")}#${name}`] ?? moved[name];
      if (page && `${page}.html` !== here) location.replace(`${root.href}${page}.html${location.hash}`);
    };
    const script = document.createElement("script");
    script.src = `${root.href}_static/moved.js`;
    document.head.append(script);
  };
  addEventListener("hashchange", goTo);
  goTo();

  // What is printed is open where a reader on paper needs it, predictions and deeper parts, and in the colours of the day.
  const day = document.documentElement.dataset;
  addEventListener("beforeprint", () => {
    [day.printed, day.theme] = [day.theme, "light"];
    // All are measured before one is changed: else the whole book would be laid out anew for each.
    const listings = all(".bd-article pre").map((pre) => [pre, pre.offsetHeight < 320]);
    listings.forEach(([pre, short]) => pre.classList.toggle("short", short));
    all("details.compare, details.deeper").forEach((fold) => {
      if (!fold.open) { fold.open = true; fold.dataset.printed = ""; }
    });
  });
  addEventListener("afterprint", () => {
    if (day.printed) day.theme = day.printed;
    delete day.printed;
    all("details[data-printed]").forEach((fold) => {
      fold.open = false;
      delete fold.dataset.printed;
    });
  });

  // Code that scrolls sideways can be reached by keyboard once its fold is open.
  all("details").forEach((fold) => fold.addEventListener("toggle", () => {
    fold.querySelectorAll("pre").forEach((node) => {
      if (node.scrollWidth > node.clientWidth) node.tabIndex = 0;
    });
  }));

  // MathJax makes letters as high as those of the text. A formula that is too wide is set smaller, down to six tenths of the text; one that is wider still scrolls and can be reached by keyboard.
  // On paper it is as large as the formulas of a sentence, where its line has room for that.
  const LEAST = 0.62, PAPER = 560;
  const reach = (within) => all("mjx-container[display]", within).forEach((node) => {
    node.dataset.own ??= node.style.fontSize;
    node.style.removeProperty("font-size");
    const text = parseFloat(getComputedStyle(node).fontSize);
    const own = parseFloat(node.dataset.own) / 100 || 1, over = node.scrollWidth > node.clientWidth + 1;
    const natural = Math.max(over ? node.scrollWidth : 0, ...all("mjx-math, mjx-mtable", node).map((part) => part.getBoundingClientRect().width));
    if (node.clientWidth) node.style.setProperty("--paper", Math.min(own, PAPER / natural).toFixed(3));
    node.style.fontSize = node.dataset.own;
    if (!node.clientWidth) return;
    const full = parseFloat(getComputedStyle(node).fontSize), wide = node.scrollWidth;
    if (wide > node.clientWidth + 1) {
      node.style.fontSize = `${Math.max(LEAST * text, (full * node.clientWidth * 0.99) / wide).toFixed(2)}px`;
    }
    if (node.scrollWidth > node.clientWidth + 1) node.tabIndex = 0;
    else node.removeAttribute("tabindex");
  });
  addEventListener("load", () => window.MathJax?.startup?.promise?.then(() => reach()));
  let turning;
  addEventListener("resize", () => { clearTimeout(turning); turning = setTimeout(reach, 120); });
  all("details").forEach((fold) => fold.addEventListener("toggle", () => reach(fold)));

  // The menu of a formula, with its TeX and its spoken form, comes when somebody asks for it or has set something in it.
  const menu = async () => {
    await MathJax.loader.load("ui/menu");
    MathJax.startup.document.state(0, true);
    MathJax.startup.getComponents();
    MathJax.startup.makeMethods();
    await MathJax.typesetPromise();
  };
  document.addEventListener("contextmenu", async (event) => {
    const around = event.target.closest?.("mjx-container")?.closest(".math");
    if (!around || MathJax.startup.document.menu) return;
    event.preventDefault();
    await menu();
    const { clientX, clientY } = event;
    const again = new MouseEvent("contextmenu", { bubbles: true, cancelable: true, clientX, clientY, button: 2 });
    around.querySelector("mjx-container").dispatchEvent(again);
  });
  addEventListener("load", () => {
    if (localStorage.getItem("MathJax-Menu-Settings")) window.MathJax?.startup?.promise?.then(menu);
  });
});
