"""Explorable: a chip with a few slots, and tiles of attention that are fetched in some order."""

import random
from collections.abc import Iterator, Sequence
from functools import cache

import torch

from attnbook.attention import masked_softmax
from attnbook.masks import causal_mask
from bookkit.drawings.roofline import BANDWIDTH, PEAK, reached
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still

N = B = 4  # tiles of a matrix; numbers in a tile of the small example, rows of a tile of scores
LONG, D = 512, 128  # positions and channels for which a tile stands, in 16 bits
SLOT = 2 * LONG * D  # bytes
SLOTS = (5, 7, 12)
NUMBERS = {
    "q": (1, -1, 2, 0, 1, -2, 0, 2, -1, 1, 2, -2, 1, 0, -1, 2),
    "k": (1, 0, -1, 2, 2, -1, 0, 1, -1, 1, 0, 2, -2, 1, 0, 1),
    "v": (30, 0, 15, 45, 20, 5, 60, 10, 50, 25, 0, 40, 55, 10, 35, 20),
}
ROWS = {"all pairs": N, "causal": N, "two requests": 2}  # tiles of queries
ONE = "two requests"  # where a tile of queries is a single query


def allowed(name: str) -> list[tuple[int, int]]:
    """The pairs of a level that must be computed: (row, column)."""
    below = name == "causal"
    return [(i, j) for i in range(ROWS[name]) for j in range(N) if not below or j <= i]


class Chip:
    """Slots, and what was done; a move is two letters: "q0" brings tile 0 of Q, "Q0" takes it out.

    Inputs are only copies, so taking them out costs nothing. Unfinished answers (y) and scores (s
    and the number of a pair) must be written. A pair is computed when its tiles are on the chip and
    a slot is free for one strip of its scores; an answer that is complete is written at once. A
    tile that nobody needs any more gives way to others.
    """

    def __init__(self, name: str, slots: int):
        self.name, self.pairs, self.slots = name, allowed(name), [""] * slots
        self.saved: set[str] = set()  # unfinished answers and scores in slow memory
        self.done: list[tuple[int, int]] = []
        self.moved = 0

    def size(self, tile: str) -> int:
        """Bytes."""
        if tile[0] in "qy" and self.name == ONE:
            return 2 * D
        return SLOT * (B if tile[0] == "s" else 1)

    def left(self, tile: str) -> int:
        """Pairs that still need this tile."""
        side = 0 if tile[0] in "qy" else 1
        return sum(pair[side] == int(tile[1]) for pair in self.pairs if pair not in self.done)

    def spent(self, tile: str) -> bool:
        """Whether the slot of a tile can be had: it is empty, or its input has done its work."""
        return not tile or (tile[0] in "qkv" and self.left(tile) == 0)

    def room(self) -> int:
        """Slots that can be had."""
        return sum(map(self.spent, self.slots))

    def place(self, tile: str) -> None:
        """Into the first slot that can be had."""
        self.slots[next(n for n, old in enumerate(self.slots) if self.spent(old))] = tile

    def drop(self, tile: str) -> None:
        """Empty its slots."""
        self.slots = ["" if old == tile else old for old in self.slots]

    def move(self, move: str) -> bool:
        """Do it, if it is possible."""
        tile = move.lower()
        done = self.take_out(tile) if move != tile else self.bring(tile)
        while done and any(self.compute(*pair) for pair in self.pairs if pair not in self.done):
            pass
        return done

    def take_out(self, tile: str) -> bool:
        """Answers and scores are written, copies are dropped."""
        if tile not in self.slots:
            return False
        if tile[0] in "ys" and tile not in self.saved:
            self.moved += self.size(tile)
            self.saved.add(tile)
        self.drop(tile)
        return True

    def bring(self, tile: str) -> bool:
        """From slow memory; scores can also be computed, in four slots."""
        count, place = 1, int(tile[1], 16)
        there = tile in self.saved
        if tile[0] == "s":
            count, pair = B, divmod(place, N)
            both = there or {f"q{pair[0]}", f"k{pair[1]}"} <= set(self.slots)
            known = self.name != ONE and pair in self.pairs and pair not in self.done and both
        else:
            known = there if tile[0] == "y" else self.left(tile) > 0
        if tile in self.slots or not known or self.room() < count:
            return False
        self.moved += self.size(tile) if there or tile[0] != "s" else 0
        if tile[0] == "y":
            self.saved.discard(tile)
        for _ in range(count):
            self.place(tile)
        return True

    def compute(self, i: int, j: int) -> bool:
        """The pair, if all is there."""
        scores, answer = f"s{i * N + j:x}", f"y{i}"
        waiting, new = scores in self.slots, answer not in self.slots
        needs = {f"v{j}"} if waiting else {f"q{i}", f"k{j}", f"v{j}"}
        room = self.room() + (B if waiting else -1)
        if not needs <= set(self.slots) or room < new or (new and answer in self.saved):
            return False
        self.drop(scores)
        if new:
            self.place(answer)
        self.done.append((i, j))
        if self.left(answer) == 0:
            self.moved += self.size(answer)
            self.drop(answer)
        return True


def tiles(kinds: str, places: Sequence[int]) -> list[str]:
    """q0, y0, q1, y1, …"""
    return [f"{kind}{n}" for n in places for kind in kinds]


def order(name: str, slots: int, by_rows: bool, most: int = N) -> list[str]:
    """The moves of a machine. By rows, as many queries as fit stay with their answers, and keys and
    values pass by: FlashAttention 2. Else keys and values stay and queries and answers pass by:
    FlashAttention 1."""
    chip, moves = Chip(name, slots), []
    stay, come, side = ("q", "kv", 0) if by_rows else ("kv", "yq", 1)
    size, count = min(most, (slots - 3) // 2), (ROWS[name], N)
    for first in range(0, count[side], size):
        group = range(first, min(first + size, count[side]))
        moves += tiles(stay, group)
        for n in range(count[1 - side]):
            if any(pair[side] in group and pair[1 - side] == n for pair in chip.pairs):
                passing = tiles(come, [n])
                moves += passing + [tile.upper() for tile in passing]
        moves += [tile.upper() for tile in tiles(stay, group)]
    return [move for move in moves if chip.move(move)]


FLASH = {"FlashAttention 1": (False, N), "FlashAttention 2": (True, N)}
ORDERS = {
    "all pairs": FLASH,
    "causal": FLASH,
    "two requests": {"one by one": (True, 1), "both at once": (True, N)},
}


@cache
def machines(name: str, slots: int) -> list[dict]:
    """Moves and bytes of the machines with which a level is compared."""
    found = []
    for how in ORDERS[name].values():
        chip, moves = Chip(name, slots), order(name, slots, *how)
        for move in moves:
            chip.move(move)
        found.append({"moves": "".join(moves), "chip": {"moved": chip.moved}})
    return found


class MemoryController(Explorable):
    """The reader brings tiles of Q, K and V from slow memory into a chip of few slots.

    Attention of 16 numbers in 4 × 4 tiles; each tile stands for 512 positions of 128 channels in 16
    bits, and its bytes and operations are counted. Three levels: all pairs, a causal mask, and two
    requests that decode after the same text. `moves` are two letters each, as in `Chip`.
    """

    tag = "controller"
    needs = ()
    question = "Attention on a small chip: how few bytes can you move?"

    def start(self) -> dict:
        return {"level": "all pairs", "slots": SLOTS[-1], "moves": "q0k0s0"}

    def fixed(self) -> dict:
        return {"numbers": NUMBERS, "roof": [PEAK / 1e12, BANDWIDTH / 1e12]}

    def result(self, state: dict) -> dict:
        """What lies where, what has moved, and every row by the softmax over the keys seen."""
        name, slots, letters = state["level"], state["slots"], state["moves"]
        chip = Chip(name, slots)
        for n in range(0, len(letters), 2):
            chip.move(letters[n : n + 2])
        work = 4 * (1 if name == ONE else LONG) * LONG * D * len(chip.done)
        intensity = work / chip.moved if chip.moved else 0.0
        return {
            "chip": {"slots": chip.slots, "moved": chip.moved},
            "saved": sorted(chip.saved),
            "done": [i * N + j for i, j in chip.done],
            "intensity": intensity,
            "speed": reached(intensity) / 1e12,
            "orders": machines(name, slots),
            "kept": kept(name, chip.done),
        }

    def cases(self) -> Iterator[dict]:
        yield {"moves": "".join(order("all pairs", 12, True))}
        yield {"moves": "q0k0s0k1s1K0v0v1S1"}
        yield {"level": "causal", "slots": 5, "moves": "".join(order("causal", 5, False)[:17])}
        for name, orders in ORDERS.items():
            for slots in SLOTS:
                for how in orders.values():
                    moves = "".join(order(name, slots, *how))
                    yield {"level": name, "slots": slots, "moves": moves}
        pick = random.Random(0)
        for n in range(18):
            letters = [pick.choice("qqkkvvQKVysYS") + str(pick.randrange(4)) for _ in range(40)]
            name, slots = list(ROWS)[n % 3], SLOTS[n // 3 % 3]
            yield {"level": name, "slots": slots, "moves": "".join(letters)}

    def picture(self) -> str:
        """Slow memory with the table of pairs, and the chip."""
        slots = self.result(self.start())["chip"]["slots"]
        taken = ", ".join(filter(None, slots))
        label = f"slow memory: Q, K, V and Y in 4 tiles each; on the chip: {taken}"
        picture = Still(640, 276, label)
        roles = {"q": "query", "k": "key", "v": "value", "y": "output", "s": "weight"}
        picture.text(160, 16, "slow memory", bold=True)
        picture.text(486, 16, f"chip: {len(slots)} slots", bold=True)
        places = [(344 + 98 * (n % 3), 28 + 62 * (n // 3)) for n in range(len(slots))]
        for kind, role in roles.items():
            for here in (False, True):
                squares = ""
                for n in range(N * N if kind == "s" else N):
                    tile = f"{kind}{n:x}"
                    i, j = divmod(n, N)
                    x, y = {"k": (n, 28), "v": (n, 66), "q": (-1, n), "y": (N, n)}.get(kind, (j, i))
                    x, y = 58 + 52 * x, y if kind in "kv" else 108 + 40 * y
                    if (tile in slots) == here:
                        squares += f"M{x} {y}h48v34h-48z"
                        if kind != "s" or here:
                            picture.text(x + 24, y + 22, called(tile), "cell" if here else role)
                for n, (x, y) in enumerate(places if here else ()):
                    if slots[n].startswith(kind):
                        squares += f"M{x} {y}h92v56h-92z"
                        row = f" {slots[: n + 1].count(slots[n])}/{B}" if kind == "s" else ""
                        picture.text(x + 46, y + 33, called(slots[n]) + row, "cell")
                fill = "surface" if kind in "ys" and not here else f"{role}-fill"
                faint = 0.8 if here else 0.2 if kind in "qkv" else 1
                style = f"fill:var(--d-{fill});fill-opacity:calc({faint} * var(--d-{role}-reach))"
                picture.parts.insert(0, f'<path d="{squares}" style="{style}"/>')
        empty = "".join(f"M{x} {y}h92v56h-92z" for n, (x, y) in enumerate(places) if not slots[n])
        picture.parts.insert(0, f'<path d="{empty}" style="fill:var(--d-surface)"/>')
        return picture.svg()

    def sentence(self) -> str:
        slots = self.result(self.start())["chip"]["slots"]
        waits = sum(tile.startswith("s") for tile in slots)
        return (
            f"The scores of {waits // B} of {N * N} pairs fill {waits} of {len(slots)} slots; "
            f"all would fill {B * N * N}. Tap {called('v0')}."
        )


def called(tile: str) -> str:
    """Q₀: a tile by its name; scores by their pair, S₀₁."""
    places = divmod(int(tile[1], 16), N) if tile[0] == "s" else [int(tile[1])]
    return tile[0].upper() + "".join("₀₁₂₃"[n] for n in places)


def kept(name: str, pairs: Sequence[tuple[int, int]]) -> list[list[float]]:
    """Maximum, sum and answer of each query of the small example, over the keys of these pairs."""
    size = 1 if name == ONE else B
    q, k, v = (torch.tensor(NUMBERS[kind], dtype=torch.float64) for kind in "qkv")
    q = q[: ROWS[name] * size]
    seen = torch.zeros(len(q), N * B, dtype=torch.bool)
    for i, j in pairs:
        seen[i * size : (i + 1) * size, j * B : (j + 1) * B] = True
    if name == "causal":
        seen &= causal_mask(len(q))
    scores = q[:, None] * k  # one channel: divided by √1
    top = scores.masked_fill(~seen, -torch.inf).amax(-1)
    top = top.masked_fill(top == -torch.inf, 0)
    total = (scores - top[:, None]).exp().masked_fill(~seen, 0).sum(-1)
    answers = masked_softmax(scores, seen) @ v
    return torch.stack([top, total, answers], -1).tolist()
