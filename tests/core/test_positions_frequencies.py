"""Frequencies are those of published models, float32 whatever the default, real on any device."""

import math

import pytest
import torch
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from attnbook.positions import frequencies, linear, llama3, yarn, yarn_temperature

D, BASE, TRAINED = 12, 500.0, 64


def theirs(kind, **scaling):
    rope = {"rope_type": kind, "rope_theta": BASE, **scaling}
    config = LlamaConfig(
        hidden_size=2 * D, num_attention_heads=2, max_position_embeddings=4096, rope_parameters=rope
    )
    return ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))


def test_linear_frequencies_are_published():
    assert_close(linear(D, BASE, 3.0), theirs("linear", factor=3.0)[0])


@pytest.mark.parametrize("trained", [16, 64, 8192])
def test_llama_3s_frequencies_are_published(trained):
    mine = llama3(D, BASE, 8.0, 1.0, 4.0, trained)
    expected, _ = theirs(
        "llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=trained,
    )
    assert_close(mine, expected)


@pytest.mark.parametrize(
    ("fast", "slow", "whole"), [(32.0, 1.0, True), (8.0, 1.0, True), (16.0, 2.0, False)]
)
@pytest.mark.parametrize("trained", [64, 4096])
def test_yarn_is_published_with_its_temperature(trained, fast, slow, whole):
    expected, temperature = theirs(
        "yarn",
        factor=4.0,
        beta_fast=fast,
        beta_slow=slow,
        truncate=whole,
        original_max_position_embeddings=trained,
    )
    assert_close(yarn(D, BASE, 4.0, trained, fast, slow, whole), expected)
    assert yarn_temperature(4.0) == pytest.approx(temperature)


def test_the_fastest_stay_and_the_slowest_are_slowed():
    for stretched in (llama3(128, factor=8.0), yarn(128, 500_000.0, 8.0, 8192)):
        ratio = frequencies(128, 500_000.0) / stretched
        assert_close(ratio[:18], torch.ones(18))
        assert_close(ratio[-18:], torch.full((18,), 8.0))
        assert (ratio.diff() >= -1e-4).all()
    assert yarn_temperature(1.0) == 1.0
    assert yarn_temperature(math.e) == pytest.approx(1.1)


@pytest.mark.parametrize("make", [frequencies, linear, llama3, yarn])
def test_precision_and_device_do_not_follow_the_defaults(make):
    expected = make(D)
    try:
        torch.set_default_dtype(torch.bfloat16)
        assert_close(make(D), expected, atol=0, rtol=0)
    finally:
        torch.set_default_dtype(torch.float32)
    if make is not frequencies:  # which takes a device
        with torch.device("meta"):
            assert_close(make(D), expected, atol=0, rtol=0)


def test_bad_input_is_named():
    for width in (0, 7):
        with pytest.raises(ValueError, match=f"the width is even, not {width}"):
            frequencies(width)
    for make in (linear, llama3, yarn):
        with pytest.raises(ValueError, match=r"a factor of at least 1; got 0.5"):
            make(D, 100.0, 0.5)
