"""Where the time of one training step goes, and what the usual ways to make it faster change.

    python results/step_time.py

A small GPT-2 (width 128, four blocks, eight windows of 128 characters) with AdamW, one thread. The
variants take a step each in turn, round after round, since the machine does other work as well;
seconds of all rounds are stored, with those of the first compiled step and the profiler's shares.
"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from attnbook import device
from attnbook.data import text
from attnbook.inside.watch import watch
from attnbook.losses import token_loss
from attnbook.models.gpt2 import gpt2
from attnbook.provenance import provenance, write

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "step_time.json"
WIDTH, DEPTH, HEADS, T, B, ROUNDS = 128, 4, 4, 128, 8, 15
Batch = tuple[Tensor, Tensor]
# operations of a profile: what they are called together, and how their names begin
GROUPS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm"),
    "attention": ("aten::_scaled_dot", "aten::_flash", "aten::_softmax", "aten::softmax"),
    "norms": ("aten::native_layer_norm",),
    "GELU": ("aten::gelu",),
    "loss": ("aten::log_softmax", "aten::_log_softmax", "aten::nll"),
    "optimizer": ("aten::_foreach", "aten::_fused", "Optimizer", "aten::lerp", "aten::addc"),
}


class Again(nn.Module):
    """A block that keeps its input only and computes the rest again on the way back."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, **named: Any) -> Tensor:
        return checkpoint(self.block, x, use_reentrant=False, **named)


def stepper(model: nn.Module, loss: Callable[[Batch], Tensor], parts: int = 1) -> Callable:
    """One step of AdamW on a batch, sent through in equal parts."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        for part in zip(*(x.chunk(parts) for x in batch), strict=True):
            (loss(part) / parts).backward()
        optimizer.step()

    return step


def plain(model: Any) -> Callable[[Batch], Tensor]:
    return lambda batch: token_loss(model(batch[0]), batch[1])


def cast(model: Any) -> Callable[[Batch], Tensor]:
    def loss(batch: Batch) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return plain(model)(batch)

    return loss


def watched(model: Any) -> Callable[[Batch], Tensor]:
    def loss(batch: Batch) -> Tensor:
        with watch(model):
            return plain(model)(batch)

    return loss


def again(model: Any) -> Callable[[Batch], Tensor]:
    model.body.blocks = nn.ModuleList(Again(block) for block in model.body.blocks)
    return plain(model)


def compiled(model: Any) -> Callable[[Batch], Tensor]:
    return plain(torch.compile(model))


VARIANTS: dict[str, tuple[Callable[[Any], Callable[[Batch], Tensor]], int]] = {
    "float32": (plain, 1),
    "bfloat16 autocast": (cast, 1),
    "weights stored": (watched, 1),
    "four parts": (plain, 4),
    "checkpointing": (again, 1),
    "torch.compile": (compiled, 1),
}


def variants(V: int) -> dict[str, Callable[[Batch], None]]:
    """A model of its own and a step for each variant."""
    made = {}
    for name, (loss, parts) in VARIANTS.items():
        torch.manual_seed(0)
        model = gpt2(V, T, WIDTH, DEPTH, HEADS, dropout=0.0)
        made[name] = stepper(model, loss(model), parts)
    return made


def shares(step: Callable[[Batch], None], batch: Batch) -> dict[str, float]:
    """The share of a step's time that each group of operations takes by itself."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(5):
            step(batch)
    found, total = dict.fromkeys([*GROUPS, "all else"], 0.0), 0.0
    for event in seen.key_averages():
        spent = event.self_cpu_time_total
        total += spent
        names = [name for name, begins in GROUPS.items() if event.key.startswith(begins)]
        found[names[0] if names else "all else"] += spent
    return {name: round(spent / total, 3) for name, spent in found.items()}


def main() -> None:
    torch.set_num_threads(1)
    docs = text.load("python-docs")
    draw = text.windows(docs.characters.encode(docs.train), T, B)
    batch, steps = draw(torch.Generator().manual_seed(0)), variants(len(docs.characters))
    first = {}
    for name, step in steps.items():
        begin = time.perf_counter()
        step(batch)
        first[name] = round(time.perf_counter() - begin, 3)
    rounds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            begin = time.perf_counter()
            step(batch)
            rounds[name].append(round(time.perf_counter() - begin, 5))
    found = {"first": first, "rounds": rounds, "shares": shares(steps["float32"], batch)}
    print(first, {name: median(one) for name, one in rounds.items()}, found["shares"])
    write(STORE, found | {"provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
