"""What chapter 9 shows: the ladder, parts exchanged one by one, an extract of the open models."""

import json
import sys
from itertools import pairwise

import nbformat
import pytest

from bookkit.results.stored_run import stored_run


@pytest.fixture
def parts(script, root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "results"))  # it shares a class with recurrence.py
    monkeypatch.delitem(sys.modules, "recurrence", raising=False)
    return script("results/parts.py")


@pytest.fixture
def speedrun(script):
    return script("results/speedrun.py")


def test_what_the_chapter_shows_of_the_ladder_is_what_its_files_say(speedrun, root):
    stored = json.loads(json.dumps(speedrun.collected(root / "results/speedrun")))
    assert stored == stored_run("speedrun")


def test_every_rung_was_run_with_the_settings_of_the_script_and_five_seeds(speedrun, root):
    for number, (name, parts) in enumerate(speedrun.variants().items()):
        path = root / f"results/speedrun/{number:02}-{speedrun.slug(name)}.json"
        rung = json.loads(path.read_text("utf-8"))
        assert rung["config"] == {**speedrun.CONFIG, **parts, "times": 1}
        assert [run["seed"] for run in rung["runs"]] == [0, 1, 2, 3, 4]


def test_rungs_are_as_large_as_nanogpt_and_take_an_eighth_of_its_seconds(speedrun, root):
    theirs = stored_run("speedrun")["nanoGPT"]
    for path in root.glob("results/speedrun/[0-9][0-9]-*.json"):
        rung = json.loads(path.read_text("utf-8"))
        share = rung["config"]["times"] / 8
        for run in rung["runs"]:
            assert abs(run["parameters"] / theirs["parameters"] - 1) < 0.005
            # more seeds of it ran beside other work, which makes CPU seconds longer
            assert run["cpu_seconds"] < 1.1 * share * theirs["cpu_seconds"]


def better(a, b):
    """Every seed of one below every seed of the other."""
    return max(a) < min(b)


def test_what_is_said_of_the_rungs_follows_from_their_seeds():
    rungs = stored_run("speedrun")["rungs"]
    losses = {name: rung["validation_loss"] for name, rung in rungs.items()}
    names = list(losses)
    told = {b for a, b in pairwise(names) if better(losses[b], losses[a])}
    clear = {"a larger rate", "today's block", "Muon", "outputs from zero", "16 bits"}
    assert told == clear
    assert max(losses["16 bits"]) < stored_run("speedrun")["nanoGPT"]["validation_loss"]


def test_each_part_was_run_with_five_seeds_at_the_best_of_three_rates(parts):
    found = stored_run("parts")
    for study, (_, names) in parts.TUNED.items():
        assert list(found[study]) == list(names)
        for one in found[study].values():
            assert list(map(float, one["tried"])) == list(parts.RATES) and len(one["seeds"]) == 5
            assert one["tried"][str(one["rate"])] == min(one["tried"].values())
    for study, (_, names, rates) in parts.ALL.items():
        assert list(found[study]) == list(names)
        for by_rate in found[study].values():
            assert list(map(float, by_rate)) == list(rates)
            assert all(len(runs) == 5 for runs in by_rate.values())
    assert found["provenance"]["command"] == "python results/parts.py"


def test_what_is_said_of_the_parts_follows_from_their_seeds():
    found = stored_run("parts")
    loss = {
        study: {name: [run["report"] for run in one["seeds"]] for name, one in found[study].items()}
        for study in ("experts", "heads", "stack")
    }
    full = loss["heads"].pop("4 key heads (MHA)")
    worse = {name for name, values in loss["heads"].items() if better(full, values)}
    assert worse == {"latent of 16 + 8 (MLA)"}
    assert not any(better(values, full) for values in loss["heads"].values())
    everywhere = loss["stack"].pop("full ×4")
    assert all(better(values, everywhere) for values in loss["stack"].values())
    small = loss["experts"]["bias, 16 small and a shared one"]
    assert better(small, loss["experts"]["one network"])


@pytest.mark.slow
def test_a_run_of_a_part_is_repeated(parts):
    again = parts.scores("plain", 0.02, 0)["report"]
    stored = stored_run("parts")["scores"]["plain"]["0.02"][0]["report"]
    assert again == pytest.approx(stored, abs=0.03)


def test_the_extract_of_the_open_models_is_what_was_read_in_their_code(root):
    stored = json.loads((root / "src/bookkit/runs/open_models.json").read_text("utf-8"))["models"]
    says = {model["name"]: model["cells"] for model in stored}
    page = nbformat.read(root / "book/09-modern-tweaks.ipynb", nbformat.NO_CONVERT)
    (cell,) = (cell.source for cell in page.cells if cell.id == "open-extract")
    head, _, *rows = [line for line in cell.split("\n") if line.startswith("|")]
    columns = [part.strip().capitalize() for part in head.strip("|").split("|")][1:]
    assert len(rows) == 4
    for row in rows:
        name, *cells = (part.strip() for part in row.strip("|").split("|"))
        assert cells == [says[name][column]["says"] for column in columns]


def test_what_the_text_counts_in_the_table_of_open_models(root):
    models = json.loads((root / "src/bookkit/runs/open_models.json").read_text("utf-8"))["models"]
    cells = [{name: cell["says"] for name, cell in model["cells"].items()} for model in models]
    experts = [each["Experts"] for each in cells if each["Experts"] != "dense"]
    page = nbformat.read(root / "book/09-modern-tweaks.ipynb", nbformat.NO_CONVERT)
    (text,) = (cell.source for cell in page.cells if cell.id == "open-extract")
    assert f"Of all {len(cells)}," in text and f"a table of {len(cells)} <open-models>" in text
    for count, said in (
        (sum(each["Attention"].startswith("MHA") for each in cells), "only {} (the OLMo family)"),
        (sum(" + " in each["Layers"] for each in cells), "{} have layers of two kinds"),
        (sum(each["Norm of queries and keys"] != "no" for each in cells), "{} have a norm on"),
        (len(experts), "{} have experts"),
        (sum("+ bias" in each for each in experts), f"{{}} of these {len(experts)} balance"),
    ):
        assert said.format(count) in text
