"""Tables in the context: what the transformer may see, the made-up tables, the study's numbers."""

from statistics import fmean

import numpy as np
import pytest
import torch
from sklearn import datasets

from attnbook.data.synthetic_tables import draw_tables
from attnbook.losses import parameters
from attnbook.modalities.tables import TableTransformer, predict, prepare
from bookkit.experiments import planes
from bookkit.experiments.tables import WEIGHTS, shipped
from bookkit.results.stored_run import stored_run


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def made():
    torch.manual_seed(0)
    return TableTransformer(4, 3, 16, 2).eval()


@pytest.fixture
def rows():
    return torch.randn(2, 9, 4, generator=dice()), torch.randint(3, (2, 6), generator=dice(1))


class TestModel:
    def test_the_order_of_the_labelled_rows_says_nothing(self, made, rows):
        x, y = rows
        order = torch.tensor([3, 0, 5, 1, 4, 2])
        turned = torch.cat((x[:, :6][:, order], x[:, 6:]), 1)
        assert torch.allclose(made(x, y), made(turned, y[:, order]), atol=1e-5)
        assert not torch.allclose(made(x, y), made(x, y[:, order]), atol=1e-3)

    def test_rows_to_be_answered_do_not_see_one_another(self, made, rows):
        x, y = rows
        other = x.clone()
        other[:, 8] += 3
        before, after = made(x, y), made(other, y)
        assert torch.allclose(before[:, :2], after[:, :2], atol=1e-5)
        assert not torch.allclose(before[:, 2], after[:, 2], atol=1e-3)
        assert torch.allclose(made(x[:, :7], y)[:, 0], before[:, 0], atol=1e-5)

    def test_labelled_rows_do_not_see_those_without(self, made, rows):
        x, y = rows
        seen = []
        made.body.register_forward_hook(lambda _, __, out: seen.append(out[:, :6]))
        made(x, y), made(torch.cat((x[:, :6], x[:, 6:] * 2), 1), y)
        assert torch.allclose(*seen, atol=1e-5)


class TestPrepared:
    def test_the_labelled_rows_alone_set_mean_and_deviation(self):
        x = torch.randn(1, 8, 2, generator=dice()) * 3 + 7
        found = prepare(x, 5, 4)
        assert torch.allclose(found[0, :5, :2].mean(0), torch.zeros(2), atol=1e-5)
        other = torch.cat((x[:, :5], x[:, 5:] + 1), 1)
        assert torch.equal(prepare(other, 5, 4)[:, :5], found[:, :5])
        assert not found[..., 2:].any()

    def test_a_narrow_table_is_as_loud_as_a_wide_one(self):
        x = torch.randn(1, 8, 2, generator=dice())
        assert torch.allclose(prepare(x, 8, 4)[..., :2], 2 * prepare(x, 8, 2))
        padded = torch.nn.functional.pad(x, (0, 2))
        assert torch.allclose(prepare(padded, 8, 4, torch.tensor([2])), prepare(x, 8, 4))

    def test_a_constant_column_and_one_too_many(self):
        assert prepare(torch.ones(1, 4, 1), 4, 2).isfinite().all()
        with pytest.raises(ValueError, match="up to 2 columns; the table has 3"):
            prepare(torch.ones(1, 4, 3), 4, 2)


class TestPredict:
    def test_the_names_of_the_classes_say_nothing_once_all_orders_are_seen(self, made, rows):
        """Over many draws of names the answer to swapped labels is the swapped answer."""
        x, y = rows[0][0, :6], torch.tensor([0, 1, 1, 0, 1, 0])
        asked = rows[0][0, 6:]
        one, other = (predict(made, x, labels, asked, 200) for labels in (y, 1 - y))
        assert torch.allclose(one, other.flip(1), atol=0.03)
        assert torch.allclose(one.sum(1), torch.ones(3))

    def test_a_class_too_many_is_refused(self, made, rows):
        with pytest.raises(ValueError, match="up to 3 classes; the table has 4"):
            predict(made, rows[0][0], torch.arange(9) % 4, rows[0][0])


class TestPrior:
    def test_a_table_has_the_columns_and_classes_that_it_says(self):
        made = draw_tables(60, 80, dice())
        assert made.x.isfinite().all()
        for x, y, columns, classes in zip(*made, strict=True):
            assert not x[:, columns:].any() and x[:, :columns].std(0).max() > 0
            assert int(y.max()) < classes
        assert set(made.columns.tolist()) == set(range(2, 11))
        assert set(made.classes.tolist()) == {2, 3}

    def test_labels_follow_from_columns_and_no_name_of_a_class_is_special(self):
        made = draw_tables(300, 96, dice(3))
        near = []
        for x, y in zip(made.x, made.y, strict=True):
            apart = torch.cdist(x, x).fill_diagonal_(torch.inf)
            near.append((y[apart.argmin(1)] == y).float().mean().item())
        frequent = [y.bincount().max().item() / 96 for y in made.y]
        assert fmean(near) > fmean(frequent)
        three = made.y[made.classes == 3].flatten().bincount(minlength=3) / 96
        assert three.min() > 0.85 * three.max()

    def test_it_repeats_itself(self):
        one, other = (draw_tables(3, 20, dice(5)) for _ in range(2))
        assert torch.equal(one.x, other.x) and torch.equal(one.y, other.y)


class TestPlanes:
    @pytest.mark.parametrize("name", planes.NAMES)
    def test_points_are_half_of_each_class_and_on_the_picture(self, name):
        x, y = planes.draw(name, 200, 0)
        assert y.bincount().tolist() == [100, 100]
        assert x.abs().max() < 2.5

    def test_corners_of_xor_agree_across_the_square(self):
        x, y = planes.draw("XOR", 100, 1)
        assert torch.equal((x[:, 0] * x[:, 1] < 0).long(), y)

    def test_another_name_is_refused(self):
        with pytest.raises(ValueError, match="no 'spiral'; there are moons, circles, XOR"):
            planes.draw("spiral", 4, 0)


class TestStored:
    RUN, BOOSTED = stored_run("tables"), stored_run("tables_boosted")

    def test_iris_comes_out_again(self, script):
        """The shipped weights and the fitted models, on the first two draws of one table."""
        study, iris = script("results/tables.py"), datasets.load_iris()
        table, ways = (iris.data, iris.target), study.methods()
        for way in ("transformer", "transformer, one order", "logistic"):
            for seed in (0, 1):
                found = study.judged(ways[way], table, 20, seed)
                for kind in ("right", "nats"):
                    stored = self.RUN[kind]["iris"]["20"][way][seed]
                    assert np.isclose(found[kind], stored, atol=0.02), (way, kind)

    def test_the_intervals_follow_from_the_right_answers(self, script):
        assert script("results/tables.py").gains(self.RUN["right"]) == self.RUN["gains"]

    def test_the_weights_are_those_that_were_trained_and_small(self, script):
        study = script("results/tables.py")
        assert WEIGHTS.stat().st_size < 200_000
        assert parameters(TableTransformer()) == self.RUN["parameters"]
        assert abs(study.held_out(shipped()) - self.RUN["rounded"]) < 0.01
        assert abs(self.RUN["rounded"] - self.RUN["curve"][-1][1]) < 0.01

    def test_a_discriminant_comes_out_again_and_so_do_the_intervals(self, script):
        study, iris = script("results/tables_boosted.py"), datasets.load_iris()
        table, found = (iris.data, iris.target), self.BOOSTED["found"]
        for seed in (0, 1):
            again = study.judged(study.discriminant, table, 50, seed)
            for kind in ("right", "nats"):
                stored = found["discriminant"][kind]["iris"][seed]
                assert np.isclose(again[kind], stored, atol=0.02)
        assert study.gains(found) == self.BOOSTED["gains"]

    def test_every_table_has_its_draws(self):
        declared = self.RUN["study"]["reporting_seeds"]
        for sizes in self.RUN["right"].values():
            for ways in sizes.values():
                assert all(len(draws) == len(declared) for draws in ways.values())
        assert len(self.RUN["right"]) == 8

    def test_the_chapter_says_what_is_stored(self, root):
        page = (root / "book/11-anything-is-a-sequence.ipynb").read_text("utf-8")

        def over(model, n=50):
            return self.RUN["gains"][str(n)][model]["over tables"]

        found, row = over("logistic"), "ahead of logistic regression, 50 rows"
        assert f"95 % interval {{n}}`tables-real: {row} | interval`" in page
        shown = page.split(f'data-row=\\"{row}\\"')[1].split("</small>")[0]
        assert f">−{-found['low']:.3f}<" in shown and f">{found['high']:.3f}<" in shown
        assert round(found["detectable"], 2) == 0.03 and "logistic regression of 0.03" in page
        assert over("neighbours")["low"] > 0
        for model in ("logistic", "support vectors", "forest"):
            assert all(over(model, n)["low"] < 0 < over(model, n)["high"] for n in (20, 50, 100))
        crabs = {way: fmean(draws) for way, draws in self.RUN["right"]["crabs"]["50"].items()}
        words = "for {transformer:.3f}, logistic regression for {logistic:.3f}"
        assert words.format(**crabs) in page
        each = self.RUN["gains"]["50"]["logistic"]["tables"]
        assert min(each, key=lambda table: each[table]["mean"]) == "crabs"
        nats = {
            way: fmean(fmean(sizes["50"][way]) for sizes in self.RUN["nats"].values())
            for way in ("transformer", "logistic")
        }
        words = "is {transformer:.2f} nats, that of logistic regression {logistic:.2f}"
        assert words.format(**nats) in page
        three = self.BOOSTED["gains"].values()
        assert all(found["right"]["low"] < 0 < found["right"]["high"] for found in three)
        by_nats = self.BOOSTED["found"]["logistic, by nats"]["nats"].values()
        assert f"or {fmean(map(fmean, by_nats)):.2f} if it is tuned by its loss" in page
