"""Corpora and batches of sentence pairs."""

from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import pairs
from attnbook.data.pairs import Batch
from attnbook.data.vocabulary import BEGIN, END, PAD, Vocabulary

load = cache(pairs.load)  # each corpus is made once
SENTENCE = st.lists(st.sampled_from("abcde"), min_size=1, max_size=7)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=9)


def vocabularies(corpus):
    return Vocabulary(source for source, _ in corpus), Vocabulary(target for _, target in corpus)


def numbered(N):
    """N pairs of different lengths that can be told apart."""
    return [([f"s{n}"] * (1 + n % 5), [f"t{n}"] * (1 + n % 3)) for n in range(N)]


def padding(batches):
    masks = [mask for batch in batches for mask in (batch.source_mask, batch.target_mask)]
    return 1 - sum(mask.sum() for mask in masks) / sum(mask.numel() for mask in masks)


@given(PAIRS)
def test_masks_are_true_exactly_where_tokens_are(corpus):
    batch = pairs.batch(corpus, *vocabularies(corpus))
    for row, (source, target) in enumerate(corpus):
        assert batch.source_mask[row].tolist() == [
            place < len(source) for place in range(max(len(source) for source, _ in corpus))
        ]
        assert batch.target_mask[row].tolist() == [
            place <= len(target) for place in range(1 + max(len(target) for _, target in corpus))
        ]
    assert torch.equal(batch.source_mask, batch.source != PAD)
    assert torch.equal(batch.target_mask, batch.target_out != PAD)
    assert torch.equal(batch.target_mask, batch.target_in != PAD)


@given(PAIRS)
def test_a_batch_holds_its_sentences(corpus):
    source_vocab, target_vocab = vocabularies(corpus)
    batch = pairs.batch(corpus, source_vocab, target_vocab)
    for row, (source, target) in enumerate(corpus):
        n, m = len(source), len(target)
        assert source_vocab.decode(batch.source[row, :n]) == source
        assert batch.target_in[row, : m + 1].tolist() == [BEGIN, *target_vocab.encode(target)]
        assert batch.target_out[row, : m + 1].tolist() == [*target_vocab.encode(target), END]


def test_a_batch_moves_as_a_whole():
    batch = pairs.batch([(["a"], ["b"])], *vocabularies([(["a"], ["b"])])).to("meta")
    assert isinstance(batch, Batch) and {tensor.device.type for tensor in batch} == {"meta"}


def test_a_batch_of_nothing_or_of_an_empty_sentence_is_refused():
    vocabulary = Vocabulary([["a"]])
    with pytest.raises(ValueError, match="at least 1 pair, not 0"):
        pairs.batch([], vocabulary, vocabulary)
    with pytest.raises(ValueError, match="target sentence of pair 1 is empty"):
        pairs.batch([(["a"], ["a"]), (["a"], [])], vocabulary, vocabulary)
    with pytest.raises(ValueError, match="source sentence of pair 0 is empty"):
        pairs.batch([([], ["a"])], vocabulary, vocabulary)


@given(st.integers(1, 30), st.integers(1, 7))
def test_in_order_every_pair_comes_once(N, B):
    corpus = numbered(N)
    source_vocab, target_vocab = vocabularies(corpus)
    batches = list(pairs.batches_in_order(corpus, source_vocab, target_vocab, B))
    found = [source_vocab.decode(row[row != PAD]) for batch in batches for row in batch.source]
    assert found == [source for source, _ in corpus]
    assert [len(batch.source) for batch in batches[:-1]] == [B] * (len(batches) - 1)


@given(st.integers(1, 60), st.integers(1, 6), st.integers(0, 99))
def test_a_sampled_batch_is_what_batch_makes_of_its_pairs(N, B, seed):
    corpus, B = numbered(N), min(N, B)
    source_vocab, target_vocab = vocabularies(corpus)
    sampler = pairs.sampler(corpus, source_vocab, target_vocab, B)
    sampled = sampler(torch.Generator().manual_seed(seed))
    rows = [int(source_vocab.decode(row)[0][1:]) for row in sampled.source[:, :1]]
    assert len(set(rows)) == B  # different pairs
    whole = pairs.batch([corpus[n] for n in rows], source_vocab, target_vocab)
    for one, other in zip(sampled, whole, strict=True):
        assert torch.equal(one, other)


def test_every_pair_is_equally_likely():
    corpus = numbered(17)  # with B = 1: two buckets, of 8 and of 9 pairs
    source_vocab, target_vocab = vocabularies(corpus)
    sampler = pairs.sampler(corpus, source_vocab, target_vocab, 1)
    generator = torch.Generator().manual_seed(3)
    counts = torch.zeros(17)
    for _ in range(3400):
        counts[int(source_vocab.decode(sampler(generator).source[0])[0][1:])] += 1
    assert (counts - 200).abs().max() < 5 * 200**0.5


def test_the_sampler_continues_bitwise_from_the_generator_s_state():
    corpus = load("toy")
    arguments = (corpus.train, corpus.source, corpus.target, 7)
    generator = torch.Generator().manual_seed(5)
    pairs.sampler(*arguments)(generator)
    state, sampler = generator.get_state(), pairs.sampler(*arguments)
    first = [sampler(generator) for _ in range(4)]
    resumed = torch.Generator()
    resumed.set_state(state)
    sampler = pairs.sampler(*arguments)  # a new process has a new one
    for batch in first:
        for one, other in zip(batch, sampler(resumed), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["toy", "toy-long"])
def test_buckets_leave_little_padding(name):
    corpus, generator = load(name), torch.Generator().manual_seed(0)
    sampler = pairs.sampler(corpus.train, corpus.source, corpus.target, 64)
    in_buckets = padding(sampler(generator) for _ in range(50))
    unsorted = pairs.batches_in_order(corpus.train[:3200], corpus.source, corpus.target, 64)
    assert in_buckets < 0.1 and in_buckets < padding(list(unsorted)) / 3


def test_a_batch_larger_than_the_corpus_is_refused_with_both_numbers():
    corpus = numbered(5)
    for B in (6, 0):
        with pytest.raises(ValueError, match=f"batch of {B} .* 5 pairs"):
            pairs.sampler(corpus, *vocabularies(corpus), B)
    with pytest.raises(ValueError, match="at least 1 pair, not 0"):
        pairs.batches_in_order(corpus, *vocabularies(corpus), 0)


def test_the_default_needs_no_network_and_translates_to_french():
    corpus = pairs.load()
    assert corpus.name == "toy" and corpus.novel
    assert corpus.test[0] == (["my", "red", "car"], ["ma", "voiture", "rouge"])
    assert corpus.test_references == [[" ".join(target) for _, target in corpus.test]]
    assert "4,000 train" in repr(corpus)


def test_an_unknown_corpus_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'fra'; there are 'toy', .*'multi30k-en-fr'"):
        pairs.load("fra")
