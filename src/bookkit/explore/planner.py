"""Explorable: what fits, what is sent, how long it takes, when many GPUs share a model."""

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from attnbook.decoder_config import DecoderConfig
from attnbook.planner.bill import GPUS, LLAMA_405B
from attnbook.planner.layout import (
    MOMENTS,
    WEIGHT,
    Batch,
    Layout,
    collectives,
    memory,
    saved_per_token,
)
from attnbook.planner.pace import LINKS, MACHINE, PRODUCTS, pace
from attnbook.planner.sizes import of_size
from bookkit.explore.element import Explorable
from bookkit.explore.still import Number, Still

MODELS = {
    "1 B": of_size(1e9),
    "8 B": DecoderConfig(128_256, 4096, 32, 32, 8, 14_336),
    "70 B": DecoderConfig(128_256, 8192, 80, 64, 8, 28_672),
    "100 B": of_size(100e9),
    "405 B": LLAMA_405B,
}
"""Grattafiori et al. 2024, table 3, for 8, 70 and 405 billion; the others in their proportions."""
STEP, T = 2**22, 4096
EACH = 20  # tokens to train on, for each parameter (Hoffmann et al. 2022)
ROOM = 0.9  # a tenth of the memory is left for buffers
NOTHING = {"need": 0.0, "least": 0.0, "most": 0.0, "bubble": 0.0}


class Planner(Explorable):
    """The planner (`attnbook plan`) with its controls: model, GPUs and how they are arranged.

    `gpus`, `tensor` and `pipeline` are powers of 2; a step has 2²² tokens in windows of 4,096, one
    at a time on each replica, and blocks are recomputed. Times assume half of a GPU's peak.
    """

    tag = "planner"
    question = "How do you share it?"

    def __init__(
        self, model: str = "100 B", gpus: int = 1024, shard: int = 3, tensor: int = 1,
        pipeline: int = 1, gpu: str = "h100",
    ):  # fmt: skip
        powers = {n: 2**n for n in range(15)}
        if model not in MODELS or gpu not in LINKS or shard not in range(4):
            raise ValueError(
                f"model is one of {', '.join(MODELS)}, gpu of {', '.join(LINKS)}, shard 0 to 3; "
                f"got {model!r}, {gpu!r}, {shard}"
            )
        if gpus not in powers.values() or not {tensor, pipeline} <= {1, 2, 4, 8, 16}:
            raise ValueError(
                f"powers of 2: up to 16,384 GPUs, tensor and pipeline up to 16; got {gpus}, "
                f"{tensor}, {pipeline}"
            )
        sizes = {"g": gpus.bit_length() - 1, "t": tensor.bit_length() - 1}
        self.begin: dict[str, Any] = {
            "model": model, **sizes, "p": pipeline.bit_length() - 1, "shard": shard, "gpu": gpu,
        }  # fmt: skip

    def start(self) -> dict:
        return self.begin

    def fixed(self) -> dict:
        about = {
            name: {
                **asdict(d),
                "parameters": d.parameters,
                "block": d.block,
                "kept": saved_per_token(d),
            }
            for name, d in MODELS.items()
        }
        kinds = {
            name: {"peak": GPUS[name][0], "memory": GPUS[name][1], "near": near, "far": far}
            for name, (near, far) in LINKS.items()
        }
        rules = {"step": STEP, "T": T, "each": EACH, "room": ROOM, "products": PRODUCTS}
        rules |= {"machine": MACHINE, "weight": WEIGHT, "moments": MOMENTS}
        return {"models": about, "kinds": kinds, "rules": rules}

    def result(self, state: dict) -> dict:
        """Bytes of memory and of what is sent in a step, seconds, days; or a `problem`."""
        decoder, trouble = MODELS[state["model"]], problem(state)
        if trouble:
            return {"problem": trouble, **NOTHING}
        layout = laid_out(state)
        batch = Batch(STEP, T)
        need, each = memory(decoder, layout, batch), collectives(decoder, layout, batch)
        time = pace(decoder, layout, batch, state["gpu"])
        steps = EACH * decoder.parameters / STEP / 86_400
        return {
            "problem": "",
            "need": float(need.total),
            "parts": [float(x) for x in asdict(need).values()],
            "sent": [float(each.data), float(each.tensor), float(each.pipeline)],
            "seconds": [float(x) for x in asdict(time).values()],
            "bubble": float(each.bubble),
            "least": float(steps * time.hidden),
            "most": float(steps * time.shown),
        }

    def cases(self) -> Iterator[dict]:
        for model, gpu in itertools.product(MODELS, LINKS):
            for g, t, p, shard in ((3, 0, 0, 0), (10, 3, 2, 1), (13, 3, 1, 2), (6, 1, 0, 3)):
                yield {"model": model, "gpu": gpu, "g": g, "t": t, "p": p, "shard": shard}
        yield {"g": 2, "t": 3}
        yield {"g": 14, "t": 4, "p": 4}
        yield {"g": 5, "t": 4}

    def picture(self) -> str:
        """Memory against what a GPU has; the seconds of a step."""
        now, kind = self.result(self.begin), self.begin["gpu"]
        room = GPUS[kind][1]
        picture = Still(430, 116, self.sentence())
        looks = (
            (12, "memory", now["parts"], ["state", "gradient", "muted", "value"], room),
            (66, "a step", now["seconds"], ["weight", "muted", "query", "key", "position"], 0),
        )
        for y, name, numbers, roles, line in looks:
            scale = 290 / max(sum(numbers), line)
            x: Number = 84
            picture.text(76, y + 19, name, anchor="end", bold=True)
            for number, role in zip(numbers, roles, strict=True):
                picture.bar(x, y, number * scale, 28, role)
                x += number * scale
            if line:
                at = 84 + line * scale
                picture.line([(at, y - 4), (at, y + 32)], "ink", 2)
        return picture.svg()

    def sentence(self) -> str:
        now, state = self.result(self.begin), self.begin
        if now["problem"]:
            return now["problem"]
        room = GPUS[state["gpu"]][1]
        fits = "It fits" if now["need"] < ROOM * room else "It does not fit"
        compute, bubble, *sends = now["seconds"]
        return (
            f"{fits}: {now['need'] / 1e9:.1f} GB of {room / 1e9:.0f} on each GPU. A step computes "
            f"for {compute:.2f} s, waits {bubble:.2f} s and sends for {sum(sends):.2f} s: "
            f"{now['least']:.1f} to {now['most']:.1f} days."
        )


def laid_out(state: dict) -> Layout:
    data = 2 ** (state["g"] - state["t"] - state["p"])
    return Layout(data, 2 ** state["t"], 2 ** state["p"], state["shard"])


def problem(state: dict) -> str:
    """Why the GPUs cannot be arranged so; empty if they can."""
    decoder, group = MODELS[state["model"]], 2 ** (state["t"] + state["p"])
    gpus, stages = 2 ** state["g"], 2 ** state["p"]
    if gpus < group:
        return f"{group} GPUs hold one copy, and there are {gpus}."
    if decoder.depth % stages:
        return f"{decoder.depth} blocks do not divide into {stages} stages."
    windows = STEP // T
    if gpus // group > windows:
        return f"A step has {windows} windows, too few for {gpus // group} replicas."
    return ""
