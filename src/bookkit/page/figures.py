"""The look of every figure: one style, a colour for each role, maps of weights, and curves."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from IPython import get_ipython
from IPython.core.pylabtools import print_figure
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from PIL import Image, ImageChops, ImageStat

from bookkit.drawings.palette import LIGHT
from bookkit.drawings.pen import printed
from bookkit.page import plots

FINER = 2  # dots for each pixel of the page
SEEN = 1.0  # a mean difference, of 255, that an eye would notice
AS_TEXT: WeakSet[Figure] = WeakSet()


def install() -> None:
    """Let the notebook that runs us show every figure so; elsewhere nothing happens."""
    shell = get_ipython()
    if shell is None or not hasattr(shell, "display_formatter"):
        return

    def register(*_: object) -> None:
        shell.display_formatter.formatters["text/html"].for_type(Figure, html)
        shell.display_formatter.formatters["image/png"].for_type(Figure, dots)
        if register in shell.events.callbacks["post_run_cell"]:
            shell.events.unregister("post_run_cell", register)

    # A notebook's backend sets its own way when it is loaded, at once or after the cell: so load it
    # now, and set ours now and then.
    plt.switch_backend(matplotlib.get_backend())
    register()
    shell.events.register("post_run_cell", register)


def html(figure: Figure) -> str | None:
    """The figure as SVG for page and phone; None for what is better shown as dots."""
    shown = plots.html(figure)
    (AS_TEXT.discard if shown is None else AS_TEXT.add)(figure)
    return shown


def dots(figure: Figure) -> tuple[str, dict[str, int]] | None:
    """The figure as dots, unless it has just been shown as SVG."""
    if figure in AS_TEXT:
        AS_TEXT.discard(figure)
        return None
    return png(figure)


def png(figure: Figure) -> tuple[str, dict[str, int]]:
    """The figure as PNG in base64, and its size on the page in pixels."""
    dots = FINER * figure.dpi
    data = few_colours(print_figure(figure, "png", base64=False, dpi=dots), dots)
    width, height = Image.open(io.BytesIO(data)).size
    size = {"width": round(width / FINER), "height": round(height / FINER)}
    return base64.b64encode(data).decode("ascii"), size


def few_colours(data: bytes, dots: float) -> bytes:
    """The picture with a palette, a third of the bytes; as it is where that would be seen."""
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    small = whole.quantize(colors=256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    difference = ImageStat.Stat(ImageChops.difference(whole, small.convert("RGB"))).mean
    if max(difference) > SEEN:
        return data
    out = io.BytesIO()
    small.save(out, "PNG", optimize=True, dpi=(dots, dots))
    return out.getvalue()


# The drawings’ palette: within a group told apart with any kind of colour vision; contrast at
# least 3:1 on white.
PARTS = {role: LIGHT[role] for role in ("query", "key", "value", "output")}
FAMILIES = {
    "lstm": LIGHT["query"],
    "rnn": LIGHT["key"],
    "gru": LIGHT["value"],
    "attention": LIGHT["output"],
    "fixed": "#E0509B",
    "baseline": "#222222",
}
WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#FFFFFF", "#C88BB0", LIGHT["weight"]])
SIGNED = LinearSegmentedColormap.from_list(
    "signed", [LIGHT["output"], "#FFFFFF", LIGHT["gradient"]]
)
COLOURS = PARTS | FAMILIES
Numbers: TypeAlias = Any  # an array, a tensor, lists of either; `array` refuses the rest
Line: TypeAlias = tuple[np.ndarray, np.ndarray]  # x and y
# The labels at the ends of lines: (annotation, x, y, gap).
NAMES: WeakKeyDictionary[Axes, list[tuple[Any, float, float, int]]] = WeakKeyDictionary()


# As seaborn's theme "whitegrid" has it, but for its map of colours: importing it takes a second.
TICKS = {"major.size": 6, "major.width": 1.25, "minor.size": 4, "minor.width": 1, "color": ".15"}
WHITEGRID: dict[str, Any] = {
    **dict.fromkeys(["axes.axisbelow", "axes.grid", "patch.force_edgecolor"], True),
    **dict.fromkeys(["axes.labelcolor", "text.color"], ".15"),
    **dict.fromkeys(["xtick.bottom", "ytick.left"], False),
    **{f"{axis}tick.{part}": value for axis in "xy" for part, value in TICKS.items()},
    **{"legend.title_fontsize": 12, "lines.solid_capstyle": "round", "patch.edgecolor": "w"},
}


def style() -> None:
    """Set how figures look, once, in the set-up cell of a chapter."""
    rc = {
        "figure.figsize": (5.2, 3.2),  # at a phone's width its letters are still read
        "figure.dpi": 128,
        "figure.facecolor": "white",  # opaque: the page behind it may be dark
        "savefig.facecolor": "white",
        "savefig.transparent": False,
        "figure.constrained_layout.use": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#666666",
        "axes.linewidth": 1,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.8,
        "lines.linewidth": 2,
        "legend.frameon": False,
    }
    sizes = {f"{part}.labelsize": 10 for part in ("axes", "xtick", "ytick")}
    sizes |= {"font.size": 10, "axes.titlesize": 11, "legend.fontsize": 10}
    rc |= {"font.family": ["DejaVu Sans"], "axes.prop_cycle": cycler(color=FAMILIES.values())}
    look: Any = WHITEGRID | rc | sizes
    plt.rcParams.update(look)
    install()


def heatmap(
    weights: Numbers,
    rows: Sequence[object],
    columns: Sequence[object],
    ax: Axes | None = None,
    signed: bool = False,
    label: str | None = None,
    annotate: bool = False,
    bar: bool = True,
) -> Axes:
    """Draw a matrix as colours, with a token for each row and column.

    Weights share one scale from 0 to 1; `signed` numbers spread around 0. `rows` and `columns`
    are lists of tokens, or a string of characters; `label` says what the colours mean; with
    `annotate` the numbers are written into the cells. A bar of colours stands beside a map that
    says its numbers in no other way, unless `bar` says that another has it.
    """
    from seaborn import heatmap

    weights = matrix(weights, signed)
    if weights.shape != (len(rows), len(columns)):
        size = " × ".join(map(str, weights.shape))
        raise ValueError(f"weights are {size}, tokens {len(rows)} rows × {len(columns)} columns")
    ax, points = room(ax, *weights.shape)
    look: dict[str, Any] = {"square": True, "linewidths": 0.5 if points > 8 else 0}
    if annotate:  # .48: as numbers stand in the cells of drawings, eleven pixels on a phone
        words = [[printed(x) for x in row] for row in weights.tolist()]
        look |= {"annot": words, "fmt": "", "annot_kws": {"fontsize": 9}}
    look |= {"cbar_kws": {"label": label or "", "shrink": 0.8, "pad": 0.03}}
    longest = max(len(str(token)) for token in columns)
    long = longest > 2
    least = 11 if long else 11 + 6 * (longest - 1)
    look |= {"xticklabels": ticks(columns, points, least), "yticklabels": ticks(rows, points)}
    plain = annotate or bool(((weights < 0.05) | (weights > 0.95)).all() and not signed)
    look |= {"cbar": bar and (label is not None or not plain)}
    look |= {"linecolor": "white" if annotate or not plain else "#dddddd"}  # empty cells are cells
    heatmap(weights, ax=ax, **look, **scale(weights, signed))
    ax.tick_params(axis="x", rotation=90 if long else 0, length=0)
    ax.tick_params(axis="y", rotation=0, length=0)
    return ax


def room(ax: Axes | None, rows: int, columns: int) -> tuple[Axes, float]:
    """Where to draw, a new figure unless `ax` is one, and how many points a cell is wide."""
    if ax is None:
        cell = min(0.42, 5 / max(rows, columns))
        ax = plt.subplots(figsize=(cell * columns + 1.6, cell * rows + 1))[1]
    box = ax.get_window_extent()
    return ax, min(box.width / columns, box.height / rows) * 72 / ax.figure.dpi


def scale(weights: np.ndarray, signed: bool) -> dict[str, Any]:
    """Which colours stand for which numbers."""
    if not signed:
        return {"cmap": WEIGHTS, "vmin": 0, "vmax": 1}
    reach = float(abs(weights).max()) or 1.0
    return {"cmap": SIGNED, "vmin": -reach, "vmax": reach}


def shades(count: int, role: str = "output") -> list[str]:
    """So many steps of one colour, for lines in an order; each can be read on white."""
    dark = LinearSegmentedColormap.from_list(role, ["#7A6FD6", LIGHT[role], "#0C0836"])
    return [to_hex(dark(part)) for part in np.linspace(0, 1, count)]


def matrix(weights: Numbers, signed: bool) -> np.ndarray:
    """The weights as an array, if they are a matrix of numbers that the scale can show."""
    weights = array("weights", weights)
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(f"weights have shape {weights.shape}; rows × columns, 1 × 1 at least")
    wrong = weights.size - np.isfinite(weights).sum()
    if wrong:
        raise ValueError(f"{wrong} of {weights.size} weights are not finite")
    low, high = weights.min(), weights.max()
    if not signed and (low < -1e-4 or high > 1 + 1e-4):
        raise ValueError(f"weights reach from {low:.3g} to {high:.3g}, not 0 to 1: signed=True?")
    return weights


def array(name: str, values: Numbers) -> np.ndarray:
    """Numbers as an array; also tensors, wherever they are, alone or in lists."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().float().numpy()
    if isinstance(values, (list, tuple)):
        values = [array(name, part) for part in values]
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: numbers in rows of one length are needed ({error})") from error


def ticks(tokens: Iterable[object], points: float, least: int = 11) -> list[str]:
    """Tokens as labels, `least` points apart: some are left blank where they would touch."""
    gap = int(np.ceil(least / max(points, 0.1)))
    visible = [outer_spaces(str(token)).translate({10: "⏎", 36: r"\$"}) for token in tokens]
    return [token if place % gap == 0 else "" for place, token in enumerate(visible)]


def outer_spaces(token: str) -> str:
    """A token whose spaces at its ends are seen; those between words are not signs."""
    inner = token.strip(" ")
    at = token.index(inner) if inner else len(token)
    return "␣" * at + inner + "␣" * (len(token) - at - len(inner))


def curves(
    lines: Mapping[Any, Numbers],
    ax: Axes | None = None,
    xlabel: str = "",
    ylabel: str = "",
    log: bool = False,
    chance: int | float | None = None,
    smooth: int = 1,
) -> Axes:
    """Draw lines, each named at its end; of several seeds the mean, and each pale behind it.

    `lines` maps a label to a list of numbers, to a pair (x, y), or to a list of either, one for
    each seed. `log`: a logarithmic vertical axis; `chance`: a level to beat; `smooth`: average
    over so many neighbouring points.
    """
    all_runs = {label: seeds(label, line) for label, line in lines.items()}
    if not all_runs:
        raise ValueError("there is no line to draw")
    ax, ends = ax or plt.subplots()[1], []
    for (label, runs), colour in zip(all_runs.items(), colours(all_runs), strict=True):
        x, y = mean(label, runs, smooth)
        pale = [mean(label, [run], smooth) for run in runs] if len(runs) > 1 else runs
        for run in pale if len(runs) > 1 or smooth > 1 else []:
            ax.plot(*run, color=colour, alpha=0.35, linewidth=0.8)
        ax.plot(x, y, color=colour, marker="o" if len(x) <= 12 else None, markersize=4)
        ends.append((label, colour, x[-1], y[-1]))
    if chance is not None:
        ax.axhline(chance, color="#666666", linestyle="--", linewidth=1.2)
        ends.append(("chance", "#666666", max(end[2] for end in ends), chance))
    ax.set(xlabel=xlabel, ylabel=ylabel, yscale="log" if log else ax.get_yscale())
    ax.margins(x=0.02)
    name_ends(ax, ends)
    return ax


def colours(labels: Iterable[object]) -> list[str]:
    """To each family its own colour; to the others, in turn, those that no family needs."""
    own = [COLOURS.get(str(label).lower()) for label in labels]
    spare = iter([colour for colour in FAMILIES.values() if colour not in own])
    return [colour or next(spare, "#222222") for colour in own]


def seeds(label: object, line: Numbers) -> list[Line]:
    """A line as a list of (x, y), one for each seed."""

    def is_list(part: Numbers) -> bool:
        sequence = isinstance(part, Sequence) and not isinstance(part, str)
        return getattr(part, "ndim", 0) > 0 or sequence

    name = f"the line {label!r}"
    if not is_list(line):
        raise ValueError(f"{name} is {line!r}; a list of numbers is needed")
    if len(line) == 0:
        raise ValueError(f"{name} has no points")
    pair = isinstance(line, tuple) and len(line) == 2 and is_list(line[0])
    if pair and len(line[0]) and not is_list(line[0][0]):
        x, y = array(name, line[0]), np.atleast_1d(array(name, line[1]))
        if y.ndim > 2 or y.size == 0 or len(x) != y.shape[-1]:
            raise ValueError(f"{name}: {len(x)} points on x, {' × '.join(map(str, y.shape))} on y")
        return [(x, run) for run in np.atleast_2d(y)]
    if is_list(line[0]):
        return [run for part in line for run in seeds(label, part)]
    return [(np.arange(1, len(line) + 1), array(name, line))]


def mean(label: object, runs: Sequence[Line], smooth: int) -> Line:
    """The mean over seeds, as far as the shortest goes, and over `smooth` neighbours."""
    shortest = min(len(x) for x, _ in runs)
    x = runs[0][0][:shortest]
    if any(not np.array_equal(x, other[:shortest]) for other, _ in runs):
        raise ValueError(f"the seeds of {label!r} were not measured at the same places on x")
    y = np.mean([y[:shortest] for _, y in runs], axis=0)
    smooth = max(1, min(int(smooth), shortest))
    return x[smooth - 1 :], np.convolve(y, np.ones(smooth) / smooth, mode="valid")


def name_ends(ax: Axes, ends: Sequence[tuple[Any, ...]], gap: int = 12) -> None:
    """Write each label at the end of its line; labels keep `gap` points from each other."""
    for label, colour, x, y in ends:
        leader: dict[str, Any] = {
            "arrowstyle": "-",
            "color": colour,
            "linewidth": 0.7,
            "shrinkA": 1,
            "shrinkB": 2,
        }
        leader["relpos"] = (0, 0.5)
        at: dict[str, Any] = {"xytext": (7, 0), "textcoords": "offset points", "arrowprops": leader}
        name = ax.annotate(label, (x, y), va="center", color=colour, annotation_clip=False, **at)
        NAMES.setdefault(ax, []).append((name, x, y, gap))
    place_names(ax)


def place_names(ax: Axes) -> None:
    """Move the labels at the ends of lines apart, as the size of the panel now wants it.

    What had to be moved gets a thin line to its end.
    """
    if ax not in NAMES:
        return
    ax.autoscale_view()
    names, gap = NAMES[ax], NAMES[ax][0][3]
    points, floor = 72 / ax.figure.dpi, ax.get_ylim()[0]
    least = 0 if ax.get_yscale() == "log" else -np.inf
    # What has no place on the axis, such as 0 on a logarithmic one, is named at its foot.
    places = [(x, y if least < y < np.inf else floor) for _, x, y, _ in names]
    heights = ax.transData.transform(places)[:, 1] * points
    order, placed = np.argsort(heights, kind="stable"), heights.copy()
    for lower, upper in pairwise(order):
        placed[upper] = max(placed[upper], placed[lower] + gap)
    ceiling = ax.get_window_extent().y1 * points
    for place in order[::-1]:
        placed[place] = min(placed[place], ceiling)
        ceiling = placed[place] - gap
    for (name, *_), place, shift in zip(names, places, placed - heights, strict=True):
        moved = abs(shift) > gap / 4
        name.xy = place
        name.xyann = (16 if moved else 7, shift)
        name.arrow_patch.set_visible(moved)
