"""Explorable: two translators that look back, and one that cannot, write word by word."""

from collections.abc import Iterator
from typing import Any

from bookkit.explore.element import Explorable
from bookkit.explore.still import Still
from bookkit.results.stored_run import stored_run

RUNS = ("bahdanau_2015.seed0", "bahdanau_2015.seed1", "cho_2014.seed0")
NAMES = ("seed 0", "seed 1", "one vector")
ROLES = ("weight", "query", "state")
ONE_VECTOR = 2
LONGEST = 29  # the last word that a translation could have
CANDIDATES = 3  # shown of each step


class Alignment(Explorable):
    """Real sentences, three trained translators: what each writes, nearly wrote, and looked at.

    Two are `bahdanau_2015`, trained by one command with the seeds 0 and 1; beside them stands
    `cho_2014`, with one vector for all words, after as many steps. Each `every`-th of the stored
    sentences is shown; it starts with the `first` of these, and with the word `word` of the
    translator `follow`: 0 and 1 are the seeds, 2 is the one vector.
    """

    tag = "alignment"
    question = "Where does a translator look while it writes a word?"

    def __init__(
        self, first: int = 5, word: int = 3, follow: int = 0, every: slice = slice(0, 48, 6)
    ):
        run = stored_run("alignments")
        numbers = list(run["sentences"])[every]
        if not 0 <= first < len(numbers) or follow not in range(3) or not 0 <= word <= LONGEST:
            raise ValueError(
                f"a sentence from 0 to {len(numbers) - 1}, a translator from 0 to 2, a word from 0 "
                f"to {LONGEST} fit; got {first}, {follow}, {word}"
            )
        self.begin = {"sentence": first, "follow": follow, "word": word}
        self.sentences = [told(run, number) for number in numbers]

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {"sentences": self.sentences}

    def result(self, state: dict) -> dict:
        """The word, where it stands in each translation, its weights, and what was nearly written.

        The weights of a seed sum to about 1; `next` are, for each translator at the same step of
        its own translation, the likeliest words with their probabilities.
        """
        here, follow = self.sentences[state["sentence"]], state["follow"]
        said = written(here)
        at = min(state["word"], len(said[follow]) - 1)
        word = said[follow][at]
        nth = said[follow][:at].count(word)
        places = [[n for n, found in enumerate(words) if found == word] for words in said]
        both = [found[nth] if nth < len(found) else -1 for found in places]
        looks = [
            [x / 1000 for x in table[place]] if place >= 0 else []
            for table, place in zip(here["weights"], both, strict=False)  # one vector has none
        ]
        return {
            "word": word,
            "at": both,
            "looks": looks,
            "next": [candidates(steps[at]) if at < len(steps) else [] for steps in here["next"]],
        }

    def cases(self) -> Iterator[dict]:
        for sentence in range(len(self.sentences)):
            for follow in range(3):
                for word in (0, 2, 5, LONGEST):
                    yield {"sentence": sentence, "follow": follow, "word": word}

    def picture(self) -> str:
        """The source, a row for each of its words with two bars, and the likeliest words."""
        now, here = self.result(self.start()), self.sentences[self.begin["sentence"]]
        height = 62 + 30 * len(here["source"])
        picture = Still(460, height + 62, self.sentence())
        for n, (name, role) in enumerate(zip(NAMES, ROLES, strict=True)):
            words = " ".join(written(here)[n])
            picture.text(8, 16 + 18 * n, f"{name}: {words}", role, "start", 13)
            told = ", ".join(f"{word} {per_cent(share)}" for word, share in now["next"][n])
            picture.text(8, height + 16 + 18 * n, f"{name}, next word: {told}", role, "start", 13)
        for n, word in enumerate(here["source"]):
            y = 62 + 30 * n
            picture.text(110, y + 19, word, anchor="end")
            for seed, row in enumerate(now["looks"]):
                if row:
                    picture.bar(120, y + 4 + 11 * seed, 330 * row[n], 9, ROLES[seed])
        return picture.svg()

    def sentence(self) -> str:
        now, here = self.result(self.start()), self.sentences[self.begin["sentence"]]
        follow = self.begin["follow"]
        parts = [look(here["source"], seed, row) for seed, row in enumerate(now["looks"])]
        if follow == ONE_VECTOR:
            parts.insert(0, "one vector has nowhere to look")
        else:
            parts = [parts[follow], parts[1 - follow]]
        return f"Writing “{now['word']}”, {'; '.join(parts)}."


def written(here: dict[str, Any]) -> list[list[str]]:
    """What each translator wrote: the likeliest word of each of its steps."""
    return [[step.split()[0] for step in steps] for steps in here["next"]]


def candidates(step: str) -> list[list]:
    """The likeliest words of a stored step, with their probabilities."""
    parts = step.split()
    shares = (int(share) / 1000 for share in parts[1::2])
    return [list(pair) for pair in zip(parts[::2], shares, strict=True)]


def per_cent(share: float) -> str:
    """Rounded to whole numbers, halves up, as the script does it."""
    return f"{(int(1000 * share + 0.5) + 5) // 10} %"


def look(source: list[str], seed: int, row: list[float]) -> str:
    """Where this seed looks most, and with how much of its weight; no weights, no word."""
    if not row:
        return f"seed {seed} never writes it"
    place = row.index(max(row))
    return f"seed {seed} looks most at “{source[place]}” ({per_cent(row[place])})"


def told(run: dict[str, Any], number: str) -> dict[str, Any]:
    """A stored sentence as the script wants it."""
    pair = run["sentences"][number]
    seen = [run["runs"][name]["alignments"][number] for name in RUNS]
    first = [[" ".join(step.split()[: 2 * CANDIDATES]) for step in one["next"]] for one in seen]
    return {
        "source": pair["source"].split(),
        "reference": pair["reference"],
        "next": first,
        "weights": [
            [[*map(int, row.split())] for row in one["weights"]] for one in seen[:ONE_VECTOR]
        ],
    }
