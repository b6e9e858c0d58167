"""Explorable: what one written token costs a published model, in bytes, operations and time."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from bookkit.explore.element import Explorable
from bookkit.explore.still import Number, Still


class Model(NamedTuple):
    """The sizes that decide the cost. `maps` are the matrices of the feed-forward network."""

    layers: int
    width: int
    heads: int
    kv: int
    D: int
    hidden: int
    maps: int
    V: int
    blockExtra: int
    extra: int
    tied: bool = False
    experts: int = 1
    active: int = 1
    window: int | None = None
    places: int | None = None  # learned positions: no token can stand further back


# Radford et al. 2019; Touvron et al. 2023, "Llama 2"; Jiang et al. 2023 and 2024.
MODELS = {
    "GPT-2": Model(
        12, 768, 12, 12, 64, 3072, 2, 50257, 13 * 768, 1026 * 768, tied=True, places=1024
    ),
    "Llama 2 7B": Model(32, 4096, 32, 32, 128, 11008, 3, 32000, 2 * 4096, 4096),
    "Llama 2 70B": Model(80, 8192, 64, 8, 128, 28672, 3, 32000, 2 * 8192, 8192),
    "Mistral 7B": Model(32, 4096, 32, 8, 128, 14336, 3, 32000, 2 * 4096, 4096, window=4096),
    "Mixtral 8x7B": Model(
        32, 4096, 32, 8, 128, 14336, 3, 32000, 2 * 4096, 4096, experts=8, active=2
    ),
}
# Makers' data sheets: bytes and operations (16 bits, dense) a second, bytes of memory.
MACHINES = {
    "T4": {"bandwidth": 320e9, "speed": 65e12, "memory": 16e9},
    "A100": {"bandwidth": 2039e9, "speed": 312e12, "memory": 80e9},
    "H100": {"bandwidth": 3350e9, "speed": 989e12, "memory": 80e9},
}


class Cost(Explorable):
    """Memory, operations and the two times of one step of writing, for a batch of readers.

    `model` and `machine` are names in MODELS and MACHINES; `T` tokens stand before the written one
    and `readers` write at once, both powers of 2; weights have `bits`, the cache always 16. Times
    are lower bounds: all bytes at full bandwidth, all operations at full speed.
    """

    tag = "cost"
    question = "What does one written token cost?"

    def __init__(
        self,
        model: str = "Llama 2 70B",
        T: int = 4096,
        readers: int = 1,
        bits: int = 16,
        machine: str = "A100",
    ):
        if model not in MODELS or machine not in MACHINES:
            raise ValueError(
                f"model is one of {', '.join(MODELS)}, machine of {', '.join(MACHINES)}; "
                f"got {model!r} and {machine!r}"
            )
        if T not in [2**n for n in range(18)] or readers not in [2**n for n in range(9)]:
            raise ValueError(
                f"T is a power of 2 up to 131,072, readers up to 256; got {T} and {readers}"
            )
        if bits not in (4, 8, 16):
            raise ValueError(f"bits are 4, 8 or 16; got {bits}")
        sizes = {"t": T.bit_length() - 1, "b": readers.bit_length() - 1, "bits": bits}
        self.begin: dict[str, Any] = {"model": model, **sizes, "machine": machine}

    def start(self) -> dict:
        return self.begin

    def fixed(self) -> dict:
        return {"models": {name: m._asdict() for name, m in MODELS.items()}, "machines": MACHINES}

    def result(self, state: dict) -> dict:
        """All counts; the tests compare them with the recipes, torch's counter and a cache."""
        m, machine = MODELS[state["model"]], MACHINES[state["machine"]]
        T, B, number = 2 ** state["t"], 2 ** state["b"], state["bits"] / 8
        seen = min(T, m.window or T)
        total = count(m, m.experts) + m.V * m.width * (not m.tied)
        woken = m.experts * (1 - (1 - m.active / m.experts) ** B)  # expected of B random choices
        cache = cache_bytes(m, seen, B)
        moved = count(m, woken) * number + cache
        matrices = 2 * (count(m, m.active) - m.layers * m.blockExtra - m.extra)
        scores = 4 * seen * m.heads * m.D * m.layers
        flops = B * (matrices + scores)
        return {
            "parameters": total,
            "weights": total * number,
            "cache": float(cache),
            "matrices": float(matrices),
            "scores": scores,
            "moved": moved,
            "flops": float(flops),
            "memory": moved / machine["bandwidth"],
            "arithmetic": flops / machine["speed"],
            "catchUp": matrices * seen / scores,
            "machines": math.ceil((total * number + cache) / machine["memory"]),
        }

    def cases(self) -> Iterator[dict]:
        yield {"t": 0}
        for model, machine, bits in itertools.product(MODELS, MACHINES, (16, 8, 4)):
            for t, b in ((0, 0), (11, 3), (17, 8)):
                yield {"model": model, "machine": machine, "bits": bits, "t": t, "b": b}

    def picture(self) -> str:
        """Weights and cache against one machine's memory; the two times."""
        now, machine = self.result(self.begin), self.begin["machine"]
        room = MACHINES[machine]["memory"]
        scale = 250 / max(now["weights"] + now["cache"], room)
        label = f"weights {size(now['weights'])}, cache {size(now['cache'])}"
        picture = Still(420, 130, f"{label}; one {machine} holds {size(room)}")
        picture.text(130, 23, "memory", anchor="end", bold=True)
        picture.bar(140, 4, now["weights"] * scale, 26, "muted")
        picture.bar(140 + now["weights"] * scale, 4, max(1, now["cache"] * scale), 26, "key")
        picture.line([(140 + room * scale, 0), (140 + room * scale, 34)], "ink", 2)
        picture.text(140, 48, label, "muted", "start", 12)
        longest = max(now["memory"], now["arithmetic"])
        for y, (name, role) in enumerate((("memory", "state"), ("arithmetic", "weight"))):
            picture.text(130, 83 + 34 * y, f"time: {name}", anchor="end", bold=True)
            picture.bar(140, 64 + 34 * y, 190 * now[name] / longest, 26, role)
            words = f"{1e3 * now[name]:.2f} ms"
            picture.text(415, 83 + 34 * y, words, anchor="end")
        return picture.svg()

    def sentence(self) -> str:
        now, readers = self.result(self.begin), 2 ** self.begin["b"]
        who = f"One token for each of {readers} readers" if readers > 1 else "Writing one token"
        slow = now["memory"] > now["arithmetic"]
        waits = "it waits for memory" if slow else "arithmetic is what takes the time"
        said = f"{who} moves {size(now['moved'])} and computes {work(now['flops'])}: {waits}."
        if now["machines"] > 1:
            said += f" It needs the memory of {now['machines']} machines ({self.begin['machine']})."
        places = MODELS[self.begin["model"]].places
        if places and places < 2 ** self.begin["t"]:
            said += f" But {self.begin['model']} has learned {places} positions only."
        return said


def count(m: Model, experts: Number) -> Number:
    """Parameters of the blocks with so many experts, norms and biases, and one table."""
    attention = 2 * m.width * m.heads * m.D + 2 * m.width * m.kv * m.D
    router = m.width * m.experts if m.experts > 1 else 0
    block = attention + experts * m.maps * m.width * m.hidden + router + m.blockExtra
    return m.layers * block + m.V * m.width + m.extra


def cache_bytes(m: Model, T: int, B: int) -> int:
    """Keys and values of T tokens for B readers, in 16 bits."""
    return 2 * m.layers * m.kv * m.D * T * B * 2


def digits(x: Number, unit: str) -> str:
    """Three digits and a unit."""
    return f"{x:.0f} {unit}" if x >= 100 else f"{x:.1f} {unit}" if x >= 10 else f"{x:.2f} {unit}"


def size(x: Number) -> str:
    """Bytes as MB or GB."""
    return digits(x / 1e9, "GB") if x >= 1e9 else digits(x / 1e6, "MB")


def work(x: Number) -> str:
    """Operations as GFLOP or TFLOP."""
    return digits(x / 1e12, "TFLOP") if x >= 1e11 else digits(x / 1e9, "GFLOP")
