"""Explorable: what a trained model expects at each token of a line, and what a filter leaves."""

import base64
import random
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnbook.generate.sampling import min_p, temperature, top_k, top_p
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number
from bookkit.results.stored_run import stored_run

SHOWN = 6
CUTS: dict[str, tuple[str, Callable]] = {
    "top_k": ("k", top_k),
    "top_p": ("p", top_p),
    "min_p": ("m", min_p),
}
NAMES = {"none": "no cut", "top_k": "top-k", "top_p": "top-p", "min_p": "min-p"}


def logits_of(place: dict) -> Tensor:
    """The stored log-probabilities of all tokens, the likeliest first, in 64 bits."""
    levels = torch.tensor(list(base64.b64decode(place["levels"])), dtype=torch.float64)
    first = torch.tensor(place["first"], dtype=torch.float64)
    return torch.cat((first, place["from"] - place["step"] * levels))


class NextToken(Explorable):
    """A line that the book's model reads: touch a token to see what the model expected there.

    First the temperature, then one cut: "none", "top_k" (its number `k`), "top_p" (`p`) or "min_p"
    (`m`). `place` counts the tokens of the line that can be touched. From a stored run
    (`results/next_token.py`).
    """

    tag = "next-token"
    question = "How many tokens may come next?"

    def __init__(
        self,
        place: int = 5,
        tau: float = 1.0,
        cut: str = "top_p",
        k: int = 40,
        p: float = 0.9,
        m: float = 0.1,
    ):
        self.run = stored_run("next_token")
        self.logits = [logits_of(place) for place in self.run["places"]]
        if not 0 <= place < len(self.logits) or cut not in NAMES:
            raise ValueError(
                f"place is 0 to {len(self.logits) - 1}, cut one of {', '.join(NAMES)}; "
                f"got {place}, {cut!r}"
            )
        if not 0.1 <= tau <= 3 or not 1 <= k <= 60 or not 0.05 <= p <= 1 or not 0 < m <= 0.5:
            raise ValueError(
                f"tau is 0.1 to 3, k 1 to 60, p 0.05 to 1, m to 0.5; got {tau}, {k}, {p}, {m}"
            )
        self.begin = {"place": place, "tau": tau, "cut": cut, "k": k, "p": p, "m": m}

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        places = [{**place, "names": place["names"][:SHOWN]} for place in self.run["places"]]
        return {"before": self.run["start"], "tokens": self.run["tokens"], "places": places}

    def result(self, state: dict) -> dict:
        """Probabilities of the likeliest, before and after; how many tokens stay, and what share
        of the probability they had at this temperature."""
        given = self.logits[state["place"]][None]
        warm = temperature(float(state["tau"]))(given)
        left = warm
        if state["cut"] != "none":
            key, make = CUTS[state["cut"]]
            left = make(state[key] if key == "k" else float(state[key]))(warm)
        stays = left[0] > -torch.inf
        now = left.softmax(-1)[0]
        return {
            "given": given.softmax(-1)[0, :SHOWN].tolist(),
            "now": now[:SHOWN].tolist(),
            "others": now[SHOWN:].sum().item(),
            "kept": int(stays.sum()),
            "had": warm.softmax(-1)[0][stays].sum().item(),
        }

    def cases(self) -> Iterator[dict]:
        pick = random.Random(0)
        for n in range(60):
            yield {
                "place": n % len(self.logits),
                "cut": pick.choice(list(NAMES)),
                "tau": round(pick.uniform(0.1, 3), 1),
                "k": pick.randint(1, 60),
                "p": round(pick.randint(1, 20) / 20, 2),
                "m": round(pick.randint(1, 50) / 100, 2),
            }

    def picture(self) -> str:
        """The line with its token framed, and bars of the likeliest."""
        state, now = self.start(), self.result(self.start())
        names = self.run["places"][state["place"]]["names"]
        rows = list(zip(names, now["given"], now["now"], strict=False))
        label = "; ".join(f"{shown(word)} {a:.2f} → {b:.2f}" for word, a, b in rows)
        picture = Still(400, 30 * (len(rows) + 2), label)
        line = " ".join(map(shown, self.run["tokens"][: state["place"]]))
        picture.text(10, 20, f"{self.run['start'].strip()} {line} …", anchor="start", bold=True)
        most = max(now["given"] + now["now"])
        for n, (word, given, left) in enumerate(rows):
            y = 30 * n + 40
            picture.text(80, y + 15, shown(word), anchor="end")
            picture.cell(90, y - 3, 250 * left / most, 24, "output", 1)
            right = 90 + 250 * given / most
            edges = [(90, y - 3), (right, y - 3), (right, y + 21), (90, y + 21), (90, y - 3)]
            picture.line(edges, "muted", 1.5, "4 3")
            picture.text(395, y + 15, number(left) if left else "cut", anchor="end")
        picture.text(395, 30 * len(rows) + 55, number(now["others"]), anchor="end")
        picture.text(80, 30 * len(rows) + 55, "others", "muted", anchor="end")
        more = f"{max(0, now['kept'] - len(rows)):,} more, together"
        picture.text(94, 30 * len(rows) + 55, more, "muted", anchor="start")
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        tokens, place = self.run["tokens"], state["place"]
        after = f"After “{shown(tokens[place - 1])}”" if place else "After the name"
        cut = f", {NAMES[state['cut']]} {state[CUTS[state['cut']][0]]:g}" * (state["cut"] != "none")
        best = shown(self.run["places"][place]["names"][0])
        return (
            f"{after}, at temperature {state['tau']:g}{cut}: {now['kept']:,} of 1,024 tokens may "
            f"come next. The likeliest, “{best}”, has {now['now'][0]:.2f}."
        )


def shown(token: str) -> str:
    """A token as it is printed: without the space before it, a line break as a sign."""
    return token.strip(" ").replace("\n", "↵") or "␣"
