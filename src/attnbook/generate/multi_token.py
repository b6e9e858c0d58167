"""A second token at once: a head that predicts the token after the next one.

It sees what the model has made of the past, and the next token itself, and so stays a chain:
nothing is predicted before what it depends on. DeepSeek-AI 2024 (DeepSeek-V3), section 2.2.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.cache import DecodingState, KVCache
from attnbook.device import device_of
from attnbook.generate.speculative import Chances, Drafted, certain, common, nothing
from attnbook.losses import token_loss
from attnbook.masks import causal
from attnbook.transformer import LanguageModel, prefix_length, vectors


class MultiToken(nn.Module):
    """One step further: block(join([N(h_t), N(e_{t+1})])), to be read by the model's own head.

    h_t is what the model (or the module before this one) knows at t, e_{t+1} the embedding of the
    next token; the result is about token t + 2. Equations 21 to 23.
    """

    def __init__(
        self,
        width: int,
        block: nn.Module,
        hidden_norm: nn.Module,
        token_norm: nn.Module,
        norm: nn.Module,
    ):
        super().__init__()
        self.hidden_norm, self.token_norm, self.norm = hidden_norm, token_norm, norm
        self.join, self.block = nn.Linear(2 * width, width, bias=False), block

    def forward(
        self,
        hidden: Float[Tensor, "B T C"],
        embedded: Float[Tensor, "B T C"],
        cache: DecodingState | None = None,
    ) -> Float[Tensor, "B T C"]:
        """`embedded` holds the token after each of the positions of `hidden`, which are the new
        ones where the block has a `cache`."""
        joined = torch.cat((self.hidden_norm(hidden), self.token_norm(embedded)), -1)
        return self.norm(self.block(self.join(joined), mask=causal, cache=cache))


class MultiTokenModel(nn.Module):
    """A language model with modules that look 2, 3, … tokens ahead, and share its tables.

    Called, it is the model alone: what is added serves training, and drafts.
    """

    def __init__(self, model: LanguageModel, *ahead: MultiToken):
        super().__init__()
        if not ahead:
            raise ValueError("needs at least 1 module that looks further ahead; got none")
        self.model, self.ahead = model, nn.ModuleList(ahead)

    def forward(self, *given: object, **named: object) -> Float[Tensor, "B T V"]:
        return self.model(*given, **named)

    def caches(self, max_len: int | None = None) -> list[DecodingState]:
        """The model's."""
        return self.model.caches(max_len)

    def all_logits(self, tokens: Int[Tensor, "B T"]) -> list[Float[Tensor, "B _ V"]]:
        """Logits 1, 2, … tokens ahead of each position; the further, the fewer positions."""
        model = self.model
        hidden = model.body(model.embed(tokens), mask=causal)
        found = [model.lm_head(hidden)]
        for k, module in enumerate(self.ahead, start=1):
            hidden = module(hidden[:, :-1], model.embed(tokens[:, k:]))
            found.append(model.lm_head(hidden))
        return found


def multitoken_loss(
    model: MultiTokenModel, tokens: Int[Tensor, "B T"], weight: float = 0.3
) -> Float[Tensor, ""]:
    """The loss of the next token, and `weight` times the mean loss of those further ahead.

    Equation 25; the weight was 0.3, later 0.1 (section 4.2).
    """
    if tokens.shape[1] < len(model.ahead) + 2:
        raise ValueError(
            f"{tokens.shape[1]} tokens are too few to look {len(model.ahead) + 1} ahead of one"
        )
    losses = [
        token_loss(logits, tokens[:, k:])
        for k, logits in enumerate(model.all_logits(tokens[:, :-1]), start=1)
    ]
    return losses[0] + weight * sum(losses[1:]) / len(model.ahead)


class MultiTokenDraft:
    """The first module as a draft: one token, from what the model knew before the last one.

    For measuring how often it is right: it reads the text anew. A server keeps the model's own
    hidden states instead.
    """

    def __init__(self, model: MultiTokenModel, chances: Chances = certain):
        self.model, self.chances = model, chances

    @torch.no_grad()
    def __call__(
        self, tokens: Int[Tensor, " T"], K: int, generator: torch.Generator | None = None
    ) -> Drafted:
        model = self.model.model
        rows = tokens[None].to(device_of(model))
        if K < 1 or len(tokens) < 2:
            return tokens[:0], model.lm_head(model.embed(rows[:, :0]))[0].cpu()
        hidden = model.body(model.embed(rows[:, :-1]), mask=causal)
        ahead = self.model.ahead[0](hidden, model.embed(rows[:, 1:]))
        q = self.chances(model.lm_head(ahead)[0, -1:].cpu())
        return torch.multinomial(q[0], 1, generator=generator), q


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
        self, tokens: Int[Tensor, "1 T"], caches: list[DecodingState] | None = None
    ) -> Float[Tensor, "1 T V"]:
        """Logits of the token after each position, as the model gives them."""
        start, model = int(prefix_length(caches)), self.model
        new = model.body(vectors(model.embed, tokens, start), mask=causal, caches=caches)
        past = new[0, :0] if self.hidden is None or start == 0 else self.hidden[:start]
        self.hidden = torch.cat((past, new[0]))
        self.seen = torch.cat((self.seen[:start], tokens[0].cpu()))
        return model.lm_head(new)

    def caches(self, max_len: int | None = None) -> list[DecodingState]:
        """The model's."""
        return self.model.caches(max_len)

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

    def __init__(self, lm_head: nn.Linear, K: int):
        super().__init__()
        if K < 1:
            raise ValueError(f"needs at least 1 head; got K = {K}")
        V, width = lm_head.weight.shape
        self.V = V
        self.W = nn.Parameter(torch.zeros(K, width, width))
        self.lm_head = nn.Parameter(lm_head.weight.detach().expand(K, V, width).clone())

    def forward(self, hidden: Float[Tensor, "N C"], K: int | None = None) -> Float[Tensor, "K N V"]:
        """The logits of the first K heads."""
        own = hidden + F.silu(hidden @ self.W[:K])
        return own @ self.lm_head[:K].mT


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
            q = self.chances(model.lm_head(state)[0].cpu())
            new = torch.multinomial(q[0], 1, generator=generator)
            drafted, chances = torch.cat((drafted, new)), torch.cat((chances.to(q.dtype), q))
        self.cache.cut(len(tokens) - 1)
        self.read = tokens
        return drafted, chances
