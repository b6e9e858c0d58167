"""The vision transformer: a picture is cut into patches, and patches are read like words."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.positions import Learned, resized


def grid_of(image: tuple[int, ...], size: int) -> tuple[int, int]:
    """How many rows and columns of patches, `size` × `size` pixels each, an image divides into."""
    rows, columns = image
    if size < 1 or rows < size or columns < size or rows % size or columns % size:
        raise ValueError(
            f"an image of {rows} × {columns} does not divide into patches of {size} × {size}"
        )
    return rows // size, columns // size


def cut(
    images: Float[Tensor, "B channels rows columns"], size: int
) -> Float[Tensor, "B P numbers"]:
    """Patches of `size` × `size` pixels, row by row; each is one vector of all its numbers.

    Channel by channel, and in a channel row by row. Dosovitskiy et al. 2021, section 3.1.
    """
    grid_of(tuple(images.shape[-2:]), size)
    patches = images.unfold(2, size, size).unfold(3, size, size)  # (B channels R K size size)
    return patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


class Patches(nn.Module):
    """One vector for each patch, by the same linear map: a convolution whose steps are its size.

    Dosovitskiy et al. 2021, equation 1, E.
    """

    def __init__(self, size: int, width: int, channels: int = 3, bias: bool = True):
        super().__init__()
        self.size, self.channels = size, channels
        self.to_width = nn.Linear(channels * size * size, width, bias=bias)

    def forward(self, images: Float[Tensor, "B channels rows columns"]) -> Float[Tensor, "B P C"]:
        if images.dim() != 4:
            raise ValueError(
                "images are (B, channels, rows, columns), one alone is image[None]; got "
                f"{tuple(images.shape)}"
            )
        if images.shape[1] != self.channels:
            raise ValueError(f"images have {images.shape[1]} channels, not {self.channels}")
        return self.to_width(cut(images, self.size))


class ClassToken(nn.Module):
    """One token more, first and the same for every picture: what it has become tells the class.

    Dosovitskiy et al. 2021, equations 1 and 4; BERT's [CLS].
    """

    extra = 1  # how many tokens are added

    def __init__(self, width: int):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(width))

    def join(self, patches: Float[Tensor, "B P C"]) -> Float[Tensor, "B T C"]:
        return torch.cat((self.token.expand(patches.shape[0], 1, -1), patches), 1)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B C"]:
        return x[:, 0]


class MeanPool(nn.Module):
    """The average of what all patches have become tells the class; no token is added.

    Dosovitskiy et al. 2021, appendix D.3.
    """

    extra = 0

    def join(self, patches: Float[Tensor, "B P C"]) -> Float[Tensor, "B P C"]:
        return patches

    def forward(self, x: Float[Tensor, "B P C"]) -> Float[Tensor, "B C"]:
        return x.mean(1)


@runtime_checkable
class Pool(Protocol):
    """What a vision transformer asks of its pool: tokens to add, and the vector that tells all."""

    @property
    def extra(self) -> int:
        """How many tokens are added."""

    def join(self, patches: Float[Tensor, "B P C"]) -> Float[Tensor, "B T C"]:
        """The patches, and the `extra` tokens before them."""

    def __call__(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B C"]:
        """One vector for the picture."""


class VisionTransformer(nn.Module):
    """What is in the picture? An encoder over its patches; every patch sees every other.

    `image` is (rows, columns) of pixels; `pool` is `ClassToken` or `MeanPool`; `positions(T)` says
    where each token stands. Dosovitskiy et al. 2021, figure 1.
    """

    def __init__(
        self,
        image: tuple[int, int],
        patches: Patches,
        pool: Pool,
        positions: nn.Module,
        body: nn.Module,
        classifier: nn.Module,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.grid, self.image = grid_of(image, patches.size), image
        self.patches, self.pool, self.positions = patches, pool, positions
        self.dropout, self.body, self.classifier = nn.Dropout(dropout), body, classifier

    def forward(
        self, images: Float[Tensor, "B channels rows columns"]
    ) -> Float[Tensor, "B classes"]:
        """Logits of the classes."""
        rows, columns = images.shape[-2:]
        if (rows, columns) != self.image:
            raise ValueError(
                f"the images are {rows} × {columns}, this model is for {self.image[0]} × "
                f"{self.image[1]}: `resize` it first"
            )
        x = self.pool.join(self.patches(images))
        x = self.body(self.dropout(x + self.positions(x.shape[1])))
        return self.classifier(self.pool(x))


def tokens_of(
    model: VisionTransformer,
    images: Float[Tensor, "B channels rows columns"],
    kept: Int[Tensor, "B n"] | None = None,
) -> Float[Tensor, "B T C"]:
    """What the first block reads: added tokens first, then patches, each with its position.

    `kept` are the numbers of the patches that each picture keeps; the others are simply not in the
    sequence. Dosovitskiy et al. 2021, equation 1; He et al. 2022, section 3, for `kept`.
    """
    x, extra = model.pool.join(model.patches(images)), model.pool.extra
    x = x + model.positions(x.shape[1])
    if kept is None:
        return x
    rows = (extra + kept)[..., None].expand(-1, -1, x.shape[-1])
    return torch.cat((x[:, :extra], x.gather(1, rows)), 1)


def partial_logits(
    model: VisionTransformer,
    images: Float[Tensor, "B channels rows columns"],
    kept: Int[Tensor, "B n"],
) -> Float[Tensor, "B classes"]:
    """Logits from the patches `kept` alone, as `tokens_of` puts them in a row."""
    return model.classifier(model.pool(model.body(tokens_of(model, images, kept))))


@torch.no_grad()
def resize(model: VisionTransformer, image: tuple[int, int]) -> VisionTransformer:
    """Make a trained model read images of another size: its learned positions are interpolated.

    The model itself is changed, and returned. Dosovitskiy et al. 2021, section 3.2.
    """
    grid, old = grid_of(image, model.patches.size), getattr(model.positions, "table", None)
    if old is not None:
        table = resized(old[model.pool.extra :], model.grid, grid)
        positions = Learned(0, old.shape[1])
        positions.table = nn.Parameter(torch.cat((old[: model.pool.extra], table)))
        model.positions = positions
    model.image, model.grid = image, grid
    return model


class MaskedAutoencoder(nn.Module):
    """A vision transformer encodes some patches; a small stack, the decoder, makes all of them.

    The encoder never sees a gap: a hidden patch is not in its sequence. The decoder, of `width`,
    gets what was encoded at its places, and at the others a learned vector. He et al. 2022,
    section 3.
    """

    def __init__(self, encoder: VisionTransformer, decoder: nn.Module, width: int):
        super().__init__()
        rows, columns = encoder.grid
        numbers, C = encoder.patches.to_width.in_features, encoder.patches.to_width.out_features
        self.encoder, self.decoder = encoder, decoder
        self.to_decoder, self.gap = nn.Linear(C, width), nn.Parameter(torch.zeros(width))
        self.positions = Learned(rows * columns, width)
        self.to_pixels = nn.Linear(width, numbers)

    def forward(
        self, images: Float[Tensor, "B channels rows columns"], kept: Int[Tensor, "B n"]
    ) -> Float[Tensor, "B P numbers"]:
        """All patches as they are reconstructed, those too that were encoded."""
        seen = self.encoder.body(tokens_of(self.encoder, images, kept))
        seen = self.to_decoder(seen[:, self.encoder.pool.extra :])  # (B, n, width)
        x = self.gap.expand(len(images), self.positions.limit, -1)
        x = x.scatter(1, kept[..., None].expand_as(seen), seen)
        return self.to_pixels(self.decoder(x + self.positions(x.shape[1])))


def some_patches(B: int, P: int, count: int, generator: torch.Generator) -> Int[Tensor, "B n"]:
    """For each of B pictures the numbers of `count` of its P patches, all choices equally likely.

    He et al. 2022, section 3, "random sampling".
    """
    if not 1 <= count < P:
        raise ValueError(f"of {P} patches 1 to {P - 1} can be kept, so that some are hidden")
    return torch.rand(B, P, generator=generator).argsort(-1)[:, :count]


def gap_loss(
    reconstructed: Float[Tensor, "B P numbers"],
    images: Float[Tensor, "B channels rows columns"],
    kept: Int[Tensor, "B n"],
    size: int,
) -> Float[Tensor, ""]:
    """Mean squared error of the hidden patches alone. He et al. 2022, section 3."""
    error = (reconstructed - cut(images, size)).square().mean(-1)  # (B, P)
    return error.scatter(1, kept, 0.0).sum() / (error.numel() - kept.numel())
