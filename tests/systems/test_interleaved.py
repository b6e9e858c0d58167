"""Interleaved pipeline stages: everything is done once, in order, and waits as long as derived."""

import itertools

import pytest

from attnbook.parallel import interleaved
from attnbook.parallel.pipeline import one_forward_one_backward
from attnbook.parallel.timeline import idle, timeline, under_way


@pytest.mark.parametrize(
    ("stages", "chunks", "groups"), [(2, 3, 1), (4, 1, 2), (4, 2, 2), (8, 4, 1)]
)
def test_interleaved_stages_do_everything_once_and_wait_as_the_formula_says(stages, chunks, groups):
    micro = stages * groups
    bars = interleaved.interleaved_timeline(stages, micro, chunks)
    for stage in bars:
        assert len({bar.job for bar in stage}) == len(stage) == 2 * micro * chunks
        assert all(a.end <= b.start for a, b in itertools.pairwise(stage))
    share = (stages - 1) / (chunks * micro + stages - 1)
    assert idle(bars) == pytest.approx(share)


def test_one_piece_a_stage_is_the_plain_pipeline():
    plain = timeline(one_forward_one_backward, 4, 8)
    pieces = interleaved.interleaved_timeline(4, 8, 1)
    assert plain == pieces


def test_interleaved_stages_keep_more_than_plain_ones():
    """Narayanan et al. 2021, section 2.2.2: (1 + (P − 1) / (P v)) times what P need."""
    for chunks in (2, 4):
        kept = under_way(interleaved.interleaved_timeline(4, 8, chunks)[0])
        assert kept / chunks == 4 * (1 + 3 / (4 * chunks))


def test_micro_batches_of_interleaved_stages_come_in_groups():
    with pytest.raises(ValueError, match="come in groups of 4; got 2 and 6"):
        interleaved.interleaved(4, 0, 6, 2)
