"""Real data that come with packages: whole, standardised, and what they are said to be."""

import torch

from attnbook.data import small


def test_the_club_is_zacharys():
    adjacency, group = small.karate()
    assert adjacency.sum() == 2 * 78 and group.sum() == 17
    assert torch.equal(adjacency, adjacency.T) and not adjacency.diagonal().any()


def test_tables_and_series_are_standardised_and_whole():
    assert small.tumours().rows.shape == (569, 30)
    waves = small.brain_waves()
    assert waves.shape == (800, 4) and torch.allclose(waves.var(0), torch.ones(4), atol=1e-3)
    assert len(small.share_returns()) > 300 and small.share_returns().isfinite().all()


def test_a_strip_shows_each_digit_of_its_caption_once():
    pixels = torch.arange(1, 11).view(10, 1, 1).expand(10, 8, 8) / 16
    strips = small.strips(pixels, torch.arange(10), 50, torch.Generator().manual_seed(0))
    for image, caption, n in zip(*strips, strict=True):
        columns = [round(16 * v) - 1 for v in image[0, 0].tolist() if v > 0]
        assert columns == [d for d in caption[:n].tolist() for _ in range(8)]
        assert (caption[n:] == small.END).all()
