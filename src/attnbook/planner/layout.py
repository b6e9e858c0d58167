"""Which GPU holds what, and what it sends: data, sharded, tensor and pipeline parallelism.

Bytes: weights and what is sent have 2 each (bfloat16), gradients `gradient` (2, or 4 where they are
summed in float32), and Adam's two moments with a float32 copy of the weights 12: 16 for a
parameter with gradients of 2. Rajbhandari et al. 2020 (ZeRO), section 3.1.
"""

from dataclasses import dataclass

from attnbook.checks import check_int
from attnbook.decoder_config import DecoderConfig

WEIGHT, MOMENTS = 2, 12
LOGIT = 4


@dataclass(frozen=True)
class Layout:
    """`data` × `tensor` × `pipeline` GPUs. `shard` is what the replicas of `data` shard: nothing
    (0), the optimizer states (1), gradients as well (2), weights as well (3): ZeRO's stages; the
    last is FSDP. Each stage of the pipeline has `pieces` of the stack, taken in turns."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    shard: int = 0
    pieces: int = 1

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "pieces"):
            check_int(name, getattr(self, name), 1)
        if self.shard not in range(4):
            raise ValueError(f"shard is {self.shard}; ZeRO has the stages 0, 1, 2 and 3")

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return self.data * self.tensor * self.pipeline


@dataclass(frozen=True)
class Batch:
    """`tokens` of one step, in windows of `T`, `micro` windows at a time on each replica; whether
    blocks compute their activations again in the backward pass; bytes of a `gradient`."""

    tokens: int
    T: int
    micro: int = 1
    recompute: bool = True
    gradient: int = 2

    def rounds(self, layout: Layout) -> int:
        """Micro-batches of a step on each replica; ValueError if it cannot be dealt out."""
        one = self.T * self.micro * layout.data
        if self.tokens < one or self.tokens % one:
            raise ValueError(
                f"{self.tokens:,} tokens a step are no multiple of {one:,}: {layout.data} replicas "
                f"of {self.micro} windows of {self.T}"
            )
        return self.tokens // one


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest GPU, by what they are for."""

    weights: int | float
    gradients: int | float
    optimizer: int | float
    activations: int | float

    @property
    def total(self) -> int | float:
        """All bytes together."""
        return self.weights + self.gradients + self.optimizer + self.activations


def memory(decoder: DecoderConfig, layout: Layout, batch: Batch) -> Memory:
    """What the first stage's GPUs hold: it has the most micro-batches under way.

    Not counted: the buffers of the libraries, fragmentation, and with stage 3 the one block whose
    weights are whole for the moment.
    """
    check_layout(decoder, layout)
    mine = stage(decoder, layout) / layout.tensor
    shares = [layout.data if layout.shard >= least else 1 for least in (3, 2, 1)]
    return Memory(
        WEIGHT * mine / shares[0],
        batch.gradient * mine / shares[1],
        MOMENTS * mine / shares[2],
        activations(decoder, layout, batch),
    )


def check_layout(decoder: DecoderConfig, layout: Layout) -> None:
    """Raise a ValueError unless blocks and heads can be cut so."""
    if decoder.depth % layout.pipeline:
        raise ValueError(f"{decoder.depth} blocks do not divide into {layout.pipeline} stages")
    if decoder.depth % (layout.pipeline * layout.pieces):
        raise ValueError(
            f"{decoder.depth} blocks do not divide into {layout.pipeline} stages of "
            f"{layout.pieces} pieces"
        )
    if decoder.kv_heads % layout.tensor and layout.tensor % decoder.kv_heads:
        raise ValueError(
            f"{decoder.kv_heads} heads of keys and values do not divide among {layout.tensor} GPUs"
        )
    if decoder.heads % layout.tensor:
        raise ValueError(f"{decoder.heads} heads do not divide among {layout.tensor} GPUs")


def stage(decoder: DecoderConfig, layout: Layout) -> int | float:
    """Parameters of the pipeline's largest stage: its blocks, and one table if there are two."""
    blocks = decoder.depth // layout.pipeline * decoder.block
    tables = 1 if decoder.tie or layout.pipeline > 1 else 2
    return blocks + tables * decoder.V * decoder.width


def saved_per_token(decoder: DecoderConfig) -> int:
    """Numbers that one block keeps of a token for its backward pass, where nothing is recomputed
    and attention keeps no weights (FlashAttention).

    x and its norm, twice; queries, keys, values; the mixture; the network's gate, its activation,
    up, and their product. So it is with fused norms and rotations; the book's own, written out,
    keep up to a third more.
    """
    inside = 4 if decoder.matrices == 3 else 2
    return 6 * decoder.width + 2 * decoder.keys + inside * decoder.hidden


def activations(decoder: DecoderConfig, layout: Layout, batch: Batch) -> int | float:
    """Bytes of activations: of as many micro-batches as there are stages, as the first one keeps
    them under 1F1B (Narayanan et al. 2021, section 2.2), with the sequence cut among the GPUs of a
    tensor group, and a part (p − 1)/vp more with v pieces each. Recomputing blocks, each keeps its
    input, and one block at a time all it needs.
    The logits and their gradient count where there is one stage; else the last has them."""
    tokens = batch.T * batch.micro / layout.tensor
    blocks = decoder.depth // layout.pipeline
    p, v = layout.pipeline, layout.pieces
    under_way = min(p + (p - 1) / v if v > 1 else p, batch.rounds(layout))
    block = WEIGHT * saved_per_token(decoder) * tokens
    if batch.recompute:
        found = under_way * blocks * WEIGHT * decoder.width * tokens + block
    else:
        found = under_way * blocks * block
    logits = 2 * LOGIT * decoder.V * tokens if layout.pipeline == 1 else 0
    return found + logits


@dataclass(frozen=True)
class Sent:
    """Bytes that each GPU sends in one step, by why; `bubble` is the share of a step's time that a
    stage of the pipeline waits, (p − 1) / (vm + p − 1) with m micro-batches and v pieces."""

    data: int | float
    tensor: int | float
    pipeline: int | float
    bubble: int | float

    @property
    def total(self) -> int | float:
        """All bytes together."""
        return self.data + self.tensor + self.pipeline


def collectives(decoder: DecoderConfig, layout: Layout, batch: Batch) -> Sent:
    """Collectives by rings: each of n GPUs sends (n − 1)/n of a tensor to gather or to scatter it,
    twice that to sum it (Rajbhandari et al. 2020, section 7).

    Data: the gradients are summed once a step; stage 1 scatters them and gathers the new weights,
    the same bytes; stages 2 and 3, which keep no whole gradient, scatter it after each micro-batch,
    and stage 3 gathers the weights before each pass, twice a micro-batch.
    Tensor: four sums a block and micro-batch, two forward and two backward (Shoeybi et al. 2019,
    figure 4), six with recomputation. Pipeline: a micro-batch's vectors on to the next stage, and
    their gradients back to the one before, once for each piece (Narayanan et al. 2021).
    """
    check_layout(decoder, layout)
    m, p, v = batch.rounds(layout), layout.pipeline, layout.pieces
    mine = stage(decoder, layout) / layout.tensor
    ring = share(layout.data) * mine
    scattered = ring * batch.gradient * (m if layout.shard >= 2 else 1)
    gathered = ring * (batch.gradient, WEIGHT, WEIGHT, 2 * m * WEIGHT)[layout.shard]
    vectors = m * batch.T * batch.micro * decoder.width * WEIGHT
    sums = 6 if batch.recompute else 4
    tensor = decoder.depth // p * sums * 2 * share(layout.tensor) * vectors
    ends = 2 if p > 2 or v > 1 else 1  # a stage in the middle has two neighbours
    pipeline = ends * v * vectors / layout.tensor if p > 1 else 0.0
    return Sent(scattered + gathered, tensor, pipeline, (p - 1) / (v * m + p - 1))


def share(n: int) -> int | float:
    """The part of a tensor that each of n GPUs sends around a ring."""
    return (n - 1) / n
