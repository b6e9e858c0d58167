"""Figures say what they were given, to every reader, and refuse what does not fit."""

import subprocess
import sys
from collections import deque
from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
import seaborn
import torch
from matplotlib.colors import to_hex, to_rgb
from matplotlib.font_manager import findfont
from matplotlib.text import Text

from bookkit.page import figures

# How linear RGB looks to a reader without red or green cones: Machado, Oliveira and Fernandes
# 2009, "A physiologically-based model for simulation of color vision deficiency", severity 1.
VISION = {
    "all cones": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


@pytest.fixture(autouse=True)
def fresh():
    plt.switch_backend("agg")
    figures.style()
    yield
    plt.close("all")


def test_the_style_is_seaborn_s_whitegrid_without_importing_it():
    """But for what the book chooses itself, and the map of colours, which only seaborn has."""
    ours = dict(plt.rcParams)
    with plt.rc_context():
        plt.rcdefaults()
        seaborn.set_theme("notebook", "whitegrid", list(figures.FAMILIES.values()), "DejaVu Sans")
        theirs = dict(plt.rcParams)
    with plt.rc_context():
        plt.rcdefaults()
        plain = dict(plt.rcParams)
    cycle = "axes.prop_cycle"
    colours, wanted = (
        list(map(to_hex, look.pop(cycle).by_key()["color"])) for look in (ours, theirs)
    )
    assert colours == wanted
    own = {"axes.edgecolor", "axes.linewidth", "axes.labelsize", "axes.titlesize", "font.size"}
    own |= {"axes.spines.top", "axes.spines.right", "grid.color", "grid.linewidth", "image.cmap"}
    own |= {"figure.figsize", "legend.fontsize", "lines.linewidth", "font.sans-serif"}
    own |= {"xtick.labelsize", "ytick.labelsize"}
    changed = {name for name in theirs if theirs[name] != plain[name]} - own
    assert changed >= {"axes.grid", "xtick.major.width", "text.color"}
    assert {name: ours[name] for name in changed} == {name: theirs[name] for name in changed}


def test_only_a_map_of_weights_imports_seaborn():
    code = "import sys; from bookkit.page.figures import style; style()"
    code += "; sys.exit('seaborn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def linear(colour):
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / TO_XYZ.sum(1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast_with_white(colour):
    return 1.05 / (TO_XYZ[1] @ linear(colour) + 0.05)


# -- colours and style --------------------------------------------------------------------------


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("group", [figures.PARTS, figures.FAMILIES], ids=["parts", "families"])
def test_colours_of_a_group_are_told_apart(vision, group):
    """CIELAB distance of at least 20, where 2 to 3 is just noticeable."""
    seen = {role: lab(np.array(VISION[vision]) @ linear(colour)) for role, colour in group.items()}
    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= 20, (one, other)


def test_this_test_of_colours_can_fail():
    """Red and green of equal lightness: far apart with all cones, not without the green ones."""
    red, green = linear("#B05000"), linear("#787800")
    assert np.linalg.norm(lab(red) - lab(green)) > 35
    simulated = np.array(VISION["no green"])
    assert np.linalg.norm(lab(simulated @ red) - lab(simulated @ green)) < 20


@pytest.mark.parametrize("role", figures.COLOURS)
def test_each_colour_stands_out_from_white(role):
    assert contrast_with_white(figures.COLOURS[role]) >= 3


def test_the_background_is_opaque_and_the_font_comes_with_matplotlib():
    assert plt.rcParams["figure.facecolor"] == plt.rcParams["savefig.facecolor"] == "white"
    assert not plt.rcParams["savefig.transparent"]
    assert "mpl-data" in findfont(plt.rcParams["font.family"][0])


# -- heat maps ----------------------------------------------------------------------------------


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_a_heat_map_has_a_token_for_each_row_and_column():
    weights = torch.eye(3, 5, requires_grad=True)
    ax = figures.heatmap(weights, ["ma", "voiture", "</s>"], "a b\n$", label="weight")
    assert labels(ax.yaxis) == ["ma", "voiture", "</s>"]
    assert labels(ax.xaxis) == ["a", "␣", "b", "⏎", r"\$"]
    (mesh,) = ax.collections
    assert np.array_equal(mesh.get_array().reshape(3, 5), np.eye(3, 5))
    assert mesh.colorbar.ax.get_ylabel() == "weight"
    assert ax.get_aspect() == 1


def test_weights_keep_one_scale_and_signed_numbers_spread_around_zero():
    (mesh,) = figures.heatmap([[0.2, 0.3]], "a", "bc").collections
    assert mesh.get_clim() == (0, 1)
    (mesh,) = figures.heatmap([[0.5, -2.0]], "a", "bc", signed=True).collections
    assert mesh.get_clim() == (-2, 2)
    (mesh,) = figures.heatmap([[0.0, 0.0]], "a", "bc", signed=True).collections
    assert mesh.get_clim() == (-1, 1)


def test_a_map_beside_another_leaves_the_bar_to_it():
    (own,) = figures.heatmap([[0.2, 0.3]], "a", "bc").collections
    (without,) = figures.heatmap([[0.2, 0.3]], "a", "bc", bar=False).collections
    assert own.colorbar and not without.colorbar


def test_numbers_are_written_only_when_asked_for():
    assert not figures.heatmap([[0.25, 0.75]], "a", "bc").texts
    texts = figures.heatmap([[0.25, 0.75]], "a", "bc", annotate=True).texts
    assert [text.get_text() for text in texts] == [".25", ".75"]


def test_long_words_stand_upright_and_characters_stay():
    ax = figures.heatmap(np.eye(2), "ab", ["the", "car"])
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {90}
    ax = figures.heatmap(np.eye(2), "ab", "cd")
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {0}


def test_labels_of_a_long_sequence_do_not_touch():
    T = 90
    ax = figures.heatmap(np.eye(T), [str(t) for t in range(T)], [str(t) for t in range(T)])
    ax.figure.draw_without_rendering()
    for axis, low, high in ((ax.yaxis, "y0", "y1"), (ax.xaxis, "x0", "x1")):
        written = [label for label in axis.get_ticklabels() if label.get_text()]
        boxes = sorted((getattr(box, low), getattr(box, high)) for box in map(extent, written))
        assert 10 < len(boxes) < T
        assert all(one[1] <= other[0] for one, other in pairwise(boxes))


def extent(text):
    return Text.get_window_extent(text)  # without the line that leads to it


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.eye(3, 2), "weights are 3 × 2, tokens 2 rows × 3 columns"),
        (np.ones((1, 2, 3)), r"shape \(1, 2, 3\)"),
        ([[0, 1, 1.5], [0, 0, 0]], "reach from 0 to 1.5, not 0 to 1"),
        ([[0, -1, 1], [0, 0, 0]], "reach from -1 to 1"),
        ([[0, np.nan, np.nan], [0, 0, 0]], "2 of 6 weights are not finite"),
        (torch.zeros(0, 3), r"shape \(0, 3\); rows × columns, 1 × 1 at least"),
        ([[0, 1, 0], [0, 0]], "weights: numbers in rows of one length are needed"),
        ([["x", 1, 0], [0, 0, 0]], "weights: numbers .* 'x'"),
    ],
)
def test_a_heat_map_refuses_what_does_not_fit(weights, message):
    with pytest.raises(ValueError, match=message):
        figures.heatmap(weights, "ab", "cde")
    assert not plt.get_fignums()


# -- curves -------------------------------------------------------------------------------------


def drawn(ax):
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]


def test_numbers_alone_are_counted_from_one():
    assert drawn(figures.curves({"a": [5, 7, 6]})) == [([1, 2, 3], [5, 7, 6])]
    assert drawn(figures.curves({"a": torch.tensor([5.0, 7.0])})) == [([1, 2], [5, 7])]


@pytest.mark.parametrize(
    "numbers",
    [
        [torch.tensor(5.0, requires_grad=True), torch.tensor(7.0)],
        [torch.tensor(5.0, dtype=torch.bfloat16), 7],
        torch.tensor([5.0, 7.0], dtype=torch.bfloat16, requires_grad=True),
        (torch.tensor([1, 2]), [torch.tensor(5.0), torch.tensor(7.0, requires_grad=True)]),
        deque([5, 7]),
    ],
    ids=["gradient", "bfloat16", "both", "pair", "deque"],
)
def test_tensors_are_numbers_whatever_they_carry(numbers):
    assert drawn(figures.curves({"a": numbers})) == [([1, 2], [5, 7])]


def test_a_label_may_be_a_number():
    ax = figures.curves({5: [1, 2], 8: [2, 3]})
    assert [text.get_text() for text in ax.texts] == ["5", "8"]


def test_a_pair_has_its_own_places():
    assert drawn(figures.curves({"a": ([10, 20], [5, 7])})) == [([10, 20], [5, 7])]


@pytest.mark.parametrize(
    "seeds",
    [
        [([10, 20], [5, 7]), ([10, 20], [7, 11])],
        ([10, 20], [[5, 7], [7, 11]]),
        ([10, 20], torch.tensor([[5.0, 7.0], [7.0, 11.0]])),
    ],
    ids=["pairs", "lists", "tensor"],
)
def test_of_several_seeds_the_mean_and_each(seeds):
    first, second, middle = drawn(figures.curves({"a": seeds}))
    assert first == ([10, 20], [5, 7]) and second == ([10, 20], [7, 11])
    assert middle == ([10, 20], [6, 9])


def test_the_mean_goes_as_far_as_the_shortest_seed():
    *_, middle = drawn(figures.curves({"a": [[1, 2, 3], [3, 4, 5, 6]]}))
    assert middle == ([1, 2, 3], [2, 3, 4])


def test_smoothing_averages_what_came_before():
    raw, smooth = drawn(figures.curves({"a": [1, 2, 6, 4]}, smooth=3))
    assert raw == ([1, 2, 3, 4], [1, 2, 6, 4])
    assert smooth == ([3, 4], pytest.approx([3, 4]))


def test_a_family_has_its_colour_and_nobody_else_has_it():
    ax = figures.curves({"other": [1, 2], "LSTM": [2, 3], "RNN": [3, 4], "third": [4, 5]})
    colours = [to_hex(line.get_color()).upper() for line in ax.lines]
    assert colours[1:3] == [figures.COLOURS["lstm"], figures.COLOURS["rnn"]]
    assert len(set(colours)) == 4


def test_names_stand_at_the_ends_without_touching():
    lines = {f"line {n}": [0, 1 - n / 1000] for n in range(5)}
    ax = figures.curves(lines, chance=0.999)
    ax.figure.draw_without_rendering()
    assert [text.get_text() for text in ax.texts] == [*lines, "chance"]
    boxes = sorted((extent(text).y0, extent(text).y1) for text in ax.texts)
    assert all(one[1] <= other[0] for one, other in pairwise(boxes))
    assert boxes[-1][1] <= ax.figure.bbox.y1
    assert min(extent(text).x0 for text in ax.texts) > ax.get_window_extent().x1 - 2


def test_names_of_low_lines_are_pushed_up_not_off_the_axes():
    ax = figures.curves({"top": [0, 1], "a": [0, 0], "b": [0, 0.001], "c": [0, 0.002]})
    ax.figure.draw_without_rendering()
    assert min(extent(text).y0 for text in ax.texts) > ax.get_window_extent().y0


def test_the_chance_level_is_a_line_across():
    ax = figures.curves({"a": [5, 7]}, chance=6)
    assert drawn(ax)[-1] == ([0, 1], [6, 6])


def test_a_logarithmic_axis_and_names_of_axes():
    ax = figures.curves({"a": [1e-9, 1]}, log=True, xlabel="step", ylabel="norm")
    assert (ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "step", "norm")


@pytest.mark.parametrize(
    ("line", "log"), [([1, 0.1, 0], True), ([1, 0.1, -3], True), ([1, 2, np.nan], False)]
)
def test_a_line_that_leaves_the_axes_is_named_at_their_foot(line, log):
    ax = figures.curves({"gone": line, "here": [1, 0.1, 0.5]}, log=log)
    ax.figure.draw_without_rendering()
    gone, here = map(extent, ax.texts)
    frame = ax.get_window_extent()
    assert abs((gone.y0 + gone.y1) / 2 - frame.y0) < 2 and here.y0 > gone.y1
    assert frame.height > 0.6 * ax.figure.bbox.height  # the name takes no room from the axes


def test_curves_are_drawn_where_asked():
    ax = plt.subplots()[1]
    assert figures.curves({"a": [1, 2]}, ax=ax) is ax


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({}, "no line to draw"),
        ({"a": []}, "line 'a' has no points"),
        ({"a": ([], [])}, "line 'a' has no points"),
        ({"a": 5}, "line 'a' is 5; a list of numbers is needed"),
        ({"a": "xy"}, "line 'a' is 'xy'; a list of numbers is needed"),
        ({"a": ["x", "y"]}, "line 'a': numbers .* 'x'"),
        ({"a": ([1, 2], ["x", "y"])}, "line 'a': numbers .* 'x'"),
        ({"a": ([1, 2, 3], [5, 7])}, "line 'a': 3 points on x, 2 on y"),
        ({"a": ([1, 2], np.zeros((0, 2)))}, "line 'a': 2 points on x, 0 × 2 on y"),
        ({"a": [([1, 2], [5, 7]), ([1, 3], [5, 7])]}, "seeds of 'a' were not measured at the same"),
    ],
)
def test_curves_refuse_what_does_not_fit(lines, message):
    with pytest.raises(ValueError, match=message):
        figures.curves(lines)
