"""Norms and the small start in twelve blocks: what chapter 6 says of the stored run."""

from statistics import fmean

from bookkit.results.stored_run import stored_run

RUN = stored_run("small_start")


def test_the_numbers_of_the_chapter_and_of_the_claims_are_what_is_stored(root):
    norm, bare = (f"{fmean(row['losses']):.2f}" for row in RUN["table"].values())
    apart = RUN["no norm minus pre-norm"]
    low, high = (f"{apart[end]:.2f}".replace("-", "−") for end in ("low", "high"))
    for page in ("06-the-transformer", "lectures-checked"):
        text = (root / "book" / f"{page}.ipynb").read_text("utf-8")
        assert f"{low} to {high}" in text and f"{norm} " in text
        assert f"{bare} " in text
    assert apart["low"] < 0 < apart["high"] and f"{apart['detectable']:.2f}" == "0.44"


def test_both_rates_lie_inside_what_was_tried():
    for row in RUN["table"].values():
        tried = sorted(map(float, row["rates"]))
        assert tried[0] < row["rate"] < tried[-1]
