"""The runs on CIFAR-10: in order, comparable, and quoted in chapter 8 as they are stored."""

import json

import nbformat
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnbook.data.images import Images
from attnbook.losses import parameters


@pytest.fixture(scope="module")
def runs(root):
    return {
        path: json.loads(path.read_text("utf-8")) for path in root.glob("results/images/*.json")
    }


@pytest.fixture
def images(script):
    return script("results/images.py")


@pytest.fixture(scope="module")
def chapter(root):
    """Chapter 8 with its deeper pages."""
    pages = [nbformat.read(path, nbformat.NO_CONVERT) for path in root.glob("book/08-*.ipynb")]
    return "\n".join(cell.source for page in pages for cell in page.cells)


def cpu(runs):
    """The runs of the setting "cpu" with its own plan, by model."""
    plan = {"setting": "cpu", "images": 45_000, "seed": 0}
    found = [run for run in runs.values() if plan.items() <= run["config"].items()]
    return {run["config"]["model"]: run for run in found}


def test_a_command_given_again_finds_its_own_run(runs, images):
    for path, run in runs.items():
        options = images.arguments().parse_args(run["provenance"]["command"].split()[2:])
        assert images.chosen(options) == run["config"]
        assert path.stem == images.named(run["config"])
        assert all(run["provenance"][name] for name in ("date", "commit", "processor", "python"))
        assert run["data"] in ("cifar10", "cifar10-jpeg")


def test_a_run_is_in_order(runs):
    for run in runs.values():
        epochs, found = zip(*run["validation"], strict=True)
        assert epochs == tuple(range(1, run["config"]["epochs"] + 1))
        assert run["steps"] == epochs[-1] * (run["config"]["images"] // run["config"]["batch"])
        assert run["chance"] == 0.1 < found[0] and 0.1 < run["test_accuracy"] < 1
        assert abs(run["test_accuracy"] - found[-1]) < 0.03  # 5,000 and 10,000 pictures


def test_numbers_of_parameters_are_those_of_the_models(runs, images):
    for run in runs.values():
        with torch.device("meta"):
            model = images.MODELS[run["config"]["model"]](run["config"])
        assert parameters(model) == run["parameters"]


def test_both_networks_are_equally_large_and_were_trained_alike(runs, images):
    found = cpu(runs)
    assert set(found) == {"vit", "cnn", "linear"}
    plans = [
        {name: value for name, value in run["config"].items() if name != "model"}
        for run in found.values()
    ]
    assert plans[0] == plans[1] == plans[2]
    assert abs(found["vit"]["parameters"] / found["cnn"]["parameters"] - 1) < 0.02
    for setting in images.SETTINGS.values():
        with torch.device("meta"):
            sizes = [parameters(images.MODELS[name](setting)) for name in ("vit", "cnn")]
        assert abs(sizes[0] / sizes[1] - 1) < 0.02


def test_the_larger_setting_has_the_published_models_size_and_a_tenth_of_its_epochs(images):
    sizes = {"patch": 4, "width": 256, "hidden": 512, "heads": 8, "depth": 6, "batch": 128}
    assert (sizes | {"epochs": 18}).items() <= images.SETTINGS["gpu"].items()


def test_the_convolutional_network_computes_nearly_twice_as_much(runs, images):
    found = {}
    for name in ("vit", "cnn"):
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            images.MODELS[name](images.SETTINGS["cpu"]).eval()(torch.empty(1, 3, 32, 32))
        found[name] = counter.get_total_flops()
    assert 1.6 < found["cnn"] / found["vit"] < 2


def test_the_chapter_says_what_is_stored(runs, chapter):
    found = cpu(runs)
    words = {
        "linear": "logistic regression",
        "vit": "vision transformer",
        "cnn": "convolutional network",
    }
    expected = {
        f"| {words[name]} | {run['parameters']:,} | {run['config']['epochs']} "
        f"| {100 * run['test_accuracy']:.1f} % |"
        for name, run in found.items()
    }
    assert {line for line in chapter.split("\n") if line.endswith(" % |")} == expected
    assert {run["data"] for run in found.values()} == {"cifar10-jpeg"}
    assert "a JPEG-compressed copy of CIFAR-10" in chapter
    likeness = found["vit"]["position_similarity"]
    beside, below, far = (likeness[r][c] for r, c in ((0, 1), (1, 0), (3, 3)))
    near, nearest = sorted((beside, below))
    assert f"neighbours have a cosine of {near:.1f} to {nearest:.1f}" in chapter
    assert f"three rows and columns apart −{-far:.2f}" in chapter
    assert f"alike again, with a cosine of {likeness[0][7]:.2f}" in chapter


def test_position_similarity_of_positions_that_count_rows_only(images):
    model = images.small_vit(images.SETTINGS["cpu"])
    rows = torch.eye(64)[:8].repeat_interleave(8, 0)  # equal in a row, orthogonal otherwise
    model.positions.table.data = rows
    found = images.position_similarity(model)
    assert found[0] == [1.0] * 8 and all(row == [0.0] * 8 for row in found[1:])


def toy(N=64):
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (N + 5000, 3, 32, 32), generator=generator, dtype=torch.uint8)
    labels = torch.arange(N + 5000) % 10
    return Images("cifar10", pixels, labels, pixels[:500], labels[:500], [*"abcdefghij"])


def test_training_and_validation_share_no_picture(images):
    data = toy()
    kept, (pixels, labels) = images.divided(data, 64)
    assert len(kept.train) == 64 and len(pixels) == len(labels) == 5000
    assert torch.equal(torch.cat([kept.train, pixels]), data.train)


@pytest.mark.parametrize("setting", ["cpu", "gpu"])
def test_two_steps_of_each_setting(images, setting, monkeypatch, tmp_path):
    data = toy()
    small = data.test[:20], data.test_labels[:20]
    monkeypatch.setattr(images.images, "load", lambda _: data)
    monkeypatch.setattr(images, "divided", lambda data, count: (data, small))
    monkeypatch.setattr(images, "accuracy", lambda *_, **__: 0.5)
    options = ["--setting", setting, "--images", "16", "--epochs", "2"]
    config = images.chosen(images.arguments().parse_args(options)) | {"batch": 8}
    config["epochs"] = 1  # two batches of eight
    result = images.measure(config, tmp_path / "checkpoint")
    assert result["steps"] == 2 and result["training_seconds"] >= 0
