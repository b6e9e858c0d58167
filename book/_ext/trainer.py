"""Train it here: a small transformer that learns in the reader's browser, and can be ruined.

    :::{train-here}
    :name: fig-somewhere
    The caption of the figure.

    What to say where there is no website: JupyterLab, Colab.
    :::

`scripts/training.js` computes, in a worker, `bookkit/explore/train_here.js` draws. The text becomes
one script, `_static/find/shakespeare.js`, which is loaded when a reader presses Train. What is seen
without a script was measured with the module: `results/train_here.py`.
"""

import gzip
import json
import math
import sys
from collections import Counter
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxTranslator

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))  # the site is built without the package
from bookkit.explore.element import script, style
from bookkit.explore.still import Still

PACKAGE = Path(__file__).parents[2] / "src/bookkit"
HERE, TO = "_static/find/train-here.js", "_static/find/shakespeare.js"
QUESTION = "How low is the loss after 300 steps, and what does each mistake do to it?"
START = {"guess": 4.1, "seed": 0, "a": "none", "b": "", "from": 0, "run": "a"}
TITLES = {
    "none": "healthy",
    "rate": "rate × 10",
    "warmup": "no warm-up",
    "mask": "mask off by one",
    "target": "targets not shifted",
}
WINDOWS, T = 64, 32  # of held-out text, as in scripts/training.js
TOP = 9.0  # nats, of the still picture


@cache
def texts() -> dict[str, str]:
    """What is trained on and what is held out."""
    packed = (PACKAGE / "explore/shakespeare.txt.gz").read_bytes()
    train, held = gzip.decompress(packed).decode("ascii").split("\0")
    return {"train": train, "held": held}


def text_script() -> str:
    return f"attnText({json.dumps(texts(), separators=(',', ':'))});\n"


@cache
def baselines() -> dict[str, float]:
    """Held-out loss, in nats, of tables that count characters, and pairs of them, each plus 1."""
    train, held = texts()["train"], texts()["held"]
    V = len(set(train + held))
    one, two, first = Counter(train), Counter(pairwise(train)), Counter(train[:-1])
    apart = (len(held) - T - 1) // (WINDOWS - 1)
    windows = [held[n * apart : n * apart + T + 1] for n in range(WINDOWS)]
    read = [pair for window in windows for pair in pairwise(window)]
    single = [-math.log((one[b] + 1) / (len(train) + V)) for _, b in read]
    pair = [-math.log((two[a, b] + 1) / (first[a] + V)) for a, b in read]
    return {
        "V": V,
        "chance": math.log(V),
        "unigram": sum(single) / len(single),
        "bigram": sum(pair) / len(pair),
    }


@cache
def runs() -> dict[str, dict[str, list[float]]]:
    """Of each ruin the stored losses of the first seed, every 20 steps."""
    stored = json.loads((PACKAGE / "runs/train_here.json").read_text("utf-8"))["runs"]
    return {name: stored[f"{name}/0"] for name in TITLES}


def sentence() -> str:
    """What is said before anything is trained."""
    found = baselines()
    return (
        f"Untrained, it gives each of {found['V']} characters the same chance: ln {found['V']} = "
        f"{found['chance']:.2f} nats. A table of pairs has {found['bigram']:.2f}. Drag the diamond "
        "to your guess of the loss after 300 steps, then train."
    )


def still() -> str:
    """The free-running losses of one healthy and four ruined runs, as they were measured."""
    picture = Still(640, 262, "Free-running loss of one healthy and four ruined runs, by step")
    x, y = (lambda step: 36 + 1.4 * step), (lambda nats: 232 - 222 * min(nats, TOP) / TOP)
    for tick in (0, 2, 4, 6, 8):
        picture.text(28, y(tick) + 4, tick, "muted", "end", 12)
    for step in (0, 100, 200, 300):
        picture.text(x(step), 252, step, "muted", size=12)
    picture.line([(x(0), y(0)), (x(300), y(0))])
    for name in ("unigram", "bigram"):
        nats = baselines()[name]
        picture.line([(x(0), y(nats)), (x(300), y(nats))], "muted", 1, "3 3")
        picture.text(
            x(0) + 4, y(nats) + (14 if name == "bigram" else -4), name, "muted", "start", 12
        )
    last: list[float] = []
    for name in sorted(TITLES, key=lambda name: -runs()[name]["used"][-1]):
        losses = runs()[name]["used"]
        line = [(x(20 * n), y(loss)) for n, loss in enumerate(losses)]
        role = "output" if name == "none" else "gradient"
        picture.line(line, role, 2.6 if name == "none" else 1.6)
        height = y(losses[-1]) + 4
        height = max([height, *(there + 15 for there in last[-1:])])
        last.append(height)
        picture.text(x(300) + 8, height, TITLES[name], role, "start", 12, name == "none")
    return picture.svg()


def numbers(up: str) -> str:
    """What the script is told: where it starts, and where the text lies."""
    size = len(gzip.compress(text_script().encode(), 6)) / 1000
    told = {
        "question": QUESTION,
        "start": START,
        "text": f"{up}{TO}",
        "load": f"Train (loads {size:.0f} kB of text)",
        **{name: round(value, 4) for name, value in baselines().items()},
    }
    data = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return escape(data, quote=False).replace("'", "&#39;")


class train_here(nodes.General, nodes.Element):
    """The element `<attn-train-here>`."""


class TrainHere(SphinxDirective):
    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        node = train_here("", up="../" * self.env.docname.count("/"))
        self.state.nested_parse(self.content, self.content_offset, node)
        words = node.children[0]
        node.remove(words)
        figure = nodes.figure("", node, align="default")
        figure += nodes.caption(words.rawsource, "", *words.children)
        self.add_name(figure)
        return [figure]


@cache
def small() -> str:
    """The script as the site has it."""
    return script("train-here", "axis")


def page(up: str) -> tuple[str, str]:
    """What stands before and behind the words of the directive."""
    before = (
        f"<style>{style()}</style><attn-train-here class=attn data-numbers='{numbers(up)}'>"
        f"<p><b>{escape(QUESTION)}</b></p>{still()}<p>{escape(sentence())}</p>"
    )
    scripts = (f"{up}_static/find/{each}.js" for each in ("training", "train-here"))
    tags = "".join(f'<script defer src="{each}"></script>' for each in scripts)
    return before, f"</attn-train-here>{tags}"


def visit_html(translator: SphinxTranslator, node: train_here) -> None:
    translator.body.append(page(node["up"])[0])
    raise nodes.SkipChildren  # its words are for where there is neither script nor picture


def depart_html(translator: SphinxTranslator, node: train_here) -> None:
    translator.body.append(page(node["up"])[1])


def visit_other(translator: SphinxTranslator, node: train_here) -> None:
    """On paper it is its words."""


def store_scripts(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    for name, words in ((HERE, small()), (TO, text_script())):
        target = Path(app.outdir, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(words, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_node(train_here, html=(visit_html, depart_html), latex=(visit_other, visit_other))
    app.add_directive("train-here", TrainHere)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
