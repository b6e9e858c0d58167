"""The book's language model from the inside, in the page: every weight, every number on the way.

    :::{through}
    What to say where there is no script: JupyterLab, Colab, paper.
    :::

`bookkit/explore/through.js` draws and `scripts/model.js` computes, as for `{writer}`, whose file of
weights it loads when a reader asks for it. What is seen before is stored: see
`bookkit/explore/through.py`.
"""

import json
import re
import sys
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxTranslator
from writer import TO, megabytes

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))  # the site is built without the package
from bookkit.explore.element import script, style
from bookkit.explore.still import Still

HERE = "_static/find/through.js"
STORED = "src/bookkit/explore/stored/through.json"
QUESTION = "What happens between a line of text and its next token?"
START = {"text": "", "was": "", "token": -1, "stop": 0, "off": [], "put": [], "view": "words"}


@cache
def stored() -> dict[str, Any]:
    """The line that is there before the model is loaded."""
    found: dict[str, Any] = json.loads((Path(__file__).parents[2] / STORED).read_text("utf-8"))
    return found


def shown(word: str) -> str:
    return word.replace("\n", "↵").replace(" ", "␣")


def sentence() -> str:
    """What is said of the stored line's last token."""
    numbers = stored()
    words, says = numbers["words"], numbers["says"]
    name = lambda token: f"“{words[str(token)].strip() or shown(words[str(token)])}”"  # noqa: E731
    token, chance = numbers["next"][-1][0]
    way = [name(says[stage][-1][0]) for stage in (0, 2, 6)]
    return (
        f"After {name(numbers['tokens'][-1])} comes {name(token)} with chance "
        f"{f'{chance:.2f}'[1:]}. Read out earlier, its stream would say {way[0]} before the "
        f"blocks, {way[1]} after block 0, {way[2]} after block 2."
    )


def still() -> str:
    """The picture without a script: what each token's stream would say after each block."""
    numbers, words = stored(), stored()["words"]
    T = len(numbers["tokens"])
    picture = Still(672, 30 + 22 * T, sentence())
    columns = [("token", 4), ("table", 130)]
    columns += [(f"after block {layer}", 230 + 110 * layer) for layer in range(4)]
    for name, x in columns:
        picture.text(x, 14, name, "muted", "start", 12)
    for t, token in enumerate(numbers["tokens"]):
        picture.text(4, 41 + 22 * t, shown(words[str(token)]), anchor="start", bold=t == T - 1)
        for (_, x), stage in zip(columns[1:], (0, 2, 4, 6, 8), strict=True):
            says, chance = numbers["says"][stage][t]
            box = x, 26 + 22 * t, 90 if stage else 80, 20
            picture.cell(*box, "output", chance, shown(words[str(says)]))
    return picture.svg()


def numbers(up: str) -> str:
    """What the script is told: where it starts, and where the weights lie."""
    line = stored()["line"]
    told = {
        "question": QUESTION,
        "start": {**START, "text": line},
        "stored": {key: value for key, value in stored().items() if key != "line"},
        "model": f"{up}{TO}",
        "load": f"Load the model, {megabytes()}",
    }
    data = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return escape(data, quote=False).replace("'", "&#39;")


class through(nodes.General, nodes.Element):
    """The element `<attn-through>`."""


class Through(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        node = through("", up="../" * self.env.docname.count("/"))
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


SAID = r'"(?:\\.|[^"\\])*"|`[^`]*`'  # strings and templates; no template holds another
TIGHT = re.compile(rf"({SAID})|\s*([*/%=<>!&|?:;,(){{}}\[\]])\s*|(?<![+-])\s([+-])\s(?![+-])|\s+")


def tight(text: str) -> str:
    """A script without the spaces that only readers need."""
    return TIGHT.sub(lambda found: found[1] or found[2] or found[3] or " ", text)


@cache
def small() -> str:
    """The script as the site has it."""
    return tight(script("through"))


def page(up: str) -> tuple[str, str]:
    """What stands before and behind the words of the directive."""
    before = (
        f"<style>{style()}</style><attn-through class=attn data-numbers='{numbers(up)}'>"
        f"<p><b>{escape(QUESTION)}</b></p>{still()}<p>{escape(sentence())}</p>"
    )
    scripts = (f"{up}_static/find/{each}.js" for each in ("model", "through"))
    tags = "".join(f'<script defer src="{each}"></script>' for each in scripts)
    return before, f"</attn-through>{tags}"


def visit_html(translator: SphinxTranslator, node: through) -> None:
    translator.body.append(page(node["up"])[0])
    raise nodes.SkipChildren  # its words are for where there is neither script nor picture


def depart_html(translator: SphinxTranslator, node: through) -> None:
    translator.body.append(page(node["up"])[1])


def visit_other(translator: SphinxTranslator, node: through) -> None:
    """On paper it is its words."""


def store_script(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    target = Path(app.outdir, HERE)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(small(), "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_node(through, html=(visit_html, depart_html), latex=(visit_other, visit_other))
    app.add_directive("through", Through)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
