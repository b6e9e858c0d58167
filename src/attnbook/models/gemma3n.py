"""Gemma 3n: four streams of which one is worked on, a vector of each token for each block, and keys
that later blocks share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention, Projection, normalise, split_heads
from attnbook.block import Stack, cache_for_each
from attnbook.cache import AppendOnly, Cache, DecodingState, append_to
from attnbook.feedforward import GatedMLP
from attnbook.masks import Grid, Mask, Pattern, local
from attnbook.models.config import Config, near_and_far, only, read, windows_of
from attnbook.models.gemma import Cap
from attnbook.models.layout import Table
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary, Rotate
from attnbook.scores import Score
from attnbook.transformer import Embed, LanguageModel, Tied, initialise, normal


class TokenAndLayers(Embed):
    """A vector for each token, and one more for each block, narrower, side by side: what a block's
    own table says of the token, and what it can make of the token's vector.

    Google 2025, "Gemma 3n", per-layer embeddings.
    """

    def __init__(self, V: int, width: int, layers: tuple[int, int, int], norm: nn.Module):
        super().__init__(V, width, scale=width**0.5)
        V_each, self.depth, self.each = layers
        self.layers = nn.Embedding(V_each, self.depth * self.each)
        self.to_layers = nn.Linear(width, self.depth * self.each, bias=False)
        self.layers_norm = norm

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        start: int | Int[Tensor, "..."] = 0,
        token_types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T all"]:
        """The token's vector, then those for the blocks."""
        x = super().forward(tokens, start, token_types)
        known = tokens < self.layers.num_embeddings  # the last tokens stand for sound and pictures
        own = self.each**0.5 * self.layers(torch.where(known, tokens, 0))
        made = (x.shape[-1] ** -0.5 * self.to_layers(x)).unflatten(-1, (self.depth, self.each))
        own = own.unflatten(-1, (self.depth, self.each))
        return torch.cat((x, ((self.layers_norm(made) + own) * 0.5**0.5).flatten(2)), -1)


@dataclass
class Shared:
    """Keys and values as the last block of its kind left them, and who may look at them."""

    k: Float[Tensor, "B kv_heads Tk D"]
    v: Float[Tensor, "B kv_heads Tk D"]
    mask: Mask | None
    grid: Grid


class NoCache(AppendOnly):
    """What an attention keeps that has no keys of its own."""

    length = 0

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """There are no rows."""

    def cut(self, length: int) -> None:
        """There is nothing to forget."""


class NormedValues(Projection):
    """Values have a norm, too, which learns nothing."""

    def __init__(self, width: int, heads: int, kv_heads: int, D: int, eps: float):
        norm = partial(RMSNorm, D, eps)
        super().__init__(width, heads, kv_heads, D, False, norm(), norm())
        self.eps = eps

    def forward(
        self, x: Float[Tensor, "B T C"], memory: Float[Tensor, "B T C"] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().forward(x, memory)
        return q, k, nn.functional.rms_norm(v, v.shape[-1:], eps=self.eps)


class QueryProjection(nn.Module):
    """Queries of all heads; keys and values are another block's."""

    def __init__(self, width: int, heads: int, kv_heads: int, D: int, eps: float):
        super().__init__()
        self.width = self.memory_width = width
        self.heads, self.kv_heads, self.D = heads, kv_heads, D
        self.to_q, self.q_norm = nn.Linear(width, heads * D, bias=False), RMSNorm(D, eps)

    def queries(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B H T D"]:
        return normalise(split_heads(self.to_q(x), self.D), self.q_norm)


class SharingAttention(Attention):
    """Attention that leaves its keys and values to blocks of the same kind that come later, or, if
    its projection makes `QueryProjection`, takes those that an earlier one left."""

    def __init__(
        self, project: nn.Module, to_out: nn.Module, rotate: Rotate, pattern: Pattern | None
    ):
        super().__init__(project, to_out, rotate, Score(1.0), pattern)
        self.takes = isinstance(project, QueryProjection)

    def share(
        self,
        x: Float[Tensor, "B T C"],
        mask: Mask | None,
        cache: DecodingState | None,
        positions: Int[Tensor, "..."] | None,
        left: Shared | None,
    ) -> tuple[Float[Tensor, "B T C"], Shared]:
        """The output, and what is left for the next block of this kind."""
        if self.takes:
            if left is None:
                raise ValueError("no earlier block has left keys for this one")
            grid = left.grid
            first = grid.first + grid.Tk - grid.Tq if grid.start is None else grid.start
            assert self.rotate is not None
            q = self.rotate(self.project.queries(x), first if positions is None else positions)
        else:
            kept = cache if isinstance(cache, Cache) else None
            q, k, v = self.project(x)
            q, k = self.rotate_both(q, k, kept, False, positions)
            if kept is not None:
                k, v = append_to(kept, k, v, mask)
            sizes = x.shape[0], x.shape[1], k.shape[2], x.device
            grid = Grid(*sizes) if kept is None else kept.grid(*sizes)
            mask, grid = self.combine_masks(mask, grid)
            left = Shared(k, v, mask, grid)
        heads = self.mix(q, left.k, left.v, left.mask, left.grid)
        return self.to_out(heads.transpose(1, 2).flatten(2)), left

    def cache(self, max_len: int | None = None) -> DecodingState:  # type: ignore[override]
        """As `Attention`; empty for good if the keys are another block's."""
        return NoCache() if self.takes else super().cache(max_len)


class SparseGated(GatedMLP):
    """A GeGLU of which only the largest numbers pass: those that lie so many standard deviations
    above the mean that this `share` of normal numbers would be below. Google 2025, "Gemma 3n"; You
    et al. 2025, "Spark transformer", section 3.2."""

    def __init__(self, width: int, hidden: int, share: float):
        super().__init__(width, hidden, nn.GELU(approximate="tanh"))
        self.cutoff = NormalDist().inv_cdf(share)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        gate = self.gate(x)
        least = gate.mean(-1, keepdim=True) + self.cutoff * gate.std(-1, keepdim=True, correction=0)
        return self.down(self.activation((gate - least).relu()) * self.up(x))


class AltUp(nn.Module):
    """Several streams, the first of which a block works on: the others are predicted before, and
    corrected by what the block has changed. Baykal et al. 2023, "Alternating updates", algorithm 1.
    """

    def __init__(self, width: int, streams: int, eps: float):
        super().__init__()
        self.norm, self.route = RMSNorm(width, eps), nn.Linear(width, streams, bias=False)
        self.to_mix = nn.Linear(streams, streams**2, bias=False)
        self.to_correct = nn.Linear(streams, streams, bias=False)

    def routes(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T S"]:
        """How much each stream is read, between −1 and 1, as the first one says."""
        return torch.tanh(self.route(self.norm(x) / x.shape[-1]))

    def predict(self, streams: Float[Tensor, "S B T C"]) -> Float[Tensor, "S B T C"]:
        """Each stream plus a mixture of all, before a block."""
        mix = self.to_mix(self.routes(streams[0])).unflatten(-1, (len(streams), -1))
        return streams + torch.einsum("sbtc,btrs->rbtc", streams, mix)

    def correct(
        self, predicted: Float[Tensor, "S B T C"], found: Float[Tensor, "B T C"]
    ) -> Float[Tensor, "S B T C"]:
        """Each stream plus its share of what the block has changed in the first."""
        share = self.to_correct(self.routes(found)) + 1  # (B T S)
        return predicted + share.permute(2, 0, 1)[..., None] * (found - predicted[0])


class StreamsBlock(nn.Module):
    """Attention beside a map of low rank, then a network, on one of several streams; the others get
    what the block's own vector of the token lets through. Google 2025, "Gemma 3n"."""

    def __init__(
        self,
        attention: SharingAttention,
        feedforward: nn.Module,
        width: int,
        each: int,
        rank: int,
        streams: int,
        eps: float,
    ):
        super().__init__()
        norm = partial(RMSNorm, width, eps)
        self.altup, self.attention, self.feedforward = (
            AltUp(width, streams, eps),
            attention,
            feedforward,
        )
        self.before, self.after, self.network_before, self.network_after = (
            norm() for _ in range(4)
        )
        low = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)
        self.low_rank = nn.Sequential(*low, norm())
        self.scale = nn.Parameter(torch.zeros(width))
        self.to_each, self.from_each = (
            nn.Linear(width, each, bias=False),
            nn.Linear(each, width, bias=False),
        )
        self.each_after, self.activation = norm(), nn.GELU(approximate="tanh")

    def forward(
        self,
        streams: Float[Tensor, "S B T C"],
        own: Float[Tensor, "B T P"],
        left: Shared | None,
        mask: Mask | None,
        cache: DecodingState | None,
        positions: Int[Tensor, "..."] | None,
    ) -> tuple[Float[Tensor, "S B T C"], Shared]:
        predicted = self.altup.predict(streams)
        x, seen = predicted[0], self.before(predicted[0])
        found, left = self.attention.share(seen, mask, cache, positions, left)
        beside = seen + self.low_rank(seen)
        x = (x + self.after(found) + beside) / math.sqrt(2)
        x = x + self.network_after(self.feedforward(self.network_before(x)))
        first, *others = self.altup.correct(predicted, x)
        told = self.activation(self.to_each(self.scale * first)) * own
        told = self.each_after(self.from_each(told))
        return torch.stack([first, *(other + told for other in others)]), left


class Gathered(nn.Module):
    """The mean of several streams, of which all but the first pass a map, and its norm."""

    def __init__(self, width: int, streams: int, norm: nn.Module):
        super().__init__()
        self.norm = norm
        self.maps = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(streams - 1))

    def forward(self, streams: Float[Tensor, "S *batch C"]) -> Float[Tensor, "*batch C"]:
        first, *others = streams
        back = (as_large(back(s), first) for back, s in zip(self.maps, others, strict=True))
        return self.norm(torch.stack([first, *back]).mean(0))


class StreamsStack(Stack):
    """Blocks along several streams, which begin as maps of the token's vector of its size, and end
    as the mean of maps back."""

    def __init__(self, blocks: Sequence[nn.Module], norm: nn.Module, width: int, streams: int):
        super().__init__(blocks, Gathered(width, streams, norm))
        self.width = width
        self.spread = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(streams - 1))

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B T all"],
        mask: Mask | None = None,
        caches: Sequence[DecodingState | None] | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """`x` is what `TokenAndLayers` gives."""
        x, own = x[..., : self.width], x[..., self.width :].unflatten(-1, (len(self.blocks), -1))
        streams = torch.stack([x, *(as_large(spread(x), x) for spread in self.spread)])
        left: dict[bool, Shared] = {}  # of blocks with a window, and of the others
        pairs = zip(self.blocks, cache_for_each(self.blocks, caches), strict=True)
        for i, (block, cache) in enumerate(pairs):
            near = block.get_submodule("attention").pattern is not None
            given = own[:, :, i], left.get(near), mask, cache, positions
            streams, left[near] = block(streams, *given)
        return self.norm(streams)


def as_large(
    x: Float[Tensor, "*batch C"], like: Float[Tensor, "*batch C"]
) -> Float[Tensor, "*batch C"]:
    """The vectors with the root mean square of others."""
    size = like.square().mean(-1, keepdim=True).sqrt()
    return x * size / x.square().mean(-1, keepdim=True).clamp(min=1e-5).sqrt()


def gemma3n(
    V: int = 262_400,
    width: int = 2048,
    heads: int = 8,
    kv_heads: int = 2,
    D: int = 256,
    hidden: Sequence[int] = (16_384,) * 35,
    windows: Sequence[int | None] = (512, 512, 512, 512, None) * 7,
    sharing: int = 15,
    sparse: Sequence[float] = (0.95,) * 10 + (0.0,) * 25,
    layers: tuple[int, int] = (262_144, 256),
    rank: int = 64,
    streams: int = 4,
    rotations: tuple[Rotary | None, Rotary | None] = (None, None),
    cap: float | None = 30.0,
    eps: float = 1e-6,
) -> LanguageModel:
    """Google 2025, "Gemma 3n", E4B, the part that reads and writes text. The last `sharing` blocks
    take the keys of the last ones before them with a window, or without. `sparse` is the share of
    each network that is cut off, `layers` the size of the blocks' own vocabulary and width."""
    near, far = rotations[0] or Rotary(D), rotations[1] or Rotary(D, 1_000_000.0)
    depth = len(windows)

    def block(i: int) -> StreamsBlock:
        seen: tuple[Rotary, Pattern | None] = (far, None)
        window = windows[i]
        if window is not None:
            seen = near, local(window)
        kind = NormedValues if i < depth - sharing else QueryProjection
        project = kind(width, heads, kv_heads, D, eps)
        attention = SharingAttention(project, nn.Linear(heads * D, width, bias=False), *seen)
        network = (
            SparseGated(width, hidden[i], sparse[i])
            if sparse[i]
            else GatedMLP(width, hidden[i], nn.GELU(approximate="tanh"))
        )
        return StreamsBlock(attention, network, width, layers[1], rank, streams, eps)

    embed = TokenAndLayers(V, width, (layers[0], depth, layers[1]), RMSNorm(layers[1], eps))
    body = StreamsStack([block(i) for i in range(depth)], RMSNorm(width, eps), width, streams)
    tied = Tied(embed)
    head = tied if cap is None else nn.Sequential(tied, Cap(cap))
    return initialise(LanguageModel(embed, body, head), normal)


_LAYER = "model.layers.{i}"
GEMMA3N: Table = {
    "embed.tokens": "model.embed_tokens",
    "embed.layers": "model.embed_tokens_per_layer",
    "embed.to_layers": "model.per_layer_model_projection",
    "embed.layers_norm": "model.per_layer_projection_norm",
    "altup.norm": f"{_LAYER}.altup.router_norm",
    "altup.route": f"{_LAYER}.altup.modality_router",
    "altup.to_mix": f"{_LAYER}.altup.prediction_coefs",
    "altup.to_correct": f"{_LAYER}.altup.correction_coefs",
    "scale": f"{_LAYER}.altup.correct_output_scale",
    "low_rank.0": f"{_LAYER}.laurel.linear_left",
    "low_rank.1": f"{_LAYER}.laurel.linear_right",
    "low_rank.2": f"{_LAYER}.laurel.post_laurel_norm",
    "to_each": f"{_LAYER}.per_layer_input_gate",
    "from_each": f"{_LAYER}.per_layer_projection",
    "each_after": f"{_LAYER}.post_per_layer_input_norm",
    "before": f"{_LAYER}.input_layernorm",
    "after": f"{_LAYER}.post_attention_layernorm",
    "network_before": f"{_LAYER}.pre_feedforward_layernorm",
    "network_after": f"{_LAYER}.post_feedforward_layernorm",
    "attention.project.to_qkv": f"{_LAYER}.self_attn.q_proj k_proj v_proj",
    "attention.project.to_q": f"{_LAYER}.self_attn.q_proj",
    "attention.project.q_norm": f"{_LAYER}.self_attn.q_norm",
    "attention.project.k_norm": f"{_LAYER}.self_attn.k_norm",
    "attention.to_out": f"{_LAYER}.self_attn.o_proj",
    **{f"feedforward.{part}": f"{_LAYER}.mlp.{part}_proj" for part in ("gate", "up", "down")},
    "body.norm.norm": "model.norm",
    **{f"body.spread.{n}": f"model.altup_projections.{n}" for n in range(8)},
    **{f"body.norm.maps.{n}": f"model.altup_unembed_projections.{n}" for n in range(8)},
}


# Blocks that take others' keys have maps for keys and values in the files, which nobody uses.
UNUSED = tuple(f"*.self_attn.{name}.weight" for name in ("k_proj", "v_proj", "k_norm"))


@family("gemma3n_text", GEMMA3N, "Gemma3nForCausalLM", prefix="model.", extra=UNUSED)
def build_gemma3n(config: Config) -> nn.Module:
    V, width, heads, kv_heads, D, depth = read(
        config,
        *("vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads"),
        *("head_dim", "num_hidden_layers"),
    )
    only(config, "hidden_activation", "gelu_pytorch_tanh")
    only(config, "attention_bias", False)
    only(config, "tie_word_embeddings", True)
    only(config, "altup_active_idx", 0)
    only(config, "altup_correct_scale", True)
    hidden, sparse = read(config, "intermediate_size")[0], config.get("activation_sparsity_pattern")
    if sparse is None:
        sparse = [0.95 if depth > 10 and i < 10 else 0.0 for i in range(depth)]
    bases = ("rope_local_base_freq", 10_000.0), ("rope_theta", 1_000_000.0)
    return gemma3n(
        *(V, width, heads, kv_heads, D),
        hidden=[hidden] * depth if isinstance(hidden, int) else hidden,
        windows=windows_of(config, every=5),
        sharing=config.get("num_kv_shared_layers", 15),
        sparse=[sparse] * depth if isinstance(sparse, float) else sparse,
        layers=tuple(read(config, "vocab_size_per_layer_input", "hidden_size_per_layer_input")),
        rank=config.get("laurel_rank", 64),
        streams=config.get("altup_num_inputs", 4),
        rotations=near_and_far(config, D, *bases),
        cap=config.get("final_logit_softcapping"),
        eps=config.get("rms_norm_eps", 1e-6),
    )


INSIDE: Table = {
    ours: there.replace("model.", "model.language_model.", 1)
    for ours, there in GEMMA3N.items()
    if isinstance(there, str)
}


@family("gemma3n", INSIDE, "Gemma3nForCausalLM", prefix="model.language_model.", extra=UNUSED)
def build_gemma3n_text(config: Config) -> nn.Module:
    """What reads and writes text, of a file that sees and hears, too."""
    return build_gemma3n(read(config, "text_config")[0])
