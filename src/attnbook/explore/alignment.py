"""Explorable: where two translators look, which differ in nothing but the seed, word by word."""

from collections.abc import Iterator
from typing import Any

from attnbook.explore.element import Explorable
from attnbook.explore.still import Still
from attnbook.stored_run import stored_run

SEEDS = (0, 1)
LONGEST = 29  # the last word that a translation could have


class Alignment(Explorable):
    """Sentences that two trained translators never saw, and how much they look at each word.

    Both are `bahdanau_2015`, trained by one command with the seeds 0 and 1; beside theirs stands
    what `cho_2014`, with one vector for all words, wrote after as many steps. Each `every`-th of
    the stored sentences is shown, from the second on; it starts with the `first` of these, and
    with the word `word` of the seed `seed`.
    """

    tag = "alignment"
    question = "Where does a translator look while it writes a word?"

    def __init__(
        self, first: int = 10, word: int = 0, seed: int = 0, every: slice = slice(1, 48, 4)
    ):
        run = stored_run("alignments")
        numbers = list(run["sentences"])[every]
        if not 0 <= first < len(numbers) or seed not in SEEDS or not 0 <= word <= LONGEST:
            raise ValueError(
                f"a sentence from 0 to {len(numbers) - 1}, seed 0 or 1, a word from 0 to {LONGEST} "
                f"fit; got {first}, {seed}, {word}"
            )
        self.begin = {"sentence": first, "seed": seed, "word": word}
        self.sentences = [told(run, number) for number in numbers]

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {"sentences": self.sentences}

    def result(self, state: dict) -> dict:
        """The word, where it stands in both translations, and its weights, which sum to about 1."""
        here = self.sentences[state["sentence"]]
        said = here["said"]
        at = min(state["word"], len(said[state["seed"]]) - 1)
        word = said[state["seed"]][at]
        nth = said[state["seed"]][:at].count(word)
        places = [n for n, found in enumerate(said[1 - state["seed"]]) if found == word]
        both = [at, at]
        both[1 - state["seed"]] = places[nth] if nth < len(places) else -1
        looks = [
            [x / 1000 for x in table[place]] if place >= 0 else []
            for table, place in zip(here["weights"], both, strict=True)
        ]
        return {"word": word, "at": both, "looks": looks}

    def cases(self) -> Iterator[dict]:
        for sentence in range(len(self.sentences)):
            for seed in SEEDS:
                for word in (0, 2, 5, LONGEST):
                    yield {"sentence": sentence, "seed": seed, "word": word}

    def picture(self) -> str:
        """The source, a row for each of its words, and two bars in it."""
        now, here = self.result(self.start()), self.sentences[self.begin["sentence"]]
        picture = Still(460, 44 + 30 * len(here["source"]), self.sentence())
        for seed in SEEDS:
            words = " ".join(here["said"][seed])
            picture.text(8, 16 + 18 * seed, f"seed {seed}: {words}", ROLES[seed], "start", 13)
        for n, word in enumerate(here["source"]):
            y = 44 + 30 * n
            picture.text(110, y + 19, word, anchor="end")
            for seed, row in enumerate(now["looks"]):
                if row:
                    picture.bar(120, y + 4 + 11 * seed, 330 * row[n], 9, ROLES[seed])
        return picture.svg()

    def sentence(self) -> str:
        now, here = self.result(self.start()), self.sentences[self.begin["sentence"]]
        seed = self.begin["seed"]
        mine, other = (most(here["source"], row) for row in order(now["looks"], seed))
        first = f"Writing “{now['word']}”, seed {seed} looks most at {mine}"
        return f"{first}; seed {1 - seed} " + (f"at {other}." if other else "never writes it.")


ROLES = ("weight", "query")


def order(two: list, seed: int) -> list:
    """The followed seed first."""
    return two if seed == 0 else two[::-1]


def most(source: list[str], row: list[float]) -> str:
    """The word with the largest weight, and this weight in per cent; nothing for no weights."""
    if not row:
        return ""
    place = row.index(max(row))
    return f"“{source[place]}” ({int(1000 * row[place] + 5.5) // 10} %)"


def told(run: dict[str, Any], number: str) -> dict[str, Any]:
    """A stored sentence as the script wants it."""
    pair = run["sentences"][number]
    seen = [run["runs"][f"bahdanau_2015.seed{seed}"]["alignments"][number] for seed in SEEDS]
    fixed = run["runs"]["cho_2014.seed0"]["alignments"][number]["words"]
    return {
        "source": pair["source"].split(),
        "reference": pair["reference"],
        "fixed": fixed.removesuffix(" </s>"),
        "said": [one["words"].split() for one in seen],
        "weights": [[[*map(int, row.split())] for row in one["weights"]] for one in seen],
    }
