"""Checkpoints: all that a run needs to be resumed as if it had never stopped."""

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attnbook.checks import check_same
from attnbook.files import replacing


@runtime_checkable
class Checkpoint(Protocol):
    """Where a run is stored."""

    def load(self) -> dict[str, Any] | None:
        """Fill model and optimizer; return `history` and `random`, or None where nothing is."""

    def save(self, history: dict[str, Any], random: dict[str, Tensor]) -> None:
        """Store where the run stands now, whole or not at all."""


class FileCheckpoint:
    """One file for one run of one process. It is read only by the run that it belongs to."""

    def __init__(
        self, path: str | Path, plan: dict[str, Any], model: nn.Module, optimizer: Optimizer
    ):
        self.path, self.plan, self.model, self.optimizer = Path(path), plan, model, optimizer
        if self.path.is_dir():
            raise ValueError(f"checkpoint {self.path} is a folder; the name of a file is needed")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def load(self) -> dict[str, Any] | None:
        """Fill model and optimizer and return the rest; None where there is no file.

        Everything is compared before anything is filled: ValueError names what differs.
        """
        if not self.path.exists():
            return None
        try:
            stored = torch.load(self.path, map_location="cpu", weights_only=True)
            there = stored["plan"] | shapes(stored["model"])
        except Exception as error:
            reason = type(error).__name__
            raise ValueError(
                f"{self.path} is not a readable checkpoint ({reason}); remove it to start anew"
            ) from error
        here = self.plan | shapes(self.model.state_dict())
        check_same(f"{self.path} is of another run", there, here)
        self.model.load_state_dict(stored["model"])
        self.optimizer.load_state_dict(stored["optimizer"])
        return stored

    def save(self, history: dict[str, Any], random: dict[str, Tensor]) -> None:
        """Replace the file by where the run stands now, once that has been read again."""
        content: dict[str, Any] = {"plan": self.plan, "model": self.model.state_dict()}
        content |= {"optimizer": self.optimizer.state_dict(), "history": history, "random": random}
        content["optimizer"]["param_groups"] = plain(content["optimizer"]["param_groups"])
        try:
            with replacing(self.path) as draft:
                torch.save(content, draft)
                torch.load(draft, map_location="cpu", weights_only=True)  # as `load` will
        except UnpicklingError as error:
            raise ValueError(f"{self.path} could not be read again, so it is not kept") from error


def settings(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer's kind and settings, without the learning rates, for a plan."""
    groups = optimizer.param_groups
    names = sorted({name for group in groups for name in group} - {"params", "lr", "initial_lr"})
    rest = {f"optimizer's {name}": [plain(group.get(name)) for group in groups] for name in names}
    return {"optimizer": type(optimizer).__name__} | rest


def plain(value: Any) -> Any:
    """The same in Python's own types: a file read with `weights_only` may hold no others."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [plain(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value.tolist() if hasattr(value, "tolist") else value


def shapes(state: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The shape of each weight, under a name that says what it is."""
    return {f"weights {name}": tuple(tensor.shape) for name, tensor in state.items()}


def random_state(generator: torch.Generator, device: torch.device) -> dict[str, Tensor]:
    """Where each source of random numbers stands: the sampler's, torch's, the device's own."""
    state = {"generator": generator.get_state(), "cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["device"] = torch.mps.get_rng_state()
    return state


def set_random_state(
    state: Mapping[str, Tensor], generator: torch.Generator, device: torch.device
) -> None:
    """Put each source of random numbers back to where it stood."""
    generator.set_state(state["generator"])
    torch.set_rng_state(state["cpu"])
    if "device" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
    elif "device" in state and device.type == "mps":
        torch.mps.set_rng_state(state["device"])
