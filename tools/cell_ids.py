"""Readable ids for new cells: JupyterLab and jupytext give them random ones.

A cell's id is made of its own words once, when it is first stored, and stays from then on.
"""

import re
from collections.abc import Iterable

import folds
from nbformat import NotebookNode

RANDOM = re.compile(r"\d+|[0-9a-f]{8}((-[0-9a-f]{4}){3}-[0-9a-f]{12})?")
LABEL = re.compile(r"^(?:\((\S+)\)=|:label: (\S+))$", re.MULTILINE)
WORD = re.compile("[a-z][a-z0-9]*")
FIXED = {"remove-cell": "setup-colab", "set-up": "set-up"}
SYNTAX = re.compile(r"<!--.*?-->|^:[^\n]*$", re.MULTILINE | re.DOTALL)


def name(cells: Iterable[NotebookNode]) -> None:
    """Give each cell whose id is random its label, or its first three words, as an id."""
    cells = list(cells)
    taken = {cell.id for cell in cells}
    for cell in cells:
        if RANDOM.fullmatch(cell.id):
            wanted = words(cell)
            free = (f"{wanted}-{n}" if n > 1 else wanted for n in range(1, len(cells) + 2))
            cell.id = next(one for one in free if one not in taken)
            taken.add(cell.id)


def words(cell: NotebookNode) -> str:
    """What the cell might be called."""
    for tag in FIXED.keys() & cell.metadata.get("tags", []):
        return FIXED[tag]
    label = LABEL.search(cell.source) if cell.cell_type == "markdown" else None
    if label:
        return label[1] or label[2]
    said = folds.body(cell.source)
    if cell.cell_type == "markdown":
        said = SYNTAX.sub("", said)
    found = WORD.findall(said.lower()) or WORD.findall(cell.source.lower())
    return "-".join(found[:3]) or "cell"
