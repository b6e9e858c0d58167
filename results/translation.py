"""Train one translator on one corpus, translate the test set, measure BLEU, store the run.

    python results/translation.py --corpus multi30k-de-en --model bahdanau_2015
    python results/translation.py --corpus multi30k-de-en --model vaswani_2017

The result goes to results/translation/. An interrupted run resumes where it was when the same
command is given again. Options left out are those of the model's plan below. A transformer's
translations are searched in two ways: greedily, as the others' ("bleu"), and with beams.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor, nn

from attnbook import device, seq2seq
from attnbook.data import pairs, translations
from attnbook.data.vocabulary import BEGIN, END
from attnbook.generate.search import beam_search, greedy_search
from attnbook.losses import parameters, token_loss
from attnbook.models.vaswani import vaswani_2017
from attnbook.provenance import provenance
from attnbook.train.loop import cosine, train
from attnbook.train.run import History
from attnbook.transformer import EncoderDecoder
from bookkit.results import study
from bookkit.results.study import Config

RECURRENT = {"cho_2014": seq2seq.cho_2014, "bahdanau_2015": seq2seq.bahdanau_2015}
TRANSFORMERS = {"vaswani_2017": vaswani_2017}
PLAN = {"epochs": 10, "batch": 128, "embed": 256, "width": 256, "dropout": 0.5, "lr": 1e-3}
SIZES = {"width": 256, "depth": 3, "heads": 8, "hidden": 512, "dropout": 0.2}
TRANSFORMER_PLAN = {"epochs": 14, "batch": 64, **SIZES}
TRANSFORMER_PLAN |= {"smoothing": 0.1, "lr": 1e-3, "floor": 0.01, "beams": 4, "alpha": 0.6}
PLANS = dict.fromkeys(RECURRENT, PLAN) | dict.fromkeys(TRANSFORMERS, TRANSFORMER_PLAN)
Translator = seq2seq.Seq2Seq | EncoderDecoder


def build(config: Config, corpus: pairs.Pairs) -> Translator:
    """The model that `config` describes, with random weights."""
    V = len(corpus.source), len(corpus.target)
    if config["model"] in RECURRENT:
        sizes = (config[name] for name in ("embed", "width", "dropout"))
        return RECURRENT[config["model"]](*V, *sizes)
    return TRANSFORMERS[config["model"]](*V, **{name: config[name] for name in SIZES})


def optimizer(config: Config, model: nn.Module) -> torch.optim.Optimizer | None:
    """Vaswani et al. 2017, section 5.3, for a transformer; torch's Adam for the others."""
    if config["model"] in RECURRENT:
        return None
    return torch.optim.Adam(model.parameters(), config["lr"], betas=(0.9, 0.98), eps=1e-9)


def loss(model: nn.Module, batch: pairs.Batch, smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy of the target's tokens, in nats."""
    found = model(batch.source, batch.source_mask, batch.target_in)
    logits = found[0] if isinstance(found, tuple) else found
    return token_loss(logits, batch.target_out, batch.target_mask, smoothing)


def validation_loss(model: nn.Module, corpus: pairs.Pairs, B: int, device: torch.device) -> float:
    """Mean cross-entropy over all tokens of the validation set, in nats."""
    total, count = 0.0, 0
    for batch in pairs.batches_in_order(corpus.validation, corpus.source, corpus.target, B):
        batch = batch.to(device)
        tokens = int(batch.target_mask.sum())
        total, count = total + loss(model, batch).item() * tokens, count + tokens
    return total / count


@torch.no_grad()
def search(
    model: Translator, batch: pairs.Batch, limit: int, beams: int = 1, alpha: float = 0.0
) -> Tensor:
    """The tokens found for each source of the batch: the likeliest at each step, or with beams."""
    if isinstance(model, seq2seq.Seq2Seq):
        return model.greedy(batch.source, batch.source_mask, BEGIN, END, limit)[0]
    memory = model.encode(batch.source, batch.source_mask).repeat_interleave(beams, 0)
    mask = batch.source_mask.repeat_interleave(beams, 0)
    start = batch.source.new_full((len(batch.source), 1), BEGIN)

    def next_logits(tokens: Tensor) -> Tensor:
        return model.decode(tokens, memory, mask)[:, -1]

    if beams == 1:
        return greedy_search(next_logits, start, END, limit)
    return beam_search(next_logits, start, END, limit, beams, alpha)


def translate(
    model: Translator,
    corpus: pairs.Pairs,
    B: int,
    device: torch.device,
    limit: int = 60,
    **how: Any,
) -> list[str]:
    """The sources of the test set translated, as texts, in their order."""
    found = []
    for batch in pairs.batches_in_order(corpus.test, corpus.source, corpus.target, B):
        rows = search(model, batch.to(device), limit, **how)
        found += [translations.join(corpus.target.decode(row)) for row in rows]
    return found


def fit(
    model: Translator, config: Config, corpus: pairs.Pairs, here: device.Here, checkpoint: Path
) -> History:
    """Train as `config` says; the validation loss is taken once an epoch."""
    B, epochs = config["batch"], config["epochs"]
    steps = epochs * len(corpus.train) // B
    history = train(
        model,
        pairs.sampler(corpus.train, corpus.source, corpus.target, B),
        partial(loss, smoothing=config.get("smoothing", 0.0)),
        steps=steps,
        lr=config["lr"],
        optimizer=optimizer(config, model),
        schedule=cosine(steps, warmup=steps // 20, floor=config.get("floor", 0.1)),
        seed=config["seed"],
        evaluate=partial(validation_loss, corpus=corpus, B=B, device=here.device),
        every=max(1, steps // epochs),
        checkpoint=checkpoint,
        precision=here.autocast,
    )
    return study.complete(history)


def measure(config: Config, checkpoint: Path) -> dict:
    """Train and test as `config` says; what is returned is what is stored."""
    here = device.choose(config["seed"])
    corpus = pairs.load(config["corpus"])
    model = build(config, corpus).to(here.device)
    history = fit(model, config, corpus, here, checkpoint)
    model.eval()
    steps = config["epochs"] * len(corpus.train) // config["batch"]
    return {"config": config, "parameters": parameters(model), "steps": steps} | {
        **scores(config, model, corpus, here.device),
        "training_seconds": round(history.seconds),
        "validation": study.curve(history),
        "provenance": provenance(here, "sacrebleu", "numpy"),
    }


def bleu(metric: BLEU, texts: list[str], corpus: pairs.Pairs) -> float:
    """The score on the test set; None stands for a reference that a source does not have."""
    # So sacrebleu's manual says; its types know no None.
    found = metric.corpus_score(texts, corpus.test_references)  # type: ignore[arg-type]
    return round(found.score, 2)


def scores(config: Config, model: Translator, corpus: pairs.Pairs, device: torch.device) -> dict:
    """BLEU on the test set, greedy and with the beams of `config`, and the first translations."""
    metric = BLEU(lowercase=True, force=True)
    texts = translate(model, corpus, config["batch"], device)
    found: dict[str, Any] = {"bleu": bleu(metric, texts, corpus)}
    found["signature"] = str(metric.get_signature())
    if "beams" in config:
        how = {name: config[name] for name in ("beams", "alpha")}
        better = translate(model, corpus, config["batch"], device, **how)
        found["bleu_beams"] = bleu(metric, better, corpus)
    found["examples"] = [
        {"source": " ".join(s), "reference": " ".join(t), "translation": text}
        for (s, t), text in list(zip(corpus.test, texts, strict=True))[:5]
    ]
    return found


def chosen(options: argparse.Namespace) -> dict:
    """The run's settings: those given, and the plan of its model for the others."""
    plan = PLANS[options.model]
    given = study.changes(options, NUMBERS)
    for name in given.keys() - plan.keys():
        raise ValueError(f"{options.model} has no --{name}; it has {', '.join(plan)}")
    config = {"corpus": options.corpus, "model": options.model}
    return config | plan | given | {"seed": options.seed}


NUMBERS = {name: type(value) for plan in PLANS.values() for name, value in plan.items()}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", default="multi30k-de-en", choices=sorted(pairs.CORPORA))
    parser.add_argument("--model", default="bahdanau_2015", choices=sorted(PLANS))
    for name, kind in NUMBERS.items():
        parser.add_argument(f"--{name}", type=kind, help="default: the model's plan")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "translation")
    parser.add_argument("--checkpoint", type=Path, help="default: beside the result")
    return parser


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    try:
        config = chosen(options)
        path = options.out / f"{options.corpus}.{options.model}.seed{options.seed}.json"
        run = study.measured(path, config, measure, options.checkpoint)
    except ValueError as error:
        parser.error(str(error))
    print(f"BLEU {run['bleu']}  {run['signature']}")


if __name__ == "__main__":
    main()
