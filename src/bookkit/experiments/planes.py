"""Tables of two columns, two classes that no straight line parts, and who answers for new points.

Chapter 11's figure: what a transformer makes of labelled points that it only reads, beside models
that are fitted to them.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from attnbook.modalities.tables import predict
from bookkit.experiments.tables import shipped

Points = Float[Tensor, "n 2"]
Chance = Callable[[Tensor, Tensor, Tensor], Tensor]
NAMES = ("moons", "circles", "XOR")


def draw(name: str, n: int, seed: int) -> tuple[Points, Int[Tensor, " n"]]:
    """`n` points between −2 and 2, or little beyond, half of each class, in random order."""
    if name == "XOR":
        dice = torch.Generator().manual_seed(seed)
        y = torch.arange(n) % 2
        signs = torch.stack((torch.ones(n), 1 - 2.0 * y), 1)
        turned = (1 - 2.0 * torch.randint(2, (n, 1), generator=dice)) * signs
        return turned * (0.1 + 1.8 * torch.rand(n, 2, generator=dice)), y
    if name == "moons":
        x, y = datasets.make_moons(n, noise=0.15, random_state=seed)
        x = (x - (0.5, 0.25)) * 1.2
    elif name == "circles":
        x, y = datasets.make_circles(n, noise=0.1, factor=0.45, random_state=seed)
        x = 1.5 * x
    else:
        raise ValueError(f"there is no {name!r}; there are {', '.join(NAMES)}")
    return torch.tensor(x).float(), torch.tensor(y)


def read(x: Tensor, y: Tensor, asked: Tensor) -> Tensor:
    """The shipped transformer's, some hundred points at a time: no point sees another."""
    model = shipped()
    return torch.cat([predict(model, x, y, part)[:, 1] for part in asked.split(200)])


def fitted(model: LogisticRegression | KNeighborsClassifier) -> Chance:
    """Of scikit-learn's model with its own settings, fitted to the labelled points."""

    def chance(x: Tensor, y: Tensor, asked: Tensor) -> Tensor:
        return torch.tensor(model.fit(x.numpy(), y.numpy()).predict_proba(asked.numpy())[:, 1])

    return chance


MODELS: dict[str, Chance] = {
    "transformer": read,
    "logistic regression": fitted(LogisticRegression()),
    "nearest neighbours": fitted(KNeighborsClassifier(5)),
}


def right(name: str, model: str, n: int, seed: int = 0) -> float:
    """The share of 400 new points that a model with `n` labelled ones is right about."""
    asked, truth = draw(name, 400, seed + 1000)
    chance = MODELS[model](*draw(name, n, seed), asked)
    return ((chance > 0.5) == (truth == 1)).float().mean().item()
