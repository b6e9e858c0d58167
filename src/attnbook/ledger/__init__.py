"""The stored runs of a checkout: which there are, which are stale, and one of them made again."""

from attnbook.ledger.compare import Comparison, compare
from attnbook.ledger.records import Record, checkout, named, records
from attnbook.ledger.rerun import rerun
from attnbook.ledger.stale import changed, dependencies

__all__ = [
    "Comparison",
    "Record",
    "changed",
    "checkout",
    "compare",
    "dependencies",
    "named",
    "records",
    "rerun",
]
