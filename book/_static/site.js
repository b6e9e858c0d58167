// Small repairs of the theme's markup for screen readers.
document.addEventListener("DOMContentLoaded", () => {
  const set = (selector, attributes) =>
    document.querySelectorAll(selector).forEach((node) => {
      for (const [name, value] of Object.entries(attributes))
        value === null ? node.removeAttribute(name) : node.setAttribute(name, value);
    });
  set("#pst-primary-sidebar", { role: "complementary", "aria-label": "The book" });
  set(".citation-list, .citation", { role: null }); // a deprecated role, on an element that may not carry it
  for (const term of document.querySelectorAll("dl.glossary dt")) if (/[\u4e00-\u9fff]/.test(term.textContent)) term.lang = "zh-Hans";
  // What scrolls sideways can be reached and scrolled with the keyboard.
  for (const box of document.querySelectorAll("div.highlight pre, div.output pre, div.pst-scrollable-table-container"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
});
