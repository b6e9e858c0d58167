"""Parts of today's block, each put in place of another and everything else left as it is.

    python results/parts.py                      # all studies, resumed run by run
    python results/parts.py --only experts       # one of them

A language model of the characters of Python's documentation: two blocks of width 48 (`CONFIG`),
today's parts where nothing else is said, 200 steps of Adam with a cosine, 16 windows of 64.
Experts: eight of which two work, balanced in four ways; sixteen of half the width, three and a
shared one working; one network as wide as what works on a token. Heads: four of keys and values,
two, one, a latent vector; a gate; a sink; all at equal parameters. Stack: windows of 8 and full
layers, four blocks, also at 256 characters. In these three each model has its own learning rate,
the best of three by the first half of the held-out text with seed 9; then five other seeds, on the
second half. Norms: four places in twelve blocks of width 32 at three rates. Scores: what keeps
them small, under Muon at its rate and at five times it. Five seeds of each, all reported.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from recurrence import SEEDS, TUNE
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import Attention, MultiHeadAttention, SigmoidGate
from attnbook.block import Block, PostNorm, PreNorm, Residual, Stack
from attnbook.data import text
from attnbook.efficient.latent import LatentAttention
from attnbook.experts import BiasBalance, MixtureOfExperts, SigmoidTopK, balance_loss, expert_shares
from attnbook.feedforward import SwiGLU
from attnbook.inside.watch import watch
from attnbook.losses import parameters, token_loss
from attnbook.masks import local
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.scores import Score
from attnbook.train.loop import cosine, train
from attnbook.train.optimizers import muon_and_adamw
from attnbook.train.qk_clip import largest_scores, qk_clip
from attnbook.transformer import Embed, LanguageModel, Tied, initialise, xavier

Part = Callable[[], nn.Module]
Kind = dict[str, Any]
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "parts.json"
C, T, B, HEADS, STEPS, HIDDEN = 48, 64, 16, 4, 200, 128
RATES = (0.005, 0.01, 0.02)
NORM_RATES, MUON_RATES = (0.003, 0.01, 0.03), (0.02, 0.1)
TAU = CAP = 20.0

EXPERTS: dict[str, Kind] = {
    "one network": {"dense": True},
    "no balance": {},
    "loss, weight 0.01": {"loss": 0.01},
    "loss, weight 0.1": {"loss": 0.1},
    "bias": {"bias": 0.01},
    "bias, 16 small and a shared one": {"bias": 0.01, "small": True},
}
LOOKS: dict[str, Kind] = {
    "4 key heads (MHA)": {},
    "2 key heads (GQA)": {"kv": 2},
    "1 key head (MQA)": {"kv": 1},
    "latent of 16 + 8 (MLA)": {"latent": 16},
    "MHA and a gate": {"gate": True},
    "MHA and a sink": {"sink": True},
}
STACKS = {"full ×4": "ffff", "window ×4": "wwww", "window ×3, full": "wwwf"}
STACKS |= {"window ×3, full without positions": "wwwn"}
NORMS: dict[str, Callable[[nn.Module, nn.Module, nn.Module], nn.Module]] = {
    "post-norm": lambda part, one, two: PostNorm(part, one),
    "pre-norm": lambda part, one, two: PreNorm(part, one),
    "both sides": Residual,
    "output norm": lambda part, one, two: Residual(part, after=one),
}
SCORES = ("plain", "QK-norm", "soft-cap", "QK-clip")


def look(kind: Kind, width: int = C) -> Attention:
    """Attention of this kind."""
    D = width // HEADS
    if "latent" in kind:
        return LatentAttention(width, HEADS, kind["latent"], Rotary(8), RMSNorm(kind["latent"]))
    turn = None if kind.get("no positions") else Rotary(D)
    norm = RMSNorm(D) if kind.get("qk_norm") else None  # of queries and keys, with one gain
    layer = MultiHeadAttention(
        width, HEADS, kind.get("kv"), turn, bias=False, q_norm=norm, k_norm=norm
    )
    layer.score = Score(cap=kind.get("cap"), sinks=HEADS if kind.get("sink") else None)
    layer.gate = SigmoidGate(width, width) if kind.get("gate") else None
    layer.pattern = local(kind["window"]) if "window" in kind else None
    return layer


def network(kind: Kind, width: int, hidden: int) -> nn.Module:
    """A feed-forward network, or a mixture in which 2 · `hidden` channels work on a token."""
    if "experts" not in kind:
        return SwiGLU(width, hidden)
    if kind.get("dense"):
        return SwiGLU(width, 2 * hidden)
    count, active, inner = (16, 3, hidden // 2) if kind.get("small") else (8, 2, hidden)
    router = SigmoidTopK(width, count, active) if "bias" in kind else None
    shared = SwiGLU(width, inner) if kind.get("small") else None
    experts = [SwiGLU(width, inner) for _ in range(count)]
    return MixtureOfExperts(experts, width, active, router, shared)


def build(kinds: list[Kind], width: int = C, hidden: int = HIDDEN) -> LanguageModel:
    """A model with one block for each kind, on the characters of the documentation."""
    V = len(text.load().characters)
    wrap = NORMS[kinds[0].get("norm", "pre-norm")]

    def block(kind: Kind) -> Block:
        parts = look(kind, width), network(kind, width, hidden)
        return Block(*(wrap(part, RMSNorm(width), RMSNorm(width)) for part in parts))

    embed = Embed(V, width, scale=width**0.5)
    last = None if wrap is NORMS["post-norm"] else RMSNorm(width)
    model = LanguageModel(embed, Stack([block(kind) for kind in kinds], last), Tied(embed))
    return initialise(model, xavier, width**-0.5)


def equal(kinds: list[Kind], goal: int) -> LanguageModel:
    """The model of these kinds whose networks make it as large as `goal` parameters, or nearly."""
    with torch.device("meta"):
        one, two = (parameters(build(kinds, hidden=hidden)) for hidden in (1, 2))
    return build(kinds, hidden=1 + round((goal - one) / (two - one)))


def batches(length: int = T) -> tuple[Any, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A sampler, and the windows of the two halves of the held-out text, 128 at most of each."""
    corpus = text.load()
    encode = corpus.characters.encode
    held = encode(corpus.validation)
    halves = (text.consecutive(half, length) for half in held.tensor_split(2))
    choose, report = ((x[:128], y[:128]) for x, y in halves)
    return text.windows(encode(corpus.train), T, B), choose, report


@torch.no_grad()
def held_out(model: nn.Module, windows: tuple[Tensor, Tensor]) -> float:
    return round(token_loss(model.eval()(windows[0]), windows[1]).item(), 4)


def language(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return token_loss(model(batch[0]), batch[1])


def trained(model: nn.Module, rate: float, seed: int, steps: int, **plan: Any) -> None:
    loss = plan.pop("loss", language)
    schedule = cosine(steps, steps // 10)
    plan |= {"schedule": schedule, "seed": seed, "progress": False}
    train(model, batches()[0], loss, steps=steps, lr=rate, **plan)


class Routed:
    """Cross-entropy and what balances the experts; notes the shares of the last block's."""

    def __init__(self, model: nn.Module, kind: Kind, every: int = 5) -> None:
        self.weight, self.every, self.step = kind.get("loss", 0.0), every, 0
        self.bias = BiasBalance(model, kind["bias"]) if "bias" in kind else None
        self.shares: list[list[float]] = []

    def __call__(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        if self.bias is not None and self.step:
            self.bias.step()  # after the optimizer's last step
        with chosen_by(model) as seen, watch(model, MixtureOfExperts) as chances:
            value = language(model, batch)
        active = next(p.active for p in model.modules() if isinstance(p, MixtureOfExperts))
        if self.step % self.every == 0:
            self.shares.append(seen[-1])
        self.step += 1
        return value + self.weight * sum(balance_loss(c, active) for c in chances.values())


class chosen_by:
    """Inside, what share of the tokens each expert of each layer gets, whoever chooses."""

    def __init__(self, model: nn.Module) -> None:
        self.layers = [p for p in model.modules() if isinstance(p, MixtureOfExperts)]
        self.found: list[list[float]] = []

    def note(self, router: Any, given: tuple[Tensor], numbers: Tensor) -> None:
        sigmoid = isinstance(router, SigmoidTopK)
        wanted = numbers.detach().sigmoid() + router.correction if sigmoid else numbers.detach()
        self.found.append([round(x, 3) for x in expert_shares(wanted, router.active).tolist()])

    def __enter__(self) -> list[list[float]]:
        self.hooks = [x.router.register_forward_hook(self.note) for x in self.layers]
        return self.found

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.remove()


def experts(name: str, rate: float, seed: int) -> Kind:
    """Loss on both halves, shares of the experts on the second, and on the way."""
    torch.manual_seed(seed)
    kind = EXPERTS[name] | {"experts": True}
    model = build([kind, kind])
    _, choose, report = batches()
    if "dense" in kind:
        trained(model, rate, seed, STEPS)
        return {"choose": held_out(model, choose), "report": held_out(model, report)}
    loss = Routed(model, kind)
    trained(model, rate, seed, STEPS, loss=loss)
    with chosen_by(model) as shares:
        found: Kind = {"report": held_out(model, report)}
    return found | {"choose": held_out(model, choose), "shares": shares, "path": loss.shares}


HALVES = ("choose", "report")


def looks(name: str, rate: float, seed: int) -> Kind:
    """Loss on both halves, at as many parameters as full attention has."""
    torch.manual_seed(seed)
    kind = LOOKS[name]
    with torch.device("meta"):
        goal = parameters(build([{}, {}]))
    model = equal([kind, kind], goal)
    trained(model, rate, seed, STEPS)
    return {name: held_out(model, half) for name, half in zip(HALVES, batches()[1:], strict=True)}


def stacks(name: str, rate: float, seed: int) -> Kind:
    """Loss on both halves, and on the second at four times the length."""
    torch.manual_seed(seed)
    one: dict[str, Kind] = {"f": {}, "w": {"window": 8}, "n": {"no positions": True}}
    model = build([one[letter] for letter in STACKS[name]])
    trained(model, rate, seed, STEPS)
    found = {key: held_out(model, half) for key, half in zip(HALVES, batches()[1:], strict=True)}
    x, y = batches(4 * T)[2]
    return found | {"longer": held_out(model, (x[:64], y[:64]))}


def norms(name: str, rate: float, seed: int) -> Kind:
    torch.manual_seed(seed)
    model = build([{"norm": name}] * 12, width=32, hidden=85)
    trained(model, rate, seed, 100)
    return {"report": held_out(model, batches()[2])}


def scores(name: str, rate: float, seed: int) -> Kind:
    """Loss and the largest score on held-out text, after training with Muon."""
    torch.manual_seed(seed)
    kind = {"qk_norm": name == "QK-norm", "cap": CAP if name == "soft-cap" else None}
    model = build([kind, kind])
    optimizer = muon_and_adamw(model, rate, rate / 4)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        if name != "QK-clip":
            return language(model, batch)
        with torch.no_grad(), largest_scores(model) as seen:
            model(batch[0][:4])
        qk_clip(model, seen, TAU)
        return language(model, batch)

    trained(model, rate, seed, 150, optimizer=optimizer, loss=loss)
    report = batches()[2]
    with largest_scores(model) as seen:
        value = held_out(model, report)
    return {"report": value, "largest": max(float(x.max()) for x in seen.values())}


TUNED: dict[str, Any] = {
    "experts": (experts, EXPERTS),
    "heads": (looks, LOOKS),
    "stack": (stacks, STACKS),
}
ALL: dict[str, Any] = {"norms": (norms, NORMS, NORM_RATES), "scores": (scores, SCORES, MUON_RATES)}


class Drafts:
    """What was measured so far, kept in a file; a run that is there is not measured again."""

    def __init__(self, draft: Path) -> None:
        self.draft = draft
        self.found = json.loads(draft.read_text()) if draft.exists() else {}

    def get(self, key: str, compute: Callable[[], Kind]) -> Kind:
        if key not in self.found:
            self.found[key] = compute()
            write(self.draft, self.found)
            print(key, self.found[key]["report"], flush=True)
        return self.found[key]


def tuned(runs: Drafts, key: str, measure: Callable[[float, int], Kind]) -> Kind:
    """The rate that is best with the seed for tuning, and five other seeds with it."""
    tried = {lr: runs.get(f"{key}/{lr}/{TUNE}", partial(measure, lr, TUNE)) for lr in RATES}
    rate = min(RATES, key=lambda lr: tried[lr]["choose"])
    seeds = [runs.get(f"{key}/{rate}/{seed}", partial(measure, rate, seed)) for seed in SEEDS]
    losses = {str(lr): one["choose"] for lr, one in tried.items()}
    return {"rate": rate, "tried": losses, "seeds": seeds}


def measure(runs: Drafts) -> Kind:
    """All studies that were asked for, as they are stored."""
    found: Kind = {}
    for study, (of, names) in TUNED.items():
        found[study] = {name: tuned(runs, f"{study}/{name}", partial(of, name)) for name in names}
    for study, (of, names, rates) in ALL.items():
        found[study] = {
            name: {
                str(lr): [
                    runs.get(f"{study}/{name}/{lr}/{seed}", partial(of, name, lr, seed))
                    for seed in SEEDS
                ]
                for lr in rates
            }
            for name in names
        }
    return found


def slim(found: Kind) -> Kind:
    """What is stored: of the shares on the way those of one seed only."""
    for one in found["experts"].values():
        for run in one["seeds"][1:]:
            run.pop("path", None)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=[*TUNED, *ALL], help="only this one; stores nothing yet")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    for studies in (TUNED, ALL):
        for name in [name for name in studies if only not in (None, name)]:
            del studies[name]
    runs = Drafts(Path(__file__).parent / "parts.draft")
    found = measure(runs)
    if only is None:
        write(STORE, slim(found) | {"provenance": provenance(device.choose(0))})
        runs.draft.unlink()


if __name__ == "__main__":
    main()
