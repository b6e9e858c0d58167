"""One change at a time: the variants are equal in size and the book quotes what is stored."""

import ast
import json
import re
import statistics

import nbformat
import pytest
import torch

from attnbook import device
from attnbook.data import text
from attnbook.experts import active_parameters
from attnbook.losses import parameters
from attnbook.models.llama import llama
from attnbook.models.vaswani import vaswani_2017
from attnbook.train.run import NonFiniteLoss

LENGTHS = ("report", "report at 128", "report at 256")


@pytest.fixture(scope="module")
def runs(root):
    stored = (json.loads(path.read_text("utf-8")) for path in root.glob("results/tweaks/*.json"))
    return {run["variant"]: run for run in stored}


@pytest.fixture
def tweaks(script):
    return script("results/tweaks.py")


@pytest.fixture(scope="module")
def cells(root):
    pages = [nbformat.read(path, nbformat.NO_CONVERT) for path in root.glob("book/09-deeper-*")]
    return {cell.id: cell.source for page in pages for cell in page.cells}


def test_every_variant_was_measured_under_the_settings_of_the_script(runs, tweaks, root):
    assert set(runs) == set(tweaks.VARIANTS)
    for name, run in runs.items():
        assert (root / f"results/tweaks/{tweaks.named(name)}.json").exists()
        assert run["config"] == tweaks.CONFIG and run["changes"] == tweaks.VARIANTS[name]
        assert run["provenance"]["command"].startswith("python results/tweaks.py")
        assert all(run["provenance"][key] for key in ("date", "commit", "processor", "python"))


def test_the_rule_for_the_learning_rate_was_kept(runs, tweaks):
    """The best of those tried is no end of them, and the seeds that are reported used it."""
    for run in runs.values():
        assert {one["lr"] for one in run["tuning"]} >= set(tweaks.CONFIG["rates"])
        assert {one["seed"] for one in run["tuning"]} == {0}
        assert tweaks.beyond(run["tuning"]) is None
        rates = {one["lr"] for one in run["runs"]}
        assert rates == {run["summary"]["lr"]} == {tweaks.chosen(run["tuning"])}
        assert [one["seed"] for one in run["runs"]] == tweaks.CONFIG["seeds"]
        assert run["summary"]["values"] == [one["report"] for one in run["runs"]]
        assert run["summary"] == tweaks.summary(run["tuning"], run["runs"])


def test_all_variants_are_equally_large(runs, tweaks):
    """Within half a percent of the base; of a mixture what works on a token, or all of it."""
    V, goal = len(text.load().characters), runs["base"]["parameters"]
    for name, run in runs.items():
        with torch.device("meta"):
            model = tweaks.build(run["changes"], run["config"], V)
        assert run["parameters"] == parameters(model)
        assert run["active_parameters"] == active_parameters(model)
        total = tweaks.parts_of(run["changes"]).get("equal") == "total"
        count = run["parameters" if total else "active_parameters"]
        assert abs(count - goal) < 0.005 * goal, name


def test_the_path_begins_at_vaswanis_decoder_and_passes_through_llama(tweaks):
    """Block by block the same weights have the same names and shapes; llama gives the same."""
    config, V = tweaks.CONFIG, 11
    base = tweaks.build([], config, V)
    theirs = vaswani_2017(V, width=48, depth=3, heads=4, hidden=192).encoder
    shapes = {name: weight.shape for name, weight in base.body.state_dict().items()}
    assert shapes == {name: weight.shape for name, weight in theirs.state_dict().items()}
    hidden = tweaks.equal_hidden(tweaks.LLAMA, config, V)
    fifth = tweaks.build(tweaks.LLAMA, config, V).eval()
    recipe = llama(V, width=48, depth=3, heads=4, hidden=hidden).eval()
    recipe.load_state_dict(fifth.state_dict())
    tokens = torch.randint(V, (2, 7))
    assert torch.equal(recipe(tokens), fifth(tokens))


def test_what_a_cache_keeps_is_what_is_stored(runs, tweaks):
    for run in runs.values():
        model = tweaks.build(run["changes"], run["config"], 11)
        assert tweaks.cache_bytes(model, run["config"]) == run["cache_bytes_per_token"]


def test_beyond_goes_on_until_the_best_is_no_end(tweaks):
    def tried(*losses):
        rates = zip((0.002, 0.005, 0.0125), losses, strict=True)
        return [{"lr": lr, "choose": loss} for lr, loss in rates]

    assert tweaks.beyond(tried(3, 2, 1)) == 0.03125
    assert tweaks.beyond(tried(3, 1, 2)) is None
    assert tweaks.beyond(tried(1, 2, None)) == 0.0008


def numbers(source):
    """The dictionary of numbers that a cell holds."""
    return ast.literal_eval(source.split("=", 1)[1].strip())


def test_the_numbers_of_chapter_9_are_what_is_stored(runs, cells, tweaks):
    alone, path = (numbers(cells[name]) for name in ("alone", "path"))
    assert set(alone) == {"base", *tweaks.ALONE} and set(path) == set(NAMES)
    for label, values in (*alone.items(), *path.items()):
        stored = runs[NAMES.get(label, label)]["summary"]["values"]
        assert values == [round(value, 3) for value in stored]


NAMES = {
    "2017": "base",
    "+ pre-norm": "pre-norm",
    "+ RMSNorm": "path 2",
    "+ SwiGLU": "path 3",
    "+ rotary": "path 4",
    "+ start of llama": "path 5",
    "+ QK-norm": "path 6",
    "+ grouped queries": "path 7",
    "+ MoE": "path 8",
    "llama, latent": "llama, latent",
    "llama, sliding window": "llama, sliding window",
}
LONGER = {
    "sinusoidal": "base",
    "none": "no positions",
    "rotary": "rotary",
    "ALiBi": "ALiBi",
    "latent": "latent",
}


def test_the_losses_at_other_lengths_are_what_is_stored(runs, cells):
    for label, values in numbers(cells["longer"]).items():
        means = [
            statistics.mean(one[key] for one in runs[LONGER[label]]["runs"]) for key in LENGTHS
        ]
        assert values == [round(mean, 3) for mean in means]


def test_what_the_chapter_says_of_the_changes_is_what_the_seeds_say(runs, cells, tweaks):
    """Better: every seed below every seed of the base. Worse: every seed above. Or neither."""
    base = runs["base"]["summary"]["values"]
    said = {"better": set(), "worse": set(), "neither": set()}
    for line in cells["alone-read"].split("\n"):
        if found := re.match(r"- \*\*(\w+)", line):
            said[found[1].lower()] = set(re.findall("`([^`]+)`", line))
    for name in tweaks.ALONE:
        values = runs[name]["summary"]["values"]
        better, worse = max(values) < min(base), min(values) > max(base)
        verdict = "better" if better else "worse" if worse else "neither"
        assert name in said[verdict], (name, verdict)
    assert sum(map(len, said.values())) == len(tweaks.ALONE)


READINGS = ["alone-read", "longer-text", "longer-read", "rope-beyond-read", "path-read"]


def test_every_loss_in_the_prose_is_a_stored_one(runs, cells):
    """To two decimals: a mean, a mean at another length, or the difference of two means."""
    means = [run["summary"]["mean"] for run in runs.values()]
    lengths = {
        statistics.mean(one[key] for one in run["runs"]) for run in runs.values() for key in LENGTHS
    }
    tuning = {one["report"] for run in runs.values() for one in run["tuning"] if one["report"]}
    known = {f"{abs(a - b):.2f}" for a in means for b in means}
    known |= {f"{value:.2f}" for value in (*means, *lengths, *tuning)}
    for name in READINGS:
        short = set(re.findall(r"(?<![\d.])[0-3]\.\d\d(?!\d)", cells[name]))
        assert short - {"0.15"} <= known, (name, short - known)


def test_post_norm_fails_at_the_rate_at_which_pre_norm_learns(runs, tweaks):
    high = {
        name: one["report"]
        for name, run in runs.items()
        for one in run["tuning"]
        if one["lr"] == 0.03125
    }
    pre = {name: loss for name, loss in high.items() if "pre-norm" in runs[name]["changes"]}
    assert pre and max(pre.values()) < 2.5
    post = {name: loss for name, loss in high.items() if name not in pre}
    assert post.pop("latent") < 2.5  # the norm inside it is enough
    assert min(post.values()) > 2.9


def test_times_of_a_step(runs, cells):
    """The fastest run of each: the others were disturbed by what else the machine did."""
    fastest = {
        name: min(one["cpu_seconds_per_step"] for one in run["tuning"] + run["runs"])
        for name, run in runs.items()
    }
    low, high = sorted(fastest[name] / fastest["base"] for name in ("MoE", "MoE, no balance"))
    said = f"took {low:.1f} to {high:.1f} times as long as one of the base"
    assert said in cells["sec-tweak-limits"]


def test_a_run_is_computed_where_its_provenance_says(tweaks, monkeypatch):
    """The device "meta" stands for a GPU: on it a run must fail at reading a number, no sooner."""
    where = []

    def trained(model, *_, **__):
        where.append(next(model.parameters()).device.type)
        raise NonFiniteLoss

    monkeypatch.setattr(tweaks, "train", trained)
    here = device.Here(torch.device("meta"), torch.float32, "gpu")
    run = tweaks.one_run([], tweaks.CONFIG, 1e-3, 0, here)
    assert where == ["meta"] and run["choose"] is None
