"""The loss of a language model, and the count of what it trains."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


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


def parameters(model: nn.Module) -> int:
    """How many numbers training may change; a tensor shared by two modules counts once."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
