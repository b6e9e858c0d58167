"""Measured runs: each says where it comes from, and the book quotes what is stored."""

import json

import nbformat
import pytest

from attnbook.data import pairs


@pytest.fixture(scope="module")
def runs(root):
    return {
        path: json.loads(path.read_text("utf-8"))
        for path in root.glob("results/translation/*.json")
    }


def test_there_are_runs_with_and_without_attention(runs):
    measured = {(run["config"]["corpus"], run["config"]["model"]) for run in runs.values()}
    models = {"cho_2014", "bahdanau_2015"}
    assert measured == {(corpus, m) for corpus in ("multi30k-de-en", "fra-eng") for m in models}


def test_a_run_names_its_command_seed_machine_versions_and_date(runs):
    for path, run in runs.items():
        config, origin = run["config"], run["provenance"]
        assert path.stem == f"{config['corpus']}.{config['model']}.seed{config['seed']}"
        assert config["corpus"] in pairs.CORPORA
        assert origin["command"].startswith("python results/")
        assert all(origin[name] for name in ("date", "commit", "processor", "python"))
        assert {"torch", "sacrebleu"} <= set(origin["versions"])
        assert "case:lc" in run["signature"] and "tok:13a" in run["signature"]


def test_two_models_of_one_corpus_were_trained_alike(runs):
    for corpus in ("multi30k-de-en", "fra-eng"):
        plans = [
            {name: value for name, value in run["config"].items() if name != "model"}
            for run in runs.values()
            if run["config"]["corpus"] == corpus
        ]
        assert plans[0] == plans[1]


def test_the_table_in_chapter_1_is_what_is_stored(root):
    run = json.loads((root / "results/characters/python-docs.json").read_text("utf-8"))
    notebook = nbformat.read(root / "book/01-recurrent-networks.ipynb", nbformat.NO_CONVERT)
    text = next(cell.source for cell in notebook.cells if cell.id == "lm-finding")
    for name, model in run["models"].items():
        first, second = model["losses"]
        assert (
            f"| {name} | {model['width']} | {model['parameters']:,} | {first:.2f} | {second:.2f} |"
            in text
        )
    assert f"{run['config']['steps']:,} steps of windows of {run['config']['T']}" in text
    plan = next(cell.source for cell in notebook.cells if cell.id == "lm-data")
    assert f"gpu=({run['config']['T']}, {run['config']['batch']}, {run['config']['steps']})" in plan


def test_the_table_in_chapter_2_is_what_is_stored(runs, root):
    notebook = nbformat.read(root / "book/02-bahdanau-attention.ipynb", nbformat.NO_CONVERT)
    text = next(cell.source for cell in notebook.cells if cell.id == "real")
    rows = [line for line in text.split("\n") if line.startswith("| ") and "`" in line]
    expected = {
        (f"(`{run['config']['corpus']}`)", f"`{run['config']['model']}`"): (
            f"{run['parameters'] / 1e6:.1f} million",
            f"{run['steps']:,}",
            f"{run['bleu']:.1f}",
        )
        for run in runs.values()
    }
    found = {}
    for row in rows:
        corpus, model, *numbers = (part.strip() for part in row.strip("|").split("|"))
        found[corpus.split()[-1], model] = tuple(numbers)
    assert found == expected
