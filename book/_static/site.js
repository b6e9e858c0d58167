// Small repairs of the markup for screen readers.
document.addEventListener("DOMContentLoaded", () => {
  const each = (selector, repair) => document.querySelectorAll(selector).forEach(repair);
  each(".bd-sidebar-primary", (node) => {
    node.role = "complementary";
    node.ariaLabel = "The book";
  });
  // What is heard begins with what is seen.
  each("button.search-button-field", (node) => { node.ariaLabel = node.textContent.replace(/\s+/g, " ").replace(/ ?\+ ?/, "+").trim(); });
  // A role that is deprecated, on an element that may not carry it.
  each(".citation-list, .citation", (node) => node.removeAttribute("role"));
  each(".bd-sidebar-primary summary", (node) => {
    node.ariaLabel = `Pages of ${node.closest("li").querySelector("a").textContent.trim()}`;
  });
  each("dl.glossary dt", (node) => {
    if (/[\u4e00-\u9fff]/.test(node.textContent)) node.lang = "zh-Hans";
  });
  // What lay folded away could not be measured: what scrolls once it is open takes the keyboard.
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".toggle-button, .admonition.toggle")) return;
    requestAnimationFrame(() => each("pre", (node) => {
      if (node.scrollWidth > node.clientWidth) node.tabIndex = 0;
    }));
  });
});
