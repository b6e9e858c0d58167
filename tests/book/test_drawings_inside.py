"""The drawings of chapter 13 print the numbers that they are given, and refuse the rest."""

import pytest

from bookkit.drawings.circuit import induction_circuit
from bookkit.drawings.gallery import COSTS, NAME
from bookkit.drawings.logit import logit_sum


def test_the_circuit_prints_its_weights_and_what_each_cut_costs():
    drawing = induction_circuit(NAME, note=0.93, look=0.77, chance=0.97, costs=COSTS)
    for svg in drawing.layouts.values():
        for words in (
            ">.93<",
            ">weight .77<",
            ">b .97<",
            ">cut: +8.50",
            ">cut: +.06",
            ">cut: −.01",
        ):
            assert words in svg
    assert "cut" not in "".join(induction_circuit(NAME, 0.9, 0.8, 0.7).wide.marks)


def test_a_circuit_needs_a_name_that_comes_again():
    with pytest.raises(ValueError, match="eight tokens fit, the second as the last"):
        induction_circuit([*NAME[:7], "b"], 0.9, 0.8, 0.7)
    with pytest.raises(ValueError, match="costs of queries, keys and values fit; got keys"):
        induction_circuit(NAME, 0.9, 0.8, 0.7, {"keys": 1.0})


def test_the_bars_are_as_long_as_the_shares_and_the_sum_is_theirs():
    shares = {"embedding": 1.0, "attention 0": 4.0, "network 0": -2.0}
    drawing = logit_sum(shares, "b")
    for pen in (drawing.wide, drawing.tall):
        bars = [mark for mark in pen.marks if 'output f"' in mark or 'gradient f"' in mark]
        widths = [float(mark.split('width="')[1].split('"')[0]) for mark in bars if "rect" in mark]
        assert [width / widths[0] for width in widths] == pytest.approx([1, 4, 2], rel=0.02)
        assert any("sum 3<" in mark for mark in pen.marks)
    with pytest.raises(ValueError, match="an embedding and at least one block fit"):
        logit_sum({"embedding": 1.0}, "b")
