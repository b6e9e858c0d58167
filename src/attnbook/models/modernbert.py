"""ModernBERT."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import GatedMLP
from attnbook.masks import local
from attnbook.models.config import SIZES, Config, activation, near_and_far, only, or_default, read
from attnbook.models.layout import Table, rows
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary
from attnbook.transformer import Embed, MaskedLanguageModel, Tied, initialise, normal


def modernbert(
    V: int = 50_368,
    width: int = 768,
    heads: int = 12,
    hidden: int = 1152,
    windows: Sequence[int | None] = (None, 65, 65) * 7 + (None,),
    rotations: tuple[Rotary | None, Rotary | None] = (None, None),
    eps: float = 1e-5,
    activation: nn.Module | None = None,
) -> MaskedLanguageModel:
    """Warner et al. 2024, "ModernBERT", section 2.1, base: a norm before each part but the first,
    GeGLU, no biases, queries and keys rotated; two blocks that see 64 positions either way to one
    that sees everything. `rotations` are those of the two kinds."""
    norm, D = partial(LayerNorm, width, eps, bias=False), width // heads
    gelu = or_default(activation, nn.GELU())
    near, far = rotations[0] or Rotary(D), rotations[1] or Rotary(D, 160_000.0)

    def block(first: bool, window: int | None) -> Block:
        project, to_out = Projection(width, heads, bias=False), nn.Linear(width, width, bias=False)
        turn, pattern = (far, None) if window is None else (near, local(window))
        attention = Attention(project, to_out, turn, pattern=pattern)
        network = GatedMLP(width, hidden, gelu)
        before = nn.Identity() if first else norm()  # the embedding has just been normed
        return Block(PreNorm(attention, before), PreNorm(network, norm()))

    body = Stack([block(i == 0, window) for i, window in enumerate(windows)], norm())
    embed = Embed(V, width, norm=norm())
    layer = nn.Linear(width, width, bias=False), nn.GELU(), norm(), Tied(embed, bias=True)
    return initialise(MaskedLanguageModel(embed, body, nn.Sequential(*layer)), normal)


MODERNBERT: Table = {
    "embed.tokens": "model.embeddings.tok_embeddings",
    "embed.norm": "model.embeddings.norm",
    "attention.norm": "model.layers.{i}.attn_norm",
    "attention.sublayer.project.to_qkv": "model.layers.{i}.attn.Wqkv",
    "attention.sublayer.to_out": "model.layers.{i}.attn.Wo",
    "feedforward.norm": "model.layers.{i}.mlp_norm",
    "feedforward.sublayer.gate": ("model.layers.{i}.mlp.Wi", rows(0, 2)),
    "feedforward.sublayer.up": ("model.layers.{i}.mlp.Wi", rows(1, 2)),
    "feedforward.sublayer.down": "model.layers.{i}.mlp.Wo",
    "body.norm": "model.final_norm",
    "lm_head.0": "head.dense",
    "lm_head.2": "head.norm",
    "lm_head.3": "decoder",
}


@family("modernbert", MODERNBERT, "ModernBertForMaskedLM", prefix="model.")
def build_modernbert(config: Config) -> nn.Module:
    V, width, heads, hidden = read(config, *SIZES[:2], SIZES[3], "intermediate_size")
    for part in ("norm", "attention", "mlp", "classifier"):
        only(config, f"{part}_bias", False)
    only(config, "decoder_bias", True)
    only(config, "classifier_activation", "gelu")
    only(config, "tie_word_embeddings", True)
    every, window = config.get("global_attn_every_n_layers", 3), config["local_attention"] // 2 + 1
    depth, kinds = config["num_hidden_layers"], config.get("layer_types")
    near = [bool(i % every) for i in range(depth)]
    near = near if kinds is None else [kind == "sliding_attention" for kind in kinds]
    bases = ("local_rope_theta", 10_000.0), ("global_rope_theta", 160_000.0)
    return modernbert(
        *(V, width, heads, hidden, [window if is_near else None for is_near in near]),
        rotations=near_and_far(config, width // heads, *bases),
        eps=config.get("norm_eps", 1e-5),
        activation=activation(config.get("hidden_activation", "gelu")),
    )
