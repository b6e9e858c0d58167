"""`attnbook train lm` on one process: what it refuses, writes, resumes, and what can be opened."""

import inspect
import itertools
import json
import math
import os
import re
import signal
import sys
import types
from contextlib import nullcontext
from itertools import chain

import pytest
import tokenizers
import torch

from attnbook import cli
from attnbook.data.text import consecutive
from attnbook.losses import token_loss
from attnbook.models.book import book_lm
from attnbook.models.hub import save
from attnbook.models.registry import families
from attnbook.shipped.language import load
from attnbook.train import run as run_module
from attnbook.train.cli import job, log
from attnbook.train.cli.batches import Batches, check_divides
from attnbook.train.cli.config import from_flat, resume, to_flat
from attnbook.train.cli.corpus import prepare
from attnbook.train.cli.job import DECAYS, EVALUATED, build_optimizer
from attnbook.train.run import Callback, OverBudget, Run
from attnbook.train.sharded_checkpoint import saved
from attnbook.train.strategy import STRATEGIES

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
    found = log.read_lines(folder / log.FILE)
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


@pytest.fixture
def published(tmp_path):
    """A folder of a language model as others publish them: its tokens are letters."""
    letters = {letter: i for i, letter in enumerate("_.abcdef")}
    split = tokenizers.pre_tokenizers.Split("", "isolated")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, unk_token="_"))
    words.pre_tokenizer, words.decoder = split, tokenizers.decoders.Fuse()
    torch.manual_seed(0)
    config = {"model_type": "llama", "vocab_size": 8, "hidden_size": 12, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "intermediate_size": 8, "rms_norm_eps": 1e-6}
    config |= {"max_position_embeddings": 64, "eos_token_id": 1}
    save(families()["llama"].build(config), tmp_path / "llama", config)
    words.save(str(tmp_path / "llama" / "tokenizer.json"))
    return tmp_path / "llama"


def test_a_published_model_writes_and_ends_where_it_says(published, capsys):
    assert not cli.main(["write", str(published), "abc", "--tokens", "50", "--seed", "3"])
    text = capsys.readouterr().out.strip()
    assert text.startswith("abc") and 4 < len(text) < 53
    assert text.index(".") == len(text) - 1  # the token that ends a text

    config = json.loads((published / "config.json").read_text())
    (published / "config.json").write_text(json.dumps(config | {"eos_token_id": [1, 2]}))
    assert not cli.main(["write", str(published), "abc", "--tokens", "50", "--seed", "3"])
    assert capsys.readouterr().out.strip() == text[: min(text.find("a", 3) + 1 or 99, len(text))]


def test_a_published_model_that_does_not_write_is_refused(published, capsys):
    config = {"model_type": "bert", "vocab_size": 8, "hidden_size": 12, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 9}
    config |= {"type_vocab_size": 2}
    save(families()["bert"].build(config), published, config)
    assert cli.main(["write", str(published), "abc"]) == 1
    assert "does not write: it is no language model" in capsys.readouterr().err
    assert cli.main(["write", "no-such-model", "abc"]) == 1
    assert "there is no model 'no-such-model'" in capsys.readouterr().err


def test_a_run_takes_the_steps_of_a_loop_written_by_hand(words, tmp_path):
    """To the last digit: the same windows, the optimizer's own step, the rate of the schedule."""
    assert cli.main(words(steps=6, evaluate_every=3)) == 0
    config = from_flat(json.loads((tmp_path / "run" / "config.json").read_text()))
    corpus = prepare("", 0, tmp_path / "run")  # what lies there is taken
    batches = Batches(corpus.train, 7, 6, config.seed)
    torch.manual_seed(config.seed)
    model = book_lm(config.model)
    optimizer = build_optimizer(model, config.optim)
    losses, norms = [], []
    for step in range(6):
        for group in optimizer.param_groups:
            up = min(1.0, (step + 1) / 2)
            group["lr"] = 0.01 * (up * (0.1 + 0.45 * (1 + math.cos(math.pi * step / 6))))
        ((inputs, targets),) = batches.micro_batches(step)
        loss = token_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        losses.append(loss.item())
        optimizer.step()
    assert losses == pytest.approx(list(numbers(tmp_path / "run").values()), abs=1e-6)
    assert norms == pytest.approx(list(numbers(tmp_path / "run", "grad_norm").values()), abs=1e-6)


def test_the_held_out_loss_is_that_of_the_opened_model(words, tmp_path):
    assert cli.main(words(steps=3)) == 0
    lm, corpus = load(tmp_path / "run"), prepare("", 0, tmp_path / "run")
    x, y = consecutive(corpus.validation.long(), 7)
    with torch.no_grad():
        value = token_loss(lm.model(x[:EVALUATED]), y[:EVALUATED]).item()
    assert lm.card["nats_per_token"] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_in_two_parts_is_the_run_in_one(optimizer, words, tmp_path):
    """The second part has not even the text any more."""
    whole, two = tmp_path / "whole", tmp_path / "two"
    for out in (whole, two):
        made = words(out=out, optimizer=optimizer, steps=7, save_every=3, evaluate_every=4)
        assert cli.main(made) == 0
    saved(two)[-1].rename(two / "gone")  # as if it had been killed after step 6
    (tmp_path / "poem.txt").unlink()
    assert cli.main(["train", "lm", "--resume", "--out", str(two)]) == 0
    assert numbers(two) == numbers(whole)
    assert numbers(two, "validation") == numbers(whole, "validation")
    one, other = weights(whole), weights(two)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_resuming_goes_on(number, words, tmp_path, capsys, monkeypatch):
    assert cli.main(words(steps=6, out=tmp_path / "whole")) == 0
    record_loss = Run.record_loss

    def interrupted(self, norm):
        if self.history.steps == 3:
            os.kill(os.getpid(), number)
        return record_loss(self, norm)

    monkeypatch.setattr(Run, "record_loss", interrupted)
    assert cli.main(words(steps=6)) == 128 + number
    assert "stopped and saved" in capsys.readouterr().out
    assert saved(tmp_path / "run")[-1].name == "step-000004"
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
    monkeypatch.setattr(run_module, "time", clock)
    assert cli.main(words(minutes=0.025, schedule="trapezoid", warmup=0)) == 0
    rates = list(numbers(tmp_path / "run", "lr").values())
    assert len(rates) == 12 and rates[:9] == [0.01] * 9
    assert rates[9] > rates[10] > rates[11] > 0  # the last fifth falls
    more = ["train", "lm", "--resume", "--minutes", "0.0375", "--out", str(tmp_path / "run")]
    assert cli.main(more) == 0
    assert max(numbers(tmp_path / "run")) == 18


def test_a_checkpoint_is_written_every_few_minutes_of_steps(words, tmp_path, monkeypatch):
    """A step takes an eighth of a second by this clock; what a kill at step 11 would leave."""
    ticks = itertools.count()
    clock = types.SimpleNamespace(perf_counter=lambda: next(ticks) / 8)
    monkeypatch.setattr(run_module, "time", clock)
    found = []

    class Watch(Callback):
        def on_step(self, run):
            found.append([path.name for path in saved(tmp_path / "run")][-1:])

    monkeypatch.setattr(job, "OnTerminate", Watch)
    assert cli.main(words(steps=12, save_minutes=0.5 / 60)) == 0
    assert found[:4] == [[]] * 4 and found[4] == ["step-000004"]
    assert found[-1] == ["step-000008"]


REFUSED = {
    "no text nowhere.txt": {"data": "nowhere.txt"},
    "width 12 does not divide into 5 heads": {"heads": 5},
    "2 query heads cannot share 3": {"kv_heads": 3},
    "vocabulary is 100": {"vocabulary": 100},
    "batch is 0": {"batch": 0},
    "lr is -1.0": {"lr": -1},
    "either --steps or --minutes": {"minutes": 3},
    "optimizer is 'sgd'": {"optimizer": "sgd"},
    "muon works on whole matrices": {"optimizer": "muon", "parallel": "fsdp"},
    "needs several processes: torchrun": {"parallel": "ddp"},
    "cannot be divided evenly": {"accumulate": 4},
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
    (tmp_path / "tiny.txt").write_text("ab")
    assert cli.main(words(steps=8, data=tmp_path / "tiny.txt")) == 1
    assert "has 2 characters: too few to train on" in capsys.readouterr().err
    (tmp_path / "none.txt").touch()
    assert cli.main(words(steps=8, data=tmp_path / "none.txt")) == 1
    assert "is empty" in capsys.readouterr().err
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\xff\xfe")
    assert cli.main(words(steps=8, data=tmp_path / "picture.txt")) == 1
    assert "no text in UTF-8" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()  # nothing is left of what was refused
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
    ranks = [Batches(tokens, 5, 4, 1, rank, 2, 2) for rank in range(2)]
    for epoch in range(3):
        seen: list[int] = []
        for step in range(epoch * ranks[0].steps, (epoch + 1) * ranks[0].steps):
            for batches in ranks:
                for _, targets in batches.micro_batches(step):
                    assert targets.shape == (1, 5)
                    seen += targets.flatten().tolist()
        assert len(seen) == len(set(seen)) == ranks[0].steps * 20
    one = Batches(tokens, 5, 4, 1)
    assert torch.equal(Batches(tokens, 5, 4, 1).first(7), one.first(7))  # no need to read on
    assert not torch.equal(Batches(tokens, 5, 4, 2).first(7), one.first(7))


def test_gradients_are_synchronised_after_the_last_micro_batch_only():
    class Model:
        def no_sync(self):
            return "kept"

        def set_requires_gradient_sync(self, sent):
            self.sent = sent

    model = Model()
    replicas, shards = (object.__new__(STRATEGIES[name]) for name in ("ddp", "fsdp"))
    no_sync = inspect.unwrap(STRATEGIES["ddp"].no_sync)  # without the check of types
    assert no_sync(replicas, model, False) == "kept"
    assert isinstance(no_sync(replicas, model, True), nullcontext)
    for last in (False, True):
        inspect.unwrap(STRATEGIES["fsdp"].no_sync)(shards, model, last)
        assert model.sent is last


def test_a_batch_is_the_same_however_many_read_it():
    tokens = torch.arange(200, dtype=torch.int16)
    whole = torch.cat([x for x, _ in Batches(tokens, T=3, B=8).micro_batches(2)])
    ranks = [Batches(tokens, 3, 8, 0, rank, 4, 2) for rank in range(4)]
    assert torch.equal(torch.cat([x for each in ranks for x, _ in each.micro_batches(2)]), whole)
    ranks[1].drawn = 4  # as after two steps
    drawn = [ranks[1](torch.Generator())[0] for _ in range(4)]
    assert torch.equal(torch.cat(drawn[:2]), torch.cat([x for x, _ in ranks[1].micro_batches(2)]))
    assert torch.equal(drawn[3], ranks[1].micro_batches(3)[1][0])
    with pytest.raises(ValueError, match="multiple of 12"):
        check_divides(8, 4, 3)


def test_the_schedule_follows_what_is_spent():
    def factor(step, spent, warmup=0, schedule="cosine"):
        return OverBudget(DECAYS[schedule], warmup).factor(step, spent)

    assert factor(0, 0.0, warmup=4) == 0.25
    assert factor(9, 0.9, schedule="constant") == 1
    assert factor(9, 0.5) == pytest.approx(0.55)
    assert factor(9, 0.9, schedule="trapezoid") == pytest.approx(0.5)


def test_a_config_survives_being_stored():
    made = from_flat({"steps": 9, "warmup": 1, "width": 24, "heads": 3, "dtype": "bfloat16"})
    stored = json.loads(json.dumps(to_flat(made)))
    assert resume(stored, {}) == made
    assert resume(stored, {"minutes": 2.0}).train.steps is None
    with pytest.raises(ValueError, match="dtype bfloat16 there, float32 here"):
        resume(stored, {"dtype": "float32"})


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
        patch.setattr(
            job, "batch_loss", lambda model, batch, **_: model.lm_head.weight.sum() * 1e99
        )
        assert cli.main(more) == 1
    assert re.search("step 4: loss .*gradient norm inf.*lower --lr", capsys.readouterr().err)
    assert saved(run)[-1].name == "step-000003"
    assert cli.main(more) == 0


def test_a_damaged_checkpoint_is_named(words, tmp_path, capsys):
    assert cli.main(words(steps=4, save_every=2)) == 0
    newest = saved(tmp_path / "run")[-1]
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
    given = job.check({"steps": 3, "warmup": 0, "dtype": "bfloat16"}, tmp_path / "run", False)
    assert to_flat(given)["dtype"] == "bfloat16"
    assert cli.main(words(steps=3, dtype="bfloat16")) == 0
    assert cli.main(words(steps=3, out=tmp_path / "exact")) == 0
    one, other = numbers(tmp_path / "run"), numbers(tmp_path / "exact")
    assert one[3] != other[3] and one[3] == pytest.approx(other[3], abs=0.05)
