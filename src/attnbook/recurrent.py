"""Recurrent networks written out: three cells, the layer that runs one, and a language model.

The cells follow torch's formulas and gate order, so weights can be copied from `nn.RNN`,
`nn.LSTM` and `nn.GRU`. A state is a tuple: `(h,)`, or `(h, c)` for the LSTM.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

State = tuple[Tensor, ...]


class Cell(nn.Module):
    """What the three cells share: two linear maps, one from the input and one from the state.

    `gates` counts the blocks of `width` rows in each map, `states` the tensors of a state.
    """

    gates = 1
    states = 1

    def __init__(self, in_width: int, width: int):
        super().__init__()
        if in_width < 1 or width < 1:
            raise ValueError(f"widths are at least 1; got input {in_width}, state {width}")
        self.width = width
        self.from_input = nn.Linear(in_width, self.gates * width)
        self.from_state = nn.Linear(width, self.gates * width)
        for weight in self.parameters():
            nn.init.uniform_(weight, -(width**-0.5), width**-0.5)

    def start(self, B: int) -> State:
        """The state before the first token: zeros."""
        zeros = self.from_state.weight.new_zeros(B, self.width)
        return (zeros,) * self.states

    def forward(self, x: Float[Tensor, "B C"], state: State) -> State:
        """One step. `step` takes the input's linear map ready-made: a layer makes all T at once."""
        return self.step(self.from_input(x), state)

    def step(self, x: Float[Tensor, "B gates"], state: State) -> State:
        """The next state, from what the input's map made of the token; each cell has its own."""
        raise NotImplementedError


class RNNCell(Cell):
    """The new state is a squashed sum of what comes in and what was there. Elman 1990."""

    def step(self, x: Float[Tensor, "B width"], state: State) -> State:
        (h,) = state
        return (torch.tanh(x + self.from_state(h)),)


class LSTMCell(Cell):
    """Three gates decide what the cell state forgets, takes in and shows.

    Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000.
    """

    gates = 4
    states = 2

    def step(self, x: Float[Tensor, "B gates"], state: State) -> State:
        h, c = state
        take, forget, candidate, reveal = (x + self.from_state(h)).chunk(4, -1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(take) * torch.tanh(candidate)
        return torch.sigmoid(reveal) * torch.tanh(c), c


class GRUCell(Cell):
    """Two gates: how much of the old state the candidate may see, and how much of it stays.

    Cho et al. 2014, equations 5–8, except that `reset` acts after the matrix, as in torch: one
    matrix product per step instead of two. `keep` near 1 keeps the old state (the paper's z).
    """

    gates = 3

    def step(self, x: Float[Tensor, "B gates"], state: State) -> State:
        (h,) = state
        x_reset, x_keep, x_new = x.chunk(3, -1)
        h_reset, h_keep, h_new = self.from_state(h).chunk(3, -1)
        reset, keep = torch.sigmoid(x_reset + h_reset), torch.sigmoid(x_keep + h_keep)
        candidate = torch.tanh(x_new + reset * h_new)
        return (keep * h + (1 - keep) * candidate,)


class Layer(nn.Module):
    """One cell, run along the sequence. Where the mask is False the state stays as it was."""

    def __init__(self, cell: Cell):
        super().__init__()
        self.cell = cell
        self.width = cell.width

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Bool[Tensor, "B T"] | None = None,
        state: State | None = None,
    ) -> tuple[Float[Tensor, "B T width"], State]:
        state = self.cell.start(len(x)) if state is None else state
        self.check(x, mask, state)
        outputs = []
        for t, x_t in enumerate(self.cell.from_input(x).unbind(1)):
            new = self.cell.step(x_t, state)
            state = new if mask is None else keep_where_padded(mask[:, t], new, state)
            outputs.append(state[0])
        return torch.stack(outputs, 1), state

    def check(self, x: Tensor, mask: Tensor | None, state: State) -> None:
        """Raise a ValueError that names what does not fit, before any step is taken."""
        width = self.cell.from_input.in_features
        if x.shape[1] == 0 or x.shape[2] != width:
            raise ValueError(f"at least 1 step of width {width} is needed; got x {tuple(x.shape)}")
        if mask is not None and mask.shape != x.shape[:2]:
            raise ValueError(f"mask {tuple(mask.shape)} does not fit (B, T) = {tuple(x.shape[:2])}")
        if len(state) != self.cell.states:
            name, states = type(self.cell).__name__, self.cell.states
            raise ValueError(f"a state of {name} holds {states} tensors; got {len(state)}")


def keep_where_padded(is_token: Bool[Tensor, " B"], new: State, old: State) -> State:
    """The new state where there is a token, the old one where there is only padding."""
    return tuple(torch.where(is_token[:, None], n, o) for n, o in zip(new, old, strict=True))


class BothWays(nn.Module):
    """Two layers read the same sequence, one from each end; their outputs stand side by side.

    Schuster & Paliwal 1997. The final state joins both: `ahead` after the last token, `back` after
    the first.
    """

    def __init__(self, ahead: Layer, back: Layer):
        super().__init__()
        self.ahead, self.back = ahead, back
        self.width = ahead.width + back.width

    def forward(
        self, x: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"] | None = None, state: None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        if state is not None:
            raise ValueError("a bidirectional layer reads whole sequences: it takes no state")
        ahead, end = self.ahead(x, mask)
        back, beginning = self.back(x.flip(1), None if mask is None else mask.flip(1))
        both = tuple(torch.cat(pair, -1) for pair in zip(end, beginning, strict=True))
        return torch.cat((ahead, back.flip(1)), -1), both


class Stack(nn.Module):
    """Layers on top of each other: the outputs of one are the inputs of the next."""

    def __init__(self, *layers: nn.Module):
        super().__init__()
        if not layers:
            raise ValueError("a stack has at least 1 layer; got 0")
        self.layers = nn.ModuleList(layers)
        self.width = layers[-1].width

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Bool[Tensor, "B T"] | None = None,
        state: tuple[State, ...] | None = None,
    ) -> tuple[Float[Tensor, "B T width"], tuple[State, ...]]:
        states = []
        for i, layer in enumerate(self.layers):
            x, end = layer(x, mask, None if state is None else state[i])
            states.append(end)
        return x, tuple(states)


class LanguageModel(nn.Module):
    """Reads tokens one by one and says, after each, how likely every next token is (logits)."""

    def __init__(self, embed: nn.Module, body: Stack, lm_head: nn.Module):
        super().__init__()
        self.embed, self.body, self.lm_head = embed, body, lm_head

    def forward(
        self, tokens: Int[Tensor, "B T"], state: tuple[State, ...] | None = None
    ) -> tuple[Float[Tensor, "B T V"], tuple[State, ...]]:
        outputs, state = self.body(self.embed(tokens), state=state)
        return self.lm_head(outputs), state

    @torch.no_grad()
    def sample(
        self,
        tokens: Int[Tensor, "B T"],
        steps: int,
        generator: torch.Generator,
        temperature: float = 1.0,
    ) -> Int[Tensor, "B steps"]:
        """Continue `tokens` by drawing each next token from softmax(logits / temperature).

        `generator` is a CPU generator on every device. With dropout, call `eval()` first.
        """
        if temperature <= 0 or steps < 1:
            raise ValueError(
                f"steps are at least 1, temperature above 0; got {steps}, {temperature}"
            )
        drawn, state = [], None
        for _ in range(steps):
            logits, state = self(tokens, state)
            chances = (logits[:, -1] / temperature).softmax(-1).cpu()
            tokens = torch.multinomial(chances, 1, generator=generator).to(logits.device)
            drawn.append(tokens)
        return torch.cat(drawn, 1)


def language_model(
    cell: Callable[[int, int], Cell], V: int, width: int, layers: int = 1
) -> LanguageModel:
    """A language model of `layers` layers of one cell type: `language_model(LSTMCell, V, 64)`."""
    if layers < 1:
        raise ValueError(f"a language model has at least 1 layer; got {layers}")
    body = Stack(*(Layer(cell(width, width)) for _ in range(layers)))
    return LanguageModel(nn.Embedding(V, width), body, nn.Linear(width, V))


class StateOfLayer:
    """What one recurrent layer keeps: the state after `length` tokens, of one size for all lengths.

    None before the first token.
    """

    can_be_cut = False

    def __init__(self) -> None:
        self.length = 0
        self.state: State | None = None

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order, as a search among beams does."""
        if self.state is not None:
            self.state = tuple(part[rows] for part in self.state)

    def cut(self, length: int) -> None:
        """Forget everything, or nothing: what was mixed into a state cannot be taken out."""
        if length not in (0, self.length):
            raise ValueError(
                f"a state of {self.length} tokens cannot be cut to {length}, only to 0"
            )
        self.length, self.state = length, self.state if length else None

    def total(self, T: int) -> int:
        """How many tokens the layer has read once T more are there."""
        return self.length + T


class Logits(nn.Module):
    """`recurrent.LanguageModel`, called as `transformer.LanguageModel` is: logits alone, with the
    state in `caches`.

    The model itself, which returns its state, is `model`.
    """

    def __init__(self, model: LanguageModel):
        super().__init__()
        self.model = model

    @property
    def body(self) -> Stack:
        """The model's layers."""
        return self.model.body

    def forward(
        self, tokens: Int[Tensor, "B T"], caches: Sequence[StateOfLayer] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each position. With `caches`, `tokens` are the new."""
        if caches is None:
            return self.model(tokens)[0]
        layers = len(self.body.layers)
        if len(caches) != layers:
            raise ValueError(f"{layers} layers need a cache each; got {len(caches)}")
        known = [cache.state for cache in caches if cache.state is not None]
        logits, states = self.model(tokens, tuple(known) if known else None)
        for cache, state in zip(caches, states, strict=True):
            cache.length, cache.state = cache.length + tokens.shape[1], state
        return logits

    def caches(self) -> list[StateOfLayer]:
        """An empty cache for each layer: hand them to every call for the same sequences."""
        return [StateOfLayer() for _ in self.body.layers]
