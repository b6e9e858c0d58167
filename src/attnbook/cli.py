"""The command `attnbook`: train a language model, write with it, plan a run."""

from attnbook.planner import cli as planner
from attnbook.shell import Parser, run
from attnbook.train.cli import cli as trainer


def main(words: list[str] | None = None) -> int | None:
    """Run one command; what is wrong with its arguments is said in one line."""
    return run(parser(), words)


def parser() -> Parser:
    """All commands, as `attnbook --help` lists them."""
    top = Parser(prog="attnbook", description=__doc__)
    parts = top.add_subparsers(required=True)
    trainer.add(parts)
    planner.add(parts)
    return top
