"""Further seeds of a page: stored by its own cells as they are, found by name, run on demand."""

import re

import nbformat
import pytest

from attnbook import device
from bookkit.results import stored_run
from bookkit.results.stored_run import over_seeds


@pytest.fixture
def seeds(script):
    return script("results/seeds.py")


@pytest.fixture(scope="module")
def pages(root):
    """The pages that call `over_seeds`, with the names that they ask for."""
    found = {}
    for path in sorted(root.glob("book/*.ipynb")):
        cells = nbformat.read(path, nbformat.NO_CONVERT).cells
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        names = re.findall(r'over_seeds\(\s*"([^"]+)', code)
        if names:
            found[path] = names
    return found


def test_what_is_stored_was_measured_by_the_cells_of_the_page_as_they_are(pages, seeds, root):
    for path, names in pages.items():
        digest = seeds.digest(nbformat.read(path, nbformat.NO_CONVERT))
        for name in names:
            found = stored_run.stored_run(f"seeds/{name}")
            page = path.relative_to(root).as_posix()
            again = f"store it anew: python results/seeds.py {page}"
            assert (found["page"], found["digest"]) == (page, digest), again
            assert found["provenance"]["command"].endswith(f"results/seeds.py {page}")


def test_no_study_is_left_without_its_page(pages, seeds):
    asked = sorted(name for names in pages.values() for name in names)
    assert asked == sorted(path.stem for path in seeds.STORE.glob("*.json"))


def test_the_first_seed_runs_here_and_the_others_are_stored(monkeypatch):
    monkeypatch.setenv("ATTNBOOK_DEVICE", "cpu")
    monkeypatch.setattr(
        stored_run, "stored_run", lambda name: {"runs": [{"right": s / 10} for s in range(5)]}
    )
    here, ran = device.choose(), []
    measure = lambda seed: ran.append(seed) or {"right": 0.9}  # noqa: E731
    assert over_seeds("toy", measure, here) == {"right": [0.9, 0.1, 0.2, 0.3, 0.4]}
    assert ran == [0]
    monkeypatch.setenv("ATTNBOOK_SEEDS", "all")
    assert over_seeds("toy", measure, here, seeds=3) == {"right": [0.9] * 3}
    assert ran == [0, 0, 1, 2]


def test_seeds_of_another_measurement_are_refused(monkeypatch):
    monkeypatch.setenv("ATTNBOOK_DEVICE", "cpu")
    monkeypatch.setattr(stored_run, "stored_run", lambda name: {"runs": [{"right": 1}] * 5})
    with pytest.raises(ValueError, match=r"'toy'.*ATTNBOOK_SEEDS=all"):
        over_seeds("toy", lambda seed: {"wrong": 0.1}, device.choose())
