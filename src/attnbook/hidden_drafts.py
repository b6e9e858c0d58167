"""Drafts that start from what the model itself knew: its last hidden state, read only once.

`Watched` hands the model on to `speculative` and keeps the hidden states of what it reads. From
these propose either heads, one for each step ahead, or one small block that is applied again and
again.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.cache import Kept, KVCache
from attnbook.drafts import nothing
from attnbook.masks import causal
from attnbook.multitoken import MultiToken
from attnbook.speculative import Chances, Drafted, certain, common
from attnbook.train import token_loss
from attnbook.transformer import LanguageModel, seen_by, vectors


class Watched(nn.Module):
    """A language model that keeps the hidden states of one text, as far as it has read it.

    Called, it is the model. What the caches have been cut by is forgotten here, too.
    """

    def __init__(self, model: LanguageModel):
        super().__init__()
        self.model = model
        self.hidden: Float[Tensor, "T C"] | None = None
        self.seen: Int[Tensor, " T"] = torch.zeros(0, dtype=torch.long)

    def forward(
        self, tokens: Int[Tensor, "1 T"], caches: list[Kept] | None = None
    ) -> Float[Tensor, "1 T V"]:
        """Logits of the token after each position, as the model gives them."""
        start, model = int(seen_by(caches)), self.model
        new = model.body(vectors(model.embed, tokens, start), mask=causal, caches=caches)
        past = new[0, :0] if self.hidden is None or start == 0 else self.hidden[:start]
        self.hidden = torch.cat((past, new[0]))
        self.seen = torch.cat((self.seen[:start], tokens[0].cpu()))
        return model.to_vocab(new)

    def caches(self, room: int | None = None) -> list[Kept]:
        """The model's."""
        return self.model.caches(room)

    def before_last(self, tokens: Int[Tensor, " T"]) -> Float[Tensor, "_ C"] | None:
        """The hidden states of all these tokens but the last, which nobody has read yet; None if
        others were read."""
        past = tokens[:-1]
        if self.hidden is None or not len(past) or common(self.seen, past) < len(past):
            return None
        return self.hidden[: len(past)]


class Heads(nn.Module):
    """K heads on one hidden state h; head k is about the token k + 1 places further.

    h + SiLU(W h), then an output layer of its own, which begins as a copy of the model's, as W
    begins at 0: at first each head says what the model says of the next token. Cai et al. 2024
    (Medusa), section 2.1.1.
    """

    def __init__(self, to_vocab: nn.Linear, K: int):
        super().__init__()
        if K < 1:
            raise ValueError(f"needs at least 1 head; got K = {K}")
        V, width = to_vocab.weight.shape
        self.V = V
        self.W = nn.Parameter(torch.zeros(K, width, width))
        self.to_vocab = nn.Parameter(to_vocab.weight.detach().expand(K, V, width).clone())

    def forward(self, hidden: Float[Tensor, "N C"], K: int | None = None) -> Float[Tensor, "K N V"]:
        """The logits of the first K heads."""
        own = hidden + F.silu(hidden @ self.W[:K])
        return own @ self.to_vocab[:K].mT


def heads_loss(
    model: LanguageModel, heads: Heads, tokens: Int[Tensor, "B T"], shrink: float = 0.8
) -> Float[Tensor, ""]:
    """The losses of all heads, head k's times shrink^k; the model itself learns nothing.

    Cai et al. 2024, section 2.2.1.
    """
    K = len(heads.W)
    if tokens.shape[1] < K + 2:
        raise ValueError(f"{tokens.shape[1]} tokens are too few to look {K + 1} ahead of one")
    with torch.no_grad():
        hidden = model.body(vectors(model.embed, tokens, 0), mask=causal)[:, : -K - 1]
    said = heads(hidden.flatten(0, 1))
    losses = (
        shrink**k * token_loss(logits, tokens[:, k + 1 :][:, : hidden.shape[1]].flatten())
        for k, logits in enumerate(said, start=1)
    )
    return sum(losses, torch.zeros(()))


class HeadsDraft:
    """Heads propose: all tokens at once, none of them knowing the others, nor the last one.

    Proposes nothing before the model has read a first time.
    """

    def __init__(self, watched: Watched, heads: Heads, chances: Chances = certain):
        self.watched, self.heads, self.chances = watched, heads, chances

    @torch.no_grad()
    def __call__(
        self, tokens: Int[Tensor, " T"], K: int, generator: torch.Generator | None = None
    ) -> Drafted:
        hidden = self.watched.before_last(tokens)
        if hidden is None or K < 1:
            return nothing(self.heads.V)
        q = self.chances(self.heads(hidden[-1:], K)[:, 0].cpu())
        return torch.multinomial(q, 1, generator=generator)[:, 0], q


class ChainDraft:
    """A multi-token block proposes: it reads h and the token after it, then its own output and
    the token that it has just proposed, and so on.

    It was trained for the first of these steps (Li et al. 2024, EAGLE, apply one block in this way;
    DeepSeek-V3 trains a block for each). What it knows of the text stays in a cache of its own.
    """

    def __init__(self, watched: Watched, block: MultiToken, V: int, chances: Chances = certain):
        self.watched, self.block, self.V, self.chances = watched, block, V, chances
        self.cache, self.read = KVCache(), torch.zeros(0, dtype=torch.long)

    @torch.no_grad()
    def __call__(
        self, tokens: Int[Tensor, " T"], K: int, generator: torch.Generator | None = None
    ) -> Drafted:
        model, hidden = self.watched.model, self.watched.before_last(tokens)
        drafted, chances = nothing(self.V)
        if hidden is None or K < 1:
            return drafted, chances
        known = min(common(self.read, tokens), len(tokens) - 1) - 1  # at i: h of i, token i + 1
        known = max(0, known)
        self.cache.cut(known)
        state, new = hidden[None, known:], tokens[known + 1 :]
        for _ in range(K):
            here = new[None].to(state.device)
            state = self.block(state, vectors(model.embed, here, 0), self.cache)[:, -1:]
            q = self.chances(model.to_vocab(state)[0].cpu())
            new = torch.multinomial(q[0], 1, generator=generator)
            drafted, chances = torch.cat((drafted, new)), torch.cat((chances.to(q.dtype), q))
        self.cache.cut(len(tokens) - 1)
        self.read = tokens
        return drafted, chances
