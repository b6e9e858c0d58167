"""A rate carried over to a wider model: what chapter 14's page on searches says of it."""

from statistics import fmean

from bookkit.results.stored_run import stored_run

RUN, LONGER = stored_run("rate_transfer"), stored_run("rate_transfer_longer")


def best(way, width):
    return RUN["table"][way][str(width)]["rate"]


def test_every_best_rate_lies_inside_what_was_tried():
    for widths in RUN["table"].values():
        for row in widths.values():
            means = {float(rate): fmean(losses) for rate, losses in row["losses"].items()}
            assert min(means, key=means.get) == row["rate"]
            assert min(means) < row["rate"] < max(means)


def test_in_the_standard_parametrisation_the_best_rate_halves_with_each_doubling_of_the_width():
    assert [best("standard", C) for C in (32, 64, 128, 256)] == [0.016, 0.008, 0.004, 0.002]
    assert RUN["shift"]["standard"]["high"] < -1


def test_in_mup_it_stays_or_the_next_one_is_as_good():
    assert [best("μP", C) for C in (32, 64, 128, 256)] == [0.016, 0.008, 0.016, 0.016]
    near = [fmean(RUN["table"]["μP"]["64"]["losses"][rate]) for rate in ("0.008", "0.016")]
    assert abs(near[0] - near[1]) < 0.01
    assert RUN["shift"]["μP"]["low"] < 0 < RUN["shift"]["μP"]["high"]
    assert RUN["best"]["μP"] == RUN["carried over"]["μP"]


def test_the_simple_rule_is_the_best_standard_rate_and_ahead_of_mup():
    assert RUN["rate / growth"] == RUN["best"]["standard"]
    assert RUN["compared"]["cost, standard"]["low"] > 0.3
    assert RUN["compared"]["cost, standard minus μP"]["low"] > 0
    assert RUN["compared"]["μP minus rate / growth"]["low"] > 0


def test_of_mups_parts_its_rates_help_and_are_ahead_of_all_others():
    rates = RUN["carried over"]["its rates alone"]
    others = [losses for way, losses in RUN["carried over"].items() if way != "its rates alone"]
    for losses in [*others, RUN["best"]["standard"]]:
        assert all(a < b for a, b in zip(rates, losses, strict=True))
    assert RUN["compared"]["its start and scores alone minus μP"]["low"] > 0.3


def test_at_width_32_half_the_best_rate_is_as_good():
    near = [fmean(RUN["table"]["standard"]["32"]["losses"][rate]) for rate in ("0.008", "0.016")]
    assert abs(near[0] - near[1]) < 0.01


def test_after_six_times_the_steps_mup_is_behind_still_and_the_best_rate_half_as_large():
    means = {float(rate): fmean(losses) for rate, losses in LONGER["table"].items()}
    assert min(means, key=means.get) == LONGER["rate"] == best("standard", 32) / 2
    assert min(means) < LONGER["rate"] < max(means)
    behind = LONGER["compared"]["μP minus rate / growth"]
    assert [round(behind[part], 2) for part in ("mean", "low", "high")] == [0.04, 0.02, 0.07]
    assert LONGER["compared"]["its rates alone minus μP"]["high"] < 0
    left = LONGER["compared"]["its rates alone minus rate / growth"]
    assert left["low"] < left["mean"] < 0 < left["high"]


def moved(what):
    """The mean of five seeds, for each way and width."""
    check = RUN["coordinate check"]
    return {key: fmean(run[what] for run in runs) for key, runs in check.items()}


def test_coordinate_check_logits_three_times_as_far_at_width_256_and_in_mup_no_farther():
    logits = moved("logits")
    assert round(logits["standard, 256"] / logits["standard, 32"]) == 3
    assert logits["μP, 256"] < logits["μP, 32"] == logits["standard, 32"]


def test_coordinate_check_the_stream_moves_more_than_five_times_as_far_and_in_mup_as_far():
    stream = moved("stream")
    assert 5 < stream["standard, 256"] / stream["standard, 32"] < 6
    widths = [stream[f"μP, {C}"] for C in (32, 64, 128, 256)]
    assert max(widths) < 1.15 * min(widths)
