"""A norm that takes orders: what is generated, and how far along, decides scale, shift and gate."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.cache import DecodingState
from attnbook.masks import Mask


def modulated(
    x: Float[Tensor, "B *T C"], shift: Float[Tensor, "B C"], scale: Float[Tensor, "B C"]
) -> Float[Tensor, "B *T C"]:
    """x · (1 + scale) + shift, the same at every position: at 0 and 0 nothing changes."""
    axes = (len(x), *[1] * (x.dim() - 2), -1)
    return x * (1 + scale.view(axes)) + shift.view(axes)


class AdaNorm(nn.Module):
    """x + gate · part(modulated(norm(x))): a `PreNorm` that a condition turns up, down and off.

    One map makes shift, scale and gate of the condition, such as time and class. It starts at 0:
    the part is switched off, and the whole model starts as the identity. Peebles and Xie 2023
    (DiT), section 3.2, adaLN-Zero; pass a `norm` without gains of its own.
    """

    def __init__(self, sublayer: nn.Module, norm: nn.Module, width: int, condition_width: int):
        super().__init__()
        self.sublayer, self.norm = sublayer, norm
        self.to_orders = nn.Linear(condition_width, 3 * width)
        nn.init.zeros_(self.to_orders.weight), nn.init.zeros_(self.to_orders.bias)

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        condition: Float[Tensor, "B Cc"],
        *given: object,
        **named: object,
    ) -> Float[Tensor, "B T C"]:
        shift, scale, gate = self.to_orders(F.silu(condition)).chunk(3, -1)
        found = self.sublayer(modulated(self.norm(x), shift, scale), *given, **named)
        return x + gate[:, None] * found


class ConditionedBlock(nn.Module):
    """`Block` with a condition: attention and feed-forward network, each in an `AdaNorm`."""

    def __init__(self, attention: AdaNorm, feedforward: AdaNorm):
        super().__init__()
        self.attention, self.feedforward = attention, feedforward

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        condition: Float[Tensor, "B Cc"],
        mask: Mask | None = None,
        cache: DecodingState | None = None,
    ) -> Float[Tensor, "B T C"]:
        return self.feedforward(self.attention(x, condition, mask=mask, cache=cache), condition)


class AdaHead(nn.Module):
    """The last map of such a model: a norm that is modulated, then a map that starts at 0.

    Peebles and Xie 2023, section 3.2, "transformer decoder".
    """

    def __init__(self, norm: nn.Module, width: int, condition_width: int, out: int):
        super().__init__()
        self.norm = norm
        self.to_orders = nn.Linear(condition_width, 2 * width)
        self.to_out = nn.Linear(width, out)
        for layer in (self.to_orders, self.to_out):
            nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)

    def forward(
        self, x: Float[Tensor, "B T C"], condition: Float[Tensor, "B Cc"]
    ) -> Float[Tensor, "B T out"]:
        shift, scale = self.to_orders(F.silu(condition)).chunk(2, -1)
        return self.to_out(modulated(self.norm(x), shift, scale))


class TimeEmbedding(nn.Module):
    """A vector for a time between 0 and 1: waves of many speeds, then a small network.

    Peebles and Xie 2023, section 3.2, after Nichol and Dhariwal 2021; their times go to 1000.
    """

    speeds: Tensor

    def __init__(self, width: int, waves: int = 256):
        super().__init__()
        if waves < 2 or waves % 2:
            raise ValueError(f"waves come in pairs of sine and cosine; got {waves}")
        speeds = 1000 * 10_000 ** (-torch.arange(waves // 2) / (waves // 2))
        self.register_buffer("speeds", speeds, persistent=False)
        self.network = nn.Sequential(nn.Linear(waves, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, time: Float[Tensor, " B"]) -> Float[Tensor, "B C"]:
        angles = time[:, None] * self.speeds
        return self.network(torch.cat((angles.cos(), angles.sin()), -1))
