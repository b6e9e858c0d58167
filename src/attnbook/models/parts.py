"""What several families are put together with."""

from collections.abc import Callable, Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, ParallelBlock, PreNorm, Stack
from attnbook.positions import Learned, Rotary
from attnbook.transformer import Embed, LanguageModel, Tied, add_query_axis, initialise, normal


def decoder(
    V: int,
    width: int,
    blocks: Sequence[nn.Module],
    norm: nn.Module,
    tie: bool = False,
    scale: float = 1.0,
    after: nn.Module | None = None,
    bias: bool = False,
) -> LanguageModel:
    """A language model of these blocks, and no positions beside theirs.

    `tie` uses the embedding as the map to the vocabulary, too, which has a `bias` or none; `after`
    changes its logits.
    """
    embed = Embed(V, width, scale=scale)
    lm_head: nn.Module = Tied(embed, bias) if tie else nn.Linear(width, V, bias)
    if after is not None:
        lm_head = nn.Sequential(lm_head, after)
    return initialise(LanguageModel(embed, Stack(blocks, norm), lm_head), normal)


def pre_norm(
    parts: Callable[[], tuple[nn.Module, nn.Module]],
    depth: int,
    norm: Callable[[], nn.Module],
    dropout: float = 0.0,
) -> list[Block]:
    """Blocks of an attention and a network, each behind a norm of its own."""
    return [Block(*(PreNorm(part, norm(), dropout) for part in parts())) for _ in range(depth)]


def side_by_side(
    V: int,
    width: int,
    depth: int,
    heads: int,
    network: Callable[[], nn.Module],
    rotate: Rotary,
    norm: Callable[[], nn.Module],
    kv_heads: int | None = None,
    biases: tuple[bool, bool] = (False, False),
    qk_norm: Callable[[int], nn.Module] | None = None,
    tie: bool = False,
    after: nn.Module | None = None,
) -> LanguageModel:
    """Attention and network behind one norm. `biases` are those of the attention and of the map to
    the vocabulary, `qk_norm` makes the norm of so many heads' queries or keys, `tie` and `after`
    are as in `decoder`."""

    def block() -> ParallelBlock:
        norms = [qk_norm(n) for n in (heads, kv_heads or heads)] if qk_norm else []
        project = Projection(width, heads, kv_heads, None, biases[0], *norms)
        attention = Attention(project, nn.Linear(width, width, bias=biases[0]), rotate)
        return ParallelBlock(attention, network(), norm())

    blocks = [block() for _ in range(depth)]
    return decoder(V, width, blocks, norm(), tie, after=after, bias=biases[1])


class OffsetLearned(Learned):
    """A table whose first positions nobody stands at: counting begins at `first` (RoBERTa, 2)."""

    def __init__(self, limit: int, width: int, first: int):
        super().__init__(limit + first, width)
        self.first = first

    @property
    def limit(self) -> int:
        return len(self.table) - self.first

    def forward(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        return super().forward(T, start + self.first)

    def at(self, positions: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T C"]:
        return super().at(positions + self.first)


class EncoderAlone(nn.Module):
    """The encoder of an encoder–decoder, for the vectors that it makes of a source."""

    def __init__(self, source_embed: nn.Module, encoder: Stack):
        super().__init__()
        self.source_embed, self.encoder = source_embed, encoder

    def forward(
        self, source: Tensor, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T C"]:
        """`mask` is True at what is there, False at padding."""
        return self.encoder(self.source_embed(source), mask=add_query_axis(mask))
