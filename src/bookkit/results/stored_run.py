"""Results of runs that are longer than a cell, for the chapters that show them.

A script of `results/` wrote each file here, with its settings, command and machine; the same
command makes it again.
"""

import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from attnbook.device import Here, choice

MADE: dict[str, list[dict[str, Any]]] = {}  # what `over_seeds` measured in this process, by name


@cache
def stored_run(name: str) -> dict[str, Any]:
    """What the run NAME found; ValueError with the names there are, if there is none of this name.

    `["provenance"]` says where the numbers come from.
    """
    folder = resources.files("bookkit") / "runs"
    if name.startswith("seeds/"):
        folder = folder / "seeds"
    names = sorted(path.name[:-5] for path in folder.iterdir() if path.name.endswith(".json"))
    if name.removeprefix("seeds/") not in names:
        raise ValueError(f"no stored run is called {name!r}; there are {', '.join(names)}")
    path = folder / f"{name.removeprefix('seeds/')}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def over_seeds(
    name: str, measure: Callable[[int], dict[str, Any]], here: Here | None = None, seeds: int = 5
) -> dict[str, list[Any]]:
    """What `measure(seed)` found, by name, a list over the seeds: 0 runs here, the rest is stored.

    `results/seeds.py` stored it: it runs the same cells with every seed. All run here, too, with
    the budget of a GPU, or where ATTNBOOK_SEEDS is "all": say so after a change of the page.
    """
    asked = choice("ATTNBOOK_SEEDS", ["first", "all"], default="first")
    every = asked == "all" or (here is not None and here.budget == "gpu")
    MADE[name] = [measure(seed) for seed in range(seeds if every else 1)]
    found = [*MADE[name], *([] if every else stored_run(f"seeds/{name}")["runs"][1:seeds])]
    if any(run.keys() != found[0].keys() for run in found):
        raise ValueError(
            f"the stored seeds of {name!r} are of another measurement: set ATTNBOOK_SEEDS=all, or "
            "store them anew with results/seeds.py"
        )
    return {key: [run[key] for run in found] for key in found[0]}
