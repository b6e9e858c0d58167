"""One run of `attnbook train lm`: from a config to a folder that `shipped.language.load` opens."""

import json
import shutil
import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from attnbook.device import Here, choice, device_of
from attnbook.files import store
from attnbook.losses import parameters, token_loss
from attnbook.models.book import book_lm
from attnbook.provenance import provenance
from attnbook.quantise import quantised_file
from attnbook.train.cli import config as configs
from attnbook.train.cli import corpus
from attnbook.train.cli.batches import Batches, Pair, check_divides, windows_at
from attnbook.train.cli.config import Config, OptimConfig
from attnbook.train.cli.corpus import Corpus
from attnbook.train.cli.log import Log
from attnbook.train.loop import cosine_decay, linear_decay, train
from attnbook.train.optimizers import groups, muon_and_adamw
from attnbook.train.run import Callback, History, NonFiniteLoss, OverBudget, Run
from attnbook.train.sharded_checkpoint import ShardedCheckpoint, saved, weights
from attnbook.train.strategy import STRATEGIES, SingleProcess, check_launch, is_lost, ranks

DECAYS = {"constant": lambda spent: 1.0, "cosine": cosine_decay, "trapezoid": linear_decay}
EVALUATED = 64  # windows of the held-out text that an evaluation reads


def check(given: dict[str, Any], out: Path, resume: bool) -> Config:
    """The config of a run in this folder; ValueError, before anything is written, if it cannot be:
    bad values, a folder that holds a run already, or none to resume."""
    stored = configs.load(out) if resume else None
    config = configs.from_flat(given) if stored is None else configs.resume(stored, given)
    if stored is None and (out / configs.FILE).exists():
        raise ValueError(f"{out} holds a run: --resume goes on with it, or take another --out")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out is a folder")
    check_launch(config.hardware.parallel)
    check_divides(config.optim.batch, ranks()[1], config.hardware.accumulate)
    if stored is None:
        corpus.files(config.data)
    choose_device(config)
    return config


def choose_device(config: Config) -> torch.device:
    """The device of this process; ValueError for one that is not here."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    there = ["cuda"] * cuda + ["mps"] * mps + ["cpu"]
    name = config.hardware.device
    name = choice("ATTNBOOK_DEVICE", there, default=there[0]) if name == "auto" else name
    if name not in there:
        raise ValueError(f"there is no {name} on this machine; there is {' and '.join(there)}")
    return torch.device(name, ranks()[2]) if name == "cuda" else torch.device(name)


def run(config: Config, out: Path) -> int:
    """Train, or resume. Returns 0, or the number of the signal that ended it.

    Raises ConnectionError when another process of the job is gone.
    """
    if config.hardware.threads is not None:
        torch.set_num_threads(config.hardware.threads)
    device = choose_device(config)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    strategy = STRATEGIES[config.hardware.parallel](device)
    try:
        text = prepare(config, out, strategy)
        model, history = fit(config, text, out, strategy)
        ship(config, text, out, model, history, strategy)
    except NonFiniteLoss as error:
        raise ValueError(f"{error}: lower --lr") from error
    except RuntimeError as error:
        if is_lost(error):
            raise ConnectionError(lost(out)) from error
        raise
    strategy.close()
    return history.signal


def fit(
    config: Config, text: Corpus, out: Path, strategy: SingleProcess
) -> tuple[nn.Module, History]:
    """The model of a config, trained on a text: `attnbook.train.loop.train`, given all of it."""
    torch.manual_seed(config.seed)
    model = book_lm(config.model).to(strategy.device)
    if config.hardware.compile:
        for block in model.body.blocks:
            block.compile()
    called = strategy.wrap(model)
    optimizer = build_optimizer(model, config.optim)
    loss = partial(batch_loss, precision=config.hardware.dtype)
    batches = Batches(
        text.train,
        config.optim.context,
        config.optim.batch,
        config.seed,
        strategy.rank,
        strategy.world_size,
        config.hardware.accumulate,
    )
    minutes = config.train.minutes
    history = train(
        called,
        batches,
        loss,
        steps=config.train.steps,
        seconds=None if minutes is None else 60 * minutes,
        optimizer=optimizer,
        schedule=OverBudget(DECAYS[config.optim.schedule], config.optim.warmup),
        clip=config.optim.clip,
        seed=config.seed,
        evaluate=evaluation(text.validation, config.optim.context, loss, strategy),
        every=config.train.evaluate_every,
        checkpoint=ShardedCheckpoint(out, model, optimizer, strategy),
        save_every=config.train.save_every,
        save_seconds=60 * config.train.save_minutes,
        accumulate=config.hardware.accumulate,
        strategy=strategy,
        callbacks=[batches, OnTerminate(), *([Logger(config, text, out)] * strategy.is_main)],
        progress=False,
    )
    return model, history


def build_optimizer(model: nn.Module, optim: OptimConfig) -> Optimizer:
    """AdamW, or Muon with AdamW for what is no hidden matrix; only matrices decay."""
    lr, decay = float(optim.lr or 0.0), optim.weight_decay
    if optim.optimizer == "muon":
        return muon_and_adamw(model, lr, lr, weight_decay=decay)
    return AdamW(groups(model, lr, decay), lr=lr, betas=(0.9, 0.95))


def batch_loss(model: nn.Module, batch: Pair, precision: str = "float32") -> Tensor:
    """The loss of the tokens that follow, in nats; the model computes in this precision."""
    device = device_of(model)
    context: AbstractContextManager[object] = nullcontext()
    if precision != "float32":
        context = torch.autocast(device.type, dtype=torch.bfloat16)
    inputs, targets = (part.to(device) for part in batch)
    with context:
        logits = model(inputs)
    return token_loss(logits.float(), targets)


def evaluation(held_out: Int[Tensor, " N"], T: int, loss: Any, strategy: SingleProcess) -> Any:
    """A function of the model: the loss of a token on the first windows of the held-out text, dealt
    out to the processes. None if the text is shorter than a window."""
    world, count = strategy.world_size, min(EVALUATED, (len(held_out) - 1) // T)
    if count < 1:
        return None
    rounds = -(-count // world)  # as many for each process: their calls meet
    mine = torch.arange(rounds) * world + strategy.rank
    real = mine < count

    def evaluate(model: nn.Module) -> dict[str, float]:
        windows = (windows_at(held_out, first, T) for first in (mine % count * T).split(1))
        losses = torch.stack([loss(model, window) for window in windows])
        share = (losses * real.to(losses.device)).sum() * world / count
        return {"validation": strategy.mean(share).item()}

    return evaluate


class OnTerminate(Callback):
    """SIGTERM ends a run as Ctrl-C does: after the step that is under way, and saved."""

    def on_start(self, run: Run) -> None:
        self.before: Any = None
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGTERM, run.on_signal)

    def on_end(self, run: Run) -> None:
        if self.before is not None:
            signal.signal(signal.SIGTERM, self.before)


class Logger(Callback):
    """Prints and logs loss, gradient norm, learning rate, speed, and evaluations."""

    def __init__(self, config: Config, text: Corpus, out: Path):
        self.config, self.text, self.out = config, text, out

    def on_start(self, run: Run) -> None:
        self.log = Log(self.out, run.history.steps)
        count = parameters(book_lm(self.config.model))
        since = f" · from step {run.history.steps}" if run.history.steps else ""
        counts, strategy = self.text.counts, run.strategy
        print(
            f"text: {counts.train:,} tokens to train on, {counts.validation:,} held out\n"
            f"model: {count:,} parameters · {strategy.device.type} · "
            f"{self.config.hardware.dtype} · {strategy.world_size} process(es){since}",
            flush=True,
        )

    def on_step(self, run: Run) -> None:
        history, step = run.history, run.history.steps
        if step % self.config.train.log_every:
            return
        run.read()
        numbers = {"loss": history.loss[-1], "grad_norm": history.grad_norm[-1]}
        lr, seconds = run.optimizer.param_groups[0]["lr"], history.seconds
        self.log.add(step, **numbers, lr=lr, seconds=round(seconds, 3))
        speed = step * self.config.optim.batch * self.config.optim.context / seconds
        share = f"{100 * run.spent:.0f} %"
        print(
            f"step {step} · loss {history.loss[-1]:.4f} · {speed:,.0f} tokens/s · {share}",
            flush=True,
        )

    def on_evaluation(self, run: Run) -> None:
        step, values = run.history.evaluations[-1]
        self.log.add(step, **values)
        print(f"step {step} · held out {values['validation']:.4f}", flush=True)

    def on_end(self, run: Run) -> None:
        self.log.close()


def prepare(config: Config, out: Path, strategy: SingleProcess) -> Corpus:
    """The tokens, made by the main process; what goes wrong there goes wrong in all, and leaves no
    new folder behind."""
    wrong, new = None, not out.exists()
    if strategy.is_main:
        print(f"config: {json.dumps(configs.to_flat(config))}", flush=True)
        try:
            out.mkdir(parents=True, exist_ok=True)
            if not (out / configs.FILE).exists():  # what a start that failed has left
                (out / "corpus.json").unlink(missing_ok=True)
            text = corpus.prepare(config.data, config.model.V, out)
            Batches(text.train, config.optim.context, config.optim.batch)
            configs.save(config, out)
        except (ValueError, OSError) as error:
            wrong = str(error)
            if new:
                shutil.rmtree(out, ignore_errors=True)
    wrong = strategy.broadcast(wrong)
    if wrong:
        raise ValueError(wrong)
    return corpus.prepare(config.data, config.model.V, out)


def lost(out: Path) -> str:
    """What to do when another process is gone."""
    found = saved(out)
    step = f"step {int(found[-1].name.removeprefix('step-'))} is saved" if found else "none saved"
    return f"another process of this job is gone; in {out}, {step}: --resume goes on from there"


def ship(
    config: Config,
    text: Corpus,
    out: Path,
    model: nn.Module,
    history: History,
    strategy: SingleProcess,
) -> None:
    """Write weights and card beside the tokenizer, as `shipped.language.load` reads them."""
    whole = weights(model)
    if not strategy.is_main:
        return
    copy = book_lm(config.model)
    copy.load_state_dict(whole)
    quantised_file.save(copy, out / "weights.safetensors")
    here = Here(strategy.device, torch.float32, "gpu" if strategy.device.type == "cuda" else "cpu")
    step, values = history.evaluations[-1] if history.evaluations else (0, {})
    card = {
        "name": out.name,
        "what": f"A language model of {config.data}",
        "sizes": vars(config.model),
        "context": config.optim.context,
        "parameters": parameters(copy),
        "steps": history.steps,
        "nats_per_token": values.get("validation") if step == history.steps else None,
        "recipe": configs.to_flat(config),
        "data": {"train": text.counts.train, "sha256": text.counts.sha256},
        "provenance": provenance(here, "tokenizers", "safetensors"),
    }
    store(out / "card.json", json.dumps(card, indent=1) + "\n")
