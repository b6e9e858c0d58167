// What is wrong with the drawings of a page, as a reader would see it.
() => {
    const faults = []
    const hits = (a, b, dx, dy) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > dx &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > dy
    const solid = (node) => {
        const { fill, fillOpacity } = getComputedStyle(node)
        const opaque = /^(rgb\(|color\(srgb [^/]*\))/.test(fill) && fillOpacity == 1
        return opaque && node.matches("rect, circle, path")
    }
    // Does the line run through the words, not hidden by a box that lies between?
    const crosses = (line, box, scale) => {
        const half = (parseFloat(getComputedStyle(line).strokeWidth) / 2) * scale
        const matrix = line.getScreenCTM(), length = line.getTotalLength()
        const reach = line.getBoundingClientRect()
        if (!hits(box, { left: reach.left - 2, right: reach.right + 2, top: reach.top - 2, bottom: reach.bottom + 2 }, 0, 0)) return false
        for (let s = 0; s <= length; s += 2) {
            const { x, y } = line.getPointAtLength(s).matrixTransform(matrix)
            if (x < box.left + 1 - half || x > box.right - 1 + half || y < box.top + 3 - half || y > box.bottom - 4 + half) continue
            const top = window.scrollY
            window.scrollTo(0, top + y - 400)
            const now = line.getPointAtLength(s).matrixTransform(line.getScreenCTM())
            const pile = document.elementsFromPoint(now.x, now.y), depth = pile.indexOf(line)
            window.scrollTo(0, top)
            if (depth < 0 || !pile.slice(0, depth).some(solid)) return true
        }
        return false
    }
    for (const figure of document.querySelectorAll("figure")) {
        const shown = [...figure.querySelectorAll("svg")].filter((svg) => svg.getBoundingClientRect().width)
        if (shown.length != 1) faults.push(`${figure.id}: ${shown.length} layouts`)
        const [svg] = shown, frame = svg.getBoundingClientRect()
        const scale = frame.width / svg.viewBox.baseVal.width
        const say = (node) => `${figure.id}: "${node.textContent}"`
        const all = [...svg.querySelectorAll("text")]
        for (const text of all) {
            const box = text.getBoundingClientRect(), size = parseFloat(getComputedStyle(text).fontSize) * scale
            const out = box.left < frame.left - 1 || box.right > frame.right + 1
            if (out || box.top < frame.top - 2 || box.bottom > frame.bottom + 2) faults.push(`${say(text)} leaves the sheet`)
            if (size < 10.95) faults.push(`${say(text)} is ${size.toFixed(1)} px`)
        }
        const texts = all.filter((text) => getComputedStyle(text).visibility == "visible")
        const boxes = new Map(texts.map((text) => [text, text.getBoundingClientRect()]))
        texts.forEach((one, place) => texts.slice(place + 1).forEach((other) => {
            if (hits(boxes.get(one), boxes.get(other), 1, 4)) faults.push(`${say(one)} overlaps "${other.textContent}"`)
        }))
        for (const line of svg.querySelectorAll("path.k, path.share, path.grad, path.tie, path.hair"))
            for (const [text, box] of boxes)
                if (crosses(line, box, scale)) faults.push(`${say(text)} is crossed by ${line.getAttribute("class")}`)
    }
    return faults
}
