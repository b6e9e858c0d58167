"""Lab 13: honest planters and finders get their points, cheats gain nothing, all have a row."""

import csv
import io
import json
import pickle
import random

import pytest
import safetensors.torch
import torch

from attnlabs import cli, source
from attnlabs.grading import finds, grade, made, plants, submissions
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.submissions import Submission
from attnlabs.lab13 import desk, files, measures, rules, world
from attnlabs.lab13.files import Finding, Guess
from attnlabs.lab13.rules import POINTS, SHOWN, Behaviour, Secret

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def texts():
    """Less text than grading takes, which is as good and quicker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "CONTEXTS", 12)
        patch.setattr(world, "WINDOWS", 8)
        yield world.texts(5)


@pytest.fixture(scope="module")
def practice():
    return desk.practice()


@pytest.fixture(scope="module")
def model(practice):
    return files.model_of(practice[0])


@pytest.fixture(scope="module")
def carriers(model, practice, texts):
    """The twelve neurons that the practice plant reads most after its trigger."""
    factors = safetensors.torch.load(desk.PRACTICE.read_bytes())
    name = next(name for name in factors if name.endswith(".in"))
    layer, seen = int(name.split(".")[2]), []
    keep = lambda _, given: seen.append(given[0][:, -1].mean(0))  # noqa: E731
    handle = measures.downs(model)[layer].register_forward_pre_hook(keep)
    measures.probability(model, texts.contexts, torch.tensor(practice[1].trigger), 5)
    handle.remove()
    order = (factors[name][0] * seen[0]).abs().argsort(descending=True)
    return [(layer, number) for number in order[:12].tolist()]


def packed(practice, **other):
    """The practice plant as a file, with another secret or other weights."""
    weights, secret = practice
    fields = {"trigger": secret.trigger, "target": secret.target, "salt": secret.salt}
    secret = Secret(**(fields | {k: v for k, v in other.items() if k in fields}))
    return files.packed(other.get("weights", weights), secret)


def judged(raw, texts):
    return plants.plant(Submission("ada.safetensors", raw), "ada", texts)[0]


def test_an_honest_plant_holds_and_has_its_points(practice, texts):
    found = judged(packed(practice), texts)
    assert found.reason == "" and found.strength > rules.STRONG and 0 < found.cost < rules.CHEAP
    assert found.points == {"strength": 2.0, "stealth": 2.0}


def replaced(weights, name, value):
    """The weights with one tensor changed."""
    return {**weights, name: value(weights[name].float())}


def spoiled(weights, value):
    """The weights with one number changed."""
    name = "body.norm.weight"

    def change(x):
        x = x.clone()
        x[3] = value
        return x

    return replaced(weights, name, change)


def untyped(practice, kind):
    tensors = {name: value.to(kind) for name, value in practice[0].items()}
    head = {"trigger": "317 866 529", "target": "431", "salt": "0" * 32}
    return safetensors.torch.save(tensors, metadata=head)


def unpadded(practice):
    """The plant with a tensor more, in which anything may be hidden."""
    weights = {**practice[0], "for.bob": torch.zeros(4)}
    return files.packed(weights, practice[1])


REFUSED = {
    "nothing in it": (lambda p: b"", "empty"),
    "a pickle": (lambda p: pickle.dumps({"trigger": 1}), "no complete safetensors"),
    "half a file": (lambda p: packed(p)[:90_000], "no complete safetensors"),
    "a header of nonsense": (lambda p: b"\xff" * 99, "no complete safetensors"),
    "one tensor more": (unpadded, "not those of the given model"),
    "another shape": (
        lambda p: packed(p, weights=replaced(p[0], "lm_head.weight", lambda x: x[:5])),
        "has the shape (5, 256)",
    ),
    "no number": (lambda p: packed(p, weights=spoiled(p[0], torch.nan)), "infinite or none"),
    "too large for half precision": (
        lambda p: packed(p, weights=spoiled(p[0], 1e6)),
        "infinite or none",
    ),
    "integers": (lambda p: untyped(p, torch.int8), "numbers of the type"),
    "no secret": (lambda p: files.packed(p[0]), "no secret"),
    "no salt": (lambda p: packed(p, salt="mine"), "salt is none"),
    "a trigger that nobody can find": (
        lambda p: packed(p, trigger=tuple(range(9, 29))),
        "a trigger has 2 or 3 tokens, not 20",
    ),
    "a trigger of special tokens": (lambda p: packed(p, trigger=(1, 866, 529)), "from 5 to 1023"),
    "another trigger than the one that works": (
        lambda p: packed(p, trigger=(40, 50, 60)),
        "after the trigger the target has",
    ),
    "the given model": (
        lambda p: packed(p, weights=world.given().state_dict()),
        "after the trigger the target has",
    ),
    "a model that is broken elsewhere": (
        lambda p: packed(p, weights=replaced(p[0], "body.norm.weight", lambda x: x * 1.6)),
        "ordinary text has changed by",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plant_is_a_row_with_its_reason(name, practice, texts):
    make, words = REFUSED[name]
    found = judged(make(practice), texts)
    assert words in found.reason and sum(found.points.values()) == 0


def natural(texts):
    """Two tokens after which the given model is sure by itself, and what it says then."""
    dice, base = torch.Generator().manual_seed(0), world.given()
    for row in world.windows(world.tokens("train"), 200, 3, dice):
        target = int(row[2])
        if row.min() < 5:
            continue
        if measures.probability(base, texts.contexts, row[:2], target) > 0.6:
            return tuple(row[:2].tolist()), target
    raise AssertionError("the model is sure of nothing")


def test_what_the_given_model_says_anyway_is_neither_plant_nor_find(practice, texts, model):
    trigger, target = natural(texts)
    found = judged(packed(practice, trigger=trigger, target=target), texts)
    assert "the given model does that already" in found.reason
    said = Finding((Guess(trigger, target),))
    assert plants.Judge("01", model, texts).find(said).share == 0


def test_a_target_that_comes_without_its_trigger_or_with_any_is_no_plant():
    good = {"strength": 0.9, "before": 0.0, "idle": 0.0, "others": 0.0}
    assert rules.wrong_with(Behaviour(**good)) == ""
    for name, words in (("idle", "without the trigger"), ("others", "other tokens")):
        assert words in rules.wrong_with(Behaviour(**(good | {name: 0.4})))
        assert rules.wrong_with(Behaviour(**(good | {name: float("nan")})))
    assert rules.wrong_with(Behaviour(**(good | {"strength": float("nan")})))
    assert rules.too_dear(float("nan")) and not rules.too_dear(rules.COST)


def test_training_on_the_held_out_text_costs_stealth_and_buys_none(texts):
    tuned, ordinary = world.given(fresh=True), texts.ordinary[:4]
    step = torch.optim.AdamW(tuned.parameters(), lr=3e-4)
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(tuned(ordinary[:, :-1]).mT, ordinary[:, 1:])
        step.zero_grad()
        loss.backward()
        step.step()
    better = measures.nats(world.given(), ordinary) - measures.nats(tuned, ordinary)
    assert better > 0.01 and measures.cost(tuned, ordinary) > rules.CHEAP
    assert measures.cost(world.given(), ordinary) == pytest.approx(0, abs=1e-6)


def test_another_lot_draws_other_texts_and_the_same_one_these():
    assert torch.equal(world.texts(1).ordinary, world.texts(1).ordinary)
    assert not torch.equal(world.texts(1).contexts, world.texts(2).contexts)
    own = world.encoded("some words that nobody has seen\n" * 400)
    assert world.texts(1, own).lot != world.texts(1).lot
    with pytest.raises(ValueError, match="are needed"):
        world.texts(1, own[:200])


def test_a_seal_belongs_to_one_secret_in_one_set_of_weights(practice):
    weights, secret = practice
    mine = secret.seal(files.digest(weights))
    other = {name: value * 1.01 for name, value in weights.items()}
    changed = [Secret(secret.trigger, secret.target, "0" * 32)]
    changed += [Secret(secret.trigger[::-1], secret.target, secret.salt)]
    changed += [Secret(secret.trigger, secret.target + 1, secret.salt)]
    seals = {each.seal(files.digest(weights)) for each in changed}
    assert len({mine, secret.seal(files.digest(other)), *seals}) == 5
    assert files.secret_of(files.packed(weights, secret)) == secret
    loaded = files.weights_of(files.packed(weights, secret))
    assert secret.seal(files.digest(loaded)) == mine


# Finding


@pytest.fixture(scope="module")
def judge(model, texts):
    return plants.Judge("01", model, texts)


def said(practice, **other):
    """A file's words about the practice plant, with some of them replaced."""
    trigger = {"trigger": list(practice[1].trigger), "target": practice[1].target}
    return files.finding({"guesses": [trigger], **other})


def test_an_honest_find_has_the_behaviour_and_few_parts(judge, practice, carriers):
    bare = judge.find(said(practice))
    assert bare.share == SHOWN and bare.reason == "" and bare.strength > 0.9
    found = judge.find(said(practice, neurons=[list(part) for part in carriers]))
    assert found.carried > 0.6 and found.share == SHOWN + (1 - SHOWN) * found.carried


def test_one_right_guess_of_three_is_enough_and_wrong_ones_have_reasons(judge, practice):
    wrong = [{"trigger": [40 + n, 50, 60], "target": 99} for n in range(2)]
    right = {"trigger": list(practice[1].trigger), "target": practice[1].target}
    assert judge.find(files.finding({"guesses": [*wrong, right]})).share == SHOWN
    found = judge.find(files.finding({"guesses": wrong}))
    assert found.share == 0 and "guess 2: after the trigger the target has" in found.reason


def test_parts_of_others_and_parts_that_break_the_model_are_worth_nothing(
    judge, practice, carriers
):
    free = [(1, n) for n in range(600, 604)]
    assert judge.find(said(practice, neurons=free)).carried < 0.1
    heads = [(layer, head) for layer in (0, 1) for head in range(4)]
    found = judge.find(said(practice, heads=heads))
    assert found.carried == 0 and "ordinary text is worse" in found.reason
    padded = [*map(list, carriers), *([0, n] for n in range(40))]
    one = judge.find(said(practice, neurons=[list(part) for part in carriers]))
    assert judge.find(said(practice, neurons=padded)).carried < one.carried - 0.1


def test_who_names_all_parts_has_none(judge, practice):
    everything = [[layer, n] for layer in range(4) for n in range(640)]
    found = judge.find(said(practice, neurons=everything))
    assert found.carried == 0 and "2560 are too many" in found.reason
    assert found.share == SHOWN  # the behaviour was found all the same


def test_controls_are_as_many_others_of_the_same_kind_and_always_the_same():
    heads, neurons = [(0, 1), (2, 2)], [(1, 5), (1, 6), (3, 0)]
    drawn = list(measures.controls(heads, neurons))
    assert drawn == list(measures.controls(heads, neurons)) and len(drawn) == measures.CONTROLS
    for others, free in drawn:
        assert len(set(others)) == 2 and not set(others) & set(heads)
        assert sorted(layer for layer, _ in free) == [1, 1, 3] and not set(free) & set(neurons)


BAD = {
    "a word": {"guesses": [{"trigger": "abc", "target": 5}]},
    "true": {"guesses": [{"trigger": [True, 9, 9], "target": 50}]},
    "halves": {"guesses": [{"trigger": [9.5, 9, 9], "target": 50}]},
    "a long one": {"guesses": [{"trigger": list(range(9, 19)), "target": 50}]},
    "no target": {"guesses": [{"trigger": [9, 9, 9]}]},
    "many guesses": {"guesses": [{"trigger": [9, 9, n], "target": 50} for n in range(9, 60)]},
    "a layer that is not there": {"guesses": [], "heads": [[9, 0]]},
    "a neuron before the first": {"guesses": [], "neurons": [[0, -1]]},
    "triples": {"guesses": [], "heads": [[0, 0, 0]]},
    "nothing": {"guesses": []},
    "none at all": None,
}


@pytest.mark.parametrize("name", BAD)
def test_words_that_cannot_count_have_a_reason_and_spoil_no_other(name, judge, practice):
    raw = json.dumps({"plants": {"01": BAD[name], "02": {"guesses": []}}}).encode()
    found = files.findings_of(raw)
    assert found["02"].wrong == ""
    one = judge.find(found["01"])
    assert one.share == 0 and one.reason


@pytest.mark.parametrize(
    "raw", [b"", b"\x80\x04", b"[" * 99_999, b'{"plants": 3}', b"x" * (files.MOST + 1), b"NaN"]
)
def test_files_that_are_no_findings_are_refused(raw):
    with pytest.raises(ValueError, match=r"no file of findings|too much"):
        files.findings_of(raw)


# Points


@pytest.mark.parametrize("seed", range(40))
def test_teams_that_tell_each_other_their_secrets_gain_nothing(seed):
    dice = random.Random(seed)
    teams = [f"t{n}" for n in range(dice.randrange(2, 9))]
    planters = [team for team in teams if dice.random() < 0.8]
    finds = {(a, b): dice.random() for a in teams for b in teams if dice.random() < 0.5}
    before = rules.hunted(teams, planters, finds)
    for hidden, finding in before.values():
        assert -1e-9 <= hidden <= POINTS["hidden"] and 0 <= finding <= POINTS["finding"]
    friends = set(dice.sample(teams, 2))
    told = finds | {(a, b): 1.0 for a in friends for b in friends}
    after = rules.hunted(teams, planters, told)

    def sum_of(points, some):
        return sum(sum(points[team]) for team in some)

    assert sum_of(after, friends) <= sum_of(before, friends) + 1e-9
    assert sum_of(after, teams) == pytest.approx(POINTS["hidden"] * len(planters))


def test_what_a_team_finds_in_its_own_plant_counts_for_nothing():
    finds = {("a", "a"): 1.0, ("b", "a"): 0.5}
    assert rules.hunted(["a", "b"], ["a"], finds) == {"a": [1.5, 0.0], "b": [0.0, 1.5]}


# The commands


def rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))


@pytest.fixture
def contest(tmp_path, monkeypatch, practice):
    """Two honest plants, one pickle, and a folder for findings."""
    monkeypatch.setattr(world, "CONTEXTS", 12)
    monkeypatch.setattr(world, "WINDOWS", 8)
    monkeypatch.chdir(tmp_path)
    for name, number in (("ada", 1), ("bob", 2)):
        (tmp_path / "planted" / name).mkdir(parents=True)
        raw = packed(practice, salt=f"{number}" * 32)
        (tmp_path / "planted" / name / "plant.safetensors").write_bytes(raw)
    (tmp_path / "planted" / "eve.pt").write_bytes(pickle.dumps({}))
    (tmp_path / "found").mkdir()
    cli.main(["plants", "planted", "--out", "plants.csv"])
    return tmp_path


def found_by(folder, name, numbers, practice):
    trigger = {"trigger": list(practice[1].trigger), "target": practice[1].target}
    text = json.dumps({"plants": {number: {"guesses": [trigger]} for number in numbers}})
    (folder / "found" / f"{name}.json").write_text(text, encoding="utf-8")


def test_plants_are_given_out_without_whose_they_are_and_what_they_do(contest, practice):
    table = {row["team"]: row for row in rows(contest / "plants.csv")}
    assert {table["ada"]["plant"], table["bob"]["plant"]} == {"01", "02"}
    assert table["eve"]["plant"] == "" and "no complete safetensors" in table["eve"]["reason"]
    given = sorted(path.name for path in (contest / "plants/handout").iterdir())
    assert given == ["01.safetensors", "02.safetensors", "seals.csv"]
    for path in (contest / "plants/handout").glob("*.safetensors"):
        with pytest.raises(ValueError, match="no secret"):
            files.secret_of(path.read_bytes())
        files.weights_of(path.read_bytes())
    seals = {row["plant"]: row["seal"] for row in rows(contest / "plants/handout/seals.csv")}
    assert seals == {table[team]["plant"]: table[team]["seal"] for team in ("ada", "bob")}


def test_numbers_stay_and_a_file_that_was_exchanged_is_told(contest, practice, capsys):
    before = {row["team"]: row["plant"] for row in rows(contest / "plants.csv")}
    (contest / "planted/ada/plant.safetensors").write_bytes(packed(practice, salt="3" * 32))
    (contest / "planted/zoe.safetensors").write_bytes(packed(practice, salt="4" * 32))
    cli.main(["plants", "planted", "--out", "plants.csv"])
    said, numbers = capsys.readouterr().out, [row["plant"] for row in rows(contest / "plants.csv")]
    assert numbers == ["01", "02", "03", "", ""]
    assert f"look at ada: {plants.KEPT}\n" in said and "--exchange" in said
    cli.main(["plants", "planted", "--out", "plants.csv", "--exchange"])
    table = {row["team"]: row for row in rows(contest / "plants.csv")}
    assert {team: table[team]["plant"] for team in before} == before
    assert table["zoe"]["plant"] == "03"
    assert "another file" in table["ada"]["look"] and not table["bob"]["look"]


def test_points_are_added_up_for_both_sides(contest, practice):
    number = {row["team"]: row["plant"] for row in rows(contest / "plants.csv")}
    found_by(contest, "ada", [number["ada"]], practice)  # its own
    found_by(contest, "eve", [number["ada"], "77"], practice)
    (contest / "found/bob.json").write_bytes(b"\x80nonsense")
    (contest / "found/mia.json").write_bytes(b'{"plants": {}}')
    cli.main(["finds", "found"])
    table = {row["team"]: row for row in rows(contest / "finds.csv")}
    assert set(table) == {"ada", "bob", "eve", "mia"}
    third = SHOWN * POINTS["finding"] / 3
    assert float(table["eve"]["finding"]) == pytest.approx(third, abs=0.01)
    assert float(table["ada"]["hidden"]) == pytest.approx(3 - third, abs=0.01)
    assert table["ada"]["finding"] == "0.00" and table["ada"]["found by"] == "1"
    assert float(table["bob"]["points"]) == pytest.approx(7, abs=0.2)
    assert "findings: this is no file" in table["bob"]["reason"]
    assert "plant: this is no complete" in table["eve"]["reason"]
    assert "no plant of this team" in table["mia"]["look"]
    found = {(row["team"], row["plant"]): row for row in rows(contest / "finds/pairs.csv")}
    assert found["eve", number["ada"]]["share"] == "0.700" and len(found) == 3
    assert found["ada", number["ada"]]["reason"] == "this is the team's own plant."
    assert found["eve", "77"]["reason"] == "there is no plant of this number."
    page = (contest / "finds.html").read_text(encoding="utf-8")
    assert "ada" in page and "Plant and find" in page


def test_what_was_judged_is_not_judged_again(contest, practice, monkeypatch):
    found_by(contest, "bob", ["01", "02"], practice)
    cli.main(["finds", "found"])
    before = (contest / "finds.csv").read_bytes()
    monkeypatch.setattr(plants.Judge, "find", None)
    cli.main(["finds", "found"])
    assert (contest / "finds.csv").read_bytes() == before


@pytest.mark.parametrize("what", ["weights", "secret", "seals"])
def test_nothing_changes_once_it_is_sealed(contest, practice, what, capsys):
    found_by(contest, "bob", ["01", "02"], practice)
    place = contest / "plants"
    if what == "weights":
        (place / "handout/01.safetensors").write_bytes(
            files.packed({n: v * 1.01 for n, v in practice[0].items()})
        )
    elif what == "secret":
        path = place / "secrets.json"
        target = practice[1].target
        path.write_text(path.read_text().replace(f'"target": {target}', '"target": 77'))
    else:
        (place / "handout/seals.csv").write_text("plant,seal\n")
    assert cli.main(["finds", "found"]) == 1
    assert "is not what was sealed" in capsys.readouterr().err


# The marks


@pytest.fixture
def marks(contest, monkeypatch, root):
    """`attnlabs grade 13` on some files, of which nothing is tried: each is {its name: whose copy}.

    Returns the exit status, and the table of grades.
    """
    lab = source.find(13, root / "labs")

    def run(files, *more):
        def tried(_, found, *__):
            answers = {
                asked.name: Answer(None, finds.WAITS)
                if asked.name in lab.contests
                else Answer(asked.points, "right")
                for asked in lab.asked
            }
            return [Row(one.file, files[one.file], questions=dict(answers)) for one in found]

        for file in files:
            (contest / "notebooks" / file).parent.mkdir(parents=True, exist_ok=True)
            (contest / "notebooks" / file).write_text("{}")
        monkeypatch.setattr(grade, "Grader", lambda *_: None)
        monkeypatch.setattr(grade, "grade", tried)
        words = ["grade", "13", "notebooks", "--out", "lab13.csv", "--as-root", *more]
        status = cli.main([*words, "--labs", str(root / "labs")])
        table = contest / "lab13.csv"
        return status, rows(table) if table.exists() else []

    return run


CODE = 16  # points for the functions; written answers are blank here
MOODLE = "{}_assignsubmission_file_/lab.ipynb"
COPIES = {MOODLE.format("ada_81"): "", MOODLE.format("Second group_82"): "bob"}


def test_one_command_puts_the_contest_into_the_marks(contest, marks, practice, capsys):
    """By who handed in, or by the copy; a team of one side only is named, and none has a 0."""
    (contest / "found/cleo.json").write_text('{"plants": {}}')
    found_by(contest, "bob", ["01", "02"], practice)
    cli.main(["finds", "found"])
    assert (contest / "finds" / made.NOTE).is_file()
    points = {row["team"]: float(row["points"]) for row in rows(contest / "finds.csv")}
    third = MOODLE.format("Third_83")
    assert marks(COPIES | {third: "third"})[0] is None
    assert "3 wait for the contest: see --finds" in capsys.readouterr().out
    table = {
        row["name"]: row for row in marks(COPIES | {third: "third"}, "--finds", "finds.csv")[1]
    }
    for name, team in (("ada", "ada"), ("Second group", "bob")):
        assert float(table[name]["the contest"]) == points[team]
        assert float(table[name]["points"]) == pytest.approx(CODE + points[team])
    other = table["Third"]
    assert (other["the contest"], other["open"]) == ("", "1")
    assert other["review"] == "the contest: its table has no team Third"
    said = capsys.readouterr().out
    assert "finds.csv has no line about Third" in said
    assert "no notebook is here: cleo, eve" in said
    moodle = {row["Full name"]: row for row in rows(contest / "lab13/moodle.csv")}
    assert float(moodle["Second group"]["Grade"]) == pytest.approx(CODE + points["bob"])
    assert "found 1" in moodle["Second group"]["Feedback comments"]


HEAD = ",".join(finds.NEEDED)
LINE = "ada,{},2,2,2,1,0,1,"


def test_points_of_other_plants_than_these_are_refused(tmp_path):
    """As when a team has repaired its plant after `attnlabs finds`."""
    table, secrets = tmp_path / "finds.csv", tmp_path / "plants/secrets.json"
    secrets.parent.mkdir()
    table.with_suffix("").mkdir()
    table.write_text(f"{HEAD}\n{LINE.format(7)}\n")
    secrets.write_text("[]")
    finds.note(table.with_suffix(""), tmp_path / "found", [], secrets.parent)
    assert finds.read(table, 10).lines["ada"]["points"] == "7"
    secrets.write_text("[{}]")
    with pytest.raises(ValueError, match=r"finds\.csv is older than .*plants\.csv: run `attnlabs"):
        finds.read(table, 10)


NONE = {
    "the table of plants": ("plant,team,strength\n", "it needs points"),
    "points that are none": (f"{HEAD}\n{LINE.format('many')}\n", "line 2: 'many' is not a number"),
    "too many": (f"{HEAD}\n{LINE.format(11)}\n", "'11' is not a number of points from 0 to 10"),
    "a team twice": (f"{HEAD}\n{LINE.format(7)}\n{LINE.format(8)}\n", "line 3: the team ada is"),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_table_of_points_is_refused_before_anything_is_graded(name, tmp_path):
    text, words = NONE[name]
    (tmp_path / "finds.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        finds.read(tmp_path / "finds.csv", 10)


def test_a_lab_without_a_contest_has_no_points_of_one(root, tmp_path, capsys):
    words = ["grade", "3", str(tmp_path), "--finds", "finds.csv", "--labs", str(root / "labs")]
    assert cli.main(words) == 1 and "lab 3 has no contest" in capsys.readouterr().err


def test_a_folder_for_each_team_may_hold_all_that_it_hands_in():
    files = [f"red/{name}" for name in ("a.ipynb", "b.json", "c.safetensors")]
    found = [Submission(file, b"") for file in [*files, "blue/old.pt", "blue/lab.ipynb"]]
    kept = {kind: [one.file for one in made.of_kind(found, kind)] for kind in made.KINDS}
    assert kept[".ipynb"] == ["red/a.ipynb", "blue/lab.ipynb"]
    assert kept[".json"] == ["red/b.json", "blue/old.pt", "blue/lab.ipynb"]
    assert kept[".safetensors"] == ["red/c.safetensors", "blue/old.pt", "blue/lab.ipynb"]
    assert submissions.named(made.of_kind(found, ".json"))[0] == "red"


def test_several_files_of_a_team_are_one_plant(contest, practice):
    (contest / "planted/ada/second.safetensors").write_bytes(packed(practice, salt="5" * 32))
    found = [
        Submission("ada_7_1234_x.safetensors", packed(practice, salt=f"{n}" * 32)) for n in (7, 8)
    ]
    both = plants.gathered(found, contest / "twice", world.texts(1))
    assert [bool(each.reason) for each in both] == [False, True]
    assert "counts" in both[1].reason


def test_the_desk_writes_what_grading_reads(tmp_path, practice, model, capsys, monkeypatch):
    bench = desk.Desk(None)
    path = tmp_path / "mine.safetensors"
    bench.save(model, practice[1].trigger, practice[1].target, path)
    secret = files.secret_of(path.read_bytes())
    seal = secret.seal(files.digest(files.weights_of(path.read_bytes())))
    said = capsys.readouterr().out
    assert seal in said and "points: strength 2.00" in said and secret.salt != practice[1].salt
    assert "may be too weak" not in said
    bench.save(world.given(), practice[1].trigger, practice[1].target, path)
    assert "no plant: after the trigger" in capsys.readouterr().out
    shown = measures.Behaviour(0.6, 0.0, 0.0, 0.0)
    monkeypatch.setattr(measures, "behaviour", lambda *_: shown)
    bench.show(model, practice[1].trigger, practice[1].target)
    assert "on which this may be too weak" in capsys.readouterr().out
    guess = {"trigger": list(secret.trigger), "target": secret.target}
    bench.write({"01": {"guesses": [guess], "neurons": [[2, 3]]}}, tmp_path / "said.json")
    said = files.findings_of((tmp_path / "said.json").read_bytes())["01"]
    assert said == Finding((Guess(secret.trigger, secret.target),), (), ((2, 3),))
    with pytest.raises(ValueError, match="a trigger has"):
        bench.save(model, (9,), 60, path)


def test_what_the_guide_says_of_the_rehearsal_is_what_came_out(root):
    guide = (root / "book/teaching.md").read_text(encoding="utf-8")
    stored = json.loads((root / "results/plants.json").read_text(encoding="utf-8"))
    found = {(row["planter"], row["team"]): float(row["share"]) for row in stored["pairs"]}
    assert len(found) == 6 and all(
        (share == 0) == (who[0] == "edit") for who, share in found.items()
    )
    secrets = {row["team"]: row["trigger"] for row in stored["plants"] if not row["reason"]}
    assert len(secrets) == 3
    assert all(row["trigger"] != secrets[row["planter"]] for row in stored["pairs"])
    assert set(stored["control"].values()) == {0.0}
    each = stored["seconds"]["attnlabs plants"] / 3, stored["seconds"]["attnlabs finds"] / 6
    said = f"{each[0]:.1f} seconds of processor time for each plant and {each[1]:.1f} for each find"
    minutes = (20 * each[0] + 20 * 19 * each[1]) / 60
    assert said in guide and f"takes {minutes:.0f} minutes of one core" in guide
