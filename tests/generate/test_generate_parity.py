"""Twenty random small models write here what they write in `transformers`: greedy, beams, samples.

Each has sizes of its own, drawn from its number, and random weights, and continues three padded
prompts; a stop token occurs in some rows. Beams are compared without a length penalty, which the
two apply by different formulas.
"""

import random
from types import SimpleNamespace

import pytest
import torch

from attnbook.generate.sampling import (
    DecodingSession,
    generate,
    sample,
    start_translation,
    temperature,
    top_k,
    top_p,
)
from attnbook.generate.search import beam_search, greedy_search
from attnbook.masks import length_mask
from attnbook.models.hub import load

transformers = pytest.importorskip("transformers")
warpers = pytest.importorskip("transformers.generation.logits_process")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

STEPS, PAD = 9, 0
MODELS = [
    *("gpt2", "gpt2", "gpt2", "llama", "llama", "llama", "qwen3", "qwen3", "mistral", "mistral"),
    *("gemma2", "gemma2", "gemma3", "phi3", "mixtral"),
    *("deepseek_v3", "bloom", "t5", "t5", "t5 1.1"),
]
assert len(MODELS) == 20
LATENT = {
    **{"moe_intermediate_size": 12, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 2},
    **{"topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "kv_lora_rank": 12},
    **{"q_lora_rank": 14, "qk_rope_head_dim": 6, "qk_nope_head_dim": 5, "v_head_dim": 7},
}


def sizes(kind, draw):
    """A class of `transformers` and a configuration, with sizes that are drawn."""
    V, depth, groups = draw.randint(20, 40), draw.randint(1, 3), draw.choice([1, 2, 4])
    window = {"sliding_window": draw.randint(2, 5)}
    common = {"vocab_size": V, "bos_token_id": None, "eos_token_id": None, "pad_token_id": PAD}
    size = {
        "hidden_size": 24,
        "num_hidden_layers": depth,
        "intermediate_size": 4 * draw.randint(3, 7),
    }
    llama = common | size | {"num_attention_heads": 4, "num_key_value_heads": groups}
    t5 = common | {"d_model": 24, "d_kv": 5, "d_ff": 20, "num_layers": 3, "num_heads": 4}
    t5 |= {"decoder_start_token_id": PAD, "num_decoder_layers": depth}
    gated = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    wide = {"head_dim": draw.choice([6, 10])}
    kinds = {
        "gpt2": ("GPT2", common | {"n_positions": 14, "n_embd": 24, "n_layer": depth, "n_head": 4}),
        "llama": ("Llama", llama),
        "qwen3": ("Qwen3", llama | wide),
        "mistral": ("Mistral", llama | window),
        "gemma2": ("Gemma2", llama | wide | window),
        "gemma3": ("Gemma3", llama | wide | window | {"layer_types": layers(depth)}),
        "phi3": ("Phi3", llama | window),
        "mixtral": ("Mixtral", llama | {"num_local_experts": 4, "num_experts_per_tok": 2}),
        "deepseek_v3": ("DeepseekV3", llama | LATENT | {"num_key_value_heads": 4}),
        "bloom": ("Bloom", common | {"hidden_size": 24, "n_layer": depth, "n_head": 4}),
        "t5": ("T5", t5),
        "t5 1.1": ("T5", t5 | gated),
    }
    return kinds[kind]


def layers(depth):
    return (["sliding_attention", "full_attention"] * depth)[:depth]


SECOND = [kind in MODELS[:seed] for seed, kind in enumerate(MODELS)]  # of its kind
EACH = [
    pytest.param(one, id=f"{one[1]} {one[0]}", marks=[pytest.mark.slow] * again)
    for one, again in zip(enumerate(MODELS), SECOND, strict=True)
]


@pytest.fixture(scope="module", params=EACH)
def pair(request, tmp_path_factory):
    """One model in both forms, and three prompts (or sources) with padding at their end."""
    seed, kind = request.param
    name, settings = sizes(kind, random.Random(seed))
    heads = {"GPT2": "LMHeadModel", "T5": "ForConditionalGeneration"}
    config = f"{name}TextConfig" if kind == "gemma3" else f"{name}Config"
    config = getattr(transformers, config)(**settings)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    theirs = getattr(transformers, name + heads.get(name, "ForCausalLM"))(config).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.normal_(std=0.3)
    folder = tmp_path_factory.mktemp("model")
    theirs.save_pretrained(folder)
    mask = length_mask(torch.tensor([5, 2, 4]))
    tokens = torch.randint(3, settings["vocab_size"], mask.shape).masked_fill(~mask, PAD)
    parts = {"theirs": theirs, "ours": load(folder), "tokens": tokens, "mask": mask}
    return SimpleNamespace(**parts, reads=kind.startswith("t5"))


def left(pair):
    """The same prompts with their padding first, as `transformers` wants them."""
    order = pair.mask.long().argsort(dim=-1, stable=True)
    return pair.tokens.gather(1, order), pair.mask.gather(1, order)


def expected(pair, end, **how):
    """What `transformers` appends."""
    tokens, mask = (pair.tokens, pair.mask) if pair.reads else left(pair)
    how |= {"max_new_tokens": STEPS, "eos_token_id": end, "pad_token_id": PAD}
    written = pair.theirs.generate(tokens, attention_mask=mask.long(), **how)
    return written[:, 1 if pair.reads else tokens.shape[1] :]


def begin(pair):
    """What is asked for logits, and the rows that are gone on with."""
    caches = pair.ours.caches()
    if pair.reads:
        start = torch.full((3, 1), PAD)
        return start_translation(pair.ours, pair.tokens, pair.mask, caches), start
    return DecodingSession(pair.ours, caches, pair.mask), pair.tokens


def written(pair, steps=STEPS, *choose, **how):
    """What is appended here to prompts padded on the right (those of T5 have no padding)."""
    read, start = begin(pair)
    return generate(read, start, steps, *choose, **how)[:, start.shape[1] :]


def ends(pair):
    """A token that some row writes before its last, and two that end rows at different times."""
    free = expected(pair, None, do_sample=False)
    return int(free[0, 3]), int(free[1, 5])


def assert_same(found, theirs, end):
    """Row by row up to the first stop token; after it `transformers` has padding, a search here
    the token again."""
    for ours, other in zip(found.tolist(), theirs.tolist(), strict=True):
        assert upto(ours, end) == upto(other, end)


def upto(row, end):
    stops = [row.index(token) + 1 for token in end if token in row]
    return row[: min(stops, default=len(row))]


def test_greedy(pair):
    first, second = ends(pair)
    assert torch.equal(written(pair), expected(pair, None, do_sample=False))
    for end in ({first}, {first, second}):
        theirs = expected(pair, sorted(end), do_sample=False)
        found = written(pair, eos=end, pad=PAD)
        assert torch.equal(found, theirs)  # the padding after each end too
    read, start = begin(pair)
    theirs = expected(pair, first, do_sample=False)
    assert_same(greedy_search(read, start, first, STEPS), theirs, [first])


@pytest.mark.slow
@pytest.mark.parametrize("beams", [2, 4])
def test_beams(pair, beams):
    unused = pair.theirs.config.vocab_size - 1
    for end in (unused, *ends(pair)):
        theirs = expected(pair, end, num_beams=beams, length_penalty=0.0, do_sample=False)
        assert_same(beam_search(*begin(pair), end, STEPS, beams, alpha=0.0), theirs, [end])


FILTERS = {
    "top-k": ({"top_k": 5}, (top_k(5),)),
    "top-p": ({"top_p": 0.8, "top_k": 0}, (top_p(0.8),)),
    "all": (
        {"temperature": 1.7, "top_k": 9, "top_p": 0.9},
        (temperature(1.7), top_k(9), top_p(0.9)),
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_samples(pair, name):
    """From the same seed the same tokens are drawn, in all rows and steps."""
    settings, filters = FILTERS[name]
    torch.manual_seed(3)
    theirs = expected(pair, None, do_sample=True, **settings)
    choose = sample(*filters, generator=torch.Generator().manual_seed(3))
    assert torch.equal(written(pair, STEPS, choose), theirs)


def test_filters(pair):
    """On the model's own logits the same tokens are kept, with the same probabilities."""
    read, start = begin(pair)
    logits = read(start)
    for k in (1, 3, 12):
        same(top_k(k)(logits), warpers.TopKLogitsWarper(k)(None, logits))
    for p in (0.2, 0.5, 0.95):
        same(top_p(p)(logits), warpers.TopPLogitsWarper(p)(None, logits))


def same(ours, theirs):
    assert torch.equal(ours.isfinite(), theirs.isfinite())
    torch.testing.assert_close(ours.softmax(-1), theirs.softmax(-1))
