"""Look at what the heads of a model attend to, and switch some of them off."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from attnbook.attention import Attention


@contextmanager
def watch(model: nn.Module, kind: type[nn.Module] = Attention) -> Iterator[dict[str, Tensor]]:
    """Inside this context the weights of every attention are kept: name → (B, H, Tq, Tk).

    The names are those of `model.named_modules()`; a layer called again replaces its entry. Another
    `kind` of layer shows what it calls `on_weights` with: MixtureOfExperts the chances, (B, T, E).
    """
    # Any: a layer of another kind has its `on_weights`, too, which nn.Module does not know.
    layers: dict[str, Any] = {
        name: part for name, part in model.named_modules() if isinstance(part, kind)
    }
    if not layers:
        raise ValueError(f"there is no {kind.__name__} in this {type(model).__name__}")
    seen: dict[str, Tensor] = {}
    before = {name: layer.on_weights for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            layer.on_weights = partial(seen.__setitem__, name)
        yield seen
    finally:
        for name, layer in layers.items():
            layer.on_weights = before[name]


@contextmanager
def without_heads(layer: Attention, heads: Collection[int]) -> Iterator[None]:
    """Inside this context the outputs of these heads are zeros before they are mixed.

    Michel et al. 2019, section 2.3.
    """
    wrong = [head for head in heads if not 0 <= head < layer.heads]
    if wrong:
        raise ValueError(f"heads {wrong} do not exist: this layer has heads 0 to {layer.heads - 1}")

    def silence(_: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        outputs = inputs[0].unflatten(-1, (layer.heads, -1)).clone()
        outputs[..., list(heads), :] = 0
        return outputs.flatten(-2)

    handle = layer.to_out.register_forward_pre_hook(silence)
    try:
        yield
    finally:
        handle.remove()
