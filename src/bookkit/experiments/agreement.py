"""Four small networks of equal size learn one thing about English: *the keys … are*.

A grammar makes prefixes of sentences, a noun and phrases with other nouns behind it; the network
says whether *is* or *are* comes next. The first noun decides, and the others are in the way.
"""

from collections.abc import Callable, Sequence
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import AdditiveScores
from attnbook.inside.watch import watch
from attnbook.models.llama import llama
from attnbook.recurrent import GRUCell, Layer, LSTMCell, RNNCell
from attnbook.seq2seq import AttentionContext, Memory

DETERMINERS = ["the", "my", "your", "our"]
ADJECTIVES = ["old", "red", "small", "new", "heavy", "broken", "quiet", "long"]
PREPOSITIONS = ["to", "in", "near", "behind", "under", "beside", "from", "on"]
ONE = "key cabinet hall letter door garden table lamp picture friend house car book road box cup"
MANY = "keys cabinets halls letters doors gardens tables lamps pictures friends houses cars books"
MANY += " roads boxes cups"
KINDS = (DETERMINERS, ADJECTIVES, PREPOSITIONS, ONE.split() + MANY.split())
WORDS = [word for kind in KINDS for word in kind]
NUMBER = {word: at for at, word in enumerate(WORDS)}
NOUNS = len(ONE.split())
VERBS = ("is", "are")
MACHINES = ("RNN", "LSTM", "attention", "transformer")

Pattern = tuple[bool, ...]  # for each noun whether an adjective stands before it
Batch = tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]


def kind_of(word: str) -> list[str]:
    """All the words that can stand in a word's place; of nouns, in both numbers."""
    return next(kind for kind in KINDS if word in kind)


def prefixes(pattern: Pattern, B: int, draw: torch.Generator) -> Batch:
    """B prefixes with these adjectives, and 0 for *is*, 1 for *are*: the first noun's number."""

    def pick(kind: Sequence[str]) -> Tensor:
        return torch.randint(len(kind), (B,), generator=draw) + NUMBER[kind[0]]

    columns = []
    for place, adjective in enumerate(pattern):
        columns += [pick(PREPOSITIONS)] if place else []
        columns += [pick(DETERMINERS)] + [pick(ADJECTIVES)] * adjective
        columns += [pick(KINDS[3])]
    first = columns[1 + pattern[0]]
    return torch.stack(columns, 1), (first >= NUMBER[MANY.split()[0]]).long()


def lesson(draw: torch.Generator, B: int = 32) -> Batch:
    """A batch to learn from, as text has it: most sentences have nothing behind the first noun.

    Six in ten batches have no phrase there, three have one, one has two; all rows are alike.
    """
    phrases = int(torch.tensor([6.0, 3.0, 1.0]).multinomial(1, generator=draw))
    pattern = tuple(bool(torch.rand((), generator=draw) < 0.3) for _ in range(phrases + 1))
    return prefixes(pattern, B, draw)


class Recurrent(nn.Module):
    """Reads word by word; the last state answers."""

    def __init__(self, layer: Layer, embed: int):
        super().__init__()
        self.embed, self.layer = nn.Embedding(len(WORDS), embed), layer
        self.read = nn.Linear(layer.width, len(VERBS))

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B 2"]:
        return self.read(self.layer(self.embed(tokens))[0][:, -1])


class LookingBack(nn.Module):
    """Reads word by word; the last state asks all states, and what it looked up answers."""

    def __init__(self, embed: int, width: int):
        super().__init__()
        self.embed, self.layer = nn.Embedding(len(WORDS), embed), Layer(GRUCell(embed, width))
        self.context = AttentionContext(AdditiveScores(width, width, width))
        self.read = nn.Linear(width, len(VERBS))

    def look(self, tokens: Int[Tensor, "B T"]) -> tuple[Tensor, Tensor]:
        """What is looked up (B, width), and the weights of all states (B, T)."""
        states, (end,) = self.layer(self.embed(tokens))
        mask = torch.ones_like(tokens, dtype=torch.bool)
        return self.context(end, Memory(states, end, mask))

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B 2"]:
        return self.read(self.look(tokens)[0])


class Transformer(nn.Module):
    """Two blocks with two heads each; the last position answers."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.model = llama(len(WORDS), width, depth=2, heads=2, hidden=hidden)
        self.model.lm_head = nn.Linear(width, len(VERBS))

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B 2"]:
        return self.model(tokens, last=1)[:, 0]


BUILD: dict[str, Callable[[], nn.Module]] = {
    "RNN": lambda: Recurrent(Layer(RNNCell(32, 66)), 32),
    "LSTM": lambda: Recurrent(Layer(LSTMCell(32, 27)), 32),
    "attention": lambda: LookingBack(32, 28),
    "transformer": lambda: Transformer(20, 36),
}


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of the verb, in nats."""
    tokens, verb = batch
    return nn.functional.cross_entropy(model(tokens), verb)


@torch.no_grad()
def right(model: nn.Module, phrases: int, B: int = 1000) -> float:
    """Share of right verbs where every noun behind the first has the other number."""
    draw = torch.Generator().manual_seed(99)
    tokens, verb = prefixes((False,) * (phrases + 1), B, draw)
    one, many = (NUMBER[words.split()[0]] for words in (ONE, MANY))
    for column in range(4, tokens.shape[1], 3):  # determiner, noun, preposition, determiner, noun
        noun = (tokens[:, column] - one) % NOUNS
        tokens[:, column] = noun + torch.where(verb == 1, one, many)
    return (model(tokens).argmax(-1) == verb).float().mean().item()


@torch.no_grad()
def odds(model: nn.Module, tokens: Int[Tensor, "B T"]) -> Float[Tensor, " B"]:
    """Log odds of *are* against *is*."""
    logits = model(tokens)
    return logits[:, 1] - logits[:, 0]


def numbers(words: Sequence[str]) -> Int[Tensor, " T"]:
    """Token numbers of words; KeyError for one that the grammar does not have."""
    return torch.tensor([NUMBER[word.lower()] for word in words])


def influence(model: nn.Module, words: Sequence[str]) -> list[float]:
    """How far the answer moves if one word is exchanged: mean change of the chance of *are*.

    Each word in turn gives way to every other word of its kind, so that all sentences read are
    sentences of the grammar; the sizes of the changes are averaged.
    """
    tokens = numbers(words)
    here = odds(model, tokens[None]).sigmoid()
    found = []
    for place, word in enumerate(words):
        others = [other for other in kind_of(word.lower()) if other != word.lower()]
        rows = tokens.repeat(len(others), 1)
        rows[:, place] = numbers(others)
        found.append((odds(model, rows).sigmoid() - here).abs().mean().item())
    return found


@torch.no_grad()
def looks(model: nn.Module, words: Sequence[str]) -> list[list[float]]:
    """The weights with which the blank looks at each word; no row where a machine has no look.

    Attention has one look, the transformer one in each block: the mean of its heads.
    """
    tokens = numbers(words)[None]
    if isinstance(model, LookingBack):
        return [model.look(tokens)[1][0].tolist()]
    if isinstance(model, Transformer):
        with watch(model) as seen:
            model(tokens)
        return [weights[0, :, -1].mean(0).tolist() for weights in seen.values()]
    return []


def sentence(many: Sequence[bool]) -> list[str]:
    """The keys to the old cabinet in the hall, as words, with two nouns or three: `many` says of
    each whether it is a plural."""
    nouns = [pair[is_many] for pair, is_many in zip(PAIRS, many, strict=False)]
    words = ["The", nouns[0], "to", "the", "old", nouns[1]]
    return words if len(many) == 2 else [*words, "in", "the", nouns[2]]


PAIRS = (("key", "keys"), ("cabinet", "cabinets"), ("hall", "halls"))
VARIANTS = [*product((False, True), repeat=3), *product((False, True), repeat=2)]
