"""Attention in tiles is attention, and no tensor on the way grows with the square of T."""

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from attnbook.attention import attend
from attnbook.efficient.flash import flash_attend, online_softmax
from attnbook.efficient.sparse import hubs
from attnbook.masks import And, causal, causal_mask, length_mask, local, pattern_mask

B, H, D, Dv = 2, 3, 5, 4


def qkv(Tq, Tk, seed=0):
    g = torch.Generator().manual_seed(seed)
    shapes = (B, H, Tq, D), (B, H, Tk, D), (B, H, Tk, Dv)
    return tuple(torch.randn(shape, generator=g).double().requires_grad_() for shape in shapes)


@given(st.integers(1, 9), st.integers(1, 11), st.integers(0, 10**6))
def test_softmax_in_one_pass_is_softmax(T, block, seed):
    scores = 50 * torch.randn(3, T, generator=torch.Generator().manual_seed(seed))
    assert_close(online_softmax(scores, block), scores.softmax(-1))


def test_softmax_in_one_pass_by_hand():
    """1, 2, 4 in units of ln: when 4 turns up, the 1.5 collected so far become 0.75."""
    assert_close(
        online_softmax(torch.tensor([1.0, 2, 4]).log()), torch.tensor([1 / 7, 2 / 7, 4 / 7])
    )


def test_softmax_in_one_pass_begins_after_minus_infinity():
    inf = torch.inf
    scores = torch.tensor([[-inf, -inf, 0.0, 0.0], [-inf] * 4, [1e4, -inf, -1e4, 1e4]])
    expected = torch.tensor([[0, 0, 0.5, 0.5], [0, 0, 0, 0], [0.5, 0, 0, 0.5]])
    for block in (1, 2, 3, 4):
        assert_close(online_softmax(scores, block), expected)


@settings(max_examples=60)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 10),
    st.sampled_from([None, "Tq Tk", "B 1 1 Tk", "B H Tq Tk", "1 Tk", "Tk"]),
    st.integers(0, 10**6),
)
def test_tiles_are_attend_forward_and_gradient_with_any_mask(Tq, Tk, block, axes, seed):
    q, k, v = qkv(Tq, Tk, seed)
    lengths = {"B": B, "H": H, "Tq": Tq, "Tk": Tk, "1": 1}
    mask = None
    if axes:
        g = torch.Generator().manual_seed(seed)
        mask = torch.rand([lengths[axis] for axis in axes.split()], generator=g) < 0.5
    ours, theirs = flash_attend(q, k, v, mask, block=block), attend(q, k, v, mask)[0]
    assert_close(ours, theirs)
    if mask is not None and not mask.any():
        assert not ours.requires_grad  # nothing was computed from q, k and v
        return
    probe = torch.randn_like(ours)
    grads = [
        torch.autograd.grad((x * probe).sum(), (q, k, v), materialize_grads=True)
        for x in (ours, theirs)
    ]
    assert_close(*grads)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 5), st.integers(1, 10), st.integers(1, 4))
def test_a_pattern_is_its_mask(Tq, more, block, number):
    q, k, v = qkv(Tq, Tq + more)
    for pattern in (causal, local(number), hubs(number), And(causal, local(number))):
        expected = attend(q, k, v, pattern_mask(pattern, Tq, Tq + more))[0]
        assert_close(flash_attend(q, k, v, pattern=pattern, block=block), expected)


def test_pattern_and_padding_together():
    q, k, v = qkv(7, 7)
    mask = length_mask(torch.tensor([7, 3]))[:, None, None]
    expected = attend(q, k, v, causal_mask(7) & mask)[0]
    assert_close(flash_attend(q, k, v, mask, causal, block=2), expected)


def test_who_may_see_nothing_gets_zeros_and_sends_no_gradient():
    q, k, v = qkv(5, 5)
    mask = causal_mask(5)
    mask[1] = False
    output = flash_attend(q, k, v, mask, block=2)
    assert (output[..., 1, :] == 0).all()
    output.sum().backward()
    assert (q.grad[..., 1, :] == 0).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert (flash_attend(q, k, v, torch.zeros(5, 5).bool()) == 0).all()


def test_great_scores_do_not_overflow():
    q, k, v = (x.detach().float() for x in qkv(6, 6))
    assert_close(flash_attend(300 * q, k, v, block=2), attend(300 * q, k, v)[0])


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation returns."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function, types, given=(), named=None):
        output = function(*given, **(named or {}))
        for tensor in output if isinstance(output, tuple | list) else [output]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.numel())
        return output


def largest(call, T):
    q, k, v = (torch.randn(T, D).requires_grad_() for _ in range(3))
    with Largest() as counted:
        call(q, k, v)
    return counted.numel


@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("pattern", [None, causal])
def test_memory_grows_with_T_and_not_with_its_square(backward, pattern):
    def run(q, k, v):
        output = flash_attend(q, k, v, pattern=pattern, block=8)
        if backward:
            output.sum().backward()

    def plain(q, k, v):
        attend(q, k, v)

    assert [largest(run, T) for T in (64, 128, 256)] == [64 * D, 128 * D, 256 * D]
    assert [largest(plain, T) for T in (64, 128, 256)] == [64**2, 128**2, 256**2]


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_the_square_either():
    def kept(T):
        q, k, v = (torch.randn(T, D).requires_grad_() for _ in range(3))
        storages = {}

        def pack(tensor):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            output = flash_attend(q, k, v, block=8)
        assert output.shape == (T, D)
        return sum(storages.values()) / 4

    assert kept(128) <= 2 * kept(64) <= 2 * 4 * 64 * D


def test_tiles_that_nobody_may_see_are_not_computed():
    q, k, v = (torch.randn(32, D) for _ in range(3))

    def products(pattern):
        with Products() as counted:
            flash_attend(q, k, v, pattern=pattern, block=8)
        return counted.number

    assert products(None) == 2 * 16  # 4 × 4 tiles, two products each
    assert products(causal) == 2 * 10
    assert products(And(causal, local(8))) == 2 * 7


class Products(TorchDispatchMode):
    """How many matrix products are computed."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, function, types, given=(), named=None):
        self.number += function in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default)
        return function(*given, **(named or {}))


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    q, k, v = qkv(5, 3)
    for call, message in [
        (lambda: flash_attend(q, k, v, block=0), "at least 1 position; got 0"),
        (lambda: online_softmax(torch.ones(3), 0), "at least 1 score; got 0"),
        (lambda: flash_attend(q, k, v[..., :2, :]), "3 keys but 2 values"),
        (lambda: flash_attend(q, k, v, pattern=causal), "5 queries cannot be the last of 3"),
        (lambda: flash_attend(q, k, v, torch.ones(5, 4) > 0), r"mask \(5, 4\) does not fit"),
        (lambda: flash_attend(q, k[..., :4], v), "queries have width 5, keys have width 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
