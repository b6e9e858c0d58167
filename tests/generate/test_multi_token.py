"""A second token at once: a chain that sees no future, a loss by the formula, an exact draft."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm
from attnbook.feedforward import SwiGLU
from attnbook.generate.multi_token import (
    MultiToken,
    MultiTokenDraft,
    MultiTokenModel,
    multitoken_loss,
)
from attnbook.generate.sampling import generate
from attnbook.generate.speculative import speculative
from attnbook.models.llama import llama
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary

V, WIDTH = 11, 12


def head():
    attention = MultiHeadAttention(WIDTH, 3, rotate=Rotary(4), bias=False)
    block = Block(PreNorm(attention, RMSNorm(WIDTH)), PreNorm(SwiGLU(WIDTH, 20), RMSNorm(WIDTH)))
    return MultiToken(WIDTH, block, RMSNorm(WIDTH), RMSNorm(WIDTH), RMSNorm(WIDTH))


def model(heads=2, seed=0):
    torch.manual_seed(seed)
    plain = llama(V=V, width=WIDTH, depth=1, heads=3, hidden=20)
    return MultiTokenModel(plain, *(head() for _ in range(heads)))


def tokens(B=2, T=8):
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))


def test_called_it_is_the_model_alone():
    made = model()
    assert torch.equal(made(tokens()), made.model(tokens()))
    assert torch.equal(generate(made, tokens(), 3), generate(made.model, tokens(), 3))


def test_each_looks_one_further_and_sees_no_further_than_the_token_before():
    made = model()
    shapes = [tuple(logits.shape) for logits in made.all_logits(tokens())]
    assert shapes == [(2, 8, V), (2, 7, V), (2, 6, V)]
    changed = tokens()
    changed[:, 5] = (changed[:, 5] + 1) % V
    pairs = zip(made.all_logits(tokens()), made.all_logits(changed), strict=True)
    for ahead, (one, two) in enumerate(pairs):
        same = [torch.allclose(one[:, t], two[:, t], atol=1e-6) for t in range(one.shape[1])]
        assert same == [t + ahead < 5 for t in range(one.shape[1])]


def test_the_loss_is_the_formula():
    made, given = model(), tokens()
    plain, first, second = made.model, *made.ahead
    embedded = plain.embed(given)
    h = plain.body(embedded[:, :-1], mask=torch.ones(7, 7, dtype=torch.bool).tril())
    past = torch.ones(7, 7, dtype=torch.bool).tril()
    losses = [F.cross_entropy(plain.lm_head(h).flatten(0, 1), given[:, 1:].flatten())]
    for k, module in ((1, first), (2, second)):
        parts = module.hidden_norm(h[:, :-1]), module.token_norm(embedded[:, k:-1])
        joined = torch.cat(parts, -1) @ module.join.weight.T
        h = module.norm(module.block(joined, mask=past[k:, k:]))
        losses.append(F.cross_entropy(plain.lm_head(h).flatten(0, 1), given[:, k + 1 :].flatten()))
    expected = losses[0] + 0.3 * (losses[1] + losses[2]) / 2
    found = multitoken_loss(made, given)
    assert torch.allclose(found, expected)
    slopes = [torch.autograd.grad(loss, list(made.parameters())) for loss in (found, expected)]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*slopes, strict=True))


def test_as_a_draft_it_changes_nothing_that_is_written():
    made = model()
    for weight in made.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.5)
    start = torch.tensor([3, 1, 4])
    written = speculative(made, MultiTokenDraft(made), start, 12, K=1)
    assert torch.equal(written.tokens, generate(made, start[None], 12)[0])
    assert written.calls + written.kept == 12 and written.proposed > 0


def test_once_trained_it_is_nearly_always_right():
    """Text that counts round: after training, one call in two writes the second token too."""
    made = model(1)
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    g = torch.Generator().manual_seed(2)
    for _ in range(60):
        text = (torch.arange(9) + torch.randint(V, (16, 1), generator=g)) % V
        loss = multitoken_loss(made, text)
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    written = speculative(made, MultiTokenDraft(made), torch.tensor([3, 4, 5]), 6, K=1)
    assert written.tokens.tolist() == [3, 4, 5, 6, 7, 8, 9, 10, 0]
    assert written.kept == written.proposed == 3


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least 1 module"):
        MultiTokenModel(model().model)
    with pytest.raises(ValueError, match="3 tokens are too few to look 3 ahead"):
        multitoken_loss(model(), tokens(T=3))
