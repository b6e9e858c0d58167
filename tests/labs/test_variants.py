"""Copies that differ from student to student: what is asked, what is checked and what is graded."""

import copy
import itertools
import re

import nbformat
import pytest
from corpora import CORPORA, TRAINS

from attnlabs import cli, probes, release, variants
from attnlabs.check import check_for, sentence
from attnlabs.grading import roster
from attnlabs.grading.row import Row
from attnlabs.grading.submissions import Owner, Submission

pytestmark = pytest.mark.slow

LABS = pytest.mark.parametrize("number", CORPORA)
# Lab 13's copies take a second each: all that one defines is tried as an answer
COPIES = pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.weekly] * (n == 13)) for n in CORPORA]
)
# Where each student's answers are judged by training, other tests try the copies: test_ward.py
GRADED = pytest.mark.parametrize(
    "number",
    [
        pytest.param(n, marks=[pytest.mark.weekly] * (n not in (3, 10)))
        for n in CORPORA
        if n not in TRAINS
    ],
)


def students(lab):
    """A few names that together draw every option of a lab."""
    missing = {(choice, option) for choice, options in lab.choices.items() for option in options}
    for n in itertools.count():
        drawn = set(variants.drawn(lab.number, lab.choices, f"s{n}").items())
        if drawn & missing:
            missing -= drawn
            yield f"s{n}"
        if not missing:
            return


def signed(lab, student):
    """The lab's own answers, in a notebook that says it is this student's."""
    notebook = copy.deepcopy(lab.notebook)
    release.sign(notebook, student)
    return nbformat.writes(notebook).encode()


def graded(lab):
    """The functions that are the same for all who have the same options."""
    alike = {name for name, question in lab.compared.items() if not question.own}
    return {asked.name: asked.points for asked in lab.asked if asked.name in alike}


def points(row, lab):
    return {name: row.questions[name].points for name in graded(lab)}


@LABS
def test_a_lab_has_choices_of_both_kinds(number, of):
    options = [list(options.values()) for options in of(number).lab.choices.values()]
    assert all(len(each) > 1 and not each[0].text and not each[0].flips for each in options)
    assert sum(any(option.flips for option in each) for each in options) >= 2
    assert any(not option.flips for each in options for option in each[1:])


@GRADED
def test_the_solutions_of_every_variant_are_right(number, of):
    course = of(number)
    full = graded(course.lab)
    for student in students(course.lab):
        row = course.judge(signed(course.lab.of(student), student))
        assert points(row, course.lab) == full, [q.text for q in row.questions.values()]
        assert (row.status, row.review, row.student) == ("graded", [], student)


@GRADED
def test_an_answer_to_another_variant_is_wrong_and_named(number, of):
    """Whoever hands in a friend's answers under the own name loses what was decided otherwise.

    It counts once: what only calls the function in which it was decided follows through.
    """
    course = of(number)
    full = {asked.name: asked.points for asked in course.lab.asked}
    for student in students(course.lab):
        row, mine = course.judge(signed(course.lab, student)), course.lab.of(student)
        for asked in mine.asked:
            if asked.name in graded(mine):
                question, flips = row.questions[asked.name], mine.flips(asked.name)
                followed = re.match(r"right, with a right version of (\w+)", question.text)
                if followed:
                    before = followed[1]
                    assert mine.flips(before) and row.questions[before].points < full[before]
                    assert question.points == asked.points
                    continue
                assert (question.points < asked.points) == bool(flips)
                assert set(question.mistakes) <= set(flips)
                called = re.search(r"Tried with a right version of (\w+)", question.text)
                if called:  # what was decided there has been named there
                    own = mine.flips(called[1]).values()
                    assert all(text in row.questions[called[1]].text for text in own)
                    flips = {n: t for n, t in flips.items() if not any(o in t for o in own)}
                assert all(text in question.text for text in flips.values())


@LABS
def test_the_check_knows_the_variant(number, of):
    lab = of(number).lab
    for student in students(lab):
        for name in graded(lab):
            question = lab.compared[name]
            flips = frozenset(lab.of(student).flips(name))
            function = lambda *given, of=question, wrong=flips: of.program(wrong, *given)  # noqa: E731
            assert sentence(name, function, student).startswith("right")
            if flips:
                said = "the numbers are wrong" if question.quiet else "consistent with"
                assert said in sentence(name, function)


@COPIES
def test_every_student_gets_a_copy_without_solutions(number, of):
    lab = of(number).lab
    names = list(students(lab))
    copies = [release.text(release.student_copy(lab, name)) for name in names]
    for name, copied in zip(names, copies, strict=True):
        assert f'check = check_for(\\"{name}\\")' in copied
        assert copied == release.text(release.student_copy(lab, name))
    texts = {c.replace(n, "") for c, n in zip(copies, names, strict=True)}
    assert len(texts) == len({tuple(lab.of(name).options.items()) for name in names}) > 1


def test_choices_are_drawn_alike_everywhere_and_evenly():
    choices = {"one": {"a": None, "b": None}, "two": dict.fromkeys("xyz")}
    assert variants.drawn(3, choices, "") == {"one": "a", "two": "x"}
    drawn = [variants.drawn(3, choices, f"{n}@uni") for n in range(600)]
    assert drawn == [variants.drawn(3, choices, f"{n}@uni") for n in range(600)]
    for one, two in itertools.product("ab", "xyz"):
        assert 60 < drawn.count({"one": one, "two": two}) < 140  # 100 are expected
    assert drawn != [variants.drawn(4, choices, f"{n}@uni") for n in range(600)]


def test_the_check_of_a_copy_is_the_student_s(lab, capsys):
    student = next(s for s in students(lab) if lab.of(s).flips("causal_mask"))
    check_for(student)("causal_mask", lambda a, b: probes.torch.ones(a, b).tril(b - a) > 0)
    assert "here it sees earlier ones only" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a b", "../x", 'a"b', "", "x" * 61])
def test_odd_names_are_refused_before_anything_is_written(name, tmp_path, root, capsys):
    path = tmp_path / "roster.csv"
    path.write_text(f'student,number\nada,1\n"{name}",2\n')
    words = ["release", "3", "--to", str(tmp_path), "--labs", str(root / "labs")]
    assert cli.main([*words, "--roster", str(path)]) == 1
    assert "cannot name a copy" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_a_class_gets_its_copies(tmp_path, root):
    path = tmp_path / "roster.csv"
    path.write_text("student,number\nada,1\nalan@uni.example,2\n")
    words = ["release", "3", "--to", str(tmp_path), "--labs", str(root / "labs")]
    assert not cli.main([*words, "--roster", str(path)])
    assert not cli.main([*words, "--student", "grace"])
    names = {p.name.removeprefix("03-attention-by-hand-") for p in tmp_path.glob("*.ipynb")}
    assert names == {"ada.ipynb", "alan@uni.example.ipynb", "grace.ipynb"}


def rows_of(*pairs):
    people = [Submission(file, b"") for file, _ in pairs]
    return [Row(file, student) for file, student in pairs], people


MOODLE = "X_{}_assignsubmission_file_/a.ipynb"


def test_copies_in_other_hands_are_for_a_person_to_look_at():
    people = {"ada": Owner("", "1"), "bob": Owner("", "2"), "cleo": Owner("")}
    pairs = [(MOODLE.format(1), "ada"), (MOODLE.format(2), "ada"), ("a.ipynb", "")]
    rows, files = rows_of(*pairs, ("b.ipynb", "eve"))
    assert roster.compare(rows, files, people).nothing == ["cleo"]  # bob has, though not his own
    said = [" ".join(row.review) for row in rows]
    assert "is also in" in said[0] and "handed in by 2" in said[1]
    assert "whose copy" in said[2] and "eve is not on the list" in said[3]
    assert {row.status for row in rows} == {"review"}
    rows, files = rows_of(("a.ipynb", ""), ("b.ipynb", ""))
    assert roster.compare(rows, files) == roster.Absent() and not rows[0].review


@pytest.mark.parametrize(
    "text,words",
    [
        ("name\nada\n", "has the columns name; it needs student"),
        ("", "has no columns; it needs student"),
        ("student\nada\nada\n", "line 3: ada is there already"),
        ("student,number\nada,1\n,2\n", "line 3: '' cannot name a copy"),
    ],
)
def test_a_list_that_is_none_is_refused(text, words, tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        roster.read(path)


@pytest.mark.parametrize(
    "text,encoding",
    [
        ("Student;Number;E-mail\nada;1;a@b\n;;\nörs;2;\n", "utf-8-sig"),  # a German spreadsheet
        ("student, number\r\nada, 1\r\n\r\nörs,2\r\n", "utf-8"),
        ("number\tstudent\n1\tada\n2\törs\n", "utf-8"),
    ],
)
def test_a_list_is_read_however_a_spreadsheet_saved_it(text, encoding, tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding=encoding)
    assert {who: owner.number for who, owner in roster.read(path).items()} == {
        "ada": "1",
        "örs": "2",
    }


def test_a_list_in_another_encoding_is_refused_by_name(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text("student\nJörg\n", encoding="cp1252")
    with pytest.raises(ValueError, match=r"roster\.csv is not in UTF-8"):
        roster.read(path)
