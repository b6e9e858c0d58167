"""The command `attnbook`: labs for students, grades for lecturers."""

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from attnbook.labs import (
    grade,
    gradescope,
    nbgrader,
    probes,
    release,
    report,
    roster,
    sandbox,
    source,
    submissions,
)

NO_WALLS = (
    "attnbook: bubblewrap (bwrap) is not installed or does not work here: students' code runs with "
    "limits, but it can reach the network and read files. Install the package bubblewrap, or grade "
    "on a machine where that does no harm."
)


def main(words=None):
    """Run one command; what is wrong with its arguments is said in one line."""
    options = parser().parse_args(words)
    try:
        return options.run(options)
    except (ValueError, OSError) as error:
        print(f"attnbook: {error}", file=sys.stderr)
        return 1


def parser():
    top = argparse.ArgumentParser(prog="attnbook", description=__doc__)
    labs = top.add_subparsers(required=True).add_parser("labs", help="labs and their grading")
    commands = labs.add_subparsers(required=True)

    def command(name, run, help):
        one = commands.add_parser(name, help=help, description=help)
        one.add_argument("lab", type=int, help="number of the lab")
        one.add_argument("--labs", type=Path, default="labs", help="folder with the labs' sources")
        one.set_defaults(run=run)
        return one

    one = command("release", run_release, "write the student's copy, without solutions")
    one.add_argument("--to", type=Path, required=True, help="a folder or the new file")
    whose = one.add_mutually_exclusive_group()
    whose.add_argument("--student", default="", help="make it for one student: other numbers")
    whose.add_argument("--roster", type=Path, help="a copy for each in this table (CSV)")
    one = command("grade", run_grade, "grade a folder or zip of submissions")
    one.add_argument("submissions", type=Path)
    one.add_argument("--out", type=Path, default="grades.csv", help="the table of grades")
    one.add_argument("--roster", type=Path, help="the table (CSV) of those who got copies")
    one.add_argument("--workers", type=int, help="submissions at a time; as many as processors")
    one = command("gradescope", run_gradescope, "write an autograder for Gradescope")
    one.add_argument("--to", type=Path, default="autograder.zip")
    one.add_argument("--pip", default="", help="more arguments for pip, as an index without CUDA")
    one = command("nbgrader", run_nbgrader, "write a source notebook for nbgrader, with solutions")
    one.add_argument("--to", type=Path, required=True, help="the course's folder source/")
    one = commands.add_parser("probes", help="store what the students' checks compare with")
    one.add_argument("lab", help="number of the lab, or: chapters")
    one.add_argument("--labs", type=Path, default="labs", help="folder with the labs' sources")
    one.set_defaults(run=run_probes)
    return top


def run_release(options):
    lab = source.find(options.lab, options.labs)
    if not options.roster:
        print(release.write(lab, options.to, options.student))
        return
    if not options.to.is_dir():
        raise ValueError(f"{options.to} is no folder; the copies for a class need one")
    people = roster.read(options.roster)
    for student in tqdm(people, unit="copy"):
        release.write(lab, options.to, student)
    print(f"{len(people)} copies in {options.to}")


def run_grade(options):
    lab = source.find(options.lab, options.labs)
    found = submissions.collect(options.submissions)
    if not found:
        raise ValueError(f"{options.submissions}: there are no files in it")
    people = roster.read(options.roster) if options.roster else None
    program = sandbox.walls()
    if program is None:
        print(NO_WALLS, file=sys.stderr)
    folder = options.out.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    grader = grade.Grader(lab, grade.seed_of(folder), program)
    rows = grade.grade(grader, found, folder, options.workers)
    missing = roster.compare(rows, found, people)
    report.write(lab, found, rows, options.out, missing)
    print(f"{len(rows)} rows in {options.out}; feedback, summary and other tables in {folder}/")
    look = sum(row["status"] != "graded" for row in rows)
    if look:
        print(f"{look} of them deserve a look: see the columns status, reason and review")
    if missing:
        print(f"{len(missing)} on the list handed in nothing: {', '.join(missing)}")


def run_gradescope(options):
    lab = source.find(options.lab, options.labs)
    print(gradescope.write(lab, options.to, options.pip))


def run_nbgrader(options):
    print(nbgrader.write(source.find(options.lab, options.labs), options.to))


def run_probes(options):
    if options.lab == "chapters":
        exercises = source.module(options.labs / "chapters.py").QUESTIONS
        print(probes.store(probes.FOLDER / "chapters.probes.gz", "chapters", exercises, {}))
    elif options.lab.isdigit():
        print(probes.write(source.find(options.lab, options.labs)))
    else:
        raise ValueError(f"{options.lab!r} is neither the number of a lab nor: chapters")
