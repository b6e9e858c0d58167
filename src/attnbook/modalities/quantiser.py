"""Pictures as words: a vector becomes the number of the nearest entry of a learned codebook.

Van den Oord et al. 2017 (VQ-VAE); with it a language model can write pictures, as in Esser et al.
2021 (VQGAN) and in models that read and write both (Chameleon 2024).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.modalities.body import Adapted


class Quantised(NamedTuple):
    """Entries of the codebook in place of vectors, their numbers, and what that cost."""

    vectors: Float[Tensor, "B T D"]
    codes: Int[Tensor, "B T"]
    loss: Float[Tensor, ""]


class VectorQuantiser(nn.Module):
    """Replaces each vector by the nearest of `entries`; the gradient passes as if it had not.

    The loss pulls entries towards the vectors, and with a quarter of the weight the vectors towards
    their entries. Van den Oord et al. 2017, equations 1 to 3.
    """

    def __init__(self, entries: int, width: int, commitment: float = 0.25):
        super().__init__()
        if entries < 2:
            raise ValueError(f"a codebook has at least 2 entries, not {entries}")
        self.commitment = commitment
        self.codebook = nn.Parameter(torch.randn(entries, width))

    def encode(self, x: Float[Tensor, "*B D"]) -> Int[Tensor, "*B"]:
        """The number of the nearest entry."""
        return torch.cdist(x.flatten(0, -2), self.codebook).argmin(-1).view(x.shape[:-1])

    def forward(self, x: Float[Tensor, "B T D"]) -> Quantised:
        codes = self.encode(x.detach())
        near = self.codebook[codes]
        to_vectors = (near - x.detach()).square().mean()
        to_entries = (x - near.detach()).square().mean()
        return Quantised(
            x + (near - x).detach(), codes, to_vectors + self.commitment * to_entries
        )  # straight through: forwards the entry, backwards the vector


class Tokeniser(nn.Module):
    """Tokens to codes and back: the shared body on both sides of a codebook.

    `numbers` in a token, `places` in a sequence, `entries` of `width` numbers in the codebook.
    """

    def __init__(self, numbers: int, places: int, entries: int, width: int = 8):
        super().__init__()
        self.encoder = Adapted(numbers, width, places)
        self.quantiser = VectorQuantiser(entries, width)
        self.decoder = Adapted(width, numbers, places)

    def forward(
        self, tokens: Float[Tensor, "B T numbers"]
    ) -> tuple[Float[Tensor, "B T numbers"], Quantised]:
        """The tokens as they are read back, and what stood between."""
        found = self.quantiser(self.encoder(tokens))
        return self.decoder(found.vectors), found

    @torch.no_grad()
    def encode(self, tokens: Float[Tensor, "B T numbers"]) -> Int[Tensor, "B T"]:
        """The codes of these tokens."""
        return self.quantiser.encode(self.encoder(tokens))

    @torch.no_grad()
    def decode(self, codes: Int[Tensor, "B T"]) -> Float[Tensor, "B T numbers"]:
        """What the codes stand for."""
        return self.decoder(self.quantiser.codebook[codes])
