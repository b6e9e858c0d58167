"""Training: one loop, short enough to read aloud; what lasts longer than a step is kept by `Run`."""
import math
import signal
import threading
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from attnbook import checkpoint as saved
from attnbook.progress import Bar


def train(model, sampler, loss, *, steps, lr=1e-3, optimizer=None, schedule=None, clip=1.0, seed=0, evaluate=None,
          every=100, seconds=None, checkpoint=None, precision=nullcontext, progress=True) -> "History":
    """Improve `model` by `steps` small steps downhill, and return the `History` of them.

    `sampler(generator)` draws a batch and `loss(model, batch)` turns it into one number. `optimizer` is Adam with
    rate `lr` unless one is passed; `schedule(step)` multiplies its rate; gradients longer than `clip` are shortened.
    Every `every` steps, and at the end, `evaluate(model)` is recorded and the file `checkpoint` written, from which
    the same call resumes. `seconds` limits the training time, evaluation not counted. Ctrl-C stops after the step.
    """
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=lr)
    with Run(model, optimizer, schedule or constant(), steps, clip, seed, evaluate, every, seconds, checkpoint, progress) as run:
        while run.goes_on():                        # evaluates and saves when it is time
            batch = run.to_device(sampler(run.generator))
            with precision():                       # here.autocast on a GPU
                value = loss(model, batch)
            optimizer.zero_grad()
            value.backward()
            norm = clip_grad_norm_(model.parameters(), clip or math.inf)
            run.check_finite(value, norm)           # before any weight changes
            optimizer.step()
            run.record(value, norm)
    return run.history


class NonFiniteLoss(RuntimeError):
    """The loss or its gradient stopped being a number. The weights are those before that step, still finite."""


@dataclass
class History:
    """What happened in training: `loss` and `grad_norm` (before clipping) of every step, `evaluations` as pairs
    (step, dictionary), `seconds` spent on steps alone, and whether somebody `interrupted` it."""

    loss: list = field(default_factory=list)
    grad_norm: list = field(default_factory=list)
    evaluations: list = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def steps(self) -> int:
        return len(self.loss)

    def evaluated(self, name="value"):
        """The evaluations as a curve: (steps, values). A bare number from `evaluate` is called "value"."""
        return [step for step, _ in self.evaluations], [values[name] for _, values in self.evaluations]

    def to_dict(self) -> dict:
        return {"steps": self.steps, **asdict(self)}

    def __repr__(self):
        return f"History: {self.steps} steps" + (", interrupted" if self.interrupted else "")


class Run:
    """The book-keeping around the loop: random numbers, rates, history, checkpoint, clock, Ctrl-C and progress bar."""

    def __init__(self, model, optimizer, schedule, steps, clip, seed, evaluate, every, seconds, checkpoint, progress):
        _check(model, optimizer, steps, clip, every, seconds)
        self.model, self.optimizer, self.schedule, self.evaluate = model, optimizer, schedule, evaluate
        self.steps, self.every, self.seconds = steps, every, seconds
        self.device = next(model.parameters()).device
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.plan = {"steps": steps, "seed": seed, "clip": clip, "lr": self.rates, "optimizer": type(optimizer).__name__,
                     "schedule": [float(schedule(step)) for step in (0, steps // 2, steps - 1)]}
        self.history, self.bar = History(), Bar(steps, progress)
        self.generator = torch.Generator().manual_seed(seed)
        self.file = saved.Checkpoint(checkpoint, self.plan, model, optimizer) if checkpoint else None
        found = self.file.load() if self.file else None
        torch.manual_seed(seed)
        if found:
            self.history = History(**found["history"])
            self.history.interrupted = False
            saved.set_random_state(found["random"], self.generator, self.device)
        self.torn, self.asked_to_stop, self.saved_step = False, False, self.history.steps if found else None
        self.random = saved.random_state(self.generator, self.device)

    def __enter__(self):
        self.modes = saved.modes(self.model)
        self.model.train()
        self.old_handler = None
        if threading.current_thread() is threading.main_thread():
            self.old_handler = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, kind, error, trace):
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.history.interrupted = interrupted
        if interrupted and not self.torn:
            self._save()
        if self.old_handler is not None:
            signal.signal(signal.SIGINT, self.old_handler)
        for module, training in self.modes:
            module.training = training
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            group["lr"] = rate
        self.bar.close()
        return interrupted

    def _on_interrupt(self, *_):
        """The first Ctrl-C waits for the end of the step, so that weights and optimizer agree; the second does not."""
        if self.asked_to_stop:
            raise KeyboardInterrupt
        self.asked_to_stop = True

    def goes_on(self) -> bool:
        """Evaluate and save if it is time; then: is there another step to take?"""
        step, history = self.history.steps, self.history
        over = step >= self.steps
        late = self.seconds is not None and history.seconds >= self.seconds
        if self.asked_to_stop:
            raise KeyboardInterrupt
        if step and (over or step % self.every == 0):
            self._evaluate()
            self._save()
        elif late:
            self._save()                            # first: a resumed run has no evaluation here
            self._evaluate()
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            group["lr"] = rate * self.schedule(step)
        self.bar.draw(step, history.loss[-1] if step else None)
        self.clock = time.perf_counter()
        return not (over or late)

    def to_device(self, batch):
        """The batch on the device of the model; tuples, named tuples, lists and dictionaries are entered."""
        if hasattr(batch, "to"):
            return batch.to(self.device)
        if isinstance(batch, dict):
            return {name: self.to_device(part) for name, part in batch.items()}
        if isinstance(batch, (tuple, list)):
            parts = [self.to_device(part) for part in batch]
            return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
        return batch

    def check_finite(self, value, norm):
        """Raise NonFiniteLoss, naming step, loss and gradient norm, unless both are finite."""
        self.loss, self.norm = value.item(), norm.item()
        if not (math.isfinite(self.loss) and math.isfinite(self.norm)):
            error = NonFiniteLoss(f"step {self.history.steps + 1}: loss {self.loss}, gradient norm {self.norm}; the weights are "
                                  "those before this step. Usual reasons: rate too high, no clipping, log or division of 0")
            error.history = self.history
            raise error
        self.torn = True

    def record(self, value, norm):
        """The step is complete: write it down, and where the random numbers stand."""
        self.history.seconds += time.perf_counter() - self.clock
        self.history.loss.append(self.loss)
        self.history.grad_norm.append(self.norm)
        self.torn = False
        if self.file:
            self.random = saved.random_state(self.generator, self.device)

    def _evaluate(self):
        """Ask `evaluate` in evaluation mode, without gradients; modes and random numbers are as before afterwards."""
        step, done = self.history.steps, self.history.evaluations
        if self.evaluate is None or (done and done[-1][0] == step):
            return
        modes, random = saved.modes(self.model), saved.random_state(self.generator, self.device)
        self.model.eval()
        try:
            with torch.no_grad():
                value = self.evaluate(self.model)
        finally:
            for module, training in modes:
                module.training = training
            saved.set_random_state(random, self.generator, self.device)
        value = value if isinstance(value, dict) else {"value": value}
        done.append((step, {name: float(number) for name, number in value.items()}))

    def _save(self):
        if self.file and self.saved_step != self.history.steps:
            self.file.save(asdict(self.history), self.random)
            self.saved_step = self.history.steps


def _check(model, optimizer, steps, clip, every, seconds):
    for name, number in {"steps": steps, "every": every}.items():
        if not isinstance(number, int) or number <= 0:
            raise ValueError(f"{name} is {number}; a whole number above 0 is needed")
    for name, number in {"clip": clip, "seconds": seconds}.items():
        if number is not None and not number > 0:
            raise ValueError(f"{name} is {number}; a number above 0 is needed, or None for no limit")
    mine = {id(weight) for weight in model.parameters() if weight.requires_grad}
    if not mine:
        raise ValueError("the model has no parameter that can be trained")
    devices = sorted({str(weight.device) for weight in model.parameters()})
    if len(devices) > 1:
        raise ValueError(f"the model lies on {len(devices)} devices ({', '.join(devices)}); one is needed")
    theirs = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
    strangers = sum(weight not in {id(w) for w in model.parameters()} for weight in theirs)
    if strangers:
        raise ValueError(f"{strangers} of the {len(theirs)} tensors of the optimizer are not parameters of this model")


def constant():
    """A schedule that leaves the rate alone."""
    return lambda step: 1.0


def cosine(steps, warmup=0, floor=0.1):
    """A schedule: the rate rises in a straight line for `warmup` steps, then falls along half a cosine to `floor` times itself.

    Loshchilov and Hutter 2017, equation 5, without restarts.
    """
    if not 0 <= warmup < steps:
        raise ValueError(f"warmup of {warmup} does not fit into {steps} steps")
    if not 0 <= floor <= 1:
        raise ValueError(f"floor is {floor}; a factor from 0 to 1 is needed")

    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, steps - warmup - 1))
        return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2

    return factor


def token_loss(logits: Tensor, targets: Tensor, mask: Tensor | None = None) -> Tensor:
    """How surprised the model is by a true token, on average: cross-entropy in nats over the tokens where `mask` is True.

    `logits` are "... V", `targets` and `mask` "...".
    """
    if logits.shape[:-1] != targets.shape or (mask is not None and mask.shape != targets.shape):
        shapes = [tuple(tensor.shape) for tensor in (logits, targets, mask) if tensor is not None]
        raise ValueError(f"logits, targets and mask do not fit together: {' · '.join(map(str, shapes))}")
    if mask is not None:
        logits, targets = logits[mask], targets[mask]
    if targets.numel() == 0:
        raise ValueError("there is no token to take the loss of: the mask is False everywhere")
    return nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def parameters(model: nn.Module) -> int:
    """How many numbers the model has learnt or could learn; a shared tensor counts once."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
