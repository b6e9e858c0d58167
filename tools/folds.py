"""What the one tag of a code cell means: how it is folded on the site, in JupyterLab, on Colab.

An author writes one tag, or none for a key step that every reader should see:

    set-up   imports, style, device                  folded: "Set-up"
    helper   a definition used later, preparation    folded: first line of its docstring or comment
    plot     a figure                                its code behind </> at the figure's corner
    run      training, and what takes long           folded: "Training: " and the first comment
    check    asserts alone                           one line: "✓ checked: " and the first comment
    listing  `show(…)`: the module's source          twelve lines, then all of them

`answer` (the cell answers the prediction before it), `photo` (not inverted in the dark) and those
of nbval may stand beside it. `remove-cell` and `remove-input` are Sphinx's. All else is derived
here, as part of the normal form: `hide-input`, the label, and, for cells whose source nobody needs
to see while reading in JupyterLab or on Colab, the signs by which these fold it.
"""

import ast
import re
from typing import Any

from nbformat import NotebookNode

KINDS = ("set-up", "helper", "plot", "run", "check", "listing")
BESIDE = ("answer", "photo", "remove-cell", "remove-input", "no-slide")
FOLDED = {"set-up", "helper", "plot", "run", "check"}
SOURCE_HIDDEN = {"set-up": "Set-up", "plot": "Plot", "remove-input": "Picture"}
SAID_BEFORE = {"run": "Training: ", "check": "✓ checked: "}
TITLE = re.compile(r"# @title [^\n]*\n?")


def kind(cell: NotebookNode) -> str | None:
    """The cell's tag of `KINDS`, or None for a key step. Two of them are refused."""
    found = [tag for tag in cell.metadata.get("tags", []) if tag in KINDS]
    if len(found) > 1:
        raise ValueError(
            f"cell {cell.get('id')} has the tags {' and '.join(found)}: one is allowed"
        )
    return found[0] if found else None


def label(cell: NotebookNode) -> str | None:
    """What stands on the closed fold, or None where the kind has no words of its own."""
    what = kind(cell)
    if what in ("set-up", "plot"):
        return SOURCE_HIDDEN[what]
    if what in ("helper", "run", "check"):
        said = (what == "helper" and first_docstring(cell.source)) or first_comment(cell.source)
        if not said:
            raise ValueError(
                f"cell {cell.get('id')} ({what}) says nowhere what it does: {WANTED[what]}"
            )
        return SAID_BEFORE[what] + said if what in SAID_BEFORE else said[0].upper() + said[1:]
    return None


WANTED = {
    "helper": "begin with a comment, or give its first definition a docstring",
    "run": "begin with a comment, such as # 600 steps, 3 seeds, 6 s",
    "check": "begin with a comment that says what was found, such as # two heads are enough",
}


def body(source: str) -> str:
    """The source without the line that Colab takes for a title."""
    return TITLE.sub("", source, count=1) if source.startswith("# @title ") else source


def first_comment(source: str) -> str | None:
    """The comment that the cell begins with; what follows on the next lines belongs to it."""
    said = []
    for line in body(source).split("\n"):
        if not line.startswith("#"):
            break
        said.append(line.lstrip("# ").rstrip())
    return " ".join(said).rstrip(".") or None


def first_docstring(source: str) -> str | None:
    """The first line of the docstring of the first definition in the cell."""
    try:
        tree = ast.parse(body(source))
    except SyntaxError:  # a magic
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            said = ast.get_docstring(node)
            return said.split("\n")[0].rstrip(".") if said else None
    return None


def derive(cell: NotebookNode) -> None:
    """Set, in place, all that follows from a code cell's tag, and take away what no longer does."""
    what, tags = kind(cell), cell.metadata.get("tags", [])
    others = [tag for tag in tags if tag not in ("hide-input", what)]
    tags = [*filter(None, [what]), *(["hide-input"] if what in FOLDED else []), *others]
    title = next((SOURCE_HIDDEN[tag] for tag in tags if tag in SOURCE_HIDDEN), None)
    put(cell.metadata, "tags", tags)
    put(cell.metadata, "cellView", "form" if title else None)
    for group, name, value in (
        ("jupyter", "source_hidden", bool(title)),
        ("mystnb", "code_prompt_show", label(cell)),
    ):
        inner = cell.metadata.pop(group, {})
        put(inner, name, value)
        put(cell.metadata, group, inner)
    cell.source = f"# @title {title}\n{body(cell.source)}" if title else body(cell.source)


def put(where: dict[str, Any], name: str, value: object) -> None:
    """Set a key, or remove it where there is nothing to say."""
    where.pop(name, None)
    if value:
        where[name] = value
