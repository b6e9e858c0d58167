"""book/conventions.md: each row of its tables has a test here, of the row's name."""

import inspect
import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook.attention import MultiHeadAttention, attend, masked_softmax
from attnbook.block import Block, PostNorm, PreNorm
from attnbook.data import pairs
from attnbook.data.vocabulary import PAD, Vocabulary
from attnbook.feedforward import MLP, swiglu_hidden
from attnbook.generate.sampling import sample, temperature, top_p
from attnbook.inside.watch import watch
from attnbook.losses import parameters, token_loss
from attnbook.masks import causal_mask
from attnbook.models.bert import bert
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.models.vaswani import vaswani_2017
from attnbook.models.vit import vit
from attnbook.norms import LayerNorm, RMSNorm
from attnbook.positions import Learned, Rotary, Sinusoidal, sinusoidal
from attnbook.recurrent import GRUCell, Layer, LSTMCell
from attnbook.train.loop import cosine, train
from attnbook.transformer import Embed

C, H, T = 12, 3, 5
SMALL = {"width": C, "depth": 2, "heads": H}


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


def rows(root):
    return re.findall(r"\{#([a-z0-9-]+)\}", (root / "book/conventions.md").read_text("utf-8"))


def test_every_row_has_its_test_and_every_test_its_row(root):
    named = [name for name in globals() if name.startswith("test_")]
    named.remove("test_every_row_has_its_test_and_every_test_its_row")
    assert [f"test_{row.replace('-', '_')}" for row in rows(root)] == named


def filled(ours, theirs):
    """`nn.MultiheadAttention` with the weights of a `MultiHeadAttention`."""
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = ours.to_qkv.weight, ours.to_qkv.bias
    theirs.out_proj.load_state_dict(ours.to_out.state_dict())
    return theirs.eval()


def attentions(**options):
    ours = MultiHeadAttention(C, H)
    return ours, filled(ours, nn.MultiheadAttention(C, H, **options))


def blocks(wrap, norm_first):
    """A block and torch's layer with the same weights."""
    ours = Block(wrap(MultiHeadAttention(C, H), LayerNorm(C)), wrap(MLP(C, 7), LayerNorm(C)))
    theirs = nn.TransformerEncoderLayer(C, H, 7, norm_first=norm_first, batch_first=True)
    filled(ours.attention.sublayer, theirs.self_attn)
    theirs.linear1, theirs.linear2 = ours.feedforward.sublayer.up, ours.feedforward.sublayer.down
    for part, norm in ((ours.attention, theirs.norm1), (ours.feedforward, theirs.norm2)):
        part.norm.weight.data.uniform_(0.5, 2)
        norm.weight, norm.bias = part.norm.weight, part.norm.bias
    return ours, theirs.eval()


# Norms


def test_norm_place():
    x = torch.randn(2, T, C)
    for wrap, norm_first in ((PostNorm, False), (PreNorm, True)):
        ours, theirs = blocks(wrap, norm_first)
        assert_close(ours(x), theirs(x))
    assert not nn.TransformerEncoderLayer(C, H).norm_first
    for model, wrap in ((vaswani_2017(9, **SMALL), PostNorm), (bert(9, T, **SMALL), PostNorm)):
        assert any(isinstance(part, wrap) for part in model.modules())
    for model in (gpt2(9, T, **SMALL), llama(9, **SMALL), vit((4, 4), 2, 3, **SMALL)):
        assert not any(isinstance(part, PostNorm) for part in model.modules())


def test_last_norm():
    assert isinstance(gpt2(9, T, **SMALL).body.norm, LayerNorm)
    assert isinstance(llama(9, **SMALL).body.norm, RMSNorm)
    for stack in (vaswani_2017(9, **SMALL).decoder, bert(9, T, **SMALL).body):
        assert isinstance(stack.norm, nn.Identity)
    theirs = nn.Transformer(C, H, 1, 1, 7, batch_first=True)  # post-norm
    assert isinstance(theirs.encoder.norm, nn.LayerNorm)
    assert isinstance(theirs.decoder.norm, nn.LayerNorm)
    layer = nn.TransformerEncoderLayer(C, H, 7, norm_first=True)
    assert nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).norm is None


def test_epsilon():
    assert LayerNorm(C).eps == nn.LayerNorm(C).eps == 1e-5
    assert RMSNorm(C).eps == 1e-6 and nn.RMSNorm(C).eps is None
    x = torch.full((1, C), 1e-4)  # so small that ε decides
    machine = torch.finfo(x.dtype).eps
    assert_close(nn.RMSNorm(C)(x), x / torch.sqrt(x.square().mean() + machine))
    small = {norm.eps for norm in bert(9, T, **SMALL).modules() if isinstance(norm, LayerNorm)}
    assert small == {1e-12}
    assert vit((4, 4), 2, 3, **SMALL).body.norm.eps == 1e-6


def test_epsilon_place():
    x = torch.tensor([[1e-3, -1e-3, 2e-3, -2e-3]])
    centred, variance = x - x.mean(), x.var(correction=0)
    inside = centred / torch.sqrt(variance + 1e-5)
    outside = centred / (x.std() + 1e-5)
    assert_close(nn.LayerNorm(4)(x), inside)
    assert_close(LayerNorm(4)(x), inside)
    assert (inside - outside).abs().max() > 0.5


# Masks


def test_mask_says():
    q, k, v = torch.randn(1, 2, 4), torch.randn(1, 3, 4), torch.randn(1, 3, 4)
    look = torch.tensor([[True, False, True], [True, True, False]])
    ours, weights = attend(q, k, v, look)
    assert (weights[:, ~look] == 0).all()
    assert_close(F.scaled_dot_product_attention(q, k, v, attn_mask=look), ours)
    ours, theirs = attentions(batch_first=True)
    x, look = torch.randn(1, T, C), causal_mask(T)
    assert_close(theirs(x, x, x, attn_mask=~look)[0], ours(x, mask=look))
    padding = torch.tensor([[True] * 3 + [False] * 2])  # ours: True is a token
    assert_close(theirs(x, x, x, key_padding_mask=~padding)[0], ours(x, mask=padding[:, None]))


def test_minus_infinity():
    scores, mask = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[True, True, False]])
    assert_close(masked_softmax(scores, mask), scores.masked_fill(~mask, -1e9).softmax(-1))
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    assert_close(scores.masked_fill(~nothing, -1e9).softmax(-1), torch.full((1, 3), 1 / 3))
    with pytest.raises(RuntimeError, match="overflow"):
        scores.half().masked_fill(~mask, -1e9)
    large = torch.tensor([[-3e9, 0.0]])  # beyond −1e9 the forbidden key wins
    assert large.masked_fill(torch.tensor([[False, True]]), -1e9).softmax(-1)[0, 1] == 1


def test_empty_row():
    q, k, v = torch.randn(1, 2, 4), torch.randn(1, 3, 4), torch.randn(1, 3, 4)
    mask = torch.tensor([[False] * 3, [True] * 3])
    output, weights = attend(q, k, v, mask)
    assert (output[0, 0] == 0).all() and (weights[0, 0] == 0).all()
    assert (F.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0, 0] == 0).all()
    assert torch.full((1, 3), -math.inf).softmax(-1).isnan().all()


def test_causal_corner():
    q, k, v = torch.randn(1, 2, 4), torch.randn(1, 5, 4), torch.randn(1, 5, 4)
    first = torch.ones(2, 5, dtype=torch.bool).tril()  # query 0 sees key 0 only
    assert_close(F.scaled_dot_product_attention(q, k, v, is_causal=True), attend(q, k, v, first)[0])
    last = causal_mask(2, 5)  # the queries are the last two positions
    assert last.sum(-1).tolist() == [4, 5] and first.sum(-1).tolist() == [1, 2]


def test_causal_by_itself():
    tokens = torch.randint(9, (1, T))
    changed = tokens.clone()
    changed[0, -1] = (tokens[0, -1] + 1) % 9
    model = gpt2(9, T, **SMALL).eval()
    assert_close(model(tokens)[:, :-1], model(changed)[:, :-1])
    layer = nn.TransformerDecoderLayer(C, H, 7, batch_first=True).eval()
    x, memory = torch.randn(1, T, C), torch.randn(1, 2, C)
    other = x.clone()
    other[0, -1] = torch.randn(C)
    assert not torch.allclose(layer(x, memory)[:, 0], layer(other, memory)[:, 0])
    mask = nn.Transformer.generate_square_subsequent_mask(T)
    before = [layer(given, memory, tgt_mask=mask)[:, :-1] for given in (x, other)]
    assert_close(*before)


# Shapes and weights


def test_batch_axis():
    for layer in (nn.MultiheadAttention(C, H), nn.LSTM(C, C), nn.GRU(C, C)):
        assert layer.batch_first is False
    ours, theirs = attentions()
    x = torch.randn(2, T, C)
    assert_close(
        theirs(x.mT.permute(2, 0, 1), *[x.transpose(0, 1)] * 2)[0].transpose(0, 1), ours(x)
    )


def test_columns():
    """Prince, section 12.2: X is D × N, a matrix stands on the left, softmax by column."""
    X, beta, Omega = torch.randn(C, T), torch.randn(C, 1), torch.randn(C, C)
    linear = nn.Linear(C, C)
    linear.weight.data, linear.bias.data = Omega, beta[:, 0]
    assert_close((beta + Omega @ X).T, linear(X.T))
    Q, K, V = torch.randn(3, C, T)
    Sa = V @ (K.T @ Q / math.sqrt(C)).softmax(0)
    assert_close(Sa.T, attend(Q.T, K.T, V.T)[0])


def test_linear_weight():
    from transformers.pytorch_utils import Conv1D

    linear, x = nn.Linear(3, 5), torch.randn(2, 3)
    assert linear.weight.shape == (5, 3)
    assert_close(linear(x), x @ linear.weight.T + linear.bias)
    published = Conv1D(5, 3)  # GPT-2's files
    assert published.weight.shape == (3, 5)
    assert MLP(3, 5).up.weight.shape == (5, 3)


def test_one_matrix_or_three():
    ours, theirs = attentions(batch_first=True)
    assert ours.to_qkv.weight.shape == theirs.in_proj_weight.shape == (3 * C, C)
    x = torch.randn(2, T, C)
    assert_close(theirs(x, x, x)[0], ours(x))
    q, k, v = (x @ part.T for part in ours.to_qkv.weight.chunk(3))  # queries, keys, values
    for mine, whole in zip(ours.project(x), (q, k, v), strict=True):
        by_head = whole.unflatten(-1, (H, C // H)).transpose(1, 2)
        bias = mine - by_head
        assert_close(bias, bias[:1, :, :1].expand_as(bias))


def test_bias():
    assert MultiHeadAttention(C, H).to_qkv.bias is not None
    assert nn.MultiheadAttention(C, H).in_proj_bias is not None
    linear = [part for part in llama(9, **SMALL).modules() if isinstance(part, nn.Linear)]
    assert linear and all(part.bias is None for part in linear)
    # base model, counted as the paper's formulas have it: no bias in attention, one in each map
    assert parameters(MultiHeadAttention(C, H, bias=False)) == 4 * C * C
    assert parameters(MLP(C, 7)) == 2 * 7 * C + 7 + C


def test_weights_returned():
    ours, theirs = attentions(batch_first=True)
    x = torch.randn(2, T, C)
    output, weights = theirs(x, x, x)
    assert weights.shape == (2, T, T)
    with watch(nn.Sequential(ours)) as seen:
        assert_close(ours(x), output)
    (each,) = seen.values()
    assert each.shape == (2, H, T, T)
    assert_close(each.mean(1), weights)


def test_hidden_width():
    assert (
        vaswani_2017(9, depth=1).encoder.blocks[0].feedforward.sublayer.up.out_features == 4 * 512
    )
    assert gpt2(9, T, **SMALL).body.blocks[0].feedforward.sublayer.up.out_features == 4 * C
    assert nn.TransformerEncoderLayer(C, H).linear1.out_features == 2048  # whatever the width
    assert swiglu_hidden(4096, multiple=256) == 11_008


def test_gelu():
    def activation(block):
        return block.feedforward.sublayer.activation

    exact, tanh = nn.GELU(), nn.GELU(approximate="tanh")
    x = torch.linspace(-5, 5, 1001)
    assert 4e-4 < (exact(x) - tanh(x)).abs().max() < 5e-4
    assert isinstance(activation(vaswani_2017(9, **SMALL).encoder.blocks[0]), nn.ReLU)
    assert_close(activation(gpt2(9, T, **SMALL).body.blocks[0])(x), tanh(x))
    for model in (bert(9, T, **SMALL), vit((4, 4), 2, 3, **SMALL)):
        assert_close(activation(model.body.blocks[0])(x), exact(x))
    assert nn.TransformerEncoderLayer(C, H).activation is F.relu


# Initialisation and dropout


def test_linear_start():
    def largest(weight):
        return weight.abs().max().item()

    linear = nn.Linear(300, 300)
    assert largest(linear.weight) == pytest.approx(300**-0.5, rel=0.01)
    model = vaswani_2017(9, width=300, depth=1, heads=3, hidden=300)
    glorot = math.sqrt(6 / (300 + 300))
    layer = model.encoder.blocks[0].attention.sublayer
    for weight in (*layer.to_qkv.weight.chunk(3), layer.to_out.weight):
        assert largest(weight) == pytest.approx(glorot, rel=0.01)
    fused = nn.MultiheadAttention(300, 3).in_proj_weight  # Glorot of one matrix 900 × 300
    assert largest(fused) == pytest.approx(math.sqrt(6 / (300 + 900)), rel=0.01)
    block = gpt2(9, T, width=300, depth=2, heads=3).body.blocks[0].requires_grad_(False)
    assert block.attention.sublayer.to_qkv.weight.std() == pytest.approx(0.02, rel=0.02)
    for added in (block.attention.sublayer.to_out, block.feedforward.sublayer.down):
        assert added.weight.std() == pytest.approx(0.02 / math.sqrt(2 * 2), rel=0.02)


def test_embedding_start():
    assert nn.Embedding(500, 64).weight.detach().std() == pytest.approx(1, rel=0.02)
    table = vaswani_2017(500, width=64, depth=1, heads=2).source_embed.tokens.weight.detach()
    assert table.std() == pytest.approx(64**-0.5, rel=0.02)
    for model in (gpt2(500, T, 64, 1, 2), llama(500, 64, 1, 2)):
        assert model.embed.tokens.weight.detach().std() == pytest.approx(0.02, rel=0.02)


def test_embedding_scale():
    tokens = torch.arange(9)[None]
    model = vaswani_2017(9, **SMALL).eval()
    table, places = model.source_embed.tokens.weight, Sinusoidal(C)(9)
    assert_close(model.source_embed(tokens)[0], math.sqrt(C) * table + places)
    for model in (gpt2(9, 9, **SMALL), llama(9, **SMALL), bert(9, 9, **SMALL)):
        assert model.embed.scale == 1
    assert not any(
        isinstance(part, nn.Embedding)
        for part in nn.Transformer(C, H, 1, 1, batch_first=True).modules()
    )


def test_shared_matrix():
    model = vaswani_2017(9, **SMALL)
    tables = model.source_embed.tokens, model.target_embed.tokens, model.lm_head
    assert len({id(table.weight) for table in tables}) == 1
    model = gpt2(9, T, **SMALL)
    assert model.lm_head.weight is model.embed.tokens.weight
    model = llama(9, **SMALL)
    assert model.lm_head.weight is not model.embed.tokens.weight


def test_dropout_places():
    model = vaswani_2017(9, **SMALL, dropout=0.5)
    droppers = {name.split(".")[-2] for name, p in model.named_modules() if type(p) is nn.Dropout}
    assert droppers == {"source_embed", "attention", "cross_attention", "feedforward"}
    x = torch.randn(1, T, C)
    attention = model.encoder.blocks[0].attention.sublayer
    assert torch.equal(attention(x), attention(x))  # in training mode: none inside
    theirs = nn.TransformerEncoderLayer(C, H, 7, dropout=0.5)
    assert theirs.self_attn.dropout == theirs.dropout.p == 0.5  # on the weights, in the network
    assert theirs.dropout1.p == theirs.dropout2.p == 0.5  # on what is added


def test_dropout_scale():
    dropout = nn.Dropout(0.2)
    assert set(dropout(torch.ones(100)).tolist()) == {0.0, 1.25}
    assert torch.equal(dropout.eval()(torch.ones(100)), torch.ones(100))


# Positions


def test_sine_cosine_order():
    positions, width = torch.arange(4), 6
    ours = sinusoidal(positions, width)
    angles = positions[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    assert_close(ours[:, 0::2], angles.sin())
    assert_close(ours[:, 1::2], angles.cos())
    halves = torch.cat((angles.sin(), angles.cos()), -1)
    order = torch.tensor([0, 3, 1, 4, 2, 5])
    assert_close(halves[:, order], ours)
    assert_close(halves @ halves.T, ours @ ours.T)  # to a model they are the same


def test_rotary_pairs():
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    D = 6
    q, angle = (
        torch.randn(1, 1, T, D),
        torch.arange(T)[:, None] / 10_000 ** (torch.arange(0, D, 2) / D),
    )
    cos, sin = (torch.cat([wave] * 2, -1)[None] for wave in (angle.cos(), angle.sin()))
    assert_close(Rotary(D)(q), apply_rotary_pos_emb(q, q, cos, sin)[0])
    # The paper: neighbours are the two parts of a complex number.
    turned = torch.view_as_complex(q.unflatten(-1, (-1, 2)).contiguous()) * torch.exp(1j * angle)
    neighbours = torch.tensor([0, 2, 4, 1, 3, 5])
    paper = torch.view_as_real(turned).flatten(-2)
    assert_close(Rotary(D)(q[..., neighbours]), paper[..., neighbours])


def test_position_limit():
    with pytest.raises(ValueError, match="6 tokens is longer than the table of 5"):
        Learned(5, C)(6)
    assert Sinusoidal(C)(10_000).shape == (10_000, C)
    assert gpt2(9, T, **SMALL).limit == T and llama(9, **SMALL).limit is None
    assert [inspect.signature(recipe).parameters["T"].default for recipe in (gpt2, bert)] == [
        1024,
        512,
    ]


# Recurrent networks


def recurrent(ours, theirs):
    layer = Layer(ours(3, 4))
    theirs = theirs(3, 4, batch_first=True)
    names = ("weight_ih_l0", "from_input.weight"), ("weight_hh_l0", "from_state.weight")
    biases = ("bias_ih_l0", "from_input.bias"), ("bias_hh_l0", "from_state.bias")
    cell = dict(layer.cell.named_parameters())
    theirs.load_state_dict({name: cell[mine].detach() for name, mine in (*names, *biases)})
    return layer, theirs


def test_lstm_gates():
    layer, theirs = recurrent(LSTMCell, nn.LSTM)
    x = torch.randn(2, T, 3)
    assert_close(layer(x)[0], theirs(x)[0])
    with torch.no_grad():  # the second quarter is the forget gate
        for weight in layer.parameters():
            weight.zero_()
        layer.cell.from_input.bias[4:8] = 99.0
        _, c = layer.cell(torch.zeros(1, 3), (torch.zeros(1, 4), torch.ones(1, 4)))
    assert_close(c, torch.ones(1, 4))


def test_gru_reset():
    layer, theirs = recurrent(GRUCell, nn.GRU)
    x, h = torch.randn(1, 3), torch.randn(1, 4)
    assert_close(layer.cell(x, (h,))[0], theirs(x[:, None], h[None])[0][:, 0])
    from_x, from_h = layer.cell.from_input(x).chunk(3, -1), layer.cell.from_state(h).chunk(3, -1)
    r, z = (torch.sigmoid(a + b) for a, b in zip(from_x[:2], from_h[:2], strict=True))
    after = (from_x[2] + r * from_h[2]).tanh()
    U, b = layer.cell.from_state.weight[8:], layer.cell.from_state.bias[8:]
    before = (from_x[2] + (r * h) @ U.T + b).tanh()  # Cho et al. 2014, equation 8
    new = layer.cell(x, (h,))[0]
    assert_close(new, z * h + (1 - z) * after)
    assert not torch.allclose(new, z * h + (1 - z) * before)


def test_gru_update():
    layer, _ = recurrent(GRUCell, nn.GRU)
    with torch.no_grad():
        layer.cell.from_input.bias[4:8] = 99.0  # z = 1
        h = torch.randn(1, 4)
        assert_close(layer.cell(torch.randn(1, 3), (h,))[0], h)  # all of the old state stays


def test_two_biases():
    assert parameters(LSTMCell(3, 4)) == parameters(nn.LSTM(3, 4)) == 4 * (4 * 3 + 4 * 4 + 4 + 4)


# Training and writing


def test_loss_average():
    logits, targets = torch.randn(2, 3, 7), torch.randint(7, (2, 3))
    mask = torch.tensor([[True, True, True], [True, False, False]])
    ours = token_loss(logits, targets, mask)
    theirs = F.cross_entropy(logits.flatten(0, 1), targets.masked_fill(~mask, -100).flatten())
    assert_close(ours, theirs)
    by_sentence = torch.stack([token_loss(*row) for row in zip(logits, targets, mask, strict=True)])
    assert not torch.allclose(ours, by_sentence.mean())


def test_smoothed_target():
    V, share = 7, 0.1
    logits, targets = torch.randn(4, V), torch.randint(V, (4,))
    smooth = (1 - share) * F.one_hot(targets, V) + share / V  # the true token gets its part too
    expected = -(smooth * logits.log_softmax(-1)).sum(-1).mean()
    assert_close(token_loss(logits, targets, smoothing=share), expected)
    assert_close(F.cross_entropy(logits, targets, label_smoothing=share), expected)


def test_rate_schedule():
    def paper(step, C=512, warmup=4000):
        return C**-0.5 * min(step**-0.5, step * warmup**-1.5)

    assert max(range(1, 9000), key=paper) == 4000
    assert paper(4000) == pytest.approx(7e-4, rel=0.01) and paper(16_000) == paper(4000) / 2
    steps = []
    theirs = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    torch.optim.lr_scheduler.LambdaLR(theirs, lambda step: steps.append(step) or 1.0)
    assert steps == [0]
    ours = cosine(steps=101, warmup=10, floor=0.1)
    assert ours(0) == 1 / 10 and ours(9) == 1 and ours(10) == 1 and ours(100) == pytest.approx(0.1)
    model, rates = nn.Linear(1, 1), []
    adam = torch.optim.Adam(model.parameters(), lr=0.5)

    def loss(model, x):
        rates.append(adam.param_groups[0]["lr"])
        return model(x).square().mean()

    plan = {"steps": 3, "optimizer": adam, "schedule": cosine(3, warmup=2), "progress": False}
    train(model, lambda generator: torch.ones(1, 1), loss, **plan)
    assert rates == [0.5 * cosine(3, warmup=2)(step) for step in range(3)]


def test_adam():
    default = torch.optim.Adam([torch.zeros(1)]).defaults
    assert default["betas"] == (0.9, 0.999) and default["eps"] == 1e-8 and default["lr"] == 1e-3
    chosen = inspect.signature(train).parameters
    assert chosen["lr"].default == 1e-3 and chosen["clip"].default == 1.0


def test_temperature():
    from transformers import TemperatureLogitsWarper, TopPLogitsWarper

    logits = torch.tensor([[2.0, 1.0, 0.5, -1.0]])
    assert_close(temperature(0.5)(logits), TemperatureLogitsWarper(0.5)(None, logits))
    theirs = TopPLogitsWarper(0.8)(None, TemperatureLogitsWarper(0.5)(None, logits))
    assert_close(top_p(0.8)(temperature(0.5)(logits)), theirs)
    other = temperature(0.5)(top_p(0.8)(logits))  # filters work from left to right
    assert not torch.equal(other.isinf(), theirs.isinf())
    assert sample(temperature(0.5), top_p(0.8), generator=torch.Generator())(logits).item() in (
        0,
        1,
    )


def test_padding_side():
    words = Vocabulary([["a", "b", "c"]])
    made = pairs.batch([(["a"], ["b"]), (["a", "b", "c"], ["c"])], words, words)
    assert made.source[0, 1:].tolist() == [PAD, PAD]
    assert made.source_mask.tolist() == [[True, False, False], [True] * 3]
    assert nn.utils.rnn.pad_sequence([torch.ones(1), torch.ones(3)], True)[0].tolist() == [1, 0, 0]


# Names


def test_names():
    from transformers import BertConfig, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    width, heads, depth, hidden, V = 12, 3, 2, 48, 9
    with torch.device("meta"):
        theirs = GPT2LMHeadModel(
            GPT2Config(n_embd=width, n_head=heads, n_layer=depth, n_inner=hidden, vocab_size=V,
                       n_positions=T)
        )  # fmt: skip
        assert theirs.num_parameters() == parameters(gpt2(V, T, width, depth, heads))
        theirs = LlamaForCausalLM(
            LlamaConfig(hidden_size=width, num_attention_heads=heads, num_hidden_layers=depth,
                        intermediate_size=hidden, vocab_size=V)
        )  # fmt: skip
        assert theirs.num_parameters() == parameters(llama(V, width, depth, heads, hidden=hidden))
        theirs = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d_model=width, nhead=heads, dim_feedforward=hidden),
            num_layers=depth,
            enable_nested_tensor=False,
        )
        ours = vaswani_2017(V, width=width, depth=depth, heads=heads, hidden=hidden).encoder
        assert parameters(theirs) == parameters(ours)
        assert parameters(nn.MultiheadAttention(embed_dim=width, num_heads=heads)) == parameters(
            MultiHeadAttention(width=width, heads=heads)
        )
    assert BertConfig().hidden_size == inspect.signature(bert).parameters["width"].default
    assert BertConfig().intermediate_size == 4 * BertConfig().hidden_size


def test_axes():
    """One letter for one length: what torch's documentation calls N, L, S, E and Ev."""
    N, L, S, E, Ev = 2, 3, 5, 4, 7
    q, k, v = torch.randn(N, L, E), torch.randn(N, S, E), torch.randn(N, S, Ev)
    output, weights = attend(q, k, v)
    assert output.shape == F.scaled_dot_product_attention(q, k, v).shape == (N, L, Ev)
    assert weights.shape == (N, L, S)
    assert Embed(V=9, width=C)(torch.zeros(2, T, dtype=torch.long)).shape == (2, T, C)
