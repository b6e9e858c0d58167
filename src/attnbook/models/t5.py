"""T5 and its version 1.1."""

from collections.abc import Callable
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, CrossBlock, PreNorm, Stack
from attnbook.feedforward import MLP, GatedMLP
from attnbook.models.config import Config, activation, read
from attnbook.models.layout import Names
from attnbook.models.registry import family
from attnbook.norms import RMSNorm, Times
from attnbook.positions import RelativeBias
from attnbook.scores import Score
from attnbook.transformer import Embed, EncoderDecoder, Tied, initialise, normal


def t5(
    V: int = 32_128,
    width: int = 512,
    depth: tuple[int, int] = (6, 6),
    heads: int = 8,
    D: int = 64,
    network: Callable[[], nn.Module] | None = None,
    buckets: tuple[int, int] = (32, 128),
    eps: float = 1e-6,
    tie: bool = True,
    scale: bool = True,
) -> EncoderDecoder:
    """Raffel et al. 2020, section 2.1, small: RMSNorm before each part, no biases, scores that are
    not divided, and one learned bias for distance that all blocks of a side share. In version 1.1
    `network` is a GeGLU, the map to the vocabulary is not the embedding (`tie=False`), and logits
    are not scaled by 1/√width."""
    norm = partial(RMSNorm, width, eps)
    network = network or partial(MLP, width, 4 * width, bias=False)

    def attention(relative: RelativeBias | None) -> PreNorm:
        project, to_out = (
            Projection(width, heads, D=D, bias=False),
            nn.Linear(heads * D, width, False),
        )
        return PreNorm(Attention(project, to_out, score=Score(1.0, relative=relative)), norm())

    both_ways, past = (RelativeBias(heads, *buckets, both_ways=both) for both in (True, False))
    reads = [Block(attention(both_ways), PreNorm(network(), norm())) for _ in range(depth[0])]
    writes = [
        CrossBlock(attention(past), attention(None), PreNorm(network(), norm()))
        for _ in range(depth[1])
    ]
    embed = Embed(V, width)
    lm_head: nn.Module = Tied(embed) if tie else nn.Linear(width, V, bias=False)
    lm_head = nn.Sequential(lm_head, Times(width**-0.5)) if scale else lm_head
    stacks = Stack(reads, norm()), Stack(writes, norm())
    return initialise(EncoderDecoder(embed, stacks[0], embed, stacks[1], lm_head), normal)


def side(ours: str, theirs: str, parts: dict[str, tuple[int, str]]) -> dict[str, str]:
    """T5's names on one side: each part has a number and a name in its block."""
    names: dict[str, str] = {}
    for part, (n, name) in parts.items():
        layer = f"{theirs}.block.{{i}}.layer.{n}"
        names[f"{ours}.{part}.norm"] = f"{layer}.layer_norm"
        if name == "DenseReluDense":
            for piece, published in (("up", "wi"), ("down", "wo")):
                names[f"{ours}.{part}.sublayer.{piece}"] = f"{layer}.{name}.{published}"
        else:
            names[f"{ours}.{part}.sublayer.project.to_qkv"] = f"{layer}.{name}.q k v"
            names[f"{ours}.{part}.sublayer.to_out"] = f"{layer}.{name}.o"
            bias = f"{layer}.{name}.relative_attention_bias"
            names[f"{ours}.{part}.sublayer.score.relative"] = bias
    return names | {f"{ours}.norm": f"{theirs}.final_layer_norm"}


READS = {"attention": (0, "SelfAttention"), "feedforward": (1, "DenseReluDense")}
WRITES = {
    "attention": (0, "SelfAttention"),
    "cross_attention": (1, "EncDecAttention"),
    "feedforward": (2, "DenseReluDense"),
}
T5 = side("encoder", "encoder", READS) | side("decoder", "decoder", WRITES)
T5 |= {"source_embed.tokens": "shared", "lm_head": "lm_head", "lm_head.0": "lm_head"}
T5_GATED = T5 | {
    f"{stack}.feedforward.sublayer.{ours}": f"{stack}.block.{{i}}.layer.{n}.DenseReluDense.{theirs}"
    for stack, n in (("encoder", 1), ("decoder", 2))
    for ours, theirs in (("gate", "wi_0"), ("up", "wi_1"), ("down", "wo"))
}


def t5_names(model: nn.Module) -> Names:
    """T5's names: version 1.1 has a gate."""
    network = model.get_submodule("encoder.blocks.0.feedforward.sublayer")
    return T5_GATED if isinstance(network, GatedMLP) else T5


@family("t5", t5_names, "T5ForConditionalGeneration")
def build_t5(config: Config) -> nn.Module:
    V, width, D, hidden, depth, heads = read(
        config, "vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads"
    )
    kind = config.get("feed_forward_proj", "relu")
    function = activation("gelu_new" if kind == "gated-gelu" else kind.removeprefix("gated-"))
    gated = kind.startswith("gated-")
    network = GatedMLP if gated else partial(MLP, bias=False)
    buckets = "relative_attention_num_buckets", "relative_attention_max_distance"
    return t5(
        *(V, width, (depth, config.get("num_decoder_layers") or depth), heads, D),
        partial(network, width, hidden, function),
        tuple(config.get(name, default) for name, default in zip(buckets, (32, 128), strict=True)),
        config.get("layer_norm_epsilon", 1e-6),
        tie := config.get("tie_word_embeddings", True),
        config.get("scale_decoder_outputs", tie),
    )
