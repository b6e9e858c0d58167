"""DINOv2 with registers."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, Residual
from attnbook.feedforward import MLP
from attnbook.models.config import Config, only
from attnbook.models.registry import family
from attnbook.models.vit import classes, of_pictures, picture_names, tower
from attnbook.norms import LayerNorm, LayerScale
from attnbook.vision import VisionTransformer, grid_of


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
    classifier = nn.Linear(2 * width, classes)
    return tower(image, patch, blocks, Registers(width, registers), positions, classifier, norm())


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


DINO_LAYER = {
    "attention.before": "norm1",
    "attention.after.weight": "layer_scale1.lambda1",
    "feedforward.before": "norm2",
    "feedforward.after.weight": "layer_scale2.lambda1",
    "feedforward.sublayer.up": "mlp.fc1",
    "feedforward.sublayer.down": "mlp.fc2",
}


@family(
    "dinov2_with_registers",
    picture_names("dinov2_with_registers", DINO_LAYER),
    "Dinov2WithRegistersForImageClassification",
    prefix="dinov2_with_registers.",
    extra=("*.mask_token",),
)
def build_dinov2(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    only(config, "use_swiglu_ffn", False)
    registers, eps = config.get("num_register_tokens", 0), config.get("layer_norm_eps", 1e-6)
    sizes = of_pictures(config)
    return dinov2(classes=classes(config), registers=registers, eps=eps, **sizes)
