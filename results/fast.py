"""The book's language model made faster, and what that costs: chapter 17.

    python results/fast.py             # resumed run by run
    python results/fast.py bits/       # only those whose names begin so

One thread. Times on a machine that does other work as well: what is compared is timed in turns,
round after round, and medians over the rounds are stored beside all rounds.

**product**: y = x Wᵀ with W 4096 × 4096, in four number formats, for more and more rows of x.
**speed**: 64 tokens after prompts of 32, for one text and for sixteen: seconds a token.
**bits**: nats per byte of unseen documentation by bits and group; and with rounded inputs.
**ranges**: largest number over the root mean square, of weights and of inputs, by channel.
**checked**: seconds of one call that reads 1, 2, … new tokens.
**drafts**: tokens per call and seconds a token with drafts; each greedy text equals the plain one.
**load**: time to first token and tokens a second of the engine, by requests a second; the times are
seconds of the processor, so that other work on the machine does not count.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import product as product_of
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook import device
from attnbook.data import text
from attnbook.decoder_config import DecoderConfig
from attnbook.generate.sampling import generate, sample, temperature
from attnbook.generate.speculative import (
    Copy,
    ModelDraft,
    NGrams,
    Reader,
    after,
    certain,
    speculative,
)
from attnbook.losses import token_loss
from attnbook.models.book import book_lm
from attnbook.provenance import provenance, write
from attnbook.quantise.rounding import int4_kernel, int8_kernel, quantised, quantised_matrix
from attnbook.serving.engine import Engine, Request
from attnbook.serving.load import Timing, arrivals, under_load
from attnbook.serving.pages import Pages
from attnbook.shipped.language import load, nats_per_byte
from attnbook.train.loop import cosine, train

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "fast.json"
ROUNDS, TOKENS, PROMPT = 15, 64, 32
WAYS = {"greedy": certain, "drawn": after(temperature(1.0))}
SEEDS = range(3)


@cache
def held_out() -> Tensor:
    """Tokens of documentation that the model never saw."""
    return load().encode(text.load("python-docs").validation)[0]


@cache
def prompts(B: int) -> Tensor:
    """Beginnings from all over it."""
    starts = [i * (len(held_out()) - PROMPT) // B for i in range(B)]
    return torch.stack([held_out()[i : i + PROMPT] for i in starts])


def rounds_of(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way, all of them in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for make in ways.values():
        make()
    for _ in range(rounds):
        for name, make in ways.items():
            start = time.perf_counter()
            make()
            seconds[name].append(round(time.perf_counter() - start, 7))
    return seconds


def product(rows: int) -> dict[str, Any]:
    """Median seconds of one product in four formats."""
    torch.manual_seed(0)
    W, x = torch.randn(4096, 4096), torch.randn(rows, 4096)
    half, x_half = W.bfloat16(), x.bfloat16()
    eight, four = quantised_matrix(W, 8), quantised_matrix(W, 4, 32)
    ways = {
        "32 bits": partial(F.linear, x, W),
        "16 bits": partial(F.linear, x_half, half),
        "8 bits": partial(int8_kernel, x, eight),
        "4 bits": partial(int4_kernel, x, four),
    }
    with torch.no_grad():
        seconds = rounds_of(ways, 11 if rounds_fit(rows) else 5)
    return {name: {"median": median(found), "all": found} for name, found in seconds.items()}


def rounds_fit(rows: int) -> bool:
    """Are these products short enough for many rounds?"""
    return rows <= 64


def continued(model: Any, caches: Any, prompt: Tensor, first: nn.Module) -> Tensor:
    """`TOKENS` greedy tokens more. The prompt is read by `first`, the rest by `model`."""
    for kept in caches:
        kept.cut(0)
    new = first(prompt, caches)[:, -1].argmax(-1, keepdim=True)
    written = [new]
    for _ in range(TOKENS - 1):
        new = model(new, caches)[:, -1].argmax(-1, keepdim=True)
        written.append(new)
    return torch.cat(written, 1)


TEXT_WAYS = (  # a static cache? compiled?
    ("plain cache", False, False),
    ("static cache", True, False),
    ("compiled", True, True),
    ("compiled, 8 bits", True, True),
    ("8 bits", False, False),
)


def speed(B: int) -> dict[str, Any]:
    """Seconds a step of five ways to write B texts, and what share of the tokens is the same."""
    plain = load().model
    eight = quantised(load().model, 8, product=int8_kernel)
    room, start = PROMPT + TOKENS, prompts(B)
    ways: dict[str, Callable[[], Any]] = {}
    first: dict[str, tuple[Tensor, float]] = {}
    for name, fixed, fast in TEXT_WAYS:
        model: Any = eight if "8 bits" in name else plain
        step: Any = torch.compile(model) if fast else model
        caches = model.caches(room) if fixed else model.caches()
        ways[name] = partial(continued, step, caches, start, model)
        begin = time.perf_counter()
        with torch.no_grad():
            first[name] = ways[name](), round(time.perf_counter() - begin, 1)
    with torch.no_grad():
        seconds = rounds_of(ways, ROUNDS)
    return beside_plain(seconds, first)


def beside_plain(
    seconds: Mapping[str, list[float]], first: Mapping[str, tuple[Tensor, float]]
) -> dict[str, Any]:
    """What is stored of each way: `first` is what its first call wrote, and how long that took."""
    baseline = first["plain cache"][0]
    return {
        name: {
            "median": median(found) / TOKENS,
            "all": [round(s / TOKENS, 7) for s in found],
            "first call": first[name][1],
            "same tokens": (first[name][0] == baseline).float().mean().item(),
            "ratio": median(a / b for a, b in zip(seconds["plain cache"], found, strict=True)),
        }
        for name, found in seconds.items()
    }


def bits(width: int, group: int | None) -> float:
    """Nats per byte of unseen documentation with rounded weights."""
    book = load()
    model = quantised(book.model, width, group) if width < 32 else book.model
    return nats(model)


def nats(model: nn.Module) -> float:
    return nats_per_byte(model, load().tokenizer, text.load("python-docs").validation, 256)


def rounded(x: Tensor, width: int, by: str) -> Tensor:
    """x, each token with a scale of its own, or all with one."""
    top = 2 ** (width - 1) - 1
    size = x.abs().amax(-1, keepdim=True) if by == "token" else x.abs().amax()
    scale = size.clamp(min=1e-8) / top
    return (x / scale).round().clamp(-top, top) * scale


def inputs(width: int, by: str) -> float:
    """Nats per byte when what each linear map reads is rounded; the weights stay."""
    model = load().model
    for part in model.modules():
        if isinstance(part, nn.Linear):
            part.register_forward_pre_hook(lambda _, x: (rounded(x[0], width, by),))
    return nats(model)


@torch.no_grad()
def ranges() -> dict[str, Any]:
    """For each linear map: the largest number over the root mean square, of the weights (worst and
    median row) and of what it reads (worst and median channel), on unseen text."""
    model, seen, found = load().model, {}, {}
    hooks = {
        part.register_forward_pre_hook(lambda _, x, name=name: seen.update({name: x[0]}))
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear)
    }
    model(held_out()[:1024].view(4, 256))
    parts = dict(model.named_modules())
    for name, x in seen.items():
        W, x = parts[name].weight, x.flatten(0, -2)
        found[name] = {
            "weights": (W.abs().max() / W.square().mean().sqrt()).item(),
            "inputs": (x.abs().max() / x.square().mean().sqrt()).item(),
            "largest channel": (x.abs().amax(0).max() / x.abs().amax(0).median()).item(),
        }
    assert len(hooks) == len(found)
    return found


def checked() -> dict[str, Any]:
    """Seconds of a call that reads so many new tokens after 64."""
    model, ways = load().model, {}
    past = held_out()[None, :64]

    def call(caches: Any, new: Tensor) -> None:
        for kept in caches:
            kept.cut(64)
        model(new, caches)

    with torch.no_grad():
        for count in (1, 2, 3, 5, 9, 17, 33):
            caches = model.caches()
            model(past, caches)
            ways[str(count)] = partial(call, caches, held_out()[None, 64 : 64 + count])
        seconds = rounds_of(ways, 301)
    one = seconds["1"]
    return {
        count: {
            "median": median(found),
            "ratio": median(a / b for a, b in zip(found, one, strict=True)),
        }
        for count, found in seconds.items()
    }


@cache
def table() -> NGrams:
    """Strings of up to four tokens, counted in the training text."""
    return NGrams(load().encode(text.load("python-docs").train)[0], 1024, 4)


@cache
def small(seed: int) -> nn.Module:
    """A model of one block with 170 thousand parameters, trained for 300 steps."""
    torch.manual_seed(seed)
    model = book_lm(DecoderConfig(V=1024, width=64, depth=1, heads=2, kv_heads=1, hidden=160))
    windows = text.windows(load().encode(text.load("python-docs").train)[0], 128, 16)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return token_loss(model(batch[0]), batch[1])

    schedule = cosine(300, 30, 0.05)
    train(model, windows, loss, steps=300, lr=5e-3, schedule=schedule, seed=seed, progress=False)
    return model.eval()


@cache
def coarse() -> nn.Module:
    """The book's model in three bits: a draft of its own."""
    return quantised(load().model, 3, 32)


def proposer(name: str, way: str, K: int, seed: int = 0) -> Any:
    """A draft of the given kind."""
    if name == "table of counts":
        return table()
    if name == "copy":
        return Copy(1024, 2)
    model = small(seed) if name == "small model" else coarse()
    return ModelDraft(Reader(model, WAYS[way], K + 1), 1024)


def drafts(name: str, way: str, K: int, seed: int) -> dict[str, Any]:
    """Calls, kept and proposed tokens of six texts of 60 tokens, and seconds beside no draft."""
    model, found = load().model, {"calls": 0, "proposed": 0, "kept": 0}
    ratios = []
    for i in range(6):
        start = held_out()[i * 600 : i * 600 + 64]
        dice = torch.Generator().manual_seed(i)
        propose = proposer(name, way, K, seed)
        begin = time.perf_counter()
        run = speculative(model, propose, start, 60, K, WAYS[way], dice)
        middle = time.perf_counter()
        alone = generate(model, start[None], 60)[0]
        ratios.append((time.perf_counter() - middle) / (middle - begin))
        assert way == "drawn" or torch.equal(run.tokens, alone)
        for key in found:
            found[key] += getattr(run, key)
    return {**found, "tokens": 360, "ratio": median(ratios)}


def load_of(most: int, rate: int) -> dict[str, Any]:
    """Forty requests of 48 tokens to the engine, three times, at `rate` a second."""
    end = load().tokenizer.token_to_id("<|end|>") or 0
    runs = []
    for seed in SEEDS:
        engine = Engine(load().model, Pages(512, 16), most)
        asked = [
            Request(row.tolist(), 48, drawn(i), frozenset({end}))
            for i, row in enumerate(prompts(40))
        ]
        timings = under_load(engine, asked, arrivals(rate, 40, seed), clock=time.process_time)
        runs.append(summary(timings))
    return {"runs": runs}


def drawn(seed: int) -> Callable[[Tensor], Tensor]:
    """A sampler with random numbers of its own."""
    return sample(temperature(1.0), generator=torch.Generator().manual_seed(seed))


def summary(timings: list[Timing]) -> dict[str, float]:
    """What a service reports: of the time to first token and between tokens the median, and the
    90th percentile; tokens a second, from the first request to the last token."""
    first = sorted(timing.to_first for timing in timings)
    between = sorted(timing.between for timing in timings if len(timing.tokens) > 1)
    begin, end = min(t.arrived for t in timings), max(t.tokens[-1] for t in timings)
    return {
        "first": median(first),
        "first, 90 %": first[9 * len(first) // 10],
        "between": median(between),
        "tokens a second": sum(len(t.tokens) for t in timings) / (end - begin),
    }


def work() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each run's name, and what makes it."""
    yield "ranges", ranges
    yield "bits/32", partial(bits, 32, None)
    for width in (8, 4, 3, 2):
        for group in (None, 64, 32, 16):
            yield f"bits/{width}/{group or 'row'}", partial(bits, width, group)
    for width, by in ((8, "tensor"), (8, "token"), (6, "tensor"), (6, "token"), (4, "token")):
        yield f"inputs/{width}/{by}", partial(inputs, width, by)
    for rows in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        yield f"product/{rows}", partial(product, rows)
    for B in (1, 16):
        yield f"speed/{B}/texts", partial(speed, B)
    yield "checked", checked
    for name in ("table of counts", "copy", "3 bits", "small model"):
        for seed in SEEDS if name == "small model" else (0,):
            for way, K in product_of(WAYS, (1, 2, 4)):
                yield f"drafts/{name}/{seed}/{way}/{K}", partial(drafts, name, way, K, seed)
    for most in (1, 16):
        for rate in (4, 8, 16, 32):
            yield f"load/{most}/{rate}", partial(load_of, most, rate)


def stored(path: Path) -> dict[str, Any]:
    """The runs that there are."""
    return json.loads(path.read_text("utf-8"))["runs"] if path.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=[""], help="beginnings of names of runs")
    parser.add_argument("--out", type=Path, default=STORE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 64
    torch._inductor.config.freezing = True
    here = provenance(device.choose(0))
    for name, make in work():
        if name not in stored(options.out) and name.startswith(tuple(options.names)):
            found = make()
            print(name, str(found)[:300], flush=True)
            runs = {**stored(options.out), name: found}
            write(options.out, {"runs": runs, "provenance": here})


if __name__ == "__main__":
    main()
