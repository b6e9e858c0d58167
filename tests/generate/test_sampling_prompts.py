"""Stop tokens, rows that have ended, and prompts that are refused with a word on why."""

import jaxtyping
import pytest
import torch
from elsewhere import elsewhere
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from attnbook.generate.sampling import (
    StopTokens,
    check_nan,
    generate,
    last_logits,
    left_order,
    sample,
    stop_tokens,
    stream,
)
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama

V = 13


class Counting(nn.Module):
    """A model without weights: after each token comes the next number, for certain."""

    def forward(self, tokens):
        return torch.eye(V)[(tokens + 1) % V].log()


@pytest.fixture(autouse=True)
def as_readers_have_it(monkeypatch):
    """What is refused is refused by the module's own words, not by the tests' checks of types."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def count(start, steps, **how):
    """What `Counting` writes after rows of one token each."""
    tokens = torch.tensor(start)[:, None]
    return generate(Counting(), tokens, steps, cached=False, **how)[:, 1:].tolist()


# -- stop tokens --------------------------------------------------------------------------------


def test_without_a_stop_token_nothing_stops():
    assert count([3, 11], 4) == [[4, 5, 6, 7], [12, 0, 1, 2]]


def test_one_for_all_rows():
    assert count([3, 4], 5, eos=6) == [[4, 5, 6], [5, 6, 6]]
    assert count([3, 4], 5, eos=6, pad=0) == [[4, 5, 6], [5, 6, 0]]


def test_any_of_a_set_and_the_one_that_was_written_is_repeated():
    assert count([3, 4, 9], 5, eos={6, 11}) == [[4, 5, 6], [5, 6, 6], [10, 11, 11]]


def test_one_for_each_row():
    assert count([3, 3, 3], 9, eos=torch.tensor([4, 6, 5])) == [[4, 4, 4], [4, 5, 6], [4, 5, 5]]


def test_a_row_that_never_stops_goes_on_to_the_last_step():
    assert count([3, 8], 4, eos=5, pad=12) == [[4, 5, 12, 12], [9, 10, 11, 12]]


def test_a_stop_token_in_the_prompt_stops_nothing():
    assert count([6, 5], 2, eos=6) == [[7, 8], [6, 6]]


def test_nothing_is_computed_after_the_last_row_has_stopped():
    calls = []

    def model(tokens):
        calls.append(1)
        return Counting()(tokens)

    assert len(list(stream(model, torch.tensor([[3], [5]]), 50, cached=False, eos=8))) == 5
    assert len(calls) == 5


@pytest.mark.parametrize("pad", [None, 0])
@pytest.mark.parametrize("cached", [True, False])
def test_a_row_that_has_ended_changes_no_other(cached, pad):
    torch.manual_seed(1)
    model = llama(V, width=12, depth=2, heads=3, kv_heads=1).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    tokens = torch.randint(V, (3, 4))

    def write(**how):
        choose = sample(generator=torch.Generator().manual_seed(2))
        return generate(model, tokens, 12, choose, cached, **how)[:, 4:]

    free = write()
    end = int(free[1, 2])
    stopped = write(eos=end, pad=pad)
    for row, other in zip(stopped.tolist(), free.tolist(), strict=True):
        own = other.index(end) + 1 if end in other else len(other)
        assert row[:own] == other[: min(own, len(row))]
        assert set(row[own:]) <= {end if pad is None else pad}
    assert stopped[1, 3:].unique().tolist() == [end if pad is None else pad]


# -- what is refused ----------------------------------------------------------------------------

GOOD = torch.tensor([[3, 1], [4, 1]])
REFUSED = [
    (([[3, 1]], 2), {}, r"a tensor of token numbers.*got a list"),
    ((GOOD[0], 2), {}, r"one row alone is tokens\[None\]; got \(2,\) of torch.int64"),
    ((GOOD.float(), 2), {}, r"rows of token numbers.*got \(2, 2\) of torch.float32"),
    ((GOOD > 1, 2), {}, r"got \(2, 2\) of torch.bool"),
    ((GOOD[:, :0], 2), {}, "at least 1 token and max_new_tokens of at least 0; got 0 and 2"),
    ((GOOD, -1), {}, "got 2 and -1"),
    ((GOOD, 2), {"window": 0}, "a window shows at least 1 token; got 0"),
    ((GOOD, 2), {"window": 10}, "would read 10 tokens, it has learned 9"),
    ((GOOD.repeat(1, 5), 1), {}, "would read 10 tokens, it has learned 9 .*with window=9"),
    ((GOOD + V, 2), {}, f"token {V + 4} is not in the vocabulary of {V}"),
    ((GOOD, 2), {"eos": V}, rf"a stop token is one of the model's, 0 to {V - 1}; got {V}"),
    ((GOOD, 2), {"eos": {1, -2}}, "got -2"),
    ((GOOD, 2), {"eos": 3, "pad": V + 5}, f"got {V + 5}"),
    ((GOOD, 2), {"eos": set()}, r"a number, a set of numbers, or .* one per row; got set\(\)"),
    ((GOOD, 2), {"eos": "."}, r"a stop token is a number, .*got '\.'"),
    ((GOOD, 2), {"eos": torch.tensor([1])}, r"per row has shape \(2,\); got \(1,\)"),
    ((GOOD, 2), {"mask": [[True, True]] * 2}, r"mask for tokens \(2, 2\).*got list"),
    ((GOOD, 2), {"mask": torch.ones(2, 2)}, r"True at tokens and False at padding"),
]


@pytest.mark.parametrize(("given", "how", "message"), REFUSED)
def test_a_wrong_input_is_one_clear_error(given, how, message):
    model = gpt2(V, T=9, width=12, depth=1, heads=3).eval()
    for ask in (generate, lambda *a, **k: next(stream(*a, **k))):
        with pytest.raises(ValueError, match=message):
            ask(model, *given, **how)


def test_numbers_that_are_not_are_refused_with_their_row():
    wrong = torch.tensor([[1.0, -torch.inf], [torch.nan, 2.0]]).isnan().any(-1)
    check_nan(wrong[:1])
    with pytest.raises(ValueError, match=r"row 1: .*\(NaN\)"):
        check_nan(wrong)


# -- its parts --------------------------------------------------------------------------------


def test_padding_is_moved_before_the_tokens_and_what_nobody_needs_is_dropped():
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]]).bool()
    order = left_order(mask)
    assert mask.gather(1, order).tolist() == [[True, True], [True, True], [False, True]]
    assert order[0].tolist() == [0, 1] and order[1].tolist() == [1, 3] and order[2, 1] == 2


def test_stop_tokens_have_a_row_for_each_or_one_for_all():
    assert stop_tokens(None, 3).shape == (1, 0)
    assert stop_tokens(4, 3).tolist() == [[4]] and stop_tokens([4, 5], 3).tolist() == [[4, 5]]
    assert stop_tokens(torch.tensor([4, 5, 6]), 3).tolist() == [[4], [5], [6]]
    assert not StopTokens(None, 3, None, torch.device("cpu")).all()


# -- what is read back from the device ----------------------------------------------------------


class Reads(TorchDispatchMode):
    """Counts how often a number of a tensor becomes one of Python, for which a GPU is waited."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("eos", [None, 5])
def test_the_device_is_waited_for_every_so_many_tokens_and_not_at_each(eos):
    model, prompt = gpt2(V, T=64, width=12, depth=1, heads=3).eval(), torch.tensor([[1, 2, 3]])
    counted = {}

    def never_5(x):
        return x[..., 6:].argmin(-1) + 6

    for each in (1, 16):
        with Reads() as reads:
            generate(model, prompt, 40, never_5, eos=eos, check_every=each)
        counted[each] = reads.count
    assert counted[1] >= 40 and counted[16] <= 3 * (1 if eos is None else 2) + 2


def test_a_gpu_is_waited_for_seldom_unless_more_is_asked_for():
    prompt, counted = torch.tensor([[1, 2, 3]]), {}
    with elsewhere() as device:
        model = gpt2(V, T=64, width=12, depth=1, heads=3).eval().to(device)
        for asked in ({}, {"check_every": 1}):
            with Reads() as reads:
                generate(model, prompt.to(device), 40, **asked)
            counted[len(asked)] = reads.count
    assert counted[1] >= 40 and counted[0] <= 5


def test_what_is_written_does_not_depend_on_when_it_is_checked():
    starts = torch.tensor([[3], [4], [9]])
    for eos in (6, {6, 11}, torch.tensor([4, 6, 1]), None):
        for pad in (None, 0):
            how = {"cached": False, "eos": eos, "pad": pad}
            each = generate(Counting(), starts, 9, **how, check_every=1)
            for check_every in (2, 4, 16):
                found = generate(Counting(), starts, 9, **how, check_every=check_every)
                assert torch.equal(found, each)


def test_nan_between_two_checks_is_refused_all_the_same():
    class Wrong(Counting):
        def forward(self, tokens):
            return super().forward(tokens).masked_fill(tokens[..., None] == 6, torch.nan)

    sampler = sample(generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match=r"row 1: .*\(NaN\)"):
        generate(Wrong(), torch.tensor([[7], [3]]), 5, sampler, cached=False, check_every=16)


def test_only_the_last_position_goes_through_the_output_layer():
    model = gpt2(V, T=16, width=12, depth=1, heads=3).eval()
    prompt, rows = torch.tensor([[1, 2, 3, 4]]), []
    expected = model(prompt)[:, -1]
    model.lm_head.register_forward_hook(lambda _, given, out: rows.append(out.shape[1]))
    torch.testing.assert_close(last_logits(model, prompt), expected)
    assert rows == [1]
    assert generate(model, prompt, 3).shape == (1, 7) and set(rows) == {1}
