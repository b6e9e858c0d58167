"""A gated recurrent unit whose gates do not look at its state: all steps can be taken at once."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.masks import Mask
from attnbook.recurrence.layer import StateCache, hide_padding
from attnbook.recurrence.scan import scan


class MinGRU(nn.Module):
    """h_t = (1 − z_t) h_{t−1} + z_t c_t, where gate z and candidate c are maps of x_t alone.

    The GRU without its matrix from state to state: what is left is linear in h, and `scan` takes
    log T rounds. `inner` is the width of the state. Feng et al. 2024, section 3.1.
    """

    def __init__(self, width: int, inner: int | None = None):
        super().__init__()
        inner = width if inner is None else inner
        self.to_gate, self.to_candidate = nn.Linear(width, inner), nn.Linear(width, inner)
        self.to_out = nn.Linear(inner, width, bias=False)
        self.scan = scan

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: StateCache | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """Causal by nature: `mask` may say so, and hide padding. A `cache` is the last state.

        Order is known without `positions`.
        """
        z, candidate = torch.sigmoid(self.to_gate(x)), self.to_candidate(x)
        z = hide_padding(z, mask, cache)  # where nothing is, nothing changes
        h = self.scan(1 - z, z * candidate, None if cache is None else cache.state)
        if cache is not None:
            cache.advance(x.shape[1], h[:, -1])
        return self.to_out(h)

    def cache(self, max_len: int | None = None) -> StateCache:
        """An empty cache for this layer; it needs no more room for a longer text."""
        return StateCache()
