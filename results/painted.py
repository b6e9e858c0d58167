"""What does painting hidden patches teach: digits in place, moved, and with nothing hidden?

    python results/painted.py        # resumed run by run; three quarters of an hour on one core

Question. Does masked pre-training on the 1,400 unlabelled digits help a vision transformer that
then gets 51 or 155 labels, and is it the hiding that helps? `pictures.py` trained its painters on
digits moved by up to a pixel, their rivals on digits in place.
Budget. 1,500 steps of 64 digits without labels, then 240 with labels. (Planned and left out, since
the machine was busy: 6,000 steps without labels, 1,740 with labels from scratch, linear probes;
with 155 labels only the first two kinds were run; the error in the gaps is that of the seeds that
chose the rate.)
Grid. The rate of pre-training 0.002, 0.004, 0.008 by the error in the gaps (digits in place), the
same for all kinds; the rate of tuning 0.0005, 0.002, 0.008 for each kind and number of labels, by
right answers on 300 training digits that are not trained on; seeds 100 to 102. A grid grows where
its end is best.
Reporting seeds 0 to 4: draw labelled digits, first weights and batches; the test set of 397.
Baselines. Logistic regression on the pixels of the same labelled digits; the network from scratch,
with digits in place and moved; the same pre-training with nothing hidden; the mean picture, for the
error in the gaps.
No gain. The interval of the paired difference to the network from scratch contains 0; the hiding
does nothing if the interval of the difference to the control with nothing hidden contains 0.
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from pictures import DATA, P, copy_of, held_out
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from attnbook import device
from attnbook.block import Stack
from attnbook.data import images
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from attnbook.transformer import initialise, xavier
from attnbook.vision import MaskedAutoencoder, VisionTransformer, cut, gap_loss, some_patches
from bookkit.experiments import classify
from bookkit.experiments.classify import fit, right
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference, interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "painted.json"
STUDY = Study(
    name="painted",
    question="Does painting hidden patches help when labels are few, and is it the hiding?",
    budget="1,500 steps of 64 digits without labels, 240 with labels",
    grid={
        "rate of pre-training": (0.002, 0.004, 0.008),
        "rate of tuning": (0.0005, 0.002, 0.008),
    },
    choosing_seeds=range(100, 103),
    reporting_seeds=range(5),
    baselines=("logistic regression", "from scratch", "the same steps, nothing hidden"),
    no_gain="the interval of the paired difference to training from scratch contains 0",
)
SIZES = (51, 155)
KEPT = 4  # patches of 16 that are read
STEPS = 1500
# Of pre-training: digits moved by so many pixels, patches kept, steps.
BEFORE = {
    "hidden, in place": (0, KEPT, STEPS),
    "nothing hidden": (0, P, STEPS),
    "hidden, moved": (1, KEPT, STEPS),
}
# From scratch: digits moved by so many pixels, steps.
SCRATCH = {"from scratch": (0, 240), "from scratch, moved": (1, 240)}
PAINTED: dict[tuple[str, float, int], MaskedAutoencoder] = {}


def painter(kind: str, rate: float, seed: int) -> MaskedAutoencoder:
    """An autoencoder of all training digits, without their labels."""
    shift, kept, steps = BEFORE[kind]
    sample = images.sampler(DATA, 64, shift=shift)

    def sampler(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, _ = sample(generator)
        if kept == P:
            return x, torch.arange(P).expand(len(x), P)
        return x, some_patches(len(x), P, kept, generator)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        if kept == P:
            return (model(*batch) - cut(batch[0], 2)).square().mean()
        return gap_loss(model(*batch), *batch, size=2)

    torch.manual_seed(seed)
    reader, other = classify.transformer(), classify.transformer()
    assert isinstance(reader, VisionTransformer) and isinstance(other, VisionTransformer)
    small = Stack(list(classify.blocks_of(other).blocks)[:1], nn.LayerNorm(classify.WIDTH))
    model = initialise(MaskedAutoencoder(reader, small, classify.WIDTH), xavier)
    plan = cosine(steps, warmup=100, floor=0.01)
    train(
        model, sampler, loss, seed=seed, steps=steps, lr=rate, schedule=plan, progress=False,
        every=steps,
    )  # fmt: skip
    return model.eval()


@cache
def hidden_test() -> tuple[Tensor, Tensor]:
    """The test digits and the patches of each that are read."""
    x = DATA.standardised(DATA.test)
    return x, some_patches(len(x), P, KEPT, torch.Generator().manual_seed(0))


def error(model: MaskedAutoencoder) -> float:
    """Mean squared error in the gaps of the test digits."""
    x, kept = hidden_test()
    with torch.no_grad():
        return round(gap_loss(model(x, kept), x, kept, 2).item(), 4)


def mean_picture() -> float:
    """The same error, if the mean of the training digits is painted."""
    x, kept = hidden_test()
    mean = DATA.standardised(DATA.train).mean(0, keepdim=True).expand_as(x)
    return round(gap_loss(cut(mean, 2), x, kept, 2).item(), 4)


def painted(runs: Runs, kind: str, seed: int) -> MaskedAutoencoder:
    """The painter of this kind, trained once for each seed while the script runs."""
    rate = chosen_rate(runs)
    if (kind, rate, seed) not in PAINTED:
        PAINTED[kind, rate, seed] = painter(kind, rate, seed)
    return PAINTED[kind, rate, seed]


def chosen_rate(runs: Runs) -> float:
    """The rate of pre-training with the smallest error in the gaps."""

    def score(rate: float, seed: int) -> float:
        key = f"before/{rate}/{seed}"
        return runs.get(key, lambda: error(painter("hidden, in place", rate, seed)))

    return STUDY.choose("rate of pre-training", score)[0]


def tuned(runs: Runs, kind: str, size: int, rate: float, seed: int, choosing: bool) -> float:
    """Right answers of a network that goes on from its painter, or begins from nothing."""
    few = held_out(size, seed) if choosing else DATA.some(size, seed)
    if kind in SCRATCH:
        shift, steps = SCRATCH[kind]
        return right(fit(classify.transformer, few, seed, rate, steps, shift), few)
    reader = painted(runs, kind, seed).encoder
    return right(fit(lambda: copy_of(reader), few, seed, rate), few)


def with_labels(runs: Runs, kind: str, size: int, given: float | None = None) -> dict[str, Any]:
    """The rate of tuning is chosen if it is not given, then five seeds."""

    def one(rate: float, seed: int) -> float:
        choosing = seed in STUDY.choosing_seeds
        key = f"tuned/{kind}/{size}/{rate}/{seed}"
        return runs.get(key, partial(tuned, runs, kind, size, rate, seed, choosing))

    rate = given or STUDY.choose("rate of tuning", one, higher=True)[0]
    found = STUDY.report(lambda seed: one(rate, seed))
    ends = interval(found)
    return {"rate": rate, "right": found, "interval": [round(ends.low, 3), round(ends.high, 3)]}


def classic(size: int, seed: int) -> float:
    """Logistic regression on the pixels of the same digits."""
    few = DATA.some(size, seed)
    x, test = (few.standardised(x).flatten(1).numpy() for x in (few.train, few.test))
    model = LogisticRegression(max_iter=1000).fit(x, few.train_labels.numpy())
    return float(model.score(test, few.test_labels.numpy()))


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    here = device.choose(0)
    runs = Runs(Path(__file__).parent / "painted.draft", write)
    kinds = ["hidden, in place", "from scratch", "nothing hidden", "hidden, moved"]
    kinds += ["from scratch, moved"]
    labels: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for few in SIZES:
        for kind in kinds if few == SIZES[0] else kinds[:2]:
            labels[kind][str(few)] = with_labels(runs, kind, few)
    classics = {
        str(size): STUDY.report(partial(lambda size, seed: classic(size, seed), size))
        for size in SIZES
    }
    rate = chosen_rate(runs)
    errors = [runs.found[f"before/{rate}/{seed}"] for seed in STUDY.choosing_seeds]
    apart: dict[str, Any] = {}
    for kind, of_sizes in labels.items():
        for size, one in of_sizes.items():
            if kind != kinds[0]:
                ours = labels[kinds[0]][size]["right"]
                found = difference(ours, one["right"], paired=True)
                apart.setdefault(kind, {})[size] = found.as_dict()
    for labelled, classic_right in classics.items():
        ours = labels[kinds[0]][labelled]["right"]
        against = difference(ours, classic_right, paired=True)
        apart.setdefault("logistic regression", {})[labelled] = against.as_dict()
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "labels": labels}
    result |= {"classics": classics, "error": errors, "mean picture": mean_picture()}
    result |= {"ahead of": apart, "rate of pre-training": rate, "runs": runs.found}
    write(STORE, result | {"provenance": provenance(here, "scikit-learn", "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
