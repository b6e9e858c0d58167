"""Where a run stands, written once by all its processes together, for any number of processes.

A folder `checkpoints/step-000200` holds what `torch.distributed.checkpoint` wrote: each process its
own shards, replicated tensors once. It gets its name when it is complete; two are kept.
"""

import json
import shutil
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.optim import Optimizer

from attnbook.files import store
from attnbook.trainer.team import Alone

FOLDER, KEPT = "checkpoints", 2


@dataclass
class Progress:
    """How far a run is: steps taken, seconds spent on them, the last loss that was measured."""

    step: int = 0
    seconds: float = 0.0
    loss: float | None = None
    validation: float | None = None


def saved(out: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(path for path in (out / FOLDER).glob("step-*") if path.suffix != ".draft")


def save(
    team: Alone, out: Path, model: nn.Module, optimizer: Optimizer, progress: Progress
) -> None:
    """Write where the run stands; what was saved longest ago goes."""
    path = out / FOLDER / f"step-{progress.step:06d}"
    draft = path.with_suffix(".draft")
    if team.leads:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
    team.tell(None)  # all wait until the folder is there
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        state_dict_saver.save(
            state(model, optimizer), checkpoint_id=draft, no_dist=not dist.is_initialized()
        )
    if team.leads:
        store(draft / "progress.json", json.dumps(asdict(progress)))
        shutil.rmtree(path, ignore_errors=True)
        draft.rename(path)
        for old in saved(out)[:-KEPT]:
            shutil.rmtree(old)
    team.tell(None)


def load(out: Path, model: nn.Module, optimizer: Optimizer) -> Progress:
    """Fill model and optimizer from the latest checkpoint; without one the run is at its start."""
    found = saved(out)
    if not found:
        return Progress()
    content = state(model, optimizer)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            state_dict_loader.load(
                content, checkpoint_id=found[-1], no_dist=not dist.is_initialized()
            )
        progress = Progress(**json.loads((found[-1] / "progress.json").read_text("utf-8")))
    except (Exception, CheckpointException) as error:  # the second is no Exception
        raise ValueError(
            f"{found[-1]} is damaged ({type(error).__name__}); remove it to go on from the one "
            "before, or from the start"
        ) from error
    set_state_dict(
        model,
        optimizer,
        model_state_dict=content["model"],
        optim_state_dict=content["optimizer"],
    )
    return progress


def state(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Weights and the optimizer's numbers, by names that do not depend on how they are shared."""
    weights, numbers = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": numbers}


def weights(model: nn.Module) -> dict[str, Any]:
    """All weights, whole and on the CPU, in the leading process; empty in the others."""
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=whole)
