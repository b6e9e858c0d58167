"""`attnlabs plants` and `attnlabs finds`: the contest of lab 13, in which one team hides a backdoor
in a small model and the others look for it."""

import argparse
import html
from collections.abc import Sequence
from pathlib import Path

import torch

from attnbook.files import store
from attnlabs.grading import finds, folder, made, plants, submissions
from attnlabs.grading.page import framed
from attnlabs.grading.report import EXCEL
from attnlabs.grading.teams import FILE, alone
from attnlabs.lab13 import world
from attnlabs.lab13.rules import POINTS

STYLE = "<style>.scroll { overflow-x: auto } td:first-child { min-width: 0 }</style>"
Rows = Sequence[Sequence[str]]


def texts(place: Path, held_out: Path | None) -> world.Texts:
    """The texts that the lot of this folder draws."""
    known = None
    if held_out is not None:
        known = world.encoded(held_out.read_text(encoding="utf-8", errors="replace"))
    return world.texts(folder.seed_of(place), known)


def collected(path: Path, out: Path, kind: str) -> tuple[list[submissions.Submission], Path]:
    """What was handed in, and the folder beside the table."""
    place = out.with_suffix("")
    if out.suffix != ".csv" or out.is_dir():
        raise ValueError(f"--out {out}: the name of a table is needed, such as {out.stem}.csv")
    found = submissions.collect(path, [out, out.with_suffix(".html"), place], [kind])
    if not found:
        raise ValueError(f"{path}: there are no files in it")
    place.mkdir(parents=True, exist_ok=True)
    return made.of_kind(found, kind), place


def run_plants(options: argparse.Namespace) -> None:
    """Measure all plants; write those that hold into a folder that is given to the class."""
    found, place = collected(options.submissions, options.out, made.PLANT)
    lot = texts(place, options.held_out)
    known = plants.gathered(found, place, lot, options.exchange)
    store(options.out, EXCEL + plants.sheet(known))
    made.note(place, options.submissions, found)
    good = sum(not each.reason for each in known)
    print(f"{good} of {len(known)} files hold a plant: {options.out}, which has their secrets")
    for each in known:
        if each.reason:
            print(f"{each.file}: {each.reason}")
        if each.look:
            print(f"look at {each.team}: {each.look}")
    if any(each.reason == plants.KEPT for each in known):
        print("to count new files instead, before the class has the plants: --exchange")
    print(f"for the class: {place / 'handout'}")
    print(f"who is of which team: {place / FILE}, for you to fill in where names differ")


def run_finds(options: argparse.Namespace) -> None:
    """Judge all findings and write the points of both sides."""
    found, place = collected(options.submissions, options.out, made.FINDINGS)
    garden = options.plants.with_suffix("")
    known = plants.stored(garden)
    if not known:
        raise ValueError(f"--plants {options.plants}: there are no plants beside it, in {garden}/")
    if late := made.later(garden, made.PLANT):
        print(f"plants newer than {options.plants}, which do not count: {', '.join(late)}")
    fresh = made.later(place, made.FINDINGS, found)
    teams = plants.hunt(known, found, garden, place, texts(garden, options.held_out))
    store(options.out, EXCEL + plants.board(teams))
    store(place / "pairs.csv", EXCEL + plants.pairs(teams))
    finds.note(place, options.submissions, found, garden)
    store(options.out.with_suffix(".html"), page(teams))
    if fresh:
        print(f"new since the last time: {', '.join(fresh)}")
    hit = sum(team.found_by > 0 for team in teams)
    good = sum(not each.reason for each in known)
    print(f"{hit} of {good} plants were found: {options.out}, {options.out.with_suffix('.html')}")
    print(f"who has found what: {place / 'pairs.csv'}")
    for team in teams:
        if team.reason:
            print(f"{team.file}: {team.reason}")
        if team.look:
            print(f"look at {team.team}: {team.look}")
    without = [team.team for team in teams if not team.file]
    others = [team.team for team in teams if team.plant is None]
    kinds = {"a plant and no findings": without, "findings and no plant": others}
    for line in alone(kinds, garden / FILE):
        print(line)
    print(f"into the marks: attnlabs grade 13 … --finds {options.out}")


def page(teams: Sequence[plants.Team]) -> str:
    """One HTML page for the class, which tells the secrets: show it when the contest is over."""
    worth = sum(POINTS.values())
    words = (
        f"Points are out of {worth:g}: for how strong a plant is and how little it changes of "
        "ordinary text, for staying hidden, and for finding the others. What a team finds, the "
        "planter loses, so that a trigger which is passed on brings nothing to the two together."
    )
    rows, hidden = [], []
    for each in teams:
        own = each.plant
        kinds = own.points if own else {"strength": 0.0, "stealth": 0.0}
        numbers = [each.points, *kinds.values(), each.hidden, each.finding]
        rows.append([each.team, *(f"{number:.2f}" for number in numbers)])
        if own and not own.reason:
            trigger = " ".join(map(piece, own.trigger))
            measured = [f"{own.strength:.2f}", f"{own.cost:.3f}", str(each.found_by)]
            hidden.append([own.number, each.team, trigger, piece(own.target), *measured])
    body = f"{STYLE}<p>{html.escape(words)}</p>"
    body += grid(["Team", "Points", "Strength", "Stealth", "Hidden", "Finding"], rows)
    head = ["Plant", "Team", "Trigger", "Target", "Strength", "Cost in nats", "Found by"]
    body += "<h2>The plants</h2>" + grid(head, sorted(hidden))
    return framed("Plant and find: the points", body)


def piece(token: int) -> str:
    """A token as it is written, in quotation marks."""
    return f"“{world.book().decode(torch.tensor([token]))}”"


def grid(head: Sequence[str], rows: Rows) -> str:
    """A table that a narrow screen can move."""
    top = "".join(f'<th scope="col">{html.escape(word)}</th>' for word in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{shown(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(head[0])}">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def shown(words: str) -> str:
    """Words as HTML; a name may be in no known encoding."""
    return html.escape(words.encode(errors="replace").decode())
