"""DeiT: a vision transformer that also learns from a teacher."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm
from attnbook.feedforward import MLP
from attnbook.models.config import Config, only
from attnbook.models.registry import family
from attnbook.models.vit import VIT_LAYER, classes, of_pictures, picture_names, tower
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.vision import VisionTransformer, grid_of


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
    pool, classifier = TwoTokens(width), MeanOfTwo(width, classes)
    return tower(image, patch, blocks, pool, positions, classifier, norm())


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


@family(
    "deit",
    picture_names("deit", VIT_LAYER),
    "DeiTForImageClassificationWithTeacher",
    prefix="deit.",
)
def build_deit(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    eps = config.get("layer_norm_eps", 1e-12)
    return deit(classes=classes(config), eps=eps, **of_pictures(config))
