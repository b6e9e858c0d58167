"""The look of every figure: one style, a colour for each role, maps of attention, and curves."""
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

# Told apart by colour-blind readers within a group, and 3:1 against white.
COLOURS = {
    "query": "#0072B2", "key": "#D55E00", "value": "#009E73", "output": "#332288",
    "rnn": "#D55E00", "lstm": "#0072B2", "gru": "#009E73", "fixed": "#D55E00", "attention": "#0072B2", "baseline": "#767676",
}
CYCLE = ["#0072B2", "#D55E00", "#009E73", "#332288", "#767676"]


def style():
    """Set how figures look, once, in the set-up cell of a chapter."""
    sns.set_theme(style="whitegrid", font="DejaVu Sans", palette=CYCLE, rc={
        "figure.figsize": (5.6, 3.4), "figure.dpi": 144, "figure.facecolor": "white", "savefig.facecolor": "white",
        "savefig.transparent": False, "figure.constrained_layout.use": True, "font.size": 11, "axes.labelsize": 11,
        "axes.titlesize": 12, "xtick.labelsize": 10, "ytick.labelsize": 10, "legend.fontsize": 10, "lines.linewidth": 2,
        "axes.spines.top": False, "axes.spines.right": False, "grid.color": "#dddddd", "axes.edgecolor": "#666666",
        "svg.hashsalt": "attnbook", "legend.frameon": False,
    })


def heatmap(weights, rows, columns, ax=None, signed=False, label=None, annotate=False):
    """Draw a matrix as colours, a token on each tick. Weights lie on one scale from 0 to 1; `signed` numbers spread around 0.

    `weights` is "rows columns"; `rows` and `columns` are lists of tokens or a string of characters; `label` names the colours.
    """
    weights, rows, columns = _matrix(weights, signed), list(rows), list(columns)
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(f"weights are {weights.shape[0]} × {weights.shape[1]}, but there are {len(rows)} rows and {len(columns)} columns of tokens")
    if ax is None:
        cell = min(0.42, 5 / max(weights.shape[1], weights.shape[0]))
        ax = plt.subplots(figsize=(cell * len(columns) + 1.6, cell * len(rows) + 1.0))[1]
    reach = float(abs(weights).max()) or 1.0
    scale = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach} if signed else {"cmap": "mako_r", "vmin": 0, "vmax": 1}
    sns.heatmap(weights, ax=ax, square=True, annot=annotate, fmt=".2f", annot_kws={"fontsize": 8}, linewidths=0.5 if weights.size < 500 else 0,
                cbar_kws={"label": label or "", "shrink": 0.8, "pad": 0.03}, xticklabels=_thin(columns), yticklabels=_thin(rows), **scale)
    longest = max(len(str(token)) for token in columns)
    ax.tick_params(axis="x", rotation=90 if longest > 2 else 0, length=0)
    ax.tick_params(axis="y", rotation=0, length=0)
    return ax


def _matrix(weights, signed):
    weights = weights.detach().float().cpu().numpy() if hasattr(weights, "detach") else np.asarray(weights, dtype=float)
    if weights.ndim != 2:
        raise ValueError(f"weights have {weights.ndim} axes {weights.shape}; a matrix, rows × columns, is needed")
    if not np.isfinite(weights).all():
        raise ValueError(f"{(~np.isfinite(weights)).sum()} of the {weights.size} weights are not finite numbers")
    if not signed and (weights.min() < -1e-5 or weights.max() > 1 + 1e-5):
        raise ValueError(f"weights from {weights.min():.3g} to {weights.max():.3g} do not lie between 0 and 1; pass signed=True")
    return weights


def _thin(tokens, most=40):
    """Every token as a label, or every second, third ... with the others blank, so that at most `most` are written."""
    gap = -(-len(tokens) // most)
    return [token if place % gap == 0 else "" for place, token in enumerate(tokens)]


def curves(lines, ax=None, xlabel="", ylabel="", log=False, chance=None, smooth=1):
    """Draw one line a label, each named at its end. Several seeds: the mean as a line, each seed pale behind it.

    A value of `lines` is a list of numbers, a pair (x, y), or a list of either, one a seed. `chance` is a level to beat;
    `log` makes the vertical axis logarithmic; `smooth` averages over so many neighbouring points.
    """
    seeds = {label: _seeds(label, line) for label, line in lines.items()}
    if not seeds:
        raise ValueError("there is no line to draw")
    ax = ax or plt.subplots()[1]
    spare = iter(CYCLE * (1 + len(seeds) // len(CYCLE)))
    ends = []
    for label, runs in seeds.items():
        colour = COLOURS.get(label.lower()) or next(spare)
        x, y = _mean(label, runs, smooth)
        for run in runs if len(runs) > 1 or smooth > 1 else []:
            ax.plot(*run, color=colour, alpha=0.25, linewidth=1)
        ax.plot(x, y, color=colour, marker="o" if len(x) <= 12 else None, markersize=4, label=label)
        ends.append((label, colour, x[-1], y[-1]))
    if log:
        ax.set_yscale("log")
    if chance is not None:
        ax.axhline(chance, color=COLOURS["baseline"], linestyle="--", linewidth=1.2)
        ax.annotate("chance", (0.01, chance), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points", color=COLOURS["baseline"], fontsize=9)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    _name_ends(ax, ends)
    return ax


def _numbers(values):
    values = values.detach().float().cpu().numpy() if hasattr(values, "detach") else values
    return np.asarray([float(value) for value in values])


def _seeds(label, line):
    """The line as a list of (x, y), one a seed."""
    flat = lambda part: not hasattr(part[0], "__len__") if not hasattr(part, "ndim") else part.ndim == 1  # noqa: E731
    if len(line) == 0:
        raise ValueError(f"the line {label!r} has no points")
    if isinstance(line, tuple) and len(line) == 2 and flat(line[0]):
        x, y = line
        runs = [(_numbers(x), _numbers(run)) for run in ([y] if flat(y) else y)]
    elif flat(line):
        runs = [(np.arange(1, len(line) + 1), _numbers(line))]
    else:
        runs = [run for part in line for run in _seeds(label, part)]
    for x, y in runs:
        if len(x) != len(y):
            raise ValueError(f"the line {label!r} has {len(x)} places on x and {len(y)} values")
    return runs


def _mean(label, runs, smooth):
    """Mean over seeds, as far as the shortest goes, and over `smooth` neighbours."""
    shortest = min(len(x) for x, _ in runs)
    x = runs[0][0][:shortest]
    if any(not np.array_equal(x, other[:shortest]) for other, _ in runs):
        raise ValueError(f"the seeds of {label!r} were not measured at the same places on x")
    y = np.mean([y[:shortest] for _, y in runs], axis=0)
    smooth = max(1, min(smooth, shortest))
    return x[smooth - 1:], np.convolve(y, np.ones(smooth) / smooth, mode="valid")


def _name_ends(ax, ends, gap=13):
    """Write each label at the end of its line, pushed apart by at least `gap` points."""
    points = 72 / ax.figure.dpi
    heights = [ax.transData.transform((x, y))[1] * points for _, _, x, y in ends]
    placed = -np.inf
    for place in np.argsort(heights):
        label, colour, x, y = ends[place]
        placed = max(heights[place], placed + gap)
        ax.annotate(label, (x, y), xytext=(6, placed - heights[place]), textcoords="offset points", va="center", color=colour, annotation_clip=False)
