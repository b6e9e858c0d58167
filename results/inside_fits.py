"""What is fitted to the streams of the book's language model: lens, probes, autoencoder, steering.

`results/inside.py` runs these. Streams are recorded on 300 windows of 256 tokens of Python's
documentation (its training part, which the model has read) and tested on its validation part
(which it has not). A "mixed" model is the same model with the entries of every matrix in its
blocks in random order. Rates were chosen on seed 0, out of three or four a factor of three apart.
"""

import copy
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.data import text
from attnbook.generate.sampling import generate, sample, temperature, top_p
from attnbook.inside.circuits import edited, lens, record
from attnbook.inside.sparse_autoencoder import SparseAutoencoder
from attnbook.shipped.language import load
from attnbook.transformer import LanguageModel

SEEDS, WINDOWS, T, LAYERS = range(5), 300, 256, 4
FEATURES, ACTIVE, PLACE = 1024, 16, 2  # the autoencoder's stream: after two blocks
CLASSES = 64  # the most frequent tokens: what the probes tell apart
RATES = {"sae": 1e-2, "lens": 3e-3, "probe": 3e-2}
book = load("book-lm")
Change = Callable[[Tensor], Tensor]


@cache
def rows(part: str) -> Tensor:
    """Windows of documentation: (windows, T)."""
    docs = text.load("python-docs")
    tokens = book.encode(docs.train if part == "train" else docs.validation)[0]
    count = min(WINDOWS, len(tokens) // T)
    spread = torch.linspace(0, len(tokens) - T, count).long()
    return tokens[spread[:, None] + torch.arange(T)]


@cache
def model_of(kind: str) -> LanguageModel:
    """The model as it is, or with its blocks' numbers mixed up."""
    if kind == "trained":
        return book.model
    mixed, generator = copy.deepcopy(book.model), torch.Generator().manual_seed(0)
    for weight in mixed.body.blocks.parameters():
        if weight.dim() > 1:
            order = torch.randperm(weight.numel(), generator=generator)
            weight.data = weight.data.flatten()[order].view_as(weight)
    return mixed


@cache
def streams(part: str, kind: str = "trained") -> Tensor:
    """The stream at all five places, in sixteen bits: (5, windows, T, C)."""
    found = [record(model_of(kind), some).stream.half() for some in rows(part).split(10)]
    return torch.cat(found, 1)


@torch.no_grad()
def loss(model: LanguageModel, tokens: Tensor) -> float:
    """Nats per token of these windows."""
    nats = [
        F.cross_entropy(model(some)[:, :-1].mT, some[:, 1:], reduction="sum").item()
        for some in tokens.split(10)
    ]
    return sum(nats) / tokens[:, 1:].numel()


def fit(
    parts: nn.Module,
    objective: Callable[[Tensor], Tensor],
    N: int,
    lr: float,
    steps: int,
    seed: int,
) -> None:
    """Adam with a linear decay; `objective` gets the numbers of 256 of N positions."""
    dice = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam([p for p in parts.parameters() if p.requires_grad], lr)
    for step in range(steps):
        adam.param_groups[0]["lr"] = lr * (1 - step / steps)
        value = objective(torch.randint(N, (256,), generator=dice))
        adam.zero_grad()
        value.backward()
        adam.step()


# -- the lens -----------------------------------------------------------------------------------


def tuned(kind: str, place: int, seed: int, lr: float = RATES["lens"], steps: int = 250) -> dict:
    """Loss and agreement of a lens with an affine map of its own in front: Belrose et al. 2023."""
    model, x, last = model_of(kind), streams("train", kind)[place], streams("train", kind)[-1]
    flat, final = x.flatten(0, 1), last.flatten(0, 1)
    torch.manual_seed(seed)
    change = nn.Linear(x.shape[-1], x.shape[-1])
    nn.init.zeros_(change.weight)
    nn.init.zeros_(change.bias)

    def objective(at: Tensor) -> Tensor:
        here, aim = flat[at].float(), lens(model, final[at].float()).log_softmax(-1).detach()
        return F.kl_div(
            lens(model, here + change(here)).log_softmax(-1),
            aim,
            log_target=True,
            reduction="batchmean",
        )

    fit(change, objective, len(flat), lr, steps, seed)
    return read_by(model, kind, place, lambda x: x + change(x))


@torch.no_grad()
def read_by(
    model: LanguageModel, kind: str, place: int, change: Callable[[Tensor], Tensor]
) -> dict:
    """Nats per token of what the lens says, and how far it is from the model's last word."""
    nats, away, same, count = 0.0, 0.0, 0, 0
    test, tokens = streams("test", kind), rows("test")
    for x, end, some in zip(
        test[place].split(10), test[-1].split(10), tokens.split(10), strict=True
    ):
        said = lens(model, change(x[:, :-1].float())).log_softmax(-1)
        aim = lens(model, end[:, :-1].float()).log_softmax(-1)
        nats += -said.gather(-1, some[:, 1:, None]).sum().item()
        away += (aim.exp() * (aim - said)).sum().item()
        same += int((said.argmax(-1) == aim.argmax(-1)).sum())
        count += some[:, 1:].numel()
    return {
        "nats": round(nats / count, 4),
        "kl": round(away / count, 4),
        "same": round(same / count, 4),
    }


# -- probes -------------------------------------------------------------------------------------


def labels(what: str, tokens: Tensor, seed: int) -> Tensor:
    """A class for each position, −1 where there is none.

    "1 back", "2 back", "3 back": the token that stood there, if it is one of the most frequent.
    "control": a random class for each token of the vocabulary (Hewitt and Liang 2019).
    "control, 1 back": the class by lot of the token that stood one place back, which the stream
    of the present token holds no more than it holds that token's name.
    """
    if what.startswith("control"):
        dice = torch.Generator().manual_seed(100 + seed)
        by_lot = torch.randint(CLASSES, (1024,), generator=dice)[tokens]
        return by_lot if what == "control" else F.pad(by_lot[:, :-1], (1, 0), value=-1)
    common = rows("train").flatten().bincount(minlength=1024).argsort(descending=True)[:CLASSES]
    number = torch.full((1024,), -1)
    number[common] = torch.arange(CLASSES)
    back = int(what[0])
    return F.pad(number[tokens][:, :-back], (back, 0), value=-1)


def probe(what: str, place: int, seed: int, lr: float = RATES["probe"], steps: int = 300) -> dict:
    """Right answers of a linear probe on held-out text, and of the commonest answer: shares."""
    data = {}
    for part in ("train", "test"):
        label = labels(what, rows(part), seed).flatten()
        data[part] = streams(part)[place].flatten(0, 1)[label >= 0].float(), label[label >= 0]
    x, y = data["train"]
    mean, size = x.mean(0), x.std()
    torch.manual_seed(seed)
    classifier = nn.Linear(x.shape[-1], CLASSES)
    fit(
        classifier,
        lambda at: F.cross_entropy(classifier((x[at] - mean) / size), y[at]),
        len(x),
        lr,
        steps,
        seed,
    )
    there, truth = data["test"]
    with torch.no_grad():
        right = (classifier((there - mean) / size).argmax(-1) == truth).float().mean().item()
    most = y.bincount(minlength=CLASSES).argmax()
    return {"right": round(right, 4), "commonest": round((truth == most).float().mean().item(), 4)}


# -- the sparse autoencoder -----------------------------------------------------------------------


@cache
def dictionary(
    kind: str, seed: int, lr: float = RATES["sae"], steps: int = 500
) -> SparseAutoencoder:
    """A trained autoencoder of one stream; "random": only its encoder is trained."""
    stream = "mixed" if kind == "mixed" else "trained"
    x = streams("train", stream)[PLACE].flatten(0, 1)
    mean, size = x.float().mean(0), x.float().std()
    torch.manual_seed(seed)
    model = SparseAutoencoder(x.shape[-1], FEATURES, ACTIVE)
    model.decoder.requires_grad_(kind != "random")
    model.bias.data.copy_(mean / size)

    def objective(at: Tensor) -> Tensor:
        some = x[at].float() / size
        return (model(some) - some).square().sum(-1).mean()

    with torch.enable_grad():
        fit(model, objective, len(x), lr, steps, seed)
    model.register_buffer("size", size)
    return model.requires_grad_(False)


def error(lr: float) -> dict:
    """The variance that is left over at this rate, after 400 steps."""
    model = dictionary("trained", 0, lr, 400)
    size = model.get_buffer("size")
    return quality("rate", lambda x: model(x / size) * size)


def principal(kind: str = "trained") -> Callable[[Tensor], Tensor]:
    """The nearest point in the 16 directions of greatest variance: as many, always the same."""
    x = streams("train", kind)[PLACE].flatten(0, 1).float()
    mean = x.mean(0)
    axes = torch.linalg.svd(x[::7] - mean, full_matrices=False)[2][:ACTIVE]
    return lambda x: mean + (x - mean) @ axes.T @ axes


@torch.no_grad()
def quality(kind: str, change: Callable[[Tensor], Tensor]) -> dict:
    """What of the variance is left over, and how much of the loss comes back."""
    stream = "mixed" if kind == "mixed" else "trained"
    model, test = model_of(stream), streams("test", stream)[PLACE].float()
    mean = streams("train", stream)[PLACE].flatten(0, 1).float().mean(0)
    rest = (change(test) - test).square().sum() / (test - mean).square().sum()
    found = {"left": round(rest.item(), 4)}
    if kind != "mixed":
        whole, tokens = loss(model, rows("test")), rows("test")
        with edited(model, PLACE, lambda x: mean.expand_as(x)):
            empty = loss(model, tokens)
        with edited(model, PLACE, change):
            now = loss(model, tokens)
        back = (empty - now) / (empty - whole)
        found |= {"nats": round(now, 4), "whole": round(whole, 4), "empty": round(empty, 4)}
        found["back"] = round(back, 4)
    return found


@torch.no_grad()
def sae(kind: str, seed: int) -> dict:
    """One autoencoder: its losses, dead features, how much a feature is one token, its texts."""
    model = dictionary(kind, seed)
    size = model.get_buffer("size")
    found: dict[str, Any] = quality(kind, lambda x: model(x / size) * size)
    stream = "mixed" if kind == "mixed" else "trained"
    x = streams("train", stream)[PLACE].flatten(0, 1)
    z = torch.cat([model.encode(some.float() / size) for some in x.split(4096)])
    tokens = rows("train").flatten()
    mass = torch.zeros(FEATURES, 1024).index_add_(1, tokens, z.T)  # by feature and token
    alive = (z > 0).sum(0) > 0
    purity = (mass.amax(1) / mass.sum(1).clamp(min=1e-9))[alive]
    found["dead"] = round(1 - alive.float().mean().item(), 4)
    found["purity"] = round(purity.median().item(), 4)
    found["one token"] = round((purity > 0.9).float().mean().item(), 4)
    if kind == "trained":
        found["examples"] = examples(z, tokens, alive, mass) if seed == 0 else []
    return found


def examples(z: Tensor, tokens: Tensor, alive: Tensor, mass: Tensor) -> list[dict]:
    """Eight features drawn by lot, and the four places where each is strongest."""
    often = alive & ((z > 0).sum(0) >= 20)
    dice = torch.Generator().manual_seed(13)
    drawn = often.nonzero()[:, 0][torch.randperm(int(often.sum()), generator=dice)[:8]]
    pictures = []
    for feature in drawn.tolist():
        share = (mass[feature].max() / mass[feature].sum()).item()
        pictures.append(
            {
                "feature": feature,
                "often": round((z[:, feature] > 0).float().mean().item(), 4),
                "purity": round(share, 3),
                "places": strongest(z[:, feature], tokens),
            }
        )
    return pictures


def strongest(z: Tensor, tokens: Tensor) -> list[dict]:
    """The four places, no two of them alike, at which a feature is strongest."""
    places: list[dict] = []
    seen = set()
    for at in z.argsort(descending=True)[:200].tolist():
        around = tokens[max(0, at - 7) : at + 1].tolist()
        key = tuple(around[-3:])
        if key in seen or at % T < 7:
            continue
        seen.add(key)
        pieces = [book.decode(torch.tensor([token])) for token in around]
        before, strength = "".join(pieces[:-1]), round(z[at].item(), 2)
        places.append({"before": before, "at": pieces[-1], "z": strength})
        if len(places) == 4:
            break
    return places


# -- steering -----------------------------------------------------------------------------------

STARTS = ["The", "It", "A", "In", "If", "This", "For", "When", "To", "As"]
SPEAKER = re.compile(r"^[A-Z][A-Z ]+:$", re.MULTILINE)


@cache
def plays() -> Tensor:
    """What the model itself writes when it is asked for a play: (60, 120) tokens."""
    starts = torch.cat([book.encode("KING HENRY:\n")] * 60)
    dice = torch.Generator().manual_seed(7)
    return generate(book.model, starts, 120, sample(temperature(0.8), top_p(0.95), generator=dice))


@cache
def toward_plays() -> Tensor:
    """The mean of the stream on plays less the mean on documentation."""
    on_plays = record(book.model, plays()).stream[PLACE][:, 8:].flatten(0, 1).mean(0)
    return on_plays - streams("train")[PLACE].flatten(0, 1).float().mean(0)


def steered(which: str, strength: float, seed: int) -> dict:
    """How many texts become plays, and what the documentation costs meanwhile.

    "random" is a vector of equal length in any direction, "difference" one from a position of the
    documentation's own stream to another.
    """
    push = toward_plays()
    if which in ("random", "difference"):
        dice = torch.Generator().manual_seed(seed)
        if which == "random":
            other = torch.randn(push.shape, generator=dice)
        else:
            flat = streams("train")[PLACE].flatten(0, 1)
            one, two = flat[torch.randint(len(flat), (2,), generator=dice)].float()
            other = one - two
        push = other * push.norm() / other.norm()
    first = torch.cat([book.encode(word)[:, :1] for word in STARTS for _ in range(4)])
    dice = torch.Generator().manual_seed(seed)
    choose = sample(temperature(0.8), top_p(0.95), generator=dice)
    with edited(book.model, PLACE, lambda x: x + strength * push):
        written = generate(book.model, first, 60, choose)
        nats = loss(book.model, rows("test")[:12])
    play = [bool(SPEAKER.search(book.decode(row))) for row in written]
    sample_of = book.decode(written[4 * seed]) if which == "plays" else ""
    return {"plays": sum(play) / len(play), "nats": round(nats, 4), "text": sample_of}
