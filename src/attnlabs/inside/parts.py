"""Tries the parts of a project of lab 8 and hands over numbers. It knows no answers.

Grading does this in the sandbox, the student's check in the notebook: both ask the same. What a
part is asked stands in `ask`, plain numbers and texts; who judges it makes the same arguments of
them (`batches`, `start`), and compares elsewhere.
"""

import copy
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F

from attnlabs.inside import cells
from attnlabs.inside.answer import as_tensors, executed, reply, short
from attnlabs.inside.fingerprints import arrays

Own: TypeAlias = Mapping[str, Any]  # the student's functions and classes, by their names
Ask: TypeAlias = Mapping[str, Any]
Cases: TypeAlias = dict[str, Callable[[], Any]]
LATIN = "latin-1"  # each byte is one character
MOST = 20_000  # numbers of a model that are compared
BYTES = [bytes([n]) for n in range(256)]


def answer(question: Mapping[str, Any], raw: bytes) -> bytes:
    """The reply about one part: results by case, and what the cases that stopped said."""
    tree, _ = cells.statements(cells.read(raw))
    wanted = {id(one) for name in question["of"] for one in cells.needed(tree, name)}
    part = [statement for statement in tree if id(statement) in wanted]
    names, trouble = executed(part, set(question["of"]), {})
    results: dict[str, torch.Tensor] = {}
    errors: dict[str, str] = {}
    for case, call in CASES[question["part"]](names, question["ask"]).items():
        try:
            results |= as_tensors(case, arrays(call()))
        except BaseException as error:
            errors[case] = short(error)
    return reply(results, errors=errors, trouble=trouble)


def tokenizer(own: Own, ask: Ask) -> Cases:
    """Vocabularies of some texts, tokens of others, and a text there and back."""

    def joined(text: str, size: int) -> Any:
        return spelled(own["train_bpe"](text.encode(LATIN), size))

    def cut(more: Sequence[str], text: str) -> Any:
        vocabulary = [*BYTES, *(token.encode(LATIN) for token in more)]
        return torch.tensor([int(n) for n in own["encode"](text.encode(LATIN), vocabulary)])

    def back() -> Any:
        vocabulary = [*BYTES, *(token.encode(LATIN) for token in ask["cuts"][0][0])]
        there = own["encode"](ask["odd"].encode(LATIN), list(vocabulary))
        return torch.tensor(list(own["decode"](there, list(vocabulary))))

    found: Cases = {f"join{n}": partial(joined, *one) for n, one in enumerate(ask["joins"])}
    found |= {f"cut{n}": partial(cut, *one) for n, one in enumerate(ask["cuts"])}
    return {**found, "back": back}


def spelled(vocabulary: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A list of tokens as numbers: how long each is, and all their bytes."""
    tokens = [bytes(token) for token in vocabulary]
    return torch.tensor([len(token) for token in tokens]), torch.tensor(list(b"".join(tokens)))


def ids_of(ask: Ask) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, and the same with another one in the middle."""
    dice = torch.Generator().manual_seed(ask["seed"])
    ids = torch.randint(ask["V"], (4, ask["T"]), generator=dice)
    other = ids.clone()
    other[:, ask["T"] // 2] = (ids[:, ask["T"] // 2] + 1) % ask["V"]
    return ids, other


def model(own: Own, ask: Ask) -> Cases:
    """Logits at the start; and with parameters that were stirred, for tokens that differ in one."""
    ids, other = ids_of(ask)

    def made() -> nn.Module:
        torch.manual_seed(ask["seed"])
        return own["tiny"]()

    def stirred() -> Any:
        new = copy.deepcopy(made()).eval()
        with torch.no_grad():
            for each in new.parameters():
                each.add_(0.2 * torch.randn_like(each))
            return new(ids), new(other)

    return {
        "start": lambda: made()(ids).detach(),
        "stirred": stirred,
        "short": lambda: made()(ids[:1, :5]).detach(),
    }


def parameters(ask: Ask) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    """Parameters, and their gradients step by step."""
    dice = torch.Generator().manual_seed(ask["seed"])

    def drawn() -> list[torch.Tensor]:
        return [torch.randn(3, 2, generator=dice), torch.randn(4, generator=dice)]

    return drawn(), [drawn() for _ in range(ask["steps"])]


def optimiser(own: Own, ask: Ask) -> Cases:
    """Parameters after the first step and after the last; then once more with one that never has a
    gradient."""
    first, gradients = parameters(ask)

    def stepped(more: int) -> Any:
        mine = [nn.Parameter(each.clone()) for each in (*first, *[torch.ones(2)] * more)]
        it, found = own["AdamW"](mine, **ask["settings"]), []
        for n, given in enumerate(gradients):
            for each, gradient in zip(mine, given, strict=False):
                each.grad = gradient.clone()
            it.step()
            if n in (0, len(gradients) - 1):
                found += [each.detach().clone() for each in mine]
        return tuple(found)

    return {"steps": lambda: stepped(0), "without": lambda: stepped(1)}


class Table(nn.Module):
    """Logits of the next token, a row for each token; it keeps what each backward pass left."""

    def __init__(self, first: torch.Tensor):
        super().__init__()
        self.weight = nn.Parameter(first.clone())
        self.seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.weight.register_post_accumulate_grad_hook(self.note)

    def note(self, weight: torch.Tensor) -> None:
        assert weight.grad is not None
        self.seen.append((weight.detach().clone(), weight.grad.detach().clone()))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weight[ids]


def start(ask: Ask) -> torch.Tensor:
    """The weights with which `Table` begins."""
    return torch.randn(ask["V"], ask["V"], generator=torch.Generator().manual_seed(ask["seed"]))


def batches(ask: Ask) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and targets without end, the same for the same `ask`."""
    dice = torch.Generator().manual_seed(ask["seed"] + 1)
    while True:
        ids = torch.randint(ask["V"], (2, 9), generator=dice)
        yield ids[:, :-1], ids[:, 1:]


def loop(own: Own, ask: Ask) -> Cases:
    """What some steps return, and the weights and gradients that each backward pass has left."""

    def ran(first: int, last: int, rates: Sequence[float | None]) -> Any:
        table, source = Table(start(ask)), batches(ask)
        it = own["AdamW"](table.parameters(), lr=ask["poison"], **ask["settings"])
        rate = dict(enumerate(rates, start=first)).get
        losses = own["train"](table, it, lambda: next(source), first, last, rate)
        weights = torch.stack([weight for weight, _ in table.seen] + [table.weight.detach()])
        gradients = torch.stack([gradient for _, gradient in table.seen])
        return torch.tensor([float(loss) for loss in losses]), weights, gradients

    return {name: partial(ran, *one) for name, one in ask["runs"].items()}


def checkpoint(own: Own, ask: Ask) -> Cases:
    """Six steps at once; and three, a checkpoint, and three more in another process."""

    def begun(seed: int) -> tuple[Any, Any, torch.Generator, Callable[[], Any]]:
        torch.manual_seed(seed)
        new, dice = own["tiny"](), torch.Generator().manual_seed(seed)

        def draw() -> Any:
            ids = torch.randint(ask["V"], (2, ask["T"] + 1), generator=dice)
            return ids[:, :-1], ids[:, 1:]

        return new, own["AdamW"](new.parameters(), lr=1e-2), dice, draw

    def go(it: Any, first: int, last: int) -> torch.Tensor:
        found = own["train"](it[0], it[1], it[3], first, last, lambda step: 1e-2 / (1 + step))
        return torch.tensor([float(loss) for loss in found])

    def flat(new: nn.Module) -> torch.Tensor:
        every = torch.cat([each.detach().flatten() for each in new.parameters()])
        return every[:: 1 + len(every) // MOST]

    def resumed() -> Any:
        path = Path("three.pt")
        process = os.fork()  # before any gradient is taken: torch's threads do not come along
        if process == 0:  # what the first half keeps in memory is gone with it
            try:
                half = begun(ask["seed"])
                go(half, 0, 3)
                own["save"](path, half[0], half[1], 3, half[2])
            finally:
                os._exit(0)
        os.waitpid(process, 0)
        straight = begun(ask["seed"])
        first, losses = flat(straight[0]), go(straight, 0, 6)
        again = begun(ask["seed"] + 1)
        step = own["load"](path, again[0], again[1], again[2])
        at_three, later = flat(again[0]), go(again, int(step), 6)
        numbers = torch.tensor([float(step)])
        return numbers, losses, later, first, at_three, flat(straight[0]), flat(again[0])

    return {"resumed": resumed}


class Counting(nn.Module):
    """A model that knows that number n is followed by n + 1, and reads at most `T` tokens."""

    def __init__(self, V: int, T: int):
        super().__init__()
        self.V, self.T = V, T

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if ids.shape[1] > self.T:
            raise ValueError("the model reads fewer tokens than it was given")
        return 4.0 * F.one_hot((ids + 1) % self.V, self.V)


def sampling(own: Own, ask: Ask) -> Cases:
    """What is drawn nearly without temperature, at a high one, and by the same and other dice."""
    counts = Counting(ask["V"], 4)
    sample: Any = own.get("sample")

    def cold() -> Any:
        prompt = torch.tensor([ask["prompt"]])
        return sample(counts, prompt, ask["count"], 4, 0.05, torch.Generator().manual_seed(6))

    def warm() -> Any:
        dice = torch.Generator().manual_seed(ask["seed"])
        return sample(counts, torch.zeros(4000, 1, dtype=torch.long), 1, 4, 2.0, dice)

    def dice() -> Any:
        found = []
        for seed, around in ((1, 1), (1, 2), (2, 1)):
            torch.manual_seed(around)
            own_dice = torch.Generator().manual_seed(ask["seed"] + seed)
            prompt = torch.zeros(16, 1, dtype=torch.long)
            found += [sample(counts, prompt, 4, 4, 3.0, own_dice) for _ in range(2)]
        return tuple(found)

    return {"cold": cold, "warm": warm, "dice": dice}


CASES: dict[str, Callable[[Own, Ask], Cases]] = {
    "tokenizer": tokenizer,
    "model": model,
    "optimiser": optimiser,
    "loop": loop,
    "checkpoint": checkpoint,
    "sampling": sampling,
}


def functions(question: Mapping[str, Any]) -> Collection[str]:
    """The names that a question needs of the notebook."""
    return question.get("of", [question["name"]])
