"""The tools that write notebooks: one normal form, and nothing stored after a failure."""

import execute
import nbformat
import normal_form
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def notebook():
    """As JupyterLab would leave it: times, widget state, another kernel's name."""
    still = new_output("display_data", {"image/png": "iVBORw0KGgo=", VIEW: {"model_id": "5a"}})
    cell = new_code_cell("panel(draw)", id="a-panel", execution_count=3, outputs=[still])
    cell.metadata = nbformat.from_dict({"tags": ["kept"], "execution": {"idle": "2026"}})
    kernel = {"display_name": "attn (3.12)", "language": "python", "name": "attn"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}, "widgets": {"state": 1}}
    return new_notebook(cells=[new_markdown_cell("# Words", id="title"), cell], metadata=about)


def test_what_varies_goes_and_the_rest_stays(notebook):
    normal = normal_form.normal(notebook)
    assert normal.metadata == {"kernelspec": normal_form.KERNEL}
    cell = normal.cells[1]
    assert (cell.id, cell.execution_count, cell.source) == ("a-panel", 3, "panel(draw)")
    assert cell.metadata == {"tags": ["kept"]}


def test_of_a_panel_the_still_picture_remains(notebook):
    assert set(normal_form.normal(notebook).cells[1].outputs[0].data) == {"image/png"}
    assert VIEW in notebook.cells[1].outputs[0].data, "the argument was changed"


def test_a_stream_that_was_cut_is_whole_again(notebook):
    pieces = [("stdout", "a\n"), ("stdout", "b\n"), ("stderr", "c\n"), ("stdout", "d\n")]
    outputs = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in pieces]
    notebook.cells[1].outputs = outputs
    whole = [(piece.name, piece.text) for piece in normal_form.normal(notebook).cells[1].outputs]
    assert whole == [("stdout", "a\nb\n"), ("stderr", "c\n"), ("stdout", "d\n")]


def test_normal_form_of_normal_form_is_itself(notebook):
    once = normal_form.normal(notebook)
    assert normal_form.normal(once) == once


def test_a_new_cell_is_named_by_its_label_or_its_words_once(notebook):
    said = {
        "5d8b6f1c": "(sec-norm)=\n## Norms",
        "12345678": "<!-- index: a\nb -->\n:::{answer}\n**Answer.** The other order",
        "9f3c1a02-77aa-4bde-9c11-0d5e6f7a8b9c": "The other order, again",
        "0a1b2c3d": ":::{exercise}\n:label: ex-norm\n:::",
        "7": "$1/2$",
    }
    notebook.cells += [new_markdown_cell(text, id=given) for given, text in said.items()]
    notebook.cells += [new_code_cell("# @title Plot\nplt.show()", id="00000000")]
    once = normal_form.normal(notebook)
    assert [cell.id for cell in once.cells] == [
        *("title", "a-panel", "sec-norm", "answer-the-other", "the-other-order", "ex-norm", "cell"),
        "plt-show",
    ]
    once.cells[2].source = "(sec-norms)=\n## Norms"
    once.cells[3].id = "ffffffff"
    once.cells.append(new_markdown_cell("The other order, again", id="eeeeeeee"))
    ids = [cell.id for cell in normal_form.normal(once).cells]
    assert (ids[2], ids[3], ids[-1]) == ("sec-norm", "answer-the-other", "the-other-order-2")


def test_check_reports_and_changes_nothing(notebook, tmp_path, capsys):
    path = tmp_path / "chapter.ipynb"
    nbformat.write(notebook, path)
    before = path.read_bytes()
    assert normal_form.main(["--check", str(path)]) == 1
    assert str(path) in capsys.readouterr().out
    assert path.read_bytes() == before
    assert normal_form.main([str(path)]) == 0
    assert normal_form.main(["--check", str(path)]) == 0


def test_whoever_interrupts_finds_the_notebook_whole(notebook, tmp_path, monkeypatch):
    path = tmp_path / "chapter.ipynb"
    nbformat.write(notebook, path)
    before = path.read_bytes()

    def half(self, content):
        with self.open("wb") as file:
            file.write(content[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(normal_form.Path, "write_bytes", half)
    with pytest.raises(KeyboardInterrupt):
        normal_form.main([str(path)])
    assert path.read_bytes() == before


def test_a_notebook_without_ids_is_refused(notebook, tmp_path):
    path = tmp_path / "chapter.ipynb"
    for cell in notebook.cells:
        del cell["id"]
    notebook.nbformat_minor = 4
    nbformat.write(notebook, path, version=nbformat.NO_CONVERT)
    with pytest.raises(ValueError, match=r"chapter.ipynb.*4.4 has no cell ids"):
        normal_form.read(path)
    path.write_text(path.read_text().replace('"nbformat_minor": 4', '"nbformat_minor": 5'))
    with pytest.raises(ValueError, match="cell 1 has no id"):
        normal_form.read(path)


def test_a_notebook_that_fails_is_left_as_it_was(notebook, tmp_path):
    path = tmp_path / "chapter.ipynb"
    notebook.cells[1].source = "1 / 0"
    nbformat.write(notebook, path)
    before = path.read_bytes()
    with pytest.raises(Exception, match="division by zero"):
        execute.execute(path)
    assert path.read_bytes() == before
