"""Feed-forward networks: what each position does alone, after attention has mixed them."""

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
        self.activation = activation or nn.ReLU()
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return self.down(self.activation(self.up(x)))


class SwiGLU(nn.Module):
    """One linear map, gated by the Swish of another: down(silu(gate(x)) · up(x)), no biases.

    Shazeer 2020, equation 6. `hidden = swiglu_hidden(width)` costs as much as an MLP of 4 × width.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def swiglu_hidden(width: int, multiple: int = 1) -> int:
    """The hidden size with which three matrices have the weights of an MLP's two: 8/3 of the width.

    Rounded up to a `multiple`, as accelerators like it.
    """
    if multiple < 1:
        raise ValueError(f"a multiple is at least 1; got {multiple}")
    return multiple * -(-8 * width // (3 * multiple))
