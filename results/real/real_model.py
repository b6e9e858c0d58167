"""What the experiments on a published language model share: the model, the book's own beside it,
and the few instruments that a norm behind the attention asks for.

    ATTNBOOK_GEMMA=folder python results/real/head_jobs.py

The folder holds Gemma 3 270M as `attnbook`'s `load` and `tokenizers` read it: config.json,
model.safetensors, tokenizer.json (`convert.py` makes it of the file named in SOURCE). The weights
are never part of this repository; each stored run says by their hash which they were.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook import device
from attnbook.attention import Attention
from attnbook.inside.circuits import Head, attentions
from attnbook.inside.watch import watch
from attnbook.masks import causal
from attnbook.models import hub
from attnbook.provenance import provenance, write
from attnbook.shipped.language import load
from attnbook.transformer import LanguageModel
from bookkit.results.protocol import Runs, Study, committed

STORE = Path(__file__).parents[2] / "src" / "bookkit" / "runs"
NAME = "Gemma 3 270M, base, a 4- to 5-bit copy"
SOURCE = {
    "file": "gemma-3-270m-q4_k_m.gguf",
    "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
}


@dataclass(frozen=True)
class Studied:
    """A language model, its tokenizer, the tokens that every text starts with, and the first and
    last of its ordinary tokens, from which rows of random ones are drawn."""

    name: str
    model: LanguageModel
    tokenizer: Tokenizer
    start: tuple[int, ...]
    ordinary: tuple[int, int]

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, without those that every text starts with."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def batch(self, texts: Sequence[str]) -> Tensor:
        """Texts of equal length as a batch, (B, T), the start included."""
        return torch.tensor([[*self.start, *self.tokens(text)] for text in texts])

    def word(self, token: int) -> str:
        """One token as text."""
        return self.tokenizer.decode([token], skip_special_tokens=False)

    @property
    def layers(self) -> list[Attention]:
        return attentions(self.model)

    @property
    def all_heads(self) -> list[Head]:
        """Every head, (layer, head), both from 0."""
        return [(n, h) for n, layer in enumerate(self.layers) for h in range(layer.heads)]


def folder() -> Path:
    """Where the published weights lie; SystemExit that says what to set, if nobody said it."""
    where = os.environ.get("ATTNBOOK_GEMMA")
    if not where:
        raise SystemExit("set ATTNBOOK_GEMMA to the folder that results/real/convert.py made")
    return Path(where)


@cache
def gemma() -> Studied:
    """The published model, in 32 bits."""
    model = hub.load(folder())
    assert isinstance(model, LanguageModel)
    tokenizer = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    return Studied("gemma", model.requires_grad_(False), tokenizer, (2,), (1000, 60_000))


@cache
def book() -> Studied:
    """The book's own language model, which was taught to copy by rows of random tokens."""
    lm = load("book-lm")
    return Studied("book-lm", lm.model.requires_grad_(False), lm.tokenizer, (), (4, 1024))


def both() -> list[Studied]:
    return [gemma(), book()]


def body(model: LanguageModel, tokens: Tensor) -> Tensor:
    """What the model hands to its output layer, (B, T, C): the logits of all positions would cost
    more than all else, with a vocabulary of 262,144."""
    return model.body(model.embed(tokens), mask=causal)


@torch.no_grad()
def logits_at(model: LanguageModel, tokens: Tensor, place: int = -1) -> Tensor:
    """Logits after one position of each row, (B, V)."""
    return model.lm_head(body(model, tokens)[:, place])


@torch.no_grad()
def losses(model: LanguageModel, tokens: Tensor, first: int = 1) -> Tensor:
    """Nats of each token from the one at `first` on, given those before it: (B, T − first)."""
    told = tokens[:, first:]
    return nats(model, body(model, tokens)[:, first - 1 : -1].flatten(0, 1), told.flatten()).view(
        told.shape
    )


@torch.no_grad()
def nats(model: LanguageModel, x: Tensor, told: Tensor) -> Tensor:
    """Nats of each told token after its vector, both in a row: (N,). All logits of 64 of them lie
    in one table that is used again, since making it anew takes longer than the product."""
    if not isinstance(model.lm_head, nn.Linear):  # the book's model, in whole numbers
        return F.cross_entropy(model.lm_head(x), told, reduction="none")
    weight, found = model.lm_head.weight, []
    table = torch.empty(64, len(weight))
    for some, right in zip(x.split(64), told.split(64), strict=True):
        logits = torch.mm(some, weight.T, out=table[: len(some)])
        own = logits.gather(1, right[:, None])[:, 0]
        top = logits.amax(1, keepdim=True)
        found.append(logits.sub_(top).exp_().sum(1).log() + top[:, 0] - own)
    return torch.cat(found)


@dataclass(frozen=True)
class Seen:
    """Of one run: `stream[l]` before layer l, the last one after all; `heads[l]` before W^O, and
    `weights[l]`, where they looked."""

    stream: list[Tensor]
    heads: list[Tensor]
    weights: list[Tensor]


@torch.no_grad()
def seen(studied: Studied, tokens: Tensor, maps: bool = True) -> Seen:
    """`record` without the logits: what each block reads, and what its heads give and look at."""
    stream: list[Tensor] = []
    heads: list[Tensor] = []
    layers = studied.layers

    def keep_heads(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        heads.append(given[0].unflatten(-1, (layers[0].heads, -1)).transpose(1, 2))

    with ExitStack() as hooks:
        weights = hooks.enter_context(watch(studied.model)) if maps else {}
        for module in (*studied.model.body.blocks, studied.model.body.norm):
            hook = module.register_forward_pre_hook(lambda _, given: stream.append(given[0]))
            hooks.callback(hook.remove)
        for layer in layers:
            hooks.callback(layer.to_out.register_forward_pre_hook(keep_heads).remove)
        body(studied.model, tokens)
    return Seen(stream, heads, list(weights.values()))


def around(block: nn.Module) -> tuple[nn.Module, Attention, nn.Module]:
    """The norm before a block's attention, the attention, and the norm behind it, if any."""
    wrapped = block.get_submodule("attention")
    parts = dict(wrapped.named_children())
    part = parts["sublayer"]
    assert isinstance(part, Attention)
    return (
        parts.get("before", parts.get("norm", nn.Identity())),
        part,
        parts.get("after", nn.Identity()),
    )


@torch.no_grad()
def added(studied: Studied, layer: int, heads: Tensor) -> Tensor:
    """What these outputs of all heads of a layer, (B, H, T, D), add to the stream, by W^O and the
    norm behind it. That norm is of the sum, so one head's share is what the sum loses without it.
    """
    _, part, after = around(studied.model.body.blocks[layer])
    return after(part.to_out(heads.transpose(1, 2).flatten(2)))


@torch.no_grad()
def change_of(studied: Studied, run: Seen, means: Tensor, head: Head) -> Tensor:
    """By how much the stream changes, on the direct way, if a head gives its mean: (B, T, C)."""
    layer, which = head
    other = run.heads[layer].clone()
    other[:, which] = means[layer, which]
    return added(studied, layer, other) - added(studied, layer, run.heads[layer])


@torch.no_grad()
def head_from(
    studied: Studied, layer: int, queries: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs and weights of a layer's heads that read q, k and v from three streams: (B, H, T, D)
    and (B, H, T, T)."""
    before, part, _ = around(studied.model.body.blocks[layer])
    q, k, v = (part.project(before(x))[n] for n, x in enumerate((queries, keys, values)))
    if part.rotate is not None:
        q, k = part.rotate(q, 0), part.rotate(k, 0)
    i = torch.arange(q.shape[2])
    table = i[:, None] >= i
    if part.pattern is not None:
        table = table & part.pattern(i[:, None], i[None])
    shared = (x.repeat_interleave(part.heads // x.shape[1], 1) for x in (k, v))
    k, v = shared
    weights = part.score(q, k).masked_fill(~table, float("-inf")).softmax(-1)
    return weights @ v, weights


def random_rows(studied: Studied, seed: int, B: int, L: int) -> tuple[Tensor, Tensor]:
    """Rows of different random tokens read twice, and the same with another first half."""
    dice = torch.Generator().manual_seed(seed)
    low, high = studied.ordinary
    drawn = [low + torch.randperm(high - low, generator=dice)[:L] for _ in range(2 * B)]
    once, other = torch.stack(drawn[:B]), torch.stack(drawn[B:])
    start = torch.tensor(studied.start, dtype=torch.long).expand(B, -1)
    return torch.cat((start, once, once), 1), torch.cat((start, other, once), 1)


@cache
def hash_of(path: Path) -> str:
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 24):
            found.update(part)
    return found.hexdigest()


def rounded(x: Tensor, digits: int = 4) -> Any:
    """A tensor as lists of rounded numbers."""
    return [rounded(y, digits) for y in x] if x.dim() else round(x.item(), digits)


def begin(study: Study, script: str) -> tuple[str, Runs]:
    """One thread; the commit of the declaration, and what was measured so far."""
    torch.set_num_threads(1)
    draft = Path(script).with_suffix(".draft")
    return committed(Path(script)), Runs(draft, write)


def finish(study: Study, said: str, runs: Runs, found: Mapping[str, Any]) -> None:
    """Store what a study found, with its declaration, the weights' hash and where it was run."""
    weights = {"name": NAME, "licence": "Gemma Terms of Use", **SOURCE}
    weights["read as"] = hash_of(folder() / "model.safetensors")
    write(
        STORE / f"real_{study.name}.json",
        {
            "study": study.declared() | {"declared": said},
            "weights": weights,
            **found,
            "provenance": provenance(device.choose(0), "tokenizers", "safetensors"),
        },
    )
    runs.draft.unlink(missing_ok=True)
