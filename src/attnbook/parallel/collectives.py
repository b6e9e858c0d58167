"""Collectives made of sending to a neighbour: each process passes on, nobody is in the middle.

Of a tensor of n bytes a process sends (P − 1)/P · n to scatter sums or to gather, and twice that to
sum: as little as can be, however many processes there are. Patarasuk and Yuan 2009, section 3.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnbook.parallel.wire import Wire


def reduce_scatter(wire: Wire, parts: Sequence[Tensor]) -> Tensor:
    """The sum over all processes of their `parts[rank]`; `parts` has one for each process.

    A sum goes around the ring, and each process adds its own part when it comes by.
    """
    check_parts(wire, parts)
    P, r = wire.size, wire.rank
    total = parts[r - 1].detach()
    for n in range(2, P + 1):
        wire.send(total, (r + 1) % P)
        mine = parts[(r - n) % P].detach()
        total = wire.receive(mine, (r - 1) % P) + mine
    wire.flush()
    return total.clone() if P == 1 else total


def all_gather(wire: Wire, mine: Tensor) -> list[Tensor]:
    """The tensors of all processes, in the order of their ranks; all have the shape of `mine`.

    Each passes on what it received last.
    """
    P, r = wire.size, wire.rank
    found = [mine.detach()]
    for _ in range(P - 1):
        wire.send(found[-1], (r + 1) % P)
        found.append(wire.receive(mine, (r - 1) % P))
    wire.flush()
    return [found[(r - i) % P] for i in range(P)]


def all_reduce(wire: Wire, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The sum of `x` over all processes, on all of them: scatter the sums, then gather them.

    What does not divide by P is filled up with zeros, which are sent as well.
    """
    flat = F.pad(x.detach().flatten(), (0, -x.numel() % wire.size))
    total = reduce_scatter(wire, flat.chunk(wire.size))
    return torch.cat(all_gather(wire, total))[: x.numel()].view_as(x)


def all_to_all(wire: Wire, parts: Sequence[Tensor], likes: Sequence[Tensor]) -> list[Tensor]:
    """`parts[i]` goes to process i; what comes from process i has the shape of `likes[i]`."""
    check_parts(wire, parts)
    check_parts(wire, likes)
    others = [(wire.rank + n) % wire.size for n in range(1, wire.size)]
    for i in others:
        wire.send(parts[i], i)
    found = {i: wire.receive(likes[i], i) for i in others}
    wire.flush()
    return [found.get(i, parts[i].detach()) for i in range(wire.size)]


def check_parts(wire: Wire, parts: Sequence[Tensor]) -> None:
    """Raise a ValueError unless there is a part for each process."""
    if len(parts) != wire.size:
        raise ValueError(f"{wire.size} processes need a part each; got {len(parts)}")
