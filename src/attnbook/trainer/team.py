"""The processes of one job: how a model is shared among them, and how they agree.

A process alone is a team of one. torchrun starts several and says in the environment who each is.
"""

import importlib
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

LAUNCH = "torchrun --nproc-per-node 2 -m attnbook train lm …"
FSDP = "torch.distributed.fsdp"
LOST = ("gloo", "nccl", "peer", "connection", "socket", "process group")  # in torch's complaints


class Alone:
    """One process: nothing is shared, and there is nobody to agree with."""

    def __init__(self, device: torch.device):
        self.device = device
        self.rank, self.world, _ = place()

    @property
    def leads(self) -> bool:
        """Whether this process prints and writes what is written once."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as it is called in training."""
        return model

    def unsent(self, model: nn.Module, last: bool) -> AbstractContextManager[Any]:
        """Around each piece of a batch: gradients are only sent after the `last`."""
        return nullcontext()

    def mean(self, value: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The mean over all processes."""
        return value

    def largest(self, *numbers: int | float) -> list[float]:
        """Of each number the largest that a process has: all see the same afterwards."""
        return [float(number) for number in numbers]

    def tell(self, said: Any) -> Any:
        """What the leading process said."""
        return said

    def close(self) -> None:
        """Leave the others."""


class Replicas(Alone):
    """Each process has the whole model and a part of the batch; gradients are averaged.

    Li et al. 2020, PyTorch Distributed; the gradients are sent while others are still computed.
    """

    def __init__(self, device: torch.device):
        super().__init__(device)
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def wrap(self, model: nn.Module) -> nn.Module:
        on = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=on)

    def unsent(self, model: nn.Module, last: bool) -> AbstractContextManager[Any]:
        return nullcontext() if last else model.no_sync()  # type: ignore[operator]

    def mean(self, value: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        value = value.clone()
        dist.all_reduce(value)
        return value / self.world

    def largest(self, *numbers: int | float) -> list[float]:
        found = torch.tensor(numbers, dtype=torch.float32, device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return found.tolist()

    def tell(self, said: Any) -> Any:
        box = [said]
        dist.broadcast_object_list(box, device=self.device)
        return box[0]

    def close(self) -> None:
        """A group of gloo stays until the process ends: its destructor joins threads that may need
        Python's lock, and holds it (torch 2.13)."""
        if self.device.type == "cuda":
            dist.destroy_process_group()


class Shards(Replicas):
    """Each process keeps a part of every weight, gradient and optimizer state; a block's weights
    are gathered when it computes. Zhao et al. 2023, PyTorch FSDP; Rajbhandari et al. 2020, ZeRO
    stage 3. Needs torch 2.6 (`fully_shard`)."""

    def wrap(self, model: nn.Module) -> nn.Module:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.world,))
        for block in model.get_submodule("body.blocks").children():
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    def unsent(self, model: nn.Module, last: bool) -> AbstractContextManager[Any]:
        """Between the pieces of a batch a process has whole gradients: less is sent, more kept."""
        model.set_requires_gradient_sync(last)  # type: ignore[operator]
        return nullcontext()


KINDS: dict[str, type[Alone]] = {"none": Alone, "ddp": Replicas, "fsdp": Shards}


def place() -> tuple[int, int, int]:
    """Rank, number of processes, and rank on this machine, as torchrun says; 0, 1, 0 alone."""
    named = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}
    rank, world, local = (int(os.environ.get(name, least)) for name, least in named.items())
    return rank, world, local


def check(kind: str) -> None:
    """Raise a ValueError unless processes were started as this kind of sharing needs them."""
    if kind == "none" and place()[1] > 1:
        raise ValueError(f"{place()[1]} processes were started: add --parallel ddp or fsdp")
    if kind != "none" and "RANK" not in os.environ:
        raise ValueError(f"--parallel {kind} needs several processes: {LAUNCH} --parallel {kind}")
    if kind == "fsdp" and not hasattr(importlib.import_module(FSDP), "fully_shard"):
        raise ValueError(f"torch {torch.__version__} has no fully_shard: 2.6 has, or take ddp")


def is_lost(error: BaseException) -> bool:
    """Whether an error says that another process is no longer there."""
    return isinstance(error, RuntimeError) and (
        isinstance(error, dist.DistError) or any(word in str(error).lower() for word in LOST)
    )
