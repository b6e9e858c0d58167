"""From the recipe of 2017 to today's, one part at a time: the held-out loss of each, and its cost.

    python results/tweaks.py
    python results/tweaks.py --only base rotary

Small character models of Python's documentation, all trained for as many steps on the same batches,
all with as many parameters as `base`: the feed-forward network's hidden width makes up for what a
change adds or saves ("MoE" alone has more, and as many active ones). A variant is a list of
changes: one of them alone, or the first few of the path.

The rule for the learning rate is one for all: seed 0 is trained with each of three rates, and with
the next one, 2.5 times as large or as small, as long as the best stands at an end. The rate with
the lowest loss on the first half of the validation text is taken. The other seeds are then trained
with it, and their loss on the second half is what is reported.

A file in results/tweaks/ for each variant; it is written after each run, and the same command goes
on from there.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PostNorm, PreNorm, Stack
from attnbook.cache import KVCache
from attnbook.data import text
from attnbook.device import Here
from attnbook.efficient.latent import LatentAttention
from attnbook.efficient.sparse import Sparse
from attnbook.experts import MixtureOfExperts, active_parameters, balance_loss, expert_shares
from attnbook.feedforward import MLP, SwiGLU
from attnbook.inside.watch import watch
from attnbook.losses import parameters, token_loss
from attnbook.masks import local
from attnbook.norms import LayerNorm, RMSNorm
from attnbook.positions import Alibi, Rotary, Sinusoidal
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from attnbook.train.run import NonFiniteLoss
from attnbook.transformer import Embed, LanguageModel, Tied, initialise, normal, xavier
from bookkit.results import study
from bookkit.results.study import Config

Parts = dict[str, Any]  # the choices of a variant, by name
Runs = list[dict[str, Any]]  # what was stored of each run
CONFIG: Config = {"width": 48, "depth": 3, "heads": 4, "T": 64, "batch": 16, "steps": 400}
CONFIG |= {"warmup": 40, "floor": 0.1, "betas": [0.9, 0.98], "clip": 1.0}
CONFIG |= {"rates": [2e-3, 5e-3, 1.25e-2], "seeds": [1, 2, 3], "longer": [128, 256]}

BASE: Parts = {"wrap": PostNorm, "norm": LayerNorm, "gate": None, "bias": True, "start": "xavier"}
BASE |= {"positions": "sinusoidal", "qk_norm": False, "kv_heads": 4, "latent": None}
BASE |= {"window": None, "experts": None, "balance": 0.0}
MOE: Parts = {"experts": (8, 2), "balance": 0.01}
CHANGES: dict[str, Parts] = {
    "pre-norm": {"wrap": PreNorm},
    "RMSNorm": {"norm": RMSNorm},
    "no biases": {"bias": False},
    "SwiGLU": {"gate": nn.SiLU},
    "sigmoid gate": {"gate": nn.Sigmoid},
    "identity gate": {"gate": nn.Identity},
    "rotary": {"positions": "rotary"},
    "ALiBi": {"positions": "alibi"},
    "no positions": {"positions": None},
    "QK-norm": {"qk_norm": True},
    "grouped queries": {"kv_heads": 2},
    "one key head": {"kv_heads": 1},
    "latent": {"latent": (24, 8), "positions": "latent"},
    "sliding window": {"window": 16},
    "start of llama": {"start": "normal", "bias": False},
    "MoE": MOE,
    "MoE, equal total": MOE | {"equal": "total"},
    "MoE, no balance": MOE | {"balance": 0.0},
}
PATH = ["pre-norm", "RMSNorm", "SwiGLU", "rotary", "start of llama"]
PATH += ["QK-norm", "grouped queries", "MoE"]
LLAMA = PATH[:5]
ALONE = [name for name in CHANGES if name != "start of llama"]
VARIANTS: dict[str, list[str]] = {"base": []} | {name: [name] for name in ALONE}
VARIANTS |= {f"path {n}": PATH[:n] for n in range(2, len(PATH) + 1)}
VARIANTS |= {f"llama, {name}": [*LLAMA, name] for name in ("latent", "sliding window")}


class Gated(SwiGLU):
    """`SwiGLU` with another function in the gate."""

    def __init__(self, width: int, hidden: int, gate: Callable[[], nn.Module]) -> None:
        super().__init__(width, hidden)
        self.bend = gate()

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.bend(self.gate(x)) * self.up(x))


def attention(parts: Parts, config: Config) -> nn.Module:
    """The variant's self-attention."""
    width, heads = config["width"], config["heads"]
    if parts["latent"]:
        latent, turned = parts["latent"]
        return LatentAttention(width, heads, latent, Rotary(turned), RMSNorm(latent))
    D = width // heads
    rotate = Rotary(D) if parts["positions"] == "rotary" else None
    norm = RMSNorm(D) if parts["qk_norm"] else None  # of queries and keys, with one gain
    relative = Alibi(heads) if parts["positions"] == "alibi" else None
    made = MultiHeadAttention(
        width, heads, parts["kv_heads"], rotate, relative, parts["bias"], norm, norm
    )
    return Sparse(made, local(parts["window"])) if parts["window"] else made


def feedforward(parts: Parts, config: Config, hidden: int) -> nn.Module:
    """The variant's feed-forward network, or a mixture of several."""
    width = config["width"]

    def one() -> nn.Module:
        if parts["gate"]:
            return Gated(width, hidden, parts["gate"])
        return MLP(width, hidden, nn.ReLU(), parts["bias"])

    if not parts["experts"]:
        return one()
    count, active = parts["experts"]
    return MixtureOfExperts([one() for _ in range(count)], width, active)


def assemble(changes: Sequence[str], config: Config, V: int, hidden: int) -> LanguageModel:
    """Decoder of these parts: without changes `vaswani_2017`'s, after five of the path `llama`."""
    parts = parts_of(changes)
    width, small = config["width"], parts["start"] == "normal"

    def block() -> Block:
        part = attention(parts, config), feedforward(parts, config, hidden)
        return Block(*(parts["wrap"](each, parts["norm"](width)) for each in part))

    positions = Sinusoidal(width) if parts["positions"] == "sinusoidal" else None
    embed = Embed(V, width, positions, scale=1.0 if small else width**0.5)
    last = parts["norm"](width) if parts["wrap"] is PreNorm else None
    body = Stack([block() for _ in range(config["depth"])], last)
    lm_head = nn.Linear(width, V, bias=False) if small else Tied(embed)
    model = LanguageModel(embed, body, lm_head)
    return initialise(model, normal) if small else initialise(model, xavier, width**-0.5)


def parts_of(changes: Sequence[str]) -> Parts:
    parts = dict(BASE)
    for name in changes:
        parts |= CHANGES[name]
    return parts


def equal_hidden(changes: Sequence[str], config: Config, V: int) -> int:
    """The hidden width with which the variant has as many parameters as `base`, or nearly."""
    parts = parts_of(changes)
    count = parameters if parts.get("equal") == "total" else active_parameters
    with torch.device("meta"):
        goal = parameters(assemble([], config, V, 4 * config["width"]))
        one, two = (count(assemble(changes, config, V, hidden)) for hidden in (1, 2))
    return 1 + round((goal - one) / (two - one))


def build(changes: Sequence[str], config: Config, V: int) -> LanguageModel:
    return assemble(changes, config, V, equal_hidden(changes, config, V))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor], balance: float = 0.0) -> Tensor:
    """Mean cross-entropy of the next character, in nats; with experts, also their imbalance."""
    if not balance:
        return token_loss(model(batch[0]), batch[1])
    active = next(part.active for part in model.modules() if isinstance(part, MixtureOfExperts))
    with watch(model, MixtureOfExperts) as seen:
        value = token_loss(model(batch[0]), batch[1])
    return value + balance * sum(balance_loss(c, active) for c in seen.values()) / len(seen)


@torch.no_grad()
def cache_bytes(model: LanguageModel, config: Config) -> int:
    """What all layers together keep of one token, counted in the caches after reading some."""
    caches = model.caches()
    model(torch.zeros(1, 5, dtype=torch.long), caches)
    kept = [(cache.keys, cache.values) for cache in caches if isinstance(cache, KVCache)]
    assert len(kept) == len(caches)
    parts = [part for pair in kept for part in pair if part is not None]
    return sum(part.element_size() * part.shape[1] * part.shape[3] for part in parts)


@torch.no_grad()
def shares(model: nn.Module, inputs: Tensor) -> list | None:
    """Which part of the held-out tokens each expert works on, layer by layer."""
    layers = [part for part in model.modules() if isinstance(part, MixtureOfExperts)]
    if not layers:
        return None
    with watch(model, MixtureOfExperts) as seen:
        model(inputs)
    return [
        [round(share, 4) for share in expert_shares(c, layers[0].active).tolist()]
        for c in seen.values()
    ]


def one_run(changes: Sequence[str], config: Config, lr: float, seed: int, here: Here) -> dict:
    """Train once; the losses on both halves of the validation text, and a CPU's time for a step."""
    torch.manual_seed(seed)
    corpus = text.load()
    encode, T = corpus.characters.encode, config["T"]
    model = build(changes, config, len(corpus.characters)).to(here.device)
    held_out = encode(corpus.validation)
    middle = len(held_out) // 2
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=tuple(config["betas"]))
    run: dict[str, Any] = {"lr": lr, "seed": seed}
    began = time.process_time()
    try:
        train(
            model,
            text.windows(encode(corpus.train), T, config["batch"]),
            partial(loss, balance=parts_of(changes)["balance"]),
            steps=config["steps"],
            optimizer=optimizer,
            schedule=cosine(config["steps"], config["warmup"], config["floor"]),
            clip=config["clip"],
            seed=seed,
            progress=False,
        )
    except NonFiniteLoss:
        return run | {"choose": None, "report": None}
    spent = time.process_time() - began
    halves = {"choose": held_out[:middle], "report": held_out[middle:]}
    model.eval()

    def held_out_loss(part: Tensor, length: int) -> float:
        return round(study.held_out_loss(model, text.consecutive(part, length), here), 4)

    run |= {name: held_out_loss(part, T) for name, part in halves.items()}
    for longer in config["longer"]:
        run[f"report at {longer}"] = held_out_loss(halves["report"], longer)
    run["expert shares"] = shares(model, text.consecutive(halves["report"], T)[0].to(here.device))
    on_cpu = here.device.type == "cpu"
    return run | {"cpu_seconds_per_step": round(spent / config["steps"], 5) if on_cpu else None}


def described(name: str, config: Config) -> dict:
    """What is known of a variant before it is trained."""
    changes, V = VARIANTS[name], len(text.load().characters)
    model = build(changes, config, V)
    return {
        "variant": name,
        "changes": changes,
        "config": config,
        "hidden": equal_hidden(changes, config, V),
        "parameters": parameters(model),
        "active_parameters": active_parameters(model),
        "cache_bytes_per_token": cache_bytes(model, config),
    }


def summary(tuning: Runs, runs: Runs) -> dict:
    """The rate that was chosen; mean, standard deviation and the values over the seeds."""
    values = [run["report"] for run in runs]
    found = {"lr": chosen(tuning), "seeds": len(values), "values": values}
    if None in values:
        return found | {"mean": None, "spread": None}
    mean, spread = statistics.mean(values), statistics.stdev(values)
    return found | {"mean": round(mean, 4), "spread": round(spread, 4)}


def chosen(tuning: Runs) -> float:
    """The rate with the lowest loss on the half of the validation text that is for choosing."""
    finite = [run for run in tuning if run["choose"] is not None]
    return min(finite, key=lambda run: run["choose"])["lr"]


def beyond(tuning: Runs) -> float | None:
    """The next rate to try, while the best one is the largest or the smallest of those tried."""
    tried, best = sorted(run["lr"] for run in tuning), chosen(tuning)
    if best == tried[-1]:
        return float(f"{2.5 * best:.4g}")
    return float(f"{best / 2.5:.4g}") if best == tried[0] else None


def named(name: str) -> str:
    return name.replace(", ", ".").replace(" ", "-").lower()


def measure(name: str, config: Config, out: Path, here: Here) -> None:
    """All runs of a variant that are not stored yet."""
    stored = out / f"{named(name)}.json"
    result = described(name, config) | {"tuning": [], "runs": []}
    if stored.exists():
        there = json.loads(stored.read_text("utf-8"))
        if there["config"] != config or there["changes"] != VARIANTS[name]:
            raise SystemExit(f"{stored} holds other settings; move it away, or name another --out")
        result = there

    def store(kind: str, lr: float, seed: int) -> None:
        if any((run["lr"], run["seed"]) == (lr, seed) for run in result[kind]):
            return
        result[kind].append(one_run(VARIANTS[name], config, lr, seed, here))
        write(stored, result | {"provenance": provenance(here)})

    for lr in config["rates"]:
        store("tuning", lr, 0)
    while (lr := beyond(result["tuning"])) is not None:
        store("tuning", lr, 0)
    for seed in config["seeds"]:
        store("runs", chosen(result["tuning"]), seed)
    found = summary(result["tuning"], result["runs"])
    if result.get("summary") != found:
        write(stored, result | {"summary": found, "provenance": provenance(here)})
    print(f"{name}: {result['parameters']:,} parameters, rate {found['lr']}, {found['mean']} nats")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "tweaks")
    return parser


def main() -> None:
    options = arguments().parse_args()
    here = device.choose()
    for name in options.only:
        measure(name, CONFIG, options.out, here)


if __name__ == "__main__":
    main()
