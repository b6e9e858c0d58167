"""Lab 8's checks along the way: the solutions hold, and what is wrong with a part is said."""

import json
import re
from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnbook.data import text
from attnlabs import project, source
from attnlabs.inside import cells
from attnlabs.inside.answer import executed

NAMES = ("train_bpe", "encode", "decode", "Model", "AdamW", "train", "save", "load", "sample")


@pytest.fixture(scope="module")
def own(root):
    """What the lab's notebook defines: its solutions."""
    pairs = cells.read(source.find(8, root / "labs").path.read_bytes())
    tree, _ = cells.statements(pairs)
    wanted = {id(part): part for name in (*NAMES, "predictor") for part in cells.needed(tree, name)}
    ordered = [part for part in tree if id(part) in wanted]
    names, trouble = executed(ordered, set(), {})
    assert not trouble
    return names


@pytest.fixture(scope="module")
def corpus():
    return text.load("python-docs").train.encode()[:60_000]


@pytest.fixture
def tiny(own):
    return lambda: own["Model"](V=30, T=8, C=16, H=2, layers=1)


def test_the_solutions_hold(own, tiny, corpus):
    bpe = own["train_bpe"], own["encode"], own["decode"]
    step, train = own["AdamW"], own["train"]
    said = [project.tokens(*bpe, corpus), project.model(tiny, 30, 8), project.adamw(step)]
    said += [project.overfits(tiny, step, train, 30, 8), project.samples(own["sample"])]
    said += [project.resumes(tiny, step, train, own["save"], own["load"], 30, 8)]
    assert all(sentence.startswith("right") for sentence in said), said


def test_what_is_not_written_is_said_to_be_so(tiny):
    def nothing(*given, **named):
        return None

    said = [project.tokens(*[nothing] * 3, b"a" * 9), project.model(nothing, 30, 8)]
    said += [project.samples(nothing), project.rehearsal(*[nothing] * 3, b"a" * 50_000, 1.0)]
    said += [project.overfits(tiny, torch.optim.AdamW, nothing, 30, 8)]
    assert said == [project.UNDONE] * 5
    assert "not yet implemented" in project.adamw(nothing) or "stops" in project.adamw(nothing)


def test_a_tokenizer_that_loses_or_misses_something_is_named(own, corpus):
    train, encode, decode = own["train_bpe"], own["encode"], own["decode"]
    ascii_only = lambda data, known: encode(bytes(b for b in data if b < 128), known)  # noqa: E731
    assert "does not come back" in project.tokens(train, ascii_only, decode, corpus)
    single = lambda data, size: [bytes([n]) for n in range(256)]  # noqa: E731
    assert "300 different tokens" in project.tokens(single, encode, decode, corpus)
    plain = lambda data, known: list(data)  # noqa: E731
    assert "joins hardly anything" in project.tokens(train, plain, decode, corpus)
    last = lambda data, size: train(data[::-1], size)  # noqa: E731
    assert "b'ab'" in project.tokens(last, encode, decode, corpus)


def joining(wrong, text, size):
    """A plain trainer of pairs, with one mistake."""
    pieces = [text] if wrong == "across" else re.findall(rb" ?[A-Za-z]+|\s+|[^A-Za-z\s]+", text)
    words = Counter(pieces)
    words = dict.fromkeys(words, 1) if wrong == "each-once" else words
    cut, tokens = (
        {word: [bytes([b]) for b in word] for word in words},
        [bytes([n]) for n in range(256)],
    )
    first = Counter()
    while len(tokens) < size:
        pairs = Counter()
        for word, parts in cut.items():
            n = 0
            while n < len(parts) - 1:
                same = wrong == "apart" and parts[n : n + 3] == [parts[n]] * 3
                pairs[parts[n] + parts[n + 1]] += words[word]
                n += 2 if same else 1
        first = first or pairs.copy()
        pairs = (
            Counter({p: first[p] for p in first if p not in tokens}) if wrong == "once" else pairs
        )
        if not pairs:
            break
        ranked = {p: (n, b"" if wrong == "first-seen" else p) for p, n in pairs.items()}
        tokens.append((min if wrong == "rarest" else max)(ranked, key=ranked.__getitem__))
        for word, parts in cut.items():
            cut[word] = joined(parts, tokens[-1])
    return tokens


def joined(parts, token):
    out = []
    for part in parts:
        out[-1:] = [token] if out and out[-1] + part == token else [*out[-1:], part]
    return out


@pytest.mark.parametrize(
    "wrong,words",
    [
        ("across", "across the ends of words"),
        ("each-once", "each different word counts once"),
        ("apart", "overlapping pairs are left out"),
        ("once", "not counted anew"),
        ("first-seen", "equally frequent"),
        ("rarest", "it is not the most frequent"),
        ("", ""),
    ],
)
def test_how_pairs_are_counted_and_ties_are_decided_is_named(wrong, words):
    said = project.joins(lambda text, size: joining(wrong, text, size))
    assert words in said if words else said == ""


def test_the_order_in_which_a_word_is_joined_is_named(own):
    def from_the_left(data, known, longest=False, last=False):
        parts = [bytes([b]) for b in data]
        while True:
            places = [n for n in range(len(parts) - 1) if parts[n] + parts[n + 1] in known]
            if not places:
                return [known.index(part) for part in parts]
            n = places[-1 if last else 0]
            parts[n : n + 2] = [parts[n] + parts[n + 1]]

    def longest(data, known):
        ids = []
        while data:
            ids.append(
                max(
                    (n for n, t in enumerate(known) if data.startswith(t)),
                    key=lambda n: len(known[n]),
                )
            )
            data = data[len(known[ids[-1]]) :]
        return ids

    assert "the first pair in the word" in project.cuts(from_the_left)
    assert "the longest token is taken" in project.cuts(
        lambda data, known: longest(data, known) if b"abc" in known else own["encode"](data, known)
    )
    assert "the first pair in the word" in project.cuts(longest)
    by_right = lambda data, known: from_the_left(data, known, last=True)  # noqa: E731
    assert "of two overlapping pairs" in project.cuts(
        lambda data, known: by_right(data, known) if data == b"aaa" else own["encode"](data, known)
    )
    assert project.cuts(own["encode"]) == ""


def test_dice_that_are_not_used_are_named():
    def sample(model, ids, count, T, temperature, dice, own=None, again=False):
        dice = torch.Generator().manual_seed(0) if own else dice
        if again:
            dice.manual_seed(dice.initial_seed())
        for _ in range(count):
            chances = (model(ids[:, -T:])[:, -1] / temperature).softmax(-1)
            drawn = torch.multinomial(chances, 1, generator=None if own == "none" else dice)
            ids = torch.cat([ids, drawn], 1)
        return ids

    assert project.rolled(sample) == ""
    assert "same dice give other tokens" in project.samples(lambda *a: sample(*a, own="none"))
    assert "other dice give the same" in project.samples(lambda *a: sample(*a, own="seed"))
    assert "set their seed anew" in project.samples(lambda *a: sample(*a, again=True))


class Wrong(nn.Module):
    """Reads tokens by averages: of all of them, or of the one itself; or starts far too sure."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.table = kind, nn.Embedding(30, 30)
        nn.init.normal_(self.table.weight, std=9.0 if kind == "sure" else 0.01)

    def forward(self, ids):
        x = self.table(ids)
        return x.mean(1, keepdim=True).expand_as(x) if self.kind == "future" else x


@pytest.mark.parametrize(
    "kind,words", [("future", "comes later"), ("alone", "is there attention"), ("sure", "ln V")]
)
def test_a_model_that_sees_too_much_or_too_little_is_named(kind, words):
    assert words in project.model(lambda: Wrong(kind), 30, 8)


def test_adam_with_its_decay_in_the_gradient_is_not_adamw():
    assert "first step" in project.adamw(torch.optim.Adam)
    assert project.adamw(torch.optim.AdamW).startswith("right")


def test_a_checkpoint_without_the_optimiser_or_the_dice_is_named(own, tiny):
    for left_out in ("optimiser", "dice"):

        def save(path, model, optimiser, step, dice, left_out=left_out):
            own["save"](path, model, optimiser, step, dice)
            kept = torch.load(path)
            fresh = own["AdamW"](model.parameters(), lr=0.0)
            kept[left_out] = (
                (fresh.means, fresh.squares, fresh.steps)
                if left_out == "optimiser"
                else torch.Generator().get_state()
            )
            torch.save(kept, path)

        said = project.resumes(tiny, own["AdamW"], own["train"], save, own["load"], 30, 8)
        assert "without a stop" in said or "optimiser" in said, said


def test_samples_without_temperature_or_window_are_named(own):
    def sample(model, ids, count, T, temperature, dice, cut=True, warm=True):
        for _ in range(count):
            logits = model(ids[:, -T:] if cut else ids)[:, -1]
            chances = (logits / (temperature if warm else 1.0)).softmax(-1)
            ids = torch.cat([ids, torch.multinomial(chances, 1, generator=dice)], 1)
        return ids

    assert project.samples(sample).startswith("right")
    assert "reads 4 tokens" in project.samples(lambda *a: sample(*a, cut=False))
    assert "temperature" in project.samples(lambda *a: sample(*a, warm=False))


def test_a_rehearsal_scores_what_is_handed_over(own, corpus):
    """Uniform over single bytes: chance, to the digit."""
    bytes_alone = [bytes([n]) for n in range(256)]
    said = project.rehearsal(
        lambda data, seconds: (bytes_alone, {"w": torch.zeros(256)}),
        lambda data, known: list(data),
        lambda known, weights: lambda ids: F.log_softmax(weights["w"].expand(len(ids), 256), -1),
        corpus,
        1.0,
    )
    assert said.startswith("5.545 nats per byte, NOT better")


def test_the_students_copy_runs_untouched(root):
    """Its checks say that nothing is there; nothing stops."""
    raw = (root / "labs/student/08-small-but-yours.ipynb").read_bytes()
    tree, wrong = cells.statements(cells.read(raw))
    names = {each for part in tree for each in cells.binds(part)}
    assert not wrong and set(NAMES) | {"submit", "predictor"} <= names
    assert "SOLUTION" not in json.dumps(raw.decode())
