"""A second token at once: a head that predicts the token after the next one.

It sees what the model has made of the past, and the next token itself, and so stays a chain:
nothing is predicted before what it depends on. DeepSeek-AI 2024 (DeepSeek-V3), section 2.2.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.cache import Kept
from attnbook.masks import causal
from attnbook.speculative import Chances, Drafted, certain
from attnbook.train import token_loss
from attnbook.transformer import LanguageModel


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
        cache: Kept | None = None,
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

    def caches(self, room: int | None = None) -> list[Kept]:
        """The model's."""
        return self.model.caches(room)

    def all_logits(self, tokens: Int[Tensor, "B T"]) -> list[Float[Tensor, "B _ V"]]:
        """Logits 1, 2, … tokens ahead of each position; the further, the fewer positions."""
        model = self.model
        hidden = model.body(model.embed(tokens), mask=causal)
        found = [model.to_vocab(hidden)]
        for k, module in enumerate(self.ahead, start=1):
            hidden = module(hidden[:, :-1], model.embed(tokens[:, k:]))
            found.append(model.to_vocab(hidden))
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
        rows = tokens[None].to(next(model.parameters()).device)
        if K < 1 or len(tokens) < 2:
            return tokens[:0], model.to_vocab(model.embed(rows[:, :0]))[0].cpu()
        hidden = model.body(model.embed(rows[:, :-1]), mask=causal)
        ahead = self.model.ahead[0](hidden, model.embed(rows[:, 1:]))
        q = self.chances(model.to_vocab(ahead)[0, -1:].cpu())
        return torch.multinomial(q[0], 1, generator=generator), q
