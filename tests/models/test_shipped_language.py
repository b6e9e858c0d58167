"""The book's own models: what is shipped is as good as its card says, and reads and writes."""

import importlib
import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from attnbook.data import text
from attnbook.decoder_config import DecoderConfig
from attnbook.losses import parameters
from attnbook.models import hub
from attnbook.models.book import book_lm
from attnbook.models.llama import llama
from attnbook.quantise import quantised_file
from attnbook.quantise.rounding import QuantisedLinear, quantised
from attnbook.shipped.language import FOLDER, load, names, nats_per_byte
from attnbook.train.cli.corpus import byte_pairs

SIZES = DecoderConfig(V=11, width=12, depth=2, heads=2, kv_heads=1, hidden=7)


@pytest.fixture(scope="module")
def lm():
    return load("book-lm")


@pytest.fixture(scope="module")
def script(root):
    """`results/book_bytes.py`, which made the shipped tokenizer of the trained one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "results"))
        return importlib.import_module("book_bytes")


@pytest.fixture(scope="module")
def before(script):
    """The tokenizer as it was trained: it drops what it has no token for."""
    return script.trained(json.loads((FOLDER / "book-lm/tokenizer.json").read_text("utf-8")))


def test_an_unknown_name_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="'book-llm'; there are 'book-lm', 'book-stories'"):
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
        assert sum(path.stat().st_size for path in folder.iterdir()) < 8.2e6
        shipped = load(name)
        assert parameters(shipped.model) == shipped.card["parameters"]


def test_the_shipped_weights_have_the_loss_on_their_card(lm):
    """The embedded text's beginning; the whole takes longer (`results/book_lm.py ship`)."""
    check = lm.card["check"]
    passage = text.load("python-docs").validation[: check["characters"]]
    assert lm.nats_per_byte(passage) == pytest.approx(check["nats_per_byte"], abs=2e-3)


def test_the_model_of_stories_has_the_loss_on_its_card_and_writes_on():
    """On four thousand characters of a book that it has not read, in four bits and widened."""
    stories = load("book-stories")
    check = stories.card["check"]
    found = stories.nats_per_byte(check["passage"])
    assert found == pytest.approx(check["nats_per_byte"], abs=2e-3)
    assert found < 1.61 * math.log(2)  # what counts of strings need
    start, written = next(iter(stories.card["samples"].items()))
    assert stories.write(start, 8, seed=0) == written[: len(stories.write(start, 8, seed=0))]
    assert load("book-stories", few_bits=True).nats_per_byte(check["passage"]) == pytest.approx(
        found, abs=1e-3
    )


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


def test_it_is_a_qwen3_whose_queries_and_keys_have_the_same_gain(lm, tmp_path):
    sizes = DecoderConfig(**lm.card["sizes"])
    two_gains = llama(**vars(sizes), qk_norm=True)
    two_gains.load_state_dict(lm.model.state_dict())
    config = {"model_type": "qwen3", "vocab_size": sizes.V, "hidden_size": sizes.width}
    config |= {"num_hidden_layers": sizes.depth, "num_attention_heads": sizes.heads}
    config |= {"num_key_value_heads": sizes.kv_heads, "head_dim": sizes.D}
    config |= {"intermediate_size": sizes.hidden, "rms_norm_eps": 1e-6}
    config |= {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}}
    hub.save(two_gains, tmp_path, config | {"tie_word_embeddings": False})
    theirs = pytest.importorskip("transformers").AutoModelForCausalLM.from_pretrained(tmp_path)
    tokens = lm.encode("ROMEO:\nWhat say you to the king?")
    with torch.no_grad():
        torch.testing.assert_close(theirs(tokens).logits, lm.model(tokens), atol=1e-4, rtol=0)


def test_text_survives_the_tokenizer(lm):
    passage = "KING:\nWhat, ho! x = [1, 2]; print(x)\n\n  return  None\n"
    assert lm.decode(lm.encode(passage)) == passage
    assert len(lm.tokenizer.get_vocab()) == lm.card["sizes"]["V"]
    assert lm.tokenizer.token_to_id("<|end|>") == 1


@given(st.text())
@example("café — naïve 漢字\t")
@example("\\u00e9 \\xc3\\xa9 is é; ␛c3; \ufeff\r\n\0 <|end|>é")
def test_every_text_survives_the_tokenizer(lm, passage):
    """A byte without a token is the escape and two digits, which no text can write otherwise."""
    tokens = lm.encode(passage)
    assert lm.decode(tokens) == passage
    known = passage.replace("<|end|>", "")
    spelled = sum(not 32 <= byte <= 126 and byte != 10 for byte in known.encode())
    assert (tokens == lm.card["bytes"]["escape"]).sum() == spelled


def test_an_e_with_an_accent_is_six_tokens_and_shows_its_bytes(lm):
    tokens = lm.encode("é")[0]
    assert "·".join(lm.decode(token) for token in tokens.split(1)) == r"\x·c·3·\x·a·9"
    assert lm.encode("né")[0, :-6].tolist() == lm.encode("n")[0].tolist()


@given(st.text(st.sampled_from(" \n" + "".join(map(chr, range(32, 127))))))
def test_texts_of_ascii_have_the_tokens_that_were_trained(lm, before, passage):
    new, old = (tokenizer.encode(passage) for tokenizer in (lm.tokenizer, before))
    assert new.ids == old.ids and new.offsets == old.offsets


def test_the_documentation_has_the_tokens_that_were_trained_and_expects_no_escape(lm, before):
    passage = text.load("python-docs").validation
    assert lm.encode(passage)[0].tolist() == before.encode(passage).ids
    assert max(lm.card["bytes"]["chance_of_escape"].values()) < 1e-6


def test_what_is_shipped_is_what_the_script_makes(lm, before, script):
    made, shipped = script.with_every_byte(before).to_str(), lm.tokenizer.to_str()
    assert json.loads(made) == json.loads(shipped)


def test_spelled_bytes_are_counted_as_bytes(lm):
    """All tokens equally likely: three times log V nats for each byte of Chinese."""
    passage = "注意力" * 60
    nothing = book_lm(DecoderConfig(**lm.card["sizes"]))
    for T in (63, 100):
        nats = nats_per_byte(nothing, lm.tokenizer, passage, T)
        assert nats == pytest.approx(3 * math.log(1024), rel=0.01)
    assert math.isfinite(lm.nats_per_byte(passage))


def test_a_tokenizer_that_drops_characters_is_refused(lm, before):
    with pytest.raises(ValueError, match=r"does not give the text back; missing: \['ï'\]"):
        nats_per_byte(lm.model, before, "naïve", 4)


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
