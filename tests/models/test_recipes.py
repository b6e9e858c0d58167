"""The recipes are the published models: their sizes, their weights' beginnings, torch's own."""

import math

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnbook.attention import SplitProjection
from attnbook.experts import MixtureOfExperts, active_parameters, balance_loss
from attnbook.generate.sampling import generate
from attnbook.inside.watch import watch
from attnbook.losses import parameters, token_loss
from attnbook.masks import length_mask
from attnbook.models.bert import bert
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.models.mixtral import mixtral
from attnbook.models.vaswani import vaswani_2017


def size(recipe, *arguments, **named):
    """The number of parameters, without making any."""
    with torch.device("meta"):
        return parameters(recipe(*arguments, **named))


# -- sizes ------------------------------------------------------------------------------------

BIG = {"source_V": 37_000, "width": 1024, "heads": 16, "hidden": 4096}
GPT3 = {"V": 50_257, "T": 2048, "width": 12_288, "depth": 96, "heads": 96}
LLAMA2_70B = {"width": 8192, "depth": 80, "heads": 64, "kv_heads": 8, "hidden": 28_672}
LLAMA3_8B = {"V": 128_256, "kv_heads": 8, "hidden": 14_336, "base": 500_000.0}


@pytest.mark.parametrize(
    ("expected", "recipe", "named"),
    [
        (63_082_496, vaswani_2017, {"source_V": 37_000}),
        (124_439_808, gpt2, {}),
        (354_823_168, gpt2, {"width": 1024, "depth": 24, "heads": 16}),
        (1_557_611_200, gpt2, {"width": 1600, "depth": 48, "heads": 25}),
        (109_514_298 - 2 * 768, bert, {}),  # less two vectors for first and second sentence
        (6_738_415_616, llama, {}),
        (68_976_648_192, llama, LLAMA2_70B),
        (8_030_261_248, llama, LLAMA3_8B),
        (46_702_792_704, mixtral, {}),
    ],
)
def test_published_checkpoints_have_as_many_parameters(expected, recipe, named):
    assert size(recipe, **named) == expected


@pytest.mark.parametrize(
    ("millions", "recipe", "named"),
    [(213, vaswani_2017, BIG), (175_000, gpt2, GPT3), (110, bert, {}), (6_700, llama, {})],
)
def test_published_sizes_to_one_percent(millions, recipe, named):
    assert size(recipe, **named) / 1e6 == pytest.approx(millions, rel=0.01)


def test_of_mixtrals_parameters_little_more_than_a_quarter_work_on_a_token():
    """Jiang et al. 2024, section 2.1 and the announcement: 46.7 billion, 12.9 billion active."""
    with torch.device("meta"):
        assert active_parameters(mixtral()) / 1e9 == pytest.approx(12.9, abs=0.05)


def test_the_hidden_layer_of_llama_7b_is_11008_wide():
    with torch.device("meta"):
        gate = llama(depth=1).body.blocks[0].feedforward.sublayer.gate
    assert gate.out_features == 11_008


@settings(max_examples=20)
@given(*(st.integers(1, n) for n in (30, 9, 4, 3, 5)))
def test_sizes_follow_the_formula(V, T, D, depth, heads):
    """Four square matrices of attention, eight of the feed-forward network, and the small ones."""
    C = 2 * D * heads
    norm = 2 * C
    block = 12 * C**2 + 9 * C + 2 * norm
    assert size(gpt2, V, T, C, depth, heads) == V * C + T * C + depth * block + norm
    head = C**2 + C + norm + V
    assert size(bert, V, T, C, depth, heads) == V * C + T * C + norm + depth * block + head
    thin = depth * (12 * C**2 + 2 * C) + C  # norms without a shift, as in nanoGPT
    assert size(gpt2, V, T, C, depth, heads, bias=False) == V * C + T * C + thin
    encoder = 4 * C**2 + 4 * C + 2 * C * 7 + 7 + C + 2 * norm
    decoder = encoder + 4 * C**2 + 4 * C + norm
    both = depth * (encoder + decoder)
    assert size(vaswani_2017, V, None, C, depth, heads, 7) == V * C + both
    assert size(vaswani_2017, V, 8, C, depth, heads, 7) == (V + 8) * C + both
    attention = 2 * C**2 + 2 * C * 2 * D  # keys and values: one head for all queries
    per_block = attention + 3 * C * 7 + 2 * C
    assert size(llama, V, C, depth, heads, 1, 7) == 2 * V * C + depth * per_block + C


# -- ties and beginnings ----------------------------------------------------------------------


def test_tied_weights_are_one_tensor():
    model = gpt2(V=7, T=5, width=12, depth=1, heads=3)
    assert model.lm_head.weight is model.embed.tokens.weight
    model = bert(7, 5, 12, 1, 3)
    assert model.lm_head[-1].weight is model.embed.tokens.weight
    model = llama(7, 12, 1, 3)
    assert model.lm_head.weight is not model.embed.tokens.weight
    model = vaswani_2017(7, width=12, depth=1, heads=3, hidden=5)
    three = (model.source_embed.tokens, model.target_embed.tokens, model.lm_head)
    assert len({id(part.weight) for part in three}) == 1
    model = vaswani_2017(7, 11, width=12, depth=1, heads=3, hidden=5)
    assert model.target_embed.tokens.weight is model.lm_head.weight
    assert model.source_embed.tokens.weight is not model.lm_head.weight


def test_a_tied_weight_hears_from_both_sides():
    model = gpt2(V=7, T=5, width=12, depth=1, heads=3)
    model(torch.tensor([[2, 3]]))[0, :, 6].sum().backward()
    grad = model.lm_head.weight.grad
    assert (grad[[2, 3, 6]] != 0).any(-1).all() and (grad[[0, 1, 4, 5]] == 0).all()


def spread(weight):
    return weight.detach().std().item()


def test_gpt2_begins_small_and_smaller_where_it_adds_to_the_stream():
    torch.manual_seed(0)
    model = gpt2(V=300, T=200, width=96, depth=8, heads=3)
    for name, weight in model.named_parameters():
        added = name.endswith(("to_out.weight", "down.weight"))
        if weight.dim() == 2:
            assert spread(weight) == pytest.approx(0.02 / 4 if added else 0.02, rel=0.05), name
        else:
            assert (weight == (1 if name.endswith("weight") else 0)).all(), name


@pytest.mark.parametrize("recipe", [bert, llama])
def test_bert_and_llama_begin_with_one_size_for_all(recipe):
    torch.manual_seed(0)
    model = bert(300, 200, 96, 2, 3) if recipe is bert else llama(300, 96, 2, 3, 1)
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            assert spread(weight) == pytest.approx(0.02, rel=0.05), name
        else:
            assert (weight == (1 if name.endswith("weight") else 0)).all(), name


def test_vaswani_2017_begins_as_glorot_says_each_projection_for_itself():
    torch.manual_seed(0)
    model = vaswani_2017(300, width=96, depth=1, heads=3, hidden=200)
    assert spread(model.lm_head.weight) == pytest.approx(96**-0.5, rel=0.02)
    tokens = torch.arange(300)[None]
    assert spread(model.source_embed.scale * model.source_embed.tokens(tokens)) == pytest.approx(
        1, rel=0.02
    )
    block = model.decoder.blocks[0]
    square, wide = math.sqrt(6 / (96 + 96)), math.sqrt(6 / (96 + 200))
    for weight, bound in [
        (block.attention.sublayer.to_qkv.weight, square),
        (block.cross_attention.sublayer.project.to_k.weight, square),
        (block.attention.sublayer.to_out.weight, square),
        (block.feedforward.sublayer.up.weight, wide),
    ]:
        assert 0.99 * bound < weight.abs().max() <= bound
        assert spread(weight) == pytest.approx(bound / math.sqrt(3), rel=0.03)


@pytest.mark.parametrize(
    "model", [lambda: gpt2(97, 9, 24, 3, 3), lambda: llama(97, 24, 3, 3)], ids=["gpt2", "llama"]
)
def test_an_untrained_model_knows_nothing(model):
    torch.manual_seed(0)
    tokens = torch.randint(97, (5, 9))
    loss = token_loss(model().eval()(tokens[:, :-1]), tokens[:, 1:]).item()
    assert loss == pytest.approx(math.log(97), abs=0.03)


# -- torch's own transformer --------------------------------------------------------------------


def torchs(width, depth, heads, hidden):
    """nn.Transformer without the norms that it puts after encoder and decoder."""
    common = {"dropout": 0.0, "batch_first": True}
    encoder = nn.TransformerEncoderLayer(width, heads, hidden, **common)
    decoder = nn.TransformerDecoderLayer(width, heads, hidden, **common)
    return nn.Transformer(
        width,
        heads,
        custom_encoder=nn.TransformerEncoder(encoder, depth, enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(decoder, depth),
        batch_first=True,
    )


def pairs(model, reference):
    """Our tensors beside torch's, which say the same."""
    for ours, theirs in [
        *zip(model.encoder.blocks, reference.encoder.layers, strict=True),
        *zip(model.decoder.blocks, reference.decoder.layers, strict=True),
    ]:
        parts = [(ours.attention, theirs.self_attn, theirs.norm1)]
        last = theirs.norm2
        if hasattr(ours, "cross_attention"):
            parts.append((ours.cross_attention, theirs.multihead_attn, theirs.norm2))
            last = theirs.norm3
        for mine, attention, norm in parts:
            project = mine.sublayer.project
            apart = isinstance(project, SplitProjection)
            maps = (project.to_q, project.to_k, project.to_v) if apart else (project.to_qkv,)
            yield [part.weight for part in maps], attention.in_proj_weight
            yield [part.bias for part in maps], attention.in_proj_bias
            yield mine.sublayer.to_out.weight, attention.out_proj.weight
            yield mine.sublayer.to_out.bias, attention.out_proj.bias
            yield mine.norm.weight, norm.weight
            yield mine.norm.bias, norm.bias
        for mine, linear in [("up", theirs.linear1), ("down", theirs.linear2)]:
            yield getattr(ours.feedforward.sublayer, mine).weight, linear.weight
            yield getattr(ours.feedforward.sublayer, mine).bias, linear.bias
        yield ours.feedforward.norm.weight, last.weight
        yield ours.feedforward.norm.bias, last.bias


def test_vaswani_2017_is_torchs_transformer_forward_and_gradient():
    torch.manual_seed(0)
    model = vaswani_2017(13, 11, width=12, depth=2, heads=3, hidden=17, dropout=0.0)
    reference = torchs(12, 2, 3, 17)
    both = list(pairs(model, reference))
    both = [(mine if isinstance(mine, list) else [mine], theirs) for mine, theirs in both]
    assert {id(theirs) for _, theirs in both} == {id(w) for w in reference.parameters()}
    with torch.no_grad():
        for mine, theirs in both:
            for part, piece in zip(mine, theirs.normal_(std=0.4).chunk(len(mine)), strict=True):
                part.copy_(piece)
    source, target = torch.randint(13, (2, 5)), torch.randint(11, (2, 7))
    mask = length_mask(torch.tensor([5, 3]))
    logits = model(source, mask, target)
    output = reference(
        model.source_embed(source),
        model.target_embed(target),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.bool),
        src_key_padding_mask=~mask,  # torch's masks are True where looking is forbidden
        memory_key_padding_mask=~mask,
    )
    expected = model.lm_head(output)
    assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    probe = torch.randn_like(logits)
    (logits * probe).sum().backward()
    (expected * probe).sum().backward()
    for mine, theirs in both:
        grad = torch.cat([part.grad for part in mine])
        assert_close(grad, theirs.grad, atol=1e-4, rtol=1e-4)


# -- Mixtral of transformers ----------------------------------------------------------------------

MIXTRAL = {
    "vocab_size": 13,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 10,
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
    "experts_implementation": "eager",  # its fast kernels want widths that are multiples of 4
}
PARTS = {
    "attention.norm.weight": "input_layernorm.weight",
    "attention.sublayer.to_out.weight": "self_attn.o_proj.weight",
    "feedforward.norm.weight": "post_attention_layernorm.weight",
    "feedforward.sublayer.router.weight": "mlp.gate.weight",
}


def as_in_transformers(model, tensor):
    """`tensor` of our weights, under the names and in the shapes that transformers has."""
    names = {
        "model.embed_tokens.weight": tensor(model.embed.tokens.weight),
        "model.norm.weight": tensor(model.body.norm.weight),
        "lm_head.weight": tensor(model.lm_head.weight),
    }
    for i, block in enumerate(model.body.blocks):
        for ours, theirs in PARTS.items():
            names[f"model.layers.{i}.{theirs}"] = tensor(block.get_parameter(ours))
        attention, experts = block.attention.sublayer, block.feedforward.sublayer.experts
        qkv = tensor(attention.project.to_qkv.weight).split(attention.project.widths)
        for name, weight in zip("qkv", qkv, strict=True):
            names[f"model.layers.{i}.self_attn.{name}_proj.weight"] = weight
        up = [torch.cat((tensor(e.gate.weight), tensor(e.up.weight))) for e in experts]
        names[f"model.layers.{i}.mlp.experts.gate_up_proj"] = torch.stack(up)
        down = torch.stack([tensor(e.down.weight) for e in experts])
        names[f"model.layers.{i}.mlp.experts.down_proj"] = down
    return names


def test_mixtral_is_transformers_mixtral_forward_balance_and_gradient():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = mixtral(13, 24, 2, 6, 2, 10, 50.0, 5, 2)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    reference = transformers.MixtralForCausalLM(transformers.MixtralConfig(**MIXTRAL))
    reference.load_state_dict(as_in_transformers(model, lambda weight: weight.detach()))
    model.double(), reference.double()  # in float32, gradients of up to 20 are rounded by 1e-5
    tokens = torch.randint(13, (2, 7))
    theirs = reference(tokens, output_router_logits=True)
    with watch(model, MixtureOfExperts) as seen:
        logits = model(tokens)
    assert theirs.logits.std() > 0.5
    assert_close(logits, theirs.logits, atol=1e-5, rtol=1e-5)
    balance = balance_loss(torch.stack(list(seen.values())), 2)
    assert_close(balance.float(), theirs.aux_loss)  # theirs is computed in float32
    probe = torch.randn_like(logits)
    ((logits * probe).sum() + balance).backward()
    ((theirs.logits * probe).sum() + theirs.aux_loss).backward()
    expected = {name: weight.grad for name, weight in reference.named_parameters()}
    grads = as_in_transformers(model, lambda weight: weight.grad)
    assert_close(grads, expected, atol=1e-5, rtol=1e-5)


def test_mixtral_writes_the_same_with_and_without_a_cache():
    torch.manual_seed(0)
    model, tokens = mixtral(13, 24, 2, 6, 2, 10, 50.0, 5, 2), torch.randint(13, (2, 3))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    assert torch.equal(generate(model, tokens, 6), generate(model, tokens, 6, cached=False))


# -- and they learn -----------------------------------------------------------------------------


def test_a_small_gpt2_learns_a_sequence_that_no_table_of_pairs_can_hold():
    """Of 3 1 4 1 5 9 2 6 5 3 5 8, what follows 1, 5 and 3 depends on what came before."""
    torch.manual_seed(0)
    digits = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]])
    model = gpt2(V=10, T=11, width=24, depth=2, heads=3, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        loss = token_loss(model(digits[:, :-1]), digits[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.05
    assert (model(digits[:, :-1]).argmax(-1) == digits[:, 1:]).all()


def test_dropout_acts_in_training_only():
    tokens = torch.randint(13, (2, 5))
    for model in (gpt2(13, 5, 12, 1, 3, dropout=0.5), bert(13, 5, 12, 1, 3, dropout=0.5)):
        assert not torch.equal(model(tokens), model(tokens))
        model.eval()
        assert torch.equal(model(tokens), model(tokens))


@pytest.mark.parametrize(
    "recipe",
    [
        lambda: vaswani_2017(5, width=30, heads=4),
        lambda: gpt2(5, 5, 30, 1, 4),
        lambda: bert(5, 5, 30, 1, 4),
        lambda: llama(5, 30, 1, 4),
        lambda: llama(5, 30, 1, 0),
    ],
)
def test_a_width_that_does_not_divide_is_refused_by_both_numbers(monkeypatch, recipe):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=r"width 30 does not divide into [04] heads"):
        recipe()


def test_gpt2_without_bias_adds_nothing_anywhere_as_nanogpt():
    """nanoGPT's count with its vocabulary of 50,304 and bias=False, positions included."""
    with torch.device("meta"):
        model = gpt2(V=50_304, bias=False)
    assert parameters(model) == 124_373_760
    assert not [name for name, _ in model.named_parameters() if name.endswith(("bias", "shift"))]


def test_bert_is_told_which_text_a_token_is_of():
    torch.manual_seed(0)
    model = bert(13, 9, 12, 2, 3, token_types=2).eval()
    tokens, second = torch.randint(13, (2, 7)), torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)
    assert_close(model(tokens), model(tokens, token_types=torch.zeros_like(tokens)))
    with torch.no_grad():
        model.embed.token_types.weight[1] += 1
    assert not torch.allclose(model(tokens), model(tokens, token_types=second), atol=1e-2)
    with pytest.raises(ValueError, match="no token types"):
        bert(13, 9, 12, 2, 3)(tokens, token_types=second)
