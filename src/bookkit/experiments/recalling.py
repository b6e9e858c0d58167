"""The small models of the recall task: one look, and what kind of memory it looks into."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import attend, scaled_dot_scores
from attnbook.data.recall import NAMES, NUMBERS, T, pairs
from attnbook.efficient.linear import causal_linear_attend
from attnbook.losses import token_loss
from attnbook.masks import causal_mask
from attnbook.recurrence.delta import delta_chunks
from attnbook.recurrence.gated import gated_chunks
from attnbook.recurrence.layer import unit
from attnbook.train.loop import cosine, train

Batch = tuple[Int[Tensor, "B T 3"], Int[Tensor, "B T"]]
Vectors = Float[Tensor, "B T D"]
Look = Callable[[Vectors, Vectors, Tensor, Tensor, Tensor], Tensor]  # q, k, v, strength, log decay


def exact(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """All pairs are kept: softmax attention to the past."""
    return attend(q, k, v, causal_mask(q.shape[1]))[0]


def exact_recent(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """All pairs are kept, and a learned slope on the distance prefers the newer of two."""
    age = -log_decay[0, 0] * torch.arange(q.shape[1])  # the first decay stands for the slope
    mask = causal_mask(q.shape[1])
    scores = scaled_dot_scores(q, k) + age
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v


def positive(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """Linear attention with the positive features elu + 1, and its denominator."""
    return causal_linear_attend(q, k, v, block=q.shape[1])


def added(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """Linear attention with keys and queries of length 1: pairs are added up."""
    return gated_chunks(unit(q), unit(k), v)[0]


def faded(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """The same, and the memory fades: gated linear attention."""
    return gated_chunks(unit(q), unit(k), v, log_decay)[0]


def corrected(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """The delta rule."""
    return delta_chunks(unit(q), unit(k), v, beta, chunk=T)[0]


def corrected_faded(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """The gated delta rule."""
    return delta_chunks(unit(q), unit(k), v, beta, log_decay, chunk=T)[0]


LOOKS: dict[str, Look] = {
    "softmax": exact,
    "softmax + slope": exact_recent,
    "linear, elu + 1": positive,
    "linear, unit keys": added,
    "gated": faded,
    "delta": corrected,
    "gated delta": corrected_faded,
}


class Recall(nn.Module):
    """Keys from names, values from numbers, a query from the name asked for, and one look.

    Names have `D` channels, numbers 16: the memory of a linear look is D × 16. All kinds have the
    same parameters, whether they use them or not.
    """

    def __init__(self, look: Look, D: int = 16):
        super().__init__()
        self.look = look
        self.to_q, self.to_k = nn.Embedding(NAMES, D), nn.Embedding(NAMES, D)
        self.to_v, self.to_out = nn.Embedding(NUMBERS, NUMBERS), nn.Linear(NUMBERS, NUMBERS)
        self.strength, self.keep = nn.Embedding(NAMES, 1), nn.Embedding(NAMES, 1)
        self.scale = nn.Parameter(torch.tensor(4.0))
        for part, value in ((self.strength, 1.0), (self.keep, 4.0)):
            nn.init.constant_(part.weight, value)
        for part in (self.to_q, self.to_k, self.to_v):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)

    def forward(self, x: Int[Tensor, "B T 3"]) -> Float[Tensor, "B T numbers"]:
        names, numbers, asked = x.unbind(-1)
        q, k, v = self.to_q(asked), self.to_k(names), self.to_v(numbers)
        beta = self.strength(names)[..., 0].sigmoid()
        log_decay = F.logsigmoid(self.keep(names)[..., 0])
        return self.to_out(self.scale * self.look(q, k, v, beta, log_decay))


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Mean cross-entropy of the answers, in nats."""
    return token_loss(model(batch[0]), batch[1])


@torch.no_grad()
def right(model: nn.Module, test: Batch) -> list[float]:
    """Share of right answers by the number of pairs read, four neighbouring counts together."""
    correct = (model(test[0]).argmax(-1) == test[1]).float().mean(0)
    return correct.view(-1, 4).mean(-1).tolist()


def unseen(returning: bool = False, B: int = 400) -> Batch:
    """The lists on which all models are tested, always the same."""
    return pairs(returning)(torch.Generator().manual_seed(99), B)


def fit(
    look: str,
    seed: int = 0,
    D: int = 16,
    returning: bool = False,
    lr: float = 0.03,
    steps: int = 400,
) -> Recall:
    """A model with one of the `LOOKS`, trained on `steps` batches of 32 lists."""
    if look not in LOOKS:
        raise ValueError(f"looks are {', '.join(LOOKS)}; got {look!r}")
    torch.manual_seed(seed)
    model = Recall(LOOKS[look], D)
    sampler = partial(pairs(returning), B=32)
    train(
        model,
        sampler,
        loss,
        steps=steps,
        lr=lr,
        schedule=cosine(steps),
        seed=seed,
        progress=False,
    )
    return model
