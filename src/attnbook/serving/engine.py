"""An engine: many requests written at once, in a batch that changes from step to step.

In each step some of the waiting prompts are read, and every running sequence gets one token.
Whoever has ended leaves at once, whoever waits comes in. Yu et al. 2022 (Orca), section 3.1,
iteration-level scheduling; a prompt is read in pieces as in Agrawal et al. 2024 (Sarathi-Serve).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.device import device_of
from attnbook.serving.paged import PagedCache
from attnbook.serving.pages import NoPage, Pages, Table

Sampler = Callable[[Float[Tensor, "1 V"]], Int[Tensor, " 1"]]


@dataclass(eq=False)
class Request:
    """What is asked for: a prompt, at most `max_new_tokens` more, a sampler, where to stop."""

    prompt: list[int]
    max_new_tokens: int
    sampler: Sampler = lambda logits: logits.argmax(-1)
    eos: frozenset[int] = frozenset()
    written: list[int] = field(default_factory=list)
    table: Table = field(default_factory=Table)
    reason: str | None = None  # why it has ended: "stop" or "length"

    def __post_init__(self) -> None:
        if not self.prompt or self.max_new_tokens < 1:
            raise ValueError(
                f"a request has a prompt of at least 1 token and writes at least 1; got "
                f"{len(self.prompt)} and {self.max_new_tokens}"
            )

    @property
    def tokens(self) -> list[int]:
        """Prompt and what was written."""
        return self.prompt + self.written

    @property
    def left(self) -> int:
        """How many of its tokens are not read yet."""
        return len(self.tokens) - self.table.length


class Engine:
    """A model, its pages, and the requests that wait and run.

    At most `most` run at a time. A step reads at most `budget` tokens of prompts, so that those
    who write are not kept waiting by a long one. If the pages run out, the request that came last
    gives up its own and is read again later (recomputation, Kwon et al. 2023, section 4.5).
    """

    def __init__(self, model: nn.Module, pages: Pages, most: int = 16, budget: int = 256):
        if most < 1 or budget < 1:
            raise ValueError(f"at least 1 request and 1 token of a step; got {most} and {budget}")
        layers = len(model.caches())  # type: ignore[operator]
        self.model, self.pages, self.cache = model, pages, PagedCache(pages, layers)
        self.most, self.budget = most, budget
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.steps = self.shared = 0  # steps so far; tokens that were found in shared pages

    def add(self, request: Request) -> None:
        """Let it wait for its turn; ValueError if it could never fit."""
        longest = len(request.prompt) + request.max_new_tokens
        if -(-longest // self.pages.size) > self.pages.count:
            raise ValueError(
                f"{longest} tokens do not fit into {self.pages.count} pages of {self.pages.size}"
            )
        self.waiting.append(request)

    def step(self) -> list[Request]:
        """One step of the engine; the requests that got a token in it."""
        self.steps += 1
        self.admit()
        budget, got = self.budget, self.decode()
        for request in [r for r in self.running if r.left and r not in got]:
            if budget and request in self.running:
                budget -= self.prefill(request, budget, got)
        return got

    def admit(self) -> None:
        """Let in who waits, as long as there is a slot and pages for the prompt."""
        while self.waiting and len(self.running) < self.most:
            request = self.waiting[0]
            table = self.pages.begin(request.tokens)
            if self.pages.need(table, len(request.tokens) - table.length) > len(self.pages.free):
                self.pages.release(table)
                return
            self.pages.reserve(table, len(request.tokens) - table.length)
            self.shared += table.length
            request.table = table
            self.running.append(self.waiting.popleft())

    def decode(self) -> list[Request]:
        """One token for each sequence whose past is read up to its last token."""
        ready = [r for r in self.running if r.left == 1 and r.written]
        for request in ready:
            if request in self.running:
                self.make_room(request)
        ready = [r for r in ready if r in self.running]
        if ready:
            self.read(ready, 1)
        return ready

    def prefill(self, request: Request, budget: int, got: list[Request]) -> int:
        """Read a piece of a prompt; after its last token the first one is written."""
        count = min(budget, request.left)
        last = count == request.left
        self.read([request], count, write=last)
        if last:
            got.append(request)
        return count

    def read(self, requests: list[Request], count: int, write: bool = True) -> None:
        """Read `count` tokens of each; then write one, if asked."""
        starts = [r.table.length for r in requests]
        new = [r.tokens[at : at + count] for r, at in zip(requests, starts, strict=True)]
        tokens = torch.tensor(new, device=device_of(self.model))
        logits = self.cache.read(self.model, [r.table for r in requests], tokens)
        for row, request in enumerate(requests):
            self.pages.wrote(request.table, request.tokens[: starts[row] + count])
            if write:
                self.write(request, int(request.sampler(logits[row : row + 1])))

    def write(self, request: Request, token: int) -> None:
        """Append a token; whoever has ended leaves at once."""
        request.written.append(token)
        if token in request.eos:
            request.reason = "stop"
        elif len(request.written) == request.max_new_tokens:
            request.reason = "length"
        if request.reason is not None:
            self.leave(request)

    def make_room(self, request: Request) -> None:
        """See to it that there is a page for the request's next position."""
        while True:
            try:
                return self.pages.reserve(request.table, 1)
            except NoPage:
                last = self.running[-1]
                self.leave(last)
                self.waiting.appendleft(last)
                if last is request:
                    return

    def leave(self, request: Request) -> None:
        """Take it out of the batch; its pages are free. No effect on one that has left."""
        if request in self.running:
            self.running.remove(request)
            self.pages.release(request.table)
        elif request in self.waiting:
            self.waiting.remove(request)

    def run(self) -> Iterator[list[Request]]:
        """Step until nobody is left."""
        while self.waiting or self.running:
            yield self.step()
