"""SigLIP's tower for pictures."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm
from attnbook.feedforward import MLP
from attnbook.models.config import Config, only
from attnbook.models.layout import Table, convolution, reshaped
from attnbook.models.registry import family
from attnbook.models.vit import of_pictures, tower
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.vision import MeanPool, VisionTransformer, grid_of


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


SIGLIP: Table = {
    "patches.to_width": ("embeddings.patch_embedding", convolution),
    "positions": "embeddings.position_embedding",
    "attention.sublayer.project.to_qkv": "encoder.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.sublayer.to_out": "encoder.layers.{i}.self_attn.out_proj",
    "attention.norm": "encoder.layers.{i}.layer_norm1",
    "feedforward.norm": "encoder.layers.{i}.layer_norm2",
    "feedforward.sublayer.up": "encoder.layers.{i}.mlp.fc1",
    "feedforward.sublayer.down": "encoder.layers.{i}.mlp.fc2",
    "body.norm": "post_layernorm",
    "pool.probe": ("head.probe", reshaped(1, 1)),
    "pool.attention.project.to_qkv.weight": "head.attention.in_proj_weight",
    "pool.attention.project.to_qkv.bias": "head.attention.in_proj_bias",
    "pool.attention.to_out": "head.attention.out_proj",
    "pool.norm": "head.layernorm",
    "pool.network.up": "head.mlp.fc1",
    "pool.network.down": "head.mlp.fc2",
}


@family("siglip_vision_model", SIGLIP, "SiglipVisionModel")
def build_siglip(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu_pytorch_tanh")
    return siglip(eps=config.get("layer_norm_eps", 1e-6), **of_pictures(config))
