"""A GRU whose gates see only the input: rounds, loop and pieces give the same."""

import torch
from torch import nn

from attnbook.recurrence.min_gru import MinGRU
from attnbook.recurrence.scan import scan_loop


def x(T=9):
    return torch.randn(2, T, 5, generator=torch.Generator().manual_seed(1))


def layer():
    torch.manual_seed(0)
    return MinGRU(5, 7)


def test_it_is_torchs_gru_without_what_comes_from_the_state():
    """Torch's z keeps, ours takes in; its candidate is squashed, so weights here are small."""
    made, theirs = layer(), nn.GRU(5, 7, batch_first=True)
    made.to_candidate.requires_grad_(False)
    theirs.requires_grad_(False)
    for kind in ("weight", "bias"):
        gate, candidate = getattr(made.to_gate, kind), getattr(made.to_candidate, kind)
        candidate *= 1e-3
        reset = torch.zeros_like(gate)
        getattr(theirs, f"{kind}_ih_l0").copy_(torch.cat((reset, -gate, candidate)))
        getattr(theirs, f"{kind}_hh_l0").zero_()
    expected = made.to_out(theirs(x())[0])
    assert torch.allclose(made(x()), expected, atol=1e-7) and expected.abs().max() > 1e-4


def test_the_loop_does_the_same():
    made = layer()
    expected = made(x())
    made.scan = scan_loop
    assert torch.allclose(made(x()), expected, atol=1e-6)


def test_read_piece_by_piece_it_is_the_same():
    made, given = layer(), x()
    cache = made.cache()
    pieces = [made(piece, cache=cache) for piece in given.split([4, 1, 1, 3], 1)]
    assert torch.allclose(torch.cat(pieces, 1), made(given), atol=1e-6)


def test_future_cannot_leak():
    given = x().requires_grad_()
    (slope,) = torch.autograd.grad(layer()(given)[:, 4].sum(), given)
    assert slope[:, :5].abs().sum(-1).min() > 0 and not slope[:, 5:].any()
