"""What makes a published model faster, and at what cost?

    ATTNBOOK_GEMMA=folder python results/real/faster.py           # resumed run by run
    ATTNBOOK_GEMMA=folder python results/real/faster.py writing   # only those whose names begin so

Question. Gemma 3 270M on one thread: what do fewer bits, a compiled step, drafts and a batch that
changes bring, in tokens a second, and what does the rounding cost in nats per byte? "8 bits" are
all matrices, the table of tokens too, with a scale for each row; "4 bits" and "3 bits" are the maps
of the blocks with a scale for each 32 weights, by rounding, GPTQ and AWQ, and the table in 8 bits;
"4 bits, table too" is all matrices by rounding. Torch's own 8 bits (dynamic quantisation) round
every linear map of transformers' model but the output layer. There is no kernel for 3 bits: they
are stored in 4, and are as fast. What GPTQ stores has the form of rounding, and is as fast; AWQ
divides the inputs of each map, which is timed with factors of 1.
Budget. Writing: one text of 64 tokens and 32 more, greedily, in pieces of 4; the first piece, which
reads the prompt and compiles, is not counted; all ways write their next piece in turn, seven times.
Reading: a prompt of 128, seven times, in turn. Nats per byte: 300 tokens of documentation that
nothing was calibrated on; 1,024 others calibrate, and AWQ tries five powers. Drafts: 12 tokens
after each of seven prompts of 64, four tokens proposed. Load: sixteen requests of 16 tokens that
ask for 4 more, two a second, one draw of arrival times.
Baselines. transformers' `generate` in the same number format; rounding; no draft; one request at a
time.
Nothing found. The quartiles of the ratio of the seconds contain 1 or lie below it: then it is no
faster, or slower, and that is what is said. AWQ and GPTQ: their cost is not below that of rounding.
In 32 bits all ways write the same tokens, or nothing is stored.

Seconds are those of the processor, since the machine has other work that the clock would count.
What other programs read from memory at the same time makes a step slower all the same, so ratios
are taken within a round.
"""

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from statistics import mean, median, quantiles, stdev
from typing import Any

import torch
from real_model import begin, body, finish, folder, gemma, nats
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.data import text
from attnbook.generate.sampling import DecodingSession, generate
from attnbook.generate.speculative import Copy, NGrams, Propose, speculative
from attnbook.provenance import write
from attnbook.quantise.gptq import (
    DividedInput,
    Inputs,
    Make,
    awq,
    by_gptq,
    by_nearest,
    calibrated,
)
from attnbook.quantise.gptq import few as of_levels
from attnbook.quantise.rounding import QuantisedLinear, int4_kernel, int8_kernel, quantised
from attnbook.serving.engine import Engine, Request
from attnbook.serving.load import arrivals, under_load
from attnbook.serving.pages import Pages
from attnbook.transformer import LanguageModel
from bookkit.results.protocol import Study

STUDY = Study(
    name="faster",
    question="What makes a published model faster, and at what cost?",
    budget="32 tokens after 64, seven pieces of 4 counted; a prompt of 128; 300 tokens of text",
    reporting_seeds=range(1),
    baselines=("transformers in the same format", "rounding", "no draft", "one at a time"),
    no_gain="the quartiles of the ratio to the baseline contain 1 or are below",
)


def by_few_powers(bits: int, group: int) -> Make:
    """AWQ with five powers."""

    def make(part: nn.Linear, read: Inputs) -> nn.Module:
        levels, scales, s = awq(part.weight, read, bits, group, tries=5)
        return DividedInput(of_levels(part, (levels, scales), bits, group), s)

    return make


PROMPT, PIECE, ROUNDS, LONG, GROUP = 64, 4, 7, 128, 32
BASE = "transformers, 32 bits"
WAYS: dict[str, Callable[[int, int], Make]] = {
    "rounding": by_nearest, "GPTQ": by_gptq, "AWQ": by_few_powers,
}  # fmt: skip
TEXTS, MORE, PROPOSED, V = 7, 12, 4, 262_144


@cache
def documentation(part: str) -> Tensor:
    """Tokens of documentation, training or validation, without a start."""
    passage = getattr(text.load("python-docs"), part)[:100_000]
    return torch.tensor(gemma().tokens(passage))


def rows_of(tokens: Tensor, rows: int, length: int) -> Tensor:
    """Rows from all over a text, the start included: (rows, length)."""
    starts = [i * (len(tokens) - length) // rows for i in range(rows)]
    cut = torch.stack([tokens[i : i + length - 1] for i in starts])
    return torch.cat((torch.tensor(gemma().start).expand(rows, -1), cut), 1)


@cache
def plain() -> LanguageModel:
    return gemma().model


@cache
def eight() -> Any:
    """All matrices in 8 bits."""
    return quantised(copy.deepcopy(plain()), 8, product=int8_kernel)


@torch.no_grad()
def few(way: str, bits: int) -> LanguageModel:
    """The maps of the blocks in so many bits, the table of tokens in 8."""
    model = copy.deepcopy(plain())
    x = model.embed(rows_of(documentation("train"), 4, 256)) if way != "rounding" else None
    make = WAYS[way](bits, GROUP)
    if x is None:  # nothing is read
        replace_all(model.body.blocks, lambda part: make(part, None))  # type: ignore[arg-type]
    else:
        calibrated(model.body.blocks, x, make)
    for part in model.body.modules():
        if isinstance(part, QuantisedLinear):
            part.product = int4_kernel
    return LanguageModel(eight().embed, model.body, eight().lm_head).eval()


def replace_all(blocks: nn.Module, make: Callable[[nn.Linear], nn.Module]) -> None:
    """Put `make(map)` in place of every linear map."""
    for name, part in list(blocks.named_modules()):
        if isinstance(part, nn.Linear):
            blocks.set_submodule(name, make(part))


@cache
def four() -> LanguageModel:
    return few("rounding", 4)


@cache
def all_in_four() -> Any:
    return quantised(copy.deepcopy(plain()), 4, GROUP, product=int4_kernel)


def divided() -> LanguageModel:
    """The form of AWQ, with factors of 1."""
    blocks = copy.deepcopy(four().body)
    for name, part in list(blocks.named_modules()):
        if isinstance(part, QuantisedLinear):
            blocks.set_submodule(name, DividedInput(part, torch.ones(part.in_features)))
    return LanguageModel(eight().embed, blocks, eight().lm_head).eval()


def ours() -> dict[str, Any]:
    """The module's ways without a compiler."""
    return {
        "32 bits": plain(),
        "16 bits": copy.deepcopy(plain()).bfloat16(),
        "8 bits": eight(),
        "4 bits": four(),
        "4 bits, AWQ": divided(),
        "4 bits, table too": all_in_four(),
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
    fewer = copy.deepcopy(found[BASE])
    fewer.model = quantize_dynamic(fewer.model, {nn.Linear}, dtype=torch.qint8)
    return found | {"transformers, torch's 8 bits": fewer}


def compiled(model: Any) -> Callable[..., Tensor]:
    """The model, one token read by compiled blocks; a prompt is read as it is. Block by block, so
    that what is compiled for one serves all of its kind."""
    weights = [*model.parameters(), *model.buffers()]
    step = copy.deepcopy(model, {id(weight): weight for weight in weights})
    for block in step.body.blocks:
        block.compile()

    def read(new: Tensor, caches: Any, last: int | None = None) -> Tensor:
        return (step if new.shape[1] == 1 else model)(new, caches, last=last)

    return read


def in_pieces(model: Any, prompt: Tensor, fast: bool) -> Iterator[Tensor]:
    """The text so far, each time `PIECE` tokens longer."""
    tokens = prompt
    if hasattr(model, "body"):
        room = PROMPT + PIECE * (ROUNDS + 1) if fast else None
        session = DecodingSession(compiled(model) if fast else model, model.caches(room))
        while True:
            yield (tokens := generate(session, tokens, PIECE))
    from transformers import DynamicCache

    kept = DynamicCache(config=model.config)
    while True:
        yield (tokens := writes(model, tokens, PIECE, past_key_values=kept))


def writes(model: Any, tokens: Tensor, new: int, **more: Any) -> Tensor:
    """What transformers' `generate` writes, greedily."""
    return model.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new, do_sample=False,
        pad_token_id=0, **more,
    )  # fmt: skip


def clock(make: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    found = make()
    return found, round(time.process_time() - start, 4)


def quartiles(base: list[float], other: list[float]) -> list[float]:
    """Of how many times as fast, round by round."""
    ratios = [a / b for a, b in zip(base, other, strict=True)]
    return [round(q, 3) for q in quantiles(ratios, n=4, method="inclusive")]


def writing() -> dict[str, Any]:
    """All ways without a compiler."""
    found = in_turn(ours() | theirs())
    seconds = (found[f"{whose}16 bits"]["seconds"] for whose in ("transformers, ", ""))
    return found | {"16 bits, both": {"times as fast": quartiles(*seconds)}}


def with_compiler() -> dict[str, Any]:
    """Two ways with and without, beside transformers."""
    plainly = {"32 bits": plain(), "4 bits, table too": all_in_four()}
    return in_turn({BASE: theirs()[BASE]} | plainly, plainly)


@torch.no_grad()
def in_turn(models: dict[str, Any], fast: dict[str, Any] | None = None) -> dict[str, Any]:
    """Seconds of each way's pieces in turn, and how many of its tokens are those of 32 bits; with
    `fast` the compiled ways too."""
    prompt = rows_of(documentation("validation"), 1, PROMPT)
    pieces = {name: in_pieces(model, prompt, False) for name, model in models.items()}
    for name, model in (fast or {}).items():
        pieces[f"{name}, compiled"] = in_pieces(model, prompt, True)
    first = {name: clock(partial(next, piece))[1] for name, piece in pieces.items()}
    seconds: dict[str, list[float]] = {name: [] for name in pieces}
    written: dict[str, Tensor] = {}
    for _ in range(ROUNDS):
        for name, piece in pieces.items():
            written[name], took = clock(partial(next, piece))
            seconds[name].append(took)
    right = written[BASE]
    for name in {"32 bits", "32 bits, compiled"} & written.keys():
        assert torch.equal(written[name], right), f"{name}: not the tokens of transformers"
    return {
        name: {
            "seconds": took,
            "tokens a second": round(PIECE / median(took), 2),
            "times as fast": quartiles(seconds[BASE], took),
            "same tokens": round((written[name] == right)[:, PROMPT:].float().mean().item(), 3),
            "first piece": first[name],
        }
        for name, took in seconds.items()
    }


@torch.no_grad()
def reading() -> dict[str, Any]:
    """Seconds until the first token after a long prompt."""
    prompt = rows_of(documentation("validation"), 1, LONG)
    ways: dict[str, Callable[[], Tensor]] = {
        name: partial(generate, model, prompt, 1)
        for name, model in ours().items()
        if name != "4 bits, AWQ"
    }
    ways |= {name: partial(writes, model, prompt, 1) for name, model in theirs().items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, read in ways.items():
            took = clock(read)[1]
            if turn:
                seconds[name].append(took)
    return {
        name: {"seconds": took, "times as fast": quartiles(seconds[BASE], took)}
        for name, took in seconds.items()
    }


@torch.no_grad()
def token_nats(make: Callable[[], Any]) -> list[float]:
    """Nats of each of 300 tokens of documentation."""
    model, found = make(), []
    rows = rows_of(documentation("validation"), 1, 301)
    if not hasattr(model, "body"):  # of transformers
        logits = model(rows[:, :-1]).logits[0].float()
        each = F.cross_entropy(logits, rows[0, 1:], reduction="none")
        return [round(number, 4) for number in each.tolist()]
    x, told = body(model, rows)[:, :-1].flatten(0, 1), rows[:, 1:].flatten()
    for some, right in zip(x.split(100), told.split(100), strict=True):
        if isinstance(model.lm_head, nn.Linear):
            found.append(nats(model, some, right))
        else:
            found.append(F.cross_entropy(model.lm_head(some).float(), right, reduction="none"))
    return [round(number, 4) for number in torch.cat(found).tolist()]


def cost(found: dict[str, list[float]]) -> dict[str, Any]:
    """Nats per byte, and by how much they are more than those of 32 bits, with the 95 % interval
    over the tokens."""
    rows = rows_of(documentation("validation"), 1, 301)[:, 1:]
    size = sum(len(gemma().tokenizer.decode(row.tolist()).encode()) for row in rows)
    told: dict[str, Any] = {"bytes": size}
    for name, each in found.items():
        more = [a - b for a, b in zip(each, found["32 bits"], strict=True)]
        off, count = 1.96 * stdev(more) / len(more) ** 0.5, len(more) / size
        ends = [round((mean(more) + sign * off) * count, 4) for sign in (-1, 1)]
        told[name] = {"nats per byte": round(sum(each) / size, 4), "more": ends}
    return told


class Likeliest:
    """The likeliest token of a table of counts, proposed with certainty."""

    def __init__(self, counts: NGrams) -> None:
        self.counts = counts

    def __call__(
        self, tokens: Tensor, K: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        drafted = torch.zeros(0, dtype=torch.long)
        for _ in range(K):
            new = self.counts.chances(torch.cat((tokens, drafted))).argmax()[None]
            drafted = torch.cat((drafted, new))
        return drafted, F.one_hot(drafted, V).float()


@torch.no_grad()
def drafts(name: str) -> dict[str, Any]:
    """Tokens for each call of the model, and times as fast as without a draft, text by text."""
    model = {"32 bits": plain, "4 bits, table too": all_in_four}[name]()
    counts = NGrams(documentation("train"), V, 4)
    kinds: dict[str, Propose] = {"n-grams": Likeliest(counts), "copy": Copy(V, 2)}
    alone: list[float] = []
    found: dict[str, dict[str, Any]] = {
        kind: {"calls": 0, "kept": 0, "seconds": []} for kind in kinds
    }
    for start in rows_of(documentation("validation"), TEXTS, PROMPT):
        written, took = clock(partial(generate, model, start[None], MORE))
        alone.append(took)
        for kind, draft in kinds.items():
            run, took = clock(partial(speculative, model, draft, start, MORE, PROPOSED))
            found[kind]["calls"] += run.calls
            found[kind]["kept"] += run.kept
            found[kind]["seconds"].append(took)
            if name == "32 bits":
                assert torch.equal(run.tokens, written[0]), f"{kind}: another text"
    for row in found.values():
        row["tokens per call"] = round(TEXTS * MORE / row["calls"], 3)
        row["times as fast"] = quartiles(alone, row["seconds"])
    return found | {"no draft": {"seconds": alone}}


def loaded(name: str, most: int) -> list[dict[str, float]]:
    """Sixteen requests to the engine: the median time to the first token, tokens a second."""
    model, found = {"32 bits": plain, "4 bits, table too": all_in_four}[name](), []
    for seed in STUDY.reporting_seeds:
        engine = Engine(model, Pages(128, 16), most)
        prompts = rows_of(documentation("validation"), 16, 16).tolist()
        asked = [Request(prompt, 4) for prompt in prompts]
        times = arrivals(2.0, 16, seed)
        timings = under_load(engine, asked, times, clock=time.process_time)
        begun, end = min(t.arrived for t in timings), max(t.tokens[-1] for t in timings)
        if name == "32 bits":
            alone = generate(model, torch.tensor(prompts[:1]), 4)[0].tolist()
            assert asked[0].tokens == alone, "the engine writes another text"
        found.append(
            {
                "seconds to the first token": round(median(t.to_first for t in timings), 3),
                "seconds between tokens": round(median(t.between for t in timings), 3),
                "tokens a second": round(64 / (end - begun), 2),
            }
        )
    return found


def rounded_ways() -> dict[str, Callable[[], Any]]:
    """What is asked for its cost."""
    found: dict[str, Callable[[], Any]] = {
        "32 bits": plain, "8 bits": eight, "4 bits, table too": all_in_four, "4 bits": four,
        "3 bits": partial(few, "rounding", 3),
    }  # fmt: skip
    ways = [(way, bits) for way in ("GPTQ", "AWQ") for bits in (3, 4)]
    return found | {f"{bits} bits, {way}": partial(few, way, bits) for way, bits in ways}


def work() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each run's name, and what makes it; what matters most first."""
    asked = rounded_ways()
    yield "writing", writing
    for name in ("32 bits", "8 bits", "4 bits", "3 bits", "4 bits, table too"):
        yield f"nats/{name}", partial(token_nats, asked[name])
    yield "drafts/32 bits", partial(drafts, "32 bits")
    for name in ("3 bits, GPTQ", "3 bits, AWQ"):
        yield f"nats/{name}", partial(token_nats, asked[name])
    for name, most in (("32 bits", 1), ("32 bits", 16), ("4 bits, table too", 16)):
        yield f"load/{name}, {most} at a time", partial(loaded, name, most)
    for name in ("4 bits, GPTQ", "4 bits, AWQ"):
        yield f"nats/{name}", partial(token_nats, asked[name])
    eight = "transformers, torch's 8 bits"
    yield f"nats/{eight}", partial(token_nats, lambda: theirs()[eight])
    yield "compiled", with_compiler
    yield "reading", reading
    yield "drafts/4 bits, table too", partial(drafts, "4 bits, table too")


def told(found: dict[str, Any]) -> dict[str, Any]:
    """What is stored of the runs that there are."""
    parts: dict[str, Any] = {}
    for name, run in found.items():
        part, _, way = name.partition("/")
        parts[part] = {**parts.get(part, {}), way: run} if way else run
    return parts | {"nats": cost(parts["nats"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=[""], help="beginnings of names of runs")
    options = parser.parse_args()
    said, runs = begin(STUDY, __file__)
    for name, make in work():
        if name.startswith(tuple(options.names)):
            runs.get(name, make)
    finish(STUDY, said, runs, told(runs.found))
    if any(name not in runs.found for name, _ in work()):
        write(runs.draft, runs.found)  # to go on from


if __name__ == "__main__":
    main()
