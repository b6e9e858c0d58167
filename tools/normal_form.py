"""Write notebooks in their one normal form, so that a diff shows only what somebody changed.

    python tools/normal_form.py [--check] NOTEBOOK...

Outputs and execution counts stay: the website is built from them. What goes is what
differs from machine to machine (language version, times, widget state, where a stream of
text was cut), and the live view of a widget: of a panel the still picture remains. What follows
from a cell's tag, its fold and its label, is written here (`folds.py`) and never by hand. A random
id becomes a readable one (`cell_ids.py`). A notebook without ids is refused.
"""

import argparse
import copy
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import cell_ids
import folds
import nbformat
from nbformat import NotebookNode
from nbstripout import strip_output

from attnbook import files

VOLATILE = [
    "metadata.language_info",
    "metadata.widgets",
    "cell.metadata.execution",
    "cell.metadata.ExecuteTime",
    "cell.metadata.collapsed",
    "cell.metadata.scrolled",
]
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def read(path: Path) -> NotebookNode:
    """The notebook as it is stored. Its ids are checked before nbformat could make some up."""
    stored = Path(path).read_text(encoding="utf-8")
    raw = json.loads(stored)
    form = raw["nbformat"], raw["nbformat_minor"]
    if form < (4, 5):
        raise ValueError(f"{path}: notebook format {form[0]}.{form[1]} has no cell ids, 4.5 has")
    for number, cell in enumerate(raw["cells"], start=1):
        if not cell.get("id"):
            raise ValueError(f"{path}: cell {number} has no id; give it a readable one")
    return nbformat.reads(stored, as_version=nbformat.NO_CONVERT)


def normal(notebook: NotebookNode) -> NotebookNode:
    """A copy of the notebook in normal form."""
    keep = {"keep_output": True, "keep_count": True, "keep_id": True}
    notebook = strip_output(copy.deepcopy(notebook), extra_keys=VOLATILE, **keep)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    cell_ids.name(notebook.cells)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
            folds.derive(cell)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)
            output.pop("transient", None)
    nbformat.validate(notebook)
    return notebook


def joined(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Neighbouring pieces of one stream as one: how a stream was cut is a matter of timing."""
    whole: list[NotebookNode] = []
    for output in outputs:
        stream = output.output_type == "stream"
        if stream and whole and whole[-1].get("name") == output.name:
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


def text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"


def store(wanted: str, path: Path) -> None:
    """Replace the file at once: who stops it finds the old notebook or the new one, whole."""
    files.store(path, wanted)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write notebooks in normal form.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if one differs")
    parser.add_argument("notebooks", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    different = 0
    for path in options.notebooks:
        wanted = text(normal(read(path)))
        if wanted == path.read_text(encoding="utf-8"):
            continue
        different += 1
        if options.check:
            print(f"{path}: not in normal form; run: python tools/normal_form.py {path}")
        else:
            store(wanted, path)
            print(f"{path}: written in normal form")
    return 1 if options.check and different else 0


if __name__ == "__main__":
    sys.exit(main())
