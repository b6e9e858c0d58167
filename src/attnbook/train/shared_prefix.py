"""Texts that begin alike in one row, their common beginning once: several answers to a question.

The texts are a tree. A segment continues another one, its parent; a token sees its own segment so
far and what that one continues, and its position is counted along that way. So each text gets the
log probabilities that it would get in a row of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnbook.attention import Attention
from attnbook.masks import DenseMask
from attnbook.transformer import LanguageModel
from attnbook.transformer import vectors as look_up


@dataclass(frozen=True)
class Tree:
    """Segments in one row: its tokens, where each stands in its own text, and what it sees.

    `segment` numbers the segment of each token, `before` is the place of the token that it follows
    in its own text, −1 if none.
    """

    tokens: Int[Tensor, "1 T"]
    positions: Int[Tensor, " T"]
    mask: Bool[Tensor, "T T"]
    segment: Int[Tensor, " T"]
    before: Int[Tensor, " T"]

    @property
    def ends(self) -> Int[Tensor, " segments"]:
        """The place of the last token of each segment."""
        return self.segment.bincount().cumsum(0) - 1


def tree(segments: Sequence[Sequence[int]], parents: Sequence[int]) -> Tree:
    """The segments one behind the other; `parents` says which segment each continues, −1 for none.

    ValueError for an empty segment, and for one that does not stand behind its parent.
    """
    if len(segments) != len(parents) or not segments:
        raise ValueError(f"a parent for each segment; got {len(parents)} for {len(segments)}")
    for n, (some, parent) in enumerate(zip(segments, parents, strict=True)):
        if not len(some):
            raise ValueError(f"segment {n} is empty")
        if not -1 <= parent < n:
            raise ValueError(f"segment {n} continues an earlier one, or none (−1); got {parent}")
    sizes = torch.tensor([len(some) for some in segments])
    ends = sizes.cumsum(0).tolist()
    segment = torch.arange(len(segments)).repeat_interleave(sizes)
    above = torch.eye(len(segments), dtype=torch.bool)  # above[n, m]: n continues m, or is m
    before, positions = torch.arange(len(segment)) - 1, torch.zeros(len(segment), dtype=torch.long)
    for n, parent in enumerate(parents):
        first, last = ends[n] - len(segments[n]), -1
        if parent >= 0:
            above[n] |= above[parent]
            last = ends[parent] - 1
        before[first] = last
        start = 0 if last < 0 else int(positions[last]) + 1
        positions[first : ends[n]] = start + torch.arange(len(segments[n]))
    place = torch.arange(len(segment))
    mask = above[segment][:, segment] & (place <= place[:, None])
    tokens = torch.tensor([token for some in segments for token in some])[None]
    return Tree(tokens, positions, mask, segment, before)


def tree_logits(
    model: LanguageModel,
    packed: Tree,
    places: Int[Tensor, " N"],
    vectors: Float[Tensor, "1 T C"] | None = None,
) -> Float[Tensor, "N V"]:
    """Logits of what follows the tokens at these places of the row, each in its own text.

    For a token whose log probability is wanted, the place is that of the token `before` it; where
    several answers follow the same token, one place serves them all. `vectors` are those of the
    tokens in the row, if they are not to be looked up. ValueError for a place outside the row, and
    for a layer that counts along the row: a window shorter than it, or a bias for distances.
    """
    T = len(packed.segment)
    if not len(places) or places.min() < 0 or places.max() >= T:
        raise ValueError(f"places are those of one or more tokens of the row, 0 to {T - 1}")
    check_layers(model, T)
    x = look_up(model.embed, packed.tokens, packed.positions) if vectors is None else vectors
    x = model.body(x, mask=DenseMask(packed.mask), positions=packed.positions)
    return model.lm_head(x[0, places])


def check_layers(model: LanguageModel, T: int) -> None:
    """ValueError if a layer's own mask or bias is by distances along a row of T tokens."""
    for name, part in model.named_modules():
        if not isinstance(part, Attention):
            continue
        reach = T if part.pattern is None else part.pattern.reach
        if reach is not None and reach < T:
            raise ValueError(f"{name} sees {reach} tokens of the row, which has {T}: take fewer")
        if part.relative is not None:
            raise ValueError(f"{name} adds a bias for distances, which are others in this row")
