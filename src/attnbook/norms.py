"""Normalisation: give each vector a standard size, whatever the layers before made of it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.rotary import Rotate


def layer_norm(
    x: Float[Tensor, "*batch C"], gain: Float[Tensor, " C"], shift: Float[Tensor, " C"], eps: float
) -> Float[Tensor, "*batch C"]:
    """Each vector minus its own mean, over its own standard deviation; then a learned gain, shift.

    Ba et al. 2016, equation 4. `eps` stands inside the root, where torch puts it.
    """
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return gain * centred / torch.sqrt(variance + eps) + shift


def rms_norm(
    x: Float[Tensor, "*batch C"], gain: Float[Tensor, " C"], eps: float
) -> Float[Tensor, "*batch C"]:
    """Each vector over its root mean square: nothing is subtracted, nothing is added.

    Zhang and Sennrich 2019, equation 4, with `eps` inside the root as Llama has it.
    """
    return gain * x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


class LayerNorm(nn.Module):
    """`layer_norm` with its learned gain and shift, computed by torch's fused kernel.

    Without `shift` nothing is added, as in nanoGPT or Cohere's models. The gain is `offset` + what
    is learned, as in `RMSNorm` (Nemotron).
    """

    def __init__(self, width: int, eps: float = 1e-5, shift: bool = True, offset: float = 0.0):
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), 1.0 - offset))
        self.shift = nn.Parameter(torch.zeros(width)) if shift else None
        self.eps, self.offset = eps, offset

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        check_width(x, self.gain)
        gain = self.gain + self.offset if self.offset else self.gain
        return F.layer_norm(x, self.gain.shape, gain, self.shift, self.eps)


class RMSNorm(nn.Module):
    """`rms_norm` with its learned gain, computed by torch's kernel.

    The gain is `offset` + what is learned: with an offset of 1 weight decay pulls it to 1, not to 0
    (Gemma, Qwen3-Next).
    """

    def __init__(self, width: int, eps: float = 1e-6, offset: float = 0.0):
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), 1.0 - offset))
        self.eps, self.offset = eps, offset

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        check_width(x, self.gain)
        gain = self.gain + self.offset if self.offset else self.gain
        return F.rms_norm(x, self.gain.shape, gain.to(x.dtype), self.eps)


class PerHeadNorm(nn.Module):
    """`layer_norm` of each head's queries, or keys, with a gain of its own for each head, no shift.

    Pass it to Projection as `q_norm` or `k_norm`; Cohere 2024 (Command R+), StableLM 2.
    """

    def __init__(self, heads: int, D: int, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(heads, D))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch H T D"]) -> Float[Tensor, "*batch H T D"]:
        if (x.shape[-3], x.shape[-1]) != self.gain.shape:
            heads, D = self.gain.shape
            raise ValueError(
                f"{x.shape[-3]} heads of width {x.shape[-1]}, the norm is of {heads} of width {D}"
            )
        return self.gain.unsqueeze(-2) * F.layer_norm(x, x.shape[-1:], eps=self.eps)


class QKNorm(nn.Module):
    """Queries and keys get a standard size before they meet: no weights make their scores explode.

    Pass it to MultiHeadAttention as `rotate`: `norm` works on each head's queries and keys, then
    `rotate` turns them, if there is one. The norm's gain is the same for both; for two of them, as
    in Qwen3, give `Projection` a `q_norm` and a `k_norm`. Henry et al. 2020; Dehghani et al. 2023,
    section 2.
    """

    def __init__(self, norm: nn.Module, rotate: Rotate | None = None):
        super().__init__()
        self.norm, self.rotate = norm, rotate

    def forward(
        self, x: Float[Tensor, "*batch T D"], start: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "*batch T D"]:
        x = self.norm(x)
        return x if self.rotate is None else self.rotate(x, start)


def check_width(x: Tensor, gain: Tensor) -> None:
    """Raise a ValueError unless the vectors are as wide as the norm."""
    if x.shape[-1] != len(gain):
        raise ValueError(f"the vectors have width {x.shape[-1]}, the norm has width {len(gain)}")
