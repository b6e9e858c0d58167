"""Execute notebooks from top to bottom and store how much processor time each one takes.

    python results/notebooks.py                                     # all, with the small budget
    ATTNBOOK_BUDGET=gpu python results/notebooks.py book/07-language-models.ipynb

The outputs are thrown away. The time is that of the kernel and all of its threads, from its start
to its end. Measure on an idle machine: neighbours that share its caches make each step slower. The
result goes to results/notebooks/.
"""

import argparse
import resource
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from attnbook import device
from attnbook.provenance import provenance, write

ROOT = Path(__file__).resolve().parents[1]


def spent() -> float:
    """Processor time of all processes that were started here and have ended, in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def measure(path: Path) -> dict:
    """Execute a notebook where it stands; what is returned is what is stored."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    where = {"metadata": {"path": str(path.parent)}}
    before = spent()
    NotebookClient(notebook, kernel_name="python3", timeout=None, resources=where).execute()
    here = device.choose()
    return {
        "notebook": path.stem,
        "budget": here.budget,
        "cpu_seconds": round(spent() - before, 1),
        "provenance": provenance(here),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    chapters = sorted(ROOT.glob("book/[0-9]*.ipynb"))
    parser.add_argument("notebooks", nargs="*", type=Path, default=chapters)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "notebooks")
    options = parser.parse_args()
    for path in options.notebooks:
        result = measure(path)
        write(options.out / f"{path.stem}.{result['budget']}.json", result)
        print(f"{path.stem}: {result['cpu_seconds']} s")


if __name__ == "__main__":
    main()
