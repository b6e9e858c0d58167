"""Train the translators that ship with the book, German to English, and write their cards.

    python results/translators.py train translator --work translators
    python results/translators.py train translator-attention --work translators
    python results/translators.py train translator-vector --work translators
    python results/translators.py train translator-attention --seed 1 --work translators
    python results/translators.py ship translator --work translators
    python results/translators.py ship translator-attention --work translators
    python results/translators.py ship translator-vector --work translators
    python results/translators.py alignments --work translators

All read Multi30k in pieces of words that both languages share, for the same number of passes. An
interrupted run resumes where it was when the same command is given again. `ship` rounds the
weights to eight bits, measures what is left, and writes them with their card into the package.
`alignments` stores where two seeds of the twin with attention look in 50 sentences of the test set.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn
from translation import loss, validation_loss

from attnbook import device
from attnbook.data import pairs, registry, translations
from attnbook.data.pairs import Pairs
from attnbook.data.vocabulary import SPECIALS, Pair
from attnbook.losses import parameters
from attnbook.provenance import provenance, write
from attnbook.quantise import quantised_file
from attnbook.quantise.rounding import quantised
from attnbook.shipped.language import FOLDER
from attnbook.shipped.translator import PIECES, RECIPES, BookTranslator, Pieces, load, read
from attnbook.train.loop import cosine, train
from bookkit.results import study

CORPUS, V = "multi30k-de-en", 4000
COMMON = {"batch": 64, "smoothing": 0.1, "lr": 1e-3, "betas": [0.9, 0.98]}
COMMON |= {"warmup": 0.05, "floor": 0.01}
ATTENTION = "translator-attention"
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "translators.json"
KEPT, CHECKED = 50, 100  # sentences with alignments; test pairs that a test reads again
LICENCE = (
    "CC BY-NC-SA 4.0, not the book's licence: learned from Multi30k (Elliott et al. 2016), which "
    "is given for non-commercial research and education"
)
CITE = registry.FILES["multi30k/train.de.gz"].cite
DATA = {
    "corpus": CORPUS,
    "source": registry.MULTI30K,
    "cite": CITE,
    "sha256": {n: found for n, (_, found) in registry.MULTI30K_FILES.items() if ".fr." not in n},
    "held_out": "val and test_2016_flickr",
    "pieces": f"{V} pieces by byte-pair encoding, learned from both sides of train",
}
WHAT = {
    "translator": "A transformer that translates descriptions of pictures, German to English",
    "translator-attention": "Its recurrent twin with attention, after Bahdanau et al. 2015",
    "translator-vector": "Its recurrent twin with one fixed vector, after Cho et al. 2014",
}
OURS = (
    ("Ein Hund rennt durch den Schnee.", "A dog is running through the snow."),
    ("Zwei Kinder spielen im Garten Fußball.", "Two children are playing soccer in the garden."),
    (
        "Eine alte Frau liest auf einer Bank die Zeitung.",
        "An old woman is reading the newspaper on a bench.",
    ),
    (
        "Der Mann, der das Brot verkauft, trägt eine weiße Schürze.",
        "The man who sells the bread is wearing a white apron.",
    ),
    (
        "Gestern hat das Mädchen mit dem roten Fahrrad ihren Bruder besucht.",
        "Yesterday the girl with the red bicycle visited her brother.",
    ),
)
PASSES = {"transformer": 10, "twin": 8}  # a step of the twin with attention takes as long
DROPOUT = {"transformer": 0.15, "twin": 0.3}
PRECISION = {"transformer": "float32", "twin": "bfloat16"}  # of products: the faster of the two
PRECISIONS: dict[str, Callable[[], Any]] = {
    "float32": nullcontext,
    "bfloat16": partial(torch.autocast, "cpu", torch.bfloat16),
}
SIZES: dict[str, dict[str, Any]] = {
    "translator": {"V": V, "width": 256, "depth": 2, "heads": 8, "hidden": 512},
    "translator-attention": {"V": V, "width": 256, "attention": True},
    "translator-vector": {"V": V, "width": 256, "attention": False},
}


def recipe(name: str) -> str:
    """Which of `RECIPES` builds the translator of this name."""
    return "transformer" if name == "translator" else "twin"


def byte_pairs(sentences: Iterable[Sequence[str]]) -> Tokenizer:
    """The tokenizer of `V` pieces that is learned from the words of these sentences."""
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIALS[-1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=V, special_tokens=[*SPECIALS], show_progress=False)
    tokenizer.train_from_iterator((" ".join(words) for words in sentences), trainer)
    return tokenizer


def pieces_of(corpus: Pairs, path: Path) -> Pieces:
    """The pieces, learned from both sides of the training pairs and stored at `path`."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        byte_pairs(words for pair in corpus.train for words in pair).save(str(path))
    return Pieces(Tokenizer.from_file(str(path)))


def in_pieces(corpus: Pairs, pieces: Pieces) -> Pairs:
    """The corpus with pieces in place of words."""

    def cut(part: list[Pair]) -> list[Pair]:
        return [(pieces.split(source), pieces.split(target)) for source, target in part]

    return replace(
        corpus,
        train=cut(corpus.train),
        validation=cut(corpus.validation),
        test=cut(corpus.test),
        source=pieces,
        target=pieces,
    )


def config_of(name: str, seed: int, passes: float | None = None) -> study.Config:
    kind = recipe(name)
    return {
        "corpus": CORPUS,
        "model": name,
        "recipe": kind,
        "sizes": SIZES[name],
        "dropout": DROPOUT[kind],
        "precision": PRECISION[kind],
        **COMMON,
        "passes": passes or PASSES[kind],
        "seed": seed,
    }


def fit(config: study.Config, corpus: Pairs, work: Path, stem: str) -> tuple[nn.Module, Any]:
    """The trained model, and its history."""
    torch.manual_seed(config["seed"])
    model = RECIPES[config["recipe"]](**config["sizes"], dropout=config["dropout"])
    B, betas = config["batch"], tuple(config["betas"])
    steps = round(config["passes"] * len(corpus.train) / B)
    print(f"{stem}: {parameters(model):,} parameters, {steps} steps", flush=True)
    history = train(
        model,
        pairs.sampler(corpus.train, corpus.source, corpus.target, B),
        partial(loss, smoothing=config["smoothing"]),
        steps=steps,
        optimizer=torch.optim.Adam(model.parameters(), config["lr"], betas=betas, eps=1e-9),
        schedule=cosine(steps, round(config["warmup"] * steps), config["floor"]),
        seed=config["seed"],
        evaluate=logged(corpus, B, work / f"{stem}.log"),
        every=max(1, round(steps / 10)),
        checkpoint=work / f"{stem}.pt",
        precision=PRECISIONS[config["precision"]],
        progress=False,
    )
    return model, study.complete(history)


def logged(corpus: Pairs, B: int, path: Path) -> Callable[[nn.Module], float]:
    """What evaluates: the validation loss, with a line in the log."""
    began = time.time()

    def evaluate(model: nn.Module) -> float:
        value = validation_loss(model, corpus, B, torch.device("cpu"))
        line = {"at": time.strftime("%H:%M:%S"), "elapsed": round(time.time() - began)}
        line |= {"cpu": round(time.process_time()), "validation": round(value, 4)}
        with open(path, "a") as log:
            log.write(json.dumps(line) + "\n")
        return value

    return evaluate


def train_one(options: argparse.Namespace) -> None:
    here = device.choose(options.seed)
    corpus = pairs.load(CORPUS)
    corpus = in_pieces(corpus, pieces_of(corpus, options.work / "pieces.json"))
    config = config_of(options.name, options.seed, options.passes)
    stem = f"{options.name}.{options.seed}"
    model, history = fit(config, corpus, options.work, stem)
    torch.save(model.state_dict(), options.work / f"{stem}.weights.pt")
    result = {"config": config, "parameters": parameters(model), "steps": history.steps}
    result |= {"validation": study.curve(history), "seconds": round(history.seconds)}
    write(options.work / f"{stem}.json", result | {"provenance": provenance(here, "tokenizers")})


def in_eight_bits(weights: Path, config: study.Config, folder: Path) -> None:
    """Write the trained weights to `folder`, rounded."""
    model = RECIPES[config["recipe"]](**config["sizes"])
    model.load_state_dict(torch.load(weights, weights_only=True))
    folder.mkdir(parents=True, exist_ok=True)
    quantised_file.save(quantised(model, bits=8), folder / "weights.safetensors")


def described(run: dict[str, Any], stem: str, work: Path) -> dict[str, Any]:
    """The card before anything is measured."""
    config = run["config"]
    hidden = ("model", "recipe", "sizes", "corpus")
    how = {name: value for name, value in config.items() if name not in hidden}
    origin = elsewhere(run["provenance"], work)
    return {
        "name": config["model"],
        "what": WHAT[config["model"]],
        "recipe": config["recipe"],
        "sizes": config["sizes"],
        "parameters": run["parameters"],
        "licence": LICENCE,
        "data": DATA,
        "training": {"optimizer": "Adam, eps 1e-9; cosine", **how, "steps": run["steps"]},
        "cpu_hours": round(cpu_seconds(work / f"{stem}.log") / 3600, 3),
        "command": origin["command"],
        "curve": {"columns": ["step", "validation, nats per piece"], "points": run["validation"]},
        "trained": origin,
    }


def elsewhere(origin: dict[str, Any], work: Path) -> dict[str, Any]:
    """The same provenance, where the folder `--work` is called as in this file's first lines."""
    return origin | {"command": origin["command"].replace(str(work), "translators")}


def cpu_seconds(log: Path) -> float:
    """Of all processes that wrote this log: each counts from its own start."""
    spent = [json.loads(line)["cpu"] for line in log.read_text().splitlines()]
    return sum(a for a, b in zip(spent, [*spent[1:], 0], strict=True) if b < a)


def texts_of(corpus: Pairs, part: str) -> list[tuple[str, str]]:
    """The pairs of a part as sentences."""
    return [(translations.join(a), translations.join(b)) for a, b in getattr(corpus, part)]


def scores(book: BookTranslator, corpus: Pairs, count: int, beams: tuple[int, ...]) -> dict:
    """BLEU on the first sentences of the test set, and the loss of their translations."""
    some = texts_of(corpus, "test")[:count]
    references = [stream[:count] for stream in corpus.test_references]
    found: dict[str, Any] = {"pairs": count, "nats_per_piece": round(book.nats_per_piece(some), 4)}
    for n in beams:
        metric = BLEU(lowercase=True, force=True)
        said = book.translate([german for german, _ in some], n)
        score = metric.corpus_score(said, references)  # type: ignore[arg-type]  # as in bleu
        found["bleu" if n == 1 else f"bleu_{n}_beams"] = round(score.score, 2)
        found["signature"] = str(metric.get_signature())
    return found


def ship(options: argparse.Namespace) -> None:
    """Round the weights, measure what is left of them, write them and their card."""
    stem, work = f"{options.name}.{options.seed}", options.work
    run = json.loads((work / f"{stem}.json").read_text())
    folder = FOLDER / options.name
    in_eight_bits(work / f"{stem}.weights.pt", run["config"], folder)
    if options.name == "translator":
        Tokenizer.from_file(str(work / "pieces.json")).save(str(PIECES), pretty=False)
    card = described(run, stem, work)
    write(folder / "card.json", card)
    book, corpus = load(options.name), pairs.load(CORPUS)
    card["bytes"] = (folder / "weights.safetensors").stat().st_size
    card["bits_32"] = {"validation": run["validation"][-1][1]}
    with torch.no_grad():
        card["validation"] = round(book.nats_per_piece(texts_of(corpus, "validation")), 4)
    card["test"] = scores(book, corpus, len(corpus.test), (1, 4))
    card["check"] = scores(book, corpus, CHECKED, (1,))
    card["sentences"] = said_of_ours(book)
    origin = provenance(device.choose(0), "tokenizers", "safetensors", "sacrebleu")
    card["provenance"] = elsewhere(origin, work)
    write(folder / "card.json", card)
    print(json.dumps({name: card[name] for name in ("validation", "bits_32", "test", "cpu_hours")}))


def said_of_ours(book: BookTranslator) -> dict[str, Any]:
    """Of `OURS`, which are in no corpus: the loss, and what is written greedily and with beams."""
    german = [source for source, _ in OURS]
    how = {"greedy": 1, "4 beams": 4}
    said = {name: book.translate(german, beams) for name, beams in how.items()}
    return {"pairs": OURS, "nats_per_piece": round(book.nats_per_piece(OURS), 4), **said}


def of_seed(seed: int, work: Path) -> BookTranslator:
    """The twin with attention of this seed, in eight bits."""
    stem = f"{ATTENTION}.{seed}"
    run = json.loads((work / f"{stem}.json").read_text())
    in_eight_bits(work / f"{stem}.weights.pt", run["config"], work / stem)
    write(work / stem / "card.json", described(run, stem, work))
    return read(work / stem, PIECES)


def alignments(options: argparse.Namespace) -> None:
    """What two seeds of the twin with attention write for 50 sentences, and where they look."""
    corpus, books = pairs.load(CORPUS), [of_seed(seed, options.work) for seed in (0, 1)]
    texts = {n: translations.join(corpus.test[n][0]) for n in short(corpus)}
    told: dict[str, Any] = {"corpus": CORPUS, "attribution": CITE, "licence": LICENCE}
    told["sentences"] = {n: " ".join(books[0].cut(text)) for n, text in texts.items()}
    told["runs"] = {
        f"{ATTENTION}.seed{seed}": {
            "test": scores(book, corpus, len(corpus.test), (1,)),
            "cpu_hours": book.card["cpu_hours"],
            "validation": book.card["curve"]["points"][-1][1],
            "alignments": {n: written(book, text) for n, text in texts.items()},
        }
        for seed, book in enumerate(books)
    }
    told["agreement"] = agreement(books, corpus)
    origin = provenance(device.choose(0), "tokenizers", "sacrebleu")
    write(STORE, told | {"provenance": elsewhere(origin, options.work)})
    print({name: run["test"] for name, run in told["runs"].items()}, told["agreement"])


def short(corpus: Pairs, count: int = KEPT) -> list[int]:
    """Numbers of test pairs, evenly spaced: sources of 6 to 12 words and marks."""
    fit = [n for n, (words, _) in enumerate(corpus.test) if 6 <= len(words) <= 12]
    if not 0 < count <= len(fit):
        raise ValueError(f"1 to {len(fit)} short sentences of the test set fit; got {count}")
    return fit[:: len(fit) // count][:count]


def written(book: BookTranslator, text: str) -> dict[str, Any]:
    """What it writes greedily, and for each piece its weights, in thousandths."""
    weights, rows, _ = book.looks(text, beams=1)
    shares = [" ".join(str(round(1000 * share)) for share in row) for row in weights[0].tolist()]
    return {"pieces": " ".join(rows), "weights": shares}


def agreement(books: list[BookTranslator], corpus: Pairs, count: int = 200) -> dict[str, Any]:
    """How alike two translators look while both are given the reference's pieces.

    `same`: the share of pieces for which both look most at the same piece of the source; `shared`:
    the part of their weights that lies on the same pieces.
    """
    same, shared = [], []
    for german, english in texts_of(corpus, "test")[:count]:
        given = books[0].cut(english, "en")
        one, other = (book.looks(german, given)[0][0] for book in books)
        same += (one.argmax(-1) == other.argmax(-1)).tolist()
        shared += torch.minimum(one, other).sum(-1).tolist()
    found = {"same": mean(same), "shared": mean(shared)}
    return {"sentences": count, "pieces": len(same)} | {k: round(v, 3) for k, v in found.items()}


PHASES = {"train": train_one, "ship": ship, "alignments": alignments}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("phase", choices=[*PHASES])
    parser.add_argument("name", choices=sorted(SIZES), nargs="?", default="translator")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--passes", type=float, help="over the training pairs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    PHASES[options.phase](options)


if __name__ == "__main__":
    main()
