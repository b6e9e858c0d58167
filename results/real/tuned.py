"""What do 160 dialogues give a published model that examples in its prompt do not?

    ATTNBOOK_GEMMA=folder python results/real/tuned.py

Question. Gemma 3 270M, which was trained on text alone, learns four kinds of short dialogue by
LoRA: chapter 16's three about single words, and sums of two numbers below 100. How many held-out
questions does it answer, how many of two kinds that it was never shown, and what does other text
cost afterwards?
Budget. 40 steps of 4 dialogues, rank 8 beside every hidden matrix. 32 held-out questions of each
kind that is trained, 12 of each kind that is not; 400 tokens of each of three texts.
Grid. Learning rates 0.0003, 0.001 and 0.003, grown until the best lies inside; chosen by the loss
on 32 dialogues about other held-out words and sums, on another seed; two seeds are reported.
Baselines. No example; eight examples of the same kind in the prompt, in the chat template (one draw
of them) and as plain lines, question and answer in turn (two draws).
Nothing found. For no kind does the interval of the paired difference from eight examples, of the
better of both forms, lie above 0. A question is answered if the answer is what the model says first
after it, whatever follows; whether it then stops is counted apart.

A first measurement of the model without training, by an answer that had to be alone in its line,
found next to nothing in the template, with and without examples: its special tokens were never
trained. So the plain lines were added, and what follows an answer no longer counts, before any
training run.

The frozen matrices have 16 bits, what learns has 32. The logits of 262,144 tokens are computed only
where the loss counts. Resumed run by run; inside a run, after every tenth step.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import few_shots
import torch
from prose import prose
from real_model import Studied, begin, body, finish, folder, gemma
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Adam

from attnbook.data import dialogues, text
from attnbook.data.addition import split
from attnbook.files import replacing
from attnbook.generate.sampling import generate
from attnbook.masks import causal
from attnbook.train import lora
from attnbook.train.checkpoint import plain
from attnbook.train.loop import cosine, train
from bookkit.results.protocol import Study

STUDY = Study(
    name="tuned",
    question="What do 160 dialogues give a published model that examples do not?",
    budget="40 steps of 4 dialogues; 32 questions of each of four kinds, 12 of two others",
    grid={"learning rate": (0.0003, 0.001, 0.003)},
    choosing_seeds=(100,),
    reporting_seeds=range(2),
    baselines=("no example", "eight examples in the template", "eight examples as plain lines"),
    no_gain="for no kind the paired interval of tuned less the better eight examples is above 0",
)
STEPS, B, RANK = 40, 4, 8
SHOTS, DRAWS, ASKED, NEW = 8, 2, 32, 16
ROWS, T = 1, 400
SUMS, CAPITALS, OPPOSITES = "add", "country to capital", "opposites"
WORDS, UNSHOWN = tuple(dialogues.TASKS), (CAPITALS, OPPOSITES)
KINDS = (*WORDS, SUMS, *UNSHOWN)
TURN = ("<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>")
LINES = ("", "\n", "\n")
half = partial(torch.autocast, "cpu", torch.bfloat16)


Form = tuple[str, str, str]  # before a question, between it and its answer, and behind that


class Asked(NamedTuple):
    """A question and its answer."""

    question: str
    answer: str


def ask(kind: str, about: Any) -> Asked:
    """The dialogue of a kind about a word, a pair of numbers, or a pair of words."""
    if kind in dialogues.TASKS:
        words, make = dialogues.TASKS[kind]
        return Asked(words.format(about), make(about))
    if kind == SUMS:
        return Asked(f"What is {about[0]} + {about[1]}?", str(about[0] + about[1]))
    asks = {CAPITALS: "What is the capital of {}?", OPPOSITES: "What is the opposite of {}?"}
    return Asked(asks[kind].format(about[0]), about[1])


@cache
def subjects(kind: str, part: str) -> list[Any]:
    """What the dialogues of a kind are about: to train on, to choose by, or to report."""
    if kind in UNSHOWN:
        pairs = few_shots.pairs(kind)
        return pairs[SHOTS:] if part == "report" else pairs[:SHOTS]
    known, unseen = dialogues.words() if kind in WORDS else (x.tolist() for x in split())
    return known if part == "train" else unseen[part == "report" :: 2]


def questions(kind: str) -> list[Asked]:
    """The questions that are reported."""
    found = subjects(kind, "report")
    return [ask(kind, x) for x in found[:: max(1, len(found) // ASKED)][:ASKED]]


def tokens(asked: Asked, form: Form = TURN) -> tuple[list[int], list[int]]:
    """A dialogue in the chat template, or in lines: up to the answer, and that with its end."""
    encode = gemma().tokens
    before, between, end = form
    return encode(before + asked.question + between), [*encode(asked.answer), *encode(end)]


@cache
def base() -> Studied:
    """The published model with its matrices in 16 bits."""
    for weight in gemma().model.parameters():
        if weight.dim() == 2:
            weight.data = weight.data.bfloat16()
    return gemma()


def prepared(seed: int) -> nn.Module:
    """The model with new low-rank parts."""
    model = base().model
    for name, part in lora.adapters(model).items():
        model.set_submodule(name, part.base)
    torch.manual_seed(seed)
    lora.wrap(model, RANK)
    for part in lora.adapters(model).values():
        part.down.float(), part.up.float()
    return model


def bare() -> nn.Module:
    """The model without low-rank parts."""
    model = base().model
    for name, part in lora.adapters(model).items():
        model.set_submodule(name, part.base)
    return model


def batch(rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """Dialogues as rows of tokens, padded on the right, and True at their answers."""
    start = base().start
    whole = [torch.tensor([*start, *before, *after]) for before, after in rows]
    first = [len(start) + len(before) for before, _ in rows]
    answers = [torch.arange(len(row)) >= n for row, n in zip(whole, first, strict=True)]
    return pad_sequence(whole, batch_first=True), pad_sequence(answers, batch_first=True)


def drawn(dice: torch.Generator, part: str = "train", n: int = B) -> tuple[Tensor, Tensor]:
    """A batch of dialogues, the four kinds in turn."""
    rows = []
    for i in range(n):
        kind = (*WORDS, SUMS)[i % 4]
        found = subjects(kind, part)
        rows.append(tokens(ask(kind, found[int(torch.randint(len(found), (), generator=dice))])))
    return batch(rows)


def loss(model: Any, given: tuple[Tensor, Tensor]) -> Tensor:
    """Nats of a token of the answers: nothing else goes through the output layer."""
    rows, answers = given
    x = body(model, rows[:, :-1])[answers[:, 1:]]
    return F.cross_entropy(model.lm_head(x).float(), rows[:, 1:][answers[:, 1:]])


class Adapters:
    """A checkpoint of what learns: the frozen weights are not written."""

    def __init__(self, path: Path, model: nn.Module, optimizer: Adam):
        self.path, self.model, self.optimizer = path, model, optimizer

    def load(self) -> dict[str, Any] | None:
        """Fill what learns, if the file is there."""
        if not self.path.exists():
            return None
        stored = torch.load(self.path, weights_only=True)
        lora.load_learnt(self.model, stored["learnt"])
        self.optimizer.load_state_dict(stored["optimizer"])
        return stored

    def save(self, history: dict[str, Any], random: dict[str, Tensor]) -> None:
        """Store what learns and where the run stands."""
        kept = self.optimizer.state_dict()
        kept["param_groups"] = plain(kept["param_groups"])
        with replacing(self.path) as draft:
            torch.save({"learnt": lora.learnt(self.model), "optimizer": kept, "history": history,
                        "random": random}, draft)  # fmt: skip


def trained(rate: float, seed: int) -> nn.Module:
    """The model after 40 steps; what they learned is kept beside the weights."""
    model = prepared(seed)
    optimizer = Adam([w for w in model.parameters() if w.requires_grad], lr=rate)
    file = Adapters(folder() / f"tuned-{rate:g}-{seed}.pt", model, optimizer)
    train(
        model, drawn, loss, steps=STEPS, optimizer=optimizer, schedule=cosine(STEPS, 4, 0.05),
        seed=seed, every=10, checkpoint=file, precision=half,
    )  # fmt: skip
    return model.eval()


@torch.no_grad()
def choosing_loss(model: nn.Module) -> float:
    """The loss on 32 dialogues about words and sums that are neither trained on nor reported."""
    with half():
        found = loss(model, drawn(torch.Generator().manual_seed(1), "choose", 32))
    return round(found.item(), 4)


@torch.no_grad()
def judged(
    model: Any, shown: Sequence[Asked], asked: Sequence[Asked], form: Form
) -> dict[str, Any]:
    """Which questions are answered greedily after these examples, and then stopped at, as strings
    of 0 and 1; and the mean nats of a right answer.

    A greedy answer is the right one if each of its tokens is the likeliest after those before it,
    so one pass over question and answer tells, without writing. The examples are read once.
    """
    newline = [] if form == LINES else base().tokens("\n")
    start = [n for one in shown for part in (*tokens(one, form), newline) for n in part]
    caches, rows = model.caches(), [tokens(one, form) for one in asked]
    with half():
        model(torch.tensor([[*base().start, *start]]), caches, last=1)
        for kept in caches:
            kept.select(torch.zeros(len(rows), dtype=torch.long))
        new = pad_sequence([torch.tensor(a + b) for a, b in rows], batch_first=True)
        x = model.body(model.embed(new), mask=causal, caches=caches)  # no end sees its padding
        ends = [slice(len(a) - 1, len(a) + len(b) - 1) for a, b in rows]
        logits = model.lm_head(torch.cat([row[end] for row, end in zip(x, ends, strict=True)]))
    told = torch.tensor([n for _, after in rows for n in after])
    same, nats = logits.argmax(-1) == told, F.cross_entropy(logits.float(), told, reduction="none")
    sizes = [len(after) for _, after in rows]
    hits = [(bool(row[:-1].all()), bool(row.all())) for row in same.split(sizes)]
    marks = ["".join(str(int(hit)) for hit in column) for column in zip(*hits, strict=True)]
    cost = sum(part[:-1].sum().item() for part in nats.split(sizes)) / len(rows)
    return {"right": marks[0], "and stops": marks[1], "nats": round(cost, 3)}


def answered(model: Any, shots: int = 0, draw: int = 0, form: Form = TURN) -> dict[str, Any]:
    """Of each kind which questions were answered, after so many examples."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        dice, known = torch.Generator().manual_seed(draw), subjects(kind, "train")
        order = torch.randperm(len(known), generator=dice).tolist()[:shots]
        shown = [ask(kind, known[i]) for i in order]
        found[kind] = judged(model, shown, questions(kind), form)
    return found


def read() -> list[Asked]:
    """The ten questions whose answers are shown: the first of each kind, and the second of those
    that are trained."""
    return [questions(kind)[n] for n in (0, 1) for kind in (KINDS, KINDS[:4])[n]]


@torch.no_grad()
def written(model: Any) -> list[str]:
    """What the model answers to the ten, greedily, without examples."""
    rows = [torch.tensor([*base().start, *tokens(one)[0]]) for one in read()]
    new = pad_sequence(rows, batch_first=True, padding_side="left")
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    mask = torch.arange(new.shape[1])[None] >= new.shape[1] - lengths
    with half():
        end = base().tokens(TURN[2])[0]
        said = generate(model, new, NEW, mask=mask, eos=end)[:, new.shape[1] :]
    decode = partial(base().tokenizer.decode, skip_special_tokens=False)
    return [decode(row) for row in said.tolist()]


@torch.no_grad()
def per_byte(model: Any) -> dict[str, float]:
    """Nats per byte of three texts that have nothing to do with dialogues."""
    docs, plays = text.load("python-docs").validation, text.load("shakespeare").validation
    found = {}
    passages = {"documentation": docs[:8000], "plays": plays[:8000], "this book": prose()}
    for name, passage in passages.items():
        ids = torch.tensor(base().tokens(passage))[: ROWS * T].view(ROWS, T)
        rows = torch.cat((torch.tensor(base().start).expand(ROWS, -1), ids), 1)
        nats = 0.0
        with half():
            x = body(model, rows)[:, :-1].flatten(0, 1)
            for some, right in zip(x.split(100), rows[:, 1:].flatten().split(100), strict=True):
                nats += F.cross_entropy(model.lm_head(some).float(), right, reduction="sum").item()
        size = sum(len(base().tokenizer.decode(row.tolist()).encode()) for row in ids)
        found[name] = round(nats / size, 4)
    return found


def timed(measure: Callable[[], Any]) -> dict[str, Any]:
    """What was measured, and the processor's seconds that it took."""
    start = time.process_time()
    return {"found": measure(), "processor seconds": round(time.process_time() - start, 1)}


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {
        "before": runs.get("before", lambda: answered(bare())),
        "said before": runs.get("said", lambda: written(bare())),
        "examples": [runs.get("template/0", lambda: answered(bare(), SHOTS))],
        "plain examples": [
            runs.get(f"plain/{n}", lambda n=n: answered(bare(), SHOTS, n, LINES))
            for n in range(DRAWS)
        ],
        "nats per byte": {"before": runs.get("bytes/before", lambda: per_byte(bare()))},
        "loss": {"before": runs.get("loss/before", lambda: choosing_loss(bare()))},
    }

    def tried(rate: float, seed: int) -> float:
        def run() -> float:
            return choosing_loss(trained(rate, seed))

        return runs.get(f"loss/{rate:g}/{seed}", partial(timed, run))["found"]

    rate, table = STUDY.choose("learning rate", tried)
    found["learning rate"] = rate
    found["loss"]["by learning rate"] = {f"{x:g}": round(y, 4) for x, y in table.items()}

    def after(seed: int) -> dict[str, Any]:
        made = timed(lambda: trained(rate, seed))
        model, seconds = made["found"], made["processor seconds"]
        found: dict[str, Any] = {"answers": answered(model), "nats per byte": per_byte(model)}
        found["said"] = written(model)
        return found | {"loss": choosing_loss(model), "processor seconds": seconds}

    found["after"] = STUDY.report(lambda n: runs.get(f"after/{n}", lambda: after(n)))
    found["questions"] = {kind: len(questions(kind)) for kind in KINDS}
    found["read"] = [[*one] for one in read()]
    found["learns"] = sum(w.numel() for w in prepared(0).parameters() if w.requires_grad)
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
