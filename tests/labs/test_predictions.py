"""Predictions in the labs: written before a run, shown beside it, counted, and in nobody's way."""

import copy
import re
from types import SimpleNamespace

import nbformat
import pytest
import torch
from corpora import CORPORA

from attnlabs import nbgrader, predictions, release, source
from attnlabs.inside import cells
from attnlabs.predictions import Prediction, Predictions

EVERY = pytest.mark.parametrize("number", [*CORPORA, 8, 12])


@pytest.fixture
def lab(root, number):
    return source.find(number, root / "labs")


@pytest.fixture
def kept(monkeypatch):
    """The tables that are shown, in their order."""
    found: list[predictions.Shown] = []
    monkeypatch.setattr(predictions, "shown", found.append)
    return found


def verdict(guess, seen, **how):
    mine = Predictions()
    mine.expect("it", guess, **how)
    mine.found({"it": seen})
    return mine._rows["it"].verdict


@pytest.mark.parametrize(
    ("guess", "seen", "within", "right"),
    [
        (0.5, 0.55, 0.05, True),
        (0.5, 0.5501, 0.05, False),
        (9, 9, 0, True),
        (9, torch.tensor(9), 0, True),
        (torch.tensor(0.3), 0.3, 0, True),
        (-1.0, 1.0, 0.5, False),
        (3, 2, 0, False),
        (1, float("nan"), 5, False),
    ],
)
def test_a_number_is_right_if_it_is_near_enough(kept, guess, seen, within, right):
    assert verdict(guess, seen, within=within) == ("right" if right else "not right")


def test_a_choice_is_right_whatever_its_capitals_and_spaces(kept):
    among = ("above 0", "below 0")
    assert verdict("Above  0 ", "above 0", among=among) == "right"
    assert verdict("below 0", "above 0", among=among) == "not right"


@pytest.mark.parametrize("guess", [..., None, "", "..."])
@pytest.mark.parametrize("among", [(), ("A", "B")])
def test_nothing_is_said_of_a_guess_that_is_left_out(kept, capsys, guess, among):
    assert verdict(guess, "A" if among else 1.0, among=among) == "no prediction"
    assert capsys.readouterr().out == ""
    assert "–" in kept[0]._repr_html_()


@pytest.mark.parametrize("guess", ["half", [0.5], {}, print, float("inf"), True, object()])
def test_what_is_no_number_is_told_and_counts_as_none(kept, capsys, guess):
    mine = Predictions()
    mine.expect("it", guess, within=0.1)
    assert "it: a number is needed, not" in capsys.readouterr().out
    mine.found({"it": 0.5})
    mine.count()
    assert kept[-1].sentence == "0 of 0 right; 1 without a prediction."


def test_what_is_none_of_the_choices_is_told_with_all_of_them(kept, capsys):
    mine = Predictions()
    mine.expect("it", "C", among=("A", "B"))
    assert capsys.readouterr().out == "it: one of 'A', 'B' is needed, not C.\n"


class Raises:
    """A guess that resists being looked at."""

    def __float__(self):
        raise RuntimeError

    def __str__(self):
        return "it"


def test_nothing_stops_a_notebook(kept, capsys):
    mine = Predictions()
    mine.expect("it", Raises())
    mine.found({"it": 1.0, "never asked": 2.0, "not run": None})
    mine.count()
    assert [row.what for row in kept[-1].rows] == ["it", "never asked"]


def test_all_are_counted_at_the_end(kept):
    mine = Predictions()
    mine.expect("a", 1.0, within=0.1)
    mine.expect("b", 2.0, within=0.1)
    mine.expect("c")
    mine.expect("d", 4.0)
    mine.found({"a": 1.05, "b": 3.5, "c": 1})
    mine.count()
    assert kept[-1].sentence == "1 of 2 right; 1 without a prediction; 1 not yet known."
    assert "off by" in kept[-1]._repr_html_() and "-1.5" in kept[-1]._repr_html_()


def test_a_cell_that_is_run_again_changes_the_guess_and_keeps_what_came_out(kept):
    mine = Predictions()
    mine.expect("a", 1.0)
    mine.found({"a": 2.0})
    mine.expect("a", 2.0)
    mine.count()
    assert [row.verdict for row in kept[-1].rows] == ["right"]


def test_an_untouched_notebook_shows_nothing(kept):
    mine = Predictions()
    mine.expect("a", ...)
    mine.found({"a": None})
    mine.count()
    assert kept == []


def test_as_text_there_is_no_number_that_was_measured():
    """The notebook tests compare it, and each machine measures another one."""
    row = Prediction("a", 1.0, 0.1, seen=1.234567)
    table = predictions.Shown([row], "0 of 1 right.")
    assert repr(table) == "a: not right\n0 of 1 right."
    compared = re.sub(r'<data class="m"[^>]*>[^<]*</data>', "", table._repr_html_())
    assert "1.23" not in compared and "0.23" not in compared


def test_names_and_guesses_are_no_html():
    row = Prediction("<b>", "<i>", among=("<i>", "x"), seen="<u>")
    assert not re.search("<[biu]>", predictions.Shown([row])._repr_html_())


def calls(notebook):
    """What the notebook expects, by name: the guess as it stands there. What it finds."""
    mine, asked, known = SimpleNamespace(), {}, set()
    for cell in notebook.cells:
        if cell.cell_type == "code" and "my_predictions." in cell.source:
            asked |= {
                node.args[0].value: node.args[1]
                for node in predictions.ast.walk(predictions.ast.parse(cell.source))
                if isinstance(node, predictions.ast.Call)
                and predictions.ast.unparse(node.func) == "my_predictions.expect"
            }
            for node in predictions.ast.walk(predictions.ast.parse(cell.source)):
                if (
                    isinstance(node, predictions.ast.Call)
                    and predictions.ast.unparse(node.func) == "my_predictions.found"
                ):
                    known |= {key.value for key in node.args[0].keys}
    mine.asked, mine.known = asked, known
    return mine


@EVERY
def test_each_lab_asks_for_two_to_four_predictions_and_says_what_came_of_each(lab):
    found = calls(lab.notebook)
    assert 2 <= len(found.asked) <= 4
    assert set(found.asked) == found.known
    order = [cell.id for cell in lab.notebook.cells]
    assert order.index("predictions") == order.index("hand-in") - 1


@EVERY
def test_a_prediction_stands_before_what_came_of_it(lab):
    text = "\n".join(c.source for c in lab.notebook.cells if c.cell_type == "code")
    for what in calls(lab.notebook).asked:
        places = [match.start() for match in re.finditer(re.escape(f'"{what}"'), text)]
        assert len(places) == 2 and text.rfind("my_predictions.", 0, places[0]) == text.rfind(
            "my_predictions.expect", 0, places[0]
        )


@EVERY
def test_no_guess_of_the_source_is_in_a_student_s_copy(lab):
    of_source, of_copy = calls(lab.notebook).asked, calls(release.without_solutions(lab)).asked
    assert of_copy.keys() == of_source.keys()
    assert all(guess.value is not ... for guess in of_source.values())
    assert all(guess.value is ... for guess in of_copy.values())


def test_a_guess_is_taken_out_wherever_it_stands():
    cell = 'é = 1\nmy_predictions.expect("é", -0.5, within=0.1)\nmy_predictions.expect(\n    "b",'
    cell += '\n    "one",\n    among=("one", "two"),\n)\nother.expect("c", 3)'
    without = cell.replace("-0.5", "...").replace('    "one",\n    among', "    ...,\n    among")
    assert predictions.without_guesses(cell) == without
    assert predictions.without_guesses("%pip install my") == "%pip install my"


def test_in_nbgrader_a_prediction_can_be_written(of):
    """A locked cell could not be, a solution without a region would be emptied, and one that is
    marked as neither stops nbgrader 0.9.6 where missing cells are added."""
    notebook = nbgrader.source_notebook(of(3).lab)
    asking = [cell for cell in notebook.cells if 'my_predictions.expect("' in cell.source]
    assert asking and all("nbgrader" not in cell.metadata for cell in asking)
    assert all("..." in cell.source for cell in asking)


def test_what_shows_a_prediction_is_no_part_of_an_answer():
    """It would be run with the answer, where there are no predictions."""
    text = (
        "def f(x):\n    return x\nif f(1) is not None:\n    my_predictions.found({'a': f(1).sum()})"
    )
    tree, _ = cells.statements([("code", text)])
    assert [one.name for one in cells.needed(tree, "f")] == ["f"]


def test_filled_in_guesses_are_graded_like_empty_ones(of):
    """What a student predicts has no part in the points."""
    course = of(3)
    filled = copy.deepcopy(course.empty)
    for cell in filled.cells:
        if "my_predictions.expect(" in cell.source:
            cell.source = cell.source.replace("...", "0.5")
    rows = [course.judge(nbformat.writes(each).encode()) for each in (course.empty, filled)]
    assert rows[0].questions == rows[1].questions and rows[0].review == rows[1].review
