"""Run notebooks from top to bottom and store their outputs in normal form: `make notebooks`.

A notebook is written only after all of its cells have succeeded.
"""

import sys
import time
from pathlib import Path

import measured_tables
import normal_form
from nbclient import NotebookClient


def execute(path: Path) -> None:
    """Run one notebook where it stands and replace it by what came out."""
    notebook = normal_form.read(path)
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook,
        kernel_name="python3",  # of this environment, whatever the notebook says
        timeout=600,
        record_timing=False,
        resources=where,
        extra_arguments=["--log-level=ERROR"],
    )
    client.execute()
    normal_form.store(normal_form.text(normal_form.normal(notebook)), path)


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        print(f"{path}: ", end="", flush=True)
        start = time.perf_counter()
        execute(path)
        if path.resolve().parent.name == "book":  # a lab may have a chapter's name, and no tables
            measured_tables.store(path)
        print(f"stored, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
