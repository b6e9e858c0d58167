"""A sparse autoencoder: many directions, few of them at once, that add up to a vector."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class SparseAutoencoder(nn.Module):
    """x ≈ b + Σ z_f d_f with at most `k` of the `features` numbers z_f above zero.

    The decoder's rows d_f are the dictionary, of length 1; the encoder begins as its transpose.
    Makhzani and Frey 2013; for the streams of language models Gao et al. 2024, "TopK".
    """

    def __init__(self, width: int, features: int, k: int):
        super().__init__()
        if not 1 <= k <= features:
            raise ValueError(f"of {features} features 1 to {features} can be at work; got k = {k}")
        self.k = k
        rows = nn.functional.normalize(torch.randn(features, width), dim=-1)
        self.decoder = nn.Parameter(rows)  # (F, C)
        self.encoder = nn.Parameter(rows.clone())
        self.bias, self.threshold = (nn.Parameter(torch.zeros(n)) for n in (width, features))

    def encode(self, x: Float[Tensor, "... C"]) -> Float[Tensor, "... F"]:
        """The k largest answers of the encoder, those below zero left out; zeros elsewhere."""
        found = (x - self.bias) @ self.encoder.T + self.threshold
        largest, which = found.topk(self.k, -1)
        return torch.zeros_like(found).scatter(-1, which, largest.relu())

    def decode(self, z: Float[Tensor, "... F"]) -> Float[Tensor, "... C"]:
        """The sum of the dictionary's rows, each as strong as its feature."""
        return z @ self.directions() + self.bias

    def directions(self) -> Float[Tensor, "F C"]:
        """The dictionary: one vector of length 1 per feature."""
        return nn.functional.normalize(self.decoder, dim=-1)

    def forward(self, x: Float[Tensor, "... C"]) -> Float[Tensor, "... C"]:
        return self.decode(self.encode(x))
