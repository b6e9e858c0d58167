"""Where each published tensor belongs in a model: whole, in pieces, head by head.

A family's table says for each part of ours, without the number of its block, what it is called in
the published files; `{i}` stands for the block, `{e}` for the expert. "a.q b c" are three tensors
that follow each other in one of ours. What is stored in another order has a layout of its own.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]
STANDARD = {"table": "weight"}


class Piece(NamedTuple):
    """A view of our weights, and where it stands: in the tensor `name` of this `shape`, taken as
    `seen` (the same numbers in other axes), `at` this index."""

    name: str
    shape: Shape
    seen: Shape
    at: tuple[slice | int, ...]
    ours: Tensor


Owner = Any  # the part of ours that holds the weight: each layout knows which kind it is given
# A layout is given the published name, the weight and the module that holds the weight's part.
Layout = Callable[[str, Tensor, Owner], Iterable[Piece]]


@dataclass
class Place:
    """A published tensor: its shape, and the pieces of the model's weights that it is made of."""

    shape: Shape
    pieces: list[Piece] = field(default_factory=list)

    @torch.no_grad()
    def put(self, tensor: Tensor) -> None:
        """Copy the published tensor into the model."""
        for piece in self.pieces:
            piece.ours.copy_(tensor.reshape(piece.seen)[piece.at])

    @torch.no_grad()
    def take(self, tensor: Tensor) -> None:
        """As `put`; where the tensor is a parameter as it stands, it becomes the parameter's own
        memory, and nothing is copied."""
        (first, *more), own = self.pieces, self.pieces[0].ours
        fits = isinstance(own, nn.Parameter) and tensor.dtype == own.dtype
        if fits and not more and first.at == () and tensor.is_contiguous():
            own.data = tensor.view(own.shape)
        else:
            self.put(tensor)

    @torch.no_grad()
    def get(self) -> Tensor:
        """The published tensor, made of what the model holds now."""
        like = self.pieces[0].ours
        tensor = torch.empty(self.shape, dtype=like.dtype, device=like.device)
        for piece in self.pieces:
            tensor.view(piece.seen)[piece.at] = piece.ours
        return tensor


def whole(name: str, ours: Tensor) -> Piece:
    """The same tensor there and here."""
    return Piece(name, tuple(ours.shape), tuple(ours.shape), (), ours)


def one_after_the_other(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """One tensor, or several that follow each other in ours: "a.q k v.weight"."""
    for there, ours in each_of(name, weight, owner):
        yield whole(there, ours)


def each_of(name: str, weight: Tensor, owner: Owner) -> Iterable[tuple[str, Tensor]]:
    """The tensors that "a.q k v.weight" names, and the rows of ours that belong to each."""
    if " " not in name:
        yield name, weight
        return
    stem, _, names = name.rpartition(".")[0].rpartition(".")
    last = name.rpartition(".")[2]
    for short, ours in zip(names.split(), weight.split(owner.widths), strict=True):
        yield f"{stem}.{short}.{last}", ours


def transposed(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """Linear maps that are stored from input to output (GPT-2)."""
    yield whole(name, weight.T if weight.dim() == 2 else weight)


def rows(number: int, of: int) -> Layout:
    """Ours is the `number`-th of `of` equal parts of one tensor, as in a fused gate and up."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        n = len(weight)
        shape = (of * n, *weight.shape[1:])
        yield Piece(name, shape, shape, (slice(number * n, (number + 1) * n),), weight)

    return pieces


def per_head(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """Each head's row stored as a tensor of its own: "a.norms.0.weight", … (StableLM 2)."""
    stem, _, last = name.rpartition(".")
    for h, ours in enumerate(weight):
        yield whole(f"{stem}.norms.{h}.{last}", ours)


def by_group(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """Queries, keys and values stored group by group: the queries that share a key, that key, its
    value (GPT-NeoX, BLOOM, Falcon)."""
    groups, each, end = owner.kv_heads, owner.heads // owner.kv_heads, weight.shape[1:]
    q, k, v = weight.split(owner.widths)
    seen = (groups, each + 2, owner.D, *end)
    every, shape = slice(None), tuple(weight.shape)
    queries = q.view(groups, each, owner.D, *end)
    yield Piece(name, shape, seen, (every, slice(0, each)), queries)
    yield Piece(name, shape, seen, (every, each), k.view(groups, owner.D, *end))
    yield Piece(name, shape, seen, (every, each + 1), v.view(groups, owner.D, *end))


Names = Mapping[str, str | tuple[str, Layout]]
Table = dict[str, str | tuple[str, Layout]]


def reshaped(*shape: int) -> Layout:
    """The same numbers in a tensor of another shape, such as a class token of (1, 1, C)."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        yield Piece(name, (*shape, *weight.shape), tuple(weight.shape), (), weight)

    return pieces


def convolution(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """The map from patches, stored as a convolution: (C, channels, rows, columns)."""
    shape = tuple(weight.shape)
    if weight.dim() == 2:
        shape = (len(weight), owner.channels, owner.size, owner.size)
    yield Piece(name, shape, tuple(weight.shape), (), weight)


def one_by_one(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """A linear map of each place, stored as a convolution of 1 × 1, and its bias."""
    yield Piece(
        name,
        (*weight.shape, 1, 1) if weight.dim() == 2 else tuple(weight.shape),
        tuple(weight.shape),
        (),
        weight,
    )


def half_of_expert(experts: int, number: int) -> Layout:
    """As `of_expert`, turned: ours is the `number`-th half of an expert's columns."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        name, _, e = name.partition("#")
        n, shape = len(weight), (experts, weight.shape[1], 2 * len(weight))
        columns = slice(number * n, (number + 1) * n)
        yield Piece(name, shape, shape, (int(e), slice(None), columns), weight.T)

    return pieces


def rows_of_expert(experts: int, number: int, of: int) -> Layout:
    """Ours is the `number`-th of `of` equal parts of an expert's rows, in a tensor of all experts,
    "name#e", that is not turned (Granite-MoE)."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        name, _, e = name.partition("#")
        n, shape = len(weight), (experts, of * len(weight), weight.shape[1])
        yield Piece(name, shape, shape, (int(e), slice(number * n, (number + 1) * n)), weight)

    return pieces


def of_expert(experts: int, turned: bool, first: int = 0, step: int = 1) -> Layout:
    """Ours belongs to one expert of a tensor of all, "name#e"; its columns there are every
    `step`-th from `first` on, and linear maps are stored from input to output if `turned`."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        name, _, e = name.partition("#")
        view = weight.T if turned else weight
        shape = (experts, *view.shape[:-1], step * view.shape[-1])
        columns = slice(first, None, step)
        inner = (slice(None),) * (view.dim() - 1)
        yield Piece(name, shape, shape, (int(e), *inner, columns), view)

    return pieces


def places(model: nn.Module, names: Names) -> dict[str, Place]:
    """Published name: where in the model this tensor belongs.

    An entry for a part is the published part, whose `weight` and `bias` follow; an entry for a
    parameter, such as "pool.token", is the published tensor. KeyError names what the table lacks.
    """
    found: dict[str, Place] = {}
    kept = [(n, b) for n, b in model.named_buffers() if template(n)[0] in names]
    for ours, weight in [*model.named_parameters(), *kept]:
        path, last = ours.rpartition(".")[::2]
        (part, _, _), (parameter, i, e) = template(path), template(ours)
        entry = names.get(parameter, names.get(part))
        if entry is None:
            raise KeyError(f"the table of names has no {part!r}, which the model has")
        name, layout = (entry, one_after_the_other) if isinstance(entry, str) else entry
        name = name.format(i=i, e=e)
        name = name if parameter in names else f"{name}.{STANDARD.get(last, last)}"
        owner = model.get_submodule(path.rpartition(".")[0])
        for piece in layout(name, weight, owner):
            found.setdefault(piece.name, Place(piece.shape)).pieces.append(piece)
    return found


def template(path: str) -> tuple[str, str, str]:
    """A part's path without the numbers of its block and expert, and these numbers."""
    block = re.search(r"blocks\.(\d+)\.", path)
    expert = re.search(r"experts\.(\d+)\.", path)
    key = re.sub(r"^body\.blocks\.\d+\.", "", path)
    key = re.sub(r"blocks\.\d+\.", "", key)
    key = re.sub(r"experts\.\d+\.", "experts.", key)
    return key, block[1] if block else "", expert[1] if expert else ""


def filters(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
    """A convolution of each channel by itself, or several in a row: (C, 1, kernel), and biases."""
    for there, ours in each_of(name, weight, owner):
        shape = (len(ours), 1, ours.shape[1]) if ours.dim() == 2 else tuple(ours.shape)
        yield Piece(there, shape, tuple(ours.shape), (), ours)


def by_owner(*kinds: tuple[type[nn.Module], str]) -> Layout:
    """The name goes on as the kind of part says that holds the weight, where blocks differ: the
    last map of an attention or of a memory, say."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        stem, _, last = name.rpartition(".")
        there = next(there for kind, there in kinds if isinstance(owner, kind))
        yield whole(f"{stem}.{there}.{last}", weight)

    return pieces
