"""Serving: which request has which slot in a batch, and which page of the cache is whose."""

from collections.abc import Sequence

from attnbook.serving.pages import Pages, Table
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point

ROLES = ("query", "key", "value", "query", "key", "value")
Row = list[int | None]


def one_by_one(lengths: Sequence[int], slots: int) -> list[Row]:
    """Who has which slot in each step if a batch ends when its longest request does."""
    rows: list[Row] = [[] for _ in range(slots)]
    for first in range(0, len(lengths), slots):
        batch = range(first, min(first + slots, len(lengths)))
        longest = max(lengths[i] for i in batch)
        for slot, row in enumerate(rows):
            i = first + slot
            mine = lengths[i] if i in batch else 0
            row += [i] * mine + [None] * (longest - mine)
    return rows


def changing(lengths: Sequence[int], slots: int) -> list[Row]:
    """The same if whoever waits takes a slot as soon as it is free."""
    rows: list[Row] = [[] for _ in range(slots)]
    for i, length in enumerate(lengths):
        row = min(rows, key=len)
        row += [i] * length
    longest = max(map(len, rows))
    return [row + [None] * (longest - len(row)) for row in rows]


def two_batches(lengths: Sequence[int] = (7, 2, 3, 5, 2, 4), slots: int = 3) -> Drawing:
    """Static against continuous batching. Yu et al. 2022 (Orca), section 3.1."""
    if not 2 <= slots <= 4 or not slots < len(lengths) <= 6 or not 1 <= min(lengths):
        raise ValueError(
            f"2 to 4 slots and up to 6 requests of 1 token or more, more than slots, fit; got "
            f"{slots} and {list(lengths)}"
        )
    tables = one_by_one(lengths, slots), changing(lengths, slots)
    steps = [len(table[0]) for table in tables]
    if steps[0] > 13:
        raise ValueError(f"13 steps fit; got {steps[0]}")
    names = "ABCDEF"[: len(lengths)]
    told = ", ".join(f"{name} {n}" for name, n in zip(names, lengths, strict=True))
    idle = [sum(one is None for row in table for one in row) for table in tables]
    desc = (
        f"{len(lengths)} requests that write {told} tokens, in a batch with {slots} slots; a "
        f"column is a step. Above, a new batch begins when all of the last one have ended: "
        f"{steps[0]} steps, {idle[0]} slots stand empty (hatched). Below, whoever waits takes the "
        f"slot that is free: {steps[1]} steps, {idle[1]} empty."
    )
    pens = Pen(720, 100 + 64 * slots), Pen(360, 100 + 56 * slots)
    for pen, cell, left in ((pens[0], (42, 30), 130), (pens[1], (25, 26), 22)):
        y = 0.0
        for name, title, table in zip(("static", "continuous"), TITLES, tables, strict=True):
            schedule(pen, (left, y), cell, title, table)
            pen.tables[name] = [["·" if i is None else names[i] for i in row] for row in table]
            y += 50 + slots * (cell[1] + 2)
    return Drawing(*pens, "A batch that ends together, and one that changes", desc)


TITLES = ("static: all wait for the longest", "continuous: no slot waits")


def schedule(pen: Pen, corner: Point, cell: Point, title: str, table: list[Row]) -> None:
    """Slots down, steps to the right."""
    (x, y), (width, height) = corner, cell
    pen.text(x, y + 20, f"{title}, {len(table[0])} steps", "s b l")
    for n, row in enumerate(table):
        top = y + 32 + n * (height + 2)
        if pen.width > 500:
            pen.text(x - 12, top + height / 2 + 5, f"slot {n + 1}", "s muted f e")
        for step, i in enumerate(row):
            at = x + step * width
            if i is None:
                pen.hatch(at + 1, top, (width - 2, height))
            else:
                with pen.group(ROLES[i]):  # the first three dark, those that wait pale
                    pen.cell(at + 1, top, (width - 2, height), "ABCDEF"[i], 0.9 if i < 3 else 0.3)


TEXTS = (
    "You are the king . What is your name ?",
    "You are the king . What is your wish now ?",
)


def shared_pages(texts: Sequence[str] = TEXTS, size: int = 4, count: int = 6) -> Drawing:
    """Block tables of two sequences that begin alike, and the pages they name.

    Kwon et al. 2023, figures 6 and 8.
    """
    rows = [text.split() for text in texts]
    if len(rows) != 2 or max(map(len, rows)) > 12 or not 2 <= size <= 5 or count > 8:
        raise ValueError(
            f"2 texts of up to 12 words, pages of 2 to 5 and up to 8 of them fit; got {len(rows)} "
            f"texts, pages of {size}, {count} of them"
        )
    words = sorted({word for row in rows for word in row})
    pages, tables = Pages(count, size), []
    for row in rows:
        tokens = [words.index(word) for word in row]
        table = pages.begin(tokens)
        pages.reserve(table, len(tokens) - table.length)
        pages.wrote(table, tokens)
        tables.append(table)
    content = held(rows, tables, size, count)
    both = sorted(set(tables[0].pages) & set(tables[1].pages))
    desc = (
        f"Two sequences, {texts[0]!r} and {texts[1]!r}, in pages of {size} tokens. Their block "
        f"tables name the pages {listed(tables[0].pages)} and {listed(tables[1].pages)}. The pages "
        f"{listed(both)} stand in both tables: the texts begin alike, so their keys and values are "
        f"stored once. {pages.used} of {count} pages are used; only the last page of each sequence "
        "can have empty slots."
    )
    wide, tall = Pen(720, 44 + 40 * count), Pen(360, 138 + 40 * count)
    memory(wide, (330, 34), (88, 32), content, tables)
    memory(tall, (26, 128), (82, 32), content, tables)
    for n, table in enumerate(tables):
        block_table(wide, (30, 58 + 100 * n), "AB"[n], table)
        block_table(tall, (16, 22 + 46 * n), "AB"[n], table)
    for pen in (wide, tall):
        pen.tables["blocks"] = [[str(page + 1) for page in table.pages] for table in tables]
    return Drawing(wide, tall, "Two sequences in pages, the first two of them shared", desc)


def listed(pages: Sequence[int]) -> str:
    """Numbers of pages, from 1 on."""
    return ", ".join(str(page + 1) for page in pages)


def held(
    rows: Sequence[list[str]], tables: Sequence[Table], size: int, count: int
) -> list[list[str]]:
    """The words in each page; "" where nothing is written."""
    content = [[""] * size for _ in range(count)]
    for row, table in zip(rows, tables, strict=True):
        for at, word in enumerate(row):
            content[table.pages[at // size]][at % size] = word
    return content


def block_table(pen: Pen, corner: Point, name: str, table: Table) -> None:
    """The numbers of a sequence's pages, in order."""
    x, y = corner
    if pen.width > 500:
        pen.text(x, y - 12, f"block table of {name}", "s l")
    else:
        pen.text(x, y + 21, f"table of {name}", "s l")
        x += 76
    for n, page in enumerate(table.pages):
        pen.box(x + 44 * n, y, (38, 32), f"{owner(name)} t", 4)
        pen.text(x + 44 * n + 19, y + 21, str(page + 1), "s b")


def owner(names: str) -> str:
    """The role of what belongs to one sequence, or to both."""
    return {"A": "key", "B": "query", "AB": "output"}.get(names, "muted")


def memory(
    pen: Pen, corner: Point, cell: Point, content: list[list[str]], tables: Sequence[Table]
) -> None:
    """The pages, one below the other, in the colours of those who hold them."""
    (x, y), (width, height) = corner, cell
    pen.text(x, y - 12, "keys and values in memory, for these words", "s l")
    for page, row in enumerate(content):
        top = y + page * (height + 8)
        pen.text(x - 10, top + 21, str(page + 1), "s muted f e")
        names = "".join("AB"[n] for n, table in enumerate(tables) if page in table.pages)
        for n, word in enumerate(row):
            at = x + n * width
            look = f"{owner(names)} t" if word else "box"
            pen.box(at, top, (width - 3, height), look, 3)
            if word:
                pen.text(at + (width - 3) / 2, top + 21, word, "s")
        if names == "AB" and pen.width > 500:
            pen.text(x - 34, top + 21, "shared", "output f s e")
