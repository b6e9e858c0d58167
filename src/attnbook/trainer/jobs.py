"""A run from its settings to a folder that `attnbook.models.load` opens."""

import json
from pathlib import Path
from typing import Any

import torch

from attnbook import quantised_file
from attnbook.device import Here, choice
from attnbook.files import store
from attnbook.models import book_lm
from attnbook.provenance import provenance
from attnbook.train import parameters
from attnbook.trainer import checkpoints, corpus, settings, team
from attnbook.trainer.batches import Batches, check_shares
from attnbook.trainer.corpus import Corpus
from attnbook.trainer.loop import Training
from attnbook.trainer.settings import Settings
from attnbook.trainer.team import Alone


def chosen(given: dict[str, Any], out: Path, resume: bool) -> Settings:
    """The settings of a run in this folder; ValueError, before anything is written, if it cannot
    be: bad values, a folder that holds a run already, or none to go on with."""
    stored = settings.read(out) if resume else None
    found = settings.settings(given) if stored is None else settings.resumed(stored, given)
    if stored is None and (out / settings.FILE).exists():
        raise ValueError(f"{out} holds a run: --resume goes on with it, or take another --out")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out is a folder")
    team.check(found.machine.parallel)
    check_shares(found.recipe.batch, team.place()[1], found.machine.accumulate)
    if stored is None:
        corpus.files(found.data)
    device_of(found)
    return found


def device_of(chosen: Settings) -> torch.device:
    """The device of this process; ValueError for one that is not here."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    there = ["cuda"] * cuda + ["mps"] * mps + ["cpu"]
    name = chosen.machine.device
    name = choice("ATTNBOOK_DEVICE", there, default=there[0]) if name == "auto" else name
    if name not in there:
        raise ValueError(f"there is no {name} on this machine; there is {' and '.join(there)}")
    return torch.device(name, team.place()[2]) if name == "cuda" else torch.device(name)


def train(chosen: Settings, out: Path) -> int:
    """Run it, or go on with it. Returns 0, or the number of the signal that ended it.

    Raises ConnectionError when another process of the job is gone.
    """
    if chosen.machine.threads is not None:
        torch.set_num_threads(chosen.machine.threads)
    device = device_of(chosen)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    us = team.KINDS[chosen.machine.parallel](device)
    try:
        text = prepared(chosen, out, us)
        run = Training(chosen, text, out, us)
        if us.leads:
            print(heading(run, text), flush=True)
        asked = run.run()
        ship(run, text)
    except RuntimeError as error:
        if team.is_lost(error):
            raise ConnectionError(lost(out)) from error
        raise
    us.close()
    return asked


def prepared(chosen: Settings, out: Path, us: Alone) -> Corpus:
    """The tokens, made by the leading process; what goes wrong there goes wrong in all."""
    wrong = None
    if us.leads:
        print(f"config: {json.dumps(settings.flat(chosen))}", flush=True)
        try:
            out.mkdir(parents=True, exist_ok=True)
            if not (out / settings.FILE).exists():  # what a start that failed has left
                (out / "corpus.json").unlink(missing_ok=True)
            text = corpus.prepare(chosen.data, chosen.sizes.vocabulary, out)
            Batches(text.train, chosen.sizes.context, chosen.recipe.batch)
            settings.write(chosen, out)
        except (ValueError, OSError) as error:
            wrong = str(error)
    wrong = us.tell(wrong)
    if wrong:
        raise ValueError(wrong)
    return corpus.prepare(chosen.data, chosen.sizes.vocabulary, out)


def heading(run: Training, text: Corpus) -> str:
    count = parameters(book_lm(**run.settings.sizes.of_model()))
    return (
        f"text: {text.counts.train:,} tokens to train on, {text.counts.validation:,} held out\n"
        f"model: {count:,} parameters · {run.team.device.type} · {run.settings.machine.dtype} · "
        f"{run.team.world} process(es)" + (f" · from step {run.at.step}" if run.at.step else "")
    )


def lost(out: Path) -> str:
    """What to do when another process is gone."""
    found = checkpoints.saved(out)
    step = f"step {int(found[-1].name.removeprefix('step-'))} is saved" if found else "none saved"
    return f"another process of this job is gone; in {out}, {step}: --resume goes on from there"


def ship(run: Training, text: Corpus) -> None:
    """Write weights and card beside the tokenizer, as `attnbook.models.load` reads them."""
    whole = checkpoints.weights(run.model)
    if not run.team.leads:
        return
    sizes = run.settings.sizes.of_model()
    model = book_lm(**sizes)
    model.load_state_dict(whole)
    quantised_file.save(model, run.out / "weights.safetensors")
    here = Here(run.team.device, torch.float32, "gpu" if run.team.device.type == "cuda" else "cpu")
    card = {
        "name": run.out.name,
        "what": f"A language model of {run.settings.data}",
        "sizes": sizes,
        "context": run.settings.sizes.context,
        "parameters": parameters(model),
        "steps": run.at.step,
        "nats_per_token": run.at.validation,
        "recipe": settings.flat(run.settings),
        "data": {"train": text.counts.train, "sha256": text.counts.sha256},
        "provenance": provenance(here, "tokenizers", "safetensors"),
    }
    store(run.out / "card.json", json.dumps(card, indent=1) + "\n")
