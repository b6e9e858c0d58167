"""A panel redraws for whoever has Python, and is one still picture for whoever has not."""

import base64
import subprocess
import sys
from types import ModuleType

import ipywidgets
import matplotlib.pyplot as plt
import nbclient
import nbformat
import normal_form
import numpy as np
import pytest

from bookkit.page.panel import VIEW, panel

NOTEBOOK = '''
import ipywidgets, matplotlib.pyplot as plt
from torch import nn
from bookkit.page import figures
from bookkit.page.panel import panel
from bookkit.page.show import show
from attnbook.train.loop import constant, train
figures.style()
----
def draw(radius, word):
    """Train a little, as a panel may, and draw the result."""
    model = nn.Linear(2, 1)
    sampler = lambda generator: generator
    loss = lambda model, batch: model.weight.pow(2).sum()
    history = train(model, sampler, loss, steps=30, lr=radius)
    return figures.curves({word: history.loss}).figure
----
panel(draw, radius=ipywidgets.FloatSlider(0.5), word=ipywidgets.Text("loss"))
----
show(constant)
'''


@pytest.fixture(autouse=True)
def agg():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def draw(size, word="a"):
    if size == 9:
        plt.figure()
        raise RuntimeError("nine <is> too much")
    figure, ax = plt.subplots(figsize=(2, 1))
    ax.plot(range(size))
    ax.set_title(word)
    return figure


def made(**options):
    return panel(draw, size=ipywidgets.IntSlider(3), **options)


def test_it_is_shown_live_and_stored_as_a_picture():
    bundle = made(word=ipywidgets.Text("b"))._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", VIEW}
    assert bundle["text/plain"] == "Panel: size = 3, word = b"
    assert ">b</text>" in bundle["text/html"]


def test_a_photograph_stays_dots():
    def photo(size):
        return plt.imshow(np.random.default_rng(size).random((100, 100, 3))).figure

    bundle = panel(photo, size=ipywidgets.IntSlider(3))._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/png", VIEW}
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")


def test_the_still_is_the_same_each_time():
    one, other = made()._repr_mimebundle_(), made()._repr_mimebundle_()
    assert one["text/html"] == other["text/html"]
    assert one["text/plain"] == other["text/plain"] == repr(made())


def test_moving_a_control_draws_with_its_new_value():
    seen = []

    def watched(size):
        seen.append(size)
        return draw(size)

    one = panel(watched, size=ipywidgets.IntSlider(3))
    before = one.image.value
    one.controls["size"].value = 5
    assert seen == [3, 5]
    assert one.image.value != before
    one.controls["size"].value = 3
    assert one.image.value == before == one.still


def test_the_controls_are_named_and_wait_until_they_are_let_go():
    named = ipywidgets.FloatSlider(1.0, description="radius ρ")
    size = ipywidgets.IntSlider(3)
    one = panel(lambda size, named: draw(size), size=size, named=named)
    assert [control.description for control in one.controls.values()] == ["size", "radius ρ"]
    assert not any(control.continuous_update for control in one.controls.values())


def test_it_says_that_it_computes():
    said = []

    def asks(size):
        said.append(one.message.value if one else "not there yet")
        return draw(size)

    one = None
    one = panel(asks, size=ipywidgets.IntSlider(3))
    one.controls["size"].value = 5
    assert said == ["not there yet", "computing …"]
    assert one.message.value == ""


def test_an_error_is_written_into_the_panel_and_goes_away():
    one = made()
    one.controls["size"].value = 9
    assert "RuntimeError: nine &lt;is&gt; too much" in one.message.value
    assert one.image.layout.visibility == "hidden"
    one.controls["size"].value = 4
    assert one.message.value == "" and one.image.layout.visibility == "visible"


def test_an_error_in_the_first_drawing_is_raised():
    with pytest.raises(RuntimeError, match="too much"):
        panel(draw, size=ipywidgets.IntSlider(9))


def test_no_figure_stays_open():
    mine = plt.figure()
    one = made()
    for size in (5, 9, 4):
        one.controls["size"].value = size
    assert plt.get_fignums() == [mine.number]


def test_axes_are_as_good_as_a_figure():
    one = panel(lambda size: draw(size).axes[0], size=ipywidgets.IntSlider(3))
    assert one.still == made().still


def test_on_colab_the_live_view_has_no_rival(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    assert set(made()._repr_mimebundle_()) == {"text/plain", VIEW}


@pytest.mark.parametrize(
    ("arguments", "controls", "message"),
    [
        (3, {"size": ipywidgets.IntSlider(3)}, "draw is of type int"),
        (draw, {}, "needs a control"),
        (draw, {"size": 3}, "the control size is of type int"),
        (draw, {"size": ipywidgets.VBox()}, "the control size is of type VBox"),
        (lambda size: None, {"size": ipywidgets.IntSlider(3)}, "draw returned a NoneType"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, controls, message):
    with pytest.raises(ValueError, match=message):
        panel(arguments, **controls)


@pytest.mark.weekly
def test_executed_stored_and_executed_again_a_notebook_says_the_same(tmp_path, root):
    """What is stored is one picture with its text and nothing else, and nbval agrees with it."""
    cells = [nbformat.v4.new_code_cell(code.strip()) for code in NOTEBOOK.split("----")]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = normal_form.KERNEL
    nbclient.NotebookClient(notebook, record_timing=False).execute()
    assert [len(cell.outputs) for cell in notebook.cells] == [0, 0, 1, 1]
    assert VIEW in notebook.cells[2].outputs[0]["data"]

    stored = normal_form.normal(notebook)
    assert set(stored.cells[2].outputs[0]["data"]) == {"text/plain", "text/html"}
    assert stored.cells[2].outputs[0]["data"]["text/plain"] == "Panel: radius = 0.5, word = loss"
    assert set(stored.cells[3].outputs[0]["data"]) == {"text/plain", "text/markdown"}

    path = tmp_path / "panel.ipynb"
    path.write_text(normal_form.text(stored), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", "-p", "no:cacheprovider"]
    command += ["--nbval-sanitize-with", str(root / "tools/nbval.cfg"), str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout + done.stderr
