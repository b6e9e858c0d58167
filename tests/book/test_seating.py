"""Small models of the table with two questions: what they are asked, and what is seen of them."""

import pytest
import torch
from torch import nn

from attnbook.data.seats import most_common
from attnbook.losses import parameters
from bookkit.experiments import seating
from bookkit.explore.heads import trained
from bookkit.results.stored_run import stored_run

STORED = stored_run("heads")


def test_the_number_of_heads_changes_no_parameter_and_their_width_does():
    assert len({parameters(seating.build(heads)) for heads in (1, 2, 4, 8, 16, 32)}) == 1
    assert parameters(seating.build(16, D=4)) > parameters(seating.build(16, D=2))
    assert parameters(seating.build(16, D=2)) == parameters(seating.build(16))


def test_wide_heads_in_a_narrow_model_answer_as_many_questions():
    x, _ = seating.unseen(3)
    assert seating.build(16, D=8)(x).shape == seating.build(2)(x).shape == (3, 12, 20)


def test_a_model_that_knows_is_right_and_one_that_says_zero_is_not():
    x, answers = seating.unseen(50)

    class Says(nn.Module):
        def forward(self, x):
            return 9 * nn.functional.one_hot(answers, 10).flatten(-2).float()

    assert seating.right(Says(), (x, answers)) == {"left": 1, "friend": 1, "both": 1}
    assert seating.loss(Says(), (x, answers)) < 0.01
    assert seating.right(Says(), (x, (answers + 1) % 10))["both"] == 0


def test_only_the_question_that_is_asked_counts():
    model, (x, answers) = seating.build(2), seating.unseen(5)
    wrong = answers.clone()
    wrong[..., 1] = (wrong[..., 1] + 1) % 10
    left, other = (seating.loss(model, (x, y), [0]) for y in (answers, wrong))
    assert left == other
    assert seating.loss(model, (x, answers)) != seating.loss(model, (x, wrong))


def test_a_head_that_looks_at_all_alike_gives_each_a_twelfth():
    model = seating.build(2)
    nn.init.zeros_(model[1].to_qkv.weight)
    found = seating.looks(model, seating.unseen(20)[0])
    torch.testing.assert_close(found, torch.full((2, 2), 1 / 12))


def test_a_few_steps_of_training_teach_something():
    torch.manual_seed(0)
    model = seating.build(2)
    start = seating.right(model, seating.unseen())["left"]
    found = seating.fit(model, steps=60, every=30)
    assert len(found) == 2 and found[-1]["left"] > start + 0.05


# -- the stored study ---------------------------------------------------------------------------


def test_the_baselines_are_those_of_the_test_tables():
    x, answers = seating.unseen()
    left, friend = answers.unbind(-1)
    found = STORED["baselines"]
    assert found["left drink twice"] == pytest.approx(
        (left == friend).float().mean().item(), abs=1e-4
    )
    common = (most_common(x) == friend).float().mean().item()
    assert found["left, and the most common drink"] == pytest.approx(common, abs=1e-4)
    assert found["left drink twice"] == pytest.approx(2 / 11, abs=0.01)


def test_the_study_has_five_seeds_of_everything_and_says_where_it_comes_from(script):
    heads = script("results/heads.py")
    assert set(STORED["runs"]) == {key for key, _ in heads.work(None)}
    assert STORED["provenance"]["command"].startswith("python results/heads.py")
    for study, models in heads.STUDIES.items():
        for name, (make, _) in models.items():
            assert STORED["runs"][f"{study}/{name}/0"]["parameters"] == parameters(make())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_stored_weights_are_those_of_the_study(seed):
    """In sixteen bits: they look where the trained models looked, and answer as well."""
    run, test = STORED["runs"][f"counts/4/{seed}"], seating.unseen()
    x, answers = test[0].double(), test[1]
    found = seating.looks(trained(seed), x)
    torch.testing.assert_close(found, torch.tensor(run["looks"]).double(), atol=2e-3, rtol=0)
    right = seating.right(trained(seed), (x, answers))
    assert right["both"] == pytest.approx(run["both"][-1], abs=2e-3)
