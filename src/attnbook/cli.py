"""The command `attnbook`. Each part of the module adds what can be done with it."""

import argparse
import sys
from typing import NoReturn

from attnbook.labs import cli as labs
from attnbook.ledger import cli as ledger
from attnbook.planner import cli as planner
from attnbook.serving import cli as serving
from attnbook.trainer import cli as trainer


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(words: list[str] | None = None) -> int | None:
    """Run one command; what is wrong with its arguments is said in one line."""
    options = parser().parse_args(words)
    try:
        return options.run(options)
    except (ValueError, OSError) as error:
        print(f"attnbook: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("attnbook: stopped; the same command goes on where it was", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """All commands, as `attnbook --help` lists them."""
    top = Parser(prog="attnbook", description=__doc__)
    parts = top.add_subparsers(required=True)
    labs.add(parts)
    trainer.add(parts)
    planner.add(parts)
    serving.add(parts)
    ledger.add(parts)
    return top
