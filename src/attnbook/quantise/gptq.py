"""Better levels than the nearest ones: what a text says about a layer's inputs, and how it is used.

Same bits, groups and scales as in `attnbook.quantise.rounding`; only which level a weight gets is
chosen anew. GPTQ: Frantar et al. 2023. AWQ: Lin et al. 2024."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from attnbook.masks import causal
from attnbook.quantise.rounding import QuantisedLinear, QuantisedMatrix, dequantise, pack

# scale(W, top): of each row of a group, what its level `top` stands for
Scale = Callable[[Float[Tensor, "*batch g"], int], Float[Tensor, "*batch"]]
Rounded = tuple[Int8[Tensor, "R C"], Float[Tensor, "R groups"]]


def largest(W: Float[Tensor, "*batch g"], top: int) -> Float[Tensor, "*batch"]:
    """The largest weight of a group becomes its largest level, as in `quantise`."""
    scale = W.abs().amax(-1) / top
    return scale.where(scale > 0, 1)


def best_clip(W: Float[Tensor, "*batch g"], top: int) -> Float[Tensor, "*batch"]:
    """The fraction of `largest` with the least squared error: a few weights are cut off."""
    tries = largest(W, top) * torch.linspace(1, 0.3, 36).view(-1, *[1] * (W.dim() - 1))
    errors = [(levels_of(W, s[..., None], top) * s[..., None] - W).square().sum(-1) for s in tries]
    best = torch.stack(errors).argmin(0, keepdim=True)
    return tries.gather(0, best)[0]


def levels_of(W: Tensor, scales: Tensor, top: int) -> Tensor:
    """The nearest levels, as fractions that are whole."""
    return (W / scales).round().clamp(-top, top)


def nearest(W: Float[Tensor, "R C"], bits: int, group: int, scale: Scale = largest) -> Rounded:
    """`quantise`, with any rule for the scales."""
    pieces, top = in_groups(W, bits, group), 2 ** (bits - 1) - 1
    scales = scale(pieces, top)
    return levels_of(pieces, scales[..., None], top).flatten(1).to(torch.int8), scales


def in_groups(W: Float[Tensor, "R C"], bits: int, group: int) -> Float[Tensor, "R groups g"]:
    """The rows cut into groups, which have to fill them."""
    if not 2 <= bits <= 8 or group < 1 or W.shape[1] % group:
        raise ValueError(
            f"needs 2 to 8 bits and groups that fill a row of {W.shape[1]}; got {bits} bits, "
            f"groups of {group}"
        )
    return W.unflatten(1, (-1, group))


@dataclass(frozen=True)
class Inputs:
    """What a layer read: over all positions, the mean of x xᵀ, and of |x| for each channel."""

    second: Float[Tensor, "C C"]
    size: Float[Tensor, " C"]

    @classmethod
    def of(cls, x: Float[Tensor, "*batch C"]) -> "Inputs":
        """The means over these inputs."""
        x = x.flatten(0, -2)
        return cls(x.T @ x / len(x), x.abs().mean(0))


def output_error(change: Float[Tensor, "R C"], second: Float[Tensor, "C C"]) -> float:
    """Mean square of what a change of the weights does to each output: e · mean(x xᵀ) · eᵀ."""
    return ((change @ second) * change).sum(1).mean().item()


def gptq(
    W: Float[Tensor, "R C"],
    second: Float[Tensor, "C C"],
    bits: int,
    group: int,
    scale: Scale = largest,
    damp: float = 0.01,
) -> Rounded:
    """Column by column: round one, then move all later ones so that the outputs change least.

    Row j of U, with UᵀU the inverse of `second`, holds what column j needs of the inverse for the
    columns not yet rounded. `damp` times the mean of its diagonal is added to `second` first. About
    128 columns are a block: those behind it are moved once, by one product, which changes no more
    than the order of the sums.
    """
    in_groups(W, bits, group)  # refuses what does not fit
    W, top, scales = W.clone(), 2 ** (bits - 1) - 1, []
    U = inverse_root(second, damp).to(W.dtype)
    levels, errors = torch.empty_like(W), torch.empty_like(W)
    size, C = max(128 // group, 1) * group, W.shape[1]
    for start in range(0, C, size):
        end = min(start + size, C)
        for j in range(start, end):
            if j % group == 0:
                scales.append(scale(W[:, j : j + group], top))
            levels[:, j] = levels_of(W[:, j], scales[-1], top)
            errors[:, j] = (W[:, j] - levels[:, j] * scales[-1]) / U[j, j]
            W[:, j + 1 : end] -= errors[:, j, None] * U[j, j + 1 : end]
        W[:, end:] -= errors[:, start:end] @ U[start:end, end:]
    return levels.to(torch.int8), torch.stack(scales, 1)


def inverse_root(second: Float[Tensor, "C C"], damp: float) -> Float[Tensor, "C C"]:
    """Upper triangular U with UᵀU = (second + damp · mean diagonal)⁻¹, in 64 bits."""
    H = second.double()
    H = H + damp * H.diagonal().mean() * torch.eye(len(H), dtype=H.dtype, device=H.device)
    try:
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(H))
    except RuntimeError as error:  # what torch.linalg raises is one
        raise ValueError(f"the inputs leave a direction empty: raise damp, {damp}") from error
    return torch.linalg.cholesky(inverse, upper=True)


def awq(
    W: Float[Tensor, "R C"],
    inputs: Inputs,
    bits: int,
    group: int,
    scale: Scale = largest,
    tries: int = 20,
) -> tuple[Int8[Tensor, "R C"], Float[Tensor, "R groups"], Float[Tensor, " C"]]:
    """Levels and scales of W · s, nearest, and the factors s that the inputs are divided by.

    s is a power of the inputs' mean size, from 0 (plain rounding) to below 1: that of the least
    error in the outputs with the scales of `largest`.
    """
    size, errors, factors = inputs.size.clamp(min=1e-4), [], []
    for step in range(tries):
        s = size ** (step / tries)
        factors.append(s / (s.max() * s.min()).sqrt())
        rounded = dequantise(*nearest(W * factors[-1], bits, group), group) / factors[-1]
        errors.append(output_error(rounded - W, inputs.second))
    s = factors[errors.index(min(errors))]
    return *nearest(W * s, bits, group, scale), s


class DividedInput(nn.Module):
    """A map whose inputs are divided by factors first: what AWQ leaves. A norm's gain or the map
    before can take them over, and then they cost nothing."""

    factors: Tensor

    def __init__(self, inner: QuantisedLinear, factors: Float[Tensor, " C"]):
        super().__init__()
        self.inner = inner
        self.register_buffer("factors", factors)

    out_features = property(lambda self: self.inner.out_features)
    in_features = property(lambda self: self.inner.in_features)
    weight = property(lambda self: self.inner.weight / self.factors)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch R"]:
        return self.inner(x / self.factors)


Make = Callable[[nn.Linear, Inputs], nn.Module]


def few(part: nn.Linear, rounded: Rounded, bits: int, group: int) -> QuantisedLinear:
    """The map with these levels and scales, stored in as few bytes as its bits allow."""
    levels, scales = rounded
    stored = pack(levels) if bits <= 4 else levels
    matrix = QuantisedMatrix(stored, scales, levels.shape[1], bits, group)
    return QuantisedLinear(matrix, part.bias)


def by_nearest(bits: int, group: int, scale: Scale = largest) -> Make:
    """Round to nearest, whatever is read."""
    return lambda part, _: few(part, nearest(part.weight, bits, group, scale), bits, group)


def by_gptq(bits: int, group: int, scale: Scale = largest) -> Make:
    """Levels by `gptq`: what is stored, and its speed, are those of plain rounding."""
    return lambda part, read: few(
        part, gptq(part.weight, read.second, bits, group, scale), bits, group
    )


def by_awq(bits: int, group: int, scale: Scale = largest) -> Make:
    """Levels and factors by `awq`."""

    def make(part: nn.Linear, read: Inputs) -> DividedInput:
        levels, scales, s = awq(part.weight, read, bits, group, scale)
        return DividedInput(few(part, (levels, scales), bits, group), s)

    return make


@torch.no_grad()
def calibrated(
    blocks: Iterable[nn.Module], x: Float[Tensor, "B T C"], make: Make
) -> Float[Tensor, "B T C"]:
    """Replace each linear map of each block by `make(map, what it reads)`, in place.

    `x` is what the first block reads. Each block is shown what the rounded ones before it hand
    over; what the last one does is given back.
    """
    for block in blocks:
        for name, read in inputs_of(block, x).items():
            part = block.get_submodule(name)
            assert isinstance(part, nn.Linear)
            block.set_submodule(name, make(part, read))
        x = block(x, mask=causal)
    return x


def inputs_of(block: nn.Module, x: Float[Tensor, "B T C"]) -> dict[str, Inputs]:
    """What each linear map of a block reads while the block reads `x`."""
    seen: dict[str, Inputs] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        return lambda _, given: seen.update({name: Inputs.of(given[0])})

    maps = [(name, part) for name, part in block.named_modules() if isinstance(part, nn.Linear)]
    hooks = [part.register_forward_pre_hook(keep(name)) for name, part in maps]
    block(x, mask=causal)
    for hook in hooks:
        hook.remove()
    return seen
