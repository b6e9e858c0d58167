"""Multi-head latent attention is that of DeepSeek-V2, and its cache is short."""

import jaxtyping
import pytest
import torch
from torch.testing import assert_close

from attnbook.block import Block, PreNorm, Stack
from attnbook.cache import KVCache
from attnbook.efficient.latent import LatentAttention
from attnbook.feedforward import SwiGLU
from attnbook.inside.watch import watch
from attnbook.masks import causal_mask, length_mask
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary

B, T, C, H, LATENT, TURNED = 2, 7, 18, 3, 8, 4
D = C // H


def layer():
    torch.manual_seed(0)
    made = LatentAttention(C, H, LATENT, Rotary(TURNED, 50.0), RMSNorm(LATENT))
    torch.nn.init.normal_(made.project.norm.weight)
    return made, torch.randn(B, T, C)


def halves(weight, turned, before):
    """Rows as DeepSeek has them, where neighbours are a pair that is turned: i and i + half."""
    plain, rest = weight.split([before, turned])
    return torch.cat((plain, rest.view(2, turned // 2, -1).transpose(0, 1).flatten(0, 1)))


def as_in_transformers(model, tensor):
    """`tensor` of our weights, under the names and in the order that transformers has."""
    q = torch.cat([halves(head, TURNED, D) for head in tensor(model.project.to_q.weight).chunk(H)])
    return {
        "q_proj.weight": q,
        "kv_a_proj_with_mqa.weight": halves(tensor(model.project.to_latent.weight), TURNED, LATENT),
        "kv_a_layernorm.weight": tensor(model.project.norm.weight),
        "kv_b_proj.weight": tensor(model.project.to_kv.weight),
        "o_proj.weight": tensor(model.to_out.weight),
    }


def test_latent_attention_is_transformers_deepseek_forward_and_gradient():
    deepseek = pytest.importorskip("transformers.models.deepseek_v2.modeling_deepseek_v2")
    config = deepseek.DeepseekV2Config(
        hidden_size=C,
        num_attention_heads=H,
        num_key_value_heads=H,
        q_lora_rank=None,
        kv_lora_rank=LATENT,
        qk_nope_head_dim=D,
        qk_rope_head_dim=TURNED,
        head_dim=TURNED,
        v_head_dim=D,
        rope_parameters={"rope_type": "default", "rope_theta": 50.0},
        attn_implementation="eager",
    )
    (ours, x), theirs = layer(), deepseek.DeepseekV2Attention(config, 0)
    theirs.load_state_dict(as_in_transformers(ours, lambda weight: weight.detach()))
    angles = deepseek.DeepseekV2RotaryEmbedding(config)(x, torch.arange(T)[None])
    allowed = causal_mask(T)
    added = torch.zeros(1, 1, T, T).masked_fill(~allowed, -torch.inf)
    output = ours(x, mask=allowed)
    expected = theirs(x, added, position_embeddings=angles)[0]
    assert expected.std() > 0.05
    assert_close(output, expected, atol=1e-5, rtol=1e-5)
    probe = torch.randn_like(output)
    (output * probe).sum().backward()
    (expected * probe).sum().backward()
    grads = {name: weight.grad for name, weight in theirs.named_parameters()}
    mine = as_in_transformers(ours, lambda weight: weight.grad)
    assert_close(mine, grads, atol=1e-5, rtol=1e-5)


def test_in_pieces_with_a_cache_it_is_the_same_and_the_cache_is_short():
    made, x = layer()
    cache, pieces = KVCache(), []
    with torch.no_grad():
        for piece in x.split([3, 1, 3], 1):
            mask = causal_mask(piece.shape[1], cache.length + piece.shape[1])
            pieces.append(made(piece, mask=mask, cache=cache))
        assert_close(torch.cat(pieces, 1), made(x, mask=causal_mask(T)))
    per_token = cache.keys[0, :, 0].numel() + cache.values[0, :, 0].numel()
    assert per_token == LATENT + TURNED < 2 * C


def test_keys_need_not_be_made_to_be_asked():
    """q · (W c) = (Wᵀ q) · c: the heads can look at the short vectors themselves."""
    made, x = layer()
    with watch(made, LatentAttention) as seen:
        made(x)
    q, q_turned = made.project.split_heads(made.project.to_q(x)).split([D, TURNED], -1)
    latent, turned = made.project.to_latent(x).split([LATENT, TURNED], -1)
    to_k = made.project.to_kv.weight.view(H, 2 * D, LATENT)[:, :D]
    both = torch.cat((q @ to_k, made.rotate(q_turned)), -1)
    remembered = torch.cat((made.project.norm(latent), made.rotate(turned)), -1)[:, None]
    scores = both @ remembered.mT / (D + TURNED) ** 0.5
    assert_close(scores.softmax(-1), seen[""])


@pytest.mark.parametrize(
    "mask", [None, causal_mask(T), length_mask(torch.tensor([7, 2]))[:, None], "nothing"]
)
def test_watched_it_is_the_same(mask):
    made, x = layer()
    mask = torch.zeros(T, T, dtype=torch.bool) if isinstance(mask, str) else mask
    before = made(x, mask=mask)
    with watch(made, LatentAttention) as seen:
        assert_close(made(x, mask=mask), before)
    assert seen[""].shape == (B, H, T, T)
    if mask is not None:
        assert (seen[""].masked_select(~mask.expand(B, T, T)[:, None]) == 0).all()


def test_it_is_a_part_of_a_block_like_any_other():
    made, x = layer()
    block = Block(PreNorm(made, RMSNorm(C)), PreNorm(SwiGLU(C, 6), RMSNorm(C)))
    assert Stack([block], RMSNorm(C))(x, mask=causal_mask(T)).shape == x.shape


def test_the_future_cannot_leak():
    made, x = layer()
    x.requires_grad_()
    made(x, mask=causal_mask(T))[0, 3].sum().backward()
    assert (x.grad[0, :4] != 0).any(-1).all() and (x.grad[0, 4:] == 0).all()


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    made, x = layer()
    for call, message in [
        (lambda: LatentAttention(30, 4, 5, Rotary(2), RMSNorm(5)), "30 does not divide into 4"),
        (lambda: made(x[..., 1:]), "x has width 17, this layer has width 18"),
        (lambda: made(x, mask=causal_mask(5)), r"mask \(5, 5\) does not fit scores \(2, 7, 7\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
