"""Words and their numbers. Four special tokens have the same numbers in every vocabulary."""

from collections import Counter
from collections.abc import Iterable, Sequence

from jaxtyping import Int
from torch import Tensor

Pair = tuple[list[str], list[str]]  # the words of a sentence and of its translation
PAD, BEGIN, END, UNKNOWN = range(4)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")


class Vocabulary:
    """The words of one language: the special tokens, then words from most to least frequent.

    Words seen fewer than `min_count` times are left out, and so are those that no longer fit into
    `max_size` (special tokens included): they all become `<unk>`.
    """

    def __init__(
        self,
        sentences: Iterable[Sequence[str]],
        max_size: int | None = None,
        min_count: int = 1,
    ):
        if max_size is not None and max_size <= len(SPECIALS):
            raise ValueError(
                f"a vocabulary of {max_size} has no room for a word: "
                f"{len(SPECIALS)} are special tokens"
            )
        counts = Counter(word for sentence in sentences for word in sentence)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        ranked = [word for word in ranked if counts[word] >= min_count and word not in SPECIALS]
        if not ranked:
            raise ValueError(f"none of {len(counts)} different words occurs {min_count} times")
        self.words = (*SPECIALS, *ranked)[:max_size]
        ordinary = list(enumerate(self.words))[len(SPECIALS) :]  # nobody can type a special token
        self._number = {word: number for number, word in ordinary}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._number

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} words)"

    def encode(self, sentence: Sequence[str]) -> list[int]:
        """Each word's number, `UNKNOWN` for a word that is not here.

        BEGIN and END are not added: `attnbook.data.pairs.batch` does that.
        """
        if isinstance(sentence, str):
            raise ValueError(f"a sentence is a list of words, not the string {sentence!r}")
        return [self._number.get(word, UNKNOWN) for word in sentence]

    def decode(self, ids: Iterable[int] | Int[Tensor, " T"]) -> list[str]:
        """The words up to the first END, without PAD and BEGIN; what is unknown shows as `<unk>`.

        A number outside the vocabulary is a `ValueError`.
        """
        found = []
        for number in ids.tolist() if isinstance(ids, Tensor) else ids:
            if not 0 <= number < len(self):
                raise ValueError(f"word {number} is not in 0..{len(self) - 1}")
            if number == END:
                break
            if number not in (PAD, BEGIN):
                found.append(self.words[number])
        return found
