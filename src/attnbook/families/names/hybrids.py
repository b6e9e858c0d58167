"""What the tensors of decoders with a memory of fixed size are called in published files."""

from collections.abc import Iterable

from torch import Tensor, nn

from attnbook.attention import Attention
from attnbook.families.layout import Layout, Names, Owner, Piece, Table, whole
from attnbook.families.names.experts import QWEN_MOE
from attnbook.recurrence.gated_delta import GatedDelta

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


def filters(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """A convolution of each channel by itself: (C, 1, kernel)."""
    yield Piece(name, (len(weight), 1, weight.shape[1]), tuple(weight.shape), (), weight)


def of_kind(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """The last map of a memory, or of an attention."""
    stem, _, last = name.rpartition(".")
    kind = "linear_attn.out_proj" if isinstance(owner, GatedDelta) else "self_attn.o_proj"
    yield whole(f"{stem}.{kind}.{last}", weight)


def qwen3_next_names(model: nn.Module) -> Names:
    """Qwen3-Next's names: keys in groups with their queries, values, gates, strengths, decays."""
    names, stem = dict(QWEN_MOE), "model.layers.{i}.linear_attn"
    names["attention.part.to_out"] = ("model.layers.{i}", of_kind)
    for attention in [part for part in model.modules() if isinstance(part, Attention)][:1]:
        names["attention.part.project.to_qkv"] = ("model.layers.{i}.self_attn", queries_with_gates)
        gates = gates_with_queries(attention.heads)
        names["attention.part.gate.to_gate"] = ("model.layers.{i}.self_attn.q_proj", gates)
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
        names |= {f"attention.part.{ours}": there for ours, there in linear.items()}
    return names
