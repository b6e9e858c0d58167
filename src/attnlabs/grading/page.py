"""The frame of the pages that grading writes: plain HTML, light and dark, wide and narrow."""

import html

STYLE = """
:root { color-scheme: light dark; --line: #ccc; --soft: #5c5c5c;
  --full: #0072b2; --part: #56b4e9; --none: #bbb }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --soft: #b0b0b0; --full: #56b4e9; --part: #2b6d94; --none: #555 } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
h1 { line-height: 1.2 }
h2 { margin-top: 2.2rem }
h3 { margin: 1.4rem 0 .2rem; overflow-wrap: anywhere }
td, th { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid var(--line) }
table { border-collapse: collapse; width: 100% }
p, td, li { overflow-wrap: anywhere }
td:first-child { min-width: 6.5rem }
@media (min-width: 40rem) { td:first-child { min-width: 10rem } }
.count td:first-child { width: 2rem; min-width: 0 }
.soft { color: var(--soft) }
.bar { display: flex; height: .8rem; margin: .3rem 0; border-radius: 3px; overflow: hidden;
  background: var(--none) }
.full { background: var(--full) }
.part { background: var(--part) }
.none { background: var(--none) }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px;
  margin: 0 .3rem 0 .8rem; vertical-align: -.1rem }
svg { width: 100%; max-width: 32rem; height: auto; font-size: 13px; fill: currentColor }
svg rect { fill: var(--full) }
svg line { stroke: var(--soft) }
summary { cursor: pointer }
"""
HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
)


def framed(title: str, body: str) -> str:
    """A whole page of a title, which is text, and a body, which is HTML."""
    title = html.escape(title)
    head = f"{HEAD}<title>{title}</title><style>{STYLE}</style></head>"
    return f"{head}\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
