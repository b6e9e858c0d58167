"""Feed-forward networks: what each position does alone, after attention has mixed them."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class MLP(nn.Module):
    """Widen, bend, narrow: the same two linear maps at every position.

    Vaswani et al. 2017, equation 2, with ReLU; GPT-2 and BERT pass a GELU.
    """

    def __init__(
        self, width: int, hidden: int, activation: nn.Module | None = None, bias: bool = True
    ):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=bias)
        self.activation = nn.ReLU() if activation is None else activation
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return self.down(self.activation(self.up(x)))


class SquaredReLU(nn.Module):
    """Nothing below 0, the square above. So et al. 2021, "Primer", section 4; Nemotron."""

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return F.relu(x).square()


class QuickGELU(nn.Module):
    """x · sigmoid(1.702 x), nearly GELU. Hendrycks and Gimpel 2016, section 2; CLIP."""

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return x * (1.702 * x).sigmoid()


class XIELU(nn.Module):
    """Above 0 a parabola, p x² + βx, below it n (eˣ − 1 − x) + βx: what a linear and an exponential
    gradient add up to. How curved both sides are is learned: p = softplus, n = β + softplus.

    Huang and Schlag 2024, section 3, equation 9; Apertus.
    """

    beta: Tensor
    eps: Tensor

    def __init__(self, above: float = 0.8, below: float = 0.8, beta: float = 0.5):
        super().__init__()
        if above <= 0 or below <= beta:
            raise ValueError(
                f"curvatures are above 0 and above beta; got {above} and {below}, beta {beta}"
            )
        self.above = nn.Parameter(torch.tensor([above]).expm1().log())
        self.below = nn.Parameter(torch.tensor([below - beta]).expm1().log())
        self.register_buffer("beta", torch.tensor(beta))
        self.register_buffer("eps", torch.tensor(-1e-6))  # keeps eˣ small where it does not count

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        below = (self.beta + F.softplus(self.below)) * (torch.expm1(x.minimum(self.eps)) - x)
        return torch.where(x > 0, F.softplus(self.above) * x.square(), below) + self.beta * x


class GatedMLP(nn.Module):
    """One linear map, gated by another: down(activation(gate(x)) · up(x)).

    With SiLU it is `SwiGLU`, with GELU GeGLU (Gemma, T5 v1.1), with a sigmoid Dauphin's GLU.
    Shazeer 2020, equations 5 and 6.
    """

    def __init__(self, width: int, hidden: int, activation: nn.Module, bias: bool = False):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.activation = activation

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class SwiGLU(GatedMLP):
    """One linear map, gated by the Swish of another: down(silu(gate(x)) · up(x)), no biases.

    Shazeer 2020, equation 6. `hidden = swiglu_hidden(width)` costs as much as an MLP of 4 × width.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__(width, hidden, nn.SiLU())


class ClampedSwiGLU(GatedMLP):
    """A SwiGLU that nothing makes explode: both of its inputs stay within ±`limit`.

    down((up + 1) · gate · sigmoid(`sharpness` · gate)), with biases. OpenAI 2025 (gpt-oss).
    """

    def __init__(self, width: int, hidden: int, limit: float = 7.0, sharpness: float = 1.702):
        super().__init__(width, hidden, nn.Sigmoid(), bias=True)
        self.limit, self.sharpness = limit, sharpness

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        gate = self.gate(x).clamp(max=self.limit)
        up = self.up(x).clamp(-self.limit, self.limit)
        return self.down((up + 1) * gate * self.activation(self.sharpness * gate))


def swiglu_hidden(width: int, multiple: int = 1) -> int:
    """The hidden size with which three matrices have the weights of an MLP's two: 8/3 of the width.

    Rounded up to a `multiple`, as accelerators like it.
    """
    if multiple < 1:
        raise ValueError(f"a multiple is at least 1; got {multiple}")
    return multiple * -(-8 * width // (3 * multiple))
