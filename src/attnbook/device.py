"""Where the numbers are computed, how precisely, and how much time there is."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

Setting = TypeVar("Setting")

BUDGETS = {"cpu": "about a minute", "gpu": "larger models, longer training"}


@dataclass(frozen=True)
class Here:
    """This machine: its `device`, the `dtype` of matrix products, the `budget` "cpu" or "gpu"."""

    device: torch.device
    dtype: torch.dtype
    budget: str

    def pick(self, *, cpu: Setting, gpu: Setting) -> Setting:
        """The one of two settings that fits the budget: `steps=here.pick(cpu=300, gpu=5000)`."""
        return gpu if self.budget == "gpu" else cpu

    def autocast(self) -> AbstractContextManager[object]:
        """A context in which matrix products are computed in `dtype`; with float32, none."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        if self.dtype != torch.float32:
            dtype += " where autocast is on"
        return f"{self.device.type} · {dtype} · budget: {self.budget} ({BUDGETS[self.budget]})"


def choose(seed: int = 0) -> Here:
    """Take CUDA, else MPS, else the CPU; seed torch; print one line that says so.

    The environment may overrule it: ATTNBOOK_DEVICE (cuda, mps, cpu), ATTNBOOK_BUDGET (cpu, gpu),
    ATTNBOOK_THREADS (1, 2, …). `here.autocast()` computes in bfloat16 where the hardware has it
    (CUDA from compute capability 8.0), not where it is emulated. A CPU computes with one thread:
    a sum divided among several is added up in another order, its last digits change, and after
    some hundred steps so do the results.
    """
    threads = thread_count()
    there = ["cuda"] * torch.cuda.is_available() + ["mps"] * torch.backends.mps.is_available()
    name = choice("ATTNBOOK_DEVICE", [*there, "cpu"], default=[*there, "cpu"][0])
    budget = choice("ATTNBOOK_BUDGET", list(BUDGETS), default="gpu" if name == "cuda" else "cpu")
    real = name == "cuda" and torch.cuda.get_device_capability() >= (8, 0)
    if name == "cpu":
        torch.set_num_threads(threads)
    torch.manual_seed(seed)
    here = Here(torch.device(name), torch.bfloat16 if real else torch.float32, budget)
    print(here)
    return here


def device_of(model: nn.Module) -> torch.device:
    """Where the weights of a model lie; the CPU for one that has none."""
    weight = next(model.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device


def choice(variable: str, there: Sequence[str], default: str) -> str:
    """What the environment variable says, if it is one of those that are there."""
    value = os.environ.get(variable, "").strip().lower() or default
    if value not in there:
        raise ValueError(f"{variable} is {value!r}; here it can be {' or '.join(there)}")
    return value


def thread_count() -> int:
    """How many threads ATTNBOOK_THREADS asks for; one where it asks for nothing."""
    value = os.environ.get("ATTNBOOK_THREADS", "").strip() or "1"
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"ATTNBOOK_THREADS is {value!r}; a whole number, 1 or more, is needed")
    return int(value)
