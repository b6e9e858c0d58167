"""The masked autoencoder: most patches of a picture are hidden, and painted from the rest."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.positions import Learned
from attnbook.vit import VisionTransformer, cut, tokens_of


class MaskedAutoencoder(nn.Module):
    """A vision transformer reads some patches; a small stack `painter` paints all of them.

    The reader never sees a gap: a hidden patch is not in its sequence. The painter, of `width`,
    gets what was read at its places, and at the others a learned vector. He et al. 2022, section 3.
    """

    def __init__(self, reader: VisionTransformer, painter: nn.Module, width: int):
        super().__init__()
        rows, columns = reader.grid
        numbers, C = reader.patches.to_width.in_features, reader.patches.to_width.out_features
        self.reader, self.painter = reader, painter
        self.to_painter, self.gap = nn.Linear(C, width), nn.Parameter(torch.zeros(width))
        self.positions = Learned(rows * columns, width)
        self.to_pixels = nn.Linear(width, numbers)

    def forward(
        self, images: Float[Tensor, "B channels rows columns"], kept: Int[Tensor, "B n"]
    ) -> Float[Tensor, "B P numbers"]:
        """All patches as they are painted, those too that were read."""
        read = self.reader.body(tokens_of(self.reader, images, kept))
        read = self.to_painter(read[:, self.reader.pool.extra :])  # (B, n, width)
        x = self.gap.expand(len(images), self.positions.limit, -1)
        x = x.scatter(1, kept[..., None].expand_as(read), read)
        return self.to_pixels(self.painter(x + self.positions(x.shape[1])))


def some_patches(B: int, P: int, count: int, generator: torch.Generator) -> Int[Tensor, "B n"]:
    """For each of B pictures the numbers of `count` of its P patches, all choices equally likely.

    He et al. 2022, section 3, "random sampling".
    """
    if not 1 <= count < P:
        raise ValueError(f"of {P} patches 1 to {P - 1} can be kept, so that some are hidden")
    return torch.rand(B, P, generator=generator).argsort(-1)[:, :count]


def gap_loss(
    painted: Float[Tensor, "B P numbers"],
    images: Float[Tensor, "B channels rows columns"],
    kept: Int[Tensor, "B n"],
    size: int,
) -> Float[Tensor, ""]:
    """Mean squared error of the hidden patches alone. He et al. 2022, section 3."""
    error = (painted - cut(images, size)).square().mean(-1)  # (B, P)
    return error.scatter(1, kept, 0.0).sum() / (error.numel() - kept.numel())
