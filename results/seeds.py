"""The further seeds of a page that runs its first seed live: the page's own cells, every seed.

    python results/seeds.py book/02-deeper-exposure.ipynb      # about a minute on one core

Each `over_seeds(name, …)` of the page gives src/bookkit/runs/seeds/<name>.json: what was measured
with each seed, the first one too, and a digest of the cells that it depends on.
"""

import argparse
import ast
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from attnbook import device
from attnbook.provenance import provenance, write

ROOT = Path(__file__).parents[1]
STORE = ROOT / "src" / "bookkit" / "runs" / "seeds"
SHOWN = {"remove-cell", "set-up", "plot", "check"}  # tags of cells that measure nothing
LAST = "import json\n\nfrom bookkit.results import stored_run\n\nprint(json.dumps(stored_run.MADE))"


def measuring(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells up to the last one that calls `over_seeds`."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    calls = [place for place, cell in enumerate(cells) if "over_seeds(" in cell.source]
    return cells[: max(calls) + 1] if calls else []


def digest(notebook: NotebookNode) -> str:
    """Changes with the code of the cells that the measurement depends on, by the names it uses."""
    needed: set[str] = set()
    found = []
    for cell in reversed(measuring(notebook)):
        if SHOWN & set(cell.metadata.get("tags", [])):
            continue
        tree = ast.parse(cell.source)
        if "over_seeds(" in cell.source or needed & used(tree, ast.Store):
            needed |= used(tree, ast.Load)
            lines = (line.strip() for line in cell.source.splitlines())
            found += ["".join(line.split()) for line in lines if not line.startswith("#")]
    return hashlib.sha256("".join(found).encode()).hexdigest()[:16]


def used(tree: ast.AST, how: type[ast.expr_context]) -> set[str]:
    """The names that some code reads (`ast.Load`), or those that it gives a value (`ast.Store`)."""
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, how)}
    definitions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef))
    return found | ({n.name for n in definitions} if how is ast.Store else set())


def measured(path: Path) -> dict[str, list[dict[str, Any]]]:
    """What the page's `over_seeds` found, by name, with every seed measured."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    notebook.cells = [*measuring(notebook), nbformat.v4.new_code_cell(LAST)]
    where = {"metadata": {"path": str(path.parent)}}
    os.environ["ATTNBOOK_SEEDS"] = "all"
    NotebookClient(notebook, kernel_name="python3", timeout=None, resources=where).execute()
    return json.loads(
        notebook.cells[-1].outputs[0].text, parse_float=lambda n: float(f"{float(n):.5g}")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebook", type=Path)
    path = parser.parse_args().notebook.resolve()
    said: dict[str, Any] = {"page": str(path.relative_to(ROOT))}
    here = device.choose()
    said["digest"] = digest(nbformat.read(path, nbformat.NO_CONVERT))
    for name, runs in measured(path).items():
        write(STORE / f"{name}.json", said | {"runs": runs, "provenance": provenance(here)})
        print(name, len(runs), "seeds", flush=True)


if __name__ == "__main__":
    main()
