"""Explorable: the rotary pairs of two heads of the book's model, as arrows whose sum is the score.

`python -m bookkit.explore.clocks` writes `stored/clocks.json`: queries and keys of one line, and
what the heads do on held-out text without some of their pairs, or with other frequencies.
"""

import base64
import cmath
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnbook.attention import Attention
from attnbook.data import text
from attnbook.inside.circuits import attentions
from attnbook.masks import causal_mask
from attnbook.positions import Rotary, frequencies, linear
from attnbook.shipped.language import BookModel, load
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

FILE = Path(__file__).parent / "stored/clocks.json"
LINE = "Romeo, wherefore art thou Rome"
D, TRAINED, FAR = 64, 256, 512
UNIT = 4096  # stored are whole numbers of 16 bits, so many to 1
HEADS = {"previous": (2, 0), "repeat": (3, 3)}  # layer and head
GROUPS = {"fast": range(8), "middle": range(8, 16), "slow": range(16, 32)}
SPEEDS = {
    "trained": lambda: frequencies(D),
    "half": lambda: linear(D, factor=2.0),
    "base": lambda: frequencies(D, 40_000.0),
}
COMBINATIONS = range(1, 8)  # bits: fast 1, middle 2, slow 4


@torch.no_grad()
def caught(book: BookModel, head: str, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys (B, T, D) of a head for these tokens, normed and not yet turned."""
    layer, number = HEADS[head]
    part: Attention = attentions(book.model)[layer]
    found: list[tuple[Tensor, ...]] = []
    project = part.get_submodule("project")
    hook = project.register_forward_hook(lambda *given: found.append(given[2]))
    book.model(tokens)
    hook.remove()
    q, k, _ = found[0]
    shared = part.heads // part.kv_heads
    return q[:, number], k[:, number // shared]


def weights(q: Tensor, k: Tensor, speed: Tensor, pairs: list[int]) -> Tensor:
    """The attention (B, T, T) that these pairs alone would give."""
    turn, kept = Rotary(D, frequencies=speed), torch.tensor([*pairs, *(i + D // 2 for i in pairs)])
    scores = turn(q)[..., kept] @ turn(k)[..., kept].mT / math.sqrt(D)
    return scores.masked_fill(~causal_mask(q.shape[1]), -math.inf).softmax(-1)


def kept(bits: int) -> list[int]:
    """The pairs of these groups."""
    return [i for n, group in enumerate(GROUPS.values()) if bits >> n & 1 for i in group]


def texts(head: str, far: bool, book: BookModel) -> tuple[Tensor, int]:
    """Held-out tokens, or random rows twice; and how far back the head should look."""
    if head == "previous":
        T, N = (FAR, 12) if far else (TRAINED, 24)
        tokens = book.encode(text.python_docs()[1][:60_000])[0]
        return tokens[: N * T].view(N, T), 1
    row, N = (300, 8) if far else (48, 32)
    tokens = torch.randint(0, 1024, (N, row), generator=torch.Generator().manual_seed(0))
    return torch.cat((tokens, tokens), 1), row - 1


def measure(book: BookModel) -> dict[str, Any]:
    """For each head and frequencies: the mean attention to what the head looks for, for each
    combination of groups, in texts of trained length; then, in longer ones, the same of all pairs
    and the attention to what is further back than any training text was long."""
    found: dict[str, Any] = {head: {} for head in HEADS}
    layers = attentions(book.model)
    trained = [layer.rotate for layer in layers]
    for name, speed in SPEEDS.items():
        for layer in layers:
            layer.rotate = Rotary(D, frequencies=speed())
        for head in HEADS:
            tokens, back = texts(head, False, book)
            q, k = caught(book, head, tokens)
            share = lambda w, back=back: w.diagonal(-back, dim1=1, dim2=2)  # noqa: E731
            first = 0 if head == "previous" else 1  # what stood before a row says nothing
            shares = [
                share(weights(q, k, speed(), kept(n)))[:, first:].mean() for n in COMBINATIONS
            ]
            tokens, back = texts(head, True, book)
            w = weights(*caught(book, head, tokens), speed(), kept(7))
            T = tokens.shape[1]
            beyond = w.tril(-TRAINED).sum(-1)
            last = T - T // 4 if head == "previous" else T // 2 + 1
            aims = share(w, back)[:, last - back :]
            found[head][name] = {
                "near": [round(x.item(), 3) for x in shares],
                "far": [round(x.item(), 3) for x in (aims.mean(), beyond[:, last:].mean())],
            }
    for layer, old in zip(layers, trained, strict=True):
        layer.rotate = old
    return found


def packed(x: Tensor) -> str:
    return base64.b64encode((x * UNIT).round().to(torch.int16).numpy().tobytes()).decode()


def unpacked(said: str) -> Tensor:
    whole = torch.frombuffer(bytearray(base64.b64decode(said)), dtype=torch.int16)
    return whole.view(-1, D).double() / UNIT


def stored() -> dict[str, Any]:
    """What the file holds: words; for each head q of the last token, then k of all; shares."""
    book = load("book-lm")
    tokens = book.encode(LINE)
    heads = {}
    for head in HEADS:
        q, k = caught(book, head, tokens)
        heads[head] = packed(torch.cat((q[0, -1:], k[0])))
    words = [book.decode(token) for token in tokens[0].split(1)]
    return {"words": words, "heads": heads, "shares": measure(book)}


@cache
def numbers() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


class Clocks(Explorable):
    """A query of a head of the book's model, and the keys that it met, each at any distance.

    32 rotary pairs are 32 arrows, laid head to tail: how high they reach is the score q · k / √D.
    """

    tag = "clocks"
    needs = ()
    near = 3e-4  # the module's angles are float32
    question = "Which pairs does a head need to find the token before it?"

    def start(self) -> dict:
        groups = dict.fromkeys(GROUPS, True)
        return {"head": "previous", "key": 8, "distance": 1, **groups, "speeds": "trained"}

    def fixed(self) -> dict:
        return numbers()

    def result(self, state: dict) -> dict:
        """Scores of vectors turned by the module's `Rotary`."""
        vectors = unpacked(numbers()["heads"][state["head"]])
        q, keys = vectors[0], vectors[1:]
        speed = SPEEDS[state["speeds"]]()
        on = torch.tensor([state[name] for name, pairs in GROUPS.items() for _ in pairs])
        turned = Rotary(D, frequencies=speed)(q.expand(FAR, D))  # q at 0 … 511, a key at 0
        each = (turned[:, None] * keys).unflatten(-1, (2, -1)).sum(-2) / math.sqrt(D)
        each = each * on  # (FAR, keys, pairs)
        back = torch.arange(len(keys)).flip(0)
        distance = state["distance"]
        most = (TRAINED - 1) * frequencies(D).double()
        new = (distance * speed.double()) % (2 * math.pi) > most + 1e-6
        return {
            "score": each[distance, state["key"]].sum().item(),
            "parts": each[distance, state["key"]].tolist(),
            "curve": each[:, state["key"]].sum(-1).tolist(),
            "weights": each[back, back.flip(0)].sum(-1).softmax(-1).tolist(),
            "new": int((new & on).sum()),
        }

    def cases(self) -> Iterator[dict]:
        yield {"distance": 340}
        yield {"fast": False, "distance": 340, "speeds": "half"}
        yield {"head": "repeat", "key": 2, "distance": 7}
        for n in range(8):
            groups = {name: bool(n >> i & 1) for i, name in enumerate(GROUPS)}
            speeds, head = list(SPEEDS)[n % 3], list(HEADS)[n % 2]
            yield {"head": head, "key": n, "distance": n * 73, **groups, "speeds": speeds}

    def picture(self) -> str:
        """The arrows at the start, and the score against the distance."""
        now = self.result(self.start())
        picture = Still(640, 250, f"a chain of arrows that reaches {now['score']:.2f}, and a curve")
        high = lambda y: 225 - 10.5 * (y + 9)  # noqa: E731
        across = lambda d: 240 + 390 * math.sqrt(d / (FAR - 1))  # noqa: E731
        picture.line([(110, high(-9)), (110, high(11))])
        picture.line([(240, high(0)), (630, high(0))])
        picture.line([(across(255.5), high(-9)), (across(255.5), high(11))], dash="4 3")
        x, y, roles = 110.0, 0.0, {"slow": "position", "middle": "value", "fast": "output"}
        for name, role in roles.items():
            points = [(x, high(y))]
            for i in reversed(GROUPS[name]):
                z = self.arrow(i)
                x, y = x + 10.5 * z[0], y + z[1]
                points.append((x, high(y)))
            picture.line(points, role, 3)
        picture.line([(x, high(y)), (across(1), high(y))], dash="2 3")
        curve = [(d, y) for d, y in enumerate(now["curve"]) if d < 128 or d % 2]
        picture.line([(across(d), high(y)) for d, y in curve], "weight", 1.5)
        picture.text(across(1) + 8, high(y) + 4, number(now["score"]), "weight", "start", bold=True)
        for d in (0, 1, 16, 64, 256, 511):
            picture.text(min(across(d), 618), 242, str(d), "muted", size=12)
        return picture.svg()

    def arrow(self, i: int) -> tuple[float, float]:
        """Pair i at the start: how far to the right, and how far up."""
        vectors = unpacked(numbers()["heads"]["previous"])
        q, k = (complex(x[i], x[i + D // 2]) for x in vectors[[0, 1 + 8]].tolist())
        z = q.conjugate() * k / math.sqrt(D) * cmath.exp(-1j * frequencies(D)[i].item())
        return -z.imag, z.real

    def sentence(self) -> str:
        share = numbers()["shares"]["previous"]["trained"]["near"][6]
        score = self.result(self.start())["score"]
        return (
            f"“R” 1 token back: the arrows reach {score:.2f}, the score. On held-out text the "
            f"token before gets {share:.2f} of this head’s attention."
        )


if __name__ == "__main__":
    FILE.write_text(json.dumps(stored(), separators=(",", ":")) + "\n", "utf-8")
