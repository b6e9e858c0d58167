"""Rewound means, spoilt means and a new Adam after a bad batch: what chapter 14's page says."""

import pytest

from bookkit.results.statistics import difference
from bookkit.results.stored_run import stored_run

RUN = stored_run("rewound")["budgets"]
NEW, OLD = "new minus rewound", "weights and means rewound"


def test_each_rate_lies_inside_what_was_tried():
    for row in RUN.values():
        tried = {float(rate): loss for rate, loss in row["tried"].items()}
        assert row["rate"] == min(tried, key=tried.get)
        assert min(tried) < row["rate"] < max(tried)
    assert RUN["90"]["rate"] == 0.01  # the page's


def test_a_run_is_repeated(script):
    made = script("results/rewound.py")
    name = "weights rewound, new Adam"
    again = made.ran(made.WAYS[name], 90, RUN["90"]["rate"], 0, 1)
    assert again["end"] == pytest.approx(RUN["90"]["end"][name][0], abs=0.02)


def test_a_new_adam_is_no_worse_than_the_rewound_one_and_the_pages_say_so(root):
    short, long = (row["compared"] for row in RUN.values())
    for row in RUN.values():  # which begins a little worse
        new, rewound = (row["after"][name] for name in ("weights rewound, new Adam", OLD))
        assert difference(new, rewound, paired=True).low > 0
    assert short[NEW]["high"] < 0
    assert -0.005 < long[NEW]["low"] < 0 < long[NEW]["high"] < 0.005
    page, claims = (
        (root / "book" / f"{name}.ipynb").read_text("utf-8")
        for name in ("14-deeper-spikes", "lectures-checked")
    )
    mean, low, high = (f"{-short[NEW][part]:.2f}" for part in ("mean", "high", "low"))
    assert f"ends {mean} nats *lower*" in page and f"ends {mean} nats lower" in claims
    for text in (page, claims):
        assert f"95 % interval {low} to {high})" in text
    cost = (row["spoilt minus rewound"]["mean"] for row in (short, long))
    assert "The spoilt means cost {:.2f} and {:.2f} nats".format(*cost) in page
    assert min(row["spoilt minus rewound"]["low"] for row in (short, long)) > 0.05
