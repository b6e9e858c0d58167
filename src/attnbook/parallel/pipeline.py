"""Pipeline parallelism: the stack of blocks is cut, micro-batches follow each other through it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.masks import causal
from attnbook.parallel.wire import Wire
from attnbook.transformer import LanguageModel


class Job(NamedTuple):
    """A stage's work on one micro-batch: `kind` is "forward" or "backward".

    `chunk` says with which of its pieces of the stack, if it has several.
    """

    kind: str
    micro: int
    chunk: int = 0


Order = Callable[[int, int, int], list[Job]]


def gpipe(stages: int, stage: int, micro: int) -> list[Job]:
    """All micro-batches forward, then all of them backward. Huang et al. 2019, figure 2c."""
    check_pipeline(stages, stage, micro)
    forward = [Job("forward", n) for n in range(micro)]
    return forward + [Job("backward", n) for n in range(micro)]


def one_forward_one_backward(stages: int, stage: int, micro: int) -> list[Job]:
    """1F1B: as soon as the last stage can go back, each stage does one of each in turn, so that at
    most stages − stage micro-batches are under way. Narayanan et al. 2021, section 2.2.1."""
    check_pipeline(stages, stage, micro)
    ahead = min(stages - stage - 1, micro)
    jobs = [Job("forward", n) for n in range(ahead)]
    for n in range(micro - ahead):
        jobs += [Job("forward", ahead + n), Job("backward", n)]
    return jobs + [Job("backward", n) for n in range(micro - ahead, micro)]


def check_pipeline(stages: int, stage: int, micro: int) -> None:
    """Raise a ValueError for a stage that is not there, or nothing to do."""
    if not 0 <= stage < stages or micro < 1:
        raise ValueError(
            f"a stage is 0 to {stages - 1} and has 1 micro-batch or more; got {stage}, {micro}"
        )


class Stage(nn.Module):
    """This process' blocks of a language model; the first stage embeds, the last has the head."""

    def __init__(self, wire: Wire, whole: LanguageModel):
        super().__init__()
        blocks, (P, r) = copy.deepcopy(whole.body.blocks), (wire.size, wire.rank)
        if len(blocks) % P:
            raise ValueError(f"{len(blocks)} blocks do not divide into {P} stages")
        each = len(blocks) // P
        self.embed = copy.deepcopy(whole.embed) if r == 0 else nn.Identity()
        self.blocks = blocks[r * each : (r + 1) * each]
        last = nn.Sequential(copy.deepcopy(whole.body.norm), copy.deepcopy(whole.lm_head))
        self.head = last if r == P - 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, mask=causal)
        return self.head(x)


@dataclass
class Passed:
    """What a step of the pipeline found: the mean loss (of the last stage; 0 elsewhere), and how
    many micro-batches were under way at once."""

    loss: float = 0.0
    most: int = 0


def run(
    wire: Wire,
    stage: Stage,
    batch: Sequence[tuple[Int[Tensor, "b T"], Int[Tensor, "b T"]]],
    loss: Callable[[Tensor, Tensor], Tensor],
    width: int,
    order: Order = one_forward_one_backward,
) -> Passed:
    """One step: gradients of the mean loss over the micro-batches, (tokens, targets) each, are
    added up in the stage. Activations of `width` channels go on, their gradients go back."""
    first, last = wire.rank == 0, wire.rank == wire.size - 1
    kept: dict[int, tuple[Tensor, Tensor]] = {}
    found = Passed()
    for job in order(wire.size, wire.rank, len(batch)):
        tokens, targets = batch[job.micro]
        if job.kind == "forward":
            x = tokens if first else receive(wire, stage, (*tokens.shape, width))
            y = stage(x)
            if last:
                y = loss(y, targets) / len(batch)
                found.loss += y.item()
            else:
                wire.send(y, wire.rank + 1)
            kept[job.micro] = x, y
            found.most = max(found.most, len(kept))
        else:
            x, y = kept.pop(job.micro)
            y.backward(None if last else wire.receive(y, wire.rank + 1))
            if not first and x.grad is not None:
                wire.send(x.grad, wire.rank - 1)
    wire.flush()
    return found


def receive(wire: Wire, stage: Stage, shape: tuple[int, ...]) -> Float[Tensor, "b T C"]:
    """Activations from the stage before, with a gradient to be sent back."""
    like = next(stage.parameters()).new_empty(shape)
    return wire.receive(like, wire.rank - 1).requires_grad_()
