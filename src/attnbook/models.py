"""The book's own models: trained by its recipes, shipped with it, small enough for a browser.

    from attnbook.models import load
    lm = load("book-lm")
    print(lm.write("ROMEO:", 60))

Each is a folder in the package: `weights.safetensors` (whole numbers of eight bits, a scale for
each row), `tokenizer.json`, and `card.json`, which says what it was trained on, how, and how good
it is.
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

from attnbook import quantised_file
from attnbook.generate import generate, sample, temperature, top_p
from attnbook.initial import initialise
from attnbook.norms import QKNorm, RMSNorm
from attnbook.positions import Rotary
from attnbook.quantise import QuantisedEmbedding, QuantisedLinear
from attnbook.recipes import llama
from attnbook.transformer import LanguageModel

FOLDER = Path(__file__).parent / "weights"


@dataclass(frozen=True, repr=False)
class BookModel:
    """A language model with its tokenizer and its card."""

    model: LanguageModel
    tokenizer: Tokenizer
    card: dict[str, Any]

    def __repr__(self) -> str:
        return f"BookModel({self.card['name']!r}: {self.card['parameters']:,} parameters)"

    def encode(self, text: str) -> Int[Tensor, "1 T"]:
        """The tokens of a text, as a batch of one."""
        return torch.tensor([self.tokenizer.encode(text).ids], dtype=torch.long)

    def decode(self, tokens: Int[Tensor, "*batch T"]) -> str:
        """The text of one row of tokens, special ones included."""
        return self.tokenizer.decode(tokens.flatten().tolist(), skip_special_tokens=False)

    def write(self, start: str, steps: int = 100, heat: float = 0.8, seed: int = 0) -> str:
        """`start` and `steps` tokens more, drawn at temperature `heat` from the likeliest 95 %."""
        tokens = self.encode(start)
        if not tokens.numel():
            raise ValueError("the start is empty; the model needs at least one token to go on from")
        dice = torch.Generator().manual_seed(seed)
        choose = sample(temperature(heat), top_p(0.95), generator=dice)
        place = next(self.model.parameters()).device
        return self.decode(generate(self.model, tokens.to(place), steps, choose))

    def nats_per_byte(self, text: str) -> float:
        """How surprised the model is by each byte of a text, on average: `nats_per_byte`."""
        return nats_per_byte(self.model, self.tokenizer, text, self.card["context"])


@torch.no_grad()
def nats_per_byte(model: nn.Module, tokenizer: Tokenizer, text: str, T: int = 256) -> float:
    """The cross-entropy of a text, for each of its bytes: models with other tokens compare.

    It is read in windows of `T` tokens that know nothing of each other; the first token of all and
    an unfinished window at the end are not counted.
    """
    tokens = torch.tensor(tokenizer.encode(text).ids, dtype=torch.long)
    windows = (len(tokens) - 1) // T
    if windows < 1:
        raise ValueError(f"{len(tokens)} tokens are too few for a window of {T} and its next one")
    inputs, targets = (tokens[i : i + windows * T].view(-1, T) for i in (0, 1))
    place, nats = next(model.parameters()).device, 0.0
    for x, y in zip(inputs.split(16), targets.split(16), strict=True):
        logits = model(x.to(place)).float()
        nats += F.cross_entropy(logits.flatten(0, 1), y.flatten().to(place), reduction="sum").item()
    size = sum(
        len(tokenizer.decode(row, skip_special_tokens=False).encode()) for row in targets.tolist()
    )
    return nats / size


def book_lm(
    V: int = 1024,
    width: int = 256,
    depth: int = 4,
    heads: int = 4,
    kv_heads: int = 2,
    hidden: int = 640,
) -> LanguageModel:
    """`llama` with normed queries and keys, as the book trains its language model.

    What a block adds starts at zero, and so do the logits: at first all tokens are equally likely.
    """
    model = llama(V, width, depth, heads, kv_heads, hidden)
    for block in model.body.blocks:
        D = width // heads
        block.get_submodule("attention.part").rotate = QKNorm(RMSNorm(D), Rotary(D))
    return initialise(model, zero_or_xavier, embedding_std=1.0)


def zero_or_xavier(name: str, weight: Tensor) -> None:
    """Zeros for the maps that end on the residual path and for the head, else Glorot and Bengio's
    uniform numbers."""
    if name.endswith(("to_out", "down", "to_vocab")):
        nn.init.zeros_(weight)
    else:
        nn.init.xavier_uniform_(weight)


def names() -> list[str]:
    """The language models that the package carries."""
    return sorted(words.parent.name for words in FOLDER.glob("*/tokenizer.json"))


def load(name: str | Path = "book-lm", few_bits: bool = False) -> BookModel:
    """A model of the book with its shipped weights, in evaluation mode; or one of your own, by the
    folder that `attnbook train lm` wrote.

    Its weights are ordinary numbers of 32 bits, made of the stored whole numbers once; with
    `few_bits` they stay in eight, a quarter of the memory (`attnbook.quantise`), and cannot be
    trained. Raises ValueError for what is neither one of `names()` nor such a folder.
    """
    folder = FOLDER / name if name in names() else Path(name)
    if not (folder / "card.json").is_file():
        there = ", ".join(map(repr, names()))
        raise ValueError(f"there is no model {str(name)!r}; there are {there}, and folders of runs")
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    model = book_lm(**card["sizes"])
    few = quantised_file.load(model, folder / "weights.safetensors")
    if not few_bits:
        model = book_lm(**card["sizes"])
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
