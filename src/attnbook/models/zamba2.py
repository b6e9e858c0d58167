"""Zamba2: Mamba-2, and one attention block that many layers share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention, Projection
from attnbook.block import PreNorm, Stack
from attnbook.cache import Cache, cache_of
from attnbook.masks import Mask
from attnbook.models.config import Config, only, read, rotation
from attnbook.models.layout import Layout, Names, Owner, Piece, Table, whole
from attnbook.models.mamba import mamba2_names
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.recurrence.layer import StateCache
from attnbook.recurrence.selective import Mamba2
from attnbook.scores import Score
from attnbook.transformer import Embed, LanguageModel, Tied, initialise, normal


class OriginStack(Stack):
    """Blocks that are all told what the first one read: the embedding, beside the stream."""

    def forward(self, x: Float[Tensor, "B T C"], *given: Tensor, **named: Any) -> Tensor:
        return super().forward(x, *given, origin=x, **named)


class MemoryBlock(PreNorm):
    """A block of one part, which does not look at the embedding."""

    def forward(self, x: Float[Tensor, "B T C"], *given: object, **named: object) -> Tensor:
        return super().forward(x, **{name: named[name] for name in named if name != "origin"})


class Adapted(nn.Module):
    """A linear map that several layers share, plus maps of the layer's own through a few numbers,
    one for each of the `widths` that it gives. Hu et al. 2022, "LoRA", equation 3."""

    def __init__(self, shared: nn.Linear, widths: Sequence[int], rank: int):
        super().__init__()
        self.shared, self.widths = shared, list(widths)
        narrow = partial(nn.Linear, shared.in_features, rank, bias=False)
        self.own = nn.ModuleList(
            nn.Sequential(narrow(), nn.Linear(rank, width, bias=False)) for width in widths
        )

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T all"]:
        return self.shared(x) + torch.cat([own(x) for own in self.own], -1)


class AdaptedGLU(nn.Module):
    """A GeGLU whose two first maps are one, shared and adapted."""

    def __init__(self, to_both: nn.Module, down: nn.Module):
        super().__init__()
        self.to_both, self.down, self.activation = to_both, down, nn.GELU()

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        gate, up = self.to_both(x).chunk(2, -1)
        return self.down(self.activation(gate) * up)


@dataclass
class BothCaches:
    """What a block keeps of the past that has both, an attention and a memory."""

    attention: Cache
    memory: StateCache
    can_be_cut = False

    @property
    def length(self) -> int | Int[Tensor, ""]:
        """How many positions it has seen."""
        return self.attention.length

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order."""
        self.attention.select(rows)
        self.memory.select(rows)

    def cut(self, length: int) -> None:
        """Forget everything, or nothing, as `StateCache`."""
        self.memory.cut(length)
        self.attention.cut(length)


class SharedBlock(nn.Module):
    """Attention and a network read the stream and the embedding side by side; what they find goes,
    through a map of the layer's own, to its memory, and nowhere else.

    Glorioso et al. 2024, "Zamba2", figure 2.
    """

    def __init__(
        self,
        attention: PreNorm,
        feedforward: PreNorm,
        to_stream: nn.Module,
        memory: Mamba2,
        before: nn.Module,
    ):
        super().__init__()
        self.attention_norm, self.attention = attention.norm, attention.sublayer
        self.feedforward_norm, self.feedforward = feedforward.norm, feedforward.sublayer
        self.to_stream, self.memory, self.before = to_stream, memory, before

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        origin: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: BothCaches | None = None,
        **where: Int[Tensor, "..."],
    ) -> Float[Tensor, "B T C"]:
        kept, state = (None, None) if cache is None else (cache.attention, cache.memory)
        both = self.attention_norm(torch.cat((x, origin), -1))  # (B T 2C)
        found = self.attention(both, mask=mask, cache=kept, **where)
        found = self.to_stream(self.feedforward(self.feedforward_norm(found)))
        return x + self.memory(self.before(x + found), mask=mask, cache=state)

    def cache(self, max_len: int | None = None) -> BothCaches:
        """An empty cache for this block."""
        return BothCaches(cache_of(self.attention, max_len), self.memory.cache())  # type: ignore[arg-type]


def zamba2(
    V: int = 32_000,
    width: int = 2048,
    heads: int = 32,
    kv_heads: int | None = None,
    hidden: int = 8192,
    hybrid: Sequence[bool] = (*((False,) * 5 + (True,)) * 6, False, False),
    shared: int = 1,
    rank: int = 128,
    adapt_attention: bool = True,
    memory: tuple[int, int, int] = (64, 1, 128),
    expand: int = 2,
    kernel: int = 4,
    least: float = 0.001,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
) -> LanguageModel:
    """Glorioso et al. 2024, "The Zamba2 suite", section 2, 1.2B: Mamba-2 in each layer; the
    `hybrid` ones ask one of the `shared` attention blocks first, in turns, each with adapters of
    this `rank` of its own. `memory` are Mamba-2's heads, groups and state; nothing is rotated
    without `rotate`."""
    norm, D = partial(RMSNorm, eps=eps), 2 * width // heads
    H, groups, state = memory
    kv_heads = heads if kv_heads is None else kv_heads

    def remember() -> Mamba2:
        sizes = (H, expand * width // H), state, groups, kernel
        return Mamba2(width, *sizes, (least, float("inf")))

    def attends() -> tuple[nn.Module, ...]:
        widths = [heads * D, kv_heads * D, kv_heads * D]
        plain = partial(nn.Linear, bias=False)
        return (
            *(norm(2 * width), plain(2 * width, sum(widths)), plain(heads * D, width)),
            *(norm(width), plain(width, 2 * hidden), plain(hidden, width)),
        )

    def block(parts: tuple[Any, ...]) -> SharedBlock:
        first, to_qkv, to_out, second, to_both, down = parts
        project = Projection(2 * width, heads, kv_heads, D, bias=False)
        project.to_qkv = Adapted(to_qkv, project.widths, rank) if adapt_attention else to_qkv
        attention = Attention(project, to_out, rotate, Score((D / 2) ** -0.5))
        network = AdaptedGLU(Adapted(to_both, [2 * hidden], rank), down)
        to_stream = nn.Linear(width, width, bias=False)
        asked = PreNorm(attention, first), PreNorm(network, second)
        return SharedBlock(*asked, to_stream, remember(), norm(width))

    pool = [attends() for _ in range(shared)]
    blocks: list[nn.Module] = []
    for number, asks in enumerate(hybrid):
        turn = sum(hybrid[:number]) % shared
        blocks.append(block(pool[turn]) if asks else MemoryBlock(remember(), norm(width)))
    embed = Embed(V, width)
    return initialise(LanguageModel(embed, OriginStack(blocks, norm(width)), Tied(embed)), normal)


_ASKED = "model.layers.{i}.shared_transformer"
ZAMBA2: Table = (
    mamba2_names("sublayer", "model.layers.{i}.mamba")
    | mamba2_names("memory", "model.layers.{i}.mamba_decoder.mamba")
    | {
        "embed.tokens": "model.embed_tokens",
        "norm": "model.layers.{i}.input_layernorm",
        "before": "model.layers.{i}.mamba_decoder.input_layernorm",
        "to_stream": "model.layers.{i}.linear",
        "attention_norm": f"{_ASKED}.input_layernorm",
        "attention.project.to_qkv": f"{_ASKED}.self_attn.q_proj k_proj v_proj",
        "attention.project.to_qkv.shared": f"{_ASKED}.self_attn.q_proj k_proj v_proj",
        "attention.to_out": f"{_ASKED}.self_attn.o_proj",
        "feedforward_norm": f"{_ASKED}.pre_ff_layernorm",
        "feedforward.to_both.shared": f"{_ASKED}.feed_forward.gate_up_proj",
        "feedforward.down": f"{_ASKED}.feed_forward.down_proj",
        "body.norm": "model.final_layernorm",
    }
)


def adapter(place: dict[str, tuple[int, int]]) -> Layout:
    """The adapters of a layer stand with the first layer that asks the same block, numbered:
    `place` has both numbers for each layer. Names are "{i}/list/map"."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        i, adapters, last = name.split("/")
        first, number = place[i]
        stem = f"model.layers.{first}.shared_transformer"
        yield whole(f"{stem}.{adapters}_adapter_list.{number}.{last}", weight)

    return pieces


def zamba2_names(model: nn.Module) -> Names:
    """Zamba2's names."""
    body = model.get_submodule("body")
    assert isinstance(body, Stack)
    asked: dict[int, int] = {}  # the first layer of each shared block
    place: dict[str, tuple[int, int]] = {}
    for i, block in enumerate(body.blocks):
        if isinstance(block, SharedBlock):
            place[str(i)] = asked.setdefault(id(block.attention_norm), i), len(place)
    layout, lists = adapter(place), [f"self_attn.linear_{part}" for part in "qkv"]
    own = "attention.project.to_qkv.own", "feedforward.to_both.own"
    adapters: Table = {
        f"{ours}.{part}.{n}": (f"{{i}}/{there}/{n}", layout)
        for ours, names in zip(own, (lists, ["feed_forward.gate_up_proj"]), strict=True)
        for part, there in enumerate(names)
        for n in (0, 1)
    }
    return ZAMBA2 | adapters


@family(
    "zamba2",
    zamba2_names,
    "Zamba2ForCausalLM",
    prefix="model.",
    extra=("*.shared_transformer.*",),  # the same blocks again, in layers that come later
)
def build_zamba2(config: Config) -> nn.Module:
    V, width, heads, depth = read(
        config, "vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers"
    )
    only(config, "hidden_act", "gelu")
    only(config, "add_bias_linear", False)
    only(config, "use_conv_bias", True)
    only(config, "use_long_context", False)
    only(config, "tie_word_embeddings", True)
    kinds = read(config, "layers_block_type")[0]
    if len(kinds) != depth:
        raise ValueError(f"config.json names the kind of {len(kinds)} layers, there are {depth}")
    memory = read(config, "n_mamba_heads", "mamba_ngroups", "mamba_d_state")
    turns = config.get("use_mem_rope", False)
    return zamba2(
        *(V, width, heads, config.get("num_key_value_heads")),
        hidden=config.get("intermediate_size") or 4 * width,
        hybrid=[kind == "hybrid" for kind in kinds],
        shared=config.get("num_mem_blocks", 1),
        rank=config.get("adapter_rank", 128),
        adapt_attention=config.get("use_shared_attention_adapter", False),
        memory=tuple(memory),
        expand=config.get("mamba_expand", 2),
        kernel=config.get("mamba_d_conv", 4),
        least=config.get("time_step_min", 0.001),
        rotate=rotation(config, 2 * width // heads) if turns else None,
        eps=config.get("rms_norm_eps", 1e-5),
    )
