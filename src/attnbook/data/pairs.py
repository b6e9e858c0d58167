"""Sentence pairs for translation: corpora, and batches in which little is padding."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnbook.data import grammar, translations
from attnbook.data.vocabulary import BEGIN, END, PAD, Pair, Vocabulary


@dataclass(frozen=True, repr=False)
class Pairs:
    """A translation corpus: lists of (source words, target words), and training's vocabularies.

    `novel`: pairs with an adjective and a noun that training never shows together (generated
    corpora only). `test_references`: for BLEU, a list of streams, each as long as `test`, as
    `sacrebleu.corpus_bleu` takes them; `attnbook.data.translations` says how to use them.
    """

    name: str
    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]
    source: Vocabulary
    target: Vocabulary
    novel: list[Pair] = field(default_factory=list)
    test_references: list[list[str | None]] = field(default_factory=list)

    def __repr__(self) -> str:
        parts = ("train", "validation", "test", "novel")
        sizes = ", ".join(f"{len(getattr(self, part)):,} {part}" for part in parts)
        words = f"{len(self.source):,} source words, {len(self.target):,} target words"
        return f"Pairs({self.name!r}: {sizes}; {words})"


class Batch(NamedTuple):
    """Sentences side by side, short ones filled up with PAD; masks are True where a token is.

    `target_in` is BEGIN and the sentence, `target_out` the sentence and END: at each position what
    is known so far, and what comes next.
    """

    source: Int[Tensor, "B Tk"]
    source_mask: Bool[Tensor, "B Tk"]
    target_in: Int[Tensor, "B Tq"]
    target_out: Int[Tensor, "B Tq"]
    target_mask: Bool[Tensor, "B Tq"]

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch(*(tensor.to(device) for tensor in self))


CORPORA: dict[str, Callable[[], dict[str, Any]]] = {
    "toy": grammar.toy,
    "toy-long": grammar.toy_long,
    "fra-eng": translations.fra_eng,
    "multi30k-de-en": partial(translations.multi30k, "de", "en"),
    "multi30k-fr-en": partial(translations.multi30k, "fr", "en"),
    "multi30k-en-de": partial(translations.multi30k, "en", "de"),
    "multi30k-en-fr": partial(translations.multi30k, "en", "fr"),
}


def load(name: str = "toy") -> Pairs:
    """The corpus of that name: `toy` and `toy-long` are generated, the others downloaded once.

    The first three translate English to French, `multi30k-de-en` German to English, and so on.
    Vocabularies come from training alone: all words of a generated corpus, of the others those
    that stand there at least twice.
    """
    if name not in CORPORA:
        raise ValueError(f"there are no pairs {name!r}; there are {', '.join(map(repr, CORPORA))}")
    parts = CORPORA[name]()
    parts.setdefault("test_references", [[" ".join(target) for _, target in parts["test"]]])
    seen = 1 if name.startswith("toy") else 2
    source = Vocabulary((source for source, _ in parts["train"]), min_count=seen)
    target = Vocabulary((target for _, target in parts["train"]), min_count=seen)
    return Pairs(name, source=source, target=target, **parts)


def _pad(rows: list[list[int]]) -> Int[Tensor, "B T"]:
    T = max(map(len, rows))
    return torch.tensor([row + [PAD] * (T - len(row)) for row in rows])


def batch(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """These pairs, in this order, as one batch.

    Errors: `ValueError` for no pair at all, and for an empty sentence (its place is named).
    """
    if not pairs:
        raise ValueError("a batch holds at least 1 pair, not 0")
    for place, (source, target) in enumerate(pairs):
        if not source or not target:
            side = "target" if source else "source"
            raise ValueError(f"the {side} sentence of pair {place} is empty")
    targets = [target_vocab.encode(target) for _, target in pairs]
    sources = _pad([source_vocab.encode(source) for source, _ in pairs])
    target_in = _pad([[BEGIN, *row] for row in targets])
    target_out = _pad([[*row, END] for row in targets])
    return Batch(sources, sources != PAD, target_in, target_out, target_out != PAD)


def batches_in_order(
    pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary, B: int
) -> Iterator[Batch]:
    """All pairs once, in order, `B` at a time (the last batch may be smaller): for evaluation."""
    if B < 1:
        raise ValueError(f"a batch holds at least 1 pair, not {B}")
    parts = (pairs[start : start + B] for start in range(0, len(pairs), B))
    return (batch(part, source_vocab, target_vocab) for part in parts)


def sampler(
    pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary, B: int
) -> Callable[[torch.Generator], Batch]:
    """A sampler of `B` different random pairs of similar length, so that little is padding.

    The pairs, ordered by length, are cut into buckets of nearly equal size, about 8 batches each.
    A batch comes from one bucket, drawn in proportion to its size: every pair is equally likely.
    Nothing is remembered between calls: the generator's state is all there is to restore.
    """
    if not 1 <= B <= len(pairs):
        raise ValueError(f"a batch of {B} cannot be drawn from {len(pairs)} pairs")
    ordered = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
    everything = batch(ordered, source_vocab, target_vocab)
    buckets = max(1, len(pairs) // (8 * B))
    edges = [len(pairs) * place // buckets for place in range(buckets + 1)]

    def sample(generator: torch.Generator) -> Batch:
        place = int(torch.randint(len(pairs), (), generator=generator))
        bucket = next(bucket for bucket in range(buckets) if place < edges[bucket + 1])
        low, high = edges[bucket], edges[bucket + 1]
        rows = low + torch.randperm(high - low, generator=generator)[:B]
        return _crop(Batch(*(tensor[rows] for tensor in everything)))

    return sample


def _crop(wide: Batch) -> Batch:
    """The batch without the columns that hold only padding."""
    Tk, Tq = (int(mask.any(0).sum()) for mask in (wide.source_mask, wide.target_mask))
    widths = (Tk, Tk, Tq, Tq, Tq)
    return Batch(*(tensor[:, :T] for tensor, T in zip(wide, widths, strict=True)))
