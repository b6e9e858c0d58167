"""What a chapter displays as text: the module's own source, and texts beside each other."""

import html
import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from IPython.display import display


def show(*things: object) -> None:
    """Display the source of functions, methods and classes as it stands in the module."""
    if not things:
        raise ValueError("nothing to show; pass a function or a class: show(attend)")
    text = "\n\n".join([fenced(thing) for thing in things])
    display({"text/markdown": text, "text/plain": text}, raw=True)


def fenced(thing: Any) -> str:
    """The source as Markdown: its full name, then a fence long enough for what is inside."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        kind = type(thing).__name__
        raise ValueError(
            f"functions, methods and classes can be shown, not an object of type {kind}"
        )
    thing = inspect.unwrap(thing)
    module = getattr(thing, "__module__", None)
    name = thing.__qualname__ if module in (None, "__main__") else f"{module}.{thing.__qualname__}"
    try:
        source = textwrap.dedent(inspect.getsource(thing)).rstrip()
    except (TypeError, OSError) as error:
        raise ValueError(f"{name} is not written in Python, so it has no source to show") from error
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", source))])
    return f"**`{name}`**\n\n{fence}python\n{source}\n{fence}"


class Beside:
    """Texts in columns, each under its heading; on a narrow page, one below the other."""

    def __init__(self, texts: Mapping[str, str]):
        if not texts:
            raise ValueError("nothing to show; pass headings with texts: beside({'before': '…'})")
        self.texts = dict(texts)

    def __repr__(self) -> str:
        return "\n\n".join(f"--- {name}\n{text}" for name, text in self.texts.items())

    def _repr_html_(self) -> str:
        columns = "".join(
            f'<figure style="margin:0"><figcaption>{html.escape(name)}</figcaption>'
            f'<pre style="{WRAPPED}">{html.escape(text)}</pre></figure>'
            for name, text in self.texts.items()
        )
        return f'<div style="{COLUMNS}">{columns}</div>'


COLUMNS = "display:grid;grid-template-columns:repeat(auto-fit,minmax(17em,1fr));gap:.8em"
WRAPPED = "white-space:pre-wrap;overflow-wrap:anywhere;margin:.2em 0 0;padding:.6em"


def beside(texts: Mapping[str, str]) -> Beside:
    """Texts beside each other, `{heading: text}`: what a model wrote early and late in training."""
    return Beside(texts)
