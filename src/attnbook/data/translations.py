"""Published translation corpora: fra-eng (Tatoeba) and Multi30k, read, tokenised and divided.

Tokens are lower-case, made by one regular expression per language. They are chosen so that `join`,
then sacrebleu's standard tokeniser (13a), finds the words of the untouched sentence again. BLEU is

    hypotheses = [join(words) for words in translations]
    sacrebleu.corpus_bleu(hypotheses, pairs.test_references, lowercase=True, force=True)

that is case-insensitive BLEU-4 on 13a tokens against the references as published: no word of them
is replaced by `<unk>`, no sentence is left out.
"""

import gzip
import hashlib
import io
import re
import unicodedata
import zipfile
from typing import Any

from attnbook.data import registry
from attnbook.data.vocabulary import Pair

NUMBER, WORD, MARK = r"\d+(?:[.,]\d+)+", r"\w+(?:-\w+)*", r"[^\w\s]"
ELISION, CLITIC = (
    r"[^\W\d_]+'(?=\w)",
    r"(?<=\w)'\w+",
)  # French cuts after an apostrophe, the others before it
TOKENS = {
    language: re.compile("|".join([apostrophe, NUMBER, WORD, MARK]))
    for language, apostrophe in {"en": CLITIC, "de": CLITIC, "fr": ELISION}.items()
}
LONGEST = 12  # tokens of a fra-eng sentence, on either side


def tokenize(text: str, language: str) -> list[str]:
    """Lower-case words and marks: `man's t-shirt` → man, 's, t-shirt; `l'homme` → l', homme."""
    if language not in TOKENS:
        raise ValueError(
            f"there is no tokeniser for {language!r}; there are {', '.join(map(repr, TOKENS))}"
        )
    return TOKENS[language].findall(unicodedata.normalize("NFC", text).replace("’", "'").lower())


def join(words: list[str]) -> str:
    """The words as one string: spaces between them, except where an apostrophe had been cut."""
    text = " ".join(words)
    return re.sub(r"(?<=\w) (?='\w)", "", re.sub(r"(?<=\w') (?=\w)", "", text))


def share(source: list[str]) -> int:
    """A number from 0 to 99 that depends on the words alone, on no mark and no other sentence."""
    words = " ".join(word for word in source if word[-1].isalnum())
    return int(hashlib.sha256(words.encode()).hexdigest()[:8], 16) % 100


def streams(references: list[list[str]]) -> list[list[str | None]]:
    """sacrebleu's streams: all first references, all second ones, ...; None where there is none."""
    most = max(map(len, references))
    return [
        [texts[place] if place < len(texts) else None for texts in references]
        for place in range(most)
    ]


def fra_eng() -> dict[str, list]:
    """English to French, sentences of Tatoeba of at most `LONGEST` tokens on both sides.

    A hundredth of the English sentences is for validation, another for test, chosen by `share`: an
    English sentence is in one part only, with all its translations and whatever its punctuation.
    There it stands once, with the first translation; the test has all of them as references.
    """
    with zipfile.ZipFile(registry.fetch("fra-eng/fra-eng.zip")) as archive:
        lines = io.TextIOWrapper(archive.open("fra.txt"), encoding="utf-8").read().splitlines()
    train: list[Pair] = []
    held_out: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    for english, french in (line.split("\t")[:2] for line in lines):
        source, target = tokenize(english, "en"), tokenize(french, "fr")
        if not (0 < len(source) <= LONGEST and 0 < len(target) <= LONGEST):
            continue
        part = share(source)
        if part < len(held_out):
            first: Any = source, target, []
            held_out[part].setdefault(tuple(source), first)[2].append(french)
        else:
            train.append((source, target))
    validation, test = (
        [(source, target) for source, target, _ in part.values()] for part in held_out
    )
    references = streams([texts for _, _, texts in held_out[1].values()])
    return {"train": train, "validation": validation, "test": test, "test_references": references}


def multi30k(source: str, target: str) -> dict[str, list]:
    """Descriptions of photographs in "de", "en", "fr"; the test set is test_2016_flickr."""
    parts = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
    lines = {
        (part, language): _lines(name, language)
        for part, name in parts.items()
        for language in (source, target)
    }
    corpus: dict[str, list] = {
        part: [
            (tokenize(a, source), tokenize(b, target))
            for a, b in zip(lines[part, source], lines[part, target], strict=True)
        ]
        for part in parts
    }
    return corpus | {"test_references": [lines["test", target]]}


def _lines(name: str, language: str) -> list[str]:
    path = registry.fetch(f"multi30k/{name}.{language}.gz")
    return gzip.decompress(path.read_bytes()).decode("utf-8").rstrip("\n").split("\n")
