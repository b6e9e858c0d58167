"""Explorable: a digit is moved, cut into rows, and read by two trained networks."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch.nn.functional import pad

from bookkit.explore.element import Explorable
from bookkit.explore.still import Still
from bookkit.results.stored_run import stored_run

MOST, SIDE = 2, 8
SIZES, WAYS = ("1", "2", "4", "8"), ("patches", "reshape")


def short(shares: list[int]) -> str:
    """Per cent of each digit; most are 0 and are left out."""
    return ",".join(str(share) if share else "" for share in shares)


class PatchRows(Explorable):
    """Ten digits of the test set, and what a vision transformer and a convolutional network of
    equal size say of each when it is moved; from the stored run of `results/patches.py`.

    `right` and `down` are pixels, from −2 to 2; `size` is a patch's side; `way` "reshape" cuts the
    wrong way. The networks always read patches with a side of 2.
    """

    tag = "patches"
    question = "What does a network read when the digit moves by a pixel?"

    def __init__(self, digit: int = 3, right: int = 1, down: int = 0, size: str = "2"):
        if not (0 <= digit <= 9 and max(abs(right), abs(down)) <= MOST and size in SIZES):
            raise ValueError(
                f"digits are 0 to 9, moves −2 to 2 and sizes {', '.join(SIZES)}; got digit "
                f"{digit}, right {right}, down {down}, size {size!r}"
            )
        state: dict[str, Any] = {"digit": digit, "right": right, "down": down, "size": size}
        self.begin = state | {"way": "patches"}
        self.run = stored_run("patches")

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        nets = {
            name: [[short(shares) for shares in move] for move in self.run[name]]
            for name in ("vit", "cnn")
        }
        return {"digits": self.run["digits"], **nets, "share": self.run["right"]}

    def moved(self, state: dict) -> torch.Tensor:
        """The picture after its move, with white paper where it was not."""
        right, down = state["right"], state["down"]
        picture = torch.tensor(self.run["digits"][state["digit"]])
        return pad(picture, (right, -right, down, -down))

    def result(self, state: dict) -> dict:
        """The rows, what both networks say, and how many of the test set they recognise."""
        size, picture = int(state["size"]), self.moved(state)
        rows = picture.unfold(0, size, size).unfold(1, size, size).reshape(-1, size * size)
        if state["way"] == "reshape":
            rows = picture.reshape(rows.shape)
        move = (state["down"] + MOST) * (2 * MOST + 1) + state["right"] + MOST
        says = {name: self.run[name][move][state["digit"]] for name in ("cnn", "vit")}
        share = [self.run["right"][name][move] for name in ("cnn", "vit")]
        return {"rows": rows.tolist(), **says, "share": share}

    def cases(self) -> Iterator[dict]:
        for size, way in product(SIZES, WAYS):
            yield {"size": size, "way": way}
        for digit, right, down in ((0, 0, 0), (9, -2, 2), (4, 2, -1), (7, 0, 1)):
            yield {"digit": digit, "right": right, "down": down}

    def picture(self) -> str:
        """The digit and its rows, and both answers."""
        now, state, still = self.result(self.start()), self.start(), Still(430, 290, "")
        still.label = self.sentence()
        for x, path in self.squares(now["rows"]).items():
            shade = f"fill:var(--d-ink);fill-opacity:{0.06 + 0.9 * x / 16:.2f}"
            still.add(f'<path d="{path}" style="{shade}"/>')
        for place, (name, net) in enumerate((("convolutional", "cnn"), ("transformer", "vit"))):
            best = max(now[net])
            answer, y = now[net].index(best), 226 + 30 * place
            still.text(8, y + 12, name, anchor="start")
            still.bar(112, y, 2.2 * best, 14, "value" if answer == state["digit"] else "gradient")
            still.text(424, y + 12, f"{answer}, {best} %", anchor="end", bold=True)
        return still.svg()

    def squares(self, rows: list[list[int]]) -> dict[int, str]:
        """The squares of the digit and of its rows, those of one strength as one path."""
        found: defaultdict[int, str] = defaultdict(str)
        p = int(self.start()["size"])
        for i, line in enumerate(self.moved(self.start()).tolist()):
            for j, x in enumerate(line):
                found[x] += f"M{8 + 24 * j} {8 + 24 * i}h23v23h-23z"
        high, wide = min(24, 192 / len(rows)), min(24, 192 / p**2)
        for n, row in enumerate(rows):
            for k, x in enumerate(row):
                corner = f"M{232 + wide * k:g} {8 + high * n:g}"
                found[x] += f"{corner}h{wide - 1:g}v{high - 1.5:g}h{1 - wide:g}z"
        return found

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        where = "moved so" if state["right"] or state["down"] else "in place"
        many = "1 row" if len(now["rows"]) == 1 else f"{len(now['rows'])} rows"
        cnn, vit = (f"{100 * share:.0f} %" for share in now["share"])
        return (
            f"{many} of {len(now['rows'][0])}: patches with a side of {state['size']}. Of all 397 "
            f"test digits {where} the convolutional network recognises {cnn}, the transformer "
            f"{vit}."
        )
