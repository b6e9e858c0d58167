"""Tables by hand, and what does not fit. What attention makes of them is tested with attention."""

import pytest
import torch

from attnbook.masks import causal_mask, check_last, check_mask, length_mask


def test_lengths_and_time_by_hand():
    assert length_mask(torch.tensor([2, 1])).tolist() == [[True, True], [True, False]]
    assert causal_mask(1, 2).tolist() == [[True, True]]
    assert torch.equal(causal_mask(3, 5), causal_mask(5)[2:])


def test_what_does_not_fit_is_named():
    for call, message in [
        (lambda: check_last(4, 2), "4 queries cannot be the last of 2 positions"),
        (lambda: check_mask(torch.zeros(2, 3), (2, 3)), "boolean"),
        (
            lambda: check_mask(causal_mask(3), (2, 2, 3)),
            r"\(3, 3\) does not fit scores \(2, 2, 3\)",
        ),
        (lambda: check_mask(causal_mask(3)[None], (3, 3)), r"\(1, 3, 3\) does not fit"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    check_mask(causal_mask(3)[:, :1], (7, 3, 5))
