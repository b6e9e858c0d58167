"""How many examples does a published model need, and do their answers matter?

    ATTNBOOK_GEMMA=folder python results/real/few_shots.py

Question. Four small tasks, shown by 0 to 8 examples: how often is the right answer's first token
the likeliest, and how often if the examples' answers are dealt out wrongly?
Budget. Twelve questions of each task for each of two draws of examples.
Baselines. No example; examples whose answers are dealt out wrongly; the book's model.
Nothing found. Eight examples are right no more often than none, or than eight wrong ones.
"""

from functools import partial
from typing import Any

import torch
from real_model import Studied, begin, body, both, finish

from bookkit.results.protocol import Study

STUDY = Study(
    name="few_shots",
    question="How many examples does a published model need, and do their answers matter?",
    budget="twelve questions of each of four tasks for each of two draws of examples",
    reporting_seeds=range(2),
    baselines=("no example", "examples with wrong answers", "book-lm"),
    no_gain="eight examples are right no more often than none, or than eight wrong ones",
)
SHOTS, QUESTIONS = (0, 1, 2, 4, 8), 12
TASKS = {
    "English to French": (
        "cat chat, dog chien, house maison, water eau, bread pain, book livre, red rouge, "
        "green vert, king roi, queen reine, milk lait, fish poisson, night nuit, day jour, "
        "tree arbre, sun soleil, moon lune, friend ami, school école, hand main"
    ),
    "country to capital": (
        "France Paris, Germany Berlin, Italy Rome, Spain Madrid, Japan Tokyo, Russia Moscow, "
        "China Beijing, Egypt Cairo, Greece Athens, Austria Vienna, Poland Warsaw, Cuba Havana, "
        "Norway Oslo, Portugal Lisbon, Ireland Dublin, Peru Lima, Kenya Nairobi, Turkey Ankara, "
        "Sweden Stockholm, Hungary Budapest"
    ),
    "opposites": (
        "hot cold, big small, up down, left right, day night, good bad, fast slow, old young, "
        "rich poor, open closed, black white, high low, early late, hard soft, wet dry, "
        "full empty, true false, light dark, first last, strong weak"
    ),
    "first letter, capital": (
        "cat C, dog D, house H, water W, bread B, green G, king K, queen Q, milk M, fish F, "
        "night N, tree T, sun S, moon M, apple A, river R, lemon L, paper P, orange O, voice V"
    ),
}


def pairs(task: str) -> list[tuple[str, str]]:
    """The questions of a task with their answers."""
    return [(a, b) for a, b in (pair.split() for pair in TASKS[task].split(", "))]


def right(studied: Studied, task: str, shots: int, seed: int, wrong: bool = False) -> float:
    """How often the answer's first token is the likeliest after so many examples, one in a line."""
    known, texts = pairs(task), []
    dice = torch.Generator().manual_seed(seed)
    for question, _ in known[:QUESTIONS]:
        order = torch.randperm(len(known), generator=dice).tolist()
        shown = [known[i] for i in order if known[i][0] != question][:shots]
        answers = [b for _, b in shown]
        if wrong:
            answers = answers[1:] + answers[:1]
        lines = [f"{a} → {b}" for (a, _), b in zip(shown, answers, strict=True)]
        texts.append([*studied.start, *studied.tokens("\n".join([*lines, f"{question} →"]))])
    ends = torch.tensor([len(text) - 1 for text in texts])
    whole = max(map(len, texts))  # what stands behind the end of a prompt it does not see
    rows = torch.tensor([text + [0] * (whole - len(text)) for text in texts])
    with torch.no_grad():
        last = body(studied.model, rows)[torch.arange(QUESTIONS), ends]
        said = studied.model.lm_head(last).argmax(-1).tolist()
    told = [studied.tokens(f" {answer}")[0] for _, answer in known[:QUESTIONS]]
    return round(sum(a == b for a, b in zip(said, told, strict=True)) / QUESTIONS, 4)


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {}
    for studied in both():
        name = studied.name
        found[name] = {"right": {}, "wrong answers shown": {}}
        for task in TASKS:
            for wrong, key in ((False, "right"), (True, "wrong answers shown")):
                found[name][key][task] = {
                    str(shots): [
                        runs.get(
                            f"{name}/{task}/{key}/{shots}/{seed}",
                            partial(right, studied, task, shots, seed, wrong),
                        )
                        for seed in STUDY.reporting_seeds
                    ]
                    for shots in (SHOTS if not wrong else SHOTS[-1:])
                }
    found["tasks"] = {task: len(pairs(task)) for task in TASKS}
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
