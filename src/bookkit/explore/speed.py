"""Explorable: a text appears at the pace that a machine can have at most, alone or among others.

`python -m bookkit.explore.speed` writes `stored/speed.json`: four texts of the book's language
model, and which guesses of two drafts were right while it wrote them.
"""

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import inf, log10
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnbook.data import text
from attnbook.decoder_config import DecoderConfig
from attnbook.generate.sampling import generate, sample, temperature, top_p
from attnbook.generate.speculative import ModelDraft, NGrams, Propose, Reader, after, certain
from attnbook.quantise.rounding import quantised
from attnbook.serving.engine import Engine, Request
from attnbook.serving.load import arrivals, under_load
from attnbook.serving.pages import Pages
from attnbook.shipped.language import BookModel, load
from bookkit.explore.cost import MACHINES as GPUS
from bookkit.explore.cost import digits, size
from bookkit.explore.element import Explorable
from bookkit.explore.planner import MODELS as KNOWN
from bookkit.explore.still import Number, Still
from bookkit.results.stored_run import stored_run

FILE = Path(__file__).parent / "stored/speed.json"
STARTS = ("KING HENRY", "ROMEO", "First Citizen", "JULIET")
N, K = 128, 3  # tokens of a text, guesses at a time
AS_WRITTEN = (temperature(0.8), top_p(0.95))  # as `BookModel.write` draws
MODELS = {name: KNOWN[name] for name in ("8 B", "70 B")}
BITS = {16: 16.0, 8: 8.0, 4: 4.5}  # of a weight: four with a scale for each group of 32
COARSE = 3.5  # three, with such scales
DRAFTS = ("none", "counts", "coarse")
ASKED = 64  # requests under load, of which the reader's is in the middle
HOUR = 3600


# What is stored: four texts, and how two drafts would have guessed them.


@torch.no_grad()
def written(book: BookModel, n: int) -> tuple[Tensor, int]:
    """The tokens of text n with its start, and how long that is."""
    start, dice = book.encode(f"{STARTS[n]}:\n"), torch.Generator().manual_seed(n)
    return generate(book.model, start, N, sample(*AS_WRITTEN, generator=dice))[0], start.shape[1]


def coarse() -> Propose:
    """The model in three bits, sure of its likeliest token."""
    return ModelDraft(Reader(quantised(load("book-lm").model, 3, 32), certain, K + 1), 1024)


def counts(book: BookModel) -> Propose:
    """A table of strings of up to four tokens in Shakespeare, sure of the likeliest one."""
    table = NGrams(book.encode(text.load("shakespeare").train)[0], 1024, 4)

    def propose(tokens: Tensor, k: int, dice: torch.Generator | None) -> tuple[Tensor, Tensor]:
        drafted = tokens[:0]
        for _ in range(k):
            best = table.chances(torch.cat((tokens, drafted))).argmax()
            drafted = torch.cat((drafted, best[None]))
        return drafted, F.one_hot(drafted, 1024).float()

    return propose


def checks(x: Tensor, begin: int, propose: Propose) -> Iterator[tuple[int, list[int]]]:
    """Of each check the number of guesses that are those of the text `x`, and the guesses after.

    The model draws its own token at each place, as it would without a draft, and a guess stays
    where it is that token: with the probability p that the model gives it. For a draft that is
    sure of its guess, q = 1, this is the rule min(1, p / q), and what is drawn where the guess was
    wrong comes from the residual; and the text is that of the same random numbers without a draft.
    """
    while begin < len(x):
        guesses, _ = propose(x[:begin], min(K, len(x) - begin - 1), None)
        same = (guesses == x[begin : begin + len(guesses)]).tolist()
        kept = same.index(False) if False in same else len(same)
        yield kept, guesses[kept:].tolist()
        begin += kept + 1


@torch.no_grad()
def stored() -> dict[str, Any]:
    """For each text its tokens and, for each draft, how many guesses each check kept; of the first
    text, which the reader follows, also the wrong ones, and the first's probability in per cent."""
    book = load("book-lm")
    ways: dict[str, Propose] = {"counts": counts(book), "coarse": coarse()}
    texts: list[str] = []
    kept: dict[str, list[str]] = {way: [] for way in ways}
    wrong: dict[str, list[str]] = {}
    percent: dict[str, list[int]] = {}
    for n in range(len(STARTS)):
        x, begin = written(book, n)
        p = after(*AS_WRITTEN)(book.model(x[None])[0])
        texts.append(told(book, x[begin:].tolist()))
        for way, propose in ways.items():
            found = list(checks(x, begin, propose))
            kept[way].append("".join(str(count) for count, _ in found))
            if n == 0:
                at, chances = begin, []
                for count, rest in found:
                    likely = p[at + count - 1, rest[0]].item() if rest else 0
                    chances.append(round(100 * likely))
                    at += count + 1
                wrong[way] = [told(book, rest) for _, rest in found]
                percent[way] = chances
    return {"texts": texts, "kept": kept, "wrong": wrong, "percent": percent}


def in_lines(tokens: list[str]) -> list[str]:
    """For a page: a line of verse goes on after a blank, a speaker begins a line."""
    found, after = list(tokens), [*tokens[1:], ""]
    for i, (token, follows) in enumerate(zip(tokens, after, strict=True)):
        if token == "\n":
            second = i and tokens[i - 1] == "\n"
            found[i] = "" if second else "\n" if follows == "\n" else " "
    return found


def told(book: BookModel, tokens: list[int]) -> str:
    """Tokens as words, with a stroke between them."""
    return "|".join(book.decode(torch.tensor([token])) for token in tokens)


@cache
def numbers() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def brings(n: int, draft: str) -> list[int]:
    """How many tokens each call of the model brings to text n."""
    if draft == "none":
        return [1] * N
    return [int(kept) + 1 for kept in numbers()["kept"][draft][n]]


# What is computed.


@cache
def machines() -> dict[str, dict[str, Any]]:
    """GPUs as their makers describe them, and the core of the chapter: the most bytes and the most
    operations a second that its products of matrices reached in any format and with any batch."""
    runs = stored_run("fast")["runs"]
    wide = {"32 bits": 32, "16 bits": 16, "8 bits": 8, "4 bits": 4.5}
    products = {int(name[8:]): run for name, run in runs.items() if name.startswith("product/")}
    least = [(r, b, min(run[b]["all"])) for r, run in products.items() for b in wide]
    moved = max(4096**2 * wide[bits] / 8 / seconds for _, bits, seconds in least)
    done = max(2 * 4096**2 * rows / seconds for rows, _, seconds in least)
    core = {"bandwidth": round(moved / 1e8) * 1e8, "speed": round(done / 1e9) * 1e9, "memory": None}
    return {"one core": core, **GPUS}


def position(decoder: DecoderConfig) -> int:
    """Bytes of the keys and values of one position, in 16 bits."""
    return 2 * decoder.depth * decoder.keys * 2


def step(
    decoder: DecoderConfig, rows: int, T: int, bits: int | float, tokens: int = 1
) -> tuple[float, float]:
    """Bytes and operations of a step that reads so many tokens of each text, after T others."""
    moved = decoder.parameters * bits / 8 + rows * T * position(decoder)
    return moved, rows * tokens * decoder.flops(T) / 3  # a third of training is the forward pass


class Pace:
    """How long a call of the model takes at least, for so many texts at once."""

    def __init__(self, state: dict):
        self.decoder, self.machine = MODELS[state["model"]], machines()[state["machine"]]
        self.T, self.bits, self.draft = 1000 * 2 ** state["t"], BITS[state["bits"]], state["draft"]

    def parts(self, rows: int, bits: int | float, tokens: int) -> tuple[float, float]:
        """Seconds of reading and of computing."""
        moved, done = step(self.decoder, rows, self.T, bits, tokens)
        return moved / self.machine["bandwidth"], done / self.machine["speed"]

    def moved(self, rows: int) -> float:
        return step(self.decoder, rows, self.T, self.bits)[0]

    def check(self, rows: int) -> tuple[float, float]:
        return self.parts(rows, self.bits, 1 if self.draft == "none" else K + 1)

    def guess(self, rows: int) -> float:
        """Seconds of one guess: none for a table that is looked up."""
        return max(self.parts(rows, COARSE, 1)) if self.draft == "coarse" else 0.0

    def __call__(self, rows: int) -> float:
        return max(self.check(rows)) + K * self.guess(rows)


class Slots(Engine):
    """The engine's schedule without a model: who has a slot gets a token in each step."""

    def __init__(self, most: int, pace: Pace):
        self.most, self.pace, self.now, self.pages = most, pace, 0.0, Pages(N)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.first: dict[Request, float] = {}  # seconds of the step in which each came in

    def step(self) -> list[Request]:
        while self.waiting and len(self.running) < self.most:
            self.running.append(self.waiting.popleft())
        got, took = list(self.running), self.pace(len(self.running))
        self.now += took
        for request in got:
            self.first.setdefault(request, took)
            request.written.append(0)
        self.running = [r for r in got if len(r.written) < r.max_new_tokens]
        return got


@cache
def moments() -> list[float]:
    """When the requests arrive if one comes in a second, on average."""
    return [round(at, 2) for at in arrivals(1, ASKED)]


@dataclass
class Asked:
    """A request: when it arrived and came into a slot, its text, when it had each call's tokens."""

    arrived: float
    text: int
    came: float
    ends: list[float]


def schedule(state: dict) -> tuple[list[Asked], Asked]:
    """All requests, and the reader's: with no load so many at once as there are slots."""
    engine, count = Slots(2 ** state["b"], Pace(state)), 2 ** state["b"]
    times, you = [0.0] * count, 0
    if state["load"]:
        times, you = [at / 2.0 ** (state["load"] - 3) for at in moments()], ASKED // 2
    texts = [0 if n == you else 1 + n % (len(STARTS) - 1) for n in range(len(times))]
    asked = [Request([0], len(brings(n, state["draft"]))) for n in texts]
    found = under_load(engine, asked, times, clock=lambda: engine.now)
    all_of = [
        Asked(at, text, timing.tokens[0] - engine.first[request], timing.tokens)
        for at, text, request, timing in zip(times, texts, asked, found, strict=True)
    ]
    return all_of, all_of[you]


class Speed(Explorable):
    """A text of the book's model at the least time that a step can take on a machine.

    `b` and `t` are powers of 2: texts at once, and thousands of tokens before each; `load` is 0,
    or 2^(load − 3) requests arrive in a second; `at` are the seconds since the reader asked.
    """

    tag = "speed"
    needs = ()
    question = "How fast does a text appear?"

    def start(self) -> dict:
        machine = {"machine": "H100", "model": "8 B", "bits": 16, "b": 5, "t": 3}
        return {**machine, "draft": "none", "load": 0, "at": 1}

    def fixed(self) -> dict:
        sizes = {
            name: {"N": d.parameters, "p": position(d), "C": 4 * d.depth * d.width}
            for name, d in MODELS.items()
        }
        shown = {
            "texts": "#".join("|".join(in_lines(said.split("|"))) for said in numbers()["texts"]),
            "wrong": {
                way: "#".join(wrong).replace("\n", "↵") for way, wrong in numbers()["wrong"].items()
            },
        }
        able = {
            name: {what: int(x or 0) for what, x in m.items()} for name, m in machines().items()
        }
        found = {"machines": able, "models": sizes, "moments": moments()}
        return {**numbers(), **shown, **found}

    def result(self, state: dict) -> dict:
        """The bound of one step, what it makes of the text so far, and who waits."""
        pace, B, draft = Pace(state), 2 ** state["b"], state["draft"]
        need = pace.moved(B)
        if need > (pace.machine["memory"] or inf):
            return {"fits": False, "moved": need, "waiting": 0}
        asked, you = schedule(state)
        now = you.arrived + state["at"] + 1e-9
        rows = sum(one.came <= now <= one.ends[-1] + 2e-9 for one in asked) or B
        done = sum(end <= now for end in you.ends)
        written, since = (
            sum(brings(0, draft)[:done]),
            now - (you.ends[done - 1] if done else you.came),
        )
        most, each = 0, pace.guess(rows)
        if draft != "none" and since >= 0:
            most = min(K, max(0, N - written - 1))
        (reading, computing), rate = pace.check(rows), N / len(brings(0, draft)) / pace(rows)
        return {
            "fits": True,
            "rows": rows,
            "moved": pace.moved(rows),
            "reading": reading,
            "computing": computing,
            "guessing": K * each,
            "rate": rate,
            "gain": rate * max(pace.parts(rows, pace.bits, 1)),
            "written": written,
            "pale": max(0, min(most, int(since / each))) if each else most,
            "waiting": sum(one.arrived <= now < one.came for one in asked),
            "first": you.ends[0] - you.arrived,
            "median": median(one.ends[0] - one.arrived for one in asked),
        }

    def cases(self) -> Iterator[dict]:
        yield {"draft": "coarse", "b": 0, "at": 0.47}
        yield {"load": 7, "at": 2.3}
        yield {"machine": "one core", "bits": 4, "at": 60}
        yield {"model": "70 B", "b": 2}
        for n, (machine, draft) in enumerate(product(machines(), DRAFTS)):
            other = {"model": list(MODELS)[n % 2], "bits": list(BITS)[n % 3], "b": 3 * n % 9}
            yield {"machine": machine, "draft": draft, **other, "t": n % 7, "at": 0.7 * n}
            yield {"machine": machine, "draft": draft, "bits": 4, "b": n % 5, "load": n % 10}

    def picture(self) -> str:
        """The roof of the machine and the step under it; the text after a second."""
        now, state = self.result(self.start()), self.start()
        words = "".join(in_lines(numbers()["texts"][0].split("|"))[: now["written"]]).split("\n")
        picture = Still(640, 300, f"a text of {now['written']} tokens, and the roofline")
        y = 20
        for paragraph in [f"{STARTS[0]}: {words[0]}", *words[1:]]:
            line = ""
            for word in [*paragraph.split(), ""]:
                if len(line) + len(word) > 44 or not word:
                    picture.text(0, y, line, anchor="start")
                    line, y = "", y + 20
                line = f"{line} {word}".strip()
        x = lambda v: 350 + 280 * (log10(v) + 0.3) / 3.9  # noqa: E731
        high = lambda v: 250 - 220 * (log10(v) - 10) / 5.4  # noqa: E731
        picture.line([(350, 20), (350, 250), (630, 250)])
        for name, machine in machines().items():
            ridge = machine["speed"] / machine["bandwidth"]
            roof = [
                (v, min(v * machine["bandwidth"], machine["speed"])) for v in (0.6, ridge, 3900)
            ]
            chosen = name == state["machine"]
            points = [(x(v), high(top)) for v, top in roof]
            picture.line(points, "ink" if chosen else "line", 2 if chosen else 1)
            picture.text(630, points[-1][1] - 5, name, "muted", "end", 12)
        pace = Pace(state)
        for rows, r in [*((2**b, 2.5) for b in range(6)), (now["rows"], 6)]:
            moved, work = step(pace.decoder, rows, pace.T, pace.bits)
            at = x(work / moved), high(work / moved * pace.machine["bandwidth"])
            picture.add(
                f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{r}" style="fill:var(--d-output)"/>'
            )
        picture.text(490, 290, "operations per byte", "muted", size=12)
        picture.text(354, 16, "operations a second", "muted", "start", 12)
        for v in (1, 10, 100, 1000):
            picture.text(x(v), 268, f"{v:,}", "muted", size=12)
        return picture.svg()

    def sentence(self) -> str:
        now, state = self.result(self.start()), self.start()
        texts = 2 ** state["b"]
        return (
            f"A step for {texts} texts reads {size(now['moved'])} and waits for memory. After "
            f"{seconds(state['at'])} your text has {now['written']} tokens, all {texts} have "
            f"{texts * now['written']:,}."
        )


def seconds(x: Number) -> str:
    return digits(x, "s") if x >= 1 else digits(1000 * x, "ms")


if __name__ == "__main__":
    made = json.dumps(stored(), ensure_ascii=False, separators=(",", ":"))
    FILE.write_text(made + "\n", "utf-8")
