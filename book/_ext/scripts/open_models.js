(() => {
  const root = document.querySelector(".open-models");
  const body = root.querySelector("tbody");
  const rows = [...body.rows];
  const boxes = [...root.querySelectorAll("fieldset input")];
  const search = root.querySelector("input[type=search]");

  const choose = () => {
    const wanted = boxes.filter((box) => box.checked).map((box) => box.value);
    const words = search.value.trim().toLowerCase();
    let left = 0;
    rows.forEach((row) => {
      const has = row.dataset.has.split(" ");
      const said = [...row.cells].map((cell) => cell.firstChild.textContent).join(" ").toLowerCase();
      row.hidden = !(wanted.every((part) => has.includes(part)) && said.includes(words));
      left += !row.hidden;
    });
    root.querySelector("output").textContent = `${left} of ${rows.length} models`;
  };
  boxes.concat(search).forEach((input) => input.addEventListener("input", choose));
  addEventListener("pageshow", choose); // what was ticked is still ticked: coming back, in Firefox on reloading, too

  const order = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  const heads = [...root.querySelectorAll("thead th")];
  heads.forEach((head, column) => head.firstChild.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.key ?? row.cells[column].firstChild.textContent;
    rows.sort((a, b) => (up ? 1 : -1) * order(key(a), key(b)));
    body.append(...rows);
  }));
})();
