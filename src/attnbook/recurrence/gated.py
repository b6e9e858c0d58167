"""The past in one matrix that fades: gated linear attention, step by step and in chunks.

Each position adds k vᵀ to a matrix of D × Dv numbers and reads it with q. Both forms give the same
numbers: one takes T small steps, the other T / chunk large ones, made of matrix products.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

State = Float[Tensor, "*batch D Dv"]
Output = tuple[Float[Tensor, "*batch T Dv"], Float[Tensor, "*batch D Dv"]]


def gated_step(
    S: State,
    q: Float[Tensor, "*batch D"],
    k: Float[Tensor, "*batch D"],
    v: Float[Tensor, "*batch Dv"],
    log_decay: Float[Tensor, "*batch _"],
) -> tuple[Float[Tensor, "*batch Dv"], State]:
    """S ← α S + k vᵀ, y = Sᵀ q: let the memory fade, add a pair, read.

    Dao & Gu 2024 (Mamba-2), equation 16 in other letters; `log_decay` is log α, of the whole matrix
    or of each of its rows.
    """
    S = log_decay.exp()[..., None] * S + k[..., None] * v[..., None, :]
    return torch.einsum("...d,...dv->...v", q, S), S


def gated_loop(
    q: Float[Tensor, "*batch T D"],
    k: Float[Tensor, "*batch T D"],
    v: Float[Tensor, "*batch T Dv"],
    log_decay: Float[Tensor, "..."] | None = None,
    state: State | None = None,
) -> Output:
    """`gated_step` at each position, from `state` on: the outputs, and the matrix after the last.

    `log_decay` is at most 0, (*batch, T) or (*batch, T, D); without it nothing fades.
    """
    S, decay = start(q, k, v, log_decay, state)
    outputs = []
    for step in zip(*(x.unbind(-2) for x in (q, k, v, decay)), strict=True):
        y, S = gated_step(S, *step)
        outputs.append(y)
    return torch.stack(outputs, -2), S


def gated_chunks(
    q: Float[Tensor, "*batch T D"],
    k: Float[Tensor, "*batch T D"],
    v: Float[Tensor, "*batch T Dv"],
    log_decay: Float[Tensor, "..."] | None = None,
    state: State | None = None,
    chunk: int = 64,
) -> Output:
    """`gated_loop` with the work inside each `chunk` of positions done as in attention.

    Yang et al. 2024 (gated linear attention), section 4.2.
    """
    S, decay = start(q, k, v, log_decay, state)
    T = q.shape[-2]
    q, k, v, decay = (in_chunks(x, chunk) for x in (q, k, v, decay))
    since = decay.cumsum(-2)  # log of what is left, at each position, of the chunk's start
    inside = decayed_products(q, k, since) @ v
    q, k, left = q * since.exp(), k * (since[..., -1:, :] - since).exp(), since[..., -1, :].exp()
    outputs = []
    for i in range(q.shape[-3]):
        outputs.append(inside[..., i, :, :] + q[..., i, :, :] @ S)
        S = left[..., i, :, None] * S + k[..., i, :, :].mT @ v[..., i, :, :]
    return torch.cat(outputs, -2)[..., :T, :], S


def decayed_products(
    a: Float[Tensor, "*batch n D"],
    b: Float[Tensor, "*batch n D"],
    since: Float[Tensor, "*batch n _"],
) -> Float[Tensor, "*batch n n"]:
    """aᵢ · bⱼ for j ≤ i, times what has faded between j and i; 0 for j > i.

    The difference of the logs comes before exp: each alone could be too large or too small.
    """
    n = a.shape[-2]
    later = torch.ones(n, n, dtype=torch.bool, device=a.device).triu(1)
    between = since[..., :, None, :] - since[..., None, :, :]
    between = between.masked_fill(later[..., None], -torch.inf).exp()
    if between.shape[-1] == 1:  # of the whole matrix
        return (a @ b.mT) * between[..., 0]
    return torch.einsum("...id,...jd,...ijd->...ij", a, b, between)


def in_chunks(x: Float[Tensor, "*batch T D"], chunk: int) -> Float[Tensor, "*batch N n D"]:
    """Positions in groups of `chunk`; the last is filled up with zeros, which change no state."""
    if chunk < 1:
        raise ValueError(f"a chunk holds at least 1 position; got {chunk}")
    chunk = min(chunk, x.shape[-2])
    return F.pad(x, (0, 0, 0, -x.shape[-2] % chunk)).unflatten(-2, (-1, chunk))


def start(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None, state: Tensor | None
) -> tuple[State, Float[Tensor, "*batch T _"]]:
    """The state to start from, and the decay with an axis for rows: 1 long, or D."""
    T, D, shape = *k.shape[-2:], k.shape[:-1]
    if q.shape != k.shape or v.shape[:-1] != shape or T < 1:
        shapes = [tuple(x.shape) for x in (q, k, v)]
        raise ValueError("queries {}, keys {} and values {} do not fit".format(*shapes))
    if log_decay is None:
        log_decay = k.new_zeros(shape)
    if log_decay.shape not in (shape, k.shape):
        raise ValueError(
            f"a decay is {tuple(shape)} or {tuple(k.shape)}; got {tuple(log_decay.shape)}"
        )
    size = (*shape[:-1], D, v.shape[-1])
    if state is not None and state.shape != size:
        raise ValueError(f"the state is {tuple(state.shape)}; these keys and values need {size}")
    state = v.new_zeros(size) if state is None else state
    return state, log_decay if log_decay.dim() == k.dim() else log_decay[..., None]
