"""Attention whose cost grows with T: a kernel instead of the softmax, or fewer keys.

With a kernel φ(q) · φ(k) in place of exp(q · k) the keys and values can be summed up before any
query is asked. Performer is a choice of φ. Linformer keeps the softmax and shortens the keys.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import attend

Feature = Callable[[Float[Tensor, "*batch T D"]], Float[Tensor, "*batch T F"]]


def elu_plus_one(x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
    """Features that are positive: x + 1 above zero, exp(x) below.

    Katharopoulos et al. 2020, equation 7.
    """
    return F.elu(x) + 1


def linear_attend(
    q: Float[Tensor, "*batch Tq D"],
    k: Float[Tensor, "*batch Tk D"],
    v: Float[Tensor, "*batch Tk Dv"],
    feature: Feature = elu_plus_one,
    mask: Bool[Tensor, "*#batch Tk"] | None = None,
) -> Float[Tensor, "*batch Tq Dv"]:
    """Weights proportional to feature(q) · feature(k), without computing any of them.

    All keys and values become one matrix, which each query is multiplied with. `mask` is True at
    keys, False at padding. Katharopoulos et al. 2020, equation 5.
    """
    check_counts(k, v)
    q, k = feature(q), feature(k)
    if mask is not None:
        k = k.masked_fill(~mask[..., None], 0)
    return divide(q @ (k.mT @ v), q @ k.sum(-2)[..., None])


def causal_linear_attend(
    q: Float[Tensor, "*batch T D"],
    k: Float[Tensor, "*batch T D"],
    v: Float[Tensor, "*batch T Dv"],
    feature: Feature = elu_plus_one,
    block: int = 32,
) -> Float[Tensor, "*batch T Dv"]:
    """`linear_attend` to the past and oneself, by running sums of constant size.

    Inside a `block` the weights are computed; with a block of 1 this is a recurrent network.
    Katharopoulos et al. 2020, sections 3.3 and 3.4.
    """
    check_counts(k, v)
    if block < 1:
        raise ValueError(f"a block holds at least 1 position; got {block}")
    blocks = (x.split(block, -2) for x in (feature(q), feature(k), v))
    outputs: list[Tensor] = []
    past: Tensor | int = 0
    total: Tensor | int = 0
    for i, (q, k, v) in enumerate(zip(*blocks, strict=True)):
        weights = (q @ k.mT).tril()
        output, sums = weights @ v, weights.sum(-1, keepdim=True)
        if i:  # what came before this block
            output, sums = output + q @ past, sums + q @ total
        outputs.append(divide(output, sums))
        past, total = past + k.mT @ v, total + k.sum(-2)[..., None]
    return torch.cat(outputs, -2)


def divide(output: Tensor, sums: Tensor) -> Tensor:
    """Weighted sums over the sums of their weights: zeros where nothing was seen."""
    return output / sums.masked_fill(sums == 0, 1)


def gaussian(count: int, D: int, generator: torch.Generator | None = None) -> Tensor:
    """Random directions, (count, D): all their numbers independent and normal."""
    return torch.randn(count, D, generator=generator)


def orthogonal(count: int, D: int, generator: torch.Generator | None = None) -> Tensor:
    """Random directions as `gaussian` ones each by itself, but D at a time at right angles.

    They cover the space more evenly. Choromanski et al. 2021, section 2.
    """
    if count < 1 or D < 1:
        raise ValueError(f"needs at least 1 direction of width 1; got {count} of width {D}")
    blocks = -(-count // D)
    q, r = torch.linalg.qr(torch.randn(blocks, D, D, generator=generator))
    turned = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None]  # else some are likelier than others
    lengths = torch.randn(count, D, generator=generator).norm(dim=-1, keepdim=True)
    return turned.mT.flatten(0, 1)[:count] * lengths


class RandomFeatures(nn.Module):
    """Random positive features: on average φ(q) · φ(k) is exp(q · k / √D), what softmax uses.

    `linear_attend(q, k, v, RandomFeatures(orthogonal(count, D)))` is Performer. The error falls as
    1/√count and is large where exp(q · k) is. Choromanski et al. 2021, lemma 1 (FAVOR+).
    """

    def __init__(self, directions: Float[Tensor, "count D"]):
        super().__init__()
        self.directions: Tensor
        self.register_buffer("directions", directions)

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch count"]:
        count, D = self.directions.shape
        if x.shape[-1] != D:
            raise ValueError(f"vectors of width {x.shape[-1]}, random directions of width {D}")
        x = x / D**0.25  # half of the scale 1/√D for q, half for k
        half_square = x.square().sum(-1, keepdim=True) / 2
        return torch.exp(x @ self.directions.T - half_square) / count**0.5


def linformer_attend(
    q: Float[Tensor, "*batch Tq D"],
    k: Float[Tensor, "*batch Tk D"],
    v: Float[Tensor, "*batch Tk Dv"],
    shorten_k: Float[Tensor, "R Tk"],
    shorten_v: Float[Tensor, "R Tk"] | None = None,
) -> Float[Tensor, "*batch Tq Dv"]:
    """Attention to R mixtures of the keys instead of to all Tk of them.

    The learned matrices belong to one length Tk, and they mix past and future: no causal mask can
    undo that. Without `shorten_v` both share one. Wang et al. 2020, equation 7.
    """
    shorten_v = shorten_k if shorten_v is None else shorten_v
    check_counts(k, v)
    for shorten in (shorten_k, shorten_v):
        if shorten.shape[1] != k.shape[-2]:
            raise ValueError(f"made to shorten {shorten.shape[1]} keys, not {k.shape[-2]}")
    return attend(q, shorten_k @ k, shorten_v @ v)[0]


def check_counts(k: Tensor, v: Tensor) -> None:
    """Raise a ValueError unless there are as many values as keys."""
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{k.shape[-2]} keys but {v.shape[-2]} values: each key needs its value")
