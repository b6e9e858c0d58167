"""Rate and β₂ of a batch at equal tokens: what chapter 14's page says of the stored run."""

from statistics import fmean

import pytest
import torch
from torch.optim import Adam

from attnbook.data import text
from attnbook.losses import token_loss
from attnbook.train.loop import cosine
from bookkit.results.stored_run import stored_run

RUN, LONGER = stored_run("batch_rate"), stored_run("batch_rate_longer")
KEPT = RUN["table"]["kept in tokens"]
SAID = {  # with four times the tokens: mean, and the ends of the interval
    "batch 64, rate of 16 minus batch 64, twice the rate of 16": "twice the rate of batch 16 saves "
    "{} nats ({} to {})",
    "batch 16 minus batch 1": "behind batch 1, by {} nats ({} to {})",
}


def test_every_best_rate_lies_inside_what_was_tried():
    for sizes in RUN["table"].values():
        for row in sizes.values():
            means = {float(rate): fmean(losses) for rate, losses in row["losses"].items()}
            assert min(means, key=means.get) == row["rate"]
            assert min(means) < row["rate"] < max(means)


def test_the_best_rate_doubles_with_each_fourfold_batch_up_to_16_and_then_stays():
    assert [row["rate"] for row in KEPT.values()] == [0.004, 0.008, 0.016, 0.016]
    losses = [fmean(row["losses"][f"{row['rate']:g}"]) for row in KEPT.values()]
    assert losses == sorted(losses)
    assert RUN["compared"]["batch 64, rate of 16 minus root rule"]["high"] < 0


def test_a_small_batch_is_ahead_with_its_own_rate_alone_and_beta_matters_less():
    compared = RUN["compared"]
    assert compared["batch 1 minus batch 16, kept"]["high"] < -0.1
    rule, beta = (
        compared["batch 1, rate of 16 minus root rule"],
        compared["batch 1, 0.95 minus kept"],
    )
    assert rule["low"] > beta["high"] and beta["low"] < 0 < beta["mean"]


def test_with_four_times_the_tokens_the_rate_grows_up_to_64_and_the_page_says_so(root):
    for row in LONGER["table"].values():
        means = {float(rate): fmean(losses) for rate, losses in row["losses"].items()}
        assert min(means, key=means.get) == row["rate"]
        assert min(means) < row["rate"] < max(means)
    rates = {B: row["rate"] for B, row in LONGER["table"].items()}
    assert rates["16"] == 4 * rates["1"] == 0.008
    page, claims = (
        (root / "book" / f"{name}.ipynb").read_text("utf-8")
        for name in ("14-deeper-hyperparameters", "lectures-checked")
    )
    for what, said in SAID.items():
        found = LONGER["compared"][what]
        numbers = (f"{found[part]:.2f}" for part in ("mean", "low", "high"))
        assert said.format(*numbers) in page
    found = LONGER["compared"]["batch 64, rate of 16 minus batch 64, twice the rate of 16"]
    assert "{mean:.2f} nats (95 % interval {low:.2f} to {high:.2f})".format(**found) in claims


@pytest.mark.parametrize("B", [16, 64])
def test_models_side_by_side_are_trained_as_torch_trains_each(script, B):
    module = script("results/batch_rate.py")
    (rate, beta, seed), other = (0.01, 0.95, 9), (0.004, 0.999, 8)
    found = module.trained(B, [(rate, beta, seed), other], half=0, steps=3)[0]
    model = module.fresh("standard", 32, seed)
    optimizer = Adam(model.parameters(), rate, betas=(0.9, beta))
    draw, total = torch.Generator().manual_seed(seed), module.WINDOWS // B
    sampler, schedule = text.windows(module.words()[0], 32, B), cosine(total, total // 10)
    for step in range(3):
        optimizer.param_groups[0]["lr"] = rate * schedule(step)
        x, y = sampler(draw)
        optimizer.zero_grad()
        token_loss(model(x), y).backward()
        optimizer.step()
    x, y = module.words()[1][0]
    with torch.no_grad():
        assert found == pytest.approx(token_loss(model(x), y).item(), abs=2e-4)
