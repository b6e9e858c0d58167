"""The book's own models: what is shipped is as good as its card says, and reads and writes."""

import json
import math
from dataclasses import replace

import pytest
import torch

from attnbook.data import text
from attnbook.decoder_config import DecoderConfig
from attnbook.models.book import book_lm
from attnbook.quantise import quantised_file
from attnbook.quantise.rounding import QuantisedLinear, quantised
from attnbook.shipped.language import FOLDER, load, names, nats_per_byte
from attnbook.train.cli.corpus import byte_pairs

SIZES = DecoderConfig(V=11, width=12, depth=2, heads=2, kv_heads=1, hidden=7)


@pytest.fixture(scope="module")
def lm():
    return load("book-lm")


def test_an_unknown_name_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="no model 'book-llm'; there are 'book-lm'"):
        load("book-llm")


def test_a_new_model_finds_all_tokens_equally_likely():
    torch.manual_seed(0)
    logits = book_lm(SIZES)(torch.tensor([[3, 10, 0]]))
    assert logits.eq(0).all()


def test_what_is_shipped_is_small_and_complete():
    for name in names():
        folder = FOLDER / name
        assert {path.name for path in folder.iterdir()} == {
            "card.json",
            "tokenizer.json",
            "weights.safetensors",
        }
        assert sum(path.stat().st_size for path in folder.iterdir()) < 4e6


def test_the_shipped_weights_have_the_loss_on_their_card(lm):
    """The embedded text's beginning; the whole takes longer (`results/book_lm.py ship`)."""
    check = lm.card["check"]
    passage = text.load("python-docs").validation[: check["characters"]]
    assert lm.nats_per_byte(passage) == pytest.approx(check["nats_per_byte"], abs=2e-3)


@pytest.mark.parametrize("T", [4, 50])
def test_bytes_are_counted_where_windows_cut_characters(T):
    """One token per byte, all equally likely: log V nats per byte, however the text is cut."""
    tokenizer = byte_pairs(["a"], 260)
    passage = "注意力，é — ☃" * 20
    V, size = tokenizer.get_vocab_size(), len(passage.encode())
    assert len(tokenizer.encode(passage).ids) == size
    nats = nats_per_byte(book_lm(replace(SIZES, V=V)), tokenizer, passage, T)
    assert nats == pytest.approx(math.log(V), rel=4 / (size - T))  # two characters at the ends


def test_it_wins_against_counting_on_both_texts(lm):
    for name, value in lm.card["nats_per_byte"].items():
        assert value < lm.card["table_of_counts"][name]
        assert value - lm.card["bits_32"][name] < 0.01  # what eight bits cost


def test_weights_in_few_bits_are_the_same_weights(lm):
    small = load("book-lm", few_bits=True)
    assert any(isinstance(part, QuantisedLinear) for part in small.model.modules())
    tokens = lm.encode("ROMEO:\nBut soft")
    assert torch.allclose(lm.model(tokens), small.model(tokens), atol=1e-4)


def test_loading_gives_back_what_was_rounded(tmp_path):
    torch.manual_seed(3)
    model = book_lm(SIZES)
    torch.nn.init.normal_(model.lm_head.weight)
    quantised_file.save(quantised(model, bits=8), tmp_path / "w.safetensors")
    again = quantised_file.load(book_lm(SIZES), tmp_path / "w.safetensors")
    tokens = torch.tensor([[1, 2, 3, 5]])
    assert torch.equal(model(tokens), again(tokens))


def test_text_survives_the_tokenizer(lm):
    passage = "KING:\nWhat, ho! x = [1, 2]; print(x)\n\n  return  None\n"
    assert lm.decode(lm.encode(passage)) == passage
    assert len(lm.tokenizer.get_vocab()) == lm.card["sizes"]["V"]
    assert lm.tokenizer.token_to_id("<|end|>") == 1


@pytest.mark.parametrize("passage", ["naïve café", "a\tb", "“—”", "注意力"])
def test_characters_without_a_token_are_refused_and_named(lm, passage):
    missing = next(sign for sign in sorted(passage) if not "\n" <= sign <= "~" or sign == "\t")
    for read in (lm.encode, lm.write, lm.nats_per_byte):
        with pytest.raises(ValueError, match="no token for") as refused:
            read(passage)
        assert repr(missing) in str(refused.value)


def test_it_writes_on_and_the_same_seed_writes_the_same(lm):
    one, two, other = (lm.write("ROMEO:\n", 20, seed=seed) for seed in (0, 0, 1))
    assert one == two != other
    assert one.startswith("ROMEO:\n") and len(one) > 27
    with pytest.raises(ValueError, match="start is empty"):
        lm.write("")


def test_nats_per_byte_count_every_byte_once(lm):
    """A model that knows nothing needs ln V for each token; bytes are shared by their tokens."""
    passage = text.load("python-docs").validation[:3000]
    nothing = book_lm(DecoderConfig(**lm.card["sizes"]))
    tokens = lm.encode(passage)[0]
    windows = (len(tokens) - 1) // 64 * 64
    size = len(lm.decode(tokens[1 : windows + 1]))
    expected = windows * torch.tensor(1024.0).log().item() / size
    assert nats_per_byte(nothing, lm.tokenizer, passage, 64) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="too few for a window of 64"):
        nats_per_byte(nothing, lm.tokenizer, "short", 64)


def test_the_card_names_data_licence_recipe_and_machine(lm):
    card = json.loads((FOLDER / "book-lm" / "card.json").read_text(encoding="utf-8"))
    assert card == lm.card
    for field in ("licence", "data", "recipe", "cpu_hours", "command", "curve", "samples"):
        assert card[field]
    assert card["provenance"]["processor"] and card["recipe"]["seed"] is not None


def test_it_has_induction_heads(lm):
    """A second copy of random tokens is much less surprising than the first, and heads say why."""
    heads = lm.card["heads"]
    assert heads["nats_second_copy"] < heads["nats_first_copy"] - 1
    assert max(score for layer in heads["induction"] for score in layer) > 0.3
