"""A study: runs that are measured once and stored, each with all that it depends on.

What the scripts in `results/` share. A run is named by its settings, `config`; what is stored of it
holds them, and a run that is stored with other settings is never replaced.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from attnbook.device import Here
from attnbook.losses import token_loss
from attnbook.provenance import write
from attnbook.train.run import History

Config: TypeAlias = dict[str, Any]
Measure: TypeAlias = Callable[[Config, Path], dict[str, Any]]  # measure(config, checkpoint)


def stored(path: Path, config: Config) -> dict[str, Any] | None:
    """The run in this file, or None where there is none; a ValueError if it is another run."""
    if not path.exists():
        return None
    run = json.loads(path.read_text("utf-8"))
    if run["config"] != config:
        there = run["config"]
        different = [name for name in config | there if there.get(name) != config.get(name)]
        raise ValueError(
            f"{path} holds a run with another {', '.join(different)}; move it away, or name "
            "another --out"
        )
    return run


def measured(
    path: Path, config: Config, measure: Measure, checkpoint: Path | None = None
) -> dict[str, Any]:
    """The run with these settings: the stored one, or it is measured now and stored.

    `measure` trains with the file `checkpoint`, which lies beside `path` unless it is named, and
    is removed once the result is there: an interrupted run resumes when this is called again.
    """
    run = stored(path, config)
    if run is None:
        checkpoint = checkpoint or path.with_name(f"{path.stem}.checkpoint")
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        run = measure(config, checkpoint)
        write(path, run)
        checkpoint.unlink(missing_ok=True)
    return run


def run_or_explain(
    parser: argparse.ArgumentParser,
    path: Path,
    config: Config,
    measure: Measure,
    checkpoint: Path | None = None,
) -> dict[str, Any]:
    """`measured`, for a program: what is refused is said as an error of its arguments."""
    try:
        return measured(path, config, measure, checkpoint)
    except ValueError as error:
        parser.error(str(error))


def changes(options: argparse.Namespace, names: Iterable[str]) -> Config:
    """The settings of these names that were given on the command line."""
    return {name: value for name in names if (value := vars(options)[name]) is not None}


def complete(history: History) -> History:
    """The history of a run that went to its end; one that was interrupted ends the program."""
    if history.interrupted:
        raise SystemExit(f"stopped after {history.steps} steps; run again to go on")
    return history


def curve(history: History, every: int = 1) -> list[tuple[int, float]]:
    """What was evaluated, as it is stored: pairs of a step, in units of `every`, and a number."""
    return [(step // every, round(values["value"], 4)) for step, values in history.evaluations]


def adamw(model: nn.Module, config: Config) -> AdamW:
    """AdamW with `config`'s `lr`, `betas` and `weight_decay`: as in nanoGPT all matrices decay,
    tables too (`attnbook.train.optimizers.groups` leaves those out), and vectors do not."""
    weights = list(model.parameters())
    groups = [
        {"params": [w for w in weights if w.dim() > 1], "weight_decay": config["weight_decay"]},
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]
    first, second = config.get("betas", (0.9, 0.999))
    return AdamW(groups, lr=config["lr"], betas=(first, second))


def next_token_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the next token, in nats; `batch` is what came before and what came."""
    inputs, targets = batch
    return token_loss(model(inputs), targets)


def held_out_loss(
    model: nn.Module, windows: tuple[Tensor, Tensor], here: Here, B: int = 128
) -> float:
    """`next_token_loss` over all windows, which have the same length, `B` at a time."""
    total, parts = 0.0, zip(*(part.split(B) for part in windows), strict=True)
    with torch.no_grad():
        for inputs, targets in parts:
            batch = inputs.to(here.device), targets.to(here.device)
            total += next_token_loss(model, batch).item() * len(inputs)
    return total / len(windows[0])
