"""What recurrent layers share: a state as cache, a short convolution, and which masks they heed."""

from typing import NoReturn

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.cache import AppendOnly
from attnbook.masks import And, Causal, Grid, Mask, padding


class StateCache(AppendOnly):
    """What a recurrent layer keeps of the past: a state of one size, however long the past is.

    `recent` are the last inputs of its short convolution. `length` counts the positions so far.
    """

    can_be_cut = False

    def __init__(self) -> None:
        self.length = 0
        self.state: Tensor | None = None
        self.recent: Tensor | None = None

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order, as a search among beams does."""
        if self.state is not None:
            self.state = self.state[rows]
        if self.recent is not None:
            self.recent = self.recent[rows]

    def cut(self, length: int) -> None:
        """Forget everything, or nothing: what was mixed into a state cannot be taken out."""
        if length == 0:
            self.state = self.recent = None
        elif length != self.length:
            raise ValueError(
                f"a state of {self.length} positions cannot be cut to {length}, only to 0"
            )
        self.length = length

    def append(self, k: Tensor, v: Tensor) -> NoReturn:
        """Refused: attention was given the cache of another kind of layer."""
        raise ValueError("a state keeps no keys and values: give it to the layer that made it")

    def total(self, T: int) -> int:
        """How many positions a mask speaks of when T are new."""
        return self.length + T

    def grid(self, B: int, Tq: int, Tk: int, device: torch.device) -> Grid:
        """Where the last Tq and Tk positions stand."""
        return Grid(B, Tq, Tk, device, first=self.length - Tk)

    def advance(self, T: int, state: Tensor) -> None:
        """T more positions were read, and led to this state."""
        self.length, self.state = self.length + T, state


class ShortConvolution(nn.Module):
    """Each channel mixes its last few values, by itself: k_t may hold the token before.

    Zeros stand before the first. A causal depthwise convolution, as in Mamba and every delta layer.
    """

    def __init__(self, channels: int, kernel: int = 4, bias: bool = False):
        super().__init__()
        if kernel < 1:
            raise ValueError(f"a convolution sees at least 1 position; got {kernel}")
        self.weight = nn.Parameter(torch.empty(channels, kernel))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        nn.init.uniform_(self.weight, -(kernel**-0.5), kernel**-0.5)

    def forward(
        self, x: Float[Tensor, "B T C"], cache: StateCache | None = None
    ) -> Float[Tensor, "B T C"]:
        """A `cache` supplies the inputs of earlier calls, and keeps the last of these."""
        kernel, x = self.weight.shape[1], x.mT
        before = None if cache is None else cache.recent
        x = F.pad(x, (kernel - 1, 0)) if before is None else torch.cat((before, x), -1)
        if cache is not None:
            cache.recent = x[..., x.shape[-1] - kernel + 1 :]
        return F.conv1d(x, self.weight[:, None], self.bias, groups=len(self.weight)).mT


def hide_padding(
    x: Float[Tensor, "B T C"], mask: Mask | None, cache: StateCache | None = None
) -> Float[Tensor, "B T C"]:
    """`x` with zeros where there is padding, for a layer that sees all of the past by its nature.

    `mask` may be causal, or None, and hide padding; ValueError if it would hide other positions.
    With a `cache`, x goes on where that is; else it is the last that the mask speaks of.
    """
    is_token, T = token_mask(mask), x.shape[1]
    if is_token is None:
        return x
    start = is_token.shape[1] - T if cache is None else cache.length
    return x * is_token[:, start : start + T, None]


def token_mask(mask: Mask | None) -> Bool[Tensor, "B all"] | None:
    """True at tokens, False at padding; None if the mask hides no padding."""
    if mask is None or isinstance(mask, Causal) or (isinstance(mask, Tensor) and mask.dim() == 2):
        return None  # a table for all rows alike can only be the causal one
    if isinstance(mask, padding):
        return mask.is_token
    if isinstance(mask, And):
        all_rows = (token_mask(pattern) for pattern in mask.patterns)
        hidden = [is_token for is_token in all_rows if is_token is not None]
        return torch.stack(hidden).all(0) if hidden else None
    raise ValueError(
        "a recurrent layer sees all of the past and nothing else: its mask is causal, and may hide "
        f"padding; got {mask if not isinstance(mask, Tensor) else tuple(mask.shape)}"
    )


def unit(x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
    """The same direction with length 1; a vector of zeros stays one."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def wide(x: Tensor) -> Tensor:
    """At least 32 bits: a state adds up over the whole past, and so do its errors."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def softplus_inverse(x: Tensor) -> Tensor:
    """The number whose softplus is x."""
    return x + torch.log(-torch.expm1(-x))
