"""What the explorable of chapter 2 shows was written by the translators as the module decodes."""

from collections import Counter

import pytest
import torch

from attnbook import seq2seq
from attnbook.data import pairs
from attnbook.data.vocabulary import BEGIN, END

TOY = pairs.load("toy")


@pytest.fixture
def study(script):
    return script("results/alignments.py")


@pytest.mark.parametrize("build", [seq2seq.cho_2014, seq2seq.bahdanau_2015])
def test_what_is_written_down_is_greedy_decoding(study, build):
    torch.manual_seed(0)
    model = build(len(TOY.source), len(TOY.target), 8, 8)
    for source, _ in TOY.test[:4]:
        found = study.written(model, TOY, source)
        tokens = torch.tensor([TOY.source.encode(source)])
        row, weights = model.greedy(tokens, tokens > 0, BEGIN, END, study.LIMIT)
        assert found["words"].split() == [TOY.target.words[n] for n in row[0].tolist()]
        assert [step.split()[0] for step in found["next"]] == found["words"].split()
        assert (weights is None) == ("weights" not in found)
        if weights is not None:
            stored = torch.tensor([[int(n) for n in step.split()] for step in found["weights"]])
            torch.testing.assert_close(stored / 1000, weights[0], atol=5.1e-4, rtol=0.0)


def test_only_pairs_of_common_words_are_left_with_their_references(study):
    few = study.common(TOY, 130)
    seen = [Counter(word for pair in TOY.train for word in pair[side]) for side in (0, 1)]
    rare = [{word for word, count in one.items() if count < 130} for one in seen]
    assert rare[1] and 0 < len(few.test) < len(TOY.test)
    for pair in few.train + few.validation + few.test:
        assert not rare[0].intersection(pair[0]) and not rare[1].intersection(pair[1])
    assert few.test_references == [[" ".join(target) for _, target in few.test]]


def test_more_sentences_than_there_are_is_refused(study):
    with pytest.raises(ValueError, match=r"1 to \d+ short sentences of the test set fit; got 9999"):
        study.short(TOY, 9999)
