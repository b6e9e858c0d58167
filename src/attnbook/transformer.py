"""The transformer: vectors for tokens, a stack of blocks, and the way back to a vocabulary.

Three families use the same parts: a decoder alone (`LanguageModel`), an encoder alone
(`MaskedLanguageModel`), and both (`EncoderDecoder`). `attnbook.models` puts published ones
together."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.block import Stack
from attnbook.cache import CrossCache, DecodingState
from attnbook.masks import Mask, causal, check_mask, check_positions, padding


@runtime_checkable
class Positions(Protocol):
    """What is added to tokens for where they stand."""

    def __call__(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        """Of positions start, start + 1, …"""

    def at(self, positions: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T C"]:
        """Of these positions."""


class Embed(nn.Module):
    """A vector for each token: what it is, times `scale`, plus where it stands.

    `positions(T, start)` gives the second part, `positions.at(where)` for positions in any order;
    without it only the blocks can know the order. With `token_types`, a learned vector says in
    which of several texts a token stands (Devlin et al. 2019, figure 2). `V` may be a table that is
    shared. Vaswani et al. 2017, sections 3.4 and 3.5, where `scale` is √width. A model takes other
    modules: one that is called with tokens and `start`, and may have a `limit`, or torch's
    `nn.Embedding`."""

    def __init__(
        self,
        V: int | nn.Embedding,
        width: int,
        positions: Positions | None = None,
        scale: float = 1.0,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        token_types: int = 0,
    ):
        super().__init__()
        self.tokens = V if isinstance(V, nn.Embedding) else nn.Embedding(V, width)
        self.token_types = nn.Embedding(token_types, width) if token_types else None
        self.positions, self.scale = positions, scale
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = nn.Dropout(dropout)

    @property
    def limit(self) -> int | None:
        """How many positions there are vectors for; None if for any number."""
        return getattr(self.positions, "limit", None)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        start: int | Int[Tensor, "..."] = 0,
        token_types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """`start` is the position of the first token, or the positions of all, (T,) or (B, T).
        Without `token_types` all tokens are of type 0. A token outside the vocabulary is a
        ValueError on a CPU; a GPU, not waited for, reports a device-side assert, which ends it."""
        if tokens.dim() != 2:
            raise ValueError(
                f"tokens are (B, T), one row alone is tokens[None]; got {tuple(tokens.shape)}"
            )
        try:
            x = self.scale * self.tokens(tokens)
        except IndexError:  # looked up first, checked afterwards: no number is read back for it
            check_tokens(tokens, self.tokens.num_embeddings)
            raise
        if self.token_types is not None:
            types = torch.zeros_like(tokens) if token_types is None else token_types
            x = x + self.token_types(types)
        elif token_types is not None:
            raise ValueError("this embedding has no token types: build it with `token_types`")
        if self.positions is not None:
            if isinstance(start, Tensor):
                x = x + self.positions.at(start)
            else:
                x = x + self.positions(tokens.shape[1], start)
        return self.dropout(self.norm(x))


class LanguageModel(nn.Module):
    """How likely is each token of the vocabulary to come next, given those so far?

    A decoder alone: causal self-attention at every position. Radford et al. 2018, section 3.1.
    """

    def __init__(self, embed: nn.Module, body: Stack, lm_head: nn.Module):
        super().__init__()
        self.embed, self.body, self.lm_head = embed, body, lm_head

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        caches: Sequence[DecodingState] | None = None,
        mask: Mask | None = None,
        positions: Int[Tensor, "*rows T"] | None = None,
        last: int | None = None,
    ) -> Float[Tensor, "B n V"]:
        """Logits of the token after each position, or after the `last` ones only: a prompt needs no
        others, and the output layer is the largest matrix. With `caches`, `tokens` are the new
        ones.

        `mask` allows less than the past: a pattern such as `document(ids)`, or True at tokens and
        False at padding, (B, Tk), those in the caches included; then each row counts its own
        tokens. `positions` says where the tokens stand, if not one after the other.
        """
        start = prefix_length(caches)
        named = {}
        if isinstance(mask, Tensor):
            positions = new_position_ids(mask, start, tokens) if positions is None else positions
            mask = padding(mask)
        if positions is not None:
            check_positions(positions, tokens.shape[0], tokens.shape[-1])
            start, named = positions, {"positions": positions}
        x = vectors(self.embed, tokens, start)
        mask = causal if mask is None else causal & mask
        x = self.body(x, mask=mask, caches=caches, **named)  # (B T C)
        if last is not None:  # of a mere slice torch makes a product that copies frozen 16 bits
            x = x[:, -last:].clone(memory_format=torch.contiguous_format)
        return self.lm_head(x)

    @property
    def limit(self) -> int | None:
        """How many positions the model has learned; None if it can read on and on."""
        return getattr(self.embed, "limit", None)

    def caches(self, max_len: int | None = None) -> list[DecodingState]:
        """An empty cache for each block: hand them to every call for the same sequences. With
        `max_len` for so many positions they keep their shape, and a step of generation compiles."""
        return self.body.caches(max_len)


class MaskedLanguageModel(nn.Module):
    """What stood where the gaps are, given everything around them?

    An encoder alone: every position sees every other. Devlin et al. 2019, section 3.1, task 1.
    """

    def __init__(self, embed: nn.Module, body: Stack, lm_head: nn.Module):
        super().__init__()
        self.embed, self.body, self.lm_head = embed, body, lm_head

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"] | None = None,
        token_types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token at each position. `mask` is True at tokens, False at padding;
        `token_types` is that of `Embed`: 0 in the first of two texts, 1 in the second."""
        types = {} if token_types is None else {"token_types": token_types}
        x = self.embed(tokens, **types)
        return self.lm_head(self.body(x, mask=add_query_axis(mask)))


class EncoderDecoder(nn.Module):
    """p(target | source): the encoder reads all of the source, the decoder writes token by token.

    Vaswani et al. 2017, figure 1.
    """

    def __init__(
        self,
        source_embed: nn.Module,
        encoder: Stack,
        target_embed: nn.Module,
        decoder: Stack,
        lm_head: nn.Module,
    ):
        super().__init__()
        self.source_embed, self.encoder = source_embed, encoder
        self.target_embed, self.decoder, self.lm_head = target_embed, decoder, lm_head

    def forward(
        self,
        source: Int[Tensor, "B Tk"],
        source_mask: Bool[Tensor, "B Tk"],
        target_in: Int[Tensor, "B Tq"],
    ) -> Float[Tensor, "B n V"]:
        """Teacher forcing, all positions at once: logits of the token after each target token."""
        return self.decode(target_in, self.encode(source, source_mask), source_mask)

    def encode(
        self, source: Int[Tensor, "B Tk"], source_mask: Bool[Tensor, "B Tk"]
    ) -> Float[Tensor, "B Tk C"]:
        """The memory that every block of the decoder looks at."""
        return self.encoder(self.source_embed(source), mask=add_query_axis(source_mask))

    def decode(
        self,
        target_in: Int[Tensor, "B Tq"],
        memory: Float[Tensor, "B Tk C"],
        source_mask: Bool[Tensor, "B Tk"],
        caches: Sequence[CrossCache] | None = None,
    ) -> Float[Tensor, "B n V"]:
        """Logits of the token after each target token. Padding at the end needs no mask here:
        it comes later than every real token. With `caches`, `target_in` are the new tokens."""
        x = vectors(self.target_embed, target_in, prefix_length(caches))
        look = {"mask": causal, "memory_mask": add_query_axis(source_mask)}
        return self.lm_head(self.decoder(x, memory, caches=caches, **look))

    @property
    def limit(self) -> int | None:
        """How many positions of a target the model has learned; None if it can write on and on."""
        return getattr(self.target_embed, "limit", None)

    def caches(self, max_len: int | None = None) -> list[DecodingState]:
        """An empty cache for each block of the decoder; as `LanguageModel.caches`."""
        return self.decoder.caches(max_len)


def vectors(embed: nn.Module, tokens: Tensor, start: int | Tensor) -> Float[Tensor, "B T C"]:
    """What `embed` makes of the tokens; torch's own does not ask where they stand."""
    if isinstance(embed, nn.Embedding):
        return embed(tokens)
    if isinstance(start, Tensor) and start.dim() == 0:  # of the first token: nobody reads it
        start = start + torch.arange(tokens.shape[1], device=tokens.device)
    return embed(tokens, start)


def prefix_length(caches: Sequence[DecodingState] | None) -> int | Int[Tensor, ""]:
    """Length of the cached prefix: the maximum over layers, since attention-free layers keep
    nothing."""
    lengths = [cache.length for cache in caches or []]
    if any(isinstance(length, Tensor) for length in lengths):
        return torch.stack([length for length in lengths if isinstance(length, Tensor)]).amax()
    return max([0, *lengths])  # compilers know no `default=`


def new_position_ids(
    is_token: Bool[Tensor, "B Tk"], start: int | Int[Tensor, ""], tokens: Int[Tensor, "B T"]
) -> Int[Tensor, "B T"]:
    """Where the tokens from `start` on stand among the tokens of their row, padding not counted."""
    B, T = tokens.shape
    check_mask(is_token, (B, is_token.shape[-1] if isinstance(start, Tensor) else start + T))
    new = start + torch.arange(T, device=tokens.device)
    return (is_token.long().cumsum(-1) - 1).clamp(min=0)[:, new]


def add_query_axis(mask: Bool[Tensor, "B T"] | None) -> Bool[Tensor, "B 1 T"] | None:
    """Every query may see the same keys: the mask gets an axis for the queries."""
    return None if mask is None else mask[:, None, :]


def check_tokens(tokens: Tensor, V: int) -> None:
    """Raise ValueError unless 0 ≤ token < V."""
    if tokens.device.type == "meta" or not tokens.numel():
        return
    low, high = (int(end) for end in tokens.aminmax())
    if low < 0 or high >= V:
        wrong = low if low < 0 else high
        raise ValueError(f"token {wrong} is not in the vocabulary of {V} (0 to {V - 1})")


Model = TypeVar("Model", bound=nn.Module)
Matrix = Callable[[str, Tensor], None]


class Tied(nn.Linear):
    """Output layer that shares the embedding's weight. Press and Wolf 2017.

    Saved once, and safe under copying and conversion: it holds no weight of its own.
    """

    def __init__(self, embed: Embed, bias: bool = False):
        V, width = embed.tokens.weight.shape
        super().__init__(width, V, bias=bias)
        del self.weight
        self.embed = (embed,)  # in a tuple, so that it is no part of this part

    @property
    def weight(self) -> Float[Tensor, "V C"]:  # type: ignore[override]  # torch has a parameter
        """The embedding's vectors."""
        return self.embed[0].tokens.weight


def initialise(model: Model, matrix: Matrix, embedding_std: float = 0.02) -> Model:
    """Random starting values: `matrix(name, weight)` for linear maps, zeros for their biases."""
    for name, part in model.named_modules():
        if isinstance(part, nn.Linear):
            matrix(name, part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    for part in model.modules():  # after the linear maps: a tied matrix is an embedding's
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=embedding_std)
    return model


def xavier(name: str, weight: torch.Tensor) -> None:
    """As large going out as coming in. Glorot and Bengio 2010, equation 16."""
    for part in weight.chunk(3) if name.endswith("to_qkv") else (weight,):
        nn.init.xavier_uniform_(part)


def normal(name: str, weight: torch.Tensor, depth: int | None = None, std: float = 0.02) -> None:
    """Small normal numbers; with `depth`, smaller where a part is added to the residual path.

    Radford et al. 2019, section 2.3: 1/√N for N residual layers, two in each block.
    """
    if depth is not None and name.endswith(("to_out", "down")):
        std = std / math.sqrt(2 * depth)
    nn.init.normal_(weight, std=std)
