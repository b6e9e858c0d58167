"""What the commands of a shell share: errors in one line, an exit status."""

import argparse
import sys
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def run(parser: argparse.ArgumentParser, words: list[str] | None = None) -> int | None:
    """Parse `words` (the command line unless given), call what was chosen, return its status.

    A ValueError or OSError is printed in one line (status 1); Ctrl-C gives 130.
    """
    options = parser.parse_args(words)
    try:
        return options.run(options)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{parser.prog}: stopped; the same command goes on where it was", file=sys.stderr)
        return 130
