"""Training a decoder for long, on one process or many: the loop, and what a step is made of."""

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW, Optimizer

from attnbook.models import book_lm
from attnbook.optimizers import groups, muon_and_adamw
from attnbook.train import constant, cosine, token_loss, trapezoid
from attnbook.trainer import checkpoints
from attnbook.trainer.batches import Batches, Pair, windows_at
from attnbook.trainer.corpus import Corpus
from attnbook.trainer.log import Log
from attnbook.trainer.settings import Recipe, Settings
from attnbook.trainer.stops import Stops
from attnbook.trainer.team import Alone

MILLION = 1_000_000  # a schedule's steps: what is known is the share of the budget that is spent
FALL = {
    "constant": constant(),
    "cosine": cosine(MILLION, floor=0.1),
    "trapezoid": trapezoid(MILLION),
}
CHECKED = 64  # windows of the held-out text that an evaluation reads


def rate(recipe: Recipe, step: int, spent: float) -> float:
    """The factor of the learning rate: up in a straight line over `warmup` steps, and as the
    schedule says at the share of the budget that is `spent`, from 0 to 1."""
    up = min(1.0, (step + 1) / max(1, recipe.warmup))
    return up * FALL[recipe.schedule](min(MILLION - 1, int(spent * MILLION)))


def optimizer_of(model: nn.Module, recipe: Recipe) -> Optimizer:
    """AdamW, or Muon with AdamW for what is no hidden matrix; only matrices decay."""
    lr, decay = float(recipe.lr or 0.0), recipe.weight_decay
    if recipe.optimizer == "muon":
        return muon_and_adamw(model, lr, lr, weight_decay=decay)
    return AdamW(groups(model, lr, decay), lr=lr, betas=(0.9, 0.95))


class Training:
    """One run: its model, shared by the team, and where it stands."""

    def __init__(self, settings: Settings, corpus: Corpus, out: Path, team: Alone):
        self.settings, self.out, self.team = settings, out, team
        self.recipe, self.budget = settings.recipe, settings.budget
        sizes = settings.sizes
        torch.manual_seed(settings.seed)
        self.model = book_lm(**sizes.of_model()).to(team.device)
        if settings.machine.compile:
            for block in self.model.body.blocks:
                block.compile()
        self.called = team.wrap(self.model)
        self.optimizer = optimizer_of(self.model, self.recipe)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.batches = Batches(corpus.train, sizes.context, self.recipe.batch, settings.seed)
        self.held_out = corpus.validation
        self.at = checkpoints.load(out, self.model, self.optimizer)
        self.saved_at = self.at.step if checkpoints.saved(out) else -1

    def run(self) -> int:
        """Take steps until the budget is spent or a signal comes; which signal, 0 for none."""
        log = Log(self.out, self.at.step) if self.team.leads else None
        self.called.train()
        with Stops() as stops:
            while True:
                asked, spent = self.team.largest(stops.asked, self.spent())
                if asked or spent >= 1:
                    break
                began = time.perf_counter()
                loss, norm = self.step(spent)
                self.at.step += 1
                self.at.seconds += time.perf_counter() - began
                self.write_down(log, loss, norm, spent)
            if not asked and self.at.validation is None:
                self.evaluate(log)
            self.save()
        if log:
            log.close()
        return int(asked)

    def spent(self) -> float:
        """The share of the budget that is spent."""
        if self.budget.steps is not None:
            return self.at.step / self.budget.steps
        return self.at.seconds / (60 * float(self.budget.minutes or 0))

    def step(self, spent: float) -> tuple[Tensor, Tensor]:
        """One step downhill; the loss before it and the gradient's norm, of the whole batch."""
        for group, lr in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = lr * rate(self.recipe, self.at.step, spent)
        parts = self.settings.machine.accumulate
        pieces = self.batches.pieces(self.at.step, self.team.rank, self.team.world, parts)
        self.optimizer.zero_grad()
        total = torch.zeros((), device=self.team.device)
        for number, piece in enumerate(pieces, 1):
            with self.team.unsent(self.called, last=number == parts):
                loss = self.loss(piece) / parts
                loss.backward()
            total += loss.detach()
        norm = clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        if not norm.isfinite():  # in all processes alike, and before any weight changes
            raise ValueError(f"step {self.at.step + 1}: the gradient is {norm}; lower --lr")
        self.optimizer.step()
        return self.team.mean(total), norm

    def loss(self, piece: Pair) -> Tensor:
        inputs, targets = (part.to(self.team.device) for part in piece)
        with self.precision():
            logits = self.called(inputs)
        return token_loss(logits.float(), targets)

    def precision(self) -> AbstractContextManager[object]:
        if self.settings.machine.dtype == "float32":
            return nullcontext()
        return torch.autocast(self.team.device.type, dtype=torch.bfloat16)

    def write_down(self, log: Log | None, loss: Tensor, norm: Tensor, spent: float) -> None:
        """After a step: what is due of log, evaluation and checkpoint."""
        step, self.at.validation = self.at.step, None
        if step % self.budget.log_every == 0:
            numbers = {"loss": loss.item(), "grad_norm": norm.item()}
            self.at.loss = numbers["loss"]
            if log:
                shown = self.optimizer.param_groups[0]["lr"]
                log.add(step, **numbers, lr=shown, seconds=round(self.at.seconds, 3))
                speed = step * self.recipe.batch * self.settings.sizes.context / self.at.seconds
                share = f"{100 * self.spent():.0f} %"
                print(
                    f"step {step} · loss {loss:.4f} · {speed:,.0f} tokens/s · {share}", flush=True
                )
        if step % self.budget.evaluate_every == 0:
            self.evaluate(log)
        if step % self.budget.save_every == 0:
            self.save()

    @torch.no_grad()
    def evaluate(self, log: Log | None) -> None:
        """The loss of a token of the held-out text, in nats, on its first windows."""
        T, world = self.settings.sizes.context, self.team.world
        count = min(CHECKED, (len(self.held_out) - 1) // T)
        if count < 1:
            return
        rounds = -(-count // world)  # as many for each process: their calls meet
        mine = torch.arange(rounds) * world + self.team.rank
        real = mine < count
        self.called.eval()
        first = (mine % count * T).split(1)
        losses = [self.loss(windows_at(self.held_out, one, T)) for one in first]
        self.called.train()
        part = (torch.stack(losses) * real.to(self.team.device)).sum() * world / count
        self.at.validation = self.team.mean(part).item()
        if log:
            log.add(self.at.step, validation=self.at.validation)
            print(f"step {self.at.step} · held out {self.at.validation:.4f}", flush=True)

    def save(self) -> None:
        """Write a checkpoint, unless this step's is there."""
        if self.saved_at != self.at.step:
            checkpoints.save(self.team, self.out, self.model, self.optimizer, self.at)
            self.saved_at = self.at.step
