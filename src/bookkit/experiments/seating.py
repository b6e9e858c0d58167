"""The small models of the table with two questions: one attention, and what its heads find."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention, MultiHeadAttention, Projection
from attnbook.data.seats import DRINKS, C, tables, wanted
from attnbook.device import device_of
from attnbook.inside.watch import watch
from attnbook.losses import token_loss
from attnbook.train.loop import cosine, train

Batch = tuple[Float[Tensor, "B 12 46"], Int[Tensor, "B 12 2"]]


def build(
    heads: int,
    width: int = 32,
    D: int | None = None,
    attention: nn.Module | None = None,
    reader: nn.Module | None = None,
) -> nn.Sequential:
    """A linear map into `width`, one attention, and a linear `reader` of both answers.

    Heads are `D` wide, width ÷ heads if nothing else is said. There is no residual connection and
    no hidden layer: everything has to pass through the heads.
    """
    if attention is None:
        attention = (
            MultiHeadAttention(width, heads)
            if D is None
            else Attention(Projection(width, heads, D=D), nn.Linear(heads * D, width))
        )
    reader = nn.Linear(width, 2 * DRINKS) if reader is None else reader
    return nn.Sequential(nn.Linear(C, width), attention, reader)


def loss(model: nn.Module, batch: Batch, questions: Sequence[int] = (0, 1)) -> Tensor:
    """Mean cross-entropy of the answers to the `questions`: 0 is left, 1 is friend. In nats."""
    x, answers = batch
    said = model(x).unflatten(-1, (2, DRINKS))
    return token_loss(said[..., list(questions), :], answers[..., list(questions)])


@torch.no_grad()
def right(model: nn.Module, test: Batch) -> dict[str, float]:
    """Share of people who answer "left", "friend" and "both" correctly."""
    x, answers = test
    correct = model(x).unflatten(-1, (2, DRINKS)).argmax(-1) == answers
    left, friend = correct.float().mean((0, 1)).tolist()
    return {"left": left, "friend": friend, "both": correct.all(-1).float().mean().item()}


def unseen(B: int = 300) -> Batch:
    """The tables on which all models are tested, always the same."""
    return tables(torch.Generator().manual_seed(99), B)


def fit(
    model: nn.Module, seed: int = 0, steps: int = 600, lr: float = 0.01, every: int | None = None
) -> list[dict[str, float]]:
    """Train on `steps` batches of 32 tables with Adam and a cosine; what is `right` on the way.

    The last entry is that of the trained model, on 300 tables it has not seen.
    """
    device = device_of(model)
    x, answers = (part.to(device) for part in unseen())
    history = train(
        model,
        tables,
        loss,
        steps=steps,
        lr=lr,
        schedule=cosine(steps),
        seed=seed,
        evaluate=lambda model: right(model, (x, answers)),
        every=every or steps,
        progress=False,
    )
    return [found for _, found in history.evaluations]


@torch.no_grad()
def looks(model: nn.Sequential, x: Float[Tensor, "B 12 46"]) -> Float[Tensor, "H 2"]:
    """The weight of each head on the left neighbour and on the friend, its mean over all people.

    A head that looks at everybody alike gives both 1/12; one that looks left only gives the friend
    1/11, for that often they are one person.
    """
    with watch(model) as seen:
        model(x)
    weights = seen["1"].transpose(0, 1)  # (H, B, T, T)
    return torch.stack([weights[:, who].mean(-1) for who in wanted(x)], -1)
