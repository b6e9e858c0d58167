"""Jamba: Mamba's layers, one attention to seven of them, and a mixture in every second block."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, only, read
from attnbook.models.layout import Table, by_owner
from attnbook.models.llama import ATTENTION, ENDS, of_llama
from attnbook.models.mamba import mamba_names
from attnbook.models.parts import decoder
from attnbook.models.qwen import softmax_mixture
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.recurrence.selective import Mamba
from attnbook.transformer import LanguageModel

EIGHT = tuple((i == 4, i % 2 == 1) for i in range(8))


def jamba(
    V: int = 65_536,
    width: int = 4096,
    heads: int = 32,
    kv_heads: int = 8,
    hidden: int = 14_336,
    experts: tuple[int, int] = (16, 2),
    blocks: Sequence[tuple[bool, bool]] = EIGHT * 4,
    state: tuple[int, int, int] = (8192, 16, 256),
    kernel: int = 4,
    biases: tuple[bool, bool] = (True, False),
    eps: float = 1e-6,
    tie: bool = False,
) -> LanguageModel:
    """Lieber et al. 2024, "Jamba", section 3.1, 52B: nothing says where a token stands but Mamba's
    layers. `blocks` say which have attention and which a mixture; `experts` are how many there are,
    and how many work; `state` Mamba's channels, numbers of each, and rank."""
    norm = partial(RMSNorm, eps=eps)

    def mixer(sees: bool) -> nn.Module:
        if not sees:
            return Mamba(width, *state, kernel, norm, biases)
        D = width // heads
        project = Projection(width, heads, kv_heads, D, bias=False)
        return Attention(project, nn.Linear(heads * D, width, bias=False))

    def block(sees: bool, mixes: bool) -> Block:
        mixture = softmax_mixture(width, hidden, experts) if mixes else SwiGLU(width, hidden)
        return Block(PreNorm(mixer(sees), norm(width)), PreNorm(mixture, norm(width)))

    return decoder(V, width, [block(*each) for each in blocks], norm(width), tie)


_LAYER = "model.layers.{i}"
JAMBA: Table = (
    ATTENTION
    | ENDS
    | mamba_names("attention.sublayer", f"{_LAYER}.mamba")
    | {
        "attention.sublayer.to_out": (
            _LAYER,
            by_owner((Mamba, "mamba.out_proj"), (Attention, "self_attn.o_proj")),
        ),
        "attention.sublayer.step_norm": f"{_LAYER}.mamba.dt_layernorm",
        "attention.sublayer.k_norm": f"{_LAYER}.mamba.b_layernorm",
        "attention.sublayer.q_norm": f"{_LAYER}.mamba.c_layernorm",
        "attention.norm": f"{_LAYER}.input_layernorm",
        "feedforward.norm": f"{_LAYER}.pre_ff_layernorm",
        "feedforward.sublayer.router": f"{_LAYER}.feed_forward.router",
        **{
            f"feedforward.sublayer.{inside}{part}": f"{_LAYER}.feed_forward.{there}{part}_proj"
            for inside, there in (("", ""), ("experts.", "experts.{e}."))
            for part in ("gate", "up", "down")
        },
        "body.norm": "model.final_layernorm",
    }
)


@family("jamba", JAMBA, "JambaForCausalLM", prefix="model.")
def build_jamba(config: Config) -> nn.Module:
    sizes = of_llama(config)
    depth, width = sizes.pop("depth"), sizes["width"]
    names = "layer_period", "layer_offset"
    attention, experts = (
        read(config, *(f"{kind}_{name}" for name in names)) for kind in ("attn", "expert")
    )
    blocks = [
        tuple(i % period == offset for period, offset in (attention, experts)) for i in range(depth)
    ]
    only(config, "sliding_window", None)
    expand, numbers, rank, kernel = read(
        config, "mamba_expand", "mamba_d_state", "mamba_dt_rank", "mamba_d_conv"
    )
    rank = -(-width // 16) if rank == "auto" else rank
    biases = config.get("mamba_conv_bias", True), config.get("mamba_proj_bias", False)
    count = read(config, "num_experts", "num_experts_per_tok")
    return jamba(
        experts=tuple(count),
        blocks=[(sees, mixes and count[0] > 1) for sees, mixes in blocks],
        state=(expand * width, numbers, rank),
        kernel=kernel,
        biases=biases,
        **sizes,
    )
