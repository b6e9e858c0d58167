"""Checkpoints of several processes, written by all of them together and read by any number.

A folder `checkpoints/step-000200` holds what `torch.distributed.checkpoint` wrote: each process its
own shards, replicated tensors once. It gets its name when it is complete; two are kept.
"""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
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
from attnbook.train.strategy import SingleProcess

FOLDER, KEPT = "checkpoints", 2


class ShardedCheckpoint:
    """The checkpoints of one run, in its folder `out`; the latest is loaded.

    Random numbers are not stored: what a step reads follows from the run's seed and the step.
    """

    def __init__(self, out: Path, model: nn.Module, optimizer: Optimizer, strategy: SingleProcess):
        self.out, self.model, self.optimizer, self.strategy = out, model, optimizer, strategy

    def save(self, history: dict[str, Any], random: dict[str, Tensor]) -> None:
        """Write where the run stands; the oldest checkpoint goes."""
        step = history["skipped"] + len(history["loss"])
        path = self.out / FOLDER / f"step-{step:06d}"
        draft = path.with_suffix(".draft")
        if self.strategy.is_main:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
        self.strategy.broadcast(None)  # all wait until the folder is there
        content = state(self.model, self.optimizer)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            alone = not dist.is_initialized()
            state_dict_saver.save(content, checkpoint_id=draft, no_dist=alone)
        if self.strategy.is_main:
            known = {name: history[name] for name in ("seconds", "evaluations")}
            store(draft / "history.json", json.dumps(known | {"skipped": step}))
            shutil.rmtree(path, ignore_errors=True)
            draft.rename(path)
            for old in saved(self.out)[:-KEPT]:
                shutil.rmtree(old)
        self.strategy.broadcast(None)

    def load(self) -> dict[str, Any] | None:
        """Fill model and optimizer from the latest checkpoint; None without one."""
        found = saved(self.out)
        if not found:
            return None
        content = state(self.model, self.optimizer)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="torch.distributed is disabled")
                alone = not dist.is_initialized()
                state_dict_loader.load(content, checkpoint_id=found[-1], no_dist=alone)
            history = json.loads((found[-1] / "history.json").read_text("utf-8"))
        except (Exception, CheckpointException) as error:  # the second is no Exception
            raise ValueError(
                f"{found[-1]} is damaged ({type(error).__name__}); remove it to go on from the one "
                "before, or from the start"
            ) from error
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=content["model"],
            optim_state_dict=content["optimizer"],
        )
        history["evaluations"] = [(step, values) for step, values in history["evaluations"]]
        return {"history": history, "random": None}


def saved(out: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(path for path in (out / FOLDER).glob("step-*") if path.suffix != ".draft")


def state(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Weights and optimizer state, by names that do not depend on the strategy."""
    weights, numbers = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": numbers}


def weights(model: nn.Module) -> dict[str, Any]:
    """All weights, whole and on the CPU, in the main process; empty in the others."""
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=whole)
