"""Published weights, where they are: `ATTNBOOK_GEMMA` and `ATTNBOOK_MINILM` name their folders,
`ATTNBOOK_GGUF` a file of Gemma 3 270M."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from attnbook.generate.sampling import generate
from attnbook.models.hub import load, load_tokenizer, save

TEXT = "The cat sat on the mat. In 1969, a man — the first — stood on the moon: “one small step”."


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
