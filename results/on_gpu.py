"""The book's counts of time and memory, measured on one GPU: chapters 10, 14 and 17.

    python results/on_gpu.py                             # on a machine with a GPU, about a minute
    python results/on_gpu.py --small --out _build/g.json # every line in tiny sizes, on a CPU too
    python results/on_gpu.py check/ decode/ --onto OLD --out NEW --commit X   # these runs anew

Asked, and declared before the run (`STUDY`):

**roofline** (chapters 10, 17): operations a second of square products and of b rows times a matrix
of 4096 × 4096, bytes a second of a copy. At how many rows does a product leave the memory's roof?
Matrices are taken in turns, together larger than the cache of the chip.
**attention** (chapter 10): one causal layer, 16 heads of 64, bfloat16, 16,384 tokens in all, for
texts of 512 to 32,768. `table` is `attend`, which keeps the scores; `torch` is the kernel that the
module takes by itself; `flash` is that kernel by name; `flex` goes through the module's patterns,
causal and with a window of 1,024. From which length does the time of a token grow with the length?
What do tiles save in time and in memory, and what does a window save of what counting promises?
**decode** (chapter 17): a step of a Llama with 1.2 billion parameters (the sizes of Llama 3.2 1B),
the same with a key head for each query head, and one of 124 million; 1 to 256 texts that have 1,000
tokens each, in bfloat16, greedy. With the growing cache (also by other kernels than cuDNN's, which
is planned anew for each length), with the static one, and with all kernels of a step started by one
call (a CUDA graph). How near is a step to the time in which its weights
and caches can be read, and how much of it is the starting of kernels?
**check** (chapter 17): a call of k tokens after 1,000, as a draft is checked. **read**: a prompt.
**train** (chapter 14): a step of GPT-2's smallest, 8 texts of 1,024, by the recipe of `attnbook
train`: formats, stored scores, checkpoints, compiled blocks.

Times are milliseconds: median, first and third quartile over the repeats, by the GPU's own clock;
what is compiled or captured is warmed up first. Memory is GB (10⁹) above what was there before. A
run that fails is stored with its error. With `--seconds` spent, the rest is left out and named.
"""

import argparse
import gc
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from step_time import Again
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import clip_grad_norm_

from attnbook import device
from attnbook.attention import Attention, attend
from attnbook.losses import parameters, token_loss
from attnbook.masks import Grid, Pattern, causal, causal_mask, local
from attnbook.memo import MEMO
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.scores import Score, block_mask
from attnbook.train.optimizers import groups
from bookkit.results.protocol import Study

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "on_gpu.json"
STUDY = Study(
    name="on_gpu",
    question="Do counts of operations and bytes say what a GPU takes in time and memory?",
    budget="70 seconds of one GPU, compiling included",
    reporting_seeds=(0,),
    baselines=(
        "attention with its table of scores",
        "bytes over the measured bandwidth of a copy",
        "operations over the largest measured rate of a product",
    ),
    no_gain="a step of decoding far above its bytes even in one call; a window of 1,024 no faster "
    "than all keys at 32,768; tiles no faster than the table",
)
Run = Callable[[], Any]
Times = list[float]


@dataclass(frozen=True)
class Sizes:
    """What is measured: all of it, or tiny for a test."""

    squares: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    plain: tuple[int, ...] = (2048, 8192)  # of float32, TF32 and eight bits
    wide: int = 4096
    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    copied: int = 2**31  # bytes
    tokens: int = 16384
    heads: int = 16
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192, 16384, 32768)
    flexed: tuple[int, ...] = (32768, 8192, 4096, 2048)
    window: int = 1024
    texts: tuple[int, ...] = (1, 4, 16, 64, 256)
    past: int = 1000
    room: int = 1024
    checked: tuple[int, ...] = (1, 2, 4, 8, 16, 24)
    batch: int = 8
    T: int = 1024
    repeats: int = 12


FULL = Sizes()
TINY = Sizes(
    (16, 32), (32,), 32, (1, 4), 2**12, 64, 2, (16, 32), (32, 16),
    8, (1, 2), 12, 16, (1, 2), 2, 8, 3,
)  # fmt: skip
BILLION = {
    "V": 128_256, "width": 2048, "depth": 16, "heads": 32, "kv_heads": 8, "hidden": 8192,
    "tie": True,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "1.2 billion": BILLION,
    "1.2 billion, full heads": BILLION | {"kv_heads": 32},
    "124 million": {
        "V": 50_257, "width": 768, "depth": 12, "heads": 12, "kv_heads": 12, "hidden": 2048,
        "tie": True,
    },
}  # fmt: skip
TINY_MODEL = {"V": 50, "width": 32, "depth": 2, "heads": 4, "kv_heads": 2, "hidden": 48}
GPT2 = {"V": 50_257, "T": 1024, "width": 768, "depth": 12, "heads": 12}
TINY_GPT2 = {"V": 50, "T": 8, "width": 32, "depth": 2, "heads": 4}
OTHERS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
FORMATS = {
    "float32": (torch.float32, "highest"),
    "TF32": (torch.float32, "high"),
    "bfloat16": (torch.bfloat16, "highest"),
}


class Resident(Rotary):
    """A rotation whose frequencies stay on the device: a step that copies them from the CPU cannot
    be captured as a CUDA graph."""

    def __init__(self, D: int, base: float) -> None:
        super().__init__(D, base)
        self.there = torch.tensor(self.frequencies, dtype=torch.float32)  # no buffer: stays float32

    def angles(self, positions: Tensor) -> Tensor:
        return positions[..., None] * self.there


class Bench:
    """A device, the sizes, and how a call is timed on it."""

    def __init__(self, where: torch.device, sizes: Sizes) -> None:
        self.where, self.sizes, self.gpu = where, sizes, where.type == "cuda"

    def random(self, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.randn(*shape, dtype=dtype, device=self.where)

    def wait(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def timed(self, run: Run, inner: int = 1, repeats: int = 0, warm: int = 3) -> Times:
        """Milliseconds of one call: median and quartiles of the repeats, of `inner` calls each."""
        for _ in range(warm):
            run()
        self.wait()
        count = repeats or self.sizes.repeats
        if self.gpu:
            ends = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(count)]
            for first, last in ends:
                first.record()
                for _ in range(inner):
                    run()
                last.record()
            self.wait()
            taken = [first.elapsed_time(last) for first, last in ends]
        else:
            taken = []
            for _ in range(count):
                begin = time.perf_counter()
                for _ in range(inner):
                    run()
                taken.append(1000 * (time.perf_counter() - begin))
        low, middle, high = quantiles((ms / inner for ms in taken), n=4, method="inclusive")
        return [float(f"{ms:.4g}") for ms in (middle, low, high)]

    def graphed(self, run: Run) -> Run:
        """The same kernels, started by one call; on a CPU the call itself."""
        if not self.gpu:
            return run
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    def most(self, run: Run) -> float | None:
        """GB that a call holds at most, above what was there before it."""
        if not self.gpu:
            run()
            return None
        self.wait()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        self.wait()
        return round((torch.cuda.max_memory_allocated() - before) / 1e9, 4)

    def freed(self, collect: bool = True) -> None:
        """What nobody holds any more is given back; `collect`: what only cycles hold, too."""
        if self.gpu and collect:
            gc.collect()
        if self.gpu:
            torch.cuda.empty_cache()

    # ---- roofline

    def square(self, n: int, kind: str) -> dict[str, Any]:
        """n × n times n × n: started one by one, and twenty of them in one call."""
        dtype, precision = FORMATS[kind]
        torch.set_float32_matmul_precision(precision)
        a, b = self.random(n, n, dtype=dtype), self.random(n, n, dtype=dtype)
        product = partial(torch.mm, a, b)
        try:
            return {"ms": self.timed(product, self.inner(n)), **self.together(product, n)}
        finally:
            torch.set_float32_matmul_precision("highest")

    def eight_bits(self, n: int) -> dict[str, Any]:
        """The same in float8 (e4m3), one scale for a matrix."""
        a, b = (self.random(n, n).to(torch.float8_e4m3fn) for _ in "ab")
        one, b = torch.ones((), device=self.where), b.t()
        half = torch.bfloat16
        product = partial(torch._scaled_mm, a, b, one, one, out_dtype=half, use_fast_accum=True)
        return {"ms": self.timed(product, self.inner(n))}

    def inner(self, n: int) -> int:
        return 20 if n <= 2048 else 1

    def together(self, run: Run, n: int) -> dict[str, Any]:
        if n > 2048:
            return {}

        def many() -> None:
            for _ in range(20):
                run()

        return {"graph": [ms / 20 for ms in self.timed(self.graphed(many))]}

    def rows(self, b: int) -> dict[str, Any]:
        """b rows times a matrix, sixteen matrices in turns: none is in the chip's cache yet."""
        wide = self.sizes.wide
        matrices, x = self.matrices(), self.random(b, wide)

        def all_of_them() -> None:
            for W in matrices:
                F.linear(x, W)

        count = len(matrices)
        found = {"ms": self.timed(all_of_them), "graph": self.timed(self.graphed(all_of_them))}
        return {name: [ms / count for ms in times] for name, times in found.items()}

    @lru_cache(maxsize=1)  # noqa: B019  # one bench in a process
    def matrices(self) -> list[Tensor]:
        return [self.random(self.sizes.wide, self.sizes.wide) for _ in range(16)]

    def copy(self) -> dict[str, Any]:
        """A copy, which reads and writes each byte, and a sum, which reads."""
        x = self.random(self.sizes.copied // 2)
        y = torch.empty_like(x)
        found = {"bytes": x.nbytes, "ms": self.timed(partial(y.copy_, x))}
        return found | {"read": self.timed(partial(torch.amax, x, 0))}

    def launch(self) -> dict[str, Any]:
        """An addition to one number, 200 of them: one by one, and in one call."""
        x = torch.zeros(1, device=self.where)

        def many() -> None:
            for _ in range(200):
                x.add_(1)

        found = {"ms": self.timed(many), "graph": self.timed(self.graphed(many))}
        return {name: [ms / 200 for ms in times] for name, times in found.items()}

    def clocks(self) -> dict[str, Any]:
        """What the card says of itself while it computes large products."""
        n = max(self.sizes.squares)
        a, b = self.random(n, n), self.random(n, n)
        for _ in range(80):
            torch.mm(a, b)
        found = card(self.where)
        self.wait()
        return found

    # ---- attention

    def attention(self, way: str, T: int) -> dict[str, Any]:
        """One layer's attention, forward, and forward and backward; time and memory of both."""
        sizes = self.sizes
        B, H = max(1, sizes.tokens // T), sizes.heads
        q, k, v = (self.random(B, H, T, 64).requires_grad_() for _ in "qkv")
        upstream = self.random(B, H, T, 64)
        found: dict[str, Any] = {"B": B}
        run = self.way(way, B, T, found)
        opened = MEMO.set({})  # a pattern's blocks are made once, as for the layers of a model
        try:

            def forward() -> Tensor:
                with nullcontext() if "flex" in way else torch.no_grad():
                    return run(q, k, v)

            def both() -> tuple[Tensor, ...]:
                return torch.autograd.grad(run(q, k, v), (q, k, v), upstream)

            for name, call in (("forward", forward), ("both", both)):
                if call is both and not self.gpu and "flex" in way:
                    continue  # without a GPU torch computes no gradients of it
                try:
                    begin = time.perf_counter()
                    call()
                    self.wait()
                    first = time.perf_counter() - begin
                    memory = self.most(call)
                    found[name] = {"GB": memory, "ms": self.timed(call, warm=1)}
                    found[name]["first call, s"] = round(first, 3)
                except torch.OutOfMemoryError as error:
                    found[name] = {"error": said(error)}
                    self.freed()
        finally:
            MEMO.reset(opened)
        return found

    def way(self, way: str, B: int, T: int, found: dict[str, Any]) -> Callable[..., Tensor]:
        """The function of q, k and v that a name means; what is to know of it goes to `found`."""
        if way == "table":
            mask = causal_mask(T, device=self.where)
            return lambda q, k, v: attend(q, k, v, mask)[0]
        if way == "flash":

            def by_name(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=True)

            return by_name
        H, score, grid = self.sizes.heads, Score(), Grid(B, T, T, self.where)
        pattern: Pattern = causal
        if way == "torch":
            q, k, v = (self.random(B, H, T, 64) for _ in "qkv")
            with suppress(Exception):  # only told beside the times
                chosen = torch._fused_sdp_choice(q, k, v, None, 0.0, True)
                found["kernel"] = SDPBackend(chosen).name
        else:
            score.flex = True
            pattern = causal & local(self.sizes.window) if "window" in way else causal
            make = partial(block_mask, pattern, grid)
            if self.gpu:
                found["blocks"] = {"GB": self.most(make), "ms": self.timed(make, repeats=3, warm=1)}

        def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            output = score.fused(q, k, v, pattern, grid)
            assert output is not None
            return output

        return fused

    # ---- decoding

    @lru_cache(maxsize=1)  # noqa: B019  # one model at a time
    def model(self, name: str, resident: bool) -> nn.Module:
        """A Llama with random weights in bfloat16."""
        small = self.sizes is TINY
        sizes: dict[str, Any] = {**TINY_MODEL, "tie": True} if small else MODELS[name]
        D = sizes["width"] // sizes["heads"]
        torch.manual_seed(0)
        with torch.device(self.where):
            made = llama(**sizes, rotations=[(Resident if resident else Rotary)(D, 500_000.0)])
        return made.to(torch.bfloat16).eval()

    def filled(self, model: Any, B: int, fixed: bool) -> list[Any]:
        """Caches that hold `past` positions of random keys and values for each text."""
        caches = model.caches(self.sizes.room if fixed else None)
        layer = next(part for part in model.modules() if isinstance(part, Attention))
        D = layer.project.D  # type: ignore[attr-defined]
        shape = B, layer.kv_heads, self.sizes.past, D
        for kept in caches:
            kept.append(self.random(*shape), self.random(*shape))
        return caches

    def facts(self, model: nn.Module, B: int, fixed: bool) -> dict[str, Any]:
        """Bytes that a step has to read: all weights once, and each text's keys and values."""
        layers = [part for part in model.modules() if isinstance(part, Attention)]
        numbers = sum(2 * x.kv_heads * x.project.D for x in layers)  # type: ignore[attr-defined]
        keys = self.sizes.room if fixed else self.sizes.past
        weights = sum(w.nbytes for w in model.parameters())
        return {"weights": weights, "caches": 2 * numbers * B * keys}

    @torch.no_grad()
    def decode(self, name: str, way: str, B: int) -> dict[str, Any]:
        """A step of greedy writing: the model, the likeliest token."""
        fixed = not way.startswith("growing cache")
        model = self.model(name, fixed)
        if way == "compiled, in one call":
            self.compile(model)
        caches = self.filled(model, B, fixed)
        new = torch.zeros(B, 1, dtype=torch.long, device=self.where)
        at = torch.full((), self.sizes.past, device=self.where)

        def growing() -> Tensor:
            new.copy_(model(new, caches)[:, -1].argmax(-1, keepdim=True))
            return new

        def static() -> Tensor:
            for kept in caches:
                kept.cut(at)  # the same position again and again: as much work, and room enough
            return model(new, caches)[:, -1].argmax(-1, keepdim=True)

        found = self.facts(model, B, fixed)
        if not fixed:
            with sdpa_kernel(OTHERS) if "other" in way else nullcontext():
                return found | {"ms": self.timed(growing)}
        if way == "static cache":
            return found | {"ms": self.timed(static)}
        begin = time.perf_counter()
        step = self.graphed(static)
        self.wait()
        found["first call, s"] = round(time.perf_counter() - begin, 2)
        return found | {"ms": self.timed(step)}

    def compile(self, model: Any) -> None:
        """Each block compiled, as `attnbook train --compile` does it: they share one code."""
        for block in model.body.blocks:
            block.compile()
        Bench.model.cache_clear()

    @torch.no_grad()
    def check(self, name: str, k: int) -> dict[str, Any]:
        """A call that reads k tokens after `past` others, as a draft is checked."""
        model = self.model(name, True)
        caches = self.filled(model, 1, True)
        new = torch.zeros(1, k, dtype=torch.long, device=self.where)
        at = torch.full((), self.sizes.past, device=self.where)

        def call() -> Tensor:
            for kept in caches:
                kept.cut(at)
            return model(new, caches).argmax(-1)

        return {"ms": self.timed(call), "graph": self.timed(self.graphed(call))}

    @torch.no_grad()
    def read(self, name: str, B: int) -> dict[str, Any]:
        """Prompts of `past` tokens into empty caches."""
        model: Any = self.model(name, False)
        prompt = torch.zeros(B, self.sizes.past, dtype=torch.long, device=self.where)
        return {"ms": self.timed(lambda: model(prompt, model.caches(), last=1), repeats=5)}

    # ---- training

    def train(self, way: str) -> dict[str, Any]:
        """A step: forward, backward, clipping, AdamW."""
        sizes: dict[str, Any] = dict(TINY_GPT2 if self.sizes is TINY else GPT2)
        if "50,304" in way:
            sizes["V"] = -(-sizes["V"] // 128) * 128
        torch.manual_seed(0)
        with torch.device(self.where):
            model: Any = gpt2(**sizes, dropout=0.0)
            batch = torch.randint(sizes["V"], (self.sizes.batch, self.sizes.T + 1))
        self.changed(model, way)
        optimizer = torch.optim.AdamW(groups(model, 6e-4, 0.1), lr=6e-4, betas=(0.9, 0.95))
        half = partial(torch.autocast, self.where.type, dtype=torch.bfloat16)
        precision = half if "bfloat16" in way else nullcontext

        def step() -> Tensor:
            optimizer.zero_grad()
            with precision():
                logits = model(batch[:, :-1])
            loss = token_loss(logits.float(), batch[:, 1:])
            loss.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        torch.set_float32_matmul_precision("high" if "TF32" in way else "highest")
        try:
            begin = time.perf_counter()
            loss = step().item()
            first = time.perf_counter() - begin
            N, C = parameters(model), sizes["width"]
            flops = 6 * N + 12 * sizes["depth"] * C * self.sizes.T
            found = {"parameters": N, "FLOPs of a token": flops, "first loss": round(loss, 3)}
            found |= {"tokens": batch[:, 1:].numel(), "first call, s": round(first, 2)}
            if self.gpu:
                found["GB held"] = round(torch.cuda.memory_allocated() / 1e9, 3)
            return found | {"ms": self.timed(step, repeats=8, warm=2), "GB": self.most(step)}
        finally:
            torch.set_float32_matmul_precision("highest")

    def changed(self, model: Any, way: str) -> None:
        """What a way to train does to the model."""
        if "checkpoints" in way:
            model.body.blocks = nn.ModuleList(Again(block) for block in model.body.blocks)
        if "scores kept" in way:
            for part in model.modules():
                if isinstance(part, Attention):
                    part.on_weights = lambda weights: None
        if "compiled" in way:
            for block in model.body.blocks:
                block.compile()


def work(bench: Bench) -> Iterator[tuple[str, Run]]:
    """Each run's name, and what makes it; what matters most comes first, what is compiled last."""
    sizes = bench.sizes
    yield "copy", bench.copy
    yield "launch", bench.launch
    for n in sizes.squares:
        yield f"square/bfloat16/{n}", partial(bench.square, n, "bfloat16")
    for b in sizes.rows:
        yield f"rows/{b}", partial(bench.rows, b)
    yield "clocks", bench.clocks
    for n in sizes.plain:
        for kind in ("float32", "TF32"):
            yield f"square/{kind}/{n}", partial(bench.square, n, kind)
        yield f"square/float8/{n}", partial(bench.eight_bits, n)
    for T in sizes.lengths:
        for way in ("table", "torch", "flash"):
            yield f"attention/{way}/{T}", partial(bench.attention, way, T)
    name = "1.2 billion"
    for B in sizes.texts:
        yield f"decode/{name}/growing cache/{B}", partial(bench.decode, name, "growing cache", B)
    other = "growing cache, other kernels"
    for B in (1, 16):
        yield f"decode/{name}/{other}/{B}", partial(bench.decode, name, other, B)
    for B in (1, 16):
        yield f"read/{name}/{B}", partial(bench.read, name, B)
    for way in ("static cache", "in one call"):
        for B in sizes.texts:
            yield f"decode/{name}/{way}/{B}", partial(bench.decode, name, way, B)
    for k in sizes.checked:
        yield f"check/{name}/{k}", partial(bench.check, name, k)
    full, small = "1.2 billion, full heads", "124 million"
    for each, ways in ((full, ("in one call",)), (small, ("growing cache", "in one call"))):
        for way in ways:
            for B in sizes.texts:
                yield f"decode/{each}/{way}/{B}", partial(bench.decode, each, way, B)
    for way in ("bfloat16", "float32", "TF32", "bfloat16, scores kept", "bfloat16, checkpoints",
                "bfloat16, 50,304 tokens"):  # fmt: skip
        yield f"train/{way}", partial(bench.train, way)
    long, shorter = sizes.flexed[:2], sizes.flexed[2:]
    for T in long:
        yield f"attention/flex, window/{T}", partial(bench.attention, "flex, window", T)
    compiled = "compiled, in one call"
    for B in (1, 16):
        yield f"decode/{name}/{compiled}/{B}", partial(bench.decode, name, compiled, B)
    yield "train/bfloat16, compiled", partial(bench.train, "bfloat16, compiled")
    for T in (*long, *shorter):
        yield f"attention/flex, causal/{T}", partial(bench.attention, "flex, causal", T)
    for T in shorter:
        yield f"attention/flex, window/{T}", partial(bench.attention, "flex, window", T)


def said(error: BaseException) -> str:
    """The name of an error and the beginning of what it says, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}"


def card(where: torch.device) -> dict[str, Any]:
    """The GPU's name, memory, units and clocks, as it says them itself."""
    if where.type != "cuda":
        return {"name": "no GPU"}
    found = torch.cuda.get_device_properties(where)
    asked = "clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu,driver_version"
    try:
        call = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"]
        answer = subprocess.run(call, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        answer = said(error)
    return {
        "name": found.name,
        "memory": found.total_memory,
        "multiprocessors": found.multi_processor_count,
        "cuda": torch.version.cuda,
        asked: answer,
    }


def short(found: Any) -> Any:
    """Four digits of each measured number are enough."""
    if isinstance(found, dict):
        return {name: short(value) for name, value in found.items()}
    if isinstance(found, list):
        return [short(value) for value in found]
    return float(f"{found:.4g}") if isinstance(found, float) else found


def onto(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """An earlier result of the same card and sizes with later runs in place of its own; those say
    what commit they are of."""
    for key in ("card", "small", "models"):
        if earlier[key] != later[key]:
            raise ValueError(f"another {key}: {earlier[key]} and {later[key]}")
    origin = later["provenance"]
    runs = {name: one | {"commit": origin["commit"]} for name, one in later["runs"].items()}
    again = [
        *earlier.get("measured again", []),
        {"provenance": origin, "seconds": later["seconds"]},
    ]
    return earlier | {"runs": earlier["runs"] | runs, "measured again": again}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=[""], help="beginnings of names of runs")
    parser.add_argument("--seconds", type=float, default=70, help="after them the rest is left out")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to test every line")
    parser.add_argument("--commit", help="of this code, where there is no git")
    parser.add_argument("--onto", type=Path, help="a result whose other runs are kept in --out")
    parser.add_argument("--out", type=Path, default=STORE)
    options = parser.parse_args()
    begin = time.perf_counter()
    here = device.choose(0)
    if options.small and options.out == STORE:
        parser.error("tiny sizes are no result: name another --out")
    if not options.small and here.device.type != "cuda":
        parser.error("there is no GPU here; --small tests every line without one")
    bench = Bench(here.device, TINY if options.small else FULL)
    if bench.gpu:
        gc.freeze()  # what was imported stays: a collection need not look at it again
    origin = provenance(here)
    origin |= {"commit": options.commit} if options.commit else {}
    result: dict[str, Any] = {
        "study": STUDY.declared(),
        "small": options.small,
        "card": card(here.device)["name"],
        "units": "ms: median, first and third quartile; GB: 10⁹ bytes; weights, caches: bytes",
        "sizes": vars(bench.sizes),
        "models": MODELS | {"GPT-2": GPT2},
        "runs": {},
        "left out": [],
        "provenance": origin,
    }
    torch._dynamo.config.recompile_limit = 64
    kind = ""
    for name, make in work(bench):
        if not name.startswith(tuple(options.names)):
            continue
        if time.perf_counter() - begin > options.seconds:
            result["left out"].append(name)
            continue
        another, kind = name.split("/")[0] != kind, name.split("/")[0]
        if another:  # what the last kind of run has kept goes
            Bench.matrices.cache_clear()
        if another and kind in ("attention", "train"):
            Bench.model.cache_clear()
        bench.freed(another or kind == "train")
        start = time.perf_counter()
        torch.manual_seed(0)
        try:
            found = make()
        except Exception as error:  # a part that fails must not take the others with it
            found, kind = {"error": said(error)}, ""
        found["seconds"] = time.perf_counter() - start
        result["runs"][name] = short(found)
        print(f"{time.perf_counter() - begin:6.1f} {name}", str(result["runs"][name]), flush=True)
        write(options.out, result)
    result["seconds"] = round(time.perf_counter() - begin, 1)
    write(
        options.out,
        onto(json.loads(options.onto.read_text("utf-8")), result) if options.onto else result,
    )


if __name__ == "__main__":
    main()
