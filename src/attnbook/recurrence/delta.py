"""The delta rule: correct what the memory says about a key before adding to it.

Linear attention only adds; a key that comes again with another value is then answered by the sum of
both. Here the old answer is taken away first.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.recurrence.gated import Output, State, decayed_products, in_chunks, start


def delta_step(
    S: State,
    q: Float[Tensor, "*batch D"],
    k: Float[Tensor, "*batch D"],
    v: Float[Tensor, "*batch Dv"],
    beta: Float[Tensor, "*batch"],
    log_decay: Float[Tensor, "*batch _"],
) -> tuple[Float[Tensor, "*batch Dv"], State]:
    """S ← α S, then S ← S + β k (v − Sᵀ k)ᵀ; y = Sᵀ q.

    One step of gradient descent on ½ |Sᵀ k − v|², with rate β. With |k| = 1 and β = 1 the memory
    answers k with v from now on; β = 2 turns what it knew along k into its opposite. `log_decay` is
    log α, of the whole matrix or of each of its rows. Yang et al. 2025 (gated delta networks),
    equation 10; with α = 1 Schlag et al. 2021.
    """
    S = log_decay.exp()[..., None] * S
    wrong = v - torch.einsum("...d,...dv->...v", k, S)
    S = S + (beta[..., None] * k)[..., None] * wrong[..., None, :]
    return torch.einsum("...d,...dv->...v", q, S), S


def delta_loop(
    q: Float[Tensor, "*batch T D"],
    k: Float[Tensor, "*batch T D"],
    v: Float[Tensor, "*batch T Dv"],
    beta: Float[Tensor, "*batch T"],
    log_decay: Float[Tensor, "..."] | None = None,
    state: State | None = None,
) -> Output:
    """`delta_step` at each position, from `state` on: the outputs, and the matrix after the last.

    `log_decay` is at most 0, (*batch, T) or (*batch, T, D); without it nothing fades.
    """
    S, decay = start(q, k, v, log_decay, state)
    check_strength(beta, k)
    outputs = []
    steps = zip(
        q.unbind(-2), k.unbind(-2), v.unbind(-2), beta.unbind(-1), decay.unbind(-2), strict=True
    )
    for step in steps:
        y, S = delta_step(S, *step)
        outputs.append(y)
    return torch.stack(outputs, -2), S


def delta_chunks(
    q: Float[Tensor, "*batch T D"],
    k: Float[Tensor, "*batch T D"],
    v: Float[Tensor, "*batch T Dv"],
    beta: Float[Tensor, "*batch T"],
    log_decay: Float[Tensor, "..."] | None = None,
    state: State | None = None,
    chunk: int = 32,
) -> Output:
    """`delta_loop` with the work inside each `chunk` of positions done by matrix products.

    What each position corrects depends on the corrections before it: a triangular system, solved
    for all chunks at once but for what the state adds. Yang et al. 2024 (parallelizing linear
    transformers with the delta rule), section 3.2.
    """
    S, decay = start(q, k, v, log_decay, state)
    check_strength(beta, k)
    T, Dv = v.shape[-2:]
    q, k, v, beta, decay = (in_chunks(x, chunk) for x in (q, k, v, beta[..., None], decay))
    since = decay.cumsum(-2)  # log of what is left, at each position, of the chunk's start
    seen = decayed_products(q, k, since)
    right = beta * torch.cat((v, k * since.exp()), -1)
    right = torch.linalg.solve_triangular(
        beta * decayed_products(k, k, since), right, upper=False, unitriangular=True
    )
    new, known = right[..., :Dv], right[..., Dv:]
    q, k, left = q * since.exp(), k * (since[..., -1:, :] - since).exp(), since[..., -1, :].exp()
    outputs = []
    for i in range(q.shape[-3]):
        added = new[..., i, :, :] - known[..., i, :, :] @ S
        outputs.append(q[..., i, :, :] @ S + seen[..., i, :, :] @ added)
        S = left[..., i, :, None] * S + k[..., i, :, :].mT @ added
    return torch.cat(outputs, -2)[..., :T, :], S


def check_strength(beta: Tensor, k: Tensor) -> None:
    """Raise a ValueError unless there is a strength for each key."""
    if beta.shape != k.shape[:-1]:
        raise ValueError(f"strengths {tuple(beta.shape)} for keys {tuple(k.shape[:-1])}")
