// A drawing that is built up: a press lights what it adds, a second one shows the whole again.
(() => {
  for (const row of document.querySelectorAll(".drawing .stages")) row.classList.remove("waiting")
  if (window.attnbookStages) return
  window.attnbookStages = true
  const build = (svg, presses, now) => {
    const adds = presses.map((press) => press.dataset.adds.split(" "))
    svg.classList.toggle("built", now >= 0)
    for (const node of svg.querySelectorAll("[data-part]")) {
      const names = node.dataset.part.split(" ")
      const first = adds.findIndex((added) => names.some((name) => added.includes(name)))
      node.classList.toggle("was", first >= 0 && first < now)
      node.classList.toggle("now", first === now)
      node.classList.toggle("later", first > now)
    }
  }
  document.addEventListener("click", (event) => {
    const press = event.target.closest?.(".drawing .stages button")
    if (!press) return
    const presses = [...press.parentElement.children]
    const now = press.getAttribute("aria-pressed") === "true" ? -1 : presses.indexOf(press)
    presses.forEach((other, n) => other.setAttribute("aria-pressed", String(n === now)))
    for (const svg of press.closest(".drawing").querySelectorAll("svg")) build(svg, presses, now)
  })
})()
