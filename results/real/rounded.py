"""What does a published model lose if its weights, or its cache, are kept in fewer bits?

    ATTNBOOK_GEMMA=folder python results/real/rounded.py          # resumed run by run
    ATTNBOOK_GEMMA=folder python results/real/rounded.py 32 4     # those whose names begin so

Question. Nats per byte of Gemma 3 270M with its weights in 8, 4 and 3 bits by rounding, GPTQ and
AWQ, and with keys and values of its cache in 8 and 4 bits. "8 bits" are all matrices, the table of
tokens too, with a scale for each row; "4 bits" and "3 bits" are the maps of the blocks, with a
scale for each 32 weights, and the table in 8 bits; "4 bits, table too" is all matrices by rounding.
Torch's own 8 bits (dynamic quantisation) round inputs too, and leave the output layer as it is. The
cache: whole numbers of 8 bits with a scale for each vector, fp8 (e4m3) without a scale, as vLLM has
it unless told otherwise, and 4 bits with a scale for each 32 numbers. Products are in 32 bits.
Budget. Six pieces of 128 tokens of each of two texts: documentation that calibrates nothing, and
chapters of this book, which nobody has read. GPTQ and AWQ see 1,024 tokens of other documentation,
one draw, and AWQ tries five powers.
Baselines. 32 bits; rounding in as many bits.
Nothing found. GPTQ, AWQ: the interval of the difference to rounding, over the pieces of a text,
contains 0 or lies above it. The cache: the interval of the difference to 32 bits contains 0; then
it costs nothing that shows.
"""

import argparse
import copy
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from faster import by_few_powers, documentation, plain, rows_of, theirs
from prose import prose
from real_model import begin, finish, gemma, nats
from torch import Tensor
from torch.nn import functional as F

from attnbook.cache import KVCache
from attnbook.masks import causal
from attnbook.provenance import write
from attnbook.quantise.gptq import by_gptq, calibrated
from attnbook.quantise.rounding import dequantise, quantise, quantised
from bookkit.results.protocol import Study
from bookkit.results.statistics import difference

STUDY = Study(
    name="rounded",
    question="What does a published model lose with its weights or its cache in fewer bits?",
    budget="six pieces of 128 tokens of each of two texts; 1,024 others calibrate",
    reporting_seeds=range(1),
    baselines=("32 bits", "rounding in as many bits"),
    no_gain="the interval of the difference, over the pieces of a text, contains 0",
)
PIECES, T, GROUP = 6, 128, 32
WAYS = {"GPTQ": by_gptq, "AWQ": by_few_powers}
TORCH = "transformers, torch's 8 bits"
Keep = Callable[[Tensor], Tensor]


@cache
def pieces() -> dict[str, Tensor]:
    """Pieces from all over each text, the start included, (PIECES, T + 1)."""
    book = torch.tensor(gemma().tokens(prose()))
    texts = {"documentation": documentation("validation"), "this book": book}
    return {name: rows_of(tokens, PIECES, T + 1) for name, tokens in texts.items()}


def few(way: str, bits: int) -> Any:
    """The maps of the blocks in so many bits, the table of tokens in 8."""
    model = copy.deepcopy(plain())
    if way == "rounding":
        quantised(model.body, bits, GROUP)
    else:
        x = model.embed(rows_of(documentation("train"), 4, 257))
        calibrated(model.body.blocks, x, WAYS[way](bits, GROUP))
    return quantised(model, 8, where=lambda name, part: "blocks" not in name)


class Rounded(KVCache):
    """A cache of which no more is read back than few bits keep."""

    def __init__(self, keep: Keep) -> None:
        super().__init__()
        self.keep = keep

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return super().append(self.keep(k), self.keep(v))


def whole_numbers(bits: int, group: int | None, x: Tensor) -> Tensor:
    """What so many bits keep of each vector, with a scale for each group of its numbers."""
    rows, size = x.flatten(0, -2), group or x.shape[-1]
    return dequantise(*quantise(rows, bits, size), size).view(x.shape)


def fp8(x: Tensor) -> Tensor:
    """What four bits of exponent and three of fraction keep."""
    return x.to(torch.float8_e4m3fn).to(x.dtype)


@torch.no_grad()
def read(make: Callable[[], Any], keep: Keep | None = None) -> dict[str, list[float]]:
    """Nats of all tokens of each piece."""
    model, found = make(), {}
    for name, rows in pieces().items():
        found[name] = [round(piece_nats(model, row[None], keep), 3) for row in rows]
    return found


def piece_nats(model: Any, row: Tensor, keep: Keep | None) -> float:
    if not hasattr(model, "body"):  # of transformers
        x = model.model(row, use_cache=False).last_hidden_state[0, :-1]
        return nats(plain(), x, row[0, 1:]).sum().item()
    caches = None if keep is None else [Rounded(keep) for _ in model.body.blocks]
    x = model.body(model.embed(row), mask=causal, caches=caches)[0, :-1]
    if model.lm_head is plain().lm_head:
        return nats(model, x, row[0, 1:]).sum().item()
    return F.cross_entropy(model.lm_head(x), row[0, 1:], reduction="sum").item()


def work() -> dict[str, Callable[[], dict[str, list[float]]]]:
    """Each run's name, and what makes it; what matters most first."""
    asked = {"32 bits": partial(read, plain)}
    asked["cache, 8 bits"] = partial(read, plain, partial(whole_numbers, 8, None))
    for bits in (4, 3):
        asked[f"{bits} bits"] = partial(read, partial(few, "rounding", bits))
        for way in WAYS:
            asked[f"{bits} bits, {way}"] = partial(read, partial(few, way, bits))
    asked["cache, fp8"] = partial(read, plain, fp8)
    asked["cache, 4 bits"] = partial(read, plain, partial(whole_numbers, 4, GROUP))
    asked["8 bits"] = partial(read, partial(of_all, 8, None))
    asked["4 bits, table too"] = partial(read, partial(of_all, 4, GROUP))
    asked[TORCH] = partial(read, lambda: theirs()[TORCH])
    return asked  # type: ignore[return-value]  # of partials, which are callables


def of_all(bits: int, group: int | None) -> Any:
    """All matrices in so many bits, by rounding."""
    return quantised(copy.deepcopy(plain()), bits, group)


def sizes() -> dict[str, list[int]]:
    """Bytes of each piece."""
    decode = gemma().tokenizer.decode
    return {
        name: [len(decode(row[1:].tolist()).encode()) for row in rows]
        for name, rows in pieces().items()
    }


def compared(found: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Nats per byte; by how much they are more than in 32 bits, and than by rounding."""
    told: dict[str, Any] = {"bytes": sizes(), "nats per byte": {}, "more": {}, "than rounding": {}}
    each = {
        way: {
            name: [a / b for a, b in zip(run[name], size, strict=True)]
            for name, size in told["bytes"].items()
        }
        for way, run in found.items()
    }
    for way, texts in each.items():
        told["nats per byte"][way] = {
            name: round(sum(found[way][name]) / sum(told["bytes"][name]), 4) for name in texts
        }
        base, _, by = way.partition(", ")
        for what, other in (("more", "32 bits"), ("than rounding", base if by in WAYS else way)):
            if other != way:
                told[what][way] = {
                    name: difference(x, each[other][name], paired=True).as_dict()
                    for name, x in texts.items()
                }
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=[""], help="beginnings of names of runs")
    options = parser.parse_args()
    said, runs = begin(STUDY, __file__)
    for name, make in work().items():
        if name.startswith(tuple(options.names)):
            runs.get(name, make)
    finish(STUDY, said, runs, {"nats": runs.found, **compared(runs.found)})
    if work().keys() - runs.found.keys():
        write(runs.draft, runs.found)  # to go on from


if __name__ == "__main__":
    main()
