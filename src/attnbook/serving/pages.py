"""Pages: the KV cache cut into blocks of equal size, each handed out when it is needed.

A sequence has a block table, the numbers of its pages in order; two sequences that begin alike hold
the same pages. Only the bookkeeping is here, no tensor. Kwon et al. 2023 (PagedAttention), section
4; the cache of full pages by their tokens is vLLM's "automatic prefix caching".
"""

from collections import OrderedDict
from dataclasses import dataclass, field

Prefix = tuple[int, ...]


class NoPage(Exception):
    """All pages are in use."""


@dataclass(eq=False)
class Table:
    """The block table of one sequence: its pages in order, and how many positions are written."""

    pages: list[int] = field(default_factory=list)
    length: int = 0


class Pages:
    """`count` pages of `size` positions each: which are free, and who uses which.

    A full page is remembered by all tokens up to its end, since keys and values depend on them.
    When nobody uses it any more it stays until its place is needed: the page that was given back
    first goes first.
    """

    def __init__(self, count: int, size: int = 16):
        if count < 1 or size < 1:
            raise ValueError(f"there is at least 1 page of 1 position; got {count} of {size}")
        self.count, self.size = count, size
        self.users = [0] * count
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(count))
        self.known: dict[Prefix, int] = {}
        self.prefix_of: dict[int, Prefix] = {}
        self.copies: list[tuple[int, int]] = []  # (from, to), to be done before the next writing

    def begin(self, tokens: list[int]) -> Table:
        """A table whose first pages are known ones of the same beginning.

        At least one of `tokens` is left to be read: somebody has to say what comes next.
        """
        table = Table()
        while (end := table.length + self.size) < len(tokens):
            page = self.known.get(tuple(tokens[:end]))
            if page is None:
                break
            self.hold(page)
            table.pages.append(page)
            table.length = end
        return table

    def fork(self, table: Table) -> Table:
        """Another sequence with the same past: all pages are shared, the last one until it is
        written to (copy on write, section 4.4)."""
        for page in table.pages:
            self.hold(page)
        return Table(list(table.pages), table.length)

    def need(self, table: Table, new: int) -> int:
        """How many free pages `new` more positions would take."""
        more = -(-(table.length + new) // self.size) - len(table.pages)
        return more + self.writes_into_shared(table, new)

    def writes_into_shared(self, table: Table, new: int) -> bool:
        """Would the next position be written into a page that somebody else uses as well?"""
        inside = new > 0 and table.length % self.size > 0
        return inside and self.users[table.pages[table.length // self.size]] > 1

    def reserve(self, table: Table, new: int) -> None:
        """Give the table the pages for `new` more positions; NoPage, and no change, if there are
        too few. A shared page that would be written to is copied: see `copies`."""
        if self.need(table, new) > len(self.free):
            raise NoPage(f"{self.need(table, new)} pages needed, {len(self.free)} are free")
        if self.writes_into_shared(table, new):
            at = table.length // self.size
            page = self.take()
            self.copies.append((table.pages[at], page))
            self.drop(table.pages[at])
            table.pages[at] = page
        while len(table.pages) * self.size < table.length + new:
            table.pages.append(self.take())

    def wrote(self, table: Table, tokens: list[int]) -> None:
        """The positions of all `tokens` are written now: pages that are full become known."""
        for end in range(self.size, len(tokens) + 1, self.size):
            page = table.pages[end // self.size - 1]
            if end > table.length and tuple(tokens[:end]) not in self.known:
                self.known[tuple(tokens[:end])] = page
                self.prefix_of[page] = tuple(tokens[:end])
        table.length = len(tokens)

    def release(self, table: Table) -> None:
        """The sequence has ended: its pages are free, the last one first."""
        for page in reversed(table.pages):
            self.drop(page)
        table.pages, table.length = [], 0

    def take(self) -> int:
        """A free page; what it held is forgotten."""
        page, _ = self.free.popitem(last=False)
        self.known.pop(self.prefix_of.pop(page, ()), None)
        self.users[page] = 1
        return page

    def hold(self, page: int) -> None:
        """One more sequence uses the page."""
        self.free.pop(page, None)
        self.users[page] += 1

    def drop(self, page: int) -> None:
        """One sequence less uses the page."""
        self.users[page] -= 1
        if not self.users[page]:
            self.free[page] = None

    @property
    def used(self) -> int:
        """How many pages some sequence uses."""
        return self.count - len(self.free)
