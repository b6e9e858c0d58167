"""Graphs of friends: three neighbours each, and what can be told about a node."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import graphs

SIZES = st.sampled_from([4, 6, 10, 12])
SEEDS = st.integers(0, 99)


def dice(seed):
    return torch.Generator().manual_seed(seed)


@given(st.integers(1, 5), SIZES, SEEDS)
def test_everybody_has_three_friends_who_are_friends_in_turn_and_never_oneself(B, N, seed):
    adjacency = graphs.cubic(B, N)(dice(seed))
    assert adjacency.shape == (B, N, N) and adjacency.dtype == torch.bool
    assert (adjacency.sum(-1) == 3).all()
    assert torch.equal(adjacency, adjacency.mT) and not adjacency.diagonal(dim1=1, dim2=2).any()


@given(SIZES, SEEDS)
def test_the_answer_counts_friends_who_drink_tea_and_are_on_a_triangle(N, seed):
    batch = graphs.friends(2, N)(dice(seed))
    for adjacency, tea, answer in zip(*batch, strict=True):
        friends = [set(row.nonzero()[:, 0].tolist()) for row in adjacency]
        triangle = [any(friends[a] & friends[i] for a in friends[i]) for i in range(N)]
        assert triangle == graphs.on_triangle(adjacency).tolist()
        for person in range(N):
            wanted = sum(bool(tea[f]) and triangle[f] for f in friends[person])
            assert answer[person] == wanted


def test_the_number_of_a_node_says_nothing():
    adjacency = graphs.cubic(4000, 6)(dice(0)).float().mean(0)
    off = ~torch.eye(6, dtype=torch.bool)
    assert (adjacency[off] - 3 / 5).abs().max() < 5 * (0.24 / 4000) ** 0.5


def test_tea_and_coffee_are_as_frequent():
    share = graphs.friends(1000, 10)(dice(0)).tea.float().mean()
    assert abs(share - 0.5) < 5 * 0.5 / 10_000**0.5


@given(SIZES, SEEDS)
def test_renumbering_moves_the_encodings_with_their_nodes(N, seed):
    generator = dice(seed)
    adjacency = graphs.cubic(2, N)(generator)
    order = torch.rand(2, N, generator=generator).argsort(1)
    moved = graphs.walk_returns(graphs.renumbered(adjacency, order), 5)
    stayed = graphs.walk_returns(adjacency, 5)
    torch.testing.assert_close(moved, stayed.gather(1, order[..., None].expand_as(stayed)))


def test_walks_return_as_counted_by_hand():
    triangle, square = graphs.ring(3), graphs.ring(4)
    torch.testing.assert_close(
        graphs.walk_returns(triangle, 4)[0], torch.tensor([0, 1 / 2, 1 / 4, 3 / 8])
    )
    torch.testing.assert_close(
        graphs.walk_returns(square, 4)[0], torch.tensor([0, 1 / 2, 0, 1 / 2])
    )


def test_a_node_without_neighbours_never_returns():
    adjacency = torch.zeros(3, 3, dtype=torch.bool)
    adjacency[0, 1] = adjacency[1, 0] = True
    assert graphs.walk_returns(adjacency, 3)[2].tolist() == [0, 0, 0]


@given(SIZES, SEEDS)
def test_laplacian_vectors_are_slow_waves_of_length_one(N, seed):
    adjacency = graphs.cubic(1, N)(dice(seed))[0].float()
    waves = graphs.laplacian_vectors(adjacency.bool(), 3)
    torch.testing.assert_close(waves.T @ waves, torch.eye(3), atol=1e-4, rtol=0)
    assert waves.sum(0).abs().max() < 1e-4  # the constant one is left out
    changed = (torch.diag(adjacency.sum(-1)) - adjacency) @ waves
    speed = (waves * changed).sum(0)
    torch.testing.assert_close(changed, waves * speed, atol=1e-4, rtol=0)
    assert (speed.diff() > -1e-4).all() and speed[0] > 0


def test_the_sampler_continues_from_the_generator_s_state():
    generator = dice(0)
    graphs.friends(3, 8)(generator)
    state = generator.get_state()
    first = graphs.friends(3, 8)(generator)
    generator.set_state(state)
    for one, other in zip(first, graphs.friends(3, 8)(generator), strict=True):
        assert torch.equal(one, other)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least 1 graph, not 0"):
        graphs.cubic(0, 6)
    with pytest.raises(ValueError, match="4 nodes at least; not 7"):
        graphs.friends(2, 7)
    with pytest.raises(ValueError, match="at least 3 nodes, not 2"):
        graphs.ring(2)
    with pytest.raises(ValueError, match="at least 1 step, not 0"):
        graphs.walk_returns(graphs.ring(3), 0)
    with pytest.raises(ValueError, match="3 nodes has 2 such vectors, not 3"):
        graphs.laplacian_vectors(graphs.ring(3), 3)
