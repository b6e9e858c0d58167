"""The loss of a language model, and the count of what it trains."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnbook.checks import check_int


def token_loss(
    logits: Float[Tensor, "*batch V"],
    targets: Int[Tensor, "*batch"],
    mask: Bool[Tensor, "*batch"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """How surprised the model is by a true token, on average, in nats.

    The cross-entropy of `logits` with `targets`, over the places where `mask` is True. With label
    `smoothing` the target is a mixture: the true token, and this share of all tokens alike (Szegedy
    et al. 2016, section 7).
    """
    if logits.shape[:-1] != targets.shape or (mask is not None and mask.shape != targets.shape):
        shapes = ", ".join(
            f"{name} {tuple(tensor.shape)}"
            for name, tensor in {"logits": logits, "targets": targets, "mask": mask}.items()
            if tensor is not None
        )
        raise ValueError(f"shapes do not fit: {shapes}; logits have one axis more, V")
    if mask is not None:
        logits, targets = logits[mask], targets[mask]
    if targets.numel() == 0:
        raise ValueError("no token to take the loss of: the mask is False everywhere")
    return nn.functional.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), label_smoothing=smoothing
    )


def chunked_token_loss(
    x: Float[Tensor, "*batch C"],
    lm_head: nn.Module,
    targets: Int[Tensor, "*batch"],
    mask: Bool[Tensor, "*batch"] | None = None,
    chunk: int = 1024,
) -> Float[Tensor, ""]:
    """`token_loss(lm_head(x), targets, mask)` without holding the logits of all tokens.

    `x` is what the last block gives, `model.body(model.embed(tokens), mask=causal)`. The logits of
    `chunk` tokens at a time are computed, and computed again for the gradients: with a vocabulary
    of 262,144 those of 1,024 tokens are a gigabyte of float32.
    """
    check_int("chunk", chunk, 1)
    if x.shape[:-1] != targets.shape or (mask is not None and mask.shape != targets.shape):
        raise ValueError(f"vectors {tuple(x.shape)} do not fit targets {tuple(targets.shape)}")
    chosen = torch.ones_like(targets, dtype=torch.bool) if mask is None else mask
    x, targets = x[chosen], targets[chosen]  # (N C), (N)
    if not len(targets):
        raise ValueError("no token to take the loss of: the mask is False everywhere")

    def loss(x: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(lm_head(x).float(), targets, reduction="sum")

    pieces = zip(x.split(chunk), targets.split(chunk), strict=True)
    losses = [checkpoint(loss, *piece, use_reentrant=False) for piece in pieces]
    return torch.stack(losses).sum() / len(targets)


def parameters(model: nn.Module) -> int:
    """How many numbers training may change; a tensor shared by two modules counts once."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
