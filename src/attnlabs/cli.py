"""The command `attnlabs`: labs for students, grades for lecturers."""

# Each command imports what it needs: torch takes seconds, and `--help` has no use for it.

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnbook.shell import Parser, run


def main(words: list[str] | None = None) -> int | None:
    """Run one command; what is wrong with its arguments is said in one line."""
    return run(parser(), words)


def parser() -> Parser:
    """All commands, as `attnlabs --help` lists them."""
    top = Parser(prog="attnlabs", description=__doc__)
    commands = top.add_subparsers(required=True)
    one = command(commands, "release", run_release, "write the student's copy, without solutions")
    one.add_argument(
        "--to", type=Path, required=True, help="the folder for it, or a new .ipynb file"
    )
    whose = one.add_mutually_exclusive_group()
    whose.add_argument("--student", default="", help="make it for one student: other numbers")
    whose.add_argument("--roster", type=Path, help="a copy for each in this table (CSV)")
    one = command(commands, "grade", run_grade, "grade a folder or zip of submissions")
    one.add_argument("submissions", type=Path, help="a folder, a zip, or one notebook")
    one.add_argument("--out", type=Path, default="grades.csv", help="the table of grades")
    one.add_argument("--roster", type=Path, help="the table (CSV) of those who got copies")
    one.add_argument("--workers", type=count, help="submissions at a time; as many as processors")
    help = "per cent of the points that each day late costs; without it nothing"
    one.add_argument("--late", type=percent, default=0, help=help)
    help = "lab 8: the table of its leaderboard, which has the points of that question"
    one.add_argument("--leaderboard", type=Path, help=help)
    help = "lab 13: the table of points that `attnlabs finds` has written"
    one.add_argument("--finds", type=Path, help=help)
    one.add_argument("--as-root", action="store_true", help="even if students' code runs as root")
    one = command(commands, "gradescope", run_gradescope, "write an autograder for Gradescope")
    help = "the zip that is uploaded to Gradescope, or a folder for it"
    one.add_argument("--to", type=Path, default="autograder.zip", help=help)
    one.add_argument("--pip", default="", help="more arguments for pip, as an index without CUDA")
    help = "write a source notebook for nbgrader, with solutions"
    one = command(commands, "nbgrader", run_nbgrader, help)
    one.add_argument(
        "--to", type=Path, required=True, help="the folder source/ of the nbgrader course"
    )
    contests(commands)
    help = "store what the students' checks compare with"
    command(commands, "probes", run_probes, help, str, "number of the lab, or: chapters")
    return top


def contests(commands: Any) -> None:
    """The commands of the contests of labs 8 and 13."""
    help = "train the projects of lab 8 and rank them by nats per byte"
    one = contest(commands, "leaderboard", run_leaderboard, help, "notebooks")
    one.add_argument("--minutes", type=minutes, default=2.0, help="of processor time, each")
    help = "python-docs, shakespeare, or a file, whose last tenth is held out"
    one.add_argument("--text", default="shakespeare", help=help)
    help = "a file nobody has seen, instead of the last tenth of the text"
    one.add_argument("--held-out", type=Path, help=help)
    one.add_argument("--workers", type=int, help="projects at a time; as many as processors")
    one.add_argument("--labs", type=Path, default="labs", help="folder with the labs' sources")
    one.add_argument("--no-levels", action="store_true", help="without the three references")
    one.add_argument("--without-walls", action="store_true", help="even if nothing keeps code in")
    unseen = "a text nobody has seen, instead of the held-out part of Python's documentation"
    help = "lab 13: measure the models in which teams have hidden a backdoor, and number them"
    one = contest(commands, "plants", run_plants, help, "safetensors files")
    one.add_argument("--held-out", type=Path, help=unseen)
    exchange = "count what a team hands in now, not the plant that was given out before"
    one.add_argument("--exchange", action="store_true", help=exchange)
    help = "lab 13: judge what teams have found in the others' models, and add up all points"
    one = contest(commands, "finds", run_finds, help, "JSON files")
    one.add_argument("--plants", type=Path, default="plants.csv", help="the table of plants")
    one.add_argument("--held-out", type=Path, help=unseen)


def contest(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], help: str, files: str
) -> argparse.ArgumentParser:
    """A command about what was handed in for a contest."""
    parser = commands.add_parser(name, help=help, description=help)
    parser.add_argument("submissions", type=Path, help=f"a folder or zip of {files}")
    parser.add_argument("--out", type=Path, default=f"{name}.csv", help="the table")
    parser.set_defaults(run=run)
    return parser


def command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help: str,
    kind: type = int,
    what: str = "number of the lab",
) -> argparse.ArgumentParser:
    """A command about one lab, which is its first argument."""
    parser = commands.add_parser(name, help=help, description=help)
    parser.add_argument("lab", type=kind, help=what)
    parser.add_argument("--labs", type=Path, default="labs", help="folder with the labs' sources")
    parser.set_defaults(run=run)
    return parser


def count(word: str) -> int:
    """A whole number from 1 on."""
    if not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f"{word!r} is not a number from 1 on")
    return int(word)


def percent(word: str) -> int:
    """A whole number from 0 to 100."""
    if not word.isdecimal() or int(word) > 100:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of per cent from 0 to 100")
    return int(word)


def minutes(word: str) -> float:
    """A number above 0."""
    try:
        found = float(word)
    except ValueError:
        found = 0.0
    if not 0 < found <= 600:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of minutes from 0 to 600")
    return found


def run_release(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from attnlabs import release, source
    from attnlabs.grading import roster

    lab = source.find(options.lab, options.labs)
    people = roster.read(options.roster) if options.roster else None
    a_file = options.to.suffix == ".ipynb"
    if a_file and people is not None:
        raise ValueError(f"{options.to} is no folder; the copies for a class need one")
    (options.to.parent if a_file else options.to).mkdir(parents=True, exist_ok=True)
    if people is None:
        print(release.write(lab, options.to, options.student))
        return
    for student in tqdm(people, unit="copy"):
        release.write(lab, options.to, student)
    print(f"{len(people)} copies in {options.to}")


def run_grade(options: argparse.Namespace) -> None:
    from attnlabs.grading import command

    command.run(options)


def run_leaderboard(options: argparse.Namespace) -> None:
    from attnlabs import leaderboard

    leaderboard.run(options)


def run_plants(options: argparse.Namespace) -> None:
    from attnlabs import plants

    plants.run_plants(options)


def run_finds(options: argparse.Namespace) -> None:
    from attnlabs import plants

    plants.run_finds(options)


def run_gradescope(options: argparse.Namespace) -> None:
    from attnlabs import gradescope, source

    lab, to = source.find(options.lab, options.labs), options.to
    if to.is_dir():
        to /= "autograder.zip"
    elif to.suffix != ".zip":
        to = to.with_name(f"{to.name}.zip")  # Gradescope takes nothing else
    to.parent.mkdir(parents=True, exist_ok=True)
    print(gradescope.write(lab, to, options.pip))


def run_nbgrader(options: argparse.Namespace) -> None:
    from attnlabs import nbgrader, source

    print(nbgrader.write(source.find(options.lab, options.labs), options.to))


def run_probes(options: argparse.Namespace) -> None:
    from attnlabs import probes, source

    if options.lab == "chapters":
        exercises = source.module(options.labs / "chapters.py").QUESTIONS
        print(probes.store(probes.FOLDER / "chapters.probes.gz", "chapters", exercises, {}))
    elif options.lab.isdigit():
        lab = source.find(int(options.lab), options.labs)
        path = probes.FOLDER / f"lab{lab.number:02}.probes.gz"
        print(probes.store(path, lab.number, lab.compared, lab.choices))
    else:
        raise ValueError(f"{options.lab!r} is neither the number of a lab nor: chapters")
