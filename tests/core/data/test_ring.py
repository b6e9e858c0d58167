import pytest
import torch

from attnbook.data import ring


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def asked(x):
    """By place, from the rows alone: whose name is the one that this person knows?"""
    own, known = x[..., : ring.T].argmax(-1), x[..., ring.T : 2 * ring.T].argmax(-1)
    return (known[..., None] == own[:, None, :]).long().argmax(-1)


def test_following_the_arrows_passes_everybody_once():
    x, _ = ring.ring(generator(), B=50)
    to, here, visited = asked(x), torch.zeros(50, 1, dtype=torch.long), []
    for _ in range(ring.T):
        visited.append(here)
        here = to.gather(1, here)
    assert (torch.cat(visited, 1).sort(-1).values == torch.arange(ring.T)).all()
    assert (here == 0).all()


def test_in_pairs_asking_is_mutual_and_never_of_oneself():
    x, _ = ring.pairs(generator(), B=50)
    to, place = asked(x), torch.arange(ring.T)
    assert (to.gather(1, to) == place).all() and (to != place).all()


def test_the_answer_is_the_number_of_the_one_who_is_asked():
    for task in (ring.ring, ring.pairs):
        x, y = task(generator(1), B=20)
        assert (x[..., 2 * ring.T :].argmax(-1).gather(1, asked(x)) == y).all()


def test_the_most_frequent_number_is_right_more_often_than_chance():
    x, y = ring.ring(generator(2), B=2000)
    share = (ring.most_frequent(x) == y).float().mean().item()
    assert 0.32 < share < 0.40 and share > 2 / ring.V


def test_a_seed_gives_the_same_rings():
    first, second = ring.ring(generator(3)), ring.ring(generator(3))
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])


def test_steps_along_the_ring_are_single_steps_repeated():
    once = ring.ring(generator(4), B=30)
    for steps in (1, 2, 3):
        x, y = ring.steps_along(steps)(generator(4), B=30)
        assert torch.equal(x, once[0])
        to = asked(x)
        for _ in range(steps - 1):
            to = asked(x).gather(1, to)
        assert (x[..., 2 * ring.T :].argmax(-1).gather(1, to) == y).all()


@pytest.mark.parametrize("steps", [0, 4])
def test_there_are_no_other_steps_in_a_ring_of_six(steps):
    with pytest.raises(ValueError, match=f"1 to 3; got {steps}"):
        ring.steps_along(steps)
