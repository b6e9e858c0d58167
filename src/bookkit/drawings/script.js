// Parts of a drawing that answer: what is pointed at, touched or focused is lit with all it names.
(() => {
  for (const svg of document.querySelectorAll(".drawing svg")) svg.classList.toggle("live", !!svg.querySelector("[data-on]"))
  if (window.attnbookDrawings) return
  window.attnbookDrawings = true
  const kept = new WeakMap() // in each layout, what was touched last
  const part = (event) => event.target.closest?.(".drawing [data-on]")
  const light = (svg, asked) => {
    const names = asked ? asked.dataset.on.split(" ") : []
    svg.classList.toggle("asked", !!asked)
    for (const other of svg.querySelectorAll("[data-part], [data-on]"))
      other.classList.toggle("lit", other === asked || (other.dataset.part || "").split(" ").some((name) => names.includes(name)))
  }
  const keep = (svg, asked) => {
    asked ? kept.set(svg, asked) : kept.delete(svg)
    light(svg, asked)
  }
  const next = (from, key) => {
    const [x, y] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key]
    const middle = (node) => { const b = node.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] }
    const [x0, y0] = middle(from)
    let best = null, least = Infinity
    for (const other of from.ownerSVGElement.querySelectorAll("[data-on]")) {
      const [dx, dy] = middle(other).map((at, axis) => at - [x0, y0][axis])
      const along = dx * x + dy * y, aside = Math.abs(dx * y) + Math.abs(dy * x)
      if (other !== from && along > 1 && along + 3 * aside < least) [best, least] = [other, along + 3 * aside]
    }
    return best
  }
  document.addEventListener("pointerover", (event) => {
    const asked = part(event)
    if (asked) light(asked.ownerSVGElement, asked)
  })
  document.addEventListener("pointerout", (event) => {
    const svg = part(event)?.ownerSVGElement
    if (svg && !event.relatedTarget?.closest?.("[data-on]")) light(svg, kept.get(svg))
  })
  document.addEventListener("focusin", (event) => { if (part(event)) keep(part(event).ownerSVGElement, part(event)) })
  document.addEventListener("focusout", (event) => { if (part(event)) keep(part(event).ownerSVGElement) })
  document.addEventListener("keydown", (event) => {
    const asked = part(event)
    if (!asked) return
    if (event.key === "Escape") asked.blur()
    if (!event.key.startsWith("Arrow")) return
    event.preventDefault()
    next(asked, event.key)?.focus()
  })
})()
