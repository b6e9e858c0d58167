"""Where a published model half knows the answer, what does one bit of reward add, and at what cost?

    ATTNBOOK_GEMMA=folder python results/real/grpo.py

Question. Gemma 3 270M, which was trained on text alone, is shown four words, each with its form in
-s ("error -> errors"), and is asked for that of other words. About two of five answers are right.
It learns by GRPO with one bit for an answer: is it the word with an s behind it? Is an answer drawn
afterwards right more often than before, and more often than the likeliest answer was before? Are
answers found that eight draws did not find? And, at as many right answers, is less forgotten than
after imitation of the right ones?
Budget. 12 updates of 16 questions, in which each of 192 words is asked once; LoRA of rank 8 beside
every matrix of the last four of 18 blocks: what those below make of a question is computed once.
An answer is one token, a space and small letters, so one pass over examples and questions in one
row (`attnbook.train.shared_prefix`) gives what 16 answers to each question are drawn from, and
their log probabilities; all other tokens are excluded, before training too. 120 held-out words; 60
questions of each of two other kinds, each with four examples of its own in the same form: -ed, and
the first letter; 150 tokens of each of two texts.
Grid. Rates 0.0003, 0.001 and 0.003 for each way of its own, grown until the best lies inside;
chosen by the probability of the right answer to 60 other words, on another seed. Three seeds are
reported.
Baselines, all with the same prompt. No training, drawn and by the likeliest token; supervised
learning, as many updates with the same questions and their right answers; GRPO with a coin in the
reward's place, at the reward's rate; and, for what is forgotten at the same number of right
answers, supervised learning at that one of the tried rates, up to its best, whose probability comes
closest to the reward's on the seed that chooses.
Nothing found. The 95 % interval, paired by question, of the right answer's probability after less
before contains 0, or the coin's is as large. For "more than making the likeliest answer certain":
that of the likeliest answer being right, after less before, contains 0. For "forgets less": that of
the probability of a right form in -ed, after rewards less after the supervised learning that comes
closest, contains 0.

Added when these runs were there: the supervised rate that comes closest was its best, three times
the reward's, and a rate changes what is forgotten by itself. So supervised learning at the reward's
rate is reported too, with the same seeds ("supervised, same rate").

All but the draws of the training is computed, not drawn: the right answer's probability is how
often a drawn answer is right, and pass@8 is the mean of 1 - (1 - p)^8. Entropy and the divergence
from the model before are those of the answer's distribution, exactly. 32 bits, one thread. Resumed
run by run.
"""

import re
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import accumulate
from typing import Any

import torch
from real_model import begin, finish, gemma, nats
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam

from attnbook.block import Stack
from attnbook.data import dialogues, text
from attnbook.masks import causal
from attnbook.train import lora
from attnbook.train.loop import cosine
from attnbook.train.preferences import advantages, policy_loss
from attnbook.train.shared_prefix import Tree, tree, tree_logits
from attnbook.transformer import LanguageModel
from bookkit.results.protocol import Study
from bookkit.results.statistics import difference

STUDY = Study(
    name="grpo",
    question="Where a published model half knows the answer, what does one bit of reward add?",
    budget="12 updates of 16 questions with 16 answers each",
    grid={"rate": (0.0003, 0.001, 0.003)},
    choosing_seeds=(100,),
    reporting_seeds=range(3),
    baselines=("before", "the likeliest answer before", "supervised learning",
               "a coin in the reward's place", "supervised learning at as many right answers"),
    no_gain="the interval of the right answer's probability, after less before, contains 0, or "
    "the coin's is as large",
)  # fmt: skip
UPDATES, QUESTIONS, GROUP, RANK = 12, 16, 16, 8
BELOW = 14  # blocks that stay as they are
SHOWN, REPORT, CHOOSE, TRAIN, OTHER, T, K = 4, 120, 60, 192, 60, 150, 8
KINDS: dict[str, Callable[[str], str]] = {
    "-s": lambda word: f"{word}s",
    "-ed": lambda word: f"{word}ed",
    "first letter": lambda word: word[0],
}
OWN = "-s"
PARTS = {kind: ("report", "choose", "train") if kind == OWN else ("report",) for kind in KINDS}
Words = list[str]


@cache
def answers() -> dict[int, int]:
    """The tokens that may be an answer, a space and small letters, each with its place."""
    words = re.compile("▁[a-z]+")
    found = (n for word, n in gemma().tokenizer.get_vocab().items() if words.fullmatch(word))
    return {token: place for place, token in enumerate(sorted(found))}


def told(kind: str, word: str) -> int | None:
    """The place of the right answer among all; None if it takes more than one token."""
    found = gemma().tokens(f" {KINDS[kind](word)}")
    return answers().get(found[0]) if len(found) == 1 else None


@cache
def words(kind: str) -> Words:
    """All words whose answer is one token, in an order by lot."""
    known, unseen = dialogues.words()
    found = [word for word in sorted(known + unseen) if told(kind, word) is not None]
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(0)).tolist()
    return [found[i] for i in order]


def part(kind: str, which: str = "report") -> Words:
    """The words to show, to report, to choose by, or to train on."""
    if kind != OWN:
        return words(kind)[:SHOWN] if which == "show" else words(kind)[SHOWN : SHOWN + OTHER]
    ends = (0, *accumulate((SHOWN, REPORT, CHOOSE, TRAIN)))
    at = ("show", "report", "choose", "train").index(which)
    return words(kind)[ends[at] : ends[at + 1]]


def row(kind: str, questions: Words) -> Tree:
    """Examples and then all questions, each of which sees the examples alone."""
    encode = gemma().tokens
    lines = "".join(f"{word} -> {KINDS[kind](word)}\n" for word in part(kind, "show"))
    first = [*gemma().start, *encode(lines)]
    ends = [encode(f"{word} ->") for word in questions]
    return tree([first, *ends], [-1] + [0] * len(ends))


@cache
@torch.no_grad()
def lower(kind: str) -> dict[str, Tensor]:
    """What the lower blocks make of the examples (""), and of each question behind them, (T, C)."""
    model = gemma().model
    found: dict[str, Tensor] = {}
    stack = Stack(list(model.body.blocks[:BELOW]))
    asked = [word for which in PARTS[kind] for word in part(kind, which)]
    for some in (asked[i : i + 100] for i in range(0, len(asked), 100)):
        packed = row(kind, some)
        plain = LanguageModel(model.embed, stack, nn.Identity())
        x = tree_logits(plain, packed, torch.arange(len(packed.segment)))
        sizes = packed.segment.bincount().tolist()
        found |= dict(zip(["", *some], x.split(sizes), strict=True))
    return found


@cache
def upper() -> LanguageModel:
    """The last blocks, the norm and the rows of the output layer that are answers: what reads what
    `lower` gives."""
    whole = gemma().model
    stack = Stack(list(whole.body.blocks[BELOW:]), whole.body.norm)
    lm_head = nn.Linear(whole.embed.tokens.embedding_dim, len(answers()), bias=False)
    lm_head.weight = nn.Parameter(whole.lm_head.weight[list(answers())], requires_grad=False)
    return LanguageModel(nn.Identity(), stack, lm_head)


def asked(model: Any, kind: str, questions: Words) -> tuple[Tensor, Tensor]:
    """log p of every answer, (questions, answers), and the places of the right ones."""
    packed, given = row(kind, questions), lower(kind)
    x = torch.cat([given[word] for word in ("", *questions)])[None]
    logits = tree_logits(model, packed, packed.ends[1:], x)
    return logits.log_softmax(-1), torch.tensor([told(kind, word) for word in questions])


def bare() -> nn.Module:
    """The upper blocks without low-rank parts."""
    model = upper()
    for name, low in lora.adapters(model).items():
        model.set_submodule(name, low.base)
    return model


def prepared(seed: int) -> nn.Module:
    """The upper blocks with new low-rank parts."""
    model = bare()
    torch.manual_seed(seed)
    return lora.wrap(model, RANK)


def by_reward(
    model: Any, questions: Words, dice: torch.Generator, coin: bool = False
) -> tuple[Tensor, float]:
    """The loss of drawn answers by whether they are right, and the share that is."""
    log, right = asked(model, OWN, questions)
    said = torch.multinomial(log.detach().exp(), GROUP, replacement=True, generator=dice)
    hits = (said == right[:, None]).float()
    reward = torch.randint(2, hits.shape, generator=dice).float() if coin else hits
    chosen = log.gather(1, said)  # each answer is one token: (questions, GROUP)
    loss = policy_loss(chosen, advantages(reward), torch.ones_like(said, dtype=torch.bool))
    return loss, hits.mean().item()


def by_example(model: Any, questions: Words, dice: torch.Generator) -> tuple[Tensor, float]:
    """The loss of the right answers, and their mean probability."""
    log, right = asked(model, OWN, questions)
    return F.nll_loss(log, right), log.gather(1, right[:, None]).exp().mean().item()


WAYS: dict[str, Callable[[Any, Words, torch.Generator], tuple[Tensor, float]]] = {
    "reward": by_reward,
    "supervised": by_example,
    "coin": partial(by_reward, coin=True),
}


def trained(way: str, rate: float, seed: int) -> tuple[nn.Module, list[float]]:
    """The model after all updates, and of each the share of right answers before it."""
    model, dice = prepared(seed), torch.Generator().manual_seed(seed)
    order = torch.Generator().manual_seed(seed)  # the same questions for each way
    optimizer = Adam([w for w in model.parameters() if w.requires_grad], rate)
    pace, known, line = cosine(UPDATES, 2), part(OWN, "train"), []
    for n, chosen in enumerate(torch.randperm(TRAIN, generator=order).split(QUESTIONS)):
        loss, share = WAYS[way](model, [known[i] for i in chosen.tolist()], dice)
        for group in optimizer.param_groups:
            group["lr"] = rate * pace(n)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        line.append(round(share, 4))
    return model.eval(), line


@torch.no_grad()
def chances(model: Any, kind: str, which: str = "report") -> list[float]:
    """How likely the right answer is to each question of a kind."""
    log, right = asked(model, kind, part(kind, which))
    return rounded(log.gather(1, right[:, None])[:, 0].exp())


def rounded(x: Tensor) -> list[float]:
    return [round(value, 4) for value in x.tolist()]


@cache
def start() -> Tensor:
    """log p of every answer to the reported questions before training."""
    with torch.no_grad():
        return asked(bare(), OWN, part(OWN))[0]


@cache
@torch.no_grad()
def passages() -> dict[str, tuple[Tensor, Tensor, int]]:
    """Of two texts that have nothing to do with the words: what the lower blocks make of them,
    their tokens, and their size in bytes."""
    docs, plays = text.load("python-docs").validation, text.load("shakespeare").validation
    model = gemma().model
    found: dict[str, tuple[Tensor, Tensor, int]] = {}
    stack = Stack(list(model.body.blocks[:BELOW]))
    for name, passage in {"documentation": docs, "plays": plays}.items():
        ids = gemma().tokens(passage[:4000])[:T]
        x = stack(model.embed(torch.tensor([[*gemma().start, *ids[:-1]]])), mask=causal)
        found[name] = x, torch.tensor(ids), len(gemma().tokenizer.decode(ids).encode())
    return found


@torch.no_grad()
def per_byte(model: Any) -> dict[str, float]:
    """Nats per byte of the two texts, by the whole output layer."""
    whole = gemma().model
    return {
        name: round(nats(whole, model.body(x, mask=causal)[0], ids).sum().item() / size, 4)
        for name, (x, ids, size) in passages().items()
    }


@torch.no_grad()
def judged(model: Any) -> dict[str, Any]:
    """What is reported of a model."""
    log, right = asked(model, OWN, part(OWN))
    p, best, names = log.exp(), log.argmax(-1), list(answers())
    found = {
        "p": rounded(log.gather(1, right[:, None])[:, 0].exp()),
        "greedy": "".join(str(int(hit)) for hit in best == right),
        "entropy": rounded(-(p * log).sum(-1)),
        "divergence": rounded((p * (log - start())).sum(-1)),
        "said": [gemma().word(names[place]).strip() for place in best[:10].tolist()],
        "other": {kind: chances(model, kind) for kind in KINDS if kind != OWN},
    }
    return found | {"nats per byte": per_byte(model)}


def gained(found: dict[str, Any]) -> dict[str, Any]:
    """How much each way changed, and rewards beside the supervised learning that comes closest and
    that at the same rate: the mean over seeds, paired by question."""

    def values(run: dict[str, Any], what: str) -> list[float]:
        measures = {
            "p": lambda: run["p"],
            "greedy": lambda: [float(mark) for mark in run["greedy"]],
            f"pass@{K}": lambda: [1 - (1 - p) ** K for p in run["p"]],
        }
        return measures[what]() if what in measures else run["other"][what]

    def mean(runs: list[dict[str, Any]], what: str) -> list[float]:
        each = zip(*(values(run, what) for run in runs), strict=True)
        return [sum(some) / len(some) for some in each]

    made: dict[str, Any] = {}
    measured = ("p", "greedy", f"pass@{K}", *(kind for kind in KINDS if kind != OWN))
    pairs = {way: (runs, [found["before"]]) for way, runs in found["after"].items()}
    for way in ("supervised, matched", "supervised, same rate"):
        pairs[f"reward less {way}"] = found["after"]["reward"], found["after"][way]
    for name, (runs, other) in pairs.items():
        made[name] = {
            what: difference(mean(runs, what), mean(other, what), paired=True).as_dict()
            for what in measured
        }
    return made


def main() -> None:
    said, runs = begin(STUDY, __file__)
    start()  # made by the bare model, so before there is anything that learned
    found: dict[str, Any] = {"before": runs.get("before", lambda: judged(bare()))}

    def score(way: str, rate: float, seed: int) -> float:
        def compute() -> float:
            p = chances(trained(way, rate, seed)[0], OWN, "choose")
            return round(sum(p) / len(p), 4)

        return runs.get(f"choose/{way}/{rate:g}/{seed}", compute)

    def after(way: str, rate: float, seed: int) -> dict[str, Any]:
        begun = time.process_time()
        model, line = trained(way, rate, seed)
        seconds = round(time.process_time() - begun, 1)
        return judged(model) | {"line": line, "processor seconds": seconds}

    rates: dict[str, float] = {}
    tables: dict[str, dict[float, float]] = {}
    for way in ("reward", "supervised"):
        rates[way], tables[way] = STUDY.choose("rate", partial(score, way), higher=True)
    rates["coin"] = rates["reward"]
    aim = tables["reward"][rates["reward"]]
    usable = {r: p for r, p in tables["supervised"].items() if r <= rates["supervised"]}
    rates["supervised, matched"] = min(usable, key=lambda rate: abs(usable[rate] - aim))
    rates["supervised, same rate"] = rates["reward"]
    found |= {"rates": rates, "by rate": tables, "after": {}}
    for name, rate in rates.items():
        way = name.partition(",")[0]
        found["after"][name] = STUDY.report(
            lambda n, way=way, rate=rate: runs.get(  # type: ignore[misc]
                f"after/{way}/{rate:g}/{n}", lambda: after(way, rate, n)
            )
        )
    found["difference"] = gained(found)
    found["read"] = part(OWN)[:10]
    found["questions"] = {"report": REPORT, "choose": CHOOSE, "train": TRAIN}
    found["answers"] = len(answers())
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
