"""The book's vision transformer: trained on CIFAR-10 by the book's recipe, shipped with it.

    from attnbook.shipped.vision import load
    book = load()
    print(book, book.says(book.pictures[:1]))

Its folder has `weights.safetensors` (whole numbers of eight bits, a scale for each row),
`card.json`, which says how it was trained and how good it is, and `pictures.png`, twelve pictures
of CIFAR-10's test set to look at.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.device import device_of
from attnbook.feedforward import MLP
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.quantise import quantised_file
from attnbook.shipped.language import FOLDER, widened
from attnbook.transformer import initialise, xavier
from attnbook.vision import ClassToken, Patches, VisionTransformer

PLACE = FOLDER / "book-vit"
MOMENTS = ("mean", "std")


@dataclass(frozen=True, repr=False)
class BookVit:
    """A vision transformer with its card, and some pictures that it was not trained on."""

    model: VisionTransformer
    card: dict[str, Any]
    pictures: UInt8[Tensor, "N 3 32 32"]

    def __repr__(self) -> str:
        return f"BookVit({self.card['parameters']:,} parameters, {len(self.pictures)} pictures)"

    def standardised(
        self, pixels: UInt8[Tensor, "B 3 32 32"] | Float[Tensor, "B 3 32 32"]
    ) -> Float[Tensor, "B 3 32 32"]:
        """What the model reads, where it lies: pixels from 0 to 255 with the training set's mean
        and deviation."""
        pixels = pixels.to(device_of(self.model))
        mean, std = (pixels.new_tensor(self.card[name], dtype=torch.float32) for name in MOMENTS)
        return (pixels - mean[:, None, None]) / std[:, None, None]

    @torch.no_grad()
    def says(self, pixels: UInt8[Tensor, "B 3 32 32"]) -> list[tuple[str, float]]:
        """For each picture the likeliest class and its probability."""
        found = self.model(self.standardised(pixels)).softmax(-1).max(-1)
        names = [self.card["classes"][at] for at in found.indices.tolist()]
        return list(zip(names, found.values.tolist(), strict=True))


def build(
    patch: int = 4, width: int = 128, depth: int = 7, heads: int = 4, hidden: int = 384
) -> VisionTransformer:
    """`vit` of CIFAR's size with normed queries and keys; what a block adds starts at zero."""

    def pre(part: nn.Module) -> PreNorm:
        return PreNorm(part, LayerNorm(width))

    def block() -> Block:
        norm = LayerNorm(width // heads)  # of queries and of keys: one gain for both
        part = MultiHeadAttention(width, heads, q_norm=norm, k_norm=norm)
        return Block(pre(part), pre(MLP(width, hidden, nn.GELU())))

    pool, P = ClassToken(width), (32 // patch) ** 2
    body = Stack([block() for _ in range(depth)], LayerNorm(width))
    positions, classifier = Learned(P + pool.extra, width), nn.Linear(width, 10)
    model = VisionTransformer((32, 32), Patches(patch, width), pool, positions, body, classifier)
    return initialise(model, zero_or_xavier)


def zero_or_xavier(name: str, weight: Tensor) -> None:
    """Zeros for what ends a part of a block and for the classes, `xavier` for the rest."""
    if name.endswith(("to_out", "down", "classifier")):
        nn.init.zeros_(weight)
    else:
        xavier(name, weight)


def load(folder: Path = PLACE) -> BookVit:
    """The vision transformer with its shipped weights, in evaluation mode."""
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    few = quantised_file.load(build(**card["sizes"]), folder / "weights.safetensors")
    model = build(**card["sizes"])
    model.load_state_dict(widened(few))
    return BookVit(model.eval(), card, strip(folder / "pictures.png"))


def strip(path: Path) -> UInt8[Tensor, "N 3 32 32"]:
    """The pictures of a file in which they stand side by side, 32 × 32 pixels each."""
    with Image.open(path) as image:
        pixels = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    return torch.stack(pixels.split(32, dim=2))
