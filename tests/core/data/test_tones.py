"""Melodies of three notes over a hum."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import tones


def loudest(wave, lowest=0):
    """The strongest frequency, in hertz, above `lowest`."""
    strength = torch.fft.rfft(wave).abs()
    hertz = torch.arange(len(strength)) * tones.RATE / len(wave)
    return hertz[(strength * (hertz > lowest)).argmax()].item()


def test_the_pieces_of_a_melody_are_in_the_order_that_it_is_labelled_with():
    batch = tones.melodies(300, noise=0.0)(torch.Generator().manual_seed(0))
    for wave, order in zip(batch.waves, batch.order, strict=True):
        # no change falls into the first 238 samples, the middle 136 or the last 238
        pitches = [loudest(piece) for piece in (wave[:230], wave[450:580], wave[-230:])]
        names = tones.ORDERS[order]
        by_name = dict(zip(names, pitches, strict=True))
        assert by_name["l"] <= by_name["m"] + 20 and by_name["m"] <= by_name["h"] + 20


def test_the_hum_has_the_pitch_it_is_labelled_with():
    batch = tones.melodies(200, noise=0.0)(torch.Generator().manual_seed(1))
    angle = 2 * torch.pi * torch.tensor(tones.HUMS)[:, None] * torch.arange(tones.LENGTH)
    angle, window = angle / tones.RATE, torch.hann_window(tones.LENGTH)
    heard = (batch.waves * window) @ torch.polar(torch.ones(()), angle).mT.real
    other = (batch.waves * window) @ torch.polar(torch.ones(()), angle).mT.imag
    found = (heard**2 + other**2).argmax(1)
    assert (found == batch.hum).float().mean() > 0.9


@given(st.integers(1, 20), st.integers(0, 99))
def test_pitches_rise_and_keep_their_distance(B, seed):
    low, middle, high = tones.three_pitches(B, torch.Generator().manual_seed(seed)).unbind(1)
    assert (low >= tones.LOWEST - 0.1).all() and (high <= tones.HIGHEST + 0.1).all()
    least = tones.INTERVAL - 1e-4
    assert (middle / low >= least).all() and (high / middle >= least).all()


def test_a_note_has_variance_one_and_the_noise_comes_on_top():
    hertz = torch.full((1, 40_000), 321.0)
    assert tones.note(hertz, torch.zeros(1, 1)).var() == pytest.approx(1, abs=0.02)
    for noise in (0.0, 1.0):
        waves = tones.melodies(100, noise)(torch.Generator().manual_seed(2)).waves
        assert waves.var() == pytest.approx(1.25 + noise**2, abs=0.08)


def test_all_melodies_and_hums_are_as_frequent():
    batch = tones.melodies(1200)(torch.Generator().manual_seed(3))
    assert (batch.order.bincount(minlength=6) - 200).abs().max() < 5 * 200**0.5
    assert (batch.hum.bincount(minlength=2) - 600).abs().max() < 5 * 300**0.5


def test_the_same_state_gives_the_same_sounds():
    one, other = (tones.melodies(3)(torch.Generator().manual_seed(5)) for _ in range(2))
    assert one.waves.shape == (3, tones.LENGTH)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least 1 melody, not 0"):
        tones.melodies(0)
    with pytest.raises(ValueError, match="0 or more, not -1"):
        tones.melodies(2, -1.0)
