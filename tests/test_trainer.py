"""`attnbook train lm` on one process: what it refuses, writes, resumes, and what can be opened."""

import inspect
import itertools
import json
import os
import re
import signal
import sys
import types
from contextlib import nullcontext
from itertools import chain

import pytest
import torch

from attnbook import cli
from attnbook.data.text import consecutive
from attnbook.models import book_lm, load
from attnbook.train import token_loss, train
from attnbook.trainer import checkpoints, jobs, log, loop
from attnbook.trainer.batches import Batches, check_shares
from attnbook.trainer.corpus import prepare
from attnbook.trainer.loop import CHECKED, Training, optimizer_of, rate
from attnbook.trainer.settings import Recipe, flat, resumed, settings
from attnbook.trainer.team import KINDS

POEM = "The quick brown fox jumps over the lazy dog; 1 + 1 = 2.\nÄ, 注意力!\n"
SMALL = {"vocabulary": 270, "width": 12, "depth": 2, "heads": 2, "kv_heads": 1, "context": 7}
QUICK = {"batch": 6, "lr": 0.01, "warmup": 2, "log_every": 1, "threads": 1, "device": "cpu"}


@pytest.fixture
def words(tmp_path):
    """A command for a small run, and what it is given beside."""
    text = tmp_path / "poem.txt"
    text.write_text(POEM * 60, encoding="utf-8")
    given = {"data": text, "out": tmp_path / "run", **SMALL, **QUICK}

    def command(*more, **other):
        named = given | other
        flags = [[f"--{name.replace('_', '-')}", str(value)] for name, value in named.items()]
        return ["train", "lm", *chain.from_iterable(flags), *more]

    return command


def numbers(folder, name="loss"):
    """{step: number} of a run's log."""
    found = log.lines(folder / log.FILE)
    return {line["step"]: line[name] for line in found if name in line}


def weights(folder):
    return load(folder).model.state_dict()


def test_what_it_writes_can_be_opened_and_written_with(words, tmp_path, capsys):
    assert cli.main(words(steps=8)) == 0
    told = capsys.readouterr().out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["width"] == 12 and config["optimizer"] == "adamw" and config["hidden"] == 30
    assert f"config: {json.dumps(config)}" in told
    losses = numbers(tmp_path / "run")
    assert list(losses) == list(range(1, 9)) and losses[8] < losses[1]
    lm = load(tmp_path / "run")
    assert lm.decode(lm.encode(POEM)) == POEM
    assert lm.card["steps"] == 8 and lm.card["nats_per_token"] == numbers(
        tmp_path / "run", "validation"
    ).pop(8)
    assert not cli.main(["write", str(tmp_path / "run"), "The quick", "--tokens", "5"])
    assert capsys.readouterr().out.startswith("The quick")


def test_the_loop_takes_the_steps_of_the_books_own(words, tmp_path):
    """`attnbook.train.train`, given the same windows: an independent loop, to the last digit."""
    assert cli.main(words(steps=6, evaluate_every=3)) == 0
    chosen = settings(json.loads((tmp_path / "run" / "config.json").read_text()))
    corpus = prepare("", 0, tmp_path / "run")  # what lies there is taken
    batches = Batches(corpus.train, 7, 6, chosen.seed)
    torch.manual_seed(chosen.seed)
    model = book_lm(**chosen.sizes.of_model())
    step = itertools.count()
    history = train(
        model,
        lambda generator: batches.pieces(next(step))[0],
        lambda model, batch: token_loss(model(batch[0]), batch[1]),
        steps=6,
        optimizer=optimizer_of(model, chosen.recipe),
        schedule=lambda step: rate(chosen.recipe, step, step / 6),
        progress=False,
    )
    assert history.loss == list(numbers(tmp_path / "run").values())
    assert history.grad_norm == list(numbers(tmp_path / "run", "grad_norm").values())


def test_the_held_out_loss_is_that_of_the_opened_model(words, tmp_path):
    assert cli.main(words(steps=3)) == 0
    lm, corpus = load(tmp_path / "run"), prepare("", 0, tmp_path / "run")
    x, y = consecutive(corpus.validation.long(), 7)
    with torch.no_grad():
        value = token_loss(lm.model(x[:CHECKED]), y[:CHECKED]).item()
    assert lm.card["nats_per_token"] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_in_two_parts_is_the_run_in_one(optimizer, words, tmp_path):
    """The second part has not even the text any more."""
    whole, two = tmp_path / "whole", tmp_path / "two"
    for out in (whole, two):
        made = words(out=out, optimizer=optimizer, steps=7, save_every=3, evaluate_every=4)
        assert cli.main(made) == 0
    checkpoints.saved(two)[-1].rename(two / "gone")  # as if it had been killed after step 6
    (tmp_path / "poem.txt").unlink()
    assert cli.main(["train", "lm", "--resume", "--out", str(two)]) == 0
    assert numbers(two) == numbers(whole)
    assert numbers(two, "validation") == numbers(whole, "validation")
    one, other = weights(whole), weights(two)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_resuming_goes_on(number, words, tmp_path, capsys, monkeypatch):
    assert cli.main(words(steps=6, out=tmp_path / "whole")) == 0
    step = Training.step

    def interrupted(self, spent):
        if self.at.step == 3:
            os.kill(os.getpid(), number)
        return step(self, spent)

    monkeypatch.setattr(Training, "step", interrupted)
    assert cli.main(words(steps=6)) == 128 + number
    assert "stopped and saved" in capsys.readouterr().out
    assert checkpoints.saved(tmp_path / "run")[-1].name == "step-000004"
    monkeypatch.undo()
    assert cli.main(["train", "lm", "--resume", "--out", str(tmp_path / "run")]) == 0
    assert numbers(tmp_path / "run") == numbers(tmp_path / "whole")


def test_accumulating_changes_the_memory_and_not_the_numbers(words, tmp_path):
    assert cli.main(words(steps=4, out=tmp_path / "whole")) == 0
    assert cli.main(words(steps=4, accumulate=3)) == 0
    one, other = numbers(tmp_path / "whole"), numbers(tmp_path / "run")
    assert all(other[step] == pytest.approx(one[step], abs=2e-6) for step in one)


def test_minutes_end_a_run_and_a_longer_one_goes_on(words, tmp_path, monkeypatch):
    """A step takes an eighth of a second by this clock, which is read before and after it."""
    ticks = itertools.count()
    clock = types.SimpleNamespace(perf_counter=lambda: next(ticks) / 8)
    monkeypatch.setattr(loop, "time", clock)
    assert cli.main(words(minutes=0.025, schedule="trapezoid", warmup=0)) == 0
    rates = list(numbers(tmp_path / "run", "lr").values())
    assert len(rates) == 12 and rates[:9] == [0.01] * 9
    assert rates[9] > rates[10] > rates[11] > 0  # the last fifth falls
    more = ["train", "lm", "--resume", "--minutes", "0.0375", "--out", str(tmp_path / "run")]
    assert cli.main(more) == 0
    assert max(numbers(tmp_path / "run")) == 18


REFUSED = {
    "no text nowhere.txt": {"data": "nowhere.txt"},
    "width 12 does not divide into 5 heads": {"heads": 5},
    "2 heads do not share 3": {"kv_heads": 3},
    "vocabulary is 100": {"vocabulary": 100},
    "batch is 0": {"batch": 0},
    "lr is -1.0": {"lr": -1},
    "either --steps or --minutes": {"minutes": 3},
    "optimizer is 'sgd'": {"optimizer": "sgd"},
    "muon works on whole matrices": {"optimizer": "muon", "parallel": "fsdp"},
    "needs several processes: torchrun": {"parallel": "ddp"},
    "cannot be dealt out evenly": {"accumulate": 4},
    "warmup of 50 does not fit": {"warmup": 50},
    "there is no mps": {"device": "mps"},
}


@pytest.mark.parametrize("told", REFUSED)
def test_bad_input_is_one_line_before_any_work(told, words, tmp_path, capsys):
    assert cli.main(words(**{"steps": 8} | REFUSED[told])) == 1
    said = capsys.readouterr()
    assert told in said.err and said.err.count("\n") == 1 and said.out == ""
    assert not (tmp_path / "run").exists()


def test_more_processes_than_it_was_told_of(words, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert cli.main(words(steps=8)) == 1
    assert "add --parallel ddp or fsdp" in capsys.readouterr().err


def test_a_folder_is_not_trained_over_and_not_resumed_as_another(words, tmp_path, capsys):
    assert cli.main(["train", "lm", "--resume", "--out", str(tmp_path / "run")]) == 1
    assert "there is no run" in capsys.readouterr().err
    assert cli.main(words(steps=2, warmup=0)) == 0
    before = (tmp_path / "run" / "log.jsonl").read_bytes()
    capsys.readouterr()
    assert cli.main(words(steps=2, warmup=0)) == 1
    assert "--resume goes on" in capsys.readouterr().err
    assert cli.main(words("--resume", steps=2, warmup=0, width=24)) == 1
    assert "width 12 there, 24 here" in capsys.readouterr().err
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == before


def test_a_text_that_is_too_short_or_none_says_so(words, tmp_path, capsys):
    (tmp_path / "short.txt").write_text("Too short.")
    assert cli.main(words(steps=8, data=tmp_path / "short.txt")) == 1
    assert "too few for a batch of 6 windows of 7" in capsys.readouterr().err
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\xff\xfe")
    assert cli.main(words(steps=8, data=tmp_path / "picture.txt")) == 1
    assert "no text in UTF-8" in capsys.readouterr().err
    assert cli.main(words(steps=2, warmup=0)) == 0  # the same folder, as if it were new


def test_a_folder_of_texts_is_read_whole(tmp_path):
    texts = tmp_path / "texts"
    (texts / "more").mkdir(parents=True)
    (texts / "a.txt").write_text(POEM * 9, encoding="utf-8")
    (texts / "more" / "b.md").write_text(POEM.upper() * 9, encoding="utf-8")
    (texts / "c.png").write_bytes(b"\xff")
    (tmp_path / "run").mkdir()
    corpus = prepare(str(texts), 300, tmp_path / "run")
    both = torch.cat((corpus.train, corpus.validation)).tolist()
    read = corpus.tokenizer.decode(both, skip_special_tokens=True)
    assert read == POEM * 9 + POEM.upper() * 9
    assert corpus.counts.train == len(corpus.train) > 5 * len(corpus.validation) > 0


def test_no_two_ranks_share_a_token_and_an_epoch_reads_each_window_once():
    tokens = torch.arange(103, dtype=torch.int16)
    batches = Batches(tokens, T=5, B=4, seed=1)
    for epoch in range(3):
        seen: list[int] = []
        for step in range(epoch * batches.steps, (epoch + 1) * batches.steps):
            for rank in range(2):
                for _, targets in batches.pieces(step, rank, 2, 2):
                    assert targets.shape == (1, 5)
                    seen += targets.flatten().tolist()
        assert len(seen) == len(set(seen)) == batches.steps * 20
    assert torch.equal(Batches(tokens, 5, 4, 1).first(7), batches.first(7))  # no need to read on
    assert not torch.equal(Batches(tokens, 5, 4, 2).first(7), batches.first(7))


def test_gradients_are_sent_after_the_last_piece_only():
    class Model:
        def no_sync(self):
            return "kept"

        def set_requires_gradient_sync(self, sent):
            self.sent = sent

    model = Model()
    replicas, shards = (object.__new__(kind) for kind in (KINDS["ddp"], KINDS["fsdp"]))
    unsent = inspect.unwrap(KINDS["ddp"].unsent)  # without the check of types: `Model` is none
    assert unsent(replicas, model, False) == "kept"
    assert isinstance(unsent(replicas, model, True), nullcontext)
    for last in (False, True):
        inspect.unwrap(KINDS["fsdp"].unsent)(shards, model, last)
        assert model.sent is last


def test_a_batch_is_the_same_however_many_read_it():
    tokens = torch.arange(200, dtype=torch.int16)
    batches = Batches(tokens, T=3, B=8)
    whole = torch.cat([x for x, _ in batches.pieces(2)])
    dealt = [x for rank in range(4) for x, _ in batches.pieces(2, rank, 4, 2)]
    assert torch.equal(torch.cat(dealt), whole)
    with pytest.raises(ValueError, match="multiple of 12"):
        check_shares(8, 4, 3)


def test_the_schedule_follows_what_is_spent():
    assert rate(Recipe(warmup=4), 0, 0.0) == 0.25
    assert rate(Recipe(warmup=0, schedule="constant"), 9, 0.9) == 1
    assert rate(Recipe(warmup=0), 9, 0.5) == pytest.approx(0.55, abs=1e-5)
    assert rate(Recipe(warmup=0, schedule="trapezoid"), 9, 0.9) == pytest.approx(0.5, abs=1e-5)


def test_settings_survive_being_stored():
    made = settings({"steps": 9, "warmup": 1, "width": 24, "heads": 3, "dtype": "bfloat16"})
    stored = json.loads(json.dumps(flat(made)))
    assert resumed(stored, {}) == made
    assert resumed(stored, {"minutes": 2.0}).budget.steps is None
    with pytest.raises(ValueError, match="dtype bfloat16 there, float32 here"):
        resumed(stored, {"dtype": "float32"})


def test_tensorboard_gets_the_same_numbers_when_it_is_there(words, tmp_path, monkeypatch, capsys):
    got = {}

    class Writer:
        def __init__(self, folder, purge_step):
            assert folder.endswith("tensorboard") and purge_step == 1

        def add_scalar(self, name, value, step):
            got[name, step] = value

        def close(self):
            got["closed"] = True

    fake = types.SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    assert cli.main(words(steps=3)) == 0
    assert log.NO_TENSORBOARD not in capsys.readouterr().out
    assert got["closed"] and {s: got["loss", s] for s in (1, 2, 3)} == numbers(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert cli.main(words(steps=3, out=tmp_path / "without")) == 0
    assert capsys.readouterr().out.count(log.NO_TENSORBOARD) == 1


def test_a_gradient_that_is_no_number_ends_it_before_the_weights_do(words, tmp_path, capsys):
    assert cli.main(words(steps=3, save_every=1)) == 0
    run = tmp_path / "run"
    more = ["train", "lm", "--resume", "--steps", "5", "--out", str(run)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "loss", lambda self, piece: self.model.to_vocab.weight.sum() * 1e99)
        assert cli.main(more) == 1
    assert "step 4: the gradient is inf" in capsys.readouterr().err
    assert checkpoints.saved(run)[-1].name == "step-000003"
    assert cli.main(more) == 0


def test_a_damaged_checkpoint_is_named(words, tmp_path, capsys):
    assert cli.main(words(steps=4, save_every=2)) == 0
    newest = checkpoints.saved(tmp_path / "run")[-1]
    (newest / ".metadata").write_bytes(b"")
    more = ["train", "lm", "--resume", "--steps", "5", "--out", str(tmp_path / "run")]
    assert cli.main(more) == 1
    assert "step-000004 is damaged" in capsys.readouterr().err


def test_what_help_shows_is_understood(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "lm", "--help"])
    told = capsys.readouterr().out
    shown = re.sub(r"\\\n\s+", "", told[told.index("examples:") :])
    lines = re.findall(r"(?<=attnbook )train lm .*?(?=  \s|\n)", shown)
    assert len(lines) == 6
    for line in lines:
        assert cli.parser().parse_args(line.split()).out


def test_precision_and_compiling_are_passed_on(words, tmp_path):
    given = jobs.chosen({"steps": 3, "warmup": 0, "dtype": "bfloat16"}, tmp_path / "run", False)
    assert flat(given)["dtype"] == "bfloat16"
    assert cli.main(words(steps=3, dtype="bfloat16")) == 0
    assert cli.main(words(steps=3, out=tmp_path / "exact")) == 0
    one, other = numbers(tmp_path / "run"), numbers(tmp_path / "exact")
    assert one[3] != other[3] and one[3] == pytest.approx(other[3], abs=0.05)
