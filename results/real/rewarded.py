"""Does a reward teach a published model what it could not do, or to say more often what it can?

    ATTNBOOK_GEMMA=folder python results/real/rewarded.py

Question. Gemma 3 270M, which was trained on text alone, reads "47 + 8 = " and says the right sum
now and then. It learns by GRPO with one bit for an answer: are its digits those of the sum? How
much likelier does the right sum of held-out pairs become, how likely is one right answer among k,
and what happens to other sums, to products, and to other text?
Budget. 32 updates of 8 questions with 8 drawn answers each, LoRA of rank 8 beside every hidden
matrix. 120 held-out pairs of a number of two digits and one of a single digit; 60 pairs each of
three other kinds; 400 tokens of each of three texts.
Grid. Rates 0.0003, 0.001 and 0.003, for each way of its own, grown until the best lies inside;
chosen on 60 other pairs, on another seed. Three seeds are reported.
Baselines. No training; eight examples in the prompt; as many updates of supervised learning, with
64 right sums each; the same updates by GRPO with a coin in the reward's place, at the reward's
rate.
Nothing found. The 95 % interval of the mean over pairs of the right sum's likelihood, after less
before, contains 0, or the coin's is as large; for "teaches": one of sixteen drawn answers is right
no more often than before.

The likelihood of a right answer is computed, not drawn: that of its digits, and then of anything
but a digit. So pass@k is 1 - (1 - p)^k, averaged over the questions. Resumed run by run.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

import torch
from real_model import begin, body, finish
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Adam
from tuned import bare, base, half, per_byte, prepared

from attnbook.generate.sampling import generate, sample
from attnbook.train.loop import cosine
from attnbook.train.preferences import advantages, policy_loss
from bookkit.results.protocol import Study
from bookkit.results.statistics import difference

STUDY = Study(
    name="rewarded",
    question="Does a reward teach a published model, or make it say more often what it can?",
    budget="32 updates of 8 questions with 8 answers each",
    grid={"rate": (0.0003, 0.001, 0.003)},
    choosing_seeds=(100,),
    reporting_seeds=range(3),
    baselines=("before", "eight examples", "supervised learning", "a coin in the reward's place"),
    no_gain="the interval of the right sum's likelihood, after less before, contains 0, or the "
    "coin's is as large",
)
UPDATES, QUESTIONS, GROUP, NEW = 32, 8, 8, 4
KS = (1, 4, 16, 64, 256)
CHOOSE, REPORT, OTHER, SHOTS = 60, 120, 60, 8
SIGNS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b
}  # fmt: skip
Pair = tuple[int, int]


@cache
def pairs(kind: str) -> list[Pair]:
    """All questions of a kind, in an order by lot."""
    wide, small, facts = range(10, 100), range(2, 10), range(2, 13)
    found = {
        "two digits + one": product(wide, small),
        "two digits - one": product(wide, small),
        "two digits + two": product(wide, wide),
        "product below 150": product(facts, facts),
    }
    known = list(found[kind])
    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(0)).tolist()
    return [known[i] for i in order]


KINDS = {"two digits + one": "+", "two digits - one": "-", "two digits + two": "+",
         "product below 150": "*"}  # fmt: skip
OWN = "two digits + one"


def part(kind: str, which: str) -> list[Pair]:
    """The pairs to report, to choose by, or to train on."""
    found = pairs(kind)
    if kind != OWN:
        return found[:OTHER]
    ends = {"report": (0, REPORT), "choose": (REPORT, REPORT + CHOOSE)}
    return found[slice(*ends.get(which, (REPORT + CHOOSE, None)))]


def asked(kind: str, pair: Pair) -> str:
    return f"{pair[0]} {KINDS[kind]} {pair[1]} = "


def sum_of(kind: str, pair: Pair) -> str:
    return str(SIGNS[KINDS[kind]](*pair))


@cache
def digits() -> Tensor:
    """The tokens of 0 to 9: this tokenizer cuts numbers into digits."""
    return torch.tensor([base().tokens(str(n))[0] for n in range(10)])


def row(kind: str, pair: Pair, shown: str = "") -> tuple[list[int], list[int]]:
    """Tokens of a question, with the start and examples, and of its answer."""
    question = [*base().start, *base().tokens(shown + asked(kind, pair))]
    answer = [int(digits()[int(n)]) for n in sum_of(kind, pair)]
    return question, answer


@torch.no_grad()
def judged(model: Any, kind: str, which: str = "report", shown: str = "") -> dict[str, Any]:
    """Of each question how likely the right answer is, and how often the likeliest is right."""
    p, greedy = [], []
    rows = [row(kind, pair, shown) for pair in part(kind, which)]
    for some in (rows[i : i + 30] for i in range(0, len(rows), 30)):
        tokens = pad_sequence([torch.tensor(a + b) for a, b in some], batch_first=True)
        with half():
            x = body(model, tokens)
        for at, (question, answer) in zip(x, some, strict=True):
            told = torch.tensor(answer)
            with half():
                logits = model.lm_head(at[len(question) - 1 : len(question) + len(answer)]).float()
            log = logits.log_softmax(-1)
            own = log[:-1].gather(1, told[:, None]).sum()
            p.append((own.exp() * (1 - log[-1, digits()].exp().sum())).item())
            best = logits.argmax(-1)
            greedy.append(bool((best[:-1] == told).all() and best[-1] not in digits()))
    return {"p": [round(x, 4) for x in p], "greedy": round(sum(greedy) / len(greedy), 4)}


def examples() -> str:
    """Eight sums that are trained on, each in a line."""
    return "".join(
        asked(OWN, pair) + sum_of(OWN, pair) + "\n" for pair in part(OWN, "train")[:SHOTS]
    )


def drawn(dice: torch.Generator, n: int) -> list[Pair]:
    """Different pairs to train on."""
    known = part(OWN, "train")
    return [known[i] for i in torch.randperm(len(known), generator=dice)[:n].tolist()]


def log_probs(model: Any, tokens: Tensor, answer: Tensor) -> Tensor:
    """log p of each token of the answers, (B, T − 1), 0 elsewhere; only there are logits made."""
    with half():
        x = body(model, tokens[:, :-1])[answer[:, 1:]]
        logits = model.lm_head(x)
    nats = F.cross_entropy(logits.float(), tokens[:, 1:][answer[:, 1:]], reduction="none")
    found = torch.zeros(answer[:, 1:].shape)
    return found.masked_scatter(answer[:, 1:], -nats)


def by_reward(model: Any, dice: torch.Generator, coin: bool = False) -> tuple[Tensor, float]:
    """The loss of drawn answers by whether they are right, and the share that is."""
    chosen = drawn(dice, QUESTIONS)
    rows = torch.tensor([row(OWN, pair)[0] for pair in chosen]).repeat_interleave(GROUP, 0)
    with torch.no_grad(), half():
        texts = generate(model, rows, NEW, sample(generator=dice))
    said = texts[:, rows.shape[1] :]
    digit = torch.isin(said, digits())
    length = digit.long().cumprod(1).sum(1)  # digits before anything else
    told = [row(OWN, pair)[1] for pair in chosen for _ in range(GROUP)]
    both = zip(said.tolist(), length.tolist(), told, strict=True)
    right = torch.tensor([word[:n] == answer for word, n, answer in both]).float()
    reward = (torch.rand(len(right), generator=dice) < 0.5).float() if coin else right
    place = torch.arange(texts.shape[1]) - rows.shape[1]
    answer = (place >= 0) & (place <= length[:, None])  # and what ends it
    A = advantages(reward.view(-1, GROUP)).flatten()
    return policy_loss(log_probs(model, texts, answer), A, answer[:, 1:]), right.mean().item()


def by_example(model: Any, dice: torch.Generator) -> tuple[Tensor, float]:
    """The loss of as many right sums, each with the end of its line, and how many tokens fit."""
    end, made = base().tokens("\n"), []
    for pair in drawn(dice, QUESTIONS * GROUP):
        question, told = row(OWN, pair)
        made.append((len(question), torch.tensor([*question, *told, *end])))
    tokens = pad_sequence([text for _, text in made], batch_first=True)
    place = torch.arange(tokens.shape[1])
    first = torch.tensor([n for n, _ in made])[:, None]
    last = torch.tensor([len(text) for _, text in made])[:, None]
    answer = (place >= first) & (place < last)
    found = log_probs(model, tokens, answer)[answer[:, 1:]]
    return -found.mean(), found.exp().mean().item()


WAYS: dict[str, Callable[[Any, torch.Generator], tuple[Tensor, float]]] = {
    "reward": by_reward,
    "examples": by_example,
    "coin": partial(by_reward, coin=True),
}


def trained(way: str, rate: float, seed: int) -> tuple[nn.Module, list[float]]:
    """The model after all updates, and of each the share of right answers (tokens, for examples)
    among those that it learned from."""
    model, dice = prepared(seed), torch.Generator().manual_seed(seed)
    optimizer = Adam([w for w in model.parameters() if w.requires_grad], rate)
    pace, line = cosine(UPDATES, 2), []
    for n in range(UPDATES):
        loss, share = WAYS[way](model, dice)
        for group in optimizer.param_groups:
            group["lr"] = rate * pace(n)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        line.append(round(share, 4))
        print(way, f"{rate:g}", seed, n + 1, line[-1], flush=True)
    return model.eval(), line


def pass_at(p: Sequence[float], k: int) -> float:
    """How often one of k drawn answers is right, the mean over questions."""
    return sum(1 - (1 - x) ** k for x in p) / len(p)


def at_k(found: dict[str, Any]) -> dict[str, Any]:
    """pass@k of each run, and how much higher it is than before: the mean over seeds, paired by
    question."""
    before = found["before"][OWN]["p"]
    shown = {"before": [before], "eight examples": [found["eight examples"]["p"]]}
    shown |= {way: [run[OWN]["p"] for run in runs] for way, runs in found["after"].items()}
    made: dict[str, Any] = {"pass@k": {}, "difference": {}}
    for name, runs in shown.items():
        made["pass@k"][name] = {k: [round(pass_at(p, k), 4) for p in runs] for k in KS}
        if name != "before":
            made["difference"][name] = {
                k: difference(
                    [
                        sum(1 - (1 - x) ** k for x in each) / len(each)
                        for each in zip(*runs, strict=True)
                    ],
                    [1 - (1 - x) ** k for x in before],
                    paired=True,
                ).as_dict()
                for k in KS
            }
    return made


def read(model: Any) -> list[str]:
    """What the model says, greedily, to the first ten questions that are reported."""
    rows = torch.tensor([row(OWN, pair)[0] for pair in part(OWN, "report")[:10]])
    with torch.no_grad(), half():
        said = generate(model, rows, 6)[:, rows.shape[1] :]
    return [base().tokenizer.decode(one, skip_special_tokens=False) for one in said.tolist()]


def all_of(model: Any) -> dict[str, Any]:
    """What is reported of a model."""
    found: dict[str, Any] = {kind: judged(model, kind) for kind in KINDS}
    return found | {"nats per byte": per_byte(model), "said": read(model)}


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {
        "before": runs.get("before", lambda: all_of(bare())),
        "eight examples": runs.get("shots", lambda: judged(bare(), OWN, shown=examples())),
    }

    def score(way: str, rate: float, seed: int) -> float:
        def compute() -> dict[str, Any]:
            model, line = trained(way, rate, seed)
            return judged(model, OWN, "choose") | {"line": line}

        return pass_at(runs.get(f"choose/{way}/{rate:g}/{seed}", compute)["p"], 1)

    def after(way: str, rate: float, seed: int) -> dict[str, Any]:
        start = time.process_time()
        model, line = trained(way, rate, seed)
        seconds = time.process_time() - start
        return all_of(model) | {"line": line, "processor seconds": round(seconds, 1)}

    rates, tables = {}, {}
    for way in ("reward", "examples"):
        rates[way], table = STUDY.choose("rate", partial(score, way), higher=True)
        tables[way] = {f"{rate:g}": round(share, 4) for rate, share in table.items()}
    rates["coin"] = rates["reward"]
    found |= {"rates": rates, "by rate": tables, "after": {}}
    for way, rate in rates.items():
        found["after"][way] = STUDY.report(
            lambda n, way=way, rate=rate: runs.get(  # type: ignore[misc]
                f"after/{way}/{n}", lambda: after(way, rate, n)
            )
        )
    found |= at_k(found)
    found["read"] = [asked(OWN, pair) for pair in part(OWN, "report")[:10]]
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
