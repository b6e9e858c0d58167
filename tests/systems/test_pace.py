"""The planner's seconds: against steps that were published, and against a simulated pipeline."""

import pytest

from attnbook.decoder_config import DecoderConfig
from attnbook.parallel.pipeline import one_forward_one_backward
from attnbook.parallel.timeline import idle, timeline
from attnbook.planner.bill import LLAMA_405B, MT_NLG_530B
from attnbook.planner.layout import Batch, Layout, collectives
from attnbook.planner.measured import scalings
from attnbook.planner.pace import pace, speed
from attnbook.planner.sizes import of_size

STAGES = DecoderConfig(50, 64, 8, 8, 8, 160)


@pytest.mark.parametrize(("replicas", "seconds"), [(8, 60.1), (10, 50.2), (12, 44.4)])
def test_published_steps_of_three_sizes_are_met_with_one_constant(replicas, seconds):
    """Smith et al. 2022 (Megatron-Turing NLG), section 2.4: 280, 350 and 420 machines of 8 A100,
    tensor 8, pipeline 35, 1,920 windows of 2,048 tokens."""
    found = pace(MT_NLG_530B, Layout(replicas, 8, 35), Batch(1920 * 2048, 2048), "a100")
    assert 0.88 * seconds < found.hidden < found.shown < seconds


def test_a_plain_pipeline_is_slower_than_what_llama_3_ran():
    """Grattafiori et al. 2024, table 4: 400 teraFLOP/s on 16,384 H100 with 16 stages, which are
    interleaved. With 126 blocks the first and the last stage have one less than 8."""
    even = DecoderConfig(128_256, 16_384, 128, 128, 8, 53_248)
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


def test_llama_3_s_step_is_met_once_stages_are_interleaved():
    """Section 3.3.2: one block less in the first and the last stage leaves the first of their
    pieces the embedding alone, so a piece is one block: eight in each of 16 stages of 8 blocks."""
    even = DecoderConfig(128_256, 16_384, 128, 128, 8, 53_248)
    batch = Batch(2**24, 8192, recompute=False)
    found = pace(even, Layout(128, 8, 16, 2, pieces=8), batch, "h100")
    published = batch.tokens * LLAMA_405B.flops(8192) / (16_384 * 400e12)
    assert 0.9 * published < found.hidden < published < found.shown < 1.4 * published


def test_interleaved_stages_wait_less_send_more_and_keep_more():
    batch = Batch(8 * 64, 64)
    plain, pieces = (collectives(STAGES, Layout(pipeline=4, pieces=v), batch) for v in (1, 2))
    assert plain.bubble == 3 / 11 and pieces.bubble == 3 / 19
    assert pieces.pipeline == 2 * plain.pipeline
    with pytest.raises(ValueError, match="8 blocks do not divide into 4 stages of 3 pieces"):
        collectives(STAGES, Layout(pipeline=4, pieces=3), batch)


def test_a_group_sends_by_all_cards_of_the_machines_it_fills():
    """Austin et al. 2025, GPUs: 450 GB/s inside a machine of H100, 400 beyond it."""
    assert speed(8, 8, "h100") == 450e9
    assert [speed(64, inside, "h100") for inside in (1, 2, 4, 8)] == [50e9, 100e9, 200e9, 400e9]
    assert speed(64, 8, "a100") == 200e9
    decoder, batch = of_size(1e9), Batch(2**21, 4096)
    for layout, wanted in (
        (Layout(8, shard=3), 450e9),
        (Layout(64, shard=3), 400e9),
        (Layout(64, tensor=8, shard=1), 50e9),
        (Layout(64, tensor=2, shard=1), 200e9),
    ):
        found = collectives(decoder, layout, batch).data / pace(decoder, layout, batch, "h100").data
        assert found == pytest.approx(wanted)


@pytest.mark.parametrize("run", scalings(), ids=lambda run: f"{run.name} on {run.more[0]}")
def test_steps_measured_on_more_machines_are_those_planned_from_fewer(run):
    """Nothing is fitted: computing is what the run on fewer machines took."""
    least, most = run.planned()
    took = run.took(run.more)
    print(f"{run.name}: {least:.2f} to {most:.2f} s planned, {took:.2f} s measured")
    assert 0.96 * took < least and most < 1.06 * took


def test_measured_steps_refute_one_card_for_each_gpu():
    """13 billion parameters at 4,096 tokens a GPU: less time was measured than that would take."""
    runs = [run for run in scalings() if run.name == "MPT 13B" and run.gpu == "h100"]
    assert len(runs) == 3
    for run in runs:
        assert run.one_card() > 1.6 * run.took(run.more)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="GPUs are a100, h100, h200; got t4"):
        pace(STAGES, Layout(), Batch(64, 64), "t4")
    with pytest.raises(ValueError, match="above 0 and up to 1; got 2"):
        pace(STAGES, Layout(), Batch(64, 64), "h100", products=2)
