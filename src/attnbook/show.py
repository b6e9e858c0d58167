"""The module's own source, displayed in a chapter: what the reader sees is what runs."""

import inspect
import re
import textwrap
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
