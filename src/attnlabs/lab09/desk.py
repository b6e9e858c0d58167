"""What a student has on the ward: trains a run, draws its dashboard, changes one setting."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from attnlabs.lab09.faults import drawn
from attnlabs.lab09.settings import STEPS, Settings, changed
from attnlabs.lab09.training import EVERY, READINGS, Found, examine

SEEDS = (0, 2, 4)  # of the healthy runs that stand behind each dashboard
LOGARITHMIC = ("gradient", "update", "stream")
TITLES = dict.fromkeys(READINGS, "") | {
    "loss": "training loss, nats",
    "held out": "held-out loss, nats",
    "in use": "loss in use, nats",
    "gradient": "gradient norm",
    "update": "update / weight",
    "stream": "stream, root mean square",
    "entropy": "attention entropy, share",
    "dead": "dead units, share",
}


class Ward:
    """The eight runs of the student whose `check` this is; the same for each who has none."""

    def __init__(self, check: object) -> None:
        words = getattr(check, "keywords", {})
        self._beds = drawn(str(words.get("student", "")))

    def readings(self, run: int, **change: int | float) -> Found:
        """Train run 1 to 8, with one setting changed if one is given; see `training.examine`."""
        if run not in range(1, len(self._beds) + 1):
            raise ValueError(f"there are runs 1 to {len(self._beds)}, not {run}")
        if len(change) > 1:
            raise ValueError(f"one setting is changed at a time, not {len(change)}")
        bed = self._beds[run - 1]
        settings = bed.settings
        for name, value in change.items():
            settings = changed(settings, name, float(value))
        return examine(settings, bed.seed)

    def show(self, run: int, **change: int | float) -> None:
        """Draw the dashboard of a run, its last readings in the titles, healthy runs in grey."""
        found = self.readings(run, **change)
        figure, axes = plt.subplots(2, 4, figsize=(11, 4.4), layout="constrained")
        for reading, axis in zip(READINGS, axes.flat, strict=True):
            draw(axis, reading, found)
        treated = "".join(f", {name} = {value:g}" for name, value in change.items())
        figure.suptitle(f"Run {run}{treated}; grey: three healthy runs")


def draw(axis: Axes, reading: str, found: Found) -> None:
    """One instrument: this run in colour, healthy ones in grey."""
    for seed in SEEDS:
        healthy = examine(Settings(), seed)[reading]
        axis.plot(range(0, STEPS, EVERY), healthy, color="0.75", linewidth=1)
    values = found[reading]
    axis.plot(range(0, EVERY * len(values), EVERY), values, color="C3", marker=".", markersize=4)
    last = f": {values[-1]:.3g}" if values else ""
    axis.set_title(f"{TITLES[reading]}{last}", fontsize=9)
    axis.tick_params(labelsize=8)
    if reading in LOGARITHMIC:
        axis.set_yscale("log")
