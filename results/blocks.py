"""What the parts of a block are for, and what depth buys: the stored tables of chapter 6.

    python results/blocks.py            # all studies, resumed run by run

Ablation: digits backwards, 80 steps of Adam at 0.005, width 32, five variants of the block, five
seeds, the mean loss of the last ten steps. A run that reaches no finite loss is stored as null.
Twelve blocks were trained with five other learning rates, too. "No norm, small start" divides the
matrices that write to the stream by √(2N) for N blocks, as GPT-2 does.

Adding: the sum of a digit and the one before it, modulo 10, by one pre-norm block with a network,
with two more attentions in its place, or with a network without activation: the mean loss of the 15
steps before steps 220, 500 and 1,500 of Adam at 0.005, batches of 32.

Depth: the number of the person 1, 2 or 3 steps along the ring, 500 steps of batches of 64, three
models of about 50,000 parameters. Each model gets the best of three learning rates for each number
of steps, chosen by the mean over all five seeds.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PostNorm, PreNorm, Stack
from attnbook.data import ring
from attnbook.feedforward import MLP
from attnbook.losses import parameters, token_loss
from attnbook.norms import LayerNorm
from attnbook.positions import Sinusoidal
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from attnbook.train.run import NonFiniteLoss
from attnbook.transformer import Embed, MaskedLanguageModel, initialise, xavier

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "blocks.json"
SEEDS = range(5)
DEPTHS = (2, 6, 12)
RATES = (0.0015, 0.003, 0.006)
RATE, OTHERS = 0.005, (0.0002, 0.0005, 0.0015, 0.015, 0.03)  # of the ablation
MOMENTS = (220, 500, 1500)
SHAPES = {"1 block of width 64": (1, 64), "2 blocks of width 44": (2, 44)}
SHAPES["4 blocks of width 32"] = (4, 32)


class Bare(nn.Module):
    """A part behind its norm without a residual connection."""

    def __init__(self, sublayer: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.sublayer, self.norm = sublayer, norm

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        return self.sublayer(self.norm(x), **given)


Wrap = Callable[[nn.Module, nn.Module], nn.Module]
VARIANTS: dict[str, tuple[Wrap, Callable[[int], nn.Module]]] = {
    "pre-norm": (PreNorm, LayerNorm),
    "post-norm": (PostNorm, LayerNorm),
    "no residual": (Bare, LayerNorm),
    "no norm": (PreNorm, nn.Identity),
    "no norm, small start": (PreNorm, nn.Identity),
}


def stack(
    wrap: Wrap, norm: Callable[[int], nn.Module], depth: int, width: int, heads: int
) -> Stack:
    """`depth` blocks of attention and network, each part wrapped, and a last norm."""

    def block() -> Block:
        attention = wrap(MultiHeadAttention(width, heads), norm(width))
        return Block(attention, wrap(MLP(width, 4 * width), norm(width)))

    return Stack([block() for _ in range(depth)], norm(width))


def reversing(generator: torch.Generator, B: int = 32, T: int = 6) -> tuple[Tensor, Tensor]:
    """Six digits, to be written backwards."""
    x = torch.randint(10, (B, T), generator=generator)
    return x, x.flip(1)


def ablation(name: str, depth: int, seed: int, rate: float = RATE) -> float | None:
    """Mean loss of the last ten of 80 steps, in nats; None if it became infinite on the way."""
    torch.manual_seed(seed)
    wrap, norm = VARIANTS[name]
    body = stack(wrap, norm, depth, width=32, heads=4)
    model = MaskedLanguageModel(Embed(10, 32, Sinusoidal(32)), body, nn.Linear(32, 10))
    initialise(model, xavier, embedding_std=1.0)
    if "small start" in name:
        quieter(body)
    try:
        losses = train(model, reversing, loss, steps=80, lr=rate, seed=seed, progress=False).loss
    except NonFiniteLoss:
        return None
    return round(sum(losses[-10:]) / 10, 4)


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the answers, in nats."""
    return token_loss(model(batch[0]), batch[1])


@torch.no_grad()
def quieter(body: Stack) -> None:
    """Divide what writes to the stream by √(2N) for N blocks. Radford et al. 2019, section 2.3."""
    for name, weight in body.named_parameters():
        if name.endswith(("to_out.weight", "down.weight")):
            weight.div_((2 * len(body.blocks)) ** 0.5)


def adding(generator: torch.Generator, B: int = 32, T: int = 6) -> tuple[Tensor, Tensor]:
    """Digits, and at each position the sum of the digit and the one before it, modulo 10."""
    x = torch.randint(10, (B, T), generator=generator)
    return x, (x + x.roll(1, dims=1)) % 10


KINDS: dict[str, Callable[[], nn.Module]] = {
    "network": lambda: MLP(32, 128),
    "two more attentions": lambda: nn.Sequential(
        MultiHeadAttention(32, 4), PreNorm(MultiHeadAttention(32, 4), LayerNorm(32))
    ),
    "no activation": lambda: MLP(32, 128, activation=nn.Identity()),
}


def adding_study(name: str, seed: int) -> list[float]:
    """The loss of one block at each of `MOMENTS`."""
    torch.manual_seed(seed)
    attention = PreNorm(MultiHeadAttention(32, 4), LayerNorm(32))
    body = Stack([Block(attention, PreNorm(KINDS[name](), LayerNorm(32)))], LayerNorm(32))
    model = MaskedLanguageModel(Embed(10, 32, Sinusoidal(32)), body, nn.Linear(32, 10))
    initialise(model, xavier, embedding_std=1.0)
    steps = MOMENTS[-1]
    losses = train(model, adding, loss, steps=steps, lr=RATE, seed=seed, progress=False).loss
    return [round(sum(losses[moment - 15 : moment]) / 15, 4) for moment in MOMENTS]


class Walker(nn.Module):
    """Blocks over the six people of the ring, and a layer that reads the number off."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.embed, self.read = nn.Linear(ring.C, width), nn.Linear(width, ring.V)
        self.body = stack(PreNorm, LayerNorm, depth, width, heads=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.body(self.embed(x)))


def depth_study(steps: int, name: str, rate: float, seed: int) -> float:
    """Share of right answers on 1,000 new rings."""
    torch.manual_seed(seed)
    model, task = Walker(*SHAPES[name]), ring.steps_along(steps)
    schedule = cosine(500, 30)
    train(model, task, loss, steps=500, lr=rate, schedule=schedule, seed=seed, progress=False)
    with torch.no_grad():
        x, y = task(torch.Generator().manual_seed(99), B=1000)
        return round((model(x).argmax(-1) == y).float().mean().item(), 3)


def work() -> Iterator[Any]:
    """Every run: its key in the file, and what computes it."""
    for depth, name, seed in itertools.product(DEPTHS, VARIANTS, SEEDS):
        yield f"ablation/{name}/{depth}/{seed}", lambda a=(name, depth, seed): ablation(*a)
    for name, rate, seed in itertools.product(VARIANTS, OTHERS, SEEDS):
        yield f"rate/{name}/{rate}/{seed}", lambda a=(name, 12, seed, rate): ablation(*a)
    for name, seed in itertools.product(KINDS, SEEDS):
        yield f"adding/{name}/{seed}", lambda a=(name, seed): adding_study(*a)
    for steps, name, rate, seed in itertools.product((1, 2, 3), SHAPES, RATES, SEEDS):
        yield (
            f"depth/{steps}/{name}/{rate}/{seed}",
            lambda a=(steps, name, rate, seed): depth_study(*a),
        )


def best(runs: dict[str, Any], steps: int, name: str) -> tuple[float, list[float]]:
    """The rate with the highest mean, and the five shares reached with it."""
    at = {rate: [runs[f"depth/{steps}/{name}/{rate}/{seed}"] for seed in SEEDS] for rate in RATES}
    rate = max(at, key=lambda rate: sum(at[rate]))
    return rate, at[rate]


def summary(runs: dict[str, Any]) -> dict:
    """What the chapter shows, from all the single runs."""
    chosen = {s: {name: best(runs, s, name) for name in SHAPES} for s in (1, 2, 3)}
    return {
        "ablation": {
            name: {d: [runs[f"ablation/{name}/{d}/{seed}"] for seed in SEEDS] for d in DEPTHS}
            for name in VARIANTS
        },
        "ablation rates": {
            name: {rate: [runs[f"rate/{name}/{rate}/{seed}"] for seed in SEEDS] for rate in OTHERS}
            for name in VARIANTS
        },
        "adding": {name: [runs[f"adding/{name}/{seed}"] for seed in SEEDS] for name in KINDS},
        "depth": {
            s: {name: shares for name, (_, shares) in row.items()} for s, row in chosen.items()
        },
        "rates": {s: {name: rate for name, (rate, _) in row.items()} for s, row in chosen.items()},
        "parameters": {name: parameters(Walker(*shape)) for name, shape in SHAPES.items()},
    }


def main() -> None:
    torch.set_num_threads(1)
    here = device.choose(0)
    partial = Path(__file__).parent / "blocks.draft"
    before = json.loads(STORE.read_text()) if STORE.exists() else {}
    runs = json.loads(partial.read_text()) if partial.exists() else before.get("runs", {})
    for key, compute in work():
        if key not in runs:
            runs[key] = compute()
            write(partial, runs)
            print(key, runs[key], flush=True)
    made: dict[str, Any] = {"provenance": provenance(here)}
    if before:  # what was there already was made then
        made["earlier"] = [*before.get("earlier", []), before["provenance"]]
    write(STORE, summary(runs) | {"runs": runs} | made)
    partial.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
