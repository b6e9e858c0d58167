"""One tag on a cell says how it is folded; all else is derived, and again gives the same."""

import folds
import normal_form
import pytest
from nbformat.v4 import new_code_cell, new_notebook


def derived(source, *tags):
    cell = new_code_cell(source, id="some-cell", metadata={"tags": list(tags)})
    return normal_form.normal(new_notebook(cells=[cell])).cells[0]


LABELS = [
    ("set-up", "import torch", "Set-up"),
    ("plot", "plt.show()", "Plot"),
    ("helper", 'def f(x):\n    """Twice x.\n\n    More.\n    """\n    return 2 * x', "Twice x"),
    (
        "helper",
        "# the words of `docs`\n# and no others\nx = 1  # one",
        "The words of `docs` and no others",
    ),
    ("run", "# 600 steps, 3 seeds, 6 s\nfit()", "Training: 600 steps, 3 seeds, 6 s"),
    ("check", "# two heads are enough.\nassert x", "✓ checked: two heads are enough"),
]


@pytest.mark.parametrize(("tag", "source", "label"), LABELS)
def test_a_folded_cell_has_its_label(tag, source, label):
    cell = derived(source, tag)
    assert cell.metadata["mystnb"] == {"code_prompt_show": label}
    assert cell.metadata["tags"] == [tag, "hide-input"]


@pytest.mark.parametrize(
    ("tag", "words"), [("set-up", "Set-up"), ("plot", "Plot"), ("remove-input", "Picture")]
)
def test_what_nobody_reads_is_hidden_in_jupyterlab_and_on_colab(tag, words):
    cell = derived("plt.show()", tag)
    assert cell.metadata["jupyter"] == {"source_hidden": True}
    assert cell.metadata["cellView"] == "form"
    assert cell.source == f"# @title {words}\nplt.show()"
    assert folds.body(cell.source) == "plt.show()"


@pytest.mark.parametrize("tag", ["check", "run", "helper", "listing"])
def test_what_a_student_should_read_stays_open_in_jupyterlab_and_on_colab(tag):
    cell = derived("# so it is\nassert x", tag)
    assert "jupyter" not in cell.metadata and "cellView" not in cell.metadata
    assert cell.source == "# so it is\nassert x"


def test_a_changed_tag_leaves_nothing_of_the_old_one():
    cell = derived("plt.show()", "plot")
    cell.metadata["tags"] = ["answer", "hide-input"]
    cell = normal_form.normal(new_notebook(cells=[cell])).cells[0]
    assert cell.metadata == {"tags": ["answer"]} and cell.source == "plt.show()"


@pytest.mark.parametrize("tag", ["check", "run", "helper"])
def test_a_fold_without_words_is_refused(tag):
    with pytest.raises(ValueError, match=f"some-cell .{tag}. .*begin with a comment"):
        derived("x = 1  # not at the beginning", tag)


def test_two_kinds_are_refused():
    with pytest.raises(ValueError, match="plot and check"):
        derived("# said\nassert x", "plot", "check")


def test_kinds_stand_beside_other_tags():
    assert derived("plt.show()", "nbval-skip", "answer", "plot").metadata["tags"] == [
        "plot",
        "hide-input",
        "nbval-skip",
        "answer",
    ]
