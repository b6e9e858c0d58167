"""The loop: it learns, repeats itself exactly, stops and resumes as if it had never stopped."""

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import namedtuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.overrides import TorchFunctionMode

from attnbook.losses import parameters, token_loss
from attnbook.train import run as run_module
from attnbook.train.loop import constant, cosine, train, trapezoid
from attnbook.train.run import Callback, NonFiniteLoss


def small():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 7), nn.Dropout(0.2), nn.Linear(7, 2))


def sampler(generator):
    x = torch.randn(5, 3, generator=generator)
    return x, (x.sum(-1) > 0).long()


def loss(model, batch):
    return cross_entropy(model(batch[0]), batch[1])


def noisy(model):
    """An evaluation that uses up random numbers and would be spoilt by dropout."""
    return {"noise": torch.rand(11).sum(), "out": model(torch.ones(1, 3))[0, 0]}


def learnt(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one | two)


OPTIONS = {"steps": 24, "every": 5, "schedule": cosine(24, warmup=3), "evaluate": noisy}


def uninterrupted():
    model = small()
    history = train(model, sampler, loss, **OPTIONS)
    return learnt(model), history


def assert_resumes(path, **changes):
    """Call again with the same options: weights and history are those of a run never stopped."""
    weights, history = uninterrupted()
    model = small()
    resumed = train(model, sampler, loss, **OPTIONS | {"checkpoint": path} | changes)
    assert same(learnt(model), weights)
    assert resumed.loss == history.loss and resumed.grad_norm == history.grad_norm
    assert resumed.evaluations == history.evaluations
    assert not resumed.interrupted


def test_it_learns():
    model = small()
    history = train(model, sampler, loss, steps=150, lr=0.03)
    assert sum(history.loss[-20:]) < 0.6 * sum(history.loss[:20])


def test_same_seed_same_weights_and_another_seed_others():
    runs = []
    for seed in (1, 1, 2):
        model = small()
        torch.rand(seed)  # whatever happened to torch's random numbers before does not matter
        train(model, sampler, loss, steps=4, seed=seed)
        runs.append(learnt(model))
    assert same(runs[0], runs[1]) and not same(runs[0], runs[2])


def test_a_step_is_the_optimizers_own_step():
    """With no clipping, three steps of SGD are three lines of arithmetic."""
    model, by_hand = nn.Linear(3, 2), nn.Linear(3, 2)
    by_hand.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    train(model, sampler, loss, steps=3, optimizer=optimizer, clip=None, schedule=lambda s: s + 1)
    generator = torch.Generator().manual_seed(0)
    for step in range(3):
        gradients = torch.autograd.grad(loss(by_hand, sampler(generator)), by_hand.parameters())
        with torch.no_grad():
            for weight, gradient in zip(by_hand.parameters(), gradients, strict=True):
                weight -= 0.5 * (step + 1) * gradient
    torch.testing.assert_close(model.weight, by_hand.weight)


def test_a_long_gradient_is_shortened_and_recorded_as_it_was():
    model = nn.Linear(3, 2)
    before = learnt(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    far = lambda model, batch: 1000 * loss(model, batch)  # noqa: E731
    history = train(model, sampler, far, steps=1, optimizer=optimizer, clip=0.25)
    moved = torch.cat([(model.state_dict()[name] - before[name]).flatten() for name in before])
    assert history.grad_norm[0] > 10
    assert moved.norm().item() == pytest.approx(0.25, rel=1e-4)


def test_evaluation_happens_every_so_often_and_at_the_end_in_evaluation_mode():
    model, seen = small(), []

    def evaluate(model):
        seen.append((model.training, torch.is_grad_enabled()))
        return 0.5

    history = train(model, sampler, loss, steps=12, every=5, evaluate=evaluate)
    assert history.evaluations == [(5, {"value": 0.5}), (10, {"value": 0.5}), (12, {"value": 0.5})]
    assert seen == [(False, False)] * 3
    assert history.evaluated() == ([5, 10, 12], [0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match=r"'bleu'.*value"):
        history.evaluated("bleu")


def test_training_does_not_notice_evaluation():
    weights = []
    for evaluate in (None, noisy):
        model = small()
        train(model, sampler, loss, steps=9, every=2, evaluate=evaluate)
        weights.append(learnt(model))
    assert same(*weights)


def test_each_part_is_left_in_the_mode_it_had():
    model = small().eval()
    model[1].train()
    seen = []
    watch = lambda model, batch: seen.append(model[0].training) or loss(model, batch)  # noqa: E731
    train(model, sampler, watch, steps=2, every=1, evaluate=lambda model: 0.0)
    assert seen == [True, True]
    assert [part.training for part in model] == [False, True, False]


def test_the_optimizer_keeps_its_rate():
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    train(model, sampler, loss, steps=6, optimizer=optimizer, schedule=cosine(6))
    assert optimizer.param_groups[0]["lr"] == 0.02


def test_the_loss_is_computed_in_the_given_precision():
    precision = lambda: torch.autocast("cpu", dtype=torch.bfloat16)  # noqa: E731
    seen = []

    def watched(model, batch):
        seen.append(model(batch[0]).dtype)
        return loss(model, batch)

    train(small(), sampler, watched, steps=2, precision=precision)
    assert seen == [torch.bfloat16] * 2


def test_every_part_of_a_batch_goes_to_the_device_of_the_model():
    Two = namedtuple("Two", "x names")
    model = nn.Linear(3, 2, device="meta")
    run = run_module.Run.__new__(run_module.Run)
    run.device = model.weight.device
    x = torch.zeros(2, 3)
    moved = run.to_device({"pair": Two(x, ["a", "b"]), "list": [x, (x, 4)]})
    assert moved["pair"].x.device.type == moved["list"][1][0].device.type == "meta"
    assert moved["pair"].names == ["a", "b"] and moved["list"][1][1] == 4


# -- stopping ---------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_stops_before_the_weights_change():
    model = small()
    states = []

    def explodes(model, batch):
        states.append(learnt(model))
        return loss(model, batch) * (math.inf if len(states) == 4 else 1)

    with pytest.raises(NonFiniteLoss, match=r"step 4: loss inf, gradient norm") as caught:
        train(model, sampler, explodes, steps=9)
    assert same(learnt(model), states[-1])
    assert caught.value.history.steps == 3


def test_a_gradient_that_is_no_number_stops_too():
    """The square root of 0 is 0, and its slope is infinite."""
    model = small()
    before = learnt(model)
    root = lambda model, batch: (0 * model[0].weight).sum().sqrt()  # noqa: E731
    with pytest.raises(NonFiniteLoss, match=r"step 1: loss 0.0, gradient norm nan"):
        train(model, sampler, root, steps=9)
    assert same(learnt(model), before)


class Readings(TorchFunctionMode):
    """Counts how often the program waits for numbers of its device."""

    count = 0

    def __torch_function__(self, function, types, args=(), named=None):
        self.count += function in (Tensor.item, Tensor.tolist, Tensor.__float__, Tensor.__bool__)
        return function(*args, **(named or {}))


class Seldom(Callback):
    """Losses are read after every fourth step: on a GPU it is every tenth."""

    def on_start(self, run):
        run.read_every = 4


def descent(model, **options):
    return train(model, sampler, optimizer=torch.optim.SGD(model.parameters(), 0.1), **options)


def test_losses_are_read_seldom_and_none_is_another():
    often, seldom = small(), small()
    expected = descent(often, loss=loss, steps=10)
    with Readings() as seen:
        history = descent(seldom, loss=loss, steps=10, callbacks=[Seldom()])
    assert seen.count == 3  # after 4 steps, after 8, at the end
    assert (history.loss, history.grad_norm) == (expected.loss, expected.grad_norm)
    assert same(learnt(seldom), learnt(often))


def test_weights_that_a_loss_has_spoilt_unseen_are_not_saved(tmp_path):
    calls = iter(range(99))
    wrong = lambda model, batch: loss(model, batch) * (math.nan if next(calls) == 5 else 1)  # noqa: E731
    options = {"steps": 9, "every": 7, "checkpoint": tmp_path / "run.pt", "callbacks": [Seldom()]}
    with pytest.raises(NonFiniteLoss, match=r"step 6: loss nan.*after it") as caught:
        descent(small(), loss=wrong, **options)
    assert caught.value.history.steps == 5 and not (tmp_path / "run.pt").exists()


def test_time_is_up_after_the_step_that_used_it_up(monkeypatch):
    ticking = iter(range(10_000))
    monkeypatch.setattr(run_module.time, "perf_counter", lambda: next(ticking))
    history = train(small(), sampler, loss, steps=500, seconds=3, progress=False, every=100)
    assert history.steps == 3 and history.seconds == 3 and not history.interrupted


def test_evaluation_takes_none_of_the_time(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(run_module.time, "perf_counter", lambda: clock[0])

    def takes(model, batch):
        clock[0] += 1
        return loss(model, batch)

    def slow(model):
        clock[0] += 100
        return 0.0

    history = train(small(), sampler, takes, steps=99, seconds=7, every=2, evaluate=slow)
    assert history.seconds == 7 and history.evaluations[-1][0] == 7


def test_ctrl_c_keeps_what_was_learnt():
    model = small()

    def presses(model, batch):
        presses.calls += 1
        if presses.calls == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return loss(model, batch)

    presses.calls = 0
    handler = signal.getsignal(signal.SIGINT)
    history = train(model, sampler, presses, steps=50)
    assert history.interrupted and history.steps == 7
    assert repr(history) == "History: 7 steps, interrupted"
    reference = small()
    train(reference, sampler, loss, steps=7)
    assert same(learnt(model), learnt(reference))
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("at", [5, 10, 24])
def test_ctrl_c_during_an_evaluation_ends_training_after_it(tmp_path, at):
    """No step more is taken; at the last step, too, it is noted. What is missing comes later."""
    done = []

    def presses(model):
        done.append(1)
        if len(done) == {5: 1, 10: 2, 24: 5}[at]:
            signal.raise_signal(signal.SIGINT)
        return noisy(model)

    path, options = tmp_path / "run.pt", OPTIONS | {"evaluate": presses}
    history = train(small(), sampler, loss, **options, checkpoint=path)
    assert history.interrupted and history.steps == history.evaluations[-1][0] == at
    assert_resumes(path)


def test_ctrl_c_during_the_evaluation_after_time_is_up_is_noted(tmp_path, monkeypatch):
    path, ticking, done = tmp_path / "run.pt", iter(range(10_000)), []

    def presses(model):
        done.append(1)
        if len(done) == 2:
            signal.raise_signal(signal.SIGINT)
        return noisy(model)

    options = OPTIONS | {"evaluate": presses}
    with monkeypatch.context() as patch:
        patch.setattr(run_module.time, "perf_counter", lambda: next(ticking))
        history = train(small(), sampler, loss, **options, seconds=8, checkpoint=path)
    assert history.interrupted and history.steps == 8
    assert_resumes(path)


def test_a_second_ctrl_c_does_not_wait():
    def hangs(model, batch):
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second Ctrl-C was swallowed")

    assert train(small(), sampler, hangs, steps=50).steps == 0


def test_it_runs_outside_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(train(small(), sampler, loss, steps=2)))
    thread.start()
    thread.join()
    assert found[0].steps == 2


# -- resuming ---------------------------------------------------------------------------------


def interrupting(at, where):
    """The loss, sampler or evaluation that raises KeyboardInterrupt at its `at`-th call."""
    calls = []

    def wrapped(*arguments):
        calls.append(1)
        result = where(*arguments)
        if len(calls) == at:
            raise KeyboardInterrupt
        return result

    return wrapped


@pytest.mark.parametrize("part", ["sampler", "loss", "evaluate"])
def test_interrupted_anywhere_it_resumes_bitwise(tmp_path, part):
    path = tmp_path / "run.pt"
    parts = {"sampler": sampler, "loss": loss, "evaluate": noisy}
    parts[part] = interrupting(2 if part == "evaluate" else 12, parts[part])
    options = OPTIONS | {"evaluate": parts["evaluate"], "checkpoint": path}
    history = train(small(), parts["sampler"], parts["loss"], **options)
    assert history.interrupted and history.steps == (10 if part == "evaluate" else 11)
    assert_resumes(path)


def test_out_of_time_it_resumes_bitwise(tmp_path, monkeypatch):
    path = tmp_path / "new" / "folder" / "run.pt"
    ticking = iter(range(10_000))
    with monkeypatch.context() as patch:
        patch.setattr(run_module.time, "perf_counter", lambda: next(ticking))
        history = train(small(), sampler, loss, **OPTIONS, seconds=8, checkpoint=path)
    assert history.steps == 8 and history.evaluations[-1][0] == 8
    assert_resumes(path)


def test_interrupted_three_times_it_resumes_bitwise(tmp_path):
    path = tmp_path / "run.pt"
    for _ in range(3):
        train(small(), sampler, interrupting(6, loss), **OPTIONS, checkpoint=path)
    assert_resumes(path)


def test_interrupted_in_the_middle_of_an_update_nothing_half_done_is_stored(tmp_path):
    """Between the weights and the moments of Adam only the last whole checkpoint is safe."""
    path, model = tmp_path / "run.pt", small()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.step = interrupting(13, optimizer.step)
    history = train(model, sampler, loss, **OPTIONS, optimizer=optimizer, checkpoint=path)
    assert history.interrupted and history.steps == 12
    assert len(torch.load(path, weights_only=True)["history"]["loss"]) == 10
    assert_resumes(path)


def test_numbers_of_numpy_do_not_spoil_the_checkpoint(tmp_path):
    """Read with `weights_only`, a file may hold Python's numbers and tensors, nothing else."""
    path = tmp_path / "run.pt"
    numbers = {"lr": np.float64(1e-3), "clip": np.float32(1), "seed": np.int64(0)}
    numbers |= {"steps": np.int64(24), "every": np.int32(5)}
    numbers |= {"schedule": lambda step: np.float64(OPTIONS["schedule"](step))}
    history = train(small(), sampler, interrupting(12, loss), **OPTIONS | numbers, checkpoint=path)
    assert history.interrupted and history.steps == 11
    assert_resumes(path, **numbers)
    assert_resumes(path)  # finished, and the same plan without NumPy


def test_an_optimizers_settings_may_be_numbers_of_numpy_too(tmp_path):
    path, model = tmp_path / "run.pt", small()
    mean, square = np.float64(0.9), np.float64(0.999)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(mean, square))
    train(model, sampler, interrupting(12, loss), **OPTIONS, optimizer=optimizer, checkpoint=path)
    assert_resumes(path)


def test_what_could_not_be_read_again_replaces_nothing(tmp_path):
    path, model = tmp_path / "run.pt", small()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    whole = optimizer.step

    def step():
        whole()
        if len(calls) == 7:
            optimizer.state[model[0].weight]["strange"] = path

    calls = []
    counted = lambda model, batch: calls.append(1) or loss(model, batch)  # noqa: E731
    optimizer.step = step
    with pytest.raises(ValueError, match=r"run.pt could not be read again, so it is not kept"):
        train(model, sampler, counted, **OPTIONS, optimizer=optimizer, checkpoint=path)
    assert len(calls) == 10 and [file.name for file in tmp_path.iterdir()] == ["run.pt"]
    assert_resumes(path)


def test_a_full_disk_leaves_the_last_checkpoint_and_nothing_beside_it(tmp_path, monkeypatch):
    path, saves, save = tmp_path / "run.pt", [], torch.save

    def full(content, out):
        saves.append(1)
        if len(saves) == 2:
            out.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        save(content, out)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(torch, "save", full)
        train(small(), sampler, loss, **OPTIONS, checkpoint=path)
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]
    assert_resumes(path)


def test_a_finished_run_is_only_read(tmp_path):
    path = tmp_path / "run.pt"
    train(small(), sampler, loss, **OPTIONS, checkpoint=path)
    never = interrupting(1, sampler)
    model = small()
    history = train(model, never, loss, **OPTIONS, checkpoint=path)
    assert history.steps == 24 and not history.interrupted
    assert same(learnt(model), uninterrupted()[0])


KILLED = """
    import os, signal, sys
    import torch
    sys.path.insert(0, {folder!r})
    from test_loop import OPTIONS, loss, sampler, small
    from attnbook.train import checkpoint
    from attnbook.train.loop import train

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    saves, save = [], torch.save
    def half(content, out):
        saves.append(1)
        if len(saves) == 3:
            out.write_bytes(b"half")
            die()
        save(content, out)

    calls = []
    def counted(model, batch):
        calls.append(1)
        return die() if len(calls) == 12 and {where!r} == "step" else loss(model, batch)

    if {where!r} == "write":
        torch.save = half
    train(small(), sampler, counted, **OPTIONS, checkpoint={path!r})
"""


@pytest.mark.parametrize("where", ["step", "write"])
def test_killed_between_or_during_writes_it_resumes_bitwise(tmp_path, where):
    path = tmp_path / "run.pt"
    code = KILLED.format(folder=os.path.dirname(__file__), where=where, path=str(path))
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    assert len(torch.load(path, weights_only=True)["history"]["loss"]) == 10
    assert_resumes(path)
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 30}, r"steps 24 there, 30 here"),
        ({"seed": 5}, r"seed 0 there, 5 here"),
        ({"lr": 0.5}, r"lr \[0.001\] there, \[0.5\] here"),
        ({"schedule": constant()}, r"schedule .* there, \[1.0, 1.0, 1.0\] here"),
    ],
)
def test_another_runs_checkpoint_is_refused_and_left_alone(tmp_path, change, message):
    path = tmp_path / "run.pt"
    train(small(), sampler, loss, **OPTIONS, checkpoint=path)
    stored, model = path.read_bytes(), small()
    before = learnt(model)
    with pytest.raises(ValueError, match=message):
        train(model, sampler, loss, **OPTIONS | change, checkpoint=path)
    assert path.read_bytes() == stored and same(learnt(model), before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight_decay": 9}, r"optimizer's weight_decay \[0\] there, \[9\] here"),
        ({"betas": (0.5, 0.999)}, r"betas \[\(0.9, 0.999\)\] there, \[\(0.5, 0.999\)\] here"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused_and_left_alone(tmp_path, settings, message):
    path = tmp_path / "run.pt"
    train(small(), sampler, loss, **OPTIONS, checkpoint=path)
    stored, model = path.read_bytes(), small()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **settings)
    with pytest.raises(ValueError, match=message):
        train(model, sampler, loss, **OPTIONS, optimizer=optimizer, checkpoint=path)
    assert path.read_bytes() == stored
    assert [optimizer.param_groups[0][name] for name in settings] == list(settings.values())


def test_another_models_checkpoint_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "run.pt"
    train(small(), sampler, loss, **OPTIONS, checkpoint=path)
    stored, wider = path.read_bytes(), nn.Sequential(nn.Linear(3, 11), nn.ReLU(), nn.Linear(11, 2))
    with pytest.raises(ValueError, match=r"weights 0.weight \(7, 3\) there, \(11, 3\) here"):
        train(wider, sampler, loss, **OPTIONS, checkpoint=path)
    assert path.read_bytes() == stored


def test_a_file_that_is_no_checkpoint_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    with pytest.raises(ValueError, match=r"notes.txt is not a readable checkpoint"):
        train(small(), sampler, loss, steps=2, checkpoint=path)
    assert path.read_text() == "my notes"
    with pytest.raises(ValueError, match=r"is a folder"):
        train(small(), sampler, loss, steps=2, checkpoint=tmp_path)


# -- what is refused, and the small parts -------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"steps": np.int64(0)}, r"steps is np.int64\(0\); a whole number, 1 or more"),
        ({"steps": "5"}, "steps is '5'"),
        ({"steps": True}, "steps is True"),
        ({"every": 0}, "every is 0"),
        ({"seed": 1.5}, "seed is 1.5; a whole number, 0 or more"),
        ({"seed": None}, "seed is None"),
        ({"clip": 0}, "clip is 0"),
        ({"clip": "a"}, "clip is 'a'; a number above 0, or None"),
        ({"clip": [1]}, r"clip is \[1\]"),
        ({"clip": math.nan}, "clip is nan"),
        ({"seconds": -1}, "seconds is -1"),
        ({"seconds": "1"}, "seconds is '1'"),
    ],
)
def test_impossible_options_are_refused_before_any_work(option, message):
    never = interrupting(1, sampler)
    with pytest.raises(ValueError, match=message):
        train(small(), never, loss, **{"steps": 3} | option)


def test_a_model_that_cannot_be_trained_is_refused():
    with pytest.raises(ValueError, match="no parameter that can be trained"):
        train(small().requires_grad_(False), sampler, loss, steps=2)
    halves = nn.Sequential(nn.Linear(3, 7), nn.Linear(7, 2, device="meta"))
    with pytest.raises(ValueError, match="2 devices: cpu, meta"):
        train(halves, sampler, loss, steps=2)


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ((1.0, 2.0), "a tuple, not a tensor"),
        (None, "None, not a tensor"),
        (0.5, "a float, not a tensor"),
        (torch.ones(3, requires_grad=True), "a tensor of another size: take its mean or its sum"),
    ],
)
def test_a_loss_that_is_not_one_number_is_refused(value, got):
    model, handler = small().eval(), signal.getsignal(signal.SIGINT)
    before = learnt(model)
    with pytest.raises(ValueError, match=f"the loss must be one number; got {got}"):
        train(model, sampler, lambda model, batch: value, steps=3)
    assert same(learnt(model), before) and not model.training
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_evaluation_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match=r"evaluate returned None; a number or a dictionary"):
        train(small(), sampler, loss, steps=3, evaluate=lambda model: None)


def test_other_mistakes_of_a_loss_keep_their_own_words():
    with pytest.raises(AttributeError, match="absent"):
        train(small(), sampler, lambda model, batch: model.absent, steps=3)


def test_the_optimizer_of_another_model_is_refused():
    optimizer = torch.optim.Adam(small().parameters())
    with pytest.raises(ValueError, match="4 of the optimizer's 4 tensors"):
        train(small(), sampler, loss, steps=2, optimizer=optimizer)


def test_nothing_is_printed_where_nobody_watches(capsys):
    train(small(), sampler, loss, steps=9)
    assert capsys.readouterr() == ("", "")


def test_trapezoid_rises_stays_and_falls_to_zero():
    factor = trapezoid(20, warmup=4, decay=5)
    factors = [factor(step) for step in range(21)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[4:15] == [1.0] * 11
    assert factors[15:] == pytest.approx([5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0])
    assert trapezoid(20)(15) == 1.0 and trapezoid(20)(16) == 0.8  # a fifth falls


def test_an_impossible_trapezoid_is_refused():
    with pytest.raises(ValueError, match="warmup of 4 and decay of 7 do not fit into 10 steps"):
        trapezoid(10, warmup=4, decay=7)


def test_cosine_rises_falls_and_stays():
    factor = cosine(21, warmup=4, floor=0.2)
    assert [factor(step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert factor(4) == 1.0
    assert factor(12) == pytest.approx(0.6)  # half way down
    assert factor(20) == pytest.approx(0.2) and factor(500) == pytest.approx(0.2)
    assert constant()(7) == 1.0


@pytest.mark.parametrize(("options", "message"), [((5, 5), "5 does not fit"), ((5, 0, 2), "is 2")])
def test_an_impossible_cosine_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        cosine(*options)


def test_token_loss_counts_only_what_the_mask_lets_through():
    logits = torch.log(torch.tensor([[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75], [1.0, 1e-9, 1e-9]]]))
    targets = torch.tensor([[0, 1, 2]])
    mask = torch.tensor([[True, True, False]])
    bits = (1 + 3) / 2  # of ½ and ⅛
    assert token_loss(logits, targets, mask).item() == pytest.approx(bits * math.log(2), rel=1e-5)
    everything = token_loss(logits, targets, torch.ones_like(mask))
    assert everything.item() == token_loss(logits, targets).item()


def test_token_loss_of_nothing_known_is_the_log_of_the_vocabulary():
    assert token_loss(torch.zeros(2, 5, 7), torch.zeros(2, 5, dtype=torch.long)).item() == (
        pytest.approx(math.log(7))
    )


def test_label_smoothing_is_the_loss_against_a_mixture():
    """With ¼ to share among three tokens the true one is expected with 10/12, the others with 1/12.

    The masked place, whose loss would be huge, counts for nothing, smoothed or not.
    """
    chances = torch.tensor([[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75], [1.0, 1e-30, 1e-30]]])
    logits, targets = torch.log(chances), torch.tensor([[0, 1, 2]])
    mask = torch.tensor([[True, True, False]])
    surprise = -chances.log() / math.log(2)
    mixture = torch.tensor([[10, 1, 1], [1, 10, 1]]) / 12
    bits = (mixture * surprise[0, :2]).sum(-1).mean().item()
    smoothed = token_loss(logits, targets, mask, smoothing=0.25).item()
    assert smoothed == pytest.approx(bits * math.log(2), rel=1e-5)
    assert token_loss(logits, targets, mask, smoothing=0.0) == token_loss(logits, targets, mask)


def test_with_label_smoothing_to_be_certain_is_not_best():
    """The smallest loss is where the chances are the mixture, and it is the mixture's entropy."""
    mixture = torch.tensor([[0.8, 0.1, 0.1]])
    best = token_loss(mixture.log(), torch.tensor([0]), smoothing=0.3)
    assert best.item() == pytest.approx(-(mixture * mixture.log()).sum().item(), rel=1e-5)
    for chances in ([[0.9, 0.05, 0.05]], [[0.7, 0.15, 0.15]], [[0.999, 0.0005, 0.0005]]):
        logits = torch.tensor(chances).log()
        assert token_loss(logits, torch.tensor([0]), smoothing=0.3) > best


def test_token_loss_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="mask is False everywhere"):
        token_loss(torch.zeros(2, 7), torch.tensor([1, 2]), torch.zeros(2, dtype=torch.bool))


def test_shared_and_frozen_weights_are_counted_as_training_sees_them():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 5))
    assert parameters(model) == 9 + 3 + 15 + 5
    model.append(model[0])
    model[1].bias.requires_grad_(False)
    assert parameters(model) == 9 + 3 + 15
