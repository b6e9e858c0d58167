"""Normalisation: give each vector a standard size, whatever the layers before made of it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def layer_norm(
    x: Float[Tensor, "*batch C"], weight: Float[Tensor, " C"], bias: Float[Tensor, " C"], eps: float
) -> Float[Tensor, "*batch C"]:
    """Each vector minus its mean, over its standard deviation, times a learned weight, plus a bias.

    Ba et al. 2016, equation 4. `eps` stands inside the root, where torch puts it.
    """
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return weight * centred / torch.sqrt(variance + eps) + bias


def rms_norm(
    x: Float[Tensor, "*batch C"], weight: Float[Tensor, " C"], eps: float
) -> Float[Tensor, "*batch C"]:
    """Each vector over its root mean square: nothing is subtracted, nothing is added.

    Zhang and Sennrich 2019, equation 4, with `eps` inside the root as Llama has it.
    """
    return weight * x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


class LayerNorm(nn.Module):
    """`layer_norm` with its learned weight and bias, computed by torch's fused kernel.

    Without `bias` nothing is added, as in nanoGPT or Cohere's models. The factor is `offset` + what
    is learned, as in `RMSNorm` (Nemotron).
    """

    def __init__(self, width: int, eps: float = 1e-5, bias: bool = True, offset: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 1.0 - offset))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps, self.offset = eps, offset

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        check_width(x, self.weight)
        weight = self.weight + self.offset if self.offset else self.weight
        return F.layer_norm(x, self.weight.shape, weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """`rms_norm` with its learned weight, computed by torch's kernel.

    The factor is `offset` + `weight`: with an offset of 1 weight decay pulls it to 1, not to 0
    (Gemma, Qwen3-Next).
    """

    def __init__(self, width: int, eps: float = 1e-6, offset: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 1.0 - offset))
        self.eps, self.offset = eps, offset

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        check_width(x, self.weight)
        weight = self.weight + self.offset if self.offset else self.weight
        return F.rms_norm(x, self.weight.shape, weight.to(x.dtype), self.eps)


class PerHeadNorm(nn.Module):
    """`layer_norm` of each head's queries, or keys, with a weight for each head and no bias.

    Pass it to Projection as `q_norm` or `k_norm`; Cohere 2024 (Command R+), StableLM 2.
    """

    def __init__(self, heads: int, D: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads, D))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch H T D"]) -> Float[Tensor, "*batch H T D"]:
        if (x.shape[-3], x.shape[-1]) != self.weight.shape:
            heads, D = self.weight.shape
            raise ValueError(
                f"{x.shape[-3]} heads of width {x.shape[-1]}, the norm is of {heads} of width {D}"
            )
        return self.weight.unsqueeze(-2) * F.layer_norm(x, x.shape[-1:], eps=self.eps)


class Times(nn.Module):
    """Each number times a constant."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


class LayerScale(nn.Module):
    """Each channel times a learned number that begins small. Touvron et al. 2021 (CaiT), 2.1."""

    def __init__(self, width: int, start: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), start))

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        return self.weight * x


def check_width(x: Tensor, weight: Tensor) -> None:
    """Raise a ValueError unless the vectors are as wide as the norm."""
    if x.shape[-1] != len(weight):
        raise ValueError(f"the vectors have width {x.shape[-1]}, the norm has width {len(weight)}")
