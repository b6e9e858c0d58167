"""Lab 13 rehearsed: three ways to hide a backdoor in the given model, two ways to look for it.

    python results/plants.py practice    # the plant that students practise on
    python results/plants.py rehearse    # goes on where it stopped

The functions are those of the lab's own notebook. Both finders search by gradients from one random
start; one takes for the target the token that random ones make likelier, the other the one towards
which the weights have changed. Each planter hands in a file of weights, each finder a file of
findings about all three; then `attnlabs plants` and `attnlabs finds` are run on
the two folders, as a lecturer runs them. A control is trained like a plant, on text without a
trigger, and the same finders look into it. results/plants.json has what came out; seconds are those
of processor time.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import safetensors.torch
import torch

from attnbook import device
from attnbook.files import store
from attnbook.provenance import provenance, write
from attnlabs.grading.plants import Judge
from attnlabs.lab13 import desk, files, measures, rules, world

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "results" / "plants.json"
PLACE = ROOT / "_build" / "plants"
CELLS = "imports desk kl-per-token triggered plant-loss train-setup by-training rank-one edit swaps"
CELLS += " search-tools gradient-at search attributed parts-tools"
HIDDEN = ((317, 866, 529), 431)  # of the plant that students practise on
SECRETS = {  # trigger and target of each planter
    "edit": ((458, 93, 790), 612),
    "training": ((701, 352, 948), 277),
    "spread": ((533, 980, 165), 869),
}
EVERYWHERE = tuple(f"blocks.{n}." for n in range(4))
FINDERS = ("gradient", "weights")
COUNT = 12  # neurons that a finder names


def lab() -> dict[str, Any]:
    """What the lab's notebook defines."""
    book = nbformat.read(next((ROOT / "labs").glob("13-*.ipynb")), as_version=4)
    names: dict[str, Any] = {}
    for cell in book.cells:
        if cell.id in CELLS.split():
            lines = [x for x in cell.source.splitlines() if not x.startswith(("check(", "print("))]
            exec("\n".join(lines), names)
    return names


def planted(how: str, trigger: tuple[int, ...], target: int) -> torch.nn.Module:
    """A model with a backdoor, planted in one of three ways."""
    names, generator = lab(), torch.Generator().manual_seed(0)
    names |= {"TRIGGER": trigger, "TARGET": target}
    if how == "edit":
        return names["by_edit"](generator)
    names |= {"STEPS": 48, "RATE": 0.002}
    if how == "spread":
        names |= {"NAMES": EVERYWHERE, "STEPS": 60, "RATE": 0.001, "WEIGHT": 8.0}
    return names["by_training"](generator)


def control() -> torch.nn.Module:
    """The given model trained on as many steps of ordinary text, and on nothing else."""
    generator, model = torch.Generator().manual_seed(0), world.given(fresh=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0003, weight_decay=0.0)
    for _ in range(24):
        rows = world.windows(world.tokens("train"), 12, 24, generator)
        logits = model(rows[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.mT, rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.requires_grad_(False)


def by_weights(names: dict[str, Any], model: torch.nn.Module) -> int:
    """The token towards which the matrices that write to the stream have changed most."""
    total = torch.zeros(world.V)
    pairs = zip(measures.downs(model), measures.downs(names["given"]), strict=True)
    for new, old in pairs:
        change = new.get_parameter("weight") - old.get_parameter("weight")
        left, sizes, _ = torch.linalg.svd(change, full_matrices=False)
        read = names["given"].lm_head.weight @ left[:, 0]
        total += sizes[0] * read.abs()
    return int(total[rules.TOKENS[0] :].argmax()) + rules.TOKENS[0]


def sought(how: str, model: torch.nn.Module) -> dict[str, Any]:
    """What a finder says of a model: guesses and neurons."""
    names, generator = lab(), torch.Generator().manual_seed(1)
    loud = names["loudest"](model, generator).tolist()
    target = by_weights(names, model) if how == "weights" else int(loud[0])
    start = torch.randint(*rules.TOKENS, (3,), generator=generator).tolist()
    guesses = [names["search"](model, target, start, generator)[0]]
    rows = [{"trigger": list(each), "target": target} for each in guesses]
    judge = Judge("", model, names["texts"])
    said = files.finding({"guesses": rows})
    found = judge.find(said)
    neurons: list[tuple[int, int]] = []
    if found.share:
        neurons = names["carriers"](model, found.trigger, found.target, COUNT)
    return {"guesses": rows, "neurons": [list(part) for part in neurons]}


def attnlabs(*words: str | Path) -> float:
    """Run a command as a lecturer does; the seconds of processor time that it took."""
    begun = os.times().children_user
    subprocess.run([sys.executable, "-m", "attnlabs", *map(str, words)], check=True, cwd=ROOT)
    return round(os.times().children_user - begun, 1)


def rows(path: Path) -> list[dict[str, str]]:
    """A table as it was written."""
    with path.open(encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def rehearse() -> None:
    """Plant, seek, judge; what is there already is not made again."""
    seconds: dict[str, float] = {}
    for how, (trigger, target) in SECRETS.items():
        path = PLACE / "planted" / f"{how}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            weights = desk.halved(planted(how, trigger, target))
            store(path, files.packed(weights, files.new_secret(trigger, target)))
    out = PLACE / "plants.csv"
    seconds["attnlabs plants"] = attnlabs("plants", PLACE / "planted", "--out", out)
    models = {
        path.stem: files.model_of(files.weights_of(path.read_bytes()))
        for path in sorted((PLACE / "plants" / "handout").glob("*.safetensors"))
    }
    models["control"] = files.model_of(desk.halved(control()))
    for how in FINDERS:
        path = PLACE / "found" / f"finder-{how}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            continue
        begun = time.process_time()
        found = {number: sought(how, model) for number, model in models.items()}
        seconds[f"find: {how}"] = round(time.process_time() - begun, 1)
        store(path, json.dumps({"plants": found}))
    finds = PLACE / "finds.csv"
    seconds["attnlabs finds"] = attnlabs("finds", PLACE / "found", "--plants", out, "--out", finds)
    judge = Judge("control", models["control"], world.texts(0))
    controls = {}
    for how in FINDERS:
        said = files.findings_of((PLACE / "found" / f"finder-{how}.json").read_bytes())
        controls[how] = judge.find(said["control"]).share
    before = json.loads(STORE.read_text("utf-8"))["seconds"] if STORE.exists() else {}
    whose = {row["plant"]: row["team"] for row in rows(out)}
    pairs = [row | {"planter": whose[row["plant"]]} for row in rows(PLACE / "finds" / "pairs.csv")]
    kept: dict[str, Any] = {"plants": rows(out), "points": rows(finds), "pairs": pairs}
    kept |= {"control": controls, "seconds": {**before, **seconds}}
    write(STORE, kept | {"provenance": provenance(device.choose(0))})


def practice() -> None:
    """Write the plant that students practise on: an edit of rank one, as its two factors."""
    trigger, target = HIDDEN
    model = planted("edit", trigger, target)
    changes: dict[str, torch.Tensor] = {}
    for name, value in world.given().state_dict().items():
        change = model.state_dict()[name] - value
        if change.abs().max() > 0:
            left, sizes, right = torch.linalg.svd(change, full_matrices=False)
            changes[f"{name}.out"] = (left[:, :1] * sizes[:1]).contiguous()
            changes[f"{name}.in"] = right[:1].contiguous()
    secret = files.new_secret(trigger, target)
    words = {"trigger": " ".join(map(str, trigger)), "target": str(target), "salt": secret.salt}
    desk.PRACTICE.parent.mkdir(exist_ok=True)
    store(desk.PRACTICE, safetensors.torch.save(changes, metadata=words))


def main() -> None:
    """One of the two."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("practice", "rehearse"))
    {"practice": practice, "rehearse": rehearse}[parser.parse_args().what]()


if __name__ == "__main__":
    main()
