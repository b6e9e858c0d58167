"""The KV cache keeps keys and values of the past: a new token then asks only its own query."""

from jaxtyping import Float
from torch import Tensor


class KVCache:
    """The keys and values that one attention layer has seen so far.

    `length` says how many positions those are. Room is doubled when it runs out, so that adding a
    token costs the same however many there are (amortised). It is written in place: for generation,
    under `torch.no_grad()`, not for training.
    """

    def __init__(self) -> None:
        self.length = 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(
        self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]
    ) -> tuple[Float[Tensor, "B H Tk D"], Float[Tensor, "B H Tk Dv"]]:
        """Store the keys and values of T new positions; return those of all positions so far."""
        B, H, _, D = k.shape
        if self.keys is not None and self.keys.shape != (B, H, self.keys.shape[2], D):
            raise ValueError(
                f"the cache has (B, H, room, D) = {tuple(self.keys.shape)}, these keys are "
                f"{tuple(k.shape)}: one cache belongs to one batch and one layer"
            )
        end = self.length + k.shape[2]
        self.keys, self.values = grown(self.keys, k, end), grown(self.values, v, end)
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = k, v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


def grown(store: Tensor | None, like: Tensor, length: int) -> Tensor:
    """`store` if it has room for `length` positions, else the same in a store of twice the room."""
    if store is not None and store.shape[2] >= length:
        return store
    B, H, _, D = like.shape
    larger = like.new_empty(B, H, 2 * length, D)
    if store is not None:
        larger[:, :, : store.shape[2]] = store
    return larger
