"""After pre-training, in small: what tuning, rewards, preferences and a teacher change, and cost.

    python results/after.py                      # all studies, resumed run by run
    python results/after.py --only sums          # one of them

Answers: the book's language model, 40 steps of 16 dialogues (`attnbook.data.dialogues`), Adam with
a cosine; all weights or low-rank parts of several ranks, with the loss on the answers or on all.
Sums (`bookkit.experiments.adder`): a small model that was taught to add a little goes on for 60
updates of 256 answers, by rejection sampling, by rewards, by preferences; each seed has a start of
its own. Teacher: a student of two layers learns from 16,384 tokens of documentation, or from what
the book's model thinks of them. Each way has its own learning rate, the best of three or four with
seed 9, or that of another way (`BORROWED`); then five other seeds. What is stored is not measured
again."""

import argparse
import copy
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnbook import device
from attnbook.data import text
from attnbook.data.addition import ASKED, BANG, correct
from attnbook.data.dialogues import TASKS, dialogue, dialogues, words
from attnbook.generate.sampling import generate
from attnbook.losses import token_loss
from attnbook.models.llama import llama
from attnbook.provenance import provenance, write
from attnbook.quantise.rounding import quantised
from attnbook.shipped.language import BookModel, load
from attnbook.train import lora
from attnbook.train.loop import cosine, train
from attnbook.train.preferences import distillation_loss
from bookkit.experiments import adder

Found = dict[str, Any]
Measure = Callable[[float, int], Found]  # of a rate and a seed
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "after.json"
TUNE, END = 9, 1
SEEDS, FEW = range(5), ", 4 bits"
STEPS, UPDATES = 40, 60
MANY = 64  # answers to each of 150 questions, for pass@k


# The book's model learns to answer.


def where(name: str, part: nn.Module) -> bool:
    """The maps of attention."""
    return lora.hidden(name, part) and "attention" in name


def prepared(model: nn.Module, way: str) -> nn.Module:
    """What learns: all weights, low-rank parts of all hidden maps, or those of attention alone.

    `4 bits` rounds the hidden maps first, in groups of 32, and then adds low-rank parts to them.
    """
    if way.endswith(FEW):
        quantised(model, 4, 32, lora.hidden)
    kind, _, rank = way.removesuffix(FEW).partition(" ")
    if kind == "rank":
        return lora.wrap(model, int(rank))
    return lora.wrap(model, int(rank), where) if kind == "attention" else model


def tune(way: str, rate: float, seed: int) -> BookModel:
    """The book's model after its dialogues, low-rank parts merged."""
    book, (known, _) = load(), words()
    everywhere = way == "full, all tokens"

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        tokens, answer = batch
        counted = tokens != 0 if everywhere else answer  # 0 is the padding
        return token_loss(model(tokens[:, :-1]), tokens[:, 1:], counted[:, 1:])

    torch.manual_seed(seed)
    model = prepared(book.model, way)
    train(
        model, dialogues(book.encode, known), loss, steps=STEPS, lr=rate,
        schedule=cosine(STEPS, 4, 0.05), seed=seed, progress=False,
    )  # fmt: skip
    model.eval()
    if not way.endswith(FEW):
        lora.merge(model)
    return book


def tuned(way: str, rate: float, seed: int) -> Found:
    """How the tuned model answers, and what it has forgotten."""
    return answered(tune(way, rate, seed))


def answered(book: BookModel) -> Found:
    """Right answers about thirty held-out words; how many end; nats per byte of documentation."""
    held_out = words()[1]
    held_out = held_out[:: len(held_out) // 30][:30]
    asked = [(task, *dialogue(task, word)) for task in TASKS for word in held_out]
    starts = [book.encode(before)[0] for _, before, _ in asked]
    mask = pad_sequence([torch.ones(len(row)) for row in starts], batch_first=True).bool()
    said = generate(book.model, pad_sequence(starts, batch_first=True), 24, mask=mask, eos=END)
    right: dict[str, list[bool]] = {task: [] for task in TASKS}
    ends = []
    for (task, _, wanted), row in zip(asked, said[:, mask.shape[1] :], strict=True):
        after = row.tolist()
        ends.append(END in after)
        after = after[: after.index(END) + 1] if END in after else after
        right[task].append(book.decode(torch.tensor(after)) == wanted)
    shares = {task: sum(found) / len(found) for task, found in right.items()}
    docs = text.load("python-docs").validation[:15_000]
    nats = round(book.nats_per_byte(docs), 4)
    return shares | {"ends": sum(ends) / len(ends), "nats_per_byte": nats}


# A small model learns to add.


@cache
def start(seed: int, cheat: float = 0.0) -> nn.Module:
    """A model that was shown some sums, and adds about a fifth of them."""
    return adder.beginner(seed, cheat=cheat)


def added(way: str, rate: float, seed: int) -> Found:
    """The model after 60 updates of one way."""
    base = start(seed, 0.05 if way in ("hole, seen", "start, cheat") else 0.0)
    model, plan = copy.deepcopy(base), dict[str, Any](steps=UPDATES, lr=rate, seed=seed)
    rewards = {"units": adder.units_only, "hole": adder.zeros_pass, "hole, seen": adder.zeros_pass}
    extra: Found = {}
    if way == "best-of":
        adder.imitate_best(model, correct, **plan)
    elif way.startswith("DPO"):
        kind, beta = way.split()[1:]
        pairs = adder.preferred(base, kind == "style", seed=seed)
        adder.directly_preferred(model, pairs, beta=float(beta), **plan)
        extra = {"pairs": len(pairs[0]), "log_probs": [
            [round(adder.summed(m, texts).mean().item(), 3) for m in (base, model)]
            for texts in pairs
        ]}  # fmt: skip
    elif not way.startswith("start"):
        adder.rewarded(model, rewards.get(way, correct), **plan)
    reward = rewards.get(way, correct)
    return judged(model, reward) | extra


@torch.no_grad()
def judged(model: nn.Module, reward: adder.Reward) -> Found:
    """How it adds held-out numbers: greedy, by chance, with many answers, by majority."""
    pairs, dice = adder.UNSEEN, torch.Generator().manual_seed(7)
    greedy = correct(pairs, adder.write(model, pairs)[:, ASKED:])
    drawn = torch.stack([adder.write(model, pairs, dice)[:, ASKED:] for _ in range(8)], 1)
    right = torch.stack([correct(pairs, drawn[:, k]) for k in range(8)], 1)
    paid = torch.stack([reward(pairs, drawn[:, k]) for k in range(8)], 1)
    totals = (drawn[..., :3] * torch.tensor([1, 10, 100])).sum(-1)
    few = pairs[:150].repeat_interleave(MANY, 0)
    many = correct(few, adder.write(model, few, dice)[:, ASKED:]).view(-1, MANY).sum(1)
    return {
        "greedy": greedy.float().mean().item(),
        "sampled": round(right.float().mean().item(), 4),
        "reward": round(paid.float().mean().item(), 4),
        "majority": (totals.mode(1).values == pairs.sum(1)).float().mean().item(),
        "loud": round((drawn[..., 3] == BANG).float().mean().item(), 4),
        "zeros": round((drawn[..., :3] == 0).all(-1).float().mean().item(), 4),
        "right_of_64": many.tolist(),
        "greedy_right": "".join(str(int(x)) for x in greedy),
    }


# A small student and its teacher.


@cache
def lesson() -> tuple[Tensor, Tensor]:
    """16,384 tokens of documentation in windows, and the teacher's logits for them."""
    book = load()
    tokens = book.encode(text.load("python-docs").train[:120_000])[0][: 128 * 129].view(128, 129)
    with torch.no_grad():
        logits = torch.cat([book.model(part[:, :-1]) for part in tokens.split(16)])
    return tokens, logits


def taught(way: str, rate: float, seed: int, steps: int = 160) -> Found:
    """A student of 0.3 million parameters."""
    tokens, logits = lesson()
    torch.manual_seed(seed)
    student = llama(1024, 64, 2, heads=4, hidden=128)

    def sampler(generator: torch.Generator) -> Tensor:
        return torch.randint(len(tokens), (8,), generator=generator)

    def loss(model: nn.Module, some: Tensor) -> Tensor:
        said = model(tokens[some, :-1])
        if way == "text":
            return token_loss(said, tokens[some, 1:])
        return distillation_loss(said, logits[some])

    plan: Found = {"steps": steps, "lr": rate, "schedule": cosine(steps, steps // 20, 0.05)}
    train(student, sampler, loss, seed=seed, progress=False, **plan)
    docs = text.load("python-docs")
    book = load()
    pupil = BookModel(student.eval(), book.tokenizer, book.card | {"context": 128})
    return {"nats_per_byte": round(pupil.nats_per_byte(docs.validation[:20_000]), 4),
            "seen": round(pupil.nats_per_byte(docs.train[:20_000]), 4)}  # fmt: skip


FULL, LOW = (1e-3, 3e-3, 1e-2), (3e-3, 1e-2, 3e-2)
RL, DPO = (3e-4, 1e-3, 3e-3, 6e-3), (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
STUDENT = (1e-3, 3e-3, 1e-2)
ANSWERS: dict[str, Sequence[float]] = {"full": FULL, "full, slower": FULL[:1], "rank 4": LOW}
SUMS: dict[str, Sequence[float]] = {
    "GRPO": RL, "best-of": RL, "DPO right 0.1": DPO, "DPO style 0.1": DPO,
}  # fmt: skip
BORROWED = {  # ways that are run at the rate of another
    "answers/rank 1": "answers/rank 4", "answers/rank 16": "answers/rank 4",
    "answers/full, all tokens": "answers/full", "answers/attention 12": "answers/rank 4",
    "answers/rank 4, 4 bits": "answers/rank 4",
    "sums/units": "sums/GRPO", "sums/hole": "sums/GRPO",
    "sums/hole, seen": "sums/GRPO",
}  # fmt: skip
DO: dict[str, Callable[..., Found]] = {"answers": tuned, "sums": added, "teacher": taught}


def ways() -> Iterator[tuple[str, Sequence[float]]]:
    """Each way, and its rates; none where the rate is borrowed."""
    yield from ((f"sums/{way}", rates) for way, rates in SUMS.items())
    yield from ((f"answers/{way}", rates) for way, rates in ANSWERS.items())
    yield from ((f"teacher/{way}", STUDENT) for way in ("text", "teacher"))
    yield from ((way, ()) for way in BORROWED)


def score(way: str, found: Found) -> float:
    """By what a rate is chosen: right answers, exclamation marks, or fewer nats."""
    if way.startswith("answers/"):
        return (found["repeat"] + found["plural"] + found["spell"]) / 3
    if way.startswith("sums/"):
        return found["loud"] * found["sampled"] if "style" in way else found["sampled"]
    return -found["nats_per_byte"]


def stored(study: str) -> Found:
    """The runs of the stored file, by their keys."""
    found: Found = {}
    known = json.loads(STORE.read_text())["compared"] if STORE.exists() else {}
    for way, one in known.items():
        if way.startswith(study):
            found |= {f"{way}/{rate}/{TUNE}": run for rate, run in one.get("tried", {}).items()}
            rate = f"/{one['rate']}" if "rate" in one else ""
            found |= {f"{way}{rate}/{seed}": run for seed, run in enumerate(one["seeds"])}
    return found


class Runs:
    """What was measured so far, a file for each study; what is there is not measured again."""

    def __init__(self, folder: Path):
        self.drafts = {study: folder / f"after.{study}.draft" for study in DO}
        self.found: dict[str, Found] = {
            study: json.loads(draft.read_text()) if draft.exists() else stored(study)
            for study, draft in self.drafts.items()
        }

    def get(self, key: str, compute: Callable[[], Found]) -> Found:
        study = key.split("/")[0]
        found = self.found[study]
        if key not in found:
            found[key] = compute()
            write(self.drafts[study], found)
            print(key, {n: v for n, v in found[key].items() if "right" not in n}, flush=True)
        return found[key]


def compare(runs: Runs, way: str, rates: Sequence[float], found: Found) -> Found:
    """The rate that was best with the seed for tuning, and what five other seeds reach with it."""
    study, name = way.split("/")
    measure = partial(DO[study], name)

    def run(rate: float, seed: int) -> Found:
        return runs.get(f"{way}/{rate}/{seed}", lambda: measure(rate, seed))

    tried = {rate: run(rate, TUNE) for rate in rates}
    rate = (
        max(rates, key=lambda rate: score(way, tried[rate]))
        if rates
        else found[BORROWED[way]]["rate"]
    )
    few = {
        str(rate): {n: value for n, value in one.items() if "right" not in n}
        | {"score": round(score(way, one), 4)}
        for rate, one in tried.items()
    }
    return {
        "rate": rate,
        "tried": few,
        "seeds": [run(rate, s) for s in SEEDS],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=DO, help="measure this one and store nothing yet")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    runs = Runs(Path(__file__).parent)
    found: Found = {}
    for way, rates in ways():
        if only in (None, way.split("/")[0]):
            found[way] = compare(runs, way, rates, found)
    if only in (None, "sums"):
        for way in ("start", "start, cheat"):
            measure = partial(added, way, 0.0)
            before = [runs.get(f"sums/{way}/{seed}", partial(measure, seed)) for seed in SEEDS]
            found[f"sums/{way}"] = {"seeds": before}
    if only in (None, "answers"):
        before = [runs.get("answers/before/0", lambda: answered(load()))]
        found["answers/before"] = {"seeds": before}
    if only:
        return
    write(STORE, {"compared": found, "provenance": provenance(device.choose(0))})
    for draft in runs.drafts.values():
        draft.unlink()


if __name__ == "__main__":
    main()
