"""How fast is a published model written, beside transformers on the same weights?

    ATTNBOOK_GEMMA=folder python results/real/speed.py

Question. Gemma 3 270M writes one text by this module's `generate` with its cache, in 32 and 16
bits, and with all matrices, the table of tokens too, rounded to 8 bits (a scale for each row) and
4 bits (one for each 32 weights); and by the `generate` of transformers in 32 and 16 bits, and with
torch's own 8 bits for every linear map but the output layer's (dynamic quantisation). Seconds a
token of writing, seconds of reading a prompt, and what the rounding costs.
Budget. 12 tokens after a prompt of 32; a prompt of 128 and one token; seven rounds, all ways in
turn, one thread. 300 tokens of each of two texts for the nats per byte.
Baselines. transformers in the same number format.
Nothing found. The quartiles of the ratio of the seconds, transformers' to ours, contain 1 or lie
below it: then ours is no faster, or slower, and that is what is said.

Seconds are those of the processor: the machine does other work, and the clock would count it. What
other programs read from memory at the same time makes a step slower all the same, so the ratios of
one round are compared, not times of different days.
"""

import copy
import time
from collections.abc import Callable
from functools import partial
from statistics import median, quantiles
from typing import Any

import torch
from prose import prose
from real_model import begin, body, finish, folder, gemma
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.data import text
from attnbook.generate.sampling import generate
from attnbook.quantise.rounding import int4_kernel, int8_kernel, quantised
from bookkit.results.protocol import Study

STUDY = Study(
    name="speed",
    question="How fast is a published model written, beside transformers on the same weights?",
    budget="12 tokens after 32, and a prompt of 128; seven rounds of all ways in turn",
    reporting_seeds=range(1),
    baselines=("transformers, 32 bits", "transformers, 16 bits"),
    no_gain="the quartiles of the ratio to transformers in the same format contain 1 or are below",
)
ROUNDS, NEW, PROMPT, LONG = 7, 12, 32, 128
ROWS, T = 1, 300


def tokens_of(passage: str, rows: int, length: int) -> Tensor:
    """Rows of a text, the start included: (rows, length + 1)."""
    studied = gemma()
    ids = torch.tensor(studied.tokens(passage))[: rows * length].view(rows, length)
    return torch.cat((torch.tensor(studied.start).expand(rows, -1), ids), 1)


def ours() -> dict[str, Any]:
    """The model in four number formats."""
    plain = gemma().model
    return {
        "32 bits": plain,
        "16 bits": copy.deepcopy(plain).bfloat16(),
        "8 bits": quantised(copy.deepcopy(plain), 8, product=int8_kernel),
        "4 bits": quantised(copy.deepcopy(plain), 4, 32, product=int4_kernel),
    }


def theirs() -> dict[str, Any]:
    """The same weights in transformers, and with torch's own 8 bits."""
    from torch.ao.quantization import quantize_dynamic
    from transformers import AutoModelForCausalLM

    found = {}
    for name, dtype in (("32 bits", torch.float32), ("16 bits", torch.bfloat16)):
        model = AutoModelForCausalLM.from_pretrained(folder(), dtype=dtype).eval()
        model.generation_config.eos_token_id = None  # to the end, as ours
        found[f"transformers, {name}"] = model
    blocks = copy.deepcopy(found["transformers, 32 bits"])
    blocks.model = quantize_dynamic(blocks.model, {nn.Linear}, dtype=torch.qint8)
    return found | {"transformers, torch's 8 bits": blocks}


def writer(model: Any, prompt: Tensor, new: int) -> Callable[[], Tensor]:
    """What writes so many tokens after a prompt, greedily."""
    if hasattr(model, "body"):
        return partial(generate, model, prompt, new)
    return partial(
        model.generate, prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new,
        do_sample=False, pad_token_id=0,
    )  # fmt: skip


@torch.no_grad()
def timed(models: dict[str, Any], length: int, new: int) -> dict[str, Any]:
    """Processor seconds of each way in turn, and the share of its tokens that are those of ours in
    32 bits."""
    prompt = tokens_of(prose(), 1, length - 1)
    ways = {name: writer(model, prompt, new) for name, model in models.items()}
    first = {name: write() for name, write in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, write in ways.items():
            start = time.process_time()
            write()
            seconds[name].append(round(time.process_time() - start, 4))
    same = first["32 bits"]
    return {
        name: {
            "seconds": found,
            "median": round(median(found), 4),
            "same tokens": round((first[name] == same)[:, length:].float().mean().item(), 3),
        }
        for name, found in seconds.items()
    }


def ratios(seconds: dict[str, Any]) -> dict[str, Any]:
    """How many times as fast as transformers in 32 bits: quartiles over the rounds; and ours in 16
    bits beside theirs in 16 bits."""

    def beside(way: str, base: str) -> list[float]:
        pairs = zip(seconds[base]["seconds"], seconds[way]["seconds"], strict=True)
        return [round(q, 3) for q in quantiles([a / b for a, b in pairs], n=4)]

    found = {way: beside(way, "transformers, 32 bits") for way in seconds}
    return found | {"16 bits, both": beside("16 bits", "transformers, 16 bits")}


@torch.no_grad()
def per_byte(model: Any) -> dict[str, float]:
    """Nats per byte of a text that nobody has read, and of documentation."""
    docs, found = text.load("python-docs").validation[:8000], {}
    for name, passage in (("this book", prose()), ("documentation", docs)):
        rows = tokens_of(passage, ROWS, T)
        x, told = body(model, rows)[:, :-1].flatten(0, 1), rows[:, 1:].flatten()
        nats = 0.0
        for some, right in zip(x.split(100), told.split(100), strict=True):
            nats += F.cross_entropy(model.lm_head(some).float(), right, reduction="sum").item()
        size = sum(len(gemma().tokenizer.decode(row[1:].tolist()).encode()) for row in rows)
        found[name] = round(nats / size, 4)
    return found


def main() -> None:
    said, runs = begin(STUDY, __file__)
    mine = ours()
    found: dict[str, Any] = {
        "nats per byte": {
            name: runs.get(f"bytes/{name}", partial(per_byte, model))
            for name, model in mine.items()
        }
    }
    models = mine | theirs()
    for what, length, new in (("writing", PROMPT, NEW), ("reading", LONG, 1)):
        seconds = runs.get(what, partial(timed, models, length, new))
        found[what] = seconds
        found[f"{what}, times as fast"] = ratios(seconds)
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
