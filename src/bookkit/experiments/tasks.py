"""The shared body on small real data, one task per domain, each beside the domain's simple model.

Every task takes a seed and returns what each method reached: the share of right answers, or the
squared error where the answer is a number.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from torch import Tensor, nn

from attnbook.data import small
from attnbook.losses import token_loss
from attnbook.masks import causal
from attnbook.modalities.body import Adapted, fit
from attnbook.vision import cut

Reached = dict[str, float]


def dice(seed: int) -> torch.Generator:
    """A generator with this seed."""
    return torch.Generator().manual_seed(seed)


def right(said: Tensor, truth: Tensor) -> float:
    """The share of rows in which the largest number stands at the truth."""
    return (said.argmax(-1) == truth).float().mean().item()


def squared(forecast: Tensor, truth: Tensor) -> float:
    """The mean squared error."""
    return (forecast - truth).square().mean().item()


def rows_of(rows: Tensor, B: int) -> Callable[[torch.Generator], Tensor]:
    """A sampler of `B` of these rows, with replacement."""
    return lambda generator: rows[torch.randint(len(rows), (B,), generator=generator)]


def club(seed: int, steps: int = 60) -> Reached:
    """Which side does each member take, if two of either side are known?

    Beside it, labels that spread along the friendships until each member has the mean of their
    friends (harmonic functions, Zhu, Ghahramani and Lafferty 2003).
    """
    adjacency, group = small.karate()
    N = len(group)
    sides = [(group == side).nonzero()[:, 0] for side in (0, 1)]
    known = torch.cat([side[torch.randperm(len(side), generator=dice(seed))[:2]] for side in sides])
    rest = torch.ones(N, dtype=torch.bool).index_fill(0, known, False)
    people, itself = torch.eye(N)[None], torch.eye(N, dtype=torch.bool)

    def loss(model: nn.Module, mask: Tensor | None) -> Tensor:
        return token_loss(model(people, mask)[:, known], group[known][None])

    found: Reached = {}
    for name, mask in {"transformer": adjacency | itself, "without edges": None}.items():
        made = fit(lambda: Adapted(N, 2), partial(always, mask), loss, steps, seed)
        found[name] = right(made(people, mask)[0, rest], group[rest])
    spread = harmonic(adjacency, known, 2.0 * group[known] - 1)
    found["labels that spread"] = ((spread > 0) == (group == 1))[rest].float().mean().item()
    return found


def always(batch: Tensor | None, _: torch.Generator) -> Tensor | None:
    """The same batch in every step."""
    return batch


def harmonic(adjacency: Tensor, known: Tensor, values: Float[Tensor, " K"]) -> Float[Tensor, " N"]:
    """The values of all nodes, if each that is not known has the mean of its neighbours."""
    L = torch.diag(adjacency.sum(1)).float() - adjacency.float()
    found = torch.zeros(len(L)).index_copy(0, known, values)
    rest = torch.ones(len(L), dtype=torch.bool).index_fill(0, known, False)
    pull = -L[rest][:, known] @ values
    return found.masked_scatter(rest, torch.linalg.solve(L[rest][:, rest], pull))


def tumours(seed: int, steps: int = 150) -> Reached:
    """Benign or malignant? A token is a column of the table; 400 tumours to learn from."""
    rows, label, columns = small.tumours()
    order = torch.randperm(len(rows), generator=dice(seed))
    train, test, tokens = order[:400], order[400:], rows[:, :, None]

    def loss(model: Adapted, drawn: Int[Tensor, " B"]) -> Tensor:
        return token_loss(model.together(tokens[drawn]), label[drawn])

    made = fit(lambda: Adapted(1, 2, len(columns)), rows_of(train, 64), loss, steps, seed, 2e-3)
    simple = LogisticRegression(max_iter=1000).fit(rows[train], label[train])
    return {
        "transformer": right(made.together(tokens[test]), label[test]),
        "logistic regression": float(simple.score(rows[test], label[test])),
    }


def digits(seed: int, steps: int = 400) -> Reached:
    """Which digit? A token is a patch of 2 × 2 pixels; 1,400 digits to learn from."""
    pixels, labels = small.handwriting()
    unseen, truth = small.handwriting(training=False)
    tokens = cut(pixels[:, None], 2)

    def loss(model: Adapted, drawn: Int[Tensor, " B"]) -> Tensor:
        return token_loss(model.together(tokens[drawn]), labels[drawn])

    rows = torch.arange(len(pixels))
    made = fit(lambda: Adapted(4, 10, 16), rows_of(rows, 64), loss, steps, seed)
    found = {"transformer": right(made.together(cut(unseen[:, None], 2)), truth)}
    simple = {"logistic regression": LogisticRegression(max_iter=1000), "support vectors": SVC()}
    for name, model in simple.items():
        model.fit(pixels.flatten(1), labels)
        found[name] = float(model.score(unseen.flatten(1), truth))
    return found


def by_least_squares(windows: Float[Tensor, "N T n"], future: Float[Tensor, "M T n"]) -> Tensor:
    """Forecasts of the last row of each future window, linear in all rows before it."""

    def past(rows: Tensor) -> Tensor:
        return torch.cat((rows[:, :-1].flatten(1), torch.ones(len(rows), 1)), 1)

    weights = torch.linalg.lstsq(past(windows), windows[:, -1]).solution
    return past(future) @ weights


def forecast(series: Float[Tensor, "T n"], seed: int, past: int, steps: int) -> Reached:
    """The next moment, from `past` moments; seven tenths of the series to learn from.

    A language model without a vocabulary: causal mask, squared error after every moment.
    """
    windows = series.unfold(0, past + 1, 1).mT  # (N, past + 1, n)
    border, n = int(0.7 * len(series)), series.shape[1]
    train, test = windows[: border - past], windows[border:]

    def loss(model: Adapted, rows: Tensor) -> Tensor:
        return (model(rows[:, :-1], causal) - rows[:, 1:]).square()[:, 4:].mean()

    made = fit(lambda: Adapted(n, n, past), rows_of(train, 32), loss, steps, seed)
    truth = test[:, -1]
    return {
        "transformer": squared(made(test[:, :-1], causal)[:, -1], truth),
        "autoregression": squared(by_least_squares(train, test), truth),
        "the last value": squared(test[:, -2], truth),
        "the mean": squared(train[:, -1].mean(0), truth),
    }


def brain_waves(seed: int, steps: int = 200) -> Reached:
    """The next eightieth of a second of four channels, from sixteen."""
    return forecast(small.brain_waves(), seed, 16, steps)


def shares(seed: int, steps: int = 150) -> Reached:
    """By how much shares rise next month, from twelve months; in units of its variance."""
    returns = small.share_returns()
    return forecast((returns / returns.std())[:, None], seed, 12, steps)


TASKS: dict[str, Callable[[int], Reached]] = {
    "club": club,
    "tumours": tumours,
    "digits": digits,
    "brain waves": brain_waves,
    "shares": shares,
}
