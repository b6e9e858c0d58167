"""A figure in a notebook is twice as fine as the page needs, and not heavier for it."""

import base64
import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from PIL import Image

from bookkit.page import figures


@pytest.fixture
def figure():
    figures.style()
    ax = figures.curves({"LSTM": [3, 2, 1], "RNN": [3, 2.5, 2]}, xlabel="step")
    yield ax.figure
    plt.close(ax.figure)


def opened(figure):
    data, size = figures.png(figure)
    raw = base64.b64decode(data)
    return raw, Image.open(io.BytesIO(raw)), size


def test_a_figure_is_twice_as_fine_as_it_is_shown(figure):
    _, image, size = opened(figure)
    assert image.size == (2 * size["width"], 2 * size["height"]) or all(
        abs(dots - 2 * pixels) <= 1 for dots, pixels in zip(image.size, size.values(), strict=True)
    )
    assert round(image.info["dpi"][0]) == 2 * figure.dpi


def test_it_weighs_no_more_than_half_as_fine_in_all_colours(figure):
    raw, image, _ = opened(figure)
    plain = io.BytesIO()
    figure.savefig(plain, format="png", bbox_inches="tight", dpi=figure.dpi)
    assert image.mode == "P"
    assert len(raw) < 1.3 * len(plain.getvalue())


def test_a_photograph_keeps_its_colours():
    noise = np.random.default_rng(0).random((60, 80, 3))
    fig, ax = plt.subplots()
    ax.imshow(noise, interpolation="bicubic")
    assert opened(fig)[1].mode != "P"
    plt.close(fig)


def test_a_notebook_shows_it_so_and_goes_on_doing_so(figure, monkeypatch):
    """Also when matplotlib sets its own way after the cell that imported it."""
    shell = InteractiveShell()
    monkeypatch.setattr(figures, "get_ipython", lambda: shell)
    figures.install()
    formatter = shell.display_formatter.formatters["image/png"]
    assert formatter.lookup(figure) is figures.dots
    formatter.for_type(type(figure), lambda figure: b"as matplotlib would")
    shell.events.trigger("post_run_cell", None)
    assert formatter.lookup(figure) is figures.dots
    formatter.for_type(type(figure), lambda figure: b"as somebody wants it")
    shell.events.trigger("post_run_cell", None)
    assert formatter.lookup(figure) is not figures.dots, "what the reader sets is kept"


def test_a_plot_is_shown_as_text_and_a_photograph_as_dots(figure):
    assert figures.html(figure).startswith('<div class="drawing plot">')
    assert figures.dots(figure) is None
    assert figures.dots(figure) is not None, "whoever asks for dots alone has them"
    photo, ax = plt.subplots()
    ax.imshow(np.random.default_rng(0).random((100, 100, 3)))
    assert figures.html(photo) is None and figures.dots(photo) is not None
    plt.close(photo)


def test_outside_a_notebook_nothing_happens(monkeypatch):
    monkeypatch.setattr(figures, "get_ipython", lambda: None)
    figures.install()
