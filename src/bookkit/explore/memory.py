"""Explorable: pairs of a name and a picture, kept in four ways and asked for at any time."""

from collections.abc import Iterator
from functools import cache
from itertools import groupby

import torch
from torch import Tensor

from attnbook.attention import attend
from attnbook.recurrence.delta import delta_loop
from attnbook.recurrence.gated import gated_loop
from attnbook.recurrence.layer import unit
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

D, SIDE, MOST = 16, 8, 4  # rows of a matrix, of a picture; pairs that the reader may add
Dv = SIDE * SIDE
PICTURES = {  # each row of 8 pixels is two digits
    "cat": "81c3ffbdffe77e3c",
    "fish": "00397ddfff7d3900",
    "boat": "10181c1e10ff7e3c",
    "key": "70d8d87020382038",
    "moon": "1e38707070783e1e",
    "star": "101038fe7c386c44",
    "heart": "6cfefefe7c381000",
    "house": "1a3e7eff66666600",
    "ring": "3c66c3c3c3c3663c",
    "cup": "00f8fff9fff870f8",
    "flag": "c0dedfdec0c0c0c0",
    "tree": "183c7eff3c7e1818",
}
WORDS = list(PICTURES)
NAMES = "abcdefghijklmnop"
STORY = tuple(zip("abcdeafgbhijkalmcnop", "0234516789ab09235468", strict=True))
LANES = ("KV cache", "sum", "delta", "gated delta")
SEEDS = (0, 1)
SHARP = 12  # a score of the cache is so many times the cosine
AHEAD = 0.1  # of the second picture must be what counts as said
ROOM = D * Dv // (D + Dv)  # pairs for which a cache takes no more than a matrix

Pairs = list[tuple[int, int]]  # a name and a picture


@cache
def pictures() -> Tensor:
    """(pictures, Dv), of zeros and ones."""
    bits = [f"{int(digits, 16):0{Dv}b}" for digits in PICTURES.values()]
    return torch.tensor([[int(bit) for bit in row] for row in bits], dtype=torch.float64)


def drawn(seed: int) -> list[list[int]]:
    """A random key for each name, (16, D), in hundredths; it is used at length 1."""
    numbers = torch.Generator().manual_seed(seed)
    x = torch.randn(len(NAMES), D, generator=numbers, dtype=torch.float)
    return (100 * x).round().int().tolist()


def keys(kind: str) -> Tensor:
    """(16, D), of length 1: random, or all at right angles."""
    if kind == "right angles":
        signs = [[(-1) ** (i & j).bit_count() for j in range(D)] for i in range(D)]
        return unit(torch.tensor(signs, dtype=torch.float64))
    return unit(torch.tensor(drawn(int(kind)), dtype=torch.float64))


def match(answers: Tensor, of: Tensor) -> Tensor:
    """Correlation over the pixels, (…); 0 where an answer is the same everywhere."""
    answers, of = (x - x.mean(-1, keepdim=True) for x in (answers, of))
    plain = answers.norm(dim=-1) < 1e-6
    return torch.cosine_similarity(answers, of, dim=-1).masked_fill(plain, 0)


class FourMemories(Explorable):
    """Names and pictures are read pair by pair and kept in four ways; one name is asked for.

    The cache keeps every key and value and answers by softmax attention; the sum, the delta rule
    (strength 1) and the gated delta rule keep a matrix of 16 × 64. `step` pairs of the story are
    read, then the names of `again` come with new pictures. Only the fourth memory fades, by `keep`
    before each pair. `cache` says whether the cache keeps all or no more bytes than a matrix.
    """

    tag = "memory"
    question = "Four memories read the same pairs. What do they answer?"

    def __init__(self, step: int = 7, ask: str = "a", keep: float = 0.9, keys: str = "0"):
        if not 0 <= step <= len(STORY) or ask not in NAMES or len(ask) != 1:
            raise ValueError(
                f"0 to {len(STORY)} pairs are read, names are a to p; got {step}, {ask!r}"
            )
        if not 0.5 <= keep <= 1 or keys not in ("0", "1", "right angles"):
            raise ValueError(
                f"keep is 0.5 to 1, keys are 0, 1 or right angles; got {keep}, {keys!r}"
            )
        self.begin = {"step": step, "ask": ask, "again": "", "keep": keep}
        self.begin |= {"keys": keys, "cache": "all"}

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {
            "pictures": PICTURES,
            "story": ["".join(part) for part in zip(*STORY, strict=True)],
            "random": [" ".join(str(x) for row in drawn(seed) for x in row) for seed in SEEDS],
        }

    def pairs(self, state: dict) -> Pairs:
        """What was read, in order."""
        pairs = [(NAMES.index(name), int(what, 16)) for name, what in STORY[: state["step"]]]
        for name in state["again"][:MOST]:
            old = dict(pairs).get(NAMES.index(name), 0)
            pairs.append((NAMES.index(name), (old + 5) % len(WORDS)))
        return pairs

    def memories(self, state: dict) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Keys and values of all pairs, and the three matrices that hold them."""
        pairs = self.pairs(state)
        k = keys(state["keys"])[[name for name, _ in pairs]]
        v = pictures()[[what for _, what in pairs]]
        if not pairs:
            return k, v, [torch.zeros(D, Dv, dtype=torch.float64)] * 3
        full = torch.ones(len(k), dtype=torch.float64)
        fades = (state["keep"] * full).log()
        matrices = gated_loop(k, k, v), delta_loop(k, k, v, full), delta_loop(k, k, v, full, fades)
        return k, v, [S for _, S in matrices]

    def result(self, state: dict) -> dict:
        """The matrices, the four answers, what they say, and how many names are right."""
        pairs = self.pairs(state)
        k, v, matrices = self.memories(state)
        stay = len(k) if state["cache"] == "all" else min(ROOM, len(k))
        k, v = k[len(k) - stay :], v[len(v) - stay :]
        q = keys(state["keys"])
        looks, weights = attend(SHARP * D**0.5 * q, k, v)
        answers = torch.stack([looks, *(q @ S for S in matrices)])  # (lanes, names, Dv)
        fits = match(answers[:, :, None], pictures())
        newest, ask = dict(pairs), NAMES.index(state["ask"])
        told = [[says(fit) for fit in lane] for lane in fits.tolist()]
        true = newest.get(ask)
        kept = [stay * (D + Dv), *([D * Dv] * 3)]
        return {
            "S": [S.tolist() for S in matrices],
            "weights": weights[ask].tolist(),
            "answers": answers[:, ask].tolist(),
            "says": [lane[ask] for lane in told],
            "match": [0.0 if true is None else lane[true] for lane in fits[:, ask].tolist()],
            "known": len(newest),
            "right": [sum(lane[n] == [newest[n]] for n in newest) for lane in told],
            "bytes": [4 * n for n in kept],
        }

    def cases(self) -> Iterator[dict]:
        yield {"step": 20, "cache": "equal"}
        yield {"step": 20, "keys": "right angles"}
        yield {"step": 5, "ask": "p", "again": "aa"}
        yield {"step": 0}
        for n in range(12):
            again = ("", "ba", "cccc")[n % 3]
            yield {
                "step": (7 * n) % 21,
                "ask": NAMES[n],
                "again": again if n else "",
                "keep": 1 - 0.05 * (n % 11),
                "keys": ("0", "1", "right angles")[n % 3],
                "cache": ("all", "equal")[n // 2 % 2],
            }

    def picture(self) -> str:
        """What was read, and the four answers."""
        state, now = self.start(), self.result(self.start())
        picture = Still(640, 282, self.sentence())
        for n, (name, what) in enumerate(self.pairs(state)):
            x = 4 + 40 * n
            picture.text(x + 16, 14, NAMES[name], bold=NAMES[name] == state["ask"])
            pixels(picture, pictures()[what], x, 20, 4, "value")
        for n, lane in enumerate(LANES):
            x = 4 + 160 * n
            picture.text(x, 92, lane, anchor="start", bold=True)
            pixels(picture, torch.tensor(now["answers"][n]), x, 102, 16, "output")
            said = heard(now["says"][n])
            picture.text(x, 252, f"{said} {number(now['match'][n])}", anchor="start")
            picture.text(x, 274, f"{now['bytes'][n]:,} bytes", "muted", "start", 13)
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        pairs, ask = self.pairs(state), NAMES.index(state["ask"])
        if not pairs:
            return (
                "Nothing is read yet: the cache keeps 0 bytes, and each matrix 4,096, all of them "
                "zeros."
            )
        first = f"After {len(pairs)} pair{'' if len(pairs) == 1 else 's'} “{state['ask']}”"
        names = f"{now['known']} name{'' if now['known'] == 1 else 's'}"
        last = f"Of {names} they get {listed(now['right'])} right."
        whats = [WORDS[what] for name, what in pairs if name == ask]
        if not whats:
            some = sum(map(bool, now["says"]))
            still = f"still {some} of 4 memories answer something"
            return f"{first} has not come yet, and {still}. {last}"
        before = f"; before, it was the {whats[-2]}" if len(whats) > 1 else ""
        found = [f"{lane} {x:.2f}" for lane, x in zip(LANES, now["match"], strict=True)]
        found_ = listed(found).replace("-", "−")
        return f"{first} is the {whats[-1]}{before}. The answers match it: {found_}. {last}"


def listed(parts: list) -> str:
    """1, 2 and 3."""
    *first, last = map(str, parts)
    return f"{', '.join(first)} and {last}"


def says(fits: list[float]) -> list[int]:
    """The picture that fits best, and the second if it is close behind; nothing if nothing fits."""
    order = sorted(range(len(fits)), key=lambda n: -fits[n])[:2]
    if fits[order[0]] <= 1e-9:
        return []
    return order[: 1 + (fits[order[0]] - fits[order[1]] < AHEAD)]


def heard(said: list[int]) -> str:
    return " or ".join(WORDS[n] for n in said)


def pixels(picture: Still, x: Tensor, left: int, top: int, size: int, role: str) -> None:
    """64 numbers as squares as strong as they are large; neighbours alike are one stroke."""
    levels = (4 * x.clamp(-1, 1)).round().int().view(SIDE, SIDE).tolist()
    paths: dict[int, str] = {}
    for y, row in enumerate(levels):
        at = 0
        for level, alike in groupby(row):
            wide = len(list(alike))
            paths[level] = f"{paths.get(level, '')}M{at} {y}h{wide}v1h-{wide}z"
            at += wide
    picture.add(f'<g transform="translate({left} {top})scale({size})">')
    for level in sorted(paths.keys() - {0}):
        look = f"fill:var(--d-{role if level > 0 else 'gradient'});opacity:{abs(level) / 4:g}"
        picture.add(f'<path d="{paths[level]}" style="{look}"/>')
    picture.add("</g>")
