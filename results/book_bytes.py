"""Let the shipped language model read every text: what it has no token for is spelled in bytes.

    python results/book_bytes.py --corpus book-corpus

The model was trained on the printable characters of ASCII and line ends. Its vocabulary has one
token that no text can reach: the plain space, since the byte-level encoding writes a space as Ġ.
This token becomes an escape. A byte without a token is the escape and its two hexadecimal digits,
as Python writes `\\xc3`: three tokens, where the byte fallback of SentencePiece has one. A text of
the old characters has the tokens that it had, and the weights stay, so every loss of such a text
stays. That is checked on all that the model was trained on (`book_corpus.py`) and on what was held
out; the card tells how likely the escape is there, where it cannot stand.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from attnbook import device
from attnbook.data import text
from attnbook.provenance import provenance, write
from attnbook.shipped.language import FOLDER, BookModel, load

ESCAPE, TOKEN = "␛", 4
SPACE = "ĠĊ"  # what the byte-level encoding makes of a space and of a line's end
SPLIT = (  # GPT-2's cuts for bytes; what is spelled is cut into single tokens
    rf"{ESCAPE}|(?<={ESCAPE})[0-9a-f]|(?<={ESCAPE}[0-9a-f])[0-9a-f]"
    rf"|'(?:[sdmt]|ll|ve|re)|Ġ?[A-Za-z]+|Ġ?[0-9]+|Ġ?[^{SPACE}A-Za-z0-9{ESCAPE}]+"
    rf"|[{SPACE}]+(?![^{SPACE}])|[{SPACE}]+"
)


def signs() -> list[str]:
    """The character that stands for each byte: itself if it is printable (GPT-2's encoding)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (chr(sign) for sign in range(256, 512))
    return [chr(byte) if byte in printable else next(others) for byte in range(256)]


def trained(shipped: dict[str, Any]) -> Tokenizer:
    """The tokenizer as it was trained, of what `tokenizer.json` holds: it drops what it lacks."""
    vocabulary = shipped["model"]["vocab"]
    names = {n: token for token, n in vocabulary.items()} | {TOKEN: " "}
    merges = [tuple(pair) for pair in shipped["model"]["merges"]]
    found = Tokenizer(models.BPE({name: n for n, name in sorted(names.items())}, merges))
    found.add_special_tokens([token["content"] for token in shipped["added_tokens"]])
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    return found


def with_every_byte(before: Tokenizer) -> Tokenizer:
    """The same tokens and merges, with bytes that have no token spelled by the escape."""
    known = json.loads(before.to_str())["model"]
    vocabulary = {ESCAPE if n == TOKEN else token: n for token, n in known["vocab"].items()}
    spelled = {
        sign: f"{ESCAPE}{byte:02x}" for byte, sign in enumerate(signs()) if sign not in vocabulary
    }
    made = Tokenizer(models.BPE(vocabulary, [tuple(pair) for pair in known["merges"]]))
    added = sorted(before.get_added_tokens_decoder().items())
    made.add_special_tokens([token.content for _, token in added])
    made.normalizer = normalizers.Sequence(
        [normalizers.ByteLevel(), *(normalizers.Replace(*pair) for pair in spelled.items())]
    )
    made.pre_tokenizer = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    made.decoder = decoders.Sequence(
        [
            decoders.Fuse(),
            *(decoders.Replace(to, sign) for sign, to in spelled.items()),
            decoders.Replace(ESCAPE, r"\x"),  # one without its digits
            decoders.ByteLevel(),
        ]
    )
    return made


@torch.no_grad()
def chance(book: BookModel, passage: str) -> float:
    """The mean probability of the escape at each token of a text that has none."""
    T = book.card["context"]
    tokens = book.encode(passage)[0]
    windows = tokens[: len(tokens) // T * T].view(-1, T)
    found = [book.model(x).softmax(-1)[..., TOKEN] for x in windows.split(16)]
    return torch.cat(found).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="what book_corpus.py wrote")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder, origin = FOLDER / "book-lm", provenance(device.choose(0), "tokenizers")
    before = trained(json.loads((folder / "tokenizer.json").read_text("utf-8")))
    made = with_every_byte(before)
    names = ("shakespeare", "python-docs")
    passages = [(options.corpus / f"{name}.txt").read_text("ascii") for name in names]
    passages += [text.load(name).validation for name in names]
    tokens = 0
    for passage in passages:
        found = made.encode(passage).ids
        if found != before.encode(passage).ids or made.decode(found, False) != passage:
            raise ValueError("a text of ASCII has other tokens than before")
        tokens += len(found)
    made.save(str(folder / "tokenizer.json"))
    book = load("book-lm")
    book.card["bytes"] = {
        "what": f"trained on ASCII; token {TOKEN}, which no text could reach, is an escape: a byte "
        "without a token is the escape and two hexadecimal digits. Weights and the tokens of ASCII "
        "are as trained; what to make of an escape the model was not taught",
        "escape": TOKEN,
        "same_tokens": tokens,
        "chance_of_escape": {
            name: float(f"{chance(book, text.load(name).validation):.1e}") for name in names
        },
        "command": "python results/book_corpus.py, then results/book_bytes.py",
        "provenance": origin,
    }
    write(folder / "card.json", book.card)


if __name__ == "__main__":
    main()
