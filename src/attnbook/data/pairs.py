"""Sentence pairs for translation: corpora, vocabularies, and batches in which little is padding."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnbook.data import grammar, translations

PAD, BEGIN, END, UNKNOWN = range(4)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")

Pair = tuple[list[str], list[str]]


class Vocabulary:
    """The words of one language: the four special tokens, then words from the most to the least frequent.

    Words seen fewer than `min_count` times, and those beyond `max_size` (specials included), become `<unk>`.
    """

    def __init__(
        self, sentences: Iterable[Sequence[str]], max_size: int | None = None, min_count: int = 1
    ):
        if max_size is not None and max_size <= len(SPECIALS):
            raise ValueError(
                f"a vocabulary of {max_size} has no room for a word beside {len(SPECIALS)} special tokens"
            )
        counts = Counter(word for sentence in sentences for word in sentence)
        ranked = sorted(
            (word for word in counts if counts[word] >= min_count),
            key=lambda word: (-counts[word], word),
        )
        if not ranked:
            raise ValueError(
                f"no word occurs at least {min_count} times among {len(counts)} different words"
            )
        self.words = (*SPECIALS, *ranked)[:max_size]
        self._number = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._number

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} words)"

    def encode(self, sentence: Sequence[str]) -> list[int]:
        """Each word's number, `UNKNOWN` for a word that is not here. BEGIN and END are not added: `batch` does that."""
        if isinstance(sentence, str):
            raise ValueError(f"a sentence is a list of words, not the string {sentence!r}")
        return [self._number.get(word, UNKNOWN) for word in sentence]

    def decode(self, ids: Iterable[int] | Int[Tensor, " T"]) -> list[str]:
        """The words up to the first END, without PAD and BEGIN. An unknown word is seen as `<unk>`."""
        found = []
        for number in ids.tolist() if isinstance(ids, Tensor) else ids:
            if number == END:
                break
            if number not in (PAD, BEGIN):
                found.append(self.words[number])
        return found


@dataclass(frozen=True, repr=False)
class Pairs:
    """A translation corpus, tokenised: lists of (source words, target words), and the vocabularies of training.

    `novel`: pairs with an adjective-noun combination that training never shows (the generated corpora only).
    `test_references`: for BLEU, a list of streams each as long as `test`, as `sacrebleu.corpus_bleu` takes them.
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
        parts = ", ".join(
            f"{len(getattr(self, part)):,} {part}"
            for part in ("train", "validation", "test", "novel")
        )
        return f"Pairs({self.name!r}: {parts}; {len(self.source):,} source words, {len(self.target):,} target words)"


class Batch(NamedTuple):
    """Sentences side by side, short ones filled up with PAD; masks are True where a token is.

    `target_in` is BEGIN and the sentence, `target_out` the sentence and END: at each position what is known, what is next.
    """

    source: Int[Tensor, "B Tk"]
    source_mask: Bool[Tensor, "B Tk"]
    target_in: Int[Tensor, "B Tq"]
    target_out: Int[Tensor, "B Tq"]
    target_mask: Bool[Tensor, "B Tq"]

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch(*(tensor.to(device) for tensor in self))


CORPORA = {
    "toy": grammar.toy,
    "toy-long": grammar.toy_long,
    "fra-eng": translations.fra_eng,
    **{
        f"multi30k-{source}-{target}": partial(translations.multi30k, source, target)
        for source, target in [("de", "en"), ("fr", "en"), ("en", "de"), ("en", "fr")]
    },
}


def load(name: str = "toy") -> Pairs:
    """The corpus of that name: `toy` and `toy-long` are generated; the others are downloaded once.

    Vocabularies come from training alone: every word of the generated ones, words seen at least twice of the others.
    """
    if name not in CORPORA:
        raise ValueError(f"there are no pairs {name!r}; there are {', '.join(map(repr, CORPORA))}")
    parts = CORPORA[name]()
    rare = 1 if name.startswith("toy") else 2
    source, target = (
        Vocabulary((pair[side] for pair in parts["train"]), min_count=rare) for side in (0, 1)
    )
    return Pairs(name, source=source, target=target, **parts)


def _padded(rows: list[list[int]]) -> Int[Tensor, "B T"]:
    T = max(map(len, rows))
    return torch.tensor([row + [PAD] * (T - len(row)) for row in rows])


def batch(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """These pairs, in this order, as one batch. No pair at all or an empty sentence is a `ValueError`."""
    if not pairs:
        raise ValueError("a batch holds at least 1 pair, not 0")
    for place, (source, target) in enumerate(pairs):
        if not source or not target:
            raise ValueError(
                f"the {'target' if source else 'source'} sentence of pair {place} is empty"
            )
    sources = [source_vocab.encode(source) for source, _ in pairs]
    targets = [target_vocab.encode(target) for _, target in pairs]
    source, target_out = _padded(sources), _padded([row + [END] for row in targets])
    return Batch(
        source,
        source != PAD,
        _padded([[BEGIN, *row] for row in targets]),
        target_out,
        target_out != PAD,
    )


def batches_in_order(
    pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary, B: int
) -> Iterator[Batch]:
    """All pairs once, in order, `B` at a time (the last batch may be smaller): for evaluation."""
    for start in range(0, len(pairs), B):
        yield batch(pairs[start : start + B], source_vocab, target_vocab)


def sampler(
    pairs: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    B: int,
    buckets: int | None = None,
) -> Callable[[torch.Generator], Batch]:
    """A sampler of `B` different random pairs of similar length, so that little of the batch is padding.

    The pairs, ordered by length, are cut into `buckets` of nearly equal size (default: of about 8 batches each). A batch
    comes from one bucket, drawn by its size: every pair is equally likely. Nothing is remembered from call to call.
    """
    if not 1 <= B <= len(pairs):
        raise ValueError(f"a batch of {B} cannot be drawn from {len(pairs)} pairs")
    buckets = max(1, len(pairs) // (8 * B)) if buckets is None else buckets
    if not 1 <= buckets <= len(pairs) // B:
        raise ValueError(
            f"{len(pairs)} pairs make 1 to {len(pairs) // B} buckets of at least {B}, not {buckets}"
        )
    ordered = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
    everything = batch(ordered, source_vocab, target_vocab)
    edges = [len(pairs) * place // buckets for place in range(buckets + 1)]

    def sample(generator: torch.Generator) -> Batch:
        start = int(torch.randint(len(pairs), (), generator=generator))
        low, high = next((a, b) for a, b in zip(edges, edges[1:], strict=False) if start < b)
        rows = low + torch.randperm(high - low, generator=generator)[:B]
        return _cropped(Batch(*(tensor[rows] for tensor in everything)))

    return sample


def _cropped(wide: Batch) -> Batch:
    """The batch without the columns that hold only padding."""
    Tk, Tq = (int(mask.any(0).sum()) for mask in (wide.source_mask, wide.target_mask))
    return Batch(*(tensor[:, :T] for tensor, T in zip(wide, (Tk, Tk, Tq, Tq, Tq), strict=True)))
