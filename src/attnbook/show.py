"""The module's own source, displayed in a chapter: what the reader sees is what runs."""
import inspect
import re
import textwrap

from IPython.display import display


def show(*things):
    """Display the source of functions, methods and classes, as it stands in the module, with its docstrings."""
    if not things:
        raise ValueError("nothing to show; pass a function or a class: show(attend)")
    text = "\n\n".join([_fenced(thing) for thing in things])
    display({"text/markdown": text, "text/plain": text}, raw=True)


def _fenced(thing):
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        raise ValueError(f"show takes functions, methods and classes, not an object of type {type(thing).__name__}")
    thing = inspect.unwrap(thing)
    name = thing.__qualname__ if thing.__module__ in (None, "__main__") else f"{thing.__module__}.{thing.__qualname__}"
    try:
        source = textwrap.dedent(inspect.getsource(thing)).rstrip()
    except (TypeError, OSError) as error:
        raise ValueError(f"{name} has no Python source (it is compiled); functions, methods and classes written in Python can be shown") from error
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", source)), default=0))
    return f"**`{name}`**\n\n{fence}python\n{source}\n{fence}"
