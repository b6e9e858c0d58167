"""Language models: what one pass is asked, how tokens grow, how a draft is checked."""

from collections.abc import Sequence
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor

from attnbook.masks import causal_mask
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.parts import looks
from bookkit.drawings.pen import Length, Pen, Point, printed

ROW = 26


def next_token(words: Sequence[str], losses: Sequence[float]) -> Drawing:
    """One pass over all words but the last; each position has to say the next one.

    `losses` are in nats, one for each word after the first. Radford et al. 2018, section 3.1.
    """
    if not 3 <= len(words) <= 7 or len(losses) != len(words) - 1:
        raise ValueError(
            f"3 to 7 words and a loss for each but the first fit; got {len(words)} words and "
            f"{len(losses)} losses"
        )
    mean = sum(losses) / len(losses)
    asked = ", ".join(
        f"after {word} the word {after} ({printed(loss)})"
        for (word, after), loss in zip(pairwise(words), losses, strict=True)
    )
    desc = (
        f"A row of words, {' '.join(words[:-1])}, is read in one pass. Lines lead up from each "
        "word to its own position and to all later ones, never to an earlier one. Every position "
        f"has to say the next word, and has a loss for it in nats: {asked}. The mean of the "
        f"{len(losses)} losses, {printed(mean)}, is what training makes smaller."
    )
    wide, tall = Pen(720, 252), Pen(360, 252)
    for pen, left in ((wide, 130), (tall, 82)):
        step = (pen.width - left) / (len(words) - 1)
        at: list[Length] = [left + step * n for n in range(len(words) - 1)]
        for words_of_row, y in (("loss", 20), ("says", 50), ("reads", 212)):
            pen.text(4, y, words_of_row, "s l")
        for x, word, after, loss in zip(at, words[:-1], words[1:], losses, strict=True):
            pen.text(x, 20, printed(loss), "gradient f s")
            pen.text(x, 50, after, "output f b")
            pen.line([(x, 96), (x, 60)], "output k")
            pen.text(x, 212, word, "b")
        mask = causal_mask(len(at))
        looks(pen, [(x, 190) for x in at], [(x, 100) for x in at], mask)
        pen.text(pen.width / 2, 244, f"mean loss {printed(mean)} nats", "gradient f s b")
    return Drawing(wide, tall, "One pass, an exercise at every position", desc)


def bpe(words: Sequence[str], merges: Sequence[tuple[str, str]]) -> Drawing:
    """Words as rows of symbols: at first, after two merges, after all; and the list of merges.

    Counts of the pairs are of these words. Sennrich et al. 2016, section 3.2.
    """
    if not 1 <= len(words) <= 10 or not 2 < len(merges) <= 8 or max(map(len, words)) > 7:
        raise ValueError(
            f"up to 10 words of 7 letters and 3 to 8 merges fit; got {len(words)} words and "
            f"{len(merges)} merges"
        )
    states, counts = [[tuple(word) for word in words]], []
    for pair in merges:
        counts.append(sum(list(pairwise(symbols)).count(pair) for symbols in states[-1]))
        states.append([joined(symbols, pair) for symbols in states[-1]])
    learned = ", ".join(f"{a} and {b} ({n})" for (a, b), n in zip(merges, counts, strict=True))
    ends = ", ".join(" ".join(symbols) for symbols in states[-1])
    desc = (
        f"{len(words)} words as rows of letter tiles: {', '.join(words)}. The most frequent pair "
        "of neighbours is joined into one tile, everywhere, and the counting starts again. "
        f"Joined were, with their counts: {learned}. At the end the words are: {ends}."
    )
    wide, tall = Pen(720, ROW * len(words) + 44), Pen(360, 2 * (ROW * len(words) + 52))
    low = ROW * len(words) + 52
    shown = [("letters", states[0]), ("after 2 merges", states[2])]
    shown.append((f"after {len(merges)} merges", states[-1]))
    for pen, places in (
        (wide, [(0, 0), (200, 0), (400, 0), (590, 0)]),
        (tall, [(0, 0), (190, 0), (0, low), (190, low)]),
    ):
        for (x, y), (title, rows) in zip(places, shown, strict=False):
            tiles(pen, (x, y), title, rows)
        stack(pen, places[-1], merges, counts)
    return Drawing(wide, tall, "Byte-pair encoding: frequent neighbours grow together", desc)


def joined(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """The symbols with each occurrence of the pair as one symbol."""
    found: list[str] = []
    for symbol in symbols:
        if found and (found[-1], symbol) == pair:
            found[-1] += symbol
        else:
            found.append(symbol)
    return tuple(found)


def tiles(pen: Pen, place: Point, title: str, rows: Sequence[tuple[str, ...]]) -> None:
    """A word in each row, a tile for each symbol; what was joined is tinted."""
    pen.text(place[0], place[1] + 16, title, "h l")
    for n, symbols in enumerate(rows):
        x, y = place[0], place[1] + 32 + ROW * n
        for symbol in symbols:
            width = 14 * len(symbol) + 6
            pen.box(x, y, (width, 21), "output t" if len(symbol) > 1 else "box", 4)
            pen.text(x + width / 2, y + 15, symbol, "s")
            x += width + 2


def stack(pen: Pen, place: Point, merges: Sequence[tuple[str, str]], counts: Sequence[int]) -> None:
    """The merges in their order, each with how often its pair was there."""
    pen.text(place[0], place[1] + 16, "the tokeniser", "h l")
    for n, ((a, b), count) in enumerate(zip(merges, counts, strict=True)):
        y = place[1] + 47 + ROW * n
        pen.text(place[0], y, f"{n + 1}", "s l muted f")
        pen.text(place[0] + 18, y, f"{a} + {b}", "s l")
        pen.text(place[0] + 122, y, f"{count} ×", "s e muted f")


def draft_check(words: Sequence[str], p: Float[Tensor, " V"], q: Float[Tensor, " V"]) -> Drawing:
    """What a draft proposes (q), cut to what the model allows (p), and filled up again.

    Leviathan et al. 2023, section 2.3.
    """
    if not 2 <= len(words) <= 4 or not len(words) == len(p) == len(q):
        raise ValueError(f"2 to 4 words with two shares each fit; got {len(words)} words")
    shares = list(zip(words, p.tolist(), q.tolist(), strict=True))
    kept = sum(min(a, b) for _, a, b in shares)
    each = "; ".join(
        f"{word}: proposed {printed(b)}, allowed {printed(a)}, kept {printed(min(a, b))}"
        for word, a, b in shares
    )
    desc = (
        f"Two bars for each word. The left one is how often the draft proposes it, the right one "
        f"how often the model would write it. {each}. What is proposed too often is rejected "
        f"(hatched), {printed(1 - kept)} of all; each rejection is replaced by a word that was "
        "proposed too seldom, and the right bars are filled exactly."
    )
    wide, tall = Pen(720, 250), Pen(360, 250)
    for pen, bar in ((wide, 64), (tall, 40)):
        step = pen.width / len(words)
        for n, (word, a, b) in enumerate(shares):
            pair(pen, step * (n + 0.5), bar, (a, b))
            pen.text(step * (n + 0.5), 196, word, "b")
        pen.text(pen.width / 2, 222, "left: the draft's share, right: the model's", "s")
        kept_words = f"kept {printed(kept)}, rejected and replaced {printed(1 - kept)}"
        pen.text(pen.width / 2, 242, kept_words, "s b")
    return Drawing(wide, tall, "A draft is cut to the model's shares and filled up", desc)


def pair(pen: Pen, x: Length, bar: Length, shares: Point) -> None:
    """Proposed on the left, written on the right; what is above the other is marked."""
    a, b = shares
    scale, foot, least = 190, 172, min(shares)
    for left, height, words in ((x - bar - 2, b, "draft"), (x + 2, a, "model")):
        pen.box(left, foot - scale * least, (bar, scale * least), "state f", 2)
        top, more = foot - scale * height, scale * (height - least)
        if more and words == "draft":
            pen.hatch(left, top, (bar, more - 1), "gradient k thin")
            pen.box(left, top, (bar, more - 1), "hair", 2)
        elif more:
            pen.box(left, top, (bar, more - 1), "output f", 2)
        pen.text(left + bar / 2, top - 6, printed(height), "s")
