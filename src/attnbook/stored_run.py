"""Results of runs that are longer than a cell, for the chapters that show them.

A script of `results/` wrote each file here, with its settings, command and machine; the same
command makes it again.
"""

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def stored_run(name: str) -> dict[str, Any]:
    """What the run NAME found; ValueError with the names there are, if there is none of this name.

    `["provenance"]` says where the numbers come from.
    """
    folder = resources.files("attnbook") / "runs"
    names = sorted(path.name[:-5] for path in folder.iterdir() if path.name.endswith(".json"))
    if name not in names:
        raise ValueError(f"no stored run is called {name!r}; there are {', '.join(names)}")
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
