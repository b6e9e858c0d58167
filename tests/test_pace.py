"""The planner's seconds: against steps that were published, and against a simulated pipeline."""

import pytest

from attnbook.parallel.pipeline import one_forward_one_backward
from attnbook.parallel.timeline import idle, timeline
from attnbook.planner.bill import LLAMA_405B, MT_NLG_530B
from attnbook.planner.layout import Batch, Layout, sent
from attnbook.planner.pace import pace
from attnbook.planner.sizes import Decoder, of_size

STAGES = Decoder(8, 64, 8, 8, 160, 50)


@pytest.mark.parametrize(("replicas", "seconds"), [(8, 60.1), (10, 50.2), (12, 44.4)])
def test_published_steps_of_three_sizes_are_met_with_one_constant(replicas, seconds):
    """Smith et al. 2022 (Megatron-Turing NLG), section 2.4: 280, 350 and 420 machines of 8 A100,
    tensor 8, pipeline 35, 1,920 windows of 2,048 tokens."""
    found = pace(MT_NLG_530B, Layout(replicas, 8, 35), Batch(1920 * 2048, 2048), "a100")
    assert 0.88 * seconds < found.hidden < found.shown < seconds


def test_a_plain_pipeline_is_slower_than_what_llama_3_ran():
    """Grattafiori et al. 2024, table 4: 400 teraFLOP/s on 16,384 H100 with 16 stages, which are
    interleaved. With 126 blocks the first and the last stage have one less than 8."""
    even = Decoder(128, 16_384, 128, 8, 53_248, 128_256)
    batch = Batch(2**24, 8192, recompute=False)
    found = pace(even, Layout(128, 8, 16, 2), batch, "h100")
    published = batch.tokens * LLAMA_405B.flops(8192) / (16_384 * 400e12)
    assert found.hidden > 1.3 * published > 1.1 * found.compute


@pytest.mark.parametrize(("stages", "micro"), [(1, 4), (4, 4), (4, 16), (8, 32)])
def test_the_bubble_is_that_of_a_simulated_pipeline(stages, micro):
    layout, batch = Layout(1, 1, stages), Batch(micro * 64, 64)
    found = pace(STAGES, layout, batch, "h100")
    waits = idle(timeline(one_forward_one_backward, stages, micro))
    assert found.bubble / (found.bubble + found.compute) == pytest.approx(waits)


def test_one_machine_sends_by_its_fast_links():
    decoder, batch = of_size(1e9), Batch(2**21, 4096)
    near, far = (
        pace(decoder, Layout(n, shard=1), batch, "h100").data
        / sent(decoder, Layout(n, shard=1), batch).data
        for n in (8, 16)
    )
    assert near == pytest.approx(1 / 450e9) and far == pytest.approx(1 / 50e9)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="GPUs are a100, h100, h200; got t4"):
        pace(STAGES, Layout(), Batch(64, 64), "t4")
    with pytest.raises(ValueError, match="above 0 and up to 1; got 2"):
        pace(STAGES, Layout(), Batch(64, 64), "h100", products=2)
