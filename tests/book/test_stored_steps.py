"""The stored study of written steps, and what its page says of it."""

from bookkit.results.stored_run import stored_run

RUNS = stored_run("steps")["runs"]


def five(N, name, what="right"):
    """The five seeds at the rate that was chosen."""
    keys = [key for key in RUNS if key.startswith(f"{N}/{name}/") and not key.endswith("/9")]
    assert len(keys) == 5
    return [RUNS[key][what] for key in keys]


def test_every_run_of_the_plan_is_there_and_no_other(script):
    assert set(RUNS) == {name for name, _ in script("results/steps.py").work(RUNS)}


def test_with_written_steps_eight_digits_are_added():
    assert min(five(8, "steps")) > 0.9
    assert max(five(8, "direct") + five(8, "dots")) < 0.2


def test_the_answer_follows_the_steps_that_stand_there():
    assert min(five(8, "steps", "follows the changed step")) > 0.8


def test_a_reward_for_the_last_token_brings_out_the_steps_and_a_coin_does_not(root):
    run = stored_run("reward_steps")
    tried, gain = run["rates"], run["after minus before"]
    assert min(map(float, tried)) < run["rate"] < max(map(float, tried))
    assert gain["reward: steps"]["low"] > 0.5 and gain["coin: right"]["high"] < 0
    low, high = (f"{gain['reward: right'][end]:.2f}" for end in ("low", "high"))
    page = (root / "book/16-deeper-steps.ipynb").read_text("utf-8")
    assert f"95 % interval of the difference {low} to {high})" in page
