"""Lab 12: compute that is counted, a ledger that is proven, forecasts that cannot be bought."""

import json
import math
import zipfile

import nbformat
import numpy as np
import pytest
import torch

from attnlabs import check, gradescope, own, probes, release, source
from attnlabs.grading import report
from attnlabs.grading.row import Row
from attnlabs.inside.fingerprints import outcome
from attnlabs.lab12 import family, forecasts, plan, scores, verdict
from attnlabs.lab12.desk import Desk
from attnlabs.lab12.family import Run
from attnlabs.question import drawn, sheet


@pytest.fixture(scope="module")
def lab(root):
    return source.find(12, root / "labs")


@pytest.fixture(scope="module")
def names(lab):
    """What the lab's own notebook defines, without what draws and trains."""
    found: dict = {}
    wanted = {"run-flops", "fit-law", "interval-score", "ledger-typed", "ledger", "best-runs"}
    for cell in lab.notebook.cells:
        if cell.id in {"imports", *wanted, "forecast", "recipe", "committed"}:
            code = "\n".join(
                x for x in cell.source.splitlines() if not x.startswith(("check(", "print("))
            )
            exec(code, found)
    return found


@pytest.fixture
def rows(names):
    return names["ledger"](0)


def judged(question, student, *results):
    return own.judged(question, student, [outcome(lambda x=x: x, ()) for x in results])


def test_compute_is_that_of_the_matrices_and_of_attention():
    width, layers, V = 48, 2, 94
    model = family.Model(width, layers, V)
    tables = ("tokens", "places")  # where a vector is looked up, and nothing multiplied
    multiply = (w for n, w in model.named_parameters() if w.dim() > 1 and not n.startswith(tables))
    N = sum(w.numel() for w in multiply)
    assert N == family.matrices(width, layers, V)
    scores = 2 * 2 * width * family.T * layers  # products of one token with T others, forwards
    assert family.flops(Run(width, layers, 0.01, 3), V) == (6 * N + 3 * scores) * 3 * 512


def test_the_target_is_ten_times_larger_than_any_run_and_costs_the_budget():
    assert plan.TARGET == 10 * plan.LARGEST and plan.BUDGET == plan.TARGET
    for world in plan.OWN:
        costs = [plan.gigaflops(world, run) for run in plan.menu(world)]
        assert len(costs) == 6 and all(0.99 * plan.TARGET < cost <= plan.TARGET for cost in costs)


def test_no_interval_but_the_quantiles_has_a_lower_expected_score():
    seen = torch.randn(200_000, generator=torch.Generator().manual_seed(0)).numpy()

    def paid(half):
        outside = np.maximum(np.abs(seen) - half, 0)
        return (2 * half + 10 * outside).mean()

    assert scores.interval_score(-1.0, 1.0, 1.5) == pytest.approx(2 + 10 * 0.5)
    assert min(np.arange(0.5, 2.5, 0.05), key=paid) == pytest.approx(1.28, abs=0.06)


def test_a_wide_interval_and_a_narrow_one_that_misses_have_fewer_points():
    honest = scores.share(scores.score(1.5, 1.48, 1.52, 1.51))
    wide = scores.share(scores.score(1.5, 1.2, 1.8, 1.51))
    missed = scores.share(scores.score(1.5, 1.499, 1.501, 1.56))
    assert honest == 1 and wide < 0.1 and missed < 0.1


def test_students_have_texts_and_seeds_of_their_own():
    students = [f"s{n}@uni" for n in range(60)]
    assert {plan.world_of(student) for student in students} == set(plan.OWN)
    assert len({plan.seed_of(student, 3) for student in students}) == len(students)
    assert plan.PRACTICE not in plan.OWN and plan.world_of("") in plan.OWN


def test_a_run_is_the_same_when_it_is_trained_again_and_shows_its_first_loss():
    world, run = plan.world_of(""), Run(16, 1, 0.01, 12, 3)
    one, other = family.train(world, run), family.first_loss(world, Run(16, 1, 0.01, 12, 4))
    assert one == family.train(world, run)
    assert one.first == pytest.approx(family.first_loss(world, run), abs=1e-6)
    assert abs(one.first - other) > verdict.FIRST


def test_the_desk_keeps_the_ledger_and_the_budget(tmp_path):
    path = tmp_path / "ledger.json"
    desk = Desk(None, (), path)
    loss = desk.train(16, 1, 0.01, 10)
    assert desk.spent == plan.gigaflops(desk.world, Run(16, 1, 0.01, 10))
    assert Desk(None, (), path).train(16, 1, 0.01, 10) == loss
    assert Desk(None, desk.runs.tolist(), tmp_path / "none").spent == desk.spent
    for wrong in ((24, 1, 0.01, 10), (16, 9, 0.01, 10), (16, 1, 2.0, 10), (128, 6, 0.01, 90_000)):
        with pytest.raises(ValueError):
            desk.train(*wrong)
    full = [(16, 1, 0.01, 10 + n, 0, 10.0, 3.0, 2.0) for n in range(10)]
    full[0] = (*full[0][:3], 99, *full[0][4:])
    with pytest.raises(ValueError, match="are left"):
        Desk(None, full, tmp_path / "none").train(16, 1, 0.01, 10)


def without(rows, keep):
    return rows[[bool(keep(row)) for row in rows.tolist()]]


BROKEN = {
    "no-ledger": lambda rows: rows[:, :7],
    "outside": lambda rows: changed(rows, 0, 0, 24.0),
    "other-cost": lambda rows: changed(rows, 5, 5, 0.5),
    "overspent": lambda rows: torch.cat([rows, other_seeds(rows, 7), other_seeds(rows, 8)]),
    "twice": lambda rows: torch.cat([rows[:3], rows[:1]]),
    "another-s": lambda rows: changed(rows, 1, 6, rows[1, 6].item() + 0.05),
    "narrow": lambda rows: without(rows, lambda row: row[5] > 4),
    "no-rates": lambda rows: without(rows, lambda row: row[2] in (0.016, 0.032)),
    "one-seed": lambda rows: without(rows, lambda row: row[4] == 0),
}


def changed(rows, n, column, value):
    rows = rows.clone()
    rows[n, column] = value
    return rows


def other_seeds(rows, seed):
    """The runs with another seed, whose first losses are right."""
    rows = rows.clone()
    rows[:, 4] = seed
    for n, row in enumerate(rows.tolist()):
        rows[n, 6] = verdict.first_of(plan.world_of(""), verdict.run_of(row))
    return rows


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_ledger_is_named(name, rows, monkeypatch):
    monkeypatch.setenv("ATTNLABS_REPLAY", "0")
    share, wrong, text = judged("ledger", "", BROKEN[name](rows))
    assert name in wrong and share < 1 and text


def test_the_best_learning_rate_must_not_be_the_last_one_tried(rows, monkeypatch):
    monkeypatch.setenv("ATTNLABS_REPLAY", "0")
    row = next(r for r in rows.tolist() if (r[0], r[1]) == (32, 1))
    tried = [[*row[:2], rate, *row[3:7], 2.5 - rate] for rate in (0.004, 0.008, 0.012)]
    others = without(rows, lambda r: r[0] == 16)
    share, wrong, _ = judged("ledger", "", torch.cat([others, torch.tensor(tried).double()]))
    assert "rate-at-the-end" in wrong and share < 1


def test_three_rates_that_are_one_are_no_search(rows, monkeypatch):
    """The one in the middle was the best, by what seeds and last digits make of it."""
    monkeypatch.setenv("ATTNLABS_REPLAY", "0")
    row = next(r for r in rows.tolist() if (r[0], r[1]) == (32, 1))
    tried = [[*row[:2], rate, *row[3:7], 2.5 + i % 2] for i, rate in ((1, 0.0319), (2, 0.032))]
    tried += [[*row[:2], 0.0321, *row[3:7], 3.5]]
    others = without(rows, lambda r: r[0] == 16)
    _, wrong, _ = judged("ledger", "", torch.cat([others, torch.tensor(tried).double()]))
    assert "no-rates" in wrong


def test_a_friend_s_ledger_is_nobody_else_s(rows, monkeypatch):
    monkeypatch.setenv("ATTNLABS_REPLAY", "0")
    friend = next(f"s{n}" for n in range(99) if plan.world_of(f"s{n}") == plan.world_of(""))
    assert judged("ledger", friend, rows)[:2] == (0.0, ("another-s",))
    (words,) = own.look({"ledger": ["another-s"], "committed": [], "forecast": ["narrow"]})
    assert words.startswith("ledger: its runs are not of this copy")


def test_a_ledger_without_a_run_is_told_so():
    nothing = judged("ledger", "", torch.tensor([]))
    assert nothing == (0.0, ("no-ledger",), "there is no run in it yet.")
    words = own.stopped("committed", "it stopped with IndexError in committed.")
    assert words.endswith("while LEDGER has no run.")


def test_a_run_that_ends_elsewhere_when_it_is_trained_again_is_named():
    run = Run(16, 1, 0.01, 10, 0)
    world = plan.world_of("")
    found = family.train(world, run)
    row = [16, 1, 0.01, 10, 0, plan.gigaflops(world, run), found.first, found.loss]
    assert verdict.replays(world, "", np.array([row]), 25.0) == ""
    row[7] -= 0.1
    assert "ends at another loss" in verdict.replays(world, "", np.array([row]), 25.0)
    assert verdict.replays(world, "", np.array([row]), 0.0) == ""


def test_nobody_chooses_which_runs_are_trained_again(lab, rows, monkeypatch):
    """Losses that were made up had all points once their last digits sent the lot elsewhere."""
    asked = []

    def again(world, run):
        asked.append(run)
        return family.Trained(0.0, next(r[7] for r in rows.tolist() if verdict.run_of(r) == run))

    monkeypatch.setattr(verdict, "again", again)

    def trained(lot, *digits):
        asked.clear()
        changed = rows.numpy().copy()
        changed[: len(digits), 7] += digits
        assert verdict.replays("forwards", "", changed, 12.0, lot) == ""
        return list(asked)

    assert trained(1) == trained(1, 1e-4, -2e-4, 3e-3)
    assert len({tuple(trained(lot)) for lot in range(20)}) > 10
    one, other = (drawn(lab.compared["ledger"], seed)[0] for seed in (1, 2))
    assert one.lot != other.lot and one.arguments == other.arguments
    assert all(case.lot == 0 for case in probes.sheets()["ledger"].cases)


def answers(names, higher=(0.0, verdict.SHIFT), **other):
    """What `committed` gives for the recipe, with some of its six numbers replaced."""
    found = []
    for each in higher:
        made = names["committed"](each)[0].tolist()
        for place, value in other.items():
            made[int(place[1:])] = value
        found.append(torch.tensor(made, dtype=torch.float64))
    return found


def test_commitments_that_cannot_be_scored_are_named(names):
    for place, value, name in (
        ("_2", 0.5, "off-the-menu"),
        ("_0", 16.0, "off-the-menu"),
        ("_3", 3.0, "mean-outside"),
        ("_4", -1.0, "negative"),
        ("_4", 9.0, "exchanged"),
        ("_5", math.nan, "no-commitment"),
    ):
        share, wrong, text = judged("committed", "", *answers(names, **{place: value}))
        assert (share, wrong) == (0.0, (name,)) and text, (place, value, wrong)
    typed = answers(names)[0]
    assert judged("committed", "", typed, typed)[1] == ("not-from-runs",)


def test_neither_a_wide_interval_nor_a_bad_recipe_buys_a_commitment(names):
    honest = judged("committed", "", *answers(names))
    recipe, mean = answers(names)[0][:3], answers(names)[0][3].item()
    wide = torch.tensor([*recipe, mean, mean - 0.3, mean + 0.3])
    moved = wide + torch.tensor([0, 0, 0, *[verdict.SHIFT] * 3])
    assert honest[0] > 0.6 > 0.4 > judged("committed", "", wide, moved)[0]
    targets = verdict.stored()[plan.world_of("")]["targets"]
    worst = max(targets, key=lambda row: row[-1])
    told = torch.tensor([*worst[:3], worst[-1], worst[-1] - 0.01, worst[-1] + 0.01])
    moved = told + torch.tensor([0, 0, 0, *[verdict.SHIFT] * 3])
    share, wrong, _ = judged("committed", "", told, moved)
    assert share == pytest.approx(5 / 7) and "poor-recipe" in wrong


def test_all_recipes_stand_beside_what_they_reached_and_the_first_one_counts(names):
    rows = [names["committed"](higher) for higher in (0.0, verdict.SHIFT)]
    assert rows[0].shape == (6, 6)
    alone = judged("committed", "", *answers(names))
    share, *others = judged("committed", "", *rows)
    assert share == pytest.approx(alone[0]) and (*others,) == alone[1:]
    results = [outcome(lambda x=x: x, ()) for x in rows]
    head, first, *others = own.table("committed", "", results)
    assert head == forecasts.HEAD and len(others) == 5 and "(committed)" in first[0]
    world = verdict.stored()[plan.world_of("")]
    assert {row[4] for row in [first, *others]} == {f"{r[-1]:.3f}" for r in world["targets"]}
    for row in [first, *others]:
        mean, low, high, reached = map(float, row[1:5])
        assert float(row[5]) == pytest.approx(scores.score(mean, low, high, reached), abs=0.02)
    assert f"Score {first[5]} nats, {first[6]}" in alone[2]


def test_without_a_commitment_that_counts_there_is_no_table(names):
    wrong = answers(names, _3=9.0)
    assert own.table("committed", "", [outcome(lambda x=x: x, ()) for x in wrong]) == []
    assert own.table("forecast", "", []) == []


def test_what_other_recipes_are_forecast_cannot_spoil_the_commitment(names):
    rows = [names["committed"](higher) for higher in (0.0, verdict.SHIFT)]
    for each in rows:
        each[3, 3:], each[4, 0] = torch.tensor([1.0, 2.0, 0.5]), 17.0  # no interval; no recipe
    share = judged("committed", "", *rows)[0]
    assert share == pytest.approx(judged("committed", "", *answers(names))[0]) and share > 0.6
    table = own.table("committed", "", [outcome(lambda x=x: x, ()) for x in rows])
    assert len(table) == 5


def test_the_desk_sets_forecasts_beside_what_is_known(names, capsys, tmp_path):
    desk = Desk(None, names["LEDGER"], tmp_path / "none")
    desk.forecasts(names["forecast"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["practice"] * 2 + ["held back"] + [
        "target"
    ] * 6
    assert len(set(map(len, lines))) == 1 and lines[0].split() == forecasts.HEAD
    best = min(row[7] for row in names["LEDGER"] if row[5] > 7.5)
    assert f" {best:.3f} " in lines[3]
    assert all(line.endswith("–") for line in lines[4:])  # a target's loss is grading's alone


def test_a_method_that_stops_or_is_not_written_stops_no_table(names, capsys, tmp_path):
    desk = Desk(None, names["LEDGER"], tmp_path / "none")
    desk.forecasts(lambda runs, target: None)
    assert capsys.readouterr().out == ""
    for wrong in (lambda runs, target: 1 / 0, lambda runs, target: (1.0, math.nan, 2.0)):
        desk.forecasts(wrong)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 10 and all("  –  " in line for line in lines[1:])


def cases(seed=5):
    return list(verdict.hidden(torch.Generator().manual_seed(seed)))


def test_the_truth_of_a_hidden_ledger_is_found_whatever_it_was_moved_by():
    for case in cases():
        runs, target = (a.numpy() for a in case.arguments)
        worlds = verdict.stored()
        seen = verdict.truth(runs, target, worlds)
        assert seen is not None and 0.3 < seen < runs[:, 7].min() + 0.05
        assert verdict.truth(runs + 0.3 * np.arange(8), target, worlds) is None


@pytest.mark.parametrize("name", verdict.SLIPS)
def test_typical_mistakes_of_a_method_are_named(name):
    given = cases()
    found = []
    for case in given:
        runs, target = (a.numpy() for a in case.arguments)
        seen = verdict.truth(runs, target, verdict.stored())
        mean = verdict.slips(runs, target, seen)[name]
        found.append((np.array(mean), np.array(mean - 0.01), np.array(mean + 0.01)))
    share, wrong, text = own.judged("forecast", "", found, given)
    assert share < 0.9 and name in wrong and verdict.SLIPS[name] in text


def test_a_number_that_fits_one_text_only_wins_little(names):
    given = cases()
    constant = [tuple(map(np.array, (1.4, 1.35, 1.45)))] * len(given)
    right = [outcome(names["forecast"], case.arguments) for case in given]
    assert own.judged("forecast", "", constant, given)[0] < 0.4
    assert own.judged("forecast", "", right, given)[0] > 0.5


def test_the_check_tells_the_practice_text_and_never_the_target(names, capsys):
    assert "of the points" in check.sentence("forecast", names["forecast"])
    said = check.sentence("committed", names["committed"])
    assert said.startswith("right in form, sealed as") and "reached" not in said
    assert "in the wrong" not in check.sentence("ledger", names["ledger"])
    assert probes.sheets()["forecast"].cases == []  # no hidden ledger lies in a student's copy


@pytest.mark.slow
def test_the_lab_s_own_answers_have_nearly_all_points_that_need_no_reader(of, monkeypatch):
    monkeypatch.setenv("ATTNLABS_REPLAY", "0")
    lab = of(12).lab
    row = of(12).judge(nbformat.writes(lab.notebook).encode())
    worth = {asked.name: asked.points for asked in lab.asked}
    assert sum(worth.values()) == 30 and not row.review
    page = report.feedback(lab, row)
    assert page.count("(committed)") == 1 and page.count("gigaflops</td>") == 5
    assert report.tables([row]).count("\r\n") == 7 and "committed" not in row.reason
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row
    told = {test["name"]: test["output"] for test in gradescope.results(lab, row)["tests"]}
    assert told["committed"].count("gigaflops") == 6
    for name in lab.compared:
        least = 0.6 if name in ("forecast", "committed") else 1  # the second of three levels
        assert row.questions[name].points >= least * worth[name], row.questions[name]


def test_the_students_copy_has_no_solution_and_runs_untouched(root, lab):
    copy_ = release.student_copy(lab)
    stored = (root / "labs" / "student" / lab.path.name).read_text(encoding="utf-8")
    assert release.text(copy_) == stored
    assert "LEDGER = []" in stored and "2.3793" not in stored


def test_mistakes_of_the_three_functions_are_told_apart(lab):
    for name in ("run_flops", "fit_law", "interval_score"):
        question = lab.compared[name]
        known = sheet(question, drawn(question, 3)).known
        alone = {wrong[0] for wrong, _ in known if len(wrong) == 1}
        assert alone == set(question.mistakes), set(question.mistakes) - alone


def test_gradescope_gets_the_targets_the_text_and_all_that_is_imported(lab, tmp_path):
    with zipfile.ZipFile(gradescope.write(lab, tmp_path / "autograder.zip")) as archive:
        names = set(archive.namelist())
    assert f"labs/{lab.path.stem}.json" in names
    text = {"src/attnbook/data/text.py", "src/attnbook/data/python_docs.txt.gz"}
    assert text | {"src/attnbook/shipped/language.py"} <= names
