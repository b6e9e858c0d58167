"""How much memory a computation needs, counted exactly: the bytes of its tensors."""

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Ledger(TorchDispatchMode):
    """Enters every tensor that is made in its `with` block, and strikes it out when it is freed.

    `held` is the number of bytes alive now, `most` the largest number there has been. Views cost
    nothing, and what existed before is not counted, nor the scratch space inside one of torch's
    own operations. The same on every machine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = self.most = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), named: Any = None
    ) -> Any:
        named = named or {}
        before = {storage._cdata for storage in storages((args, named))}
        result = operation(*args, **named)
        made = {storage._cdata: storage for storage in storages(result)}
        for name, storage in made.items():
            if name not in before:  # else the result is a view, or was changed in place
                self.enter(storage)
        return result

    def enter(self, storage: Any) -> None:
        """Count a piece of memory until nobody holds it any more."""
        size = storage.nbytes()
        self.held += size
        self.most = max(self.most, self.held)
        weakref.finalize(storage, self.strike, size).atexit = False

    def strike(self, size: int) -> None:
        """A piece of memory was freed."""
        self.held -= size


def storages(things: Any) -> list:
    """The memory behind all tensors among the `things`."""
    return [part.untyped_storage() for part in tree_leaves(things) if isinstance(part, Tensor)]
