"""The transformer: vectors for tokens, a stack of blocks, and the way back to a vocabulary.

Three families use the same parts: a decoder alone (`LanguageModel`), an encoder alone
(`MaskedLanguageModel`), and both (`EncoderDecoder`). `recipes.py` puts the published ones together.
"""

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.attention import causal_mask
from attnbook.block import Stack
from attnbook.cache import KVCache


class Embed(nn.Module):
    """A vector for each token: what it is, times `scale`, plus where it stands.

    `positions(T, start)` gives the second part; without it only the blocks can know the order.
    Vaswani et al. 2017, sections 3.4 and 3.5, where `scale` is √width.
    """

    def __init__(
        self,
        V: int,
        width: int,
        positions: nn.Module | None = None,
        scale: float = 1.0,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, width), positions
        self.scale, self.norm = scale, norm or nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Int[Tensor, "B T"], start: int = 0) -> Float[Tensor, "B T C"]:
        """The first token stands at position `start`."""
        check_tokens(tokens, self.tokens.num_embeddings)
        x = self.scale * self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(tokens.shape[1], start)
        return self.dropout(self.norm(x))


class LanguageModel(nn.Module):
    """How likely is each token of the vocabulary to come next, given those so far?

    A decoder alone: causal self-attention at every position. Radford et al. 2018, section 3.1.
    """

    def __init__(self, embed: nn.Module, body: Stack, to_vocab: nn.Module):
        super().__init__()
        self.embed, self.body, self.to_vocab = embed, body, to_vocab

    def forward(
        self, tokens: Int[Tensor, "B T"], caches: Sequence[KVCache] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each position. With `caches`, `tokens` are the new."""
        start = caches[0].length if caches else 0
        T = tokens.shape[1]
        # The only position, or the newest, may see everything: it needs no mask.
        mask = causal_mask(T, start + T, tokens.device) if T > 1 else None
        return self.to_vocab(self.body(self.embed(tokens, start), mask=mask, caches=caches))

    @property
    def limit(self) -> int | None:
        """How many positions the model has learned; None if it can read on and on."""
        table = getattr(self.embed.positions, "table", None)
        return None if table is None else len(table)

    def caches(self) -> list[KVCache]:
        """An empty cache for each block: hand them to every call for the same sequences."""
        return [KVCache() for _ in self.body.blocks]


class MaskedLanguageModel(nn.Module):
    """What stood where the gaps are, given everything around them?

    An encoder alone: every position sees every other. Devlin et al. 2019, section 3.1, task 1.
    """

    def __init__(self, embed: nn.Module, body: Stack, to_vocab: nn.Module):
        super().__init__()
        self.embed, self.body, self.to_vocab = embed, body, to_vocab

    def forward(
        self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token at each position. `mask` is True at tokens, False at padding."""
        return self.to_vocab(self.body(self.embed(tokens), mask=over_keys(mask)))


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
        to_vocab: nn.Module,
    ):
        super().__init__()
        self.source_embed, self.encoder = source_embed, encoder
        self.target_embed, self.decoder, self.to_vocab = target_embed, decoder, to_vocab

    def forward(
        self,
        source: Int[Tensor, "B Tk"],
        source_mask: Bool[Tensor, "B Tk"],
        target_in: Int[Tensor, "B Tq"],
    ) -> Float[Tensor, "B Tq V"]:
        """Teacher forcing, all positions at once: logits of the token after each target token."""
        return self.decode(target_in, self.encode(source, source_mask), source_mask)

    def encode(
        self, source: Int[Tensor, "B Tk"], source_mask: Bool[Tensor, "B Tk"]
    ) -> Float[Tensor, "B Tk C"]:
        """The memory that every block of the decoder looks at."""
        return self.encoder(self.source_embed(source), mask=over_keys(source_mask))

    def decode(
        self,
        target_in: Int[Tensor, "B Tq"],
        memory: Float[Tensor, "B Tk C"],
        source_mask: Bool[Tensor, "B Tk"],
    ) -> Float[Tensor, "B Tq V"]:
        """Logits of the token after each target token. Padding at the end needs no mask here:
        it comes later than every real token."""
        mask = causal_mask(target_in.shape[1], device=target_in.device)
        x = self.target_embed(target_in)
        x = self.decoder(x, memory, mask=mask, memory_mask=over_keys(source_mask))
        return self.to_vocab(x)


def over_keys(mask: Bool[Tensor, "B T"] | None) -> Bool[Tensor, "B 1 T"] | None:
    """Every query may see the same keys: the mask gets an axis for the queries."""
    return None if mask is None else mask[:, None, :]


def check_tokens(tokens: Tensor, V: int) -> None:
    """Raise a ValueError if a token has no row in a vocabulary of V."""
    if tokens.device.type == "meta" or not tokens.numel():
        return
    low, high = (int(end) for end in tokens.aminmax())
    if low < 0 or high >= V:
        wrong = low if low < 0 else high
        raise ValueError(f"token {wrong} is not in the vocabulary of {V} (0 to {V - 1})")
