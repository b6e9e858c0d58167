"""Explorable: inside the book's model, token by token, layer by layer, head by head."""

from collections.abc import Iterator

from bookkit.explore.element import Explorable
from bookkit.explore.next_token import shown
from bookkit.explore.still import Still, number
from bookkit.results.stored_run import stored_run

STORY = "The class Zembla is new. An instance of Zembla"
# Name of a switch: the heads, (layer, head) from 0 on, that give their mean and nothing else.
GROUPS: dict[str, list[tuple[int, int]]] = {
    "none": [],
    "3.3": [(3, 3)],
    "five": [(1, 0), (1, 2), (1, 3), (2, 0), (2, 2)],
    "others": [(0, 0), (0, 1), (1, 1), (2, 1), (2, 3)],
}
NAMES = {"none": "none", "3.3": "3.3", "five": "five that look back", "others": "five others"}
LAYERS = ["embedding", "after layer 0", "after layer 1", "after layer 2", "after layer 3"]
LEVELS = 63  # of a weight
SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Inside(Explorable):
    """A text with a made-up name in it: touch a token to see what each layer expects next there.

    `place` counts the tokens, `head` is layer × 4 + head, both from 0; `off` names the heads that
    give their mean only, one of `GROUPS`. From a stored run (`results/inside.py`, story).
    """

    tag = "inside"
    needs = ()
    question = "Which layer knows how the name goes on?"

    def __init__(self, place: int = 17, head: int = 15, off: str = "none"):
        self.run = stored_run("inside")["runs"]["story"]
        if not 0 <= place < len(self.run["tokens"]) - 1 or not 0 <= head < 16 or off not in GROUPS:
            raise ValueError(
                f"place is 0 to {len(self.run['tokens']) - 2}, head 0 to 15, off one of "
                f"{', '.join(GROUPS)}; got {place}, {head}, {off!r}"
            )
        self.begin = {"place": place, "head": head, "off": off}

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        """Tokens by number; a head's weights are 0 where they are those of the whole model."""
        runs, whole = {}, self.looks("none")
        firsts = {three[0] for r in self.run["runs"].values() for row in r["best"] for three in row}
        names = sorted(firsts)
        for name, run in self.run["runs"].items():
            looks = self.looks(name)
            same = [a == b and name != "none" for a, b in zip(looks, whole, strict=True)]
            runs[name] = {
                "best": [[names.index(three[0]) for three in row] for row in run["best"]],
                "p": [[round(100 * three[0]) for three in row] for row in run["p"]],
                "right": [[round(1000 * p) for p in row] for row in run["right"]],
                "looks": [0 if s else look for s, look in zip(same, looks, strict=True)],
            }
        return {"tokens": self.run["tokens"], "names": names, "runs": runs}

    def looks(self, name: str) -> list[str]:
        """The weights of all heads in one of the runs, a text for each."""
        weights = self.run["runs"][name]["weights"]
        return [signs(head[:-1]) for layer in weights for head in layer]

    def result(self, state: dict) -> dict:
        """Probability of the likeliest token and of the one that comes, in each layer, and where
        the head looks, in steps of 1/63."""
        run, place = self.run["runs"][state["off"]], state["place"]
        row = run["weights"][state["head"] // 4][state["head"] % 4][place]
        return {
            "best": [round(100 * layer[place][0]) / 100 for layer in run["p"]],
            "right": [round(1000 * layer[place]) / 1000 for layer in run["right"]],
            "looks": [round(LEVELS * weight) / LEVELS for weight in row],
        }

    def cases(self) -> Iterator[dict]:
        count = len(self.run["tokens"]) - 1
        for n in range(48):
            yield {"place": 7 * n % count, "head": 5 * n % 16, "off": list(GROUPS)[n % 4]}

    def picture(self) -> str:
        """The tokens, shaded by the head's weights, and a bar for each layer."""
        state, now = self.start(), self.result(self.start())
        tokens, run = list(map(shown, self.run["tokens"])), self.run["runs"][state["off"]]
        picture = Still(560, 250, self.sentence())
        x = 10.0
        for t, token in enumerate(tokens[: state["place"] + 1]):
            wide = 9 * len(token) + 8
            weight = now["looks"][t]
            picture.cell(x, 14, wide, 26, "weight", weight)
            picture.text(x + wide / 2, 32, token, bold=t == state["place"])
            x += wide + 2
        for n, layer in enumerate(LAYERS):
            y = 76 + 34 * n
            picture.text(150, y + 15, layer, anchor="end")
            picture.text(222, y + 15, shown(run["best"][n][state["place"]][0]), anchor="end")
            picture.text(262, y + 15, number(now["best"][n]), "muted", anchor="end")
            picture.bar(280, y, 200 * now["right"][n], 22, "output")
            picture.text(550, y + 15, number(now["right"][n], 3), anchor="end")
        picture.text(222, 64, "its guess", "muted", anchor="end")
        picture.text(280, 64, f"chance of “{tokens[state['place'] + 1]}”", "muted", anchor="start")
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        tokens, place = list(map(shown, self.run["tokens"])), state["place"]
        looks = now["looks"]
        most = looks.index(max(looks))
        return (
            f"After “{tokens[place]}” comes “{tokens[place + 1]}”; the layers give it "
            f"{', '.join(f'{p:.2f}' for p in now['right'])}. Head {state['head'] // 4}."
            f"{state['head'] % 4} looks at “{tokens[most]}” with weight {looks[most]:.2f}."
        )


def signs(rows: list[list[float]]) -> str:
    """All weights of a head, a letter each: row after row of a triangle."""
    return "".join(SIGNS[round(LEVELS * weight)] for row in rows for weight in row)
