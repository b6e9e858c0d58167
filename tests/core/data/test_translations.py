"""Published corpora: tokens, the split, and BLEU against untouched references."""

import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import pairs, registry, translations
from attnbook.data.translations import join, share, tokenize

sacrebleu = pytest.importorskip("sacrebleu")


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("en", "A man's T-shirt isn't  red.", "a man 's t-shirt isn 't red ."),
        ("fr", "L’homme n'est\u202fpas là\u00a0!", "l' homme n' est pas là !"),
        ("de", "Zwei Männer, 3.000 Büsche (groß).", "zwei männer , 3.000 büsche ( groß ) ."),
        ("en", "'Yes', at 5.30", "' yes ' , at 5.30"),
    ],
)
def test_tokens_by_hand(language, text, tokens):
    assert tokenize(text, language) == tokens.split()


@given(st.text("aé'-., 1X\u00a0!"), st.sampled_from(["en", "de", "fr"]))
def test_tokens_hold_every_visible_character(text, language):
    assert "".join(tokenize(text, language)) == "".join(text.lower().split())


@given(
    st.lists(
        st.sampled_from(["l'homme", "man's", "it", "isn't", "d'un", "t-shirt", ",", "."]),
        min_size=1,
    )
)
def test_joined_words_are_cut_as_before(words):
    for language in ("en", "fr"):
        tokens = tokenize(" ".join(words), language)
        assert tokenize(join(tokens), language) == tokens


def test_an_unknown_language_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'it'.*'en', 'de', 'fr'"):
        tokenize("ciao", "it")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multi30k-de-en", "multi30k-en-de", "multi30k-en-fr", "fra-eng"])
def test_our_tokens_cost_no_bleu_against_the_untouched_reference(corpora, name):
    corpus = corpora(name)
    hypotheses, references = [join(target) for _, target in corpus.test], corpus.test_references
    bleu = sacrebleu.corpus_bleu(hypotheses, references, lowercase=True, force=True)
    assert bleu.score > 99.7  # what is missing: German Ober- und, French ’


@pytest.fixture
def tatoeba(tmp_path, monkeypatch):
    """A small archive of the same form in the place of fra-eng: 400 sentences, each said thrice."""
    numbers = [f"{a} {b}" for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmnopqrst"]
    lines = [f"{number}{mark}\tun {number} ." for number in numbers for mark in (".", "!", ".")]
    lines += ["too " * 12 + ".\tcourt .", "short .\t" + "long " * 13, "three\ttrois\tby someone"]
    with zipfile.ZipFile(tmp_path / "small.zip", "w") as archive:
        archive.writestr("fra.txt", "\n".join(lines) + "\n")
    monkeypatch.setattr(registry, "fetch", lambda name: tmp_path / "small.zip")
    return translations.fra_eng()


@pytest.fixture(scope="module")
def loaded():
    return {}


@pytest.fixture
def corpora(real_data, loaded):
    """The published corpora by name, each loaded once."""
    return lambda name: loaded.get(name) or loaded.setdefault(name, pairs.load(name))


def words(sentence):
    """What is left of a sentence without its punctuation marks."""
    return tuple(word for word in sentence if any(map(str.isalnum, word)))


def test_an_english_sentence_is_in_one_part_only_whatever_its_punctuation(tatoeba):
    parts = [{words(source) for source, _ in tatoeba[p]} for p in ("train", "validation", "test")]
    assert all(parts) and sum(map(len, parts)) == len(set.union(*parts)) == 401


def test_long_sentences_are_left_out_and_a_third_column_is_no_matter(tatoeba):
    sources = [" ".join(s) for p in ("train", "validation", "test") for s, _ in tatoeba[p]]
    assert "three" in sources and not any(s.startswith(("too", "short")) for s in sources)


def test_a_held_out_sentence_stands_once_with_all_its_references(tatoeba):
    sources = [tuple(source) for source, _ in tatoeba["test"]]
    assert len(sources) == len(set(sources))
    first, second = tatoeba["test_references"]  # "." was said twice, "!" once
    for (source, target), one, other in zip(tatoeba["test"], first, second, strict=True):
        assert tokenize(one, "fr") == target
        assert (other is None) == (source[-1] == "!")


def test_the_part_of_a_sentence_does_not_depend_on_the_others():
    assert share(["go", "."]) == share(["go", "!"]) != share(["went"])
    assert {share([str(n)]) for n in range(2000)} == set(range(100))


@pytest.mark.slow
def test_fra_eng_as_published(corpora):
    corpus = corpora("fra-eng")
    known = {words(source) for source, _ in corpus.train}
    for part in (corpus.validation, corpus.test):
        assert 800 < len(part) < 1000
        assert not known & {words(source) for source, _ in part}
    assert len(corpus.train) > 120_000
    longest = max(len(sentence) for pair in corpus.train for sentence in pair)
    assert longest == translations.LONGEST


def test_multi30k_as_published(corpora):
    corpus = corpora("multi30k-de-en")
    assert [len(p) for p in (corpus.train, corpus.validation, corpus.test)] == [29000, 1014, 1000]
    assert corpus.test_references[0][0] == "A man in an orange hat starring at something."
    assert len(corpus.test_references[0]) == 1000
    assert all(source and target for source, target in corpus.train)


def test_the_other_directions_hold_the_same_photographs(corpora):
    german, back = corpora("multi30k-de-en").test, corpora("multi30k-en-de").test
    assert back == [(english, german) for german, english in german]
    to_french = corpora("multi30k-en-fr").test
    assert [english for english, _ in to_french] == [english for _, english in german]
