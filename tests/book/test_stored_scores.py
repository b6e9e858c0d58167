"""Sizes of trained scores: what chapter 3 says of the stored run."""

from statistics import fmean

from bookkit.results.stored_run import stored_run

RUN = stored_run("score_sizes")


def test_one_rate_is_best_at_every_width_and_there_all_seeds_learn_the_ring():
    rows = [row for table in RUN["table"].values() for row in table.values()]
    assert {row["rate"] for row in rows} == {0.1} and len(rows) == 10
    assert min(right for row in rows for right in row["best"]["right"]) > 0.99
    for row in rows:  # the best lies inside what was tried
        tried = sorted(map(float, row["rates"]))
        assert tried[0] < 0.1 < tried[-1]


def test_trained_scores_divided_by_the_root_grow_with_the_width_divided_by_the_width_they_do_not():
    size = {
        divisor: [
            fmean(row["best"]["end"]) / by(int(D)) for D, row in RUN["table"][divisor].items()
        ]
        for divisor, by in (("√D", lambda D: D**0.5), ("D", lambda D: D / 4))
    }
    assert size["√D"] == sorted(size["√D"]) and size["√D"][-1] > 2 * size["√D"][0]
    assert max(size["D"]) < 1.2 * min(size["D"])


def test_ten_steps_add_nearly_the_width_and_no_root():
    assert 0.5 < RUN["exponents"]["√D: change"]["low"] < RUN["exponents"]["√D: change"]["high"] < 1
