"""The picture of four machines shows what their stored weights compute."""

import base64

import pytest
import torch
from torch import nn

from bookkit.experiments.agreement import (
    BUILD,
    KINDS,
    MACHINES,
    MANY,
    NUMBER,
    VARIANTS,
    WORDS,
    influence,
    lesson,
    looks,
    numbers,
    odds,
    prefixes,
    right,
    sentence,
)
from bookkit.explore.machines import FourMachines, packed
from bookkit.results.stored_run import stored_run


@pytest.fixture(scope="module")
def run():
    return stored_run("four_machines")


def model(name, stage):
    stored = stored_run("four_machines_weights")["weights"][name][str(stage)]
    weights = torch.frombuffer(bytearray(base64.b64decode(stored)), dtype=torch.half)
    made = BUILD[name]().requires_grad_(False)
    nn.utils.vector_to_parameters(weights.float(), made.parameters())
    return made


@pytest.mark.slow
@pytest.mark.parametrize("stage", [40, 320])
@pytest.mark.parametrize("name", MACHINES)
def test_stored_numbers_are_those_of_the_stored_weights(run, name, stage):
    made = model(name, stage)
    found = run["machines"][name]["seeds"][0][run["stages"].index(stage)]
    for at, many in enumerate(VARIANTS):
        words = sentence(many)
        are = odds(made, numbers(words)[None]).sigmoid().item()
        assert found["are"][at] == pytest.approx(are, abs=2e-3)
        assert found["influence"][at] == pytest.approx(influence(made, words), abs=2e-3)
        for stored, computed in zip(found["looks"][at], looks(made, words), strict=True):
            assert stored == pytest.approx(computed, abs=2e-3)
    assert found["right"]["2"] == pytest.approx(right(made, 2), abs=0.005)


def test_influence_is_the_mean_change_over_all_words_of_the_kind():
    made, words = model("LSTM", 40), sentence((True, False))
    base = odds(made, numbers(words)[None]).sigmoid()
    moved = []
    for other in KINDS[3]:
        if other != "keys":
            changed = [words[0], other, *words[2:]]
            moved.append((odds(made, numbers(changed)[None]).sigmoid() - base).abs().item())
    assert influence(made, words)[1] == pytest.approx(sum(moved) / len(moved), abs=1e-5)


def test_the_grammar_makes_sentences_whose_first_noun_decides():
    tokens, verb = prefixes((False, True, False), 200, torch.Generator().manual_seed(0))
    for row, answer in zip(tokens.tolist(), verb.tolist(), strict=True):
        words = [WORDS[token] for token in row]
        assert [kind for word in words for kind in range(4) if word in KINDS[kind]] == [
            *(0, 3, 2, 0, 1, 3, 2, 0, 3)
        ]
        assert (words[1] in MANY.split()) == bool(answer)
    assert {lesson(torch.Generator().manual_seed(seed))[0].shape[0] for seed in range(5)} == {32}


def test_a_test_with_phrases_turns_every_other_noun_round():
    """A network that reads the last noun only is never right there."""

    class LastNoun(nn.Module):
        def forward(self, tokens):
            many = (tokens[:, -1] >= NUMBER["keys"]).long()
            return nn.functional.one_hot(many, 2).float()

    assert [right(LastNoun(), n) for n in (0, 1, 2)] == [1.0, 0.0, 0.0]


def test_machines_are_of_equal_size_and_the_page_is_light(run):
    sizes = [run["machines"][name]["parameters"] for name in MACHINES]
    assert max(sizes) < 1.06 * min(sizes)
    assert sum(len(packed(name)) for name in MACHINES) < 10_000


def test_rates_lie_inside_their_grids(run):
    for name in MACHINES:
        machine = run["machines"][name]
        rates = sorted(map(float, machine["rates"]))
        assert rates[0] < machine["rate"] < rates[-1]


def test_what_does_not_fit_is_refused():
    for wrong in ({"here": ["GRU"]}, {"stage": 3}, {"seed": 3}, {"many": [True]}):
        with pytest.raises(ValueError, match=r"fit|two nouns"):
            FourMachines(**wrong)


def test_once_trained_all_say_the_right_verb_with_every_seed(run):
    """The picture says that trained machines do not differ on its sentence."""
    for name in MACHINES:
        for stages in run["machines"][name]["seeds"]:
            for at, many in enumerate(VARIANTS):
                assert (stages[-1]["are"][at] > 0.5) == many[0]
                moved = stages[-1]["influence"][at]
                assert moved.index(max(moved)) == 1
