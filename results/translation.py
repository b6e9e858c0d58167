"""Train one translator on one corpus, translate the test set, measure BLEU, store the run.

    python results/translation.py --corpus multi30k-de-en --model bahdanau_2015

The result goes to results/translation/. An interrupted run resumes where it was when the same
command is given again.
"""

import argparse
import json
from functools import partial
from pathlib import Path

import sacrebleu
import torch
from provenance import provenance, write

from attnbook import device, seq2seq
from attnbook.data import pairs, translations
from attnbook.train import cosine, parameters, token_loss, train

MODELS = {"cho_2014": seq2seq.cho_2014, "bahdanau_2015": seq2seq.bahdanau_2015}


def loss(model, batch):
    """Mean cross-entropy of the target's tokens, in nats."""
    logits, _ = model(batch.source, batch.source_mask, batch.target_in)
    return token_loss(logits, batch.target_out, batch.target_mask)


def validation_loss(model, corpus, B, device):
    """Mean cross-entropy over all tokens of the validation set, in nats."""
    total = count = 0
    for batch in pairs.batches_in_order(corpus.validation, corpus.source, corpus.target, B):
        batch = batch.to(device)
        tokens = int(batch.target_mask.sum())
        total, count = total + loss(model, batch).item() * tokens, count + tokens
    return total / count


@torch.no_grad()
def translate(model, corpus, sentences, B, device, limit=60):
    """Greedy translations of the sources of `sentences`, as lists of words, in their order."""
    found = []
    for batch in pairs.batches_in_order(sentences, corpus.source, corpus.target, B):
        batch = batch.to(device)
        tokens, _ = model.greedy(batch.source, batch.source_mask, pairs.BEGIN, pairs.END, limit)
        found += [corpus.target.decode(row) for row in tokens]
    return found


def measure(options, config) -> dict:
    """Train and test as `options` say; what is returned is what is stored."""
    here = device.choose(options.seed)
    corpus = pairs.load(options.corpus)
    model = MODELS[options.model](
        len(corpus.source), len(corpus.target), options.embed, options.width, options.dropout
    ).to(here.device)
    steps = options.epochs * len(corpus.train) // options.batch
    history = train(
        model,
        pairs.sampler(corpus.train, corpus.source, corpus.target, options.batch),
        loss,
        steps=steps,
        lr=options.lr,
        schedule=cosine(steps, warmup=steps // 20),
        seed=options.seed,
        evaluate=partial(validation_loss, corpus=corpus, B=options.batch, device=here.device),
        every=max(1, steps // options.epochs),
        checkpoint=options.checkpoint,
        precision=here.autocast,
    )
    if history.interrupted:
        raise SystemExit(f"stopped after {history.steps} of {steps} steps; run again to go on")
    model.eval()
    words = translate(model, corpus, corpus.test, options.batch, here.device)
    texts = [translations.join(sentence) for sentence in words]
    metric = sacrebleu.metrics.BLEU(lowercase=True, force=True)
    score = metric.corpus_score(texts, corpus.test_references)
    return {
        "config": config,
        "parameters": parameters(model),
        "steps": steps,
        "bleu": round(score.score, 2),
        "signature": str(metric.get_signature()),
        "training_seconds": round(history.seconds),
        "validation": [(step, round(v["value"], 4)) for step, v in history.evaluations],
        "examples": [
            {"source": " ".join(s), "reference": " ".join(t), "translation": text}
            for (s, t), text in list(zip(corpus.test, texts, strict=True))[:5]
        ],
        "provenance": provenance(here, "sacrebleu", "numpy"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", default="multi30k-de-en", choices=sorted(pairs.CORPORA))
    parser.add_argument("--model", default="bahdanau_2015", choices=sorted(MODELS))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--embed", type=int, default=256)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "translation")
    parser.add_argument("--checkpoint", type=Path, help="default: beside the result")
    options = parser.parse_args()
    name = f"{options.corpus}.{options.model}.seed{options.seed}"
    options.checkpoint = options.checkpoint or options.out / f"{name}.checkpoint"
    config = {k: v for k, v in vars(options).items() if k not in ("checkpoint", "out")}
    stored = options.out / f"{name}.json"
    if stored.exists() and (there := json.loads(stored.read_text())["config"]) != config:
        parser.error(f"{stored} holds a run of {there}; move it away, or name another --out")
    result = measure(options, config)
    write(stored, result)
    options.checkpoint.unlink()
    print(f"BLEU {result['bleu']}  {result['signature']}")


if __name__ == "__main__":
    main()
