"""`python -m bookkit`: the stored runs, and one of them made again."""

import sys

from attnbook.shell import Parser, run
from bookkit.results.ledger import cli as ledger


def main(words: list[str] | None = None) -> int | None:
    """Run one command; what is wrong with its arguments is said in one line."""
    top = Parser(prog="python -m bookkit", description=__doc__)
    ledger.add(top.add_subparsers(required=True))
    return run(top, words)


if __name__ == "__main__":
    sys.exit(main())
