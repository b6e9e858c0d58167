"""Which heads does the copying of the book's language model need, and which of them suffice?

    python results/circuit.py        # some minutes on one core

Question. Five heads of layers 1 and 2 look at the token before. `inside.py` removes each alone,
which costs little, and all five, which costs the copy. Does that make them redundant, or does one
of them suffice? Necessary and sufficient are asked apart, of all eight heads of these layers alike:
remove only this one, and keep only this one while the other seven give their mean.
Budget. No training. 16 rows of 32 random tokens read twice, for each of ten draws; loss on the
second copy from its fourth token on. The mean is that on rows whose first half is another.
Grid. None: nothing is chosen. Reporting seeds 0 to 9 draw the rows.
Baselines. The whole model (cost 0), and the eight heads all at their mean; the three heads of the
same two layers that do not look back, removed together, beside the five.
No gain. A head is not needed if the interval of the cost of removing it lies below 5 % of the cost
of removing all eight; a head suffices if keeping it alone keeps 80 % of what the eight do; the five
are redundant if each of them alone suffices, and no single head is "the" previous-token head then.

Beside it: the circuit {previous-token heads, 3.3} faithful (all other heads at their mean),
complete and minimal; the path into 3.3 by query, key and value from 2.0 alone and from the other
four; and layer 0 removed with means and with zeros, on documentation and on plays.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from inside import L, random_rows, second
from inside_fits import book, loss, rows
from torch import Tensor

from attnbook import device
from attnbook.data import text
from attnbook.inside.circuits import head_from, record, replaced, written
from attnbook.provenance import provenance, write
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "circuit.json"
STUDY = Study(
    name="circuit",
    question="Which of the heads that look back are needed for copying, and which suffice?",
    budget=f"no training; ten draws of 16 rows of {L} random tokens read twice",
    reporting_seeds=range(10),
    baselines=("the whole model", "all eight heads at their mean", "three others of these layers"),
    no_gain="each of the five alone keeps 80 % of what the eight heads do",
)
Head = tuple[int, int]
BACK: tuple[Head, ...] = ((1, 0), (1, 2), (1, 3), (2, 0), (2, 2))
MIDDLE: tuple[Head, ...] = tuple((layer, head) for layer in (1, 2) for head in range(4))
OTHERS = tuple(head for head in MIDDLE if head not in BACK)
ALL: tuple[Head, ...] = tuple((layer, head) for layer in range(4) for head in range(4))
INDUCTION: Head = (3, 3)
FIRST = tuple((0, head) for head in range(4))


def name(head: Head) -> str:
    return f"{head[0]}.{head[1]}"


def without(tokens: Tensor, mean: Tensor, heads: Iterable[Head]) -> float:
    """Nats per token of the second copy while these heads give their mean."""
    with replaced(book.model, {head: mean[head] for head in heads}):
        return second(tokens)


def cost(seed: int) -> dict[str, float]:
    """What each intervention costs, in nats per token of the second copy."""
    tokens, other = random_rows(seed)
    mean = record(book.model, other).heads.mean((1, 3))
    gone = partial(without, tokens, mean)
    whole = gone(())
    found = {"whole": whole, "all eight": gone(MIDDLE), "five": gone(BACK), "others": gone(OTHERS)}
    for head in MIDDLE:
        found[f"remove {name(head)}"] = gone((head,))
        found[f"keep {name(head)}"] = gone(h for h in MIDDLE if h != head)
    circuits = {
        "2.0": ((2, 0), INDUCTION),
        "2.0, 2.2": ((2, 0), (2, 2), INDUCTION),
        "five": (*BACK, INDUCTION),
        "five, no 3.3": BACK,
        "3.3": (INDUCTION,),
    }
    for words, circuit in circuits.items():
        found[f"only {words}"] = gone(h for h in ALL if h not in circuit)
        found[f"all but {words}"] = gone(circuit)
    for head in (*BACK, INDUCTION):
        kept = [h for h in (*BACK, INDUCTION) if h != head]
        found[f"only five, less {name(head)}"] = gone(h for h in ALL if h not in kept)
    found["only none"] = gone(ALL)
    found |= path(tokens, mean, whole)
    return {key: round(v - whole * (key != "whole"), 4) for key, v in found.items()}


@torch.no_grad()
def path(tokens: Tensor, mean: Tensor, whole: float) -> dict[str, float]:
    """The loss if head 3.3 alone does not hear of some heads: by its query, key or value."""
    model, run = book.model, record(book.model, tokens)
    found = {}
    groups = {"2.0": ((2, 0),), "the other four": [h for h in BACK if h != (2, 0)], "five": BACK}
    groups["others"] = OTHERS
    for words, heads in groups.items():
        gone = torch.zeros_like(run.stream[3])
        for layer, head in heads:
            change = mean[layer, head] - run.heads[layer][:, head]
            gone = gone + written(model, (layer, head), change)
        for n, door in enumerate("qkv"):
            three = [run.stream[3] + gone * (n == k) for k in range(3)]
            with replaced(model, {INDUCTION: head_from(model, INDUCTION, *three)}):
                found[f"path {door} from {words}"] = second(tokens)
    return found


def plays() -> Tensor:
    """Windows of Shakespeare's plays that the model has not read: (36, 256)."""
    tokens = book.encode(text.load("shakespeare").validation)[0]
    spread = torch.linspace(0, len(tokens) - 256, 36).long()
    return tokens[spread[:, None] + torch.arange(256)]


def first_layer() -> dict[str, dict[str, float]]:
    """What it costs on text to remove the heads of layer 0: by their mean, and by zeros."""
    found: dict[str, dict[str, float]] = {}
    for words, windows in {"docs": rows("test")[:36], "plays": plays()}.items():
        mean = record(book.model, windows[:16]).heads.mean((1, 3))
        whole = loss(book.model, windows[16:])
        for how, value in {"mean": mean, "zero": mean * 0}.items():
            with replaced(book.model, {head: value[head] for head in FIRST}):
                nats = loss(book.model, windows[16:]) - whole
            found.setdefault(words, {})[how] = round(nats, 4)
    return found


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    here = device.choose(0)
    runs = Runs(Path(__file__).parent / "circuit.draft", write)
    each = STUDY.report(lambda seed: runs.get(f"cost/{seed}", partial(cost, seed)))
    costs, kept = {}, {}
    for key in each[0]:
        ends = interval([one[key] for one in each])
        costs[key] = [round(x, 4) for x in (ends.mean, ends.low, ends.high)]
    for head in MIDDLE:
        shares = [1 - one[f"keep {name(head)}"] / one["all eight"] for one in each]
        ends = interval(shares)
        kept[name(head)] = [round(x, 4) for x in (ends.mean, ends.low, ends.high)]
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}}
    result |= {"costs": costs, "kept alone": kept, "first layer": first_layer()}
    write(STORE, result | {"runs": runs.found, "provenance": provenance(here, "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
