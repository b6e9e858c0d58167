"""A plot is SVG: letters are letters, colours the page's, and a phone has its own layout."""

import base64
import io
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from bookkit.page import figures, plots

PHONE = 366  # pixels that a plot has in a window of 390


@pytest.fixture(autouse=True)
def closed():
    figures.style()
    yield
    plt.close("all")


def side_by_side(count=2, **settings):
    fig, axes = plt.subplots(1, count, figsize=(3.3 * count, 3), sharey=True)
    for ax in axes:
        lines = {"LSTM": [3, 2, 1.1], "attention": [3, 2.5, 1.05]}
        figures.curves(lines, ax=ax, xlabel="steps", **settings)
    axes[0].set_ylabel("loss")
    return fig


def layouts(figure):
    """{class: its SVG as a tree}."""
    found = re.findall(r"<svg.*?</svg>", plots.html(figure), re.DOTALL)
    trees = [ET.fromstring(text) for text in found]
    return {tree.get("class"): tree for tree in trees}


def words(tree):
    return [" ".join("".join(node.itertext()).split()) for node in tree.iter(f"{plots.SVG}text")]


def width(tree):
    return float(tree.get("viewBox").split()[2])


def test_what_is_written_is_text():
    (wide,) = [tree for look, tree in layouts(side_by_side()).items() if look == "wide"]
    assert words(wide).count("steps") == 2 and "loss" in words(wide)
    assert words(wide).count("attention") == 2


def test_panels_side_by_side_stand_below_each_other_on_a_phone():
    figure = side_by_side(3)
    size, specs = tuple(figure.get_size_inches()), [ax.get_subplotspec() for ax in figure.axes]
    found = layouts(figure)
    assert set(found) == {"wide", "tall"}
    assert width(found["tall"]) < 0.5 * width(found["wide"])
    assert words(found["tall"]).count("loss") == 3, "each panel says what it shows"
    assert tuple(figure.get_size_inches()) == size, "the author's figure is as it was"
    assert [ax.get_subplotspec() for ax in figure.axes] == specs
    assert words(layouts(figure)["wide"]) == words(found["wide"])


@pytest.mark.parametrize("make", [side_by_side, lambda: figures.curves({"a": [1, 2]}).figure])
def test_on_a_phone_letters_have_eleven_pixels(make):
    tree = layouts(make())["tall"]
    sheet = tree.find(f"{plots.SVG}style").text
    sizes = [float(size) for size in re.findall(r"font-size:([\d.]+)px", sheet)]
    assert sizes and min(sizes) * min(1.45, PHONE / width(tree)) >= 11


def test_colours_are_the_roles_of_the_drawings_or_have_a_partner_for_the_night():
    text = plots.html(side_by_side(chance=2))
    assert "var(--d-query)" in text and "var(--d-output)" in text and "var(--d-ink)" in text
    own = text.replace(plots.STYLE, "")
    for rule in re.findall(r"\{([^{}]*)\}", own):
        for colour in re.findall(r"(?:fill|stroke):(#[^;}]*)", rule):
            raise AssertionError(f"{colour} does not know of the night")
    assert plots.at_night("#ffffff") == "#121212" and plots.at_night("#000000") == "#ededed"
    assert "color-mix(in srgb,#e0509b var(--d-day)" in plots.themed("#E0509B")


def test_a_text_that_names_no_anchor_begins_where_it_is_put(root):
    assert ".drawing.plot text{text-anchor:start}" in plots.STYLE
    style = (root / "book/_static/page.css").read_text()  # for plots that are stored
    assert ".drawing.plot text { text-anchor: start; }" in style


@pytest.mark.slow
def test_the_same_plot_is_the_same_text_and_two_may_stand_on_a_page():
    one, same = (plots.html(side_by_side()) for _ in range(2))
    assert one == same
    ids = re.findall(r'\bid="([^"]+)"', one + plots.html(side_by_side(3)))
    assert len(ids) == len(set(ids)) > 2
    used = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', one)
    assert {a or b for a, b in used} <= set(ids)


def test_a_photograph_and_a_cloud_of_marks_stay_dots():
    rng = np.random.default_rng(0)
    photo, ax = plt.subplots()
    ax.imshow(rng.random((100, 100, 3)))
    assert plots.html(photo) is None
    cloud, ax = plt.subplots()
    ax.plot(rng.random(40_000), rng.random(40_000), ".")
    assert plots.html(cloud) is None


def test_a_large_map_is_one_image_and_a_small_one_cells():
    large = figures.heatmap(np.full((40, 40), 0.5), range(40), range(40)).figure
    assert len(list(layouts(large)["wide"].iter(f"{plots.SVG}image"))) >= 1
    small = figures.heatmap(np.full((3, 4), 0.5), "abc", "wxyz", annotate=True).figure
    tree = layouts(small)
    assert not list(next(iter(tree.values())).iter(f"{plots.SVG}image"))
    assert len(plots.html(small)) < 20_000


@pytest.mark.slow
def test_two_maps_that_are_heavy_as_cells_keep_their_words_and_have_a_layout_for_the_phone():
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.4))
    for ax in axes:
        figures.heatmap(np.random.default_rng(0).random((24, 24)), range(24), range(24), ax=ax)
    assert len(plots.html(figure)) < plots.HEAVY
    for tree in layouts(figure).values():
        assert len(list(tree.iter(f"{plots.SVG}image"))) >= 2
        assert {"0", "20"} <= set(words(tree))


def test_ticks_that_were_set_on_a_logarithmic_axis_stand_alone():
    figure, ax = plt.subplots()
    ax.plot([4, 8, 16, 32], [1, 2, 3, 4])
    ax.set_xscale("log")
    ax.set_xticks([4, 8, 16, 32], ["4", "8", "16", "32"])
    said = words(next(iter(layouts(figure).values())))
    assert [word for word in said if "0" in word and len(word) > 3 and "." not in word] == []
    assert {"4", "8", "16", "32"} <= set(said)


def test_a_path_is_written_by_its_steps():
    assert plots.path("M 1.04 2 L 1.5 2.26 L 1.5 2.26 L -3 2 z") == "M1 2l.5 .3l-4.5-.3z"
    assert plots.path("M 1.04 2 C 1.5 2.26 3 4 5 6.78") == "M1 2C1.5 2.3 3 4 5 6.8"


def test_names_at_line_ends_keep_apart_in_both_layouts_with_a_leader_when_moved():
    figure, axes = plt.subplots(1, 2, figsize=(7, 3))
    for ax in axes:
        figures.curves({"a": [1, 2], "b": [1, 2.01], "c": [1, 2.02]}, ax=ax)
    with plots.narrow(figure) as changed:
        assert changed
        for ax in axes:
            names = [name for name, *_ in figures.NAMES[ax]]
            heights = sorted(Text.get_window_extent(name).y0 for name in names)
            assert np.diff(heights).min() > 10 * figure.dpi / 72
            assert sum(name.arrow_patch.get_visible() for name in names) >= 2


def test_numbers_at_the_ticks_that_would_touch_are_left_out_and_come_back():
    figure, ax = plt.subplots(figsize=(2.4, 2))
    ax.plot([0, 60], [0, 1])
    ax.set_xticks(range(0, 61, 5))
    figure.draw_without_rendering()
    before = [tick.label1 for tick in ax.xaxis.get_major_ticks()]
    with plots.thinned(figure):
        seen = [label for label in before if label.get_visible()]
        boxes = [label.get_window_extent() for label in seen]
        gaps = [two.x0 - one.x1 for one, two in pairwise(boxes)]
        assert 2 < len(seen) < len(before) and min(gaps) > 2 * figure.dpi / 72
    assert all(label.get_visible() for label in before)


def test_an_image_s_own_opacity_is_kept():
    figure, ax = plt.subplots(figsize=(2, 2))
    shown = ax.imshow(np.zeros((4, 4)), cmap="gray", alpha=np.linspace(0, 1, 16).reshape(4, 4))
    image = re.search(r'base64,([^"]+)"', plots.html(figure))
    picture = Image.open(io.BytesIO(base64.b64decode(image[1]))).convert("RGBA")
    assert picture.getextrema()[3] == (0, 255), "black would lie on what is below"
    assert shown.get_array().shape == (4, 4), "the author's figure is as it was"


LETTERS = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
    if (!svg.checkVisibility()) return []
    const around = svg.getBoundingClientRect()
    const boxes = [...svg.querySelectorAll("text")].map(
        text => [text.textContent, text.getBoundingClientRect()])
    const found = boxes.filter(([, box]) => box.bottom > around.bottom + 6
        || box.left < around.left - 6).map(([words]) => `${words} is outside`)
    for (const [n, [one, a]] of boxes.entries()) for (const [two, b] of boxes.slice(n + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left)
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
        if (across > 2 && down > 3) found.push(`${one} lies on ${two}`)
    }
    return found
})"""


def test_upright_words_and_powers_of_ten_stand_where_they_were_put(blank):
    plt.figure(figsize=(5, 2))
    upright = figures.heatmap(np.eye(4), "abcd", ["The", "class", "instance", "of"])
    assert upright.get_xticklabels()[2].get_rotation() == 90
    plt.figure(figsize=(4, 3))
    powers = figures.curves({"a": [1e-4, 1e3]}, ylabel="gradient, whole block", log=True)
    with blank() as page:
        page.set_content(plots.html(upright.figure) + plots.html(powers.figure))
        assert page.evaluate(LETTERS) == []
