"""Where the numbers are computed, how precisely, and how much time there is."""
import os
from contextlib import nullcontext
from dataclasses import dataclass

import torch

BUDGETS = {"cpu": "about a minute", "gpu": "larger models, longer training"}


@dataclass(frozen=True)
class Here:
    """This machine: the `device`, the `dtype` of its matrix products, and the `budget` ("cpu" or "gpu")."""

    device: torch.device
    dtype: torch.dtype
    budget: str

    def pick(self, *, cpu, gpu):
        """The one of two settings that fits the budget: `steps=here.pick(cpu=300, gpu=5000)`."""
        return gpu if self.budget == "gpu" else cpu

    def autocast(self):
        """A context in which matrix products use `dtype`; it does nothing where that is float32."""
        return nullcontext() if self.dtype == torch.float32 else torch.autocast(self.device.type, dtype=self.dtype)

    def __str__(self):
        return f"{self.device.type} · {str(self.dtype).removeprefix('torch.')} · budget: {self.budget} ({BUDGETS[self.budget]})"


def choose(seed=0) -> Here:
    """Take CUDA, else MPS, else the CPU; seed torch; print one line that says so.

    The environment variables ATTNBOOK_DEVICE (cuda, mps or cpu) and ATTNBOOK_BUDGET (cpu or gpu) overrule the choice.
    bfloat16 is taken only where the hardware has it (CUDA, compute capability 8.0 and above), not where it is emulated.
    A CPU computes with one thread: a sum split over threads is added in another order, and its last digits change.
    """
    there = [name for name, present in {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}.items() if present]
    name = os.environ.get("ATTNBOOK_DEVICE", "").strip().lower() or there[0]
    if name not in there:
        raise ValueError(f"ATTNBOOK_DEVICE is {name!r}; this machine has {', '.join(there)}")
    budget = os.environ.get("ATTNBOOK_BUDGET", "").strip().lower() or ("gpu" if name == "cuda" else "cpu")
    if budget not in BUDGETS:
        raise ValueError(f"ATTNBOOK_BUDGET is {budget!r}; it can be {' or '.join(BUDGETS)}")
    real = name == "cuda" and torch.cuda.get_device_capability() >= (8, 0)
    if name == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(seed)
    here = Here(torch.device(name), torch.bfloat16 if real else torch.float32, budget)
    print(here)
    return here
