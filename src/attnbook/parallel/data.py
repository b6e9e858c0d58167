"""Data parallelism: every process has the whole model and a part of the batch."""

from typing import TypeVar

import torch
from torch import Tensor, nn

from attnbook.parallel.collectives import all_reduce
from attnbook.parallel.wire import Wire

Some = TypeVar("Some", bound=Tensor)


def share(wire: Wire, batch: Some, axis: int = 0) -> Some:
    """This process' part of a batch, as large as everybody's."""
    if batch.shape[axis] % wire.size:
        raise ValueError(f"{batch.shape[axis]} do not divide among {wire.size} processes")
    return batch.chunk(wire.size, axis)[wire.rank]  # type: ignore[return-value]


def average_gradients(wire: Wire, model: nn.Module) -> None:
    """Replace every gradient by its mean over all processes, in one message.

    If each has computed the mean loss of an equal part of the batch, this is the gradient of the
    whole batch. Li et al. 2020, section 3.2, where several messages (buckets) leave while other
    gradients are still computed.
    """
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    mean = all_reduce(wire, flat) / wire.size
    for gradient, part in zip(gradients, mean.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))
