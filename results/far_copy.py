"""Can a language model with stretched rotary positions copy from far beyond its trained length?

    python results/far_copy.py        # some minutes on one core

Question. The book's language model was trained on windows of 256 tokens. A piece of 32 random
tokens stands in a text of up to 940 tokens, and again at its end. How much of the second piece does
the model copy, as trained, interpolated, with YaRN (the paper's ramp over turns, and the released
code's over pairs) and with a larger base? A low loss on documentation cannot tell reading far from
not breaking; a copy can.
Budget. No further training. Stretched by 4, set beforehand. 16 rows for each of five draws; what
stands between is documentation that the model has not read, or random tokens.
Grid. None: nothing is chosen. Reporting seeds 0 to 4 draw the tokens and the text between.
Baselines. A guess among the random tokens, 1 in 1,020; the same model as trained at distances that
it knows: repeats came after 8 to 64 tokens in its training, its windows were 256.
No gain. A way of stretching reaches no further than the model as trained if the interval of the
paired difference of the shares copied, at that distance, contains 0.
"""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnbook import device
from attnbook import positions as frequencies
from attnbook.data import text
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.shipped.language import load
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference, interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "far_copy.json"
STUDY = Study(
    name="far copy",
    question="Does a stretched model copy from beyond its trained length?",
    budget="no further training; stretched by 4; 16 rows of 32 tokens for each draw",
    reporting_seeds=range(5),
    baselines=("a guess, 1 in 1,020", "as trained", "distances within the trained length"),
    no_gain="the interval of the paired difference to the model as trained contains 0",
)
D, TRAINED, FACTOR, L, ROWS = 64, 256, 4.0, 32, 16
DISTANCES = (40, 100, 200, 300, 500, 900)
BETWEEN = ("documentation", "random tokens")


def by_turns(slow: float = 1.0, fast: float = 32.0) -> Tensor:
    """YaRN's frequencies as the paper has them: a ramp over the number of turns.

    Peng et al. 2024, section 3.2: γ is 0 below `slow` turns in the trained length, 1 above `fast`,
    and a straight line in between.
    """
    plain = frequencies.frequencies(D)
    stays = ((TRAINED * plain / (2 * math.pi) - slow) / (fast - slow)).clamp(0, 1)
    return stays * plain + (1 - stays) * plain / FACTOR


def rotations() -> dict[str, Rotary]:
    """The ways to turn queries and keys, by name."""
    scale = frequencies.yarn_temperature(FACTOR)
    code = frequencies.yarn(D, factor=FACTOR, trained=TRAINED)
    return {
        "as trained": Rotary(D),
        "interpolated": Rotary(D, frequencies=frequencies.linear(D, factor=FACTOR)),
        "YaRN, ramp over turns (paper)": Rotary(D, frequencies=by_turns(), scale=scale),
        "YaRN, ramp over pairs (code)": Rotary(D, frequencies=code, scale=scale),
        "larger base": Rotary(D, base=10_000 * FACTOR ** (D / (D - 2))),
    }


lm = load("book-lm")


def rows(distance: int, between: str, seed: int) -> Tensor:
    """Texts in which a random piece comes again after `distance` tokens: (ROWS, 8 + distance + L).

    Eight tokens stand in front; the second piece is the end.
    """
    draw = torch.Generator().manual_seed(seed)
    T, V = 8 + distance + L, lm.card["sizes"]["V"]
    if between == "documentation":
        docs = lm.encode(text.load("python-docs").validation)[0]
        places = torch.randint(len(docs) - T, (ROWS, 1), generator=draw)
        x = docs[places + torch.arange(T)]
    else:
        x = torch.randint(4, V, (ROWS, T), generator=draw)
    piece = torch.rand(ROWS, V - 4, generator=draw).argsort(1)[:, :L] + 4
    x[:, 8 : 8 + L] = piece
    x[:, -L:] = piece
    return x


@torch.no_grad()
def copied(rotate: Rotary, distance: int, between: str, seed: int) -> float:
    """The share of the second piece, from its fourth token on, that is the likeliest next token."""
    for block in lm.model.body.blocks:
        layer: Any = block.get_submodule("attention.sublayer")
        layer.rotate = rotate
    x = rows(distance, between, seed)
    said = torch.cat([lm.model(some).argmax(-1) for some in x.split(4)])[:, -L + 2 : -1]
    return round((said == x[:, -L + 3 :]).float().mean().item(), 4)


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    here = device.choose(0)
    runs = Runs(Path(__file__).parent / "far_copy.draft", write)
    ways = rotations()
    shares: dict[str, Any] = {}
    apart: dict[str, Any] = {}
    for between in BETWEEN:
        for distance in DISTANCES:
            found: dict[str, Any] = {}
            for name, rotate in ways.items():
                key = f"{between}/{distance}/{name}"

                def one(
                    seed: int,
                    key: str = key,
                    a: tuple[Rotary, int, str] = (rotate, distance, between),
                ) -> Any:
                    return runs.get(f"{key}/{seed}", lambda: copied(*a, seed))

                found[name] = STUDY.report(one)
                ends = interval(found[name])
                row = {"each": found[name], "interval": [round(ends.low, 3), round(ends.high, 3)]}
                shares.setdefault(between, {}).setdefault(name, {})[str(distance)] = row
                if name != "as trained":
                    by = difference(found[name], found["as trained"], paired=True).as_dict()
                    apart.setdefault(between, {}).setdefault(name, {})[str(distance)] = by
    turns = TRAINED * frequencies.frequencies(D) / (2 * math.pi)
    slowed = {
        name: [round(x, 3) for x in (torch.tensor(Rotary(D).frequencies) / speed).tolist()]
        for name, way in ways.items()
        for speed in [torch.tensor(way.frequencies)]
    }
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "copied": shares}
    result |= {"apart": apart, "turns": [round(x, 3) for x in turns.tolist()], "slowed": slowed}
    write(STORE, result | {"runs": runs.found, "provenance": provenance(here, "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
