"""The book's own models: trained by its recipes, shipped with it, small enough for a browser.

    from attnbook.shipped.language import load
    lm = load("book-lm")
    print(lm.write("ROMEO:", 60))

`book-lm` has read plays and documentation, `book-stories`, four times as large, children's books.
Each is a folder in the package: `weights.safetensors` (whole numbers of eight or four bits, with
their scales), `tokenizer.json`, and `card.json`, which says what it was trained on, how, and how
good it is.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.decoder_config import DecoderConfig
from attnbook.device import device_of
from attnbook.generate.sampling import generate, sample, top_p
from attnbook.generate.sampling import temperature as divide
from attnbook.models.book import book_lm
from attnbook.quantise import quantised_file
from attnbook.quantise.rounding import QuantisedEmbedding, QuantisedLinear
from attnbook.transformer import LanguageModel

FOLDER = Path(__file__).parents[1] / "weights"


@dataclass(frozen=True, repr=False)
class BookModel:
    """A language model with its tokenizer and its card."""

    model: LanguageModel
    tokenizer: Tokenizer
    card: dict[str, Any]

    def __repr__(self) -> str:
        return f"BookModel({self.card['name']!r}: {self.card['parameters']:,} parameters)"

    def encode(self, text: str) -> Int[Tensor, "1 T"]:
        """The tokens of a text, as a batch of one.

        What `book-lm` has no token for, such as an é, is spelled: each byte of its UTF-8 is an
        escape and two hexadecimal digits. `decode` puts it together again.
        """
        return torch.tensor([self.tokenizer.encode(text).ids], dtype=torch.long)

    def decode(self, tokens: Int[Tensor, "*batch T"]) -> str:
        """The text of one row of tokens, special ones included."""
        return self.tokenizer.decode(tokens.flatten().tolist(), skip_special_tokens=False)

    def write(
        self, start: str, max_new_tokens: int = 100, temperature: float = 0.8, seed: int = 0
    ) -> str:
        """`start` and its continuation, sampled at this temperature from the likeliest 95 %."""
        tokens = self.encode(start)
        if not tokens.numel():
            raise ValueError("the start is empty; the model needs at least one token to go on from")
        generator = torch.Generator().manual_seed(seed)
        sampler = sample(divide(temperature), top_p(0.95), generator=generator)
        device = device_of(self.model)
        return self.decode(generate(self.model, tokens.to(device), max_new_tokens, sampler))

    def nats_per_byte(self, text: str) -> float:
        """How surprised the model is by each byte of a text, on average: `nats_per_byte`."""
        return nats_per_byte(self.model, self.tokenizer, text, self.card["context"])


@torch.no_grad()
def nats_per_byte(model: nn.Module, tokenizer: Tokenizer, text: str, T: int = 256) -> float:
    """The cross-entropy of a text, for each of its bytes: models with other tokens compare.

    It is read in windows of `T` tokens that know nothing of each other; the first token of all and
    an unfinished window at the end are not counted. Raises ValueError for a text that the tokenizer
    does not give back: what it drops would be bytes that nobody predicted.
    """
    tokens = torch.tensor(tokenizer.encode(text).ids, dtype=torch.long)
    back = tokenizer.decode(tokens.tolist(), skip_special_tokens=False)
    if back != text:
        missing = sorted(set(text) - set(back))[:5]
        raise ValueError(f"the tokenizer does not give the text back; missing: {missing}")
    windows = (len(tokens) - 1) // T
    if windows < 1:
        raise ValueError(f"{len(tokens)} tokens are too few for a window of {T} and its next one")
    inputs, targets = (tokens[i : i + windows * T].view(-1, T) for i in (0, 1))
    place, nats = device_of(model), 0.0
    for x, y in zip(inputs.split(16), targets.split(16), strict=True):
        logits = model(x.to(place)).float()
        nats += F.cross_entropy(logits.flatten(0, 1), y.flatten().to(place), reduction="sum").item()
    first, last = (
        tokenizer.decode(tokens[:end].tolist(), skip_special_tokens=False)
        for end in (1, windows * T + 1)
    )  # decoded whole: a character may be split between tokens, and so between windows
    return nats / (len(last.encode()) - len(first.encode()))


def names() -> list[str]:
    """The language models that the package carries."""
    return sorted(words.parent.name for words in FOLDER.glob("*/tokenizer.json"))


def load(name: str | Path = "book-lm", few_bits: bool = False) -> BookModel:
    """A model of the book with its shipped weights, in evaluation mode; or one of your own, by the
    folder that `attnbook train lm` wrote.

    Weights are dequantised to float32; with `few_bits` they stay in their four or eight bits, for
    inference only (`attnbook.quantise.rounding`). Raises ValueError for what is neither
    one of `names()` nor such a folder.
    """
    folder = FOLDER / name if name in names() else Path(name)
    if not (folder / "card.json").is_file():
        there = ", ".join(map(repr, names()))
        raise ValueError(f"there is no model {str(name)!r}; there are {there}, and folders of runs")
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    sizes = DecoderConfig(**card["sizes"])
    model = book_lm(sizes)
    few = quantised_file.load(model, folder / "weights.safetensors")
    if not few_bits:
        model = book_lm(sizes)
        model.load_state_dict(widened(few))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return BookModel(model.eval(), tokenizer, card)


def widened(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a quantised model as they were named before it was quantised."""
    state = {name: tensor for name, tensor in model.state_dict().items() if ".matrix." not in name}
    for name, part in model.named_modules(remove_duplicate=False):
        if isinstance(part, (QuantisedLinear, QuantisedEmbedding)):
            state[f"{name}.weight"] = part.weight
    return state
