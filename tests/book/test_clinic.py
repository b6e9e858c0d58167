"""The clinic: a healthy model, eight faults, and instruments that tell them apart."""

import importlib
import math
from dataclasses import asdict

import pytest
import torch
from torch import nn
from torch.distributions import Categorical

from attnbook.losses import token_loss
from bookkit.experiments.clinic import readings
from bookkit.experiments.clinic.faults import FAULTS, drawn
from bookkit.experiments.clinic.recipe import CONTEXT, LEAKS, Recipe, batches, build, targets
from bookkit.experiments.clinic.run import EVERY, STEPS, examine, matrices, one_step, update_ratio
from bookkit.explore.clinic import INSTRUMENTS
from bookkit.results.stored_run import stored_run

V = 94


def batch(seed=0, B=2):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(V, (B, CONTEXT + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


class TestInstruments:
    def test_entropy_is_that_of_a_distribution(self):
        weights = torch.randn(2, 3, 5, 7).softmax(-1)
        torch.testing.assert_close(readings.entropy(weights), Categorical(weights).entropy())

    def test_spread_is_one_for_equal_weights_and_zero_for_one_key(self):
        seen = torch.ones(12, 12).tril()
        assert readings.spread(seen / seen.sum(-1, keepdim=True)) == pytest.approx(1)
        assert readings.spread(torch.eye(12)) == 0

    def test_a_unit_is_dead_if_it_is_zero_at_every_token(self):
        active = torch.zeros(2, 3, 4)
        active[1, 2, 0] = 0.1
        assert readings.dead([active]) == 0.75
        assert readings.dead([active, torch.ones(2, 3, 4)]) == 0.375

    def test_outputs_are_those_of_the_parts_and_no_hook_stays(self):
        model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.randn(2, 3)
        with readings.outputs(model, nn.ReLU) as found:
            y = model(x)
        model(x)
        assert len(found) == 1 and torch.equal(found[0], y)

    def test_an_update_is_measured_against_its_matrix(self):
        old = [torch.ones(4), torch.ones(2, 2), torch.ones(9)]
        new = [nn.Parameter(1.01 * old[0]), nn.Parameter(1.5 * old[1]), nn.Parameter(old[2])]
        assert update_ratio(old, new) == pytest.approx(0.01, rel=1e-3)

    def test_the_loss_in_use_is_the_loss_of_a_model_that_cannot_see_ahead(self):
        model, (x, y) = build(Recipe(), V).eval(), batch()
        with torch.no_grad():
            logits = model(x)
        places = [CONTEXT // 2 - 1, CONTEXT - 1]
        wanted = token_loss(logits[:, places], y[:, places]).item()
        assert readings.used(model, (x, y)) == pytest.approx(wanted, rel=1e-5)

    def test_reading_changes_nothing_and_names_every_instrument(self):
        model = build(Recipe(), V).eval()
        before = [weight.clone() for weight in model.parameters()]
        found = readings.read(model, Recipe(), batch())
        assert set(found) | {"loss", "gradient", "update", "rate"} == set(INSTRUMENTS)
        assert all(map(torch.equal, before, model.parameters()))


class TestRecipe:
    @pytest.mark.parametrize("leak", LEAKS)
    def test_a_leak_does_not_show_before_training(self, leak):
        recipe, (x, y) = Recipe(leak=leak), batch(B=16)
        first = token_loss(build(recipe, V)(x), targets(recipe, x, y)).item()
        assert 0 < first - math.log(V) < 0.5

    @pytest.mark.parametrize(("leak", "seen"), [("", False), ("mask", True), ("target", False)])
    def test_only_the_shifted_mask_lets_the_next_token_through(self, leak, seen):
        model, (x, _) = build(Recipe(leak=leak), V).eval(), batch()
        other = x.clone()
        other[:, 40] = (x[:, 40] + 1) % V
        moved = (model(x) - model(other)).abs().amax((0, 2)) > 1e-5
        assert bool(moved[39]) == seen and moved[40:].all() and not moved[:30].any()

    def test_the_target_is_the_next_token_or_the_input_itself(self):
        x, y = batch()
        assert targets(Recipe(), x, y) is y and targets(Recipe(leak="target"), x, y) is x

    def test_only_so_many_characters_are_read(self):
        draw = batches(Recipe(characters=70), torch.arange(1000))
        x, y = draw(torch.Generator().manual_seed(0))
        assert y.max() < 70 and torch.equal(x + 1, y)

    def test_gradients_that_are_not_zeroed_add_up(self):
        recipe, (x, y) = Recipe(zeroed=False), batch()
        model = build(recipe, V)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        one_step(model, recipe, optimizer, (x, y))
        first = [weight.grad.clone() for weight in model.parameters()]  # clipped to length 1
        alone = torch.autograd.grad(token_loss(model(x), y), list(model.parameters()))
        _, norm = one_step(model, recipe, optimizer, (x, y))
        both = [a + b for a, b in zip(first, alone, strict=True)]
        assert norm == pytest.approx(torch.stack([g.norm() for g in both]).norm().item(), rel=1e-4)
        _, norm = one_step(model, Recipe(), optimizer, (x, y))
        wanted = torch.stack([g.norm() for g in alone]).norm().item()
        assert norm == pytest.approx(wanted, rel=1e-4)

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"rate": 0.0}, "above 0"),
            ({"warmup": -1}, "0 or more"),
            ({"norm": "sandwich"}, "one of pre, post"),
            ({"leak": "label"}, "got 'pre' and 'label'"),
            ({"characters": 64}, "more than 64"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, wrong, words):
        with pytest.raises(ValueError, match=words):
            Recipe(**wrong)


class TestFaults:
    def test_there_are_eight_and_each_changes_a_healthy_setting(self):
        healthy = asdict(Recipe())
        assert len(FAULTS) == 8
        for fault in FAULTS.values():
            assert all(healthy[name] != value for name, value in fault.change.items())
            assert fault.tells in INSTRUMENTS
            assert fault.sign.endswith(".") and fault.cure.endswith(".")

    def test_variants_are_other_strengths_of_the_same_fault(self):
        for fault in FAULTS.values():
            recipes = [fault.recipe(n) for n in range(1 + len(fault.variants))]
            assert len(set(recipes)) == 3 and Recipe() not in recipes
        with pytest.raises(ValueError, match="variants 0 to 2, not 3"):
            FAULTS["rate-low"].recipe(3)

    def test_a_student_always_gets_the_same_patients_and_no_fault_twice(self):
        for student in ("ada", "bo"):
            assert drawn(student) == drawn(student)
            assert len({name for name, _ in drawn(student, 8)}) == 8
        everybody = {tuple(drawn(str(n))) for n in range(50)}
        assert len(everybody) > 45
        with pytest.raises(ValueError, match="1 to 8 patients"):
            drawn("ada", 9)


class TestRuns:
    def test_a_run_is_repeated_by_its_seed_and_read_every_eighth_step(self):
        found = examine(Recipe(), seed=3, until=2 * EVERY)
        assert found == examine(Recipe(), seed=3, until=2 * EVERY)
        assert set(found) == set(INSTRUMENTS) and all(len(one) == 2 for one in found.values())
        assert found["held out"][1] < found["held out"][0] - 0.3

    def test_what_is_stored_is_what_the_script_would_run(self, root, monkeypatch):
        monkeypatch.syspath_prepend(str(root / "results"))
        script, found = importlib.import_module("clinic"), stored_run("clinic")
        assert set(found["runs"]) == set(script.cases())
        assert (found["steps"], found["every"]) == (STEPS, EVERY)
        for runs in found["runs"].values():
            assert len(runs) >= 3
            assert all(len(run.get("loss", [0])) in (1, STEPS // EVERY + 1) for run in runs)

    def test_a_stored_reading_is_read_again(self):
        stored = stored_run("clinic")["runs"]["healthy"][0]
        again = examine(Recipe(), until=EVERY + 1)
        for name, values in again.items():
            assert values == pytest.approx(stored[name][:2], rel=0.05, abs=0.01)

    def test_the_telling_instrument_is_apart_from_the_healthy_one_in_every_seed(self):
        runs = stored_run("clinic")["runs"]
        healthy = runs["healthy"]

        def all_of(name, reading, pick):
            return [pick(run[reading]) for run in runs[name]]

        assert min(all_of("rate-high", "update", max)) > 3 * max(
            max(run["update"]) for run in healthy
        )
        assert max(all_of("rate-low", "update", max)) < min(max(run["update"]) for run in healthy)
        assert min(all_of("no-warm-up", "dead", lambda x: x[-1])) > 0.15
        assert min(all_of("loud-start", "loss", lambda x: x[0])) > 2 * math.log(V)
        for name in ("shifted-mask", "same-target"):
            assert max(all_of(name, "held out", lambda x: x[-1])) < 0.5
            assert min(all_of(name, "in use", lambda x: x[-1])) > 3.5
        assert min(all_of("never-zeroed", "gradient", min)) > 1
        assert all(min(run["gradient"]) < 1 for run in healthy)
        assert min(all_of("too-little-text", "held out", lambda x: x[-1] - min(x))) > 0.3

    def test_matrices_are_those_of_the_blocks(self):
        assert len(matrices(build(Recipe(), V))) == 4 * 4


class TestStepTime:
    def test_every_variant_was_timed_in_every_round_and_shares_are_a_whole(self, root, monkeypatch):
        monkeypatch.syspath_prepend(str(root / "results"))
        script, found = importlib.import_module("step_time"), stored_run("step_time")
        assert set(found["rounds"]) == set(found["first"]) == set(script.variants(V))
        assert {len(times) for times in found["rounds"].values()} == {script.ROUNDS}
        assert sum(found["shares"].values()) == pytest.approx(1, abs=0.01)

    def test_parts_and_checkpoints_change_no_gradient(self, root, monkeypatch):
        monkeypatch.syspath_prepend(str(root / "results"))
        script = importlib.import_module("step_time")
        made, one = [], batch(B=4)
        fresh = script.gpt2

        def caught(*sizes, **named):
            made.append(fresh(*sizes, **named))
            return made[-1]

        monkeypatch.setattr(script, "gpt2", caught)
        steps = script.variants(V)
        for name in ("float32", "four parts", "checkpointing"):
            steps[name](one)
        models = dict(zip(script.VARIANTS, made, strict=True))
        plain = models["float32"]
        for other in (models["four parts"], models["checkpointing"]):
            for mine, theirs in zip(plain.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-6)


def test_without_the_small_draw_a_tied_model_hardly_favours_its_input():
    table = stored_run("first_losses")["table"]
    apart = [
        table[name]["apart"]["the input"]["mean"]
        for name in ("GPT-2, tied", "GPT-2, tied, first weights not scaled with depth")
    ]
    assert [round(x, 2) for x in apart] == [-1.08, -0.19]
