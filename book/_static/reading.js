// Where a reader is: the section in "Contents", what was read, predictions and how they came out.
document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const page = location.pathname.replace(/\.html$/, "").split("/").slice(-2).join("/");
  const kept = (name) => {
    try { return JSON.parse(localStorage.getItem(name)) ?? {}; } catch { return {}; }
  };
  const keep = (name, value) => {
    try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* a reader who keeps nothing */ }
  };
  const node = (name, settings, ...children) => {
    const made = Object.assign(document.createElement(name), settings);
    made.append(...children);
    return made;
  };

  // "Contents": the present section is marked, those whose end was reached have a tick.
  const links = all(".bd-sidebar-secondary .toc-entry > a[href^='#']");
  const places = links.map((link) => [link, document.getElementById(decodeURIComponent(link.hash.slice(1)))]).filter(([, place]) => place);
  if (places.length && !document.documentElement.classList.contains("presenting")) {
    const read = new Set(kept("read")[page] ?? []);
    const tick = (link) => {
      if (link.querySelector(".read")) return;
      link.append(node("span", { className: "read", title: "read", textContent: "✓" }));
    };
    let now, waiting = 0;
    const look = () => {
      waiting = 0;
      const line = Math.min(innerHeight * 0.3, 220);
      const end = innerHeight + scrollY >= document.documentElement.scrollHeight - 4;
      const tops = places.map(([, place]) => place.getBoundingClientRect().top);
      const above = tops.filter((top) => top <= line).length;
      const at = end ? places.length - 1 : above - 1;
      const fresh = [];
      places.forEach(([link, place], index) => { // a section is read when its end came into sight from above
        const { bottom } = place.getBoundingClientRect();
        const seen = index < at || (index === at && bottom < innerHeight) || end;
        if (seen && visited.has(link.hash) && !read.has(link.hash)) fresh.push([link, read.add(link.hash)]);
      });
      fresh.forEach(([link]) => tick(link));
      if (fresh.length) keep("read", { ...kept("read"), [page]: [...read] });
      const link = places[at]?.[0];
      if (link === now) return;
      links.forEach((each) => {
        each.classList.remove("here", "on-the-way");
        each.removeAttribute("aria-current");
      });
      now = link;
      if (!link) return;
      link.classList.add("here");
      link.setAttribute("aria-current", "location");
      for (let above = link.closest("ul").closest("li"); above; above = above.parentElement.closest("li")) above.querySelector(":scope > a").classList.add("on-the-way");
      const box = link.closest(".bd-sidebar-secondary");
      const { top, bottom } = link.getBoundingClientRect();
      if (box.scrollHeight > box.clientHeight && (top < 60 || bottom > innerHeight - 20)) box.scrollTop += top - innerHeight / 2;
    };
    const visited = new Set(); // whoever jumps past a section has not read it
    let dwelling;
    const arrive = () => {
      clearTimeout(dwelling);
      dwelling = setTimeout(() => {
        if (now) visited.add(now.hash);
        look();
      }, 1500);
    };
    const later = () => {
      waiting ||= requestAnimationFrame(look);
      arrive();
    };
    links.filter((link) => read.has(link.hash)).forEach(tick);
    addEventListener("scroll", later, { passive: true });
    addEventListener("resize", later);
    look();
    arrive();
  }

  // A prediction answers: what was chosen, whether it came out so; it is remembered and counted.
  const hash = (text) => [...text].reduce((sum, letter) => (Math.imul(sum, 31) + letter.codePointAt(0)) | 0, 7).toString(36);
  const boxes = all(".predict:has(.choices)").map((box) => {
    const labels = all(".choices label", box), right = labels.findIndex((label) => "right" in label.dataset);
    const said = node("p", { className: "verdict" });
    said.setAttribute("role", "status");
    const key = hash([...box.querySelectorAll(":scope > p, .choices label")].map((part) => part.textContent.trim()).join("|"));
    box.querySelector(".choices").after(said);
    return { box, labels, right, said, key, answer: box.querySelector("details.compare") };
  });
  const chosen = () => kept("predictions")[page] ?? {};
  const verdict = ({ labels, right, said, key, answer }) => {
    const mine = chosen()[key];
    const settled = answer?.open && mine !== undefined;
    labels.forEach((label, at) => {
      label.classList.toggle("mine", mine === at);
      label.classList.toggle("so", Boolean(settled) && right === at);
      label.classList.toggle("not-so", Boolean(settled) && right >= 0 && mine === at && right !== at);
    });
    if (!settled) said.textContent = "";
    else if (right < 0) said.textContent = `You said: ${labels[mine].textContent.trim()}.`;
    else said.textContent = mine === right ? "You said so, and so it is." : "You said otherwise; see why.";
  };
  const tally = () => {
    const made = boxes.filter(({ key }) => key in chosen());
    const judged = made.filter(({ right }) => right >= 0);
    const hit = judged.filter(({ key, right }) => chosen()[key] === right).length;
    all(".tally").forEach((line) => {
      line.hidden = made.length === 0;
      line.querySelector("span").textContent = `Your predictions: ${hit} of ${judged.length} came out so; ${boxes.length - made.length} of ${boxes.length} on this page are open. `;
    });
  };
  const end = document.querySelector("ul.summary, #exercises");
  if (end && boxes.length) {
    const forget = node("button", { type: "button", textContent: "Forget them", onclick: () => {
      const others = kept("predictions");
      delete others[page];
      keep("predictions", others);
      boxes.forEach((each) => {
        all("input", each.box).forEach((input) => { input.checked = false; });
        verdict(each);
      });
      tally();
    } });
    end.before(node("p", { className: "tally", hidden: true }, node("span"), forget));
  }
  boxes.forEach((each) => {
    const inputs = all(".choices input", each.box);
    inputs.forEach((input, at) => {
      input.checked = chosen()[each.key] === at;
      input.addEventListener("change", () => {
        keep("predictions", { ...kept("predictions"), [page]: { ...chosen(), [each.key]: at } });
        verdict(each);
        tally();
      });
    });
    each.answer?.addEventListener("toggle", () => verdict(each));
    verdict(each);
  });
  tally();
});
