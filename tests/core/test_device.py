"""Which machine is taken, and what follows from it."""

import pytest
import torch

from attnbook import device


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine that has what a test says it has."""
    monkeypatch.delenv("ATTNBOOK_DEVICE", raising=False)
    monkeypatch.delenv("ATTNBOOK_BUDGET", raising=False)
    monkeypatch.delenv("ATTNBOOK_THREADS", raising=False)
    threads = torch.get_num_threads()

    def has(cuda=None, mps=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda is not None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: None)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    has()
    yield has
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("has", "line"),
    [
        ({"cuda": (8, 0), "mps": True}, "cuda · bfloat16 where autocast is on · budget: gpu (larg"),
        ({"cuda": (7, 5)}, "cuda · float32 · budget: gpu (larger models, longer training)"),
        ({"mps": True}, "mps · float32 · budget: cpu (about a minute)"),
        ({}, "cpu · float32 · budget: cpu (about a minute)"),
    ],
)
def test_the_best_there_is_is_taken_and_said_in_one_line(machine, capsys, has, line):
    machine(**has)
    device.choose()
    printed = capsys.readouterr().out
    assert printed.startswith(line) and printed.count("\n") == 1


def test_the_environment_overrules(machine, monkeypatch):
    machine(cuda=(9, 0))
    monkeypatch.setenv("ATTNBOOK_DEVICE", "CPU")
    monkeypatch.setenv("ATTNBOOK_BUDGET", "gpu")
    here = device.choose()
    assert (here.device.type, here.dtype, here.budget) == ("cpu", torch.float32, "gpu")
    assert here.pick(cpu=3, gpu=5) == 5


@pytest.mark.parametrize("value", ["cuda", "tpu"])
def test_a_device_that_is_not_there_is_refused_with_what_is(machine, monkeypatch, value):
    machine(mps=True)
    monkeypatch.setenv("ATTNBOOK_DEVICE", value)
    with pytest.raises(
        ValueError, match=f"ATTNBOOK_DEVICE is '{value}'; here it can be mps or cpu"
    ):
        device.choose()


def test_an_unknown_budget_is_refused(monkeypatch):
    monkeypatch.setenv("ATTNBOOK_BUDGET", "huge")
    with pytest.raises(ValueError, match="ATTNBOOK_BUDGET is 'huge'; here it can be cpu or gpu"):
        device.choose()


def test_a_cpu_computes_with_one_thread_and_a_small_budget():
    torch.set_num_threads(2)
    assert device.choose().pick(cpu=3, gpu=5) == 3
    assert torch.get_num_threads() == 1


def test_the_environment_may_ask_for_more_threads(monkeypatch):
    monkeypatch.setenv("ATTNBOOK_THREADS", " 2 ")
    torch.set_num_threads(1)
    device.choose()
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "two"])
def test_an_impossible_number_of_threads_is_refused(monkeypatch, value):
    monkeypatch.setenv("ATTNBOOK_THREADS", value)
    with pytest.raises(ValueError, match=f"ATTNBOOK_THREADS is '{value}'; a whole number, 1 or"):
        device.choose()


def test_the_seed_is_set():
    numbers = []
    for seed in (2, 2, 3):
        device.choose(seed)
        numbers.append(torch.rand(5).tolist())
    assert numbers[0] == numbers[1] != numbers[2]


def test_autocast_changes_matrix_products_only_where_bfloat16_is_real():
    ones = torch.ones(3, 3)
    with device.Here(torch.device("cpu"), torch.bfloat16, "gpu").autocast():
        assert (ones @ ones).dtype == torch.bfloat16
    with device.Here(torch.device("cpu"), torch.float32, "cpu").autocast():
        assert (ones @ ones).dtype == torch.float32


def test_the_device_of_a_model_is_its_weights_and_a_cpus_without_any():
    assert device.device_of(torch.nn.Linear(2, 2, device="meta")) == torch.device("meta")
    assert device.device_of(torch.nn.ReLU()) == torch.device("cpu")
