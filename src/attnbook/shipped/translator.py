"""The book's translators, German to English: a transformer and two recurrent twins of its size.

    from attnbook.shipped.registry import load
    book = load("translator")
    print(book.translate(["Ein Hund rennt durch den Schnee."]))

Each has a folder with `weights.safetensors` (whole numbers of eight bits, a scale for each row) and
`card.json`, which says how it was trained and how good it is. All read and write the same pieces of
words, `pieces.json`, which lies with the transformer. They are not under the book's licence:
what was learned from Multi30k is for non-commercial use, CC BY-NC-SA 4.0.
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor, nn

from attnbook.attention import AdditiveScores
from attnbook.data import pairs, translations
from attnbook.data.vocabulary import BEGIN, END, SPECIALS, Vocabulary
from attnbook.device import device_of
from attnbook.generate.sampling import start_translation
from attnbook.generate.search import beam_search, greedy_search
from attnbook.inside.watch import watch
from attnbook.losses import token_loss
from attnbook.models.vaswani import vaswani_2017
from attnbook.quantise import quantised_file
from attnbook.recurrent import BothWays, GRUCell, Layer, Stack, State
from attnbook.seq2seq import (
    AttentionContext,
    Decoder,
    Encoder,
    FixedContext,
    Maxout,
    Memory,
    ProjectedStart,
    Seq2Seq,
)
from attnbook.shipped.language import FOLDER, widened
from attnbook.transformer import Embed, EncoderDecoder, Tied

Model: TypeAlias = EncoderDecoder | Seq2Seq
PIECES = FOLDER / "translator" / "pieces.json"
LIMIT, B = 80, 50  # pieces of a translation at most; sentences that are translated side by side


class Pieces(Vocabulary):
    """A vocabulary of pieces of words, shared by both languages.

    A piece that begins a word begins with ▁. Sennrich et al. 2016, byte-pair encoding.
    """

    def __init__(self, tokenizer: Tokenizer):
        numbers = tokenizer.get_vocab()
        self.tokenizer, self.words = tokenizer, tuple(sorted(numbers, key=numbers.__getitem__))
        if self.words[: len(SPECIALS)] != SPECIALS:
            raise ValueError(f"the first pieces are {self.words[: len(SPECIALS)]}, not {SPECIALS}")
        self._number = {word: n for n, word in enumerate(self.words) if n >= len(SPECIALS)}

    def split(self, words: Sequence[str]) -> list[str]:
        """The pieces of the words of a sentence."""
        return self.tokenizer.encode(" ".join(words)).tokens

    def join(self, pieces: Iterable[str]) -> str:
        """The sentence that these pieces are parts of."""
        return translations.join("".join(pieces).replace("▁", " ").split())


def transformer(
    V: int = 4000,
    width: int = 256,
    depth: int = 2,
    heads: int = 8,
    hidden: int = 512,
    dropout: float = 0.0,
) -> EncoderDecoder:
    """`vaswani_2017` with one table of pieces for source, target and output."""
    return vaswani_2017(V, None, width, depth, heads, hidden, dropout)


def twin(V: int = 4000, width: int = 256, attention: bool = True, dropout: float = 0.0) -> Seq2Seq:
    """A bidirectional GRU reads, a GRU writes, with attention (`bahdanau_2015`) or one vector.

    As in `transformer` one table serves source, target and output.
    """
    embed = Embed(V, width, scale=math.sqrt(width), dropout=dropout)
    nn.init.normal_(embed.tokens.weight, std=width**-0.5)
    body = BothWays(*(Layer(GRUCell(width, width)) for _ in range(2)))
    scores = AdditiveScores(query_width=width, key_width=2 * width, width=width)
    decoder = Decoder(
        embed=embed,
        cell=GRUCell(width + 2 * width, width),
        context=AttentionContext(scores) if attention else FixedContext(),
        start=ProjectedStart(2 * width, width),
        lm_head=nn.Sequential(Maxout(4 * width, width), nn.Dropout(dropout), Tied(embed)),
    )
    return Seq2Seq(Encoder(embed, Stack(body)), decoder)


RECIPES: dict[str, Callable[..., Model]] = {"transformer": transformer, "twin": twin}


class Onward:
    """What a recurrent translator writes next, for the searches: its state goes on from step to
    step, and with the hypotheses that are kept."""

    def __init__(self, model: Seq2Seq, source: Tensor, mask: Tensor):
        self.decoder, self.memory = model.decoder, model.encoder(source, mask)
        self.state: State | None = None

    def __call__(self, tokens: Int[Tensor, "N T"]) -> Float[Tensor, "N V"]:
        if self.state is None:
            each = len(tokens) // len(self.memory.mask)
            self.memory = Memory(*(part.repeat_interleave(each, 0) for part in self.memory))
            self.state = self.decoder.start(self.memory)
        y = self.decoder.embed(tokens[:, -1:])[:, 0]
        feature, self.state, _ = self.decoder.step(y, self.state, self.memory)
        return self.decoder.lm_head(feature)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep these rows."""
        self.state = tuple(part[rows] for part in self.state or ())


@dataclass(frozen=True, repr=False)
class BookTranslator:
    """A translator from German to English with its pieces and its card."""

    model: Model
    pieces: Pieces
    card: dict[str, Any]

    def __repr__(self) -> str:
        return f"BookTranslator({self.card['name']!r}: {self.card['parameters']:,} parameters)"

    def cut(self, text: str, language: str = "de") -> list[str]:
        """The pieces of a text: lower-case, words and marks apart."""
        found = self.pieces.split(translations.tokenize(text, language))
        if not found:
            raise ValueError(f"there is no word to translate in {text!r}")
        return found

    def read(self, texts: Sequence[str]) -> tuple[Int[Tensor, "B Tk"], Bool[Tensor, "B Tk"]]:
        """German sentences as numbers side by side, and where there are some."""
        cut = [(self.cut(text), [SPECIALS[END]]) for text in texts]
        return pairs.batch(cut, self.pieces, self.pieces).to(device_of(self.model))[:2]

    @torch.no_grad()
    def write(self, texts: Sequence[str], beams: int = 4) -> list[list[str]]:
        """The pieces that are written for each text; with 1 beam, greedily."""
        source, mask = self.read(texts)
        start = torch.full_like(source[:, :1], BEGIN)
        go_on: Callable[[Tensor], Tensor]
        if isinstance(self.model, Seq2Seq):
            go_on = Onward(self.model, source, mask)
        else:
            go_on = start_translation(self.model, source, mask, self.model.caches())
        if beams == 1:
            found = greedy_search(go_on, start, END, LIMIT)
        else:
            found = beam_search(go_on, start, END, LIMIT, beams)
        return [self.pieces.decode(row) for row in found]

    def translate(self, texts: Sequence[str], beams: int = 4) -> list[str]:
        """Each German text in English, lower-case; with 1 beam, greedily.

        The models know sentences that describe a photograph, and not much else.
        """
        if isinstance(texts, str):
            raise ValueError("translate wants a list of texts; got one string")
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        found = [""] * len(texts)
        for start in range(0, len(order), B):
            rows = order[start : start + B]
            for n, pieces in zip(rows, self.write([texts[n] for n in rows], beams), strict=True):
                found[n] = self.pieces.join(pieces)
        return found

    @torch.no_grad()
    def looks(
        self, text: str, written: Sequence[str] | None = None, beams: int = 4
    ) -> tuple[Float[Tensor, "H Tq Tk"], list[str], list[str]]:
        """Where it looks while it writes: the weights, the pieces written, and the pieces read.

        The transformer has a map for each head of each block, in this order, the twin with
        attention one. The last piece written is the sentence's end. `written` are other pieces.
        """
        written = [*(written or self.write([text], beams)[0])]
        batch = pairs.batch([(self.cut(text), written)], self.pieces, self.pieces).to(
            device_of(self.model)
        )
        if isinstance(self.model, Seq2Seq):
            found = self.model(*batch[:3])[1]
            if found is None:
                raise ValueError(f"{self.card['name']} reads through one vector: it looks nowhere")
        else:
            with watch(self.model) as seen:
                self.model(*batch[:3])
            found = torch.cat([seen[name][0] for name in seen if "cross_attention" in name])
        return found, [*written, SPECIALS[END]], self.cut(text)

    @torch.no_grad()
    def nats_per_piece(self, texts: Sequence[tuple[str, str]]) -> float:
        """How surprised it is by each piece of these English translations, ends included."""
        cut = [(self.cut(german), self.cut(english, "en")) for german, english in texts]
        total, count = 0.0, 0
        for batch in pairs.batches_in_order(cut, self.pieces, self.pieces, B):
            batch = batch.to(device_of(self.model))
            logits = self.model(*batch[:3])
            logits = logits[0] if isinstance(logits, tuple) else logits
            tokens = int(batch.target_mask.sum())
            loss = token_loss(logits, batch.target_out, batch.target_mask).item()
            total, count = total + loss * tokens, count + tokens
        return total / count


def load(name: str = "translator") -> BookTranslator:
    """A translator of the book with its shipped weights, in evaluation mode."""
    if name not in names():
        there = ", ".join(map(repr, names()))
        raise ValueError(f"there is no translator {name!r}; there are {there}")
    return read(FOLDER / name, PIECES)


def read(folder: Path, pieces: Path) -> BookTranslator:
    """The translator whose card and weights lie in a folder."""
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    build = RECIPES[card["recipe"]]
    few = widened(quantised_file.load(build(**card["sizes"]), folder / "weights.safetensors"))
    model = build(**card["sizes"])
    model.load_state_dict({name: few[name] for name in model.state_dict()})
    return BookTranslator(model.eval(), Pieces(Tokenizer.from_file(str(pieces))), card)


def names() -> list[str]:
    """The translators that the package carries."""
    return sorted(card.parent.name for card in FOLDER.glob("translator*/card.json"))
