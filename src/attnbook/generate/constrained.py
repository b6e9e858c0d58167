"""Constrained decoding: whatever the model prefers, only text that fits can be written.

Before each choice, tokens that no fitting text goes on with get −∞. Willard and Louf 2023.
"""

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnbook.generate.automata import Automaton
from attnbook.generate.sampling import Sampler, greedy

Logits = Float[Tensor, "B V"]
OVER = object()  # the state of a row that has written its eos


class Constrained:
    """A sampler, for `generate`, that writes only what an automaton accepts.

    `symbols` is the text of each token; `eos` is allowed where the text may end, and alone after
    it; `sampler` draws from what is left. It remembers what each row has written: make a new one
    for each call of `generate`.
    """

    def __init__(
        self, automaton: Automaton, symbols: Sequence[str], eos: int, sampler: Sampler = greedy
    ):
        if not 0 <= eos < len(symbols):
            raise ValueError(f"eos, {eos}, is no token of {len(symbols)}")
        self.automaton, self.symbols, self.eos, self.sampler = automaton, symbols, eos, sampler
        self.states: list[Hashable] | None = None
        self.known: dict[Hashable, Bool[Tensor, " V"]] = {}
        self.tree = tree(symbols, eos)

    def __call__(self, logits: Logits) -> Int[Tensor, " B"]:
        """The next token of each row."""
        if self.states is None:
            self.states = [self.automaton.start] * len(logits)
        if len(logits) != len(self.states) or logits.shape[1] != len(self.symbols):
            raise ValueError(
                f"logits {tuple(logits.shape)} for {len(self.states)} rows of {len(self.symbols)} "
                "tokens"
            )
        mask = torch.stack([self.allowed(state) for state in self.states]).to(logits.device)
        tokens = self.sampler(logits.masked_fill(~mask, -torch.inf))
        pairs = zip(self.states, tokens.tolist(), strict=True)
        self.states = [self.after(state, token) for state, token in pairs]
        return tokens

    def allowed(self, state: Hashable) -> Bool[Tensor, " V"]:
        """Which tokens a fitting text goes on with; computed once for each state."""
        if state not in self.known:
            mask = torch.zeros(len(self.symbols), dtype=torch.bool)
            mask[self.eos] = state is OVER or self.automaton.accepts(state)
            if state is not OVER:
                mask[self.fitting(state)] = True
            if not mask.any():
                raise ValueError("no token goes on with what was written: is a symbol missing?")
            self.known[state] = mask
        return self.known[state]

    def fitting(self, state: Hashable) -> list[int]:
        """Tokens whose characters can be read from here, found along their common beginnings."""
        found, waiting = [], [(state, self.tree)]
        while waiting:
            state, branch = waiting.pop()
            for character, longer in branch.items():
                if character == "":
                    found += longer
                elif (after := self.automaton.step(state, character)) is not None:
                    waiting.append((after, longer))
        return found

    def after(self, state: Hashable, token: int) -> Hashable:
        """The state of a row once it has written this token."""
        if token == self.eos:
            return OVER
        for character in self.symbols[token]:
            state = self.automaton.step(state, character)
        return state


def tree(symbols: Sequence[str], eos: int) -> dict:
    """All tokens by their characters, one after the other; under "" the tokens that end there."""
    root: dict = {}
    for token, symbol in enumerate(symbols):
        branch = root
        for character in symbol:
            branch = branch.setdefault(character, {})
        if symbol and token != eos:  # a token without text would never end
            branch.setdefault("", []).append(token)
    return root
