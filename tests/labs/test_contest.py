"""Lab 13's contest as a class plays it: repaired plants, names that differ, files that come late.

Nothing is measured here: a stand-in says of each file what measuring would.
"""

import csv
import io
import zipfile

import pytest
import torch

from attnlabs import cli, source
from attnlabs.grading import finds, grade, made, plants, teams
from attnlabs.grading import submissions as handed
from attnlabs.grading.plants import Find, Plant
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.submissions import Submission
from attnlabs.lab13 import desk, files, world

NONE = torch.zeros(1, 3).long()
TEXTS = world.Texts(NONE, NONE, NONE)


def rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))


def table(path, **of):
    """A lecturer fills in the column team."""
    lines = [f"{row['name']},{of.get(row['name'], row['team'])}" for row in rows(path)]
    path.write_text("\n".join(["name,team", *lines]))


@pytest.fixture
def garden(tmp_path, monkeypatch):
    """A function that gathers plants {file: content}; a content that begins with “good” holds."""

    def measured(one, team, _):
        good = one.content.startswith(b"good")
        seal = str(one.content) if good else ""
        reason = "" if good else "no backdoor."
        return Plant(team, one.file, seal=seal, reason=reason, look="it is late; " * one.late), {}

    monkeypatch.setattr(plants, "plant", measured)

    def gather(given, exchange=False):
        found = [Submission(file, content) for file, content in sorted(given.items())]
        known = plants.gathered(found, tmp_path / "plants", TEXTS, exchange)
        return {each.file: each for each in known}

    return gather


def test_a_plant_that_was_repaired_has_a_number_like_any_other(garden, tmp_path):
    garden({"red/p.safetensors": b"good 1", "blue/p.safetensors": b"bad"})
    found = garden({"red/p.safetensors": b"good 1", "blue/p.safetensors": b"good 2"})
    assert found["red/p.safetensors"].number == "01" and found["blue/p.safetensors"].number == "02"
    given = sorted(path.name for path in (tmp_path / "plants/handout").iterdir())
    assert given == ["01.safetensors", "02.safetensors", "seals.csv"]
    assert not found["blue/p.safetensors"].look  # nothing of it was given out before


def test_the_file_of_a_team_that_counts_is_the_one_given_out_or_else_one_that_holds(garden):
    one = "red_1_assignsubmission_file_"
    files = {
        f"{one}/a.safetensors": b"bad",
        f"{one}/b.pt": b"no",
        f"{one}/c.safetensors": b"good 1",
    }
    for _ in range(2):  # the second time its number is known
        found = garden(files)
        assert found[f"{one}/c.safetensors"].number == "01"
        assert found[f"{one}/b.pt"].reason == f"of this team {one}/c.safetensors counts."
    found = garden(files | {f"{one}/a.safetensors": b"good 2"})
    assert found[f"{one}/c.safetensors"].number == "01" and not found[f"{one}/c.safetensors"].look
    only = garden({f"{one}/a.safetensors": b"good 2"}, exchange=True)[f"{one}/a.safetensors"]
    assert (only.number, only.look[:15]) == ("01", "this is another")


@pytest.mark.parametrize("new", [b"good 2", b"bad"])
def test_a_plant_that_was_given_out_stays_until_the_lecturer_says_otherwise(garden, tmp_path, new):
    """Others may search it by now; a new file, or one that holds nothing, had taken its place."""
    garden({"red.safetensors": b"good 1", "blue.safetensors": b"good 3"})
    handout = tmp_path / "plants/handout"
    (handout / "01.safetensors").write_bytes(b"what the class has")
    found = garden({"red2.safetensors": b"good 9", "red.safetensors": new})
    assert found["red2.safetensors"].number == "03"
    stays = [each for each in plants.stored(tmp_path / "plants") if each.team == "red"]
    assert [(each.number, each.seal, each.reason) for each in stays] == [
        ("01", str(b"good 1"), ""),
        ("", "", plants.KEPT),
    ]
    assert plants.KEPT in stays[0].look
    assert (handout / "01.safetensors").read_bytes() == b"what the class has"


def test_other_files_in_a_team_s_folder_do_not_take_its_name():
    files = ["red/p.pt", "red/p.safetensors", "blue/p.safetensors", "blue/notes.txt", "eve.pt"]
    found = made.of_kind([Submission(file, b"") for file in files], made.PLANT)
    assert handed.named(found) == ["red", "blue", "eve"]
    flat = [Submission(f"all/{file}", b"") for file in ("a.safetensors", "b.safetensors", "c.pt")]
    assert made.of_kind(flat, made.PLANT) == flat  # a class in one folder: what c handed in is told


def test_a_zip_is_opened_and_one_that_holds_nothing_is_said_to_be_one(tmp_path):
    for name, inner in (("red", "p.safetensors"), ("blue", "plant.pt"), ("eve", "f.json")):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr(inner, "{}")
            archive.writestr("lab13.ipynb", "{}")
    for kind, team, read, words in (
        (made.PLANT, "red", files.weights_of, "a zip without one .safetensors file"),
        (made.FINDINGS, "eve", files.findings_of, "a zip without one .json file"),
    ):
        found = {one.owner.name: one for one in handed.collect(tmp_path, kinds=[kind])}
        assert set(found) == {"red", "blue", "eve"} and found[team].content == b"{}"
        with pytest.raises(ValueError, match=words):
            read(found["blue"].content)


def test_late_and_copied_plants_are_to_be_looked_at(garden):
    found = garden(
        {"ada_LATE_1_234_p.safetensors": b"good 1", "bob_2_345_p.safetensors": b"good 1"}
    )
    assert found["ada_LATE_1_234_p.safetensors"].look == "it is late; it is the file of bob, too"


def moodle(name, number, content=b"x"):
    return Submission(f"{name}_{number}_assignsubmission_file_/p.json", content)


def test_of_a_group_in_moodle_each_member_has_a_copy_and_all_are_one_team(tmp_path):
    red = [
        moodle(name, n) for n, name in enumerate(("Red-Jean-Luc P", "Red-Jean-Paul S", "Red-Eve"))
    ]
    team = [moodle("Team-A-Ada", 4), moodle("Team-A-Alan", 5), moodle("Team-B-Bob", 6)]
    other = [moodle("Team-C-Cleo", 7, b"y"), moodle("Jean-Marie", 8, b"z")]
    found = [*red, *team, *other]
    said = teams.Teams(tmp_path).handed_in(found, "plant")
    assert said == ["Red"] * 3 + ["Team-A"] * 2 + ["Team-B-Bob", "Team-C-Cleo", "Jean-Marie"]
    assert len(teams.Teams(tmp_path).each(found, "plant")) == 5  # a team's file counts once
    alone = [moodle("Red-Eve", 70, b"other words")]
    assert teams.Teams(tmp_path).handed_in(alone, "findings") == ["Red"]  # as the table says


def test_what_a_lecturer_says_of_a_name_holds_for_all_that_comes(tmp_path):
    found = [Submission(f"{name}_{n}_700{n}_x.json", b"") for n, name in enumerate("ab")]
    assert teams.Teams(tmp_path).handed_in(found, "plant") == ["a", "b"]
    table(tmp_path / teams.FILE, a="Red team", b="a")
    known = teams.Teams(tmp_path)
    assert known.handed_in(found, "findings") == ["Red team"] * 2
    assert known.of("RED  TEAM") == "Red team" and known.of("B") == "Red team"
    assert [row["handed in"] for row in rows(tmp_path / teams.FILE)] == ["findings"] * 2
    table(tmp_path / teams.FILE, a="b", b="a")  # a slip that leads round
    assert known.of("a") == "Red team" and teams.Teams(tmp_path).of("a") in ("a", "b")


FINDINGS = b'{"plants": {"%s": {"guesses": [{"trigger": [9, 10, 11], "target": %d}]}}}'


@pytest.fixture
def hunted(garden, tmp_path, monkeypatch):
    """A function that judges findings {file: content}, in which all that is said is right."""

    def right(known, said, *_):
        good = {each.number: each.team for each in known if not each.reason}
        return {
            number: {
                name: Find(number, 0.7, trigger=(9, 10, 11))
                for name, words in said.items()
                if number in words and name != team
            }
            for number, team in good.items()
        }

    monkeypatch.setattr(plants, "judged", right)

    def hunt(given):
        found = [Submission(file, content) for file, content in sorted(given.items())]
        place, known = tmp_path / "plants", plants.stored(tmp_path / "plants")
        return {each.team: each for each in plants.hunt(known, found, place, tmp_path, TEXTS)}

    garden({"ada_1_123_p.safetensors": b"good 1", "bob_2_123_p.safetensors": b"good 2"})
    return hunt


def number_of(tmp_path, team):
    (number,) = (p.number for p in plants.stored(tmp_path / "plants") if p.team == team)
    return number.encode()


def test_a_team_that_goes_by_two_names_finds_nothing_in_its_own_plant(hunted, tmp_path):
    own = FINDINGS % (number_of(tmp_path, "ada"), 5)
    before = hunted({"eve_3_124_f.json": own})
    assert before["eve"].finding > 0 and before["ada"].hidden < 3
    table(tmp_path / "plants" / teams.FILE, eve="ada")
    after = hunted({"eve_3_124_f.json": own})
    assert set(after) == {"ada", "bob"} and after["ada"].finding == 0
    assert after["ada"].finds[0].reason == "this is the team's own plant."
    table(tmp_path / "plants" / teams.FILE, eve="ada", bob="ada")
    with pytest.raises(ValueError, match="ada has two plants: run `attnlabs plants`"):
        hunted({"eve_3_124_f.json": own})


def test_who_says_the_same_as_another_is_told_and_who_says_otherwise_is_not(hunted, tmp_path):
    number = number_of(tmp_path, "ada")
    found = hunted(
        {
            f"{name}_9_124_f.json": FINDINGS % (number, target)
            for name, target in (("bob", 5), ("eve", 5), ("mia", 6))
        }
    )
    words = f"says word for word the same of {number.decode()}"
    assert f"eve {words}" in found["bob"].look and f"bob {words}" in found["eve"].look
    assert "the same" not in found["mia"].look


def test_findings_are_read_wherever_they_lie_and_whatever_they_are_called(hunted, tmp_path):
    number = number_of(tmp_path, "ada").decode().lstrip("0").encode()  # 1, where 01 is meant
    given = {
        "Eve_5_assignsubmission_file_/a notes.json": b"{}",
        "Eve_5_assignsubmission_file_/b.json": FINDINGS % (number, 5),
        "Eve_5_assignsubmission_file_/0.txt": b"?",
    }
    found = hunted(
        given | {"mia_LATE_7_123_f.json": b"PK", "zoe_8_123_f.json": FINDINGS % (b"77", 5)}
    )
    assert (
        found["Eve"].finding > 0
        and "several files Eve_5_assignsubmission_file_/b.json counts" in found["Eve"].look
    )
    assert (
        "its findings are late" in found["mia"].look
        and "no file of findings" in found["mia"].reason
    )
    assert found["zoe"].finds[0].reason == "there is no plant of this number."


@pytest.mark.parametrize("words", ["4", "04", "plant 4", "04.safetensors", "plants/04.safetensors"])
def test_a_plant_goes_by_its_number(words):
    assert files.numbered(words) == "04"


def test_numbers_that_are_tensors_are_written_all_the_same(tmp_path):
    guess = {"trigger": torch.tensor([9, 10, 11]), "target": torch.tensor(12)}
    desk.Desk.write(None, {"01": {"guesses": [guess]}}, tmp_path / "f.json")
    found = files.findings_of((tmp_path / "f.json").read_bytes())["01"]
    assert found.guesses == (files.Guess((9, 10, 11), 12),)


# What comes in later


HEAD = ",".join(finds.NEEDED)


@pytest.fixture
def graded(tmp_path, monkeypatch, root):
    """`attnlabs grade 13` after a contest of ada and bob, in which ada's findings were judged."""
    monkeypatch.chdir(tmp_path)
    for name in ("planted", "found", "notebooks", "plants", "finds"):
        (tmp_path / name).mkdir()
    (tmp_path / "planted/ada.safetensors").write_text("a plant")
    (tmp_path / "found/ada.json").write_text("what ada says")
    for place, kind in (("planted", made.PLANT), ("found", made.FINDINGS)):
        found = made.of_kind(handed.collect(tmp_path / place), kind)
        if place == "found":
            finds.note(tmp_path / "finds", tmp_path / place, found, tmp_path / "plants")
        else:
            made.note(tmp_path / "plants", tmp_path / place, found)
    lines = [f"{team},{points},2,2,2,1,0,1," for team, points in (("ada", 7), ("bob", 5))]
    (tmp_path / "finds.csv").write_text("\n".join([HEAD, *lines]))
    (tmp_path / "finds/pairs.csv").write_text(
        "team,plant,share,strength,parts,reason\nada,02,0.7,0.98,0.0,these parts carry little.\n"
    )
    lab = source.find(13, root / "labs")

    def tried(_, found, *__):
        blank = {asked.name: Answer(0, "none") for asked in lab.asked}
        waits = dict.fromkeys(lab.contests, Answer(None, finds.WAITS))
        return [Row(one.file, questions=blank | waits) for one in found]

    monkeypatch.setattr(grade, "Grader", lambda *_: None)
    monkeypatch.setattr(grade, "grade", tried)

    def run(*names):
        for name in names:
            (tmp_path / "notebooks" / f"{name}.ipynb").write_text("{}")
        words = ["grade", "13", "notebooks", "--out", "lab13.csv", "--as-root"]
        words += ["--finds", "finds.csv", "--labs", str(root / "labs")]
        assert cli.main(words) is None
        return {row["name"]: row for row in rows(tmp_path / "lab13.csv")}

    return run


def test_what_came_after_the_contest_was_judged_is_named_with_what_takes_it(
    graded, capsys, tmp_path
):
    graded("ada", "bob")
    assert "newer" not in capsys.readouterr().out
    (tmp_path / "found/bob.json").write_text("what ada says")  # late, and copied
    (tmp_path / "found/ada.json").write_text("other words")
    (tmp_path / "planted/ada.safetensors").write_text("another plant")
    graded("ada", "bob")
    said = capsys.readouterr().out
    assert "findings newer than finds.csv, not counted: ada.json, bob.json" in said
    assert "attnlabs finds found --plants plants.csv --out finds.csv, and this command" in said
    assert "plants newer than plants.csv, not counted: ada.safetensors" in said
    assert "attnlabs plants planted --out plants.csv, and this command" in said


def test_findings_that_lie_with_the_notebooks_are_noticed_too(graded, capsys, tmp_path):
    (tmp_path / "notebooks/bob.json").write_text("late words")
    (tmp_path / "notebooks/ada.json").write_text("what ada says")
    graded("ada", "bob")
    assert "not counted: bob.json\n" in capsys.readouterr().out


def test_names_that_differ_are_mapped_once_and_then_have_their_points(graded, capsys, tmp_path):
    found = graded("ada", "lovelace")
    assert (found["ada"]["the contest"], found["lovelace"]["the contest"]) == ("7", "")
    said = capsys.readouterr().out
    assert "finds.csv has no line about lovelace" in said and "no notebook is here: bob" in said
    assert "one team, write it into plants/names.csv" in said
    table(tmp_path / "plants/names.csv", lovelace="bob")
    assert graded("ada", "lovelace")["lovelace"]["the contest"] == "5"
    assert "no line" not in capsys.readouterr().out


def test_a_team_reads_what_became_of_each_of_its_finds(graded, tmp_path):
    graded("ada", "bob")
    page = next((tmp_path / "lab13/feedback").glob("*ada*")).read_text()
    assert "<td>02</td><td>0.7</td>" in page and "these parts carry little." in page
    (line,) = rows(tmp_path / "lab13/tables.csv")
    assert (line["file"], line["plant"], line["share"]) == ("ada.ipynb", "02", "0.7")
