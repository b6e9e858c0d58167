"""OLMo Hybrid: the gated delta rule in three blocks of four, and an OLMo 3 in the fourth."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import AcrossHeads, Attention, Projection
from attnbook.block import Block, PreNorm, Residual
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, only, read, rotation
from attnbook.models.layout import Table, by_owner, filters
from attnbook.models.llama import ATTENTION, ENDS, NETWORK, of_llama
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.recurrence.gated_delta import GatedDelta, GatedNorm, decay_per_head
from attnbook.transformer import LanguageModel


def olmo_hybrid(
    V: int = 100_352,
    width: int = 3840,
    heads: int = 30,
    kv_heads: int = 30,
    hidden: int = 11_008,
    keys: tuple[int, int] = (30, 96),
    values: tuple[int, int] = (30, 192),
    full: Sequence[bool] = (False, False, False, True) * 8,
    rotate: Rotary | None = None,
    largest: float = 2.0,
    kernel: int = 4,
    eps: float = 1e-6,
    tie: bool = False,
) -> LanguageModel:
    """OLMo Team 2026, "OLMo Hybrid", 7B: norms before the parts of a block with the gated delta
    rule, whose strength goes up to 2, and behind those of a block with `full` attention. Nothing is
    rotated unless there is a `rotate`."""
    norm, D = partial(RMSNorm, eps=eps), width // heads

    def memory() -> GatedDelta:
        inner = values[0] * values[1]
        opens = nn.Sequential(nn.Linear(width, inner, bias=False), nn.SiLU())
        gate = GatedNorm(RMSNorm(values[1], 1e-5), opens)
        return GatedDelta(
            width, keys, values, decay_per_head(width, values[0]), gate, largest, kernel
        )

    def block(sees_all: bool) -> Block:
        if not sees_all:
            return Block(*(PreNorm(p, norm(width)) for p in (memory(), SwiGLU(width, hidden))))
        norms = AcrossHeads(norm(heads * D)), AcrossHeads(norm(kv_heads * D))
        project = Projection(width, heads, kv_heads, D, False, *norms)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return Block(*(Residual(p, after=norm(width)) for p in (attention, SwiGLU(width, hidden))))

    return decoder(V, width, [block(sees_all) for sees_all in full], norm(width), tie)


_LAYER = "model.layers.{i}"
_DELTA = f"{_LAYER}.linear_attn"
OLMO_HYBRID: Table = (
    ATTENTION
    | NETWORK
    | ENDS
    | {
        "attention.norm": f"{_LAYER}.attention_layer_norm",
        "feedforward.norm": f"{_LAYER}.feedforward_layer_norm",
        "attention.after": f"{_LAYER}.feedforward_layer_norm",  # as transformers writes it
        "feedforward.after": f"{_LAYER}.post_feedforward_layernorm",
        "attention.sublayer.to_qkv": f"{_DELTA}.q_proj k_proj v_proj",
        "attention.sublayer.convolve": (f"{_DELTA}.q_conv1d k_conv1d v_conv1d", filters),
        "attention.sublayer.to_strength": f"{_DELTA}.b_proj",
        "attention.sublayer.decay.map": f"{_DELTA}.a_proj",
        "attention.sublayer.decay.log_speed": f"{_DELTA}.A_log",
        "attention.sublayer.decay.shift": f"{_DELTA}.dt_bias",
        "attention.sublayer.gate.map.0": f"{_DELTA}.g_proj",
        "attention.sublayer.gate.norm": f"{_DELTA}.o_norm",
        "attention.sublayer.to_out": (
            _LAYER,
            by_owner((GatedDelta, "linear_attn.o_proj"), (Attention, "self_attn.o_proj")),
        ),
    }
)


@family(
    "olmo_hybrid",
    OLMO_HYBRID,
    "OlmoHybridForCausalLM",
    prefix="model.",
    extra=("mtp.*",),
    older=((".post_attention_layernorm.weight", ".feedforward_layer_norm.weight"),),
)
def build_olmo_hybrid(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    depth, width, heads = sizes.pop("depth"), sizes["width"], sizes["heads"]
    H = config.get("linear_num_key_heads") or heads
    D = config.get("linear_key_head_dim") or int(0.75 * width / H)
    values = config.get("linear_num_value_heads") or heads
    Dv = config.get("linear_value_head_dim") or 2 * D
    kinds, rope = config.get("layer_types"), config.get("rope_parameters") or {}
    turns = rope.get("rope_theta", config.get("rope_theta")) is not None
    return olmo_hybrid(
        keys=(H, D),
        values=(values, Dv),
        full=[i % 4 == 3 for i in range(depth)]
        if kinds is None
        else [kind == "full_attention" for kind in kinds],
        rotate=rotation(config, width // heads) if turns else None,
        largest=2.0 if config.get("linear_allow_neg_eigval", True) else 1.0,
        kernel=read(config, "linear_conv_kernel_dim")[0],
        **sizes,
    )
