"""Three translators of real sentences, word by word: what the explorable of chapter 2 shows.

    python results/alignments.py           # resumed model by model

English to French, pairs of Tatoeba (`fra-eng`) of which every word, on either side, stands at least
20 times in training. Two translators with attention, `bahdanau_2015`, which differ in nothing but
the seed, and one with a single vector, `cho_2014`: the same widths, data and number of steps. Each
translates the test pairs, and writes 48 of them down step by step: the word taken, the likeliest
words with their probabilities, and where it looked. Shares are stored in thousandths.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
import translation
from sacrebleu.metrics.bleu import BLEU

from attnbook import device, seq2seq
from attnbook.data import pairs
from attnbook.data.pairs import Pairs
from attnbook.data.vocabulary import BEGIN, END, Pair, Vocabulary
from attnbook.losses import parameters
from attnbook.provenance import provenance, write

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "alignments.json"
LEAST = 20  # times that a word stands in training
KEPT, CANDIDATES, LIMIT = 48, 4, 30
PLAN = {"epochs": 4, "batch": 128, "embed": 128, "width": 128, "dropout": 0.2, "lr": 0.002}
RUNS = (("bahdanau_2015", 0), ("bahdanau_2015", 1), ("cho_2014", 0))


def common(corpus: Pairs, least: int) -> Pairs:
    """The pairs of which every word stands at least so often in the whole training set."""
    source = Vocabulary((source for source, _ in corpus.train), min_count=least)
    target = Vocabulary((target for _, target in corpus.train), min_count=least)

    def fits(pair: Pair) -> bool:
        return all(word in source for word in pair[0]) and all(word in target for word in pair[1])

    tested = [n for n, pair in enumerate(corpus.test) if fits(pair)]
    return dataclasses.replace(
        corpus,
        train=[pair for pair in corpus.train if fits(pair)],
        validation=[pair for pair in corpus.validation if fits(pair)],
        test=[corpus.test[n] for n in tested],
        test_references=[[stream[n] for n in tested] for stream in corpus.test_references],
        source=source,
        target=target,
    )


def short(corpus: Pairs, count: int = KEPT) -> list[int]:
    """Numbers of test pairs, evenly spaced: sources of 6 to 8 different words and marks."""
    fit = [n for n, (words, _) in enumerate(corpus.test) if 6 <= len(words) == len({*words}) <= 8]
    if not 0 < count <= len(fit):
        raise ValueError(f"1 to {len(fit)} short sentences of the test set fit; got {count}")
    return fit[:: len(fit) // count][:count]


@torch.no_grad()
def written(model: seq2seq.Seq2Seq, corpus: Pairs, source: list[str]) -> dict[str, Any]:
    """What greedy decoding writes, step by step: words, candidates and, with attention, weights.

    Of each step a text: candidates and their thousandths in turn; a weight for each source word.
    """
    tokens = torch.tensor([corpus.source.encode(source)])
    memory = model.encoder(tokens, torch.ones_like(tokens).bool())
    state, y = model.decoder.start(memory), torch.tensor([BEGIN])
    found: dict[str, list[str]] = {"words": [], "next": [], "weights": []}
    while len(found["words"]) < LIMIT and int(y) != END:
        feature, state, weights = model.decoder.step(model.decoder.embed(y), state, memory)
        p = model.decoder.lm_head(feature)[0].softmax(-1)
        y = p.argmax(-1, keepdim=True)
        best = [(corpus.target.words[i], thousandths(p[i])) for i in p.topk(CANDIDATES).indices]
        found["words"].append(corpus.target.words[int(y)])
        found["next"].append(" ".join(f"{word} {share}" for word, share in best))
        if weights is not None:
            found["weights"].append(" ".join(str(thousandths(share)) for share in weights[0]))
    return {name: rows for name, rows in found.items() if rows} | {
        "words": " ".join(found["words"])
    }


def thousandths(share: torch.Tensor) -> int:
    return round(1000 * float(share))


def measure(corpus: Pairs, name: str, seed: int) -> dict[str, Any]:
    """Train and test one model; what is returned is what is stored of it."""
    here = device.choose(seed)
    config = {"corpus": corpus.name, "least": LEAST, "model": name, **PLAN, "seed": seed}
    model = translation.build(config, corpus)
    if not isinstance(model, seq2seq.Seq2Seq):
        raise ValueError(f"alignments are those of a recurrent model; got {name}")
    checkpoint = Path(__file__).parent / f"alignments.{name}.{seed}.checkpoint"
    history = translation.fit(model, config, corpus, here, checkpoint)
    model.eval()
    texts = translation.translate(model, corpus, 128, here.device)
    checkpoint.unlink(missing_ok=True)
    return {
        "config": config,
        "parameters": parameters(model),
        "steps": history.steps,
        "validation": round(float(history.evaluated()[1][-1]), 3),
        "bleu": translation.bleu(BLEU(lowercase=True, force=True), texts, corpus),
        "provenance": provenance(here, "sacrebleu"),
        "alignments": {str(n): written(model, corpus, corpus.test[n][0]) for n in short(corpus)},
    }


def main() -> None:
    torch.set_num_threads(1)
    corpus = common(pairs.load("fra-eng"), LEAST)
    draft = Path(__file__).parent / "alignments.draft"
    runs = json.loads(draft.read_text()) if draft.exists() else {}
    for name, seed in RUNS:
        key = f"{name}.seed{seed}"
        if key not in runs:
            runs[key] = measure(corpus, name, seed)
            write(draft, runs)
            print(key, runs[key]["bleu"], flush=True)
    told = {"corpus": corpus.name, "pairs": len(corpus.train), "tested": len(corpus.test)}
    told |= {"source_words": len(corpus.source), "target_words": len(corpus.target)}
    sentences = {str(n): corpus.test[n] for n in short(corpus)}
    told["sentences"] = {
        n: {"source": " ".join(source), "reference": " ".join(target)}
        for n, (source, target) in sentences.items()
    }
    write(STORE, told | {"runs": runs})
    draft.unlink()


if __name__ == "__main__":
    main()
