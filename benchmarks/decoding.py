"""Tokens a second beside transformers' `generate`: same weights, same prompt, greedy.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --only "Llama, 110 million" --rounds 3

Two Llamas with random weights, one of the size of the book's own model and one of 110 million
parameters; one text and sixteen; one thread and two. Every way writes 32 tokens after 32 in each
round, and each round times all of them: `ratio` is the time of transformers' plain `generate` over
that of the way, above 1 the way is faster. Time is that of the clock, for two threads share the
work. transformers is also given its own static cache with a compiled step, and torch's dynamic
8 bits. The tokens of 32 bits are equal, or nothing is measured; of 8 bits it is said how many are.
The result goes to src/bookkit/runs/decoding.json, which the book reads; it is written after each
case.
"""

import argparse
import copy
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from models import from_theirs
from timing import clock
from torch import Tensor, nn

from attnbook import device
from attnbook.generate.sampling import generate
from attnbook.provenance import provenance, write
from attnbook.quantise.rounding import int8_kernel, quantised

MODELS = {  # as large as the book's own, and larger: V, width, depth, heads, hidden
    "Llama, 3 million": (1024, 256, 4, 4, 768),
    "Llama, 110 million": (32_000, 768, 12, 12, 2_304),
}
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "decoding.json"
GIVEN, MORE = 32, 32
PLAIN = "transformers"
Way = Callable[[], Tensor]


def config(V: int, width: int, depth: int, heads: int, hidden: int) -> transformers.LlamaConfig:
    """A Llama with two query heads for each head of keys, embedding and output tied."""
    found = transformers.LlamaConfig(
        vocab_size=V, hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads,
        num_key_value_heads=heads // 2, intermediate_size=hidden, tie_word_embeddings=True,
        max_position_embeddings=GIVEN + MORE, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    found._attn_implementation = "sdpa"
    return found


def stepped(model: nn.Module, step: Callable, caches: Any, start: Tensor) -> Tensor:
    """`MORE` tokens: the prompt is read by `model`, each token after it by `step`."""
    for kept in caches:
        kept.cut(0)
    new = model(start, caches)[:, -1].argmax(-1, keepdim=True)
    written = [start, new]
    for _ in range(MORE - 1):
        new = step(new, caches)[:, -1].argmax(-1, keepdim=True)
        written.append(new)
    return torch.cat(written, 1)


def our_ways(ours: nn.Module, start: Tensor) -> dict[str, Way]:
    """Plain, with a cache of fixed room and a compiled step, and that in 8 bits."""
    eight = quantised(copy.deepcopy(ours), 8, product=int8_kernel)
    found: dict[str, Way] = {"attnbook": partial(generate, ours, start, MORE)}
    for name, model in {"compiled": ours, "compiled, 8 bits": eight}.items():
        step, caches = torch.compile(model), model.caches(GIVEN + MORE)  # type: ignore[operator]
        found[f"attnbook, {name}"] = partial(stepped, model, step, caches, start)
    return found


def their_ways(theirs: Any, start: Tensor) -> dict[str, Way]:
    """As it is called by most, with all that it offers for speed, and in torch's 8 bits."""
    fixed = {"max_new_tokens": MORE, "min_new_tokens": MORE, "do_sample": False, "pad_token_id": 0}
    write_from = {"attention_mask": torch.ones_like(start), **fixed}
    compiling = transformers.CompileConfig(mode="default")
    compiling._compile_all_devices = True  # type: ignore[assignment]
    fast = {"cache_implementation": "static", "compile_config": compiling}
    eight = torch.ao.quantization.quantize_dynamic(copy.deepcopy(theirs), {nn.Linear})
    return {
        PLAIN: partial(theirs.generate, start, **write_from),
        f"{PLAIN}, compiled": partial(copy.deepcopy(theirs).generate, start, **write_from, **fast),
        f"{PLAIN}, 8 bits": partial(eight.generate, start, **write_from),
    }


@torch.no_grad()
def measure(model: str, B: int, threads: int, rounds: int) -> dict[str, Any]:
    """Milliseconds a token of every way, and its speed beside transformers' plain `generate`."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()  # a step is compiled for its number of threads
    torch.manual_seed(0)
    theirs: Any = transformers.AutoModelForCausalLM.from_config(config(*MODELS[model])).eval()
    start = torch.randint(MODELS[model][0], (B, GIVEN))
    ways = their_ways(theirs, start) | our_ways(from_theirs(theirs).eval(), start)
    written = {name: way() for name, way in ways.items()}
    for name, tokens in written.items():
        if "8 bits" not in name:
            assert torch.equal(tokens, written[PLAIN]), f"{name}: different tokens are written"
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            seconds[name].append(clock(ways[name]))
    sized = {"model": model, "parameters": theirs.num_parameters(), "B": B, "threads": threads}
    same = {
        name: (tokens == written[PLAIN])[:, GIVEN:].float().mean().item()
        for name, tokens in written.items()
    }
    return sized | {"rounds": rounds, "ways": told(seconds, same)}


def told(seconds: Mapping[str, list[float]], same: Mapping[str, float]) -> dict[str, Any]:
    """What is stored of each way: its median, speed round by round, and share of equal tokens."""
    return {
        name: {
            "ms a step": round(1e3 * median(found) / MORE, 3),
            "ratio": round(median(a / b for a, b in zip(seconds[PLAIN], found, strict=True)), 3),
            "all": [round(second, 4) for second in found],
            "same tokens": round(same[name], 4),
        }
        for name, found in seconds.items()
    }


def main() -> None:
    """Measure each case, print a line per way, store all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=STORE)
    options = parser.parse_args()
    here = device.choose()
    if here.device.type != "cpu":
        raise SystemExit("this measures processor time: set ATTNBOOK_DEVICE=cpu")
    cases = []
    for model in options.only:
        for threads in (1, 2):
            for B in (1, 16):
                cases.append(measure(model, B, threads, options.rounds))
                for name, way in cases[-1]["ways"].items():
                    print(model, B, threads, name, {k: way[k] for k in way if k != "all"})
                write(options.out, {"cases": cases, "provenance": provenance(here)})


if __name__ == "__main__":
    main()
