"""The command `attnbook`. Each part of the module adds what can be done with it."""

import argparse
import sys

from attnbook.labs import cli as labs


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
    top = argparse.ArgumentParser(prog="attnbook", description=__doc__)
    labs.add(top.add_subparsers(required=True))
    return top
