"""A recurrent language model with the contract of the others: called, it gives logits, and what it
knows of the past is kept in caches. So everything that writes, writes with it, too.
"""

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.recurrent import LanguageModel, Stack, State


class StateOfLayer:
    """What one recurrent layer keeps: the state after `length` tokens, of one size for all lengths.

    None before the first token.
    """

    can_be_cut = False

    def __init__(self) -> None:
        self.length = 0
        self.state: State | None = None

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order, as a search among beams does."""
        if self.state is not None:
            self.state = tuple(part[rows] for part in self.state)

    def cut(self, length: int) -> None:
        """Forget everything, or nothing: what was mixed into a state cannot be taken out."""
        if length not in (0, self.length):
            raise ValueError(
                f"a state of {self.length} tokens cannot be cut to {length}, only to 0"
            )
        self.length, self.state = length, self.state if length else None

    def total(self, T: int) -> int:
        """How many tokens the layer has read once T more are there."""
        return self.length + T


class Logits(nn.Module):
    """`recurrent.LanguageModel`, called as `transformer.LanguageModel` is: logits alone, with the
    state in `caches`.

    The model itself, which returns its state, is `model`.
    """

    def __init__(self, model: LanguageModel):
        super().__init__()
        self.model = model

    @property
    def body(self) -> Stack:
        """The model's layers."""
        return self.model.body

    def forward(
        self, tokens: Int[Tensor, "B T"], caches: Sequence[StateOfLayer] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each position. With `caches`, `tokens` are the new."""
        if caches is None:
            return self.model(tokens)[0]
        layers = len(self.body.layers)
        if len(caches) != layers:
            raise ValueError(f"{layers} layers need a cache each; got {len(caches)}")
        known = [cache.state for cache in caches if cache.state is not None]
        logits, states = self.model(tokens, tuple(known) if known else None)
        for cache, state in zip(caches, states, strict=True):
            cache.length, cache.state = cache.length + tokens.shape[1], state
        return logits

    def caches(self) -> list[StateOfLayer]:
        """An empty cache for each layer: hand them to every call for the same sequences."""
        return [StateOfLayer() for _ in self.body.layers]
