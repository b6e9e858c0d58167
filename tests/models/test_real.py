"""Published weights, where they are: `ATTNBOOK_GEMMA` names the folder of Gemma 3 270M,
`ATTNBOOK_GGUF` its file, `ATTNBOOK_MINILM`, `ATTNBOOK_RXNMAPPER` and `ATTNBOOK_RXNFP` folders of
encoders. `python tools/published.py FOLDER --test` fetches them and runs these tests."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from attnbook.generate.sampling import generate
from attnbook.inside.circuits import lens, reading_at, record, replaced
from attnbook.inside.watch import watch
from attnbook.models.hub import load, load_tokenizer, save

TEXT = "The cat sat on the mat. In 1969, a man — the first — stood on the moon: “one small step”."

MORE = 1000  # the window has 512

ELSEWHERE = """
import sys, transformers
folder, text = sys.argv[1:]
tokens = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
model = transformers.AutoModelForCausalLM.from_pretrained(folder)
print(model.generate(**tokens, max_new_tokens=20, do_sample=False)[0].tolist())
assert "attnbook" not in sys.modules
"""


def place(name):
    if name not in os.environ:
        pytest.skip(f"{name} names no folder of published weights")
    return os.environ[name]


@torch.no_grad()
def test_gemma_has_the_logits_of_transformers_and_writes_the_same():
    folder = place("ATTNBOOK_GEMMA")
    transformers = pytest.importorskip("transformers")
    tokens = torch.tensor([load_tokenizer(folder).encode(TEXT).ids])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ours = load(folder)
    assert_close(ours(tokens), theirs(tokens).logits, rtol=0, atol=1e-4)
    expected = theirs.generate(tokens, max_new_tokens=20, do_sample=False)
    assert torch.equal(generate(ours, tokens, expected.shape[1] - tokens.shape[1]), expected)


@pytest.mark.weekly
@pytest.mark.timeout(1800)
@torch.no_grad()
def test_each_of_a_thousand_tokens_beyond_the_window_is_the_likeliest_of_transformers():
    folder = place("ATTNBOOK_GEMMA")
    transformers = pytest.importorskip("transformers")
    tokens = torch.tensor([load_tokenizer(folder).encode("Once upon a time, in a village").ids])
    written = generate(load(folder), tokens, MORE)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    x = theirs.model(written).last_hidden_state[0, tokens.shape[1] - 1 : -1]
    likeliest = torch.cat([theirs.lm_head(some).argmax(-1) for some in x.split(64)])
    assert torch.equal(likeliest, written[0, tokens.shape[1] :])


@pytest.mark.timeout(600)
@torch.no_grad()
def test_what_is_seen_and_changed_inside_gemma_is_what_hooks_on_transformers_see_and_change():
    folder = place("ATTNBOOK_GEMMA")
    transformers = pytest.importorskip("transformers")
    tokens, other = (
        torch.tensor([load_tokenizer(folder).encode(text).ids])
        for text in (
            "When Mary and John went to the store, John gave a drink to",
            "When Kate and Paul went to the store, Paul gave a drink to",
        )
    )
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    layers, ours = theirs.model.layers, load(folder)
    with reading_at(ours):
        run, elsewhere = record(ours, tokens), record(ours, other)
    seen = theirs(tokens, output_attentions=True, output_hidden_states=True, logits_to_keep=1)
    assert_close(run.weights, torch.stack(seen.attentions), rtol=0, atol=1e-4)
    for mine, true in zip(run.stream[:-1], seen.hidden_states, strict=False):
        assert_close(mine, true, rtol=0, atol=1e-5 * float(true.abs().max()))
    early = theirs.lm_head(theirs.model.norm(seen.hidden_states[13][:, -1]))
    assert_close(lens(ours, run.stream[13][:, -1]), early, rtol=0, atol=1e-3)

    heads, there = [(5, 2), (4, 1), (11, 3)], {}  # as in the other sentence

    def keep(layer, part, given):
        there[layer] = given[0]

    def put(layer, part, given):
        x = given[0].clone()
        for number, head in heads:
            if number == layer:
                where = slice(256 * head, 256 * (head + 1))
                x[..., where] = there[layer][..., where]
        return (x,)

    for hook, given in ((keep, other), (put, tokens)):
        handles = [
            layers[n].self_attn.o_proj.register_forward_pre_hook(partial(hook, n)) for n, _ in heads
        ]
        changed = theirs(given, logits_to_keep=1).logits
        for handle in handles:
            handle.remove()
    with reading_at(ours), replaced(ours, {(n, h): elsewhere.heads[n][:, h] for n, h in heads}):
        assert_close(ours(tokens), changed, rtol=0, atol=1e-3)
    assert (changed - seen.logits).abs().max() > 1


@pytest.mark.timeout(600)
def test_what_is_saved_is_written_on_by_a_process_that_knows_nothing_of_this_module(tmp_path):
    folder = Path(place("ATTNBOOK_GEMMA"))
    pytest.importorskip("transformers")
    ours = load(folder)
    save(ours, tmp_path, json.loads((folder / "config.json").read_text()))
    shutil.copy(folder / "tokenizer.json", tmp_path)
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path), TEXT]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    tokens = torch.tensor([load_tokenizer(folder).encode(TEXT).ids])
    expected = json.loads(there.splitlines()[-1])
    assert generate(ours, tokens, len(expected) - tokens.shape[1])[0].tolist() == expected


@pytest.mark.timeout(600)  # 600,000 pairs of pieces are looked up
@torch.no_grad()
def test_gemma_in_gguf_is_gemma_in_safetensors_and_has_its_tokens():
    file, folder = place("ATTNBOOK_GGUF"), place("ATTNBOOK_GEMMA")
    pytest.importorskip("gguf", reason="GGUF is read with the extra `real`")
    tokens = load_tokenizer(folder).encode(TEXT).ids
    assert load_tokenizer(file).encode(TEXT).ids == tokens
    assert load_tokenizer(file).decode(tokens) == TEXT
    given = torch.tensor([tokens])
    assert_close(load(file)(given), load(folder)(given), rtol=0, atol=1e-4)


@torch.no_grad()
def test_minilm_has_the_vectors_of_transformers():
    folder = place("ATTNBOOK_MINILM")
    transformers = pytest.importorskip("transformers")
    tokens = torch.tensor([load_tokenizer(folder).encode(TEXT).ids])
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    with pytest.warns(UserWarning, match=r"ends with vectors.*pooler\.dense"):
        ours = load(folder)
    there = tokens != 0
    expected = theirs(tokens, attention_mask=there.long()).last_hidden_state
    assert_close(ours(tokens, there), expected, rtol=0, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(load(folder, head=False)(tokens, there), expected, rtol=0, atol=1e-5)


REACTION = ("C", "(", "=", "O", ")", "O", ".", "C", "C", "O", ">>", "C", "C", "O", "C", "=", "O")


def reaction(folder):
    """The numbers of a reaction's atoms and signs, as the folder's list has them: (1, T)."""
    number = {token: i for i, token in enumerate((folder / "vocab.txt").read_text().split("\n"))}
    return torch.tensor([[number[token] for token in ("[CLS]", *REACTION, "[SEP]")]])


@torch.no_grad()
def test_an_albert_of_reactions_has_the_logits_and_maps_of_transformers():
    folder = Path(place("ATTNBOOK_RXNMAPPER"))
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AlbertForMaskedLM.from_pretrained(folder, attn_implementation="eager")
    tokens, ours = reaction(folder), load(folder)
    expected = theirs.eval()(tokens, output_attentions=True)
    with watch(ours) as seen:
        found = ours(tokens)
    assert_close(found, expected.logits, rtol=0, atol=1e-4)
    assert_close(*(list(x)[-1] for x in (seen.values(), expected.attentions)), rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_bert_whose_config_names_no_family_is_read_by_its_kind():
    folder = Path(place("ATTNBOOK_RXNFP")) / "bert_pretrained"
    transformers = pytest.importorskip("transformers")
    with pytest.raises(ValueError, match="no model of type None"):
        load(folder)
    tokens, ours = reaction(folder), load(folder, kind="bert")
    theirs = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    assert_close(ours(tokens), theirs(tokens).logits, rtol=0, atol=1e-4)


@torch.no_grad()
def test_a_classifier_of_reactions_ends_with_the_vectors_of_transformers():
    folder = Path(place("ATTNBOOK_RXNFP")) / "bert_ft_10k_25s"
    transformers = pytest.importorskip("transformers")
    with pytest.warns(UserWarning, match=r"ends with vectors.*classifier"):
        ours = load(folder)
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    tokens = reaction(folder)
    assert_close(ours(tokens), theirs(tokens).last_hidden_state, rtol=0, atol=1e-5)
