"""A text as tokens on disk: split, tokenized once, and read from there by every process."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from attnbook.data.text import CORPORA
from attnbook.files import replacing, store

SPECIALS = ["<|pad|>", "<|end|>", "<|user|>", "<|book|>"]  # as the book's own models have them
SUFFIXES = (".txt", ".md")
HELD_OUT = 0.1
PIECE = 100_000  # characters that are tokenized at a time


@dataclass(frozen=True)
class Counts:
    """What stands in `corpus.json`: tokens, and the SHA-256 of the text that they were made of."""

    train: int
    validation: int
    vocabulary: int
    sha256: str


@dataclass(frozen=True)
class Corpus:
    """A tokenizer, and the tokens to train on and to validate with, as they lie in a folder."""

    folder: Path
    counts: Counts

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the corpus was encoded with."""
        return Tokenizer.from_file(str(self.folder / "tokenizer.json"))

    @property
    def train(self) -> Int[Tensor, " N"]:
        """The tokens to train on, left on the disk until they are read."""
        return tokens(self.folder / "train.bin")

    @property
    def validation(self) -> Int[Tensor, " N"]:
        """The tokens to validate with, left on the disk until they are read."""
        return tokens(self.folder / "validation.bin")


def tokens(path: Path) -> Int[Tensor, " N"]:
    """The numbers in a file, of 16 bits each. They stay on the disk until they are read."""
    return torch.from_numpy(np.memmap(path, dtype=np.int16, mode="c"))


def files(data: str) -> list[Path]:
    """The files of a text, which is one or a folder of them; none if it is known by name.

    Raises ValueError where there is nothing to read.
    """
    if data in CORPORA:
        return []
    path = Path(data).expanduser()
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if not found:
            raise ValueError(f"the folder {path} has no file that ends in {' or '.join(SUFFIXES)}")
        return found
    if not path.is_file():
        names = ", ".join(CORPORA)
        raise ValueError(f"there is no text {data}: neither a file, a folder nor one of {names}")
    return [path]


def documents(data: str) -> tuple[list[str], list[str]]:
    """What to train on and what is held out: the last tenth, unless the text has its own part."""
    if data in CORPORA:
        train, validation = CORPORA[data]()
        return [train], [validation]
    whole = [read(path) for path in files(data)]
    left = round((1 - HELD_OUT) * sum(map(len, whole)))
    first, last = [], []
    for text in whole:
        cut = min(len(text), max(0, left))
        left -= len(text)
        first += [text[:cut]] * (cut > 0)
        last += [text[cut:]] * (cut < len(text))
    return first, last


def read(path: Path) -> str:
    """The text of a file; ValueError unless it is UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: byte {error.start} is none") from error


def pieces(text: str) -> Iterator[str]:
    """The text in parts of whole lines."""
    lines: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        lines.append(line)
        size += len(line)
        if size >= PIECE:
            yield "".join(lines)
            lines, size = [], 0
    yield "".join(lines)


def byte_pairs(texts: Iterable[str], V: int) -> Tokenizer:
    """Byte-pair encoding of V tokens at most: every byte is one, so any text can be written."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=V,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: list[str], path: Path) -> int:
    """Write the texts' tokens to a file, each text with `<|end|>` behind it; how many they are."""
    count = 0
    with replacing(path) as draft, open(draft, "wb") as file:
        for text in texts:
            for piece in pieces(text):
                ids = np.array(tokenizer.encode(piece).ids, dtype=np.uint16)
                count += len(ids)
                file.write(ids.tobytes())
            count += 1
            file.write(np.array([SPECIALS.index("<|end|>")], dtype=np.uint16).tobytes())
    return count


def prepare(data: str, V: int, folder: Path) -> Corpus:
    """The text's tokens, made once: what lies in the folder already is taken as it is."""
    found = folder / "corpus.json"
    if not found.exists():
        train, validation = documents(data)
        size = sum(map(len, (*train, *validation)))
        if not any(text.strip() for text in train) or not any(validation):
            short = f"has {size} characters: too few to train on, and to hold a tenth out"
            raise ValueError(f"the text {data} {short if size else 'is empty'}")
        digest = hashlib.sha256("\0".join([*train, *validation]).encode()).hexdigest()
        tokenizer = byte_pairs((piece for text in train for piece in pieces(text)), V)
        tokenizer.save(str(folder / "tokenizer.json"))
        sizes = [
            encode(tokenizer, texts, folder / f"{name}.bin")
            for name, texts in (("train", train), ("validation", validation))
        ]
        counts = Counts(sizes[0], sizes[1], tokenizer.get_vocab_size(), digest)
        store(found, json.dumps(asdict(counts), indent=1) + "\n")
    return Corpus(folder, Counts(**json.loads(found.read_text(encoding="utf-8"))))
