"""Weights as small whole numbers: an eighth to a quarter of the memory, read faster than computed.

Round to nearest, symmetric around 0, with one scale for a row or for a group of its numbers.
"""

from collections.abc import Callable, Collection

import torch
from jaxtyping import Float, Int8, Integer, UInt8
from torch import Tensor, nn
from torch.nn import functional as F


def quantise(
    W: Float[Tensor, "R C"], bits: int = 8, group: int | None = None
) -> tuple[Int8[Tensor, "R C"], Float[Tensor, "R groups"]]:
    """The nearest whole numbers of `bits` bits, and the scales that they are to be multiplied with.

    A scale serves `group` neighbours in a row (the last group may be shorter), or a whole row; its
    largest weight becomes ±(2^(bits − 1) − 1), so no error is larger than half a scale.
    """
    if not 2 <= bits <= 8:
        raise ValueError(f"weights are stored in 2 to 8 bits; got {bits}")
    if group is not None and group < 1:
        raise ValueError(f"a group holds at least 1 weight; got {group}")
    if not W.isfinite().all():
        raise ValueError("the matrix has numbers that are not finite: nothing to round them to")
    C, top = W.shape[1], 2 ** (bits - 1) - 1
    size = min(group or C, C)
    grouped = F.pad(W, (0, -C % size)).unflatten(1, (-1, size))
    scales = grouped.abs().amax(-1) / top
    scales = scales.where(scales > 0, 1)  # a group of zeros
    levels = (grouped / scales[..., None]).round().clamp(-top, top)
    return levels.flatten(1)[:, :C].to(torch.int8), scales


def dequantise(
    levels: Int8[Tensor, "*batch C"], scales: Float[Tensor, "*batch groups"], group: int
) -> Float[Tensor, "*batch C"]:
    """What `quantise` kept of each weight: its level times the scale of its group."""
    return levels * scales.repeat_interleave(group, -1)[..., : levels.shape[-1]]


def pack(levels: Int8[Tensor, "*batch C"]) -> UInt8[Tensor, "*batch half"]:
    """Two levels of 4 bits in a byte: the even one low, the odd one high, each plus 8."""
    low, high = (
        (F.pad(levels, (0, levels.shape[-1] % 2)) + 8)
        .to(torch.uint8)
        .unflatten(-1, (-1, 2))
        .unbind(-1)
    )
    return low | high << 4


def unpack(packed: UInt8[Tensor, "*batch half"], C: int) -> Int8[Tensor, "*batch {C}"]:
    """The levels that `pack` put together."""
    levels = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)[..., :C]
    return levels.to(torch.int8) - 8


class QuantisedMatrix(nn.Module):
    """A matrix in few bits. Up to 4 bits, two numbers share a byte; else each has its own.

    `quantised_matrix` makes one of weights; this holds what is stored of it.
    """

    stored: Tensor
    scales: Tensor
    ordered: tuple[Tensor, Tensor]  # what the kernel of 4 bits keeps
    short: Tensor  # what that of 8 bits keeps: its scales

    def __init__(self, stored: Tensor, scales: Tensor, columns: int, bits: int, group: int):
        super().__init__()
        self.shape, self.bits, self.group = (len(stored), columns), bits, group
        self.register_buffer("stored", stored)
        self.register_buffer("scales", scales)

    def levels(self, rows: Integer[Tensor, "*batch"] | slice = slice(None)) -> Tensor:
        """The whole numbers of these rows, one for each weight."""
        stored = self.stored[rows]
        return unpack(stored, self.shape[1]) if self.bits <= 4 else stored

    def forward(self, rows: Integer[Tensor, "*batch"] | slice = slice(None)) -> Tensor:
        """The weights again, of these rows or of all."""
        return dequantise(self.levels(rows), self.scales[rows], self.group)


def quantised_matrix(
    W: Float[Tensor, "R C"], bits: int = 8, group: int | None = None
) -> QuantisedMatrix:
    """`quantise`, stored in as few bytes as its bits allow."""
    levels, scales = quantise(W.detach(), bits, group)
    stored = pack(levels) if bits <= 4 else levels
    return QuantisedMatrix(stored, scales, W.shape[1], bits, min(group or W.shape[1], W.shape[1]))


Product = Callable[[Float[Tensor, "*batch C"], QuantisedMatrix], Float[Tensor, "*batch R"]]
MakeMatrix = Callable[[str, Float[Tensor, "R C"]], QuantisedMatrix]


def unpacked(x: Float[Tensor, "*batch C"], W: QuantisedMatrix) -> Float[Tensor, "*batch R"]:
    """x Wᵀ with the weights made anew each time: exact, differentiable, and no faster."""
    if W.scales.shape[1] > 1:
        return F.linear(x, W())
    return F.linear(x, W.levels().to(x.dtype)) * W.scales[:, 0]


def int8_kernel(x: Float[Tensor, "*batch C"], W: QuantisedMatrix) -> Float[Tensor, "*batch R"]:
    """x Wᵀ by torch's kernel for one scale per row, in bfloat16: reads one byte per weight.

    For one row of x it takes 2.6 times less than float32 (one core, 4096 × 4096; chapter 17 has all
    sizes). It has no gradient, and keeps the scales a second time.
    """
    if W.bits <= 4 or W.scales.shape[1] > 1:
        raise ValueError(
            f"this kernel is for 8 bits and one scale per row; got {W.bits} bits, "
            f"{W.scales.shape[1]} scales per row"
        )
    if not hasattr(W, "short") or W.short.device != W.scales.device:
        # kept until the matrix is moved: made in each call it does not compile
        W.short = W.scales[:, 0].bfloat16()
    rows = x.flatten(0, -2).bfloat16()
    y = torch.ops.aten._weight_int8pack_mm(rows, W.stored, W.short)
    return y.to(x.dtype).unflatten(0, x.shape[:-1])


def int4_kernel(x: Float[Tensor, "*batch C"], W: QuantisedMatrix) -> Float[Tensor, "*batch R"]:
    """x Wᵀ by torch's CPU kernel for groups of 32, 64, 128 or 256, in bfloat16; none on a GPU.

    Measured on one core, 4096 × 4096: for one row of x 7 times as fast as float32, 4 times as
    bfloat16; for 64 rows, 2.5 times slower than bfloat16. It has no gradient, and keeps the weights
    a second time, in an order of its own.
    """
    if W.bits > 4 or W.group not in (32, 64, 128, 256) or W.shape[1] % W.group or W.shape[0] % 16:
        raise ValueError(
            "this kernel is for 4 bits, groups of 32, 64, 128 or 256 that fill a row, and a "
            f"multiple of 16 rows; got {W.bits} bits, groups of {W.group}, a matrix {W.shape}"
        )
    if x.device.type not in ("cpu", "meta"):
        raise ValueError(
            f"this kernel is for a CPU; on {x.device.type} multiply by `unpacked`, or by "
            "`int8_kernel` in 8 bits"
        )
    if not hasattr(W, "ordered"):
        levels = W.levels().to(torch.int32) + 8
        scales = W.scales.T.bfloat16()
        ordered = torch.ops.aten._convert_weight_to_int4pack_for_cpu(levels, 1)
        W.ordered = ordered, torch.stack((scales, torch.zeros_like(scales)), -1).contiguous()
    rows = x.flatten(0, -2).bfloat16()
    y = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, W.ordered[0], W.group, W.ordered[1])
    return y.to(x.dtype).unflatten(0, x.shape[:-1])


class QuantisedLinear(nn.Module):
    """A linear map whose matrix is stored in few bits. `product(x, matrix)` is how to multiply."""

    def __init__(
        self, matrix: QuantisedMatrix, bias: Tensor | None = None, product: Product = unpacked
    ):
        super().__init__()
        self.matrix, self.product = matrix, product
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    out_features = property(lambda self: self.matrix.shape[0])
    in_features = property(lambda self: self.matrix.shape[1])
    weight = property(lambda self: self.matrix())

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch R"]:
        y = self.product(x, self.matrix)
        return y if self.bias is None else y + self.bias


class QuantisedEmbedding(nn.Module):
    """A table whose rows are stored in few bits: only those that are looked up are made anew."""

    def __init__(self, matrix: QuantisedMatrix):
        super().__init__()
        self.matrix = matrix

    num_embeddings = property(lambda self: self.matrix.shape[0])
    embedding_dim = property(lambda self: self.matrix.shape[1])
    weight = property(lambda self: self.matrix())

    def forward(self, tokens: Integer[Tensor, "*batch"]) -> Float[Tensor, "*batch C"]:
        return self.matrix(tokens)


def quantised(
    model: nn.Module,
    bits: int = 8,
    group: int | None = None,
    where: Callable[[str, nn.Module], bool] = lambda name, part: True,
    product: Product = unpacked,
) -> nn.Module:
    """The model, changed in place: its linear maps and embeddings in few bits, where `where(name,
    part)` is true. What was tied stays tied; vectors, such as norms' gains, stay as they are."""
    chosen = [name for name, part in maps_and_tables(model) if where(name, part)]
    if not chosen:
        raise ValueError("no linear map and no embedding was chosen: nothing to quantise")
    return replace_weights(model, chosen, lambda _, W: quantised_matrix(W, bits, group), product)


def maps_and_tables(model: nn.Module) -> list[tuple[str, nn.Linear | nn.Embedding]]:
    """Every linear map and embedding under each of its names."""
    parts = model.named_modules(remove_duplicate=False)
    return [(name, part) for name, part in parts if isinstance(part, (nn.Linear, nn.Embedding))]


def replace_weights(
    model: nn.Module, names: Collection[str], matrix: MakeMatrix, product: Product
) -> nn.Module:
    """Put `matrix(name, weight)` in place of the weights of the parts of these names.

    A weight or a part that has several names is replaced by one.
    """
    parts = {name: part for name, part in maps_and_tables(model) if name in names}
    weights = {name: part.weight for name, part in parts.items()}  # before any is replaced: of a
    matrices: dict[int, QuantisedMatrix] = {}  # tied head it is looked up in the embedding
    made: dict[int, nn.Module] = {}
    for name, part in parts.items():
        W = weights[name]
        if id(W) not in matrices:
            matrices[id(W)] = matrix(name, W)
        if id(part) not in made:
            few = matrices[id(W)]
            if isinstance(part, nn.Linear):
                made[id(part)] = QuantisedLinear(few, part.bias, product)
            else:
                made[id(part)] = QuantisedEmbedding(few)
            made[id(part)].train(part.training)
        model.set_submodule(name, made[id(part)])
    return model
