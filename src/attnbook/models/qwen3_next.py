"""Qwen3-Next: a memory of fixed size stands where attention does, in most blocks."""

from collections.abc import Iterable, Sequence
from functools import partial

from torch import Tensor, nn

from attnbook.attention import Attention, Projection, SigmoidGate
from attnbook.block import Block, PreNorm
from attnbook.models.config import Config, only, read, rotation
from attnbook.models.layout import Layout, Names, Owner, Piece, Table, by_owner, filters, whole
from attnbook.models.parts import decoder
from attnbook.models.qwen import QWEN_MOE, of_mixture, softmax_mixture
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary, linear
from attnbook.recurrence.gated_delta import GatedDelta, GatedNorm, decay_per_head
from attnbook.transformer import LanguageModel


def qwen3_next(
    V: int = 151_936,
    width: int = 2048,
    heads: tuple[int, int, int] = (16, 2, 256),
    keys: tuple[int, int] = (16, 128),
    values: tuple[int, int] = (32, 128),
    hidden: tuple[int, int] = (512, 512),
    experts: tuple[int, int] = (512, 10),
    full: Sequence[bool] = (False, False, False, True) * 12,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    sum_to_one: bool = True,
    kernel: int = 4,
) -> LanguageModel:
    """Qwen Team 2025, Qwen3-Next 80B-A3B: three blocks with the gated delta rule to one with `full`
    attention, whose output has a gate; a quarter of its channels is rotated. `heads` are how many
    ask, how many keys there are, and their width; `hidden` the widths of an expert and of the
    shared one."""
    (H, kv_heads, D), norm = heads, partial(RMSNorm, eps=eps, offset=1.0)
    rotate = rotate or Rotary(D, frequencies=linear(D // 4, 10_000_000.0))

    def memory() -> GatedDelta:
        inner = values[0] * values[1]
        opens = nn.Sequential(nn.Linear(width, inner, bias=False), nn.SiLU())
        gate = GatedNorm(RMSNorm(values[1], eps), opens)
        decay = decay_per_head(width, values[0])
        return GatedDelta(width, keys, values, decay, gate, kernel=kernel)

    def attention() -> Attention:
        project = Projection(width, H, kv_heads, D, False, norm(D), norm(D))
        to_out, gate = nn.Linear(H * D, width, bias=False), SigmoidGate(width, H * D)
        return Attention(project, to_out, rotate, gate=gate)

    def block(sees_all: bool) -> Block:
        mixture = softmax_mixture(width, hidden[0], experts, sum_to_one, hidden[1])
        parts = attention() if sees_all else memory(), mixture
        return Block(*(PreNorm(part, norm(width)) for part in parts))

    return decoder(V, width, [block(sees_all) for sees_all in full], norm(width))


EVERY = slice(None)


def within(groups: int, first: int, rows: int, of: int) -> Layout:
    """Ours is stored group by group, `rows` rows from `first` on in each group's `of`."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        C = weight.shape[1]
        at, view = (EVERY, slice(first, first + rows)), weight.view(groups, rows, C)
        yield Piece(name, (groups * of, C), (groups, of, C), at, view)

    return pieces


def queries_with_gates(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """Each head's queries, then its gate, in one tensor; keys and values in others."""
    stem, _, last = name.rpartition(".")
    q, k, v = weight.split(owner.widths)
    H, D, C = owner.heads, owner.D, weight.shape[1]
    shape, seen = (2 * H * D, C), (H, 2, D, C)
    yield Piece(f"{stem}.q_proj.{last}", shape, seen, (EVERY, 0), q.view(H, D, C))
    yield whole(f"{stem}.k_proj.{last}", k)
    yield whole(f"{stem}.v_proj.{last}", v)


def gates_with_queries(heads: int) -> Layout:
    """The other half of what `queries_with_gates` says."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        (all_of_them, C), D = weight.shape, len(weight) // heads
        seen, view = (heads, 2, D, C), weight.view(heads, D, C)
        yield Piece(name, (2 * all_of_them, C), seen, (EVERY, 1), view)

    return pieces


def by_key(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """Queries, keys and values of the delta rule, stored key by key, before the gate's rows."""
    (groups, D), rows = owner.keys, owner.widths[2] // owner.keys[0]
    first, of = 0, 2 * D + 2 * rows
    for part, each in zip(weight.split(owner.widths), (D, D, rows), strict=True):
        yield from within(groups, first, each, of)(name, part, owner)
        first += each


def qwen3_next_names(model: nn.Module) -> Names:
    """Qwen3-Next's names: keys in groups with their queries, values, gates, strengths, decays."""
    names, stem = dict(QWEN_MOE), "model.layers.{i}.linear_attn"
    kinds = (GatedDelta, "linear_attn.out_proj"), (Attention, "self_attn.o_proj")
    names["attention.sublayer.to_out"] = ("model.layers.{i}", by_owner(*kinds))
    for attention in [part for part in model.modules() if isinstance(part, Attention)][:1]:
        names["attention.sublayer.project.to_qkv"] = (
            "model.layers.{i}.self_attn",
            queries_with_gates,
        )
        gates = gates_with_queries(attention.heads)
        names["attention.sublayer.gate.to_gate"] = ("model.layers.{i}.self_attn.q_proj", gates)
    for memory in [part for part in model.modules() if isinstance(part, GatedDelta)][:1]:
        (groups, D), rows = memory.keys, memory.widths[2] // memory.keys[0]
        each, of = memory.values[0] // groups, 2 * D + 2 * rows
        linear: Table = {
            "to_qkv": (f"{stem}.in_proj_qkvz", by_key),
            "gate.map.0": (f"{stem}.in_proj_qkvz", within(groups, of - rows, rows, of)),
            "to_strength": (f"{stem}.in_proj_ba", within(groups, 0, each, 2 * each)),
            "decay.map": (f"{stem}.in_proj_ba", within(groups, each, each, 2 * each)),
            "convolve": (f"{stem}.conv1d", filters),
            "decay.log_speed": f"{stem}.A_log",
            "decay.shift": f"{stem}.dt_bias",
            "gate.norm": f"{stem}.norm",
        }
        names |= {f"attention.sublayer.{ours}": there for ours, there in linear.items()}
    return names


@family(
    "qwen3_next", qwen3_next_names, "Qwen3NextForCausalLM", prefix="model.", extra=("mtp.*",)
)  # guesses tokens further on
def build_qwen3_next(config: Config) -> nn.Module:
    sizes = of_mixture(config)
    only(config, "tie_word_embeddings", False)
    (D,) = read(config, "head_dim")
    keys, values = (
        tuple(read(config, f"linear_num_{kind}_heads", f"linear_{kind}_head_dim"))
        for kind in ("key", "value")
    )
    depth, every = config["num_hidden_layers"], config.get("full_attention_interval", 4)
    kinds = config.get("layer_types")
    full = [(i + 1) % every == 0 for i in range(depth)]
    return qwen3_next(
        *(sizes["V"], sizes["width"], (sizes["heads"], sizes["kv_heads"], D), keys, values),
        tuple(read(config, "moe_intermediate_size", "shared_expert_intermediate_size")),
        sizes["experts"],
        full if kinds is None else [kind == "full_attention" for kind in kinds],
        rotation({"partial_rotary_factor": 0.25} | dict(config), D),
        sizes["eps"],
        sizes["sum_to_one"],
        config["linear_conv_kernel_dim"],
    )
