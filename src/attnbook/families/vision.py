"""Vision transformers after the first: DeiT, DINOv2 with registers, SigLIP's tower."""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Residual, Stack
from attnbook.feedforward import MLP
from attnbook.initial import initialise, normal
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.vit import MeanPool, Patches, Pool, VisionTransformer, grid_of


class TwoTokens(nn.Module):
    """A class token, and one that learns what a teacher says. Touvron et al. 2021, section 4."""

    extra = 2

    def __init__(self, width: int):
        super().__init__()
        self.token, self.teacher = (nn.Parameter(torch.zeros(width)) for _ in range(2))

    def join(self, patches: Float[Tensor, "B P C"]) -> Float[Tensor, "B T C"]:
        tokens = torch.stack((self.token, self.teacher)).expand(patches.shape[0], -1, -1)
        return torch.cat((tokens, patches), 1)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B 2 C"]:
        return x[:, :2]


class MeanOfTwo(nn.Module):
    """A map for each of two tokens; what they say is averaged."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.own, self.teacher = nn.Linear(width, classes), nn.Linear(width, classes)

    def forward(self, x: Float[Tensor, "B 2 C"]) -> Float[Tensor, "B classes"]:
        return (self.own(x[:, 0]) + self.teacher(x[:, 1])) / 2


def tower(
    image: tuple[int, int],
    patch: int,
    blocks: Sequence[nn.Module],
    pool: Pool,
    positions: nn.Module,
    to_class: nn.Module,
    norm: LayerNorm,
) -> VisionTransformer:
    """A vision transformer of these parts, for pictures of three channels."""
    width = norm.gain.shape[0]
    patches = Patches(patch, width, 3)
    model = VisionTransformer(image, patches, pool, positions, Stack(blocks, norm), to_class)
    return initialise(model, normal)


def deit(
    image: tuple[int, int] = (224, 224),
    patch: int = 16,
    classes: int = 1000,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    eps: float = 1e-12,
) -> VisionTransformer:
    """Touvron et al. 2021, section 4, base: a ViT that also learns from a teacher, by a token
    of its own."""
    norm = partial(LayerNorm, width, eps)
    rows, columns = grid_of(image, patch)

    def block() -> Block:
        attention, network = MultiHeadAttention(width, heads), MLP(width, hidden, nn.GELU())
        return Block(PreNorm(attention, norm()), PreNorm(network, norm()))

    blocks = [block() for _ in range(depth)]
    positions = Learned(rows * columns + 2, width)
    pool, to_class = TwoTokens(width), MeanOfTwo(width, classes)
    return tower(image, patch, blocks, pool, positions, to_class, norm())


class LayerScale(nn.Module):
    """Each channel times a learned number that begins small. Touvron et al. 2021 (CaiT), 2.1."""

    def __init__(self, width: int, start: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), start))

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        return self.gain * x


class Registers(nn.Module):
    """A class token, then registers: tokens that stand nowhere and that nobody reads in the end.

    What tells the class are the class token and the mean of the patches. Darcet et al. 2024,
    section 2.2.
    """

    def __init__(self, width: int, registers: int = 4):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(width))
        self.registers = nn.Parameter(torch.zeros(registers, width))

    @property
    def extra(self) -> int:
        return 1 + len(self.registers)

    def join(self, patches: Float[Tensor, "B P C"]) -> Float[Tensor, "B T C"]:
        tokens = torch.cat((self.token[None], self.registers)).expand(patches.shape[0], -1, -1)
        return torch.cat((tokens, patches), 1)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B 2*C"]:
        return torch.cat((x[:, 0], x[:, self.extra :].mean(1)), -1)


class Skipping(nn.Module):
    """A learned table of positions in which registers, after the first token, have none."""

    def __init__(self, limit: int, width: int, registers: int):
        super().__init__()
        self.table, self.registers = nn.Parameter(0.02 * torch.randn(limit, width)), registers

    def forward(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        nowhere = self.table.new_zeros(self.registers, self.table.shape[1])
        return torch.cat((self.table[:1], nowhere, self.table[1:]))[start : start + T]


def dinov2(
    image: tuple[int, int] = (518, 518),
    patch: int = 14,
    classes: int = 1000,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    registers: int = 4,
    eps: float = 1e-6,
) -> VisionTransformer:
    """Oquab et al. 2024 with the registers of Darcet et al. 2024, base: a ViT whose parts are added
    by a learned scale, and a linear map that reads class token and mean patch."""
    norm = partial(LayerNorm, width, eps)
    rows, columns = grid_of(image, patch)

    def block() -> Block:
        parts = MultiHeadAttention(width, heads), MLP(width, hidden, nn.GELU())
        return Block(*(Residual(part, norm(), LayerScale(width)) for part in parts))

    blocks = [block() for _ in range(depth)]
    positions = Skipping(rows * columns + 1, width, registers)
    to_class = nn.Linear(2 * width, classes)
    return tower(image, patch, blocks, Registers(width, registers), positions, to_class, norm())


class AttentionPool(MeanPool):
    """One learned query asks all patches; what it gets passes through a network. Zhai et al. 2022,
    section 3.2, "MAP"."""

    def __init__(self, width: int, heads: int, hidden: int, eps: float):
        super().__init__()
        self.probe = nn.Parameter(torch.randn(width))
        self.attention, self.norm = MultiHeadAttention(width, heads), LayerNorm(width, eps)
        self.network = MLP(width, hidden, nn.GELU(approximate="tanh"))

    def forward(self, x: Float[Tensor, "B P C"]) -> Float[Tensor, "B C"]:
        found = self.attention(self.probe.expand(x.shape[0], 1, -1), x)
        return (found + self.network(self.norm(found)))[:, 0]


def siglip(
    image: tuple[int, int] = (224, 224),
    patch: int = 16,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    eps: float = 1e-6,
) -> VisionTransformer:
    """Zhai et al. 2023, the tower for pictures, base: no class token; a query of its own gathers
    what the patches know. Its output is the picture's vector."""
    norm = partial(LayerNorm, width, eps)
    rows, columns = grid_of(image, patch)

    def block() -> Block:
        network = MLP(width, hidden, nn.GELU(approximate="tanh"))
        return Block(PreNorm(MultiHeadAttention(width, heads), norm()), PreNorm(network, norm()))

    blocks = [block() for _ in range(depth)]
    pool, positions = AttentionPool(width, heads, hidden, eps), Learned(rows * columns, width)
    return tower(image, patch, blocks, pool, positions, nn.Identity(), norm())
