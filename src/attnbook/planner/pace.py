"""How long one step takes: computing, sending, and waiting for each other."""

from dataclasses import dataclass

from attnbook.decoder_config import DecoderConfig
from attnbook.planner.bill import GPUS
from attnbook.planner.layout import Batch, Layout, collectives

MACHINE = 8  # GPUs in one box, joined by NVLink
LINKS = {"a100": (300e9, 25e9), "h100": (450e9, 50e9), "h200": (450e9, 50e9)}
"""Bytes a second that one GPU can send: to the others of its machine (NVLink, half of what data
sheets give for both directions), and to other machines (its own network card: 200 or 400
gigabit/s), as in NVIDIA's DGX A100 and H100. A machine has one card for each GPU."""
PRODUCTS = 0.5
"""The share of its peak that a GPU reaches while it computes: an assumption, and the most that fits
the three steps published for Megatron-Turing NLG (Smith et al. 2022, section 2.4)."""


@dataclass(frozen=True)
class Pace:
    """Seconds of one step, by what they are spent on. `bubble` is waiting in the pipeline.

    `hidden` if all that can be sent while something is computed costs nothing, `shown` if nothing
    is hidden: the truth lies between.
    """

    compute: int | float
    bubble: int | float
    tensor: int | float
    data: int | float
    pipeline: int | float

    @property
    def hidden(self) -> int | float:
        """The longest of the two: computing with its bubble, or sending."""
        return max(self.compute + self.bubble, self.tensor + self.data + self.pipeline)

    @property
    def shown(self) -> int | float:
        """All of it, one after the other: nothing of the sending is hidden."""
        return self.compute + self.bubble + self.tensor + self.data + self.pipeline


def speed(size: int, neighbours: int, gpu: str) -> int | float:
    """Bytes a second at which each GPU of a group sends around a ring, `neighbours` of the group's
    `size` GPUs being in one machine.

    A ring leaves a machine once. With as many rings as the group has GPUs there, each ring leaves
    by another card, so that `neighbours` cards work for the group; but no GPU sends faster than
    NVLink. Austin et al. 2025 (How to Scale Your Model, GPUs), "Beyond the node level".
    """
    near, far = LINKS[gpu]
    inside = min(size, neighbours)
    return near if size <= inside else min(near, inside * far)


def pace(
    decoder: DecoderConfig, layout: Layout, batch: Batch, gpu: str, products: int | float = PRODUCTS
) -> Pace:
    """One step of a layout on GPUs of a kind, of whose peak products of matrices reach a share.

    GPUs are numbered as Megatron-LM does: a tensor group's lie next to each other, then the
    replicas of a stage, then the stages. So a data group has MACHINE / tensor GPUs in each machine,
    and a stage sends to the next one over its own card as soon as there are two machines.
    """
    if gpu not in LINKS:
        raise ValueError(f"GPUs are {', '.join(LINKS)}; got {gpu}")
    if not 0 < products <= 1:
        raise ValueError(f"products reach a share of the peak, above 0 and up to 1; got {products}")
    each = collectives(decoder, layout, batch)
    near, far = LINKS[gpu]
    replicas = max(1, MACHINE // layout.tensor)
    work = batch.tokens * decoder.flops(batch.T, again=batch.recompute)
    compute = work / (layout.gpus * GPUS[gpu][0] * products)
    return Pace(
        compute,
        compute * each.bubble / (1 - each.bubble),
        each.tensor / speed(layout.tensor, MACHINE, gpu),
        each.data / speed(layout.data, replicas, gpu),
        each.pipeline / (near if layout.gpus <= MACHINE else far),
    )
