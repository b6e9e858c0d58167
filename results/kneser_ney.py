"""Chapter 7's n-grams with the smoothing that is usual for them: how strong can counting be?

    python results/kneser_ney.py      # half a minute on one core

Modified Kneser–Ney smoothing (Chen & Goodman 1999) of the characters of python-docs and of tiny
Shakespeare: strings of 5, 6 and 8 characters, counted in the text that the models are trained on. A
count is lowered by one of three discounts, estimated from how many strings occur once to four
times; what is taken away goes to the shorter string, which counts the different characters before
it instead of its occurrences. Stored: bits for a character of the held-out part, which is a byte;
once with all that stands before it, and once in windows of 64 with nothing before them, as the
models read. Nothing is drawn or tuned.
"""

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from attnbook import device
from attnbook.data import text
from attnbook.provenance import provenance, write

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "kneser_ney.json"
LONGEST = (5, 6, 8)
WINDOW = 64  # predictions, as `held_out_bits` of chapter 7 and `text.consecutive` cut the text


class Order(NamedTuple):
    """Strings of one length; `total` and `spare` are of what stands before the last character."""

    counts: Counter[str]
    discounts: list[float]  # of strings that are counted 0, 1, 2, and 3 times or more
    total: Counter[str]
    spare: dict[str, float]  # what the discounts take away


def order(counts: Counter[str]) -> Order:
    often = Counter(min(times, 5) for times in counts.values())
    share = often[1] / max(1, often[1] + 2 * often[2])
    discounts = [0.0]
    for k in (1, 2, 3):
        found = k - (k + 1) * share * often[k + 1] / often[k] if often[k] else k / 2
        discounts.append(min(max(found, 0.0), k))
    total: Counter[str] = Counter()
    spare: dict[str, float] = defaultdict(float)
    for gram, times in counts.items():
        total[gram[:-1]] += times
        spare[gram[:-1]] += discounts[min(times, 3)]
    return Order(counts, discounts, total, spare)


def counted(known: str, longest: int) -> list[Order]:
    """Strings of 1 to `longest` characters, shortest first."""
    counts = Counter(known[i : i + longest] for i in range(len(known) - longest + 1))
    orders = []
    for _ in range(longest):
        orders.append(order(counts))
        counts = Counter(gram[1:] for gram in counts)  # each different string once
    return orders[::-1]


def probability(gram: str, orders: list[Order], alphabet: int) -> float:
    """Of the last character of `gram`, behind the others."""
    p = 1 / alphabet
    for n, (counts, discounts, total, spare) in enumerate(orders[: len(gram)], start=1):
        part = gram[-n:]
        if not total[part[:-1]]:
            break
        times = counts[part]
        kept = times - discounts[min(times, 3)]
        p = (kept + spare[part[:-1]] * p) / total[part[:-1]]
    return p


def bits(new: str, orders: list[Order], alphabet: int) -> float:
    """A mean over the characters of `new`."""
    n = len(orders)
    grams = (new[max(0, i - n + 1) : i + 1] for i in range(len(new)))
    return -sum(math.log2(probability(gram, orders, alphabet)) for gram in grams) / len(new)


def bits_in_windows(new: str, orders: list[Order], alphabet: int) -> float:
    """The same mean in windows of 64 characters after a first one, each with nothing before it."""
    n = len(orders)
    starts = range(0, len(new) - WINDOW, WINDOW)
    windows = [new[start : start + WINDOW + 1] for start in starts]
    grams = (part[max(0, i - n + 1) : i + 1] for part in windows for i in range(1, WINDOW + 1))
    lost = -sum(math.log2(probability(gram, orders, alphabet)) for gram in grams)
    return lost / (WINDOW * len(windows))


def main() -> None:
    found: dict[str, dict[str, float]] = {}
    for key, corpus in (("", "python-docs"), ("shakespeare ", "shakespeare")):
        part = text.load(corpus)
        for longest in LONGEST:
            orders = counted(part.train, longest)
            for measure, name in ((bits, "bits"), (bits_in_windows, "in windows")):
                loss = round(measure(part.validation, orders, len(part.characters)), 4)
                found.setdefault(key + name, {})[str(longest)] = loss
                print(corpus, longest, name, loss, flush=True)
    write(STORE, {**found, "provenance": provenance(device.choose())})


if __name__ == "__main__":
    main()
