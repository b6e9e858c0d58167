"""Llama 4: chunks, blocks without positions, one expert of many."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm
from attnbook.experts import MixtureOfExperts, TopKSigmoid, by_expert
from attnbook.feedforward import SwiGLU
from attnbook.masks import chunked
from attnbook.models.config import Config, only, read, rotation
from attnbook.models.layout import Names, half_of_expert, of_expert
from attnbook.models.llama import LLAMA, of_llama
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary, Tempered, neighbours
from attnbook.transformer import LanguageModel


def llama4(
    V: int = 202_048,
    width: int = 5120,
    heads: int = 40,
    kv_heads: int = 8,
    D: int = 128,
    hidden: tuple[int, int] = (16_384, 8192),
    experts: tuple[int, int] = (16, 1),
    kinds: Sequence[tuple[bool, bool]] = (*[(True, True)] * 3, (False, True)) * 12,
    chunk: int = 8192,
    rotations: tuple[Rotary | None, Tempered | None] = (None, Tempered()),
    qk_norm: bool = True,
    eps: float = 1e-5,
) -> LanguageModel:
    """Meta 2025, Llama 4 Scout. `kinds` says of each block whether it sees its own chunk alone,
    rotated and normed, or everything, by queries that grow with the position; and whether it has a
    mixture or one network. `hidden` are the widths of network and expert."""
    norm, turn = partial(RMSNorm, width, eps), rotations[0] or Rotary(D, 5e5, pairs=neighbours)
    unit = partial(nn.RMSNorm, D, eps, elementwise_affine=False)

    def attention(near: bool) -> Attention:
        norms = [unit(), unit()] if near and qk_norm else []
        project = Projection(width, heads, kv_heads, D, False, *norms)
        seen = (turn, None, chunked(chunk)) if near else (rotations[1], None, None)
        return Attention(project, nn.Linear(heads * D, width, bias=False), *seen)

    def network(sparse: bool) -> nn.Module:
        if not sparse:
            return SwiGLU(width, hidden[0])
        *networks, shared = [SwiGLU(width, hidden[1]) for _ in range(experts[0] + 1)]
        router, run = TopKSigmoid(width, *experts), partial(by_expert, before=True)
        return MixtureOfExperts(networks, router=router, shared=shared, run=run)

    parts = [(attention(near), network(sparse)) for near, sparse in kinds]
    blocks = [Block(*(PreNorm(part, norm()) for part in both)) for both in parts]
    return decoder(V, width, blocks, norm())


def llama4_names(model: nn.Module) -> Names:
    """Llama 4's names: all experts in one tensor, gate and up one after the other."""
    mixtures = [part for part in model.modules() if isinstance(part, MixtureOfExperts)]
    E, stem = len(mixtures[0].experts) if mixtures else 0, "model.layers.{i}.feed_forward"
    ours, all_of_them = "feedforward.sublayer.experts", f"{stem}.experts"
    return LLAMA | {
        **{f"feedforward.sublayer.{p}": f"{stem}.{p}_proj" for p in ("gate", "up", "down")},
        **{
            f"feedforward.sublayer.shared.{p}": f"{stem}.shared_expert.{p}_proj"
            for p in ("gate", "up", "down")
        },
        "feedforward.sublayer.router": f"{stem}.router",
        f"{ours}.gate.weight": (f"{all_of_them}.gate_up_proj#{{e}}", half_of_expert(E, 0)),
        f"{ours}.up.weight": (f"{all_of_them}.gate_up_proj#{{e}}", half_of_expert(E, 1)),
        f"{ours}.down.weight": (f"{all_of_them}.down_proj#{{e}}", of_expert(E, True)),
    }


def llama4_kinds(config: Config, depth: int) -> list[tuple[bool, bool]]:
    """Of each block: does it see its chunk alone, and has it a mixture?"""
    every, step = config.get("no_rope_layer_interval", 4), config["interleave_moe_layer_step"]
    turned = config.get("no_rope_layers") or [(i + 1) % every for i in range(depth)]
    kinds = ["chunked_attention" if turns else "full_attention" for turns in turned]
    only(config, "layer_types", kinds, None)
    sparse = config.get("moe_layers")
    sparse = range(step - 1, depth, step) if sparse is None else sparse
    return [(bool(turns), i in sparse) for i, turns in enumerate(turned)]


@family("llama4_text", llama4_names, "Llama4ForCausalLM", prefix="model.")
def build_llama4(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    only(config, "tie_word_embeddings", False)
    kinds, D = llama4_kinds(config, sizes.pop("depth")), config["head_dim"]
    turn, warm, tuned = rotation(config, D, pairs=neighbours), None, "attn_temperature_tuning"
    if config.get(tuned, True):
        warm = Tempered(config.get("floor_scale", 8192), float(config.get("attn_scale", 0.1)))
    del sizes["tie"]
    return llama4(
        D=D,
        hidden=(config["intermediate_size_mlp"], sizes.pop("hidden")),
        experts=tuple(read(config, "num_local_experts", "num_experts_per_tok")),
        kinds=kinds,
        chunk=config["attention_chunk_size"],
        rotations=(turn, warm),
        qk_norm=config.get("use_qk_norm", True),
        **sizes,
    )
