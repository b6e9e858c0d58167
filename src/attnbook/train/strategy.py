"""The processes of one run: how a model is shared among them, and how they agree.

One process is the special case that shares nothing. torchrun starts several and says in the
environment who each is.
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


class SingleProcess:
    """One process has the whole model and reads the whole batch."""

    def __init__(self, device: torch.device):
        self.device, self.rank, self.world_size = device, 0, 1

    @property
    def is_main(self) -> bool:
        """Whether this process prints, and writes what is written once."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as it is called in training."""
        return model

    def no_sync(self, model: nn.Module, last: bool) -> AbstractContextManager[Any]:
        """Around each micro-batch: gradients are synchronised after the `last` one only."""
        return nullcontext()

    def mean(self, value: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The mean over all processes."""
        return value

    def all_reduce_max(self, *numbers: int | float) -> list[float]:
        """The maximum of each number over all processes."""
        return [float(number) for number in numbers]

    def broadcast(self, value: Any) -> Any:
        """The main process's value, in all of them; nobody goes on before it is there."""
        return value

    def close(self) -> None:
        """Leave the process group."""


class DataParallel(SingleProcess):
    """Each process has the whole model and a part of the batch; gradients are averaged.

    Li et al. 2020, PyTorch Distributed; gradients are sent while others are still computed.
    """

    def __init__(self, device: torch.device):
        super().__init__(device)
        self.rank, self.world_size, _ = ranks()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def wrap(self, model: nn.Module) -> nn.Module:
        on = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=on)

    def no_sync(self, model: nn.Module, last: bool) -> AbstractContextManager[Any]:
        return nullcontext() if last else model.no_sync()  # type: ignore[operator]

    def mean(self, value: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        value = value.clone()
        dist.all_reduce(value)
        return value / self.world_size

    def all_reduce_max(self, *numbers: int | float) -> list[float]:
        found = torch.tensor(numbers, dtype=torch.float32, device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return found.tolist()

    def broadcast(self, value: Any) -> Any:
        box = [value]
        dist.broadcast_object_list(box, device=self.device)
        return box[0]

    def close(self) -> None:
        """A group of gloo stays until the process ends: its destructor joins threads that may need
        Python's lock, and holds it (torch 2.13)."""
        if self.device.type == "cuda":
            dist.destroy_process_group()


class FullySharded(DataParallel):
    """Each process keeps a part of every weight, gradient and optimizer state; a block's weights
    are gathered when it computes. Zhao et al. 2023, PyTorch FSDP; Rajbhandari et al. 2020, ZeRO
    stage 3. Needs torch 2.6 (`fully_shard`)."""

    def wrap(self, model: nn.Module) -> nn.Module:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.world_size,))
        for block in model.get_submodule("body.blocks").children():
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    def no_sync(self, model: nn.Module, last: bool) -> AbstractContextManager[Any]:
        """Between micro-batches a process has whole gradients: less is sent, more kept."""
        model.set_requires_gradient_sync(last)  # type: ignore[operator]
        return nullcontext()


STRATEGIES: dict[str, type[SingleProcess]] = {
    "none": SingleProcess,
    "ddp": DataParallel,
    "fsdp": FullySharded,
}


def ranks() -> tuple[int, int, int]:
    """Rank, number of processes, and rank on this machine, as torchrun says; 0, 1, 0 without it."""
    named = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}
    rank, world_size, local = (int(os.environ.get(name, least)) for name, least in named.items())
    return rank, world_size, local


def check_launch(name: str) -> None:
    """Raise a ValueError unless processes were started as this strategy needs them."""
    if name == "none" and ranks()[1] > 1:
        raise ValueError(f"{ranks()[1]} processes were started: add --parallel ddp or fsdp")
    if name != "none" and "RANK" not in os.environ:
        raise ValueError(f"--parallel {name} needs several processes: {LAUNCH} --parallel {name}")
    if name == "fsdp" and not hasattr(importlib.import_module(FSDP), "fully_shard"):
        raise ValueError(f"torch {torch.__version__} has no fully_shard: 2.6 has, or take ddp")


def is_lost(error: BaseException) -> bool:
    """Whether an error says that another process is no longer there."""
    return isinstance(error, RuntimeError) and (
        isinstance(error, dist.DistError) or any(word in str(error).lower() for word in LOST)
    )
