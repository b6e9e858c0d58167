"""Compilers, exporters and function transforms take the models in one piece.

They cannot look through the checks of shapes that tests put around every function: here the module
is imported once more, as readers have it.
"""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.testing import assert_close
from unchecked import as_readers_have_it, without_checks

with without_checks():
    from attnbook.attention import Attention, MultiHeadAttention, length_mask
    from attnbook.block import Block, PreNorm, Stack
    from attnbook.continued import Continued, translation
    from attnbook.efficient.latent import LatentAttention
    from attnbook.feedforward import MLP
    from attnbook.generate import generate
    from attnbook.masks import local
    from attnbook.norms import LayerNorm, RMSNorm
    from attnbook.positions import Alibi, Sinusoidal
    from attnbook.projection import Projection
    from attnbook.recipes import bert, gpt2, llama, mixtral, vaswani_2017
    from attnbook.rotary import Rotary
    from attnbook.search import beam_search
    from attnbook.step import once, step
    from attnbook.transformer import Embed, LanguageModel

pytestmark = pytest.mark.usefixtures("as_readers_have_it")
__all__ = ["as_readers_have_it"]
V, C, T = 13, 12, 7


def lively(model):
    """Weights large enough that everything depends on everything, and no dropout."""
    torch.manual_seed(2)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    return model.eval()


def with_alibi():
    torch.manual_seed(0)
    blocks = [
        Block(PreNorm(MultiHeadAttention(C, 3, relative=Alibi(3)), LayerNorm(C)), nn.Identity())
        for _ in range(2)
    ]
    return LanguageModel(Embed(V, C), Stack(blocks), nn.Linear(C, V))


def patterned():
    """A window, everything, a window: as many models are built since 2025."""
    torch.manual_seed(0)
    rotate = Rotary(C // 3)

    def block(pattern, rotate):
        part = Attention(Projection(C, 3), nn.Linear(C, C), rotate, pattern=pattern)
        return Block(PreNorm(part, LayerNorm(C)), PreNorm(MLP(C, 7), LayerNorm(C)))

    blocks = [block(local(3), rotate), block(None, None), block(local(2), rotate)]
    return LanguageModel(Embed(V, C), Stack(blocks), nn.Linear(C, V))


def sinusoids():
    model = with_alibi()
    model.embed.positions = Sinusoidal(C)
    return model


MODELS = {
    "gpt2": lambda: gpt2(V, T=9, width=C, depth=2, heads=3),
    "llama": lambda: llama(V, width=C, depth=2, heads=3, kv_heads=1),
    "mixtral": lambda: mixtral(V, C, 2, 3, 3, 10, 50.0, 4, 2),
    "alibi": with_alibi,
    "patterned": patterned,
    "sinusoidal": sinusoids,
}


def translator():
    return lively(vaswani_2017(V, 11, width=C, depth=2, heads=3, hidden=17))


@pytest.fixture
def tokens():
    return torch.tensor([[3, 12, 0, 5, 5, 8, 1], [1, 4, 4, 2, 7, 0, 9]])


@pytest.fixture
def pair(tokens):
    return tokens[:, :5], length_mask(torch.tensor([5, 3]), 5), tokens[:, 2:6].clamp(max=10)


@pytest.mark.parametrize("name", MODELS)
def test_it_compiles_in_one_piece(name, tokens):
    model = lively(MODELS[name]())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(compiled(tokens), model(tokens), atol=1e-5, rtol=1e-5)


def test_encoder_and_decoder_compile_in_one_piece(pair):
    for model, inputs in [(translator(), pair), (lively(bert(V, 9, C, 2, 3)), pair[:2])]:
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert_close(compiled(*inputs), model(*inputs), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_exported_for_any_length(name, tokens):
    model = lively(MODELS[name]()).eval()
    shapes = {"tokens": {0: torch.export.Dim("B", max=64), 1: torch.export.Dim("T", max=9)}}
    program = torch.export.export(model, (tokens,), dynamic_shapes=shapes).module()
    for some in (tokens, tokens[:, :3], torch.cat((tokens, tokens))):
        assert_close(program(some), model(some), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"mixtral"}))
def test_each_examples_own_gradient_by_vmap(name, tokens):
    model = lively(MODELS[name]())
    weights = {key: weight.detach() for key, weight in model.named_parameters()}

    def loss(weights, row):
        return functional_call(model, weights, (row[None],)).square().mean()

    each = vmap(grad(loss), (None, 0))(weights, tokens)
    for row in range(2):
        for key, expected in grad(loss)(weights, tokens[row]).items():
            assert_close(each[key][row], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama", "patterned"])
def test_a_step_of_generation_compiles_once(name, tokens):
    model, count = lively(MODELS[name]()), []

    def backend(graph, inputs):
        count.append(graph)
        return graph.forward

    step = torch.compile(model, fullgraph=True, backend=backend)
    with torch.no_grad():
        caches = model.caches(room=9)
        read = [model(tokens[:, :2], caches)]  # the prompt, as it is
        read += [step(tokens[:, t : t + 1], caches) for t in range(2, T)]
        assert_close(torch.cat(read, 1), model(tokens), atol=1e-5, rtol=1e-5)
    assert len(count) == 1


def latent():
    torch.manual_seed(0)

    def block():
        part = LatentAttention(C, 3, 6, Rotary(2), RMSNorm(6))
        return Block(PreNorm(part, LayerNorm(C)), PreNorm(MLP(C, 7), LayerNorm(C)))

    return LanguageModel(Embed(V, C), Stack([block(), block()]), nn.Linear(C, V))


@pytest.fixture
def graphs():
    """What was compiled so far, and the backend that takes note of it."""
    found = []

    def backend(graph, inputs):
        found.append(graph)
        return graph.forward

    return found, backend


@pytest.mark.parametrize(
    ("name", "padded"),
    [("gpt2", False), ("llama", True), ("alibi", True), ("patterned", True), ("latent", True)],
)
def test_writing_with_caches_of_fixed_room_compiles_the_prompt_and_one_step(
    name, padded, tokens, graphs
):
    model, (found, backend) = lively((MODELS | {"latent": latent})[name]()), graphs
    mask = length_mask(torch.tensor([2, 4])) if padded else None
    prompts, caches = tokens[: 2 if padded else 1, :4], model.caches(room=9)
    compiled = torch.compile(model, fullgraph=True, backend=backend, dynamic=False)
    expected = generate(model, prompts, 6, mask=mask)
    assert torch.equal(generate(Continued(compiled, caches, mask), prompts, 6), expected)
    assert len(found) == 2
    for _ in range(2):  # the same room for other texts: only the prompt's room is there by now
        for cache in caches:
            cache.cut(0)
        assert torch.equal(generate(Continued(compiled, caches, mask), prompts, 6), expected)
    assert len(found) == 3


@pytest.mark.parametrize("beams", [1, 3])
def test_searching_a_translation_compiles_the_first_step_and_another(beams, pair, graphs):
    model, (found, backend) = translator(), graphs
    start, how = torch.zeros(2, 1, dtype=torch.long), (1, 7, beams)
    expected = beam_search(translation(model, *pair[:2]), start, *how)
    model.decode = torch.compile(model.decode, fullgraph=True, backend=backend, dynamic=False)
    caches = model.caches(room=8)
    assert torch.equal(beam_search(translation(model, *pair[:2], caches), start, *how), expected)
    assert expected.shape[1] > 2 and len(found) == 2


class Twice(nn.Module):
    def forward(self, x):
        with step():
            return x + once("c", x.cos) + once("c", x.cos)


def test_a_step_compiles_and_exports_in_one_piece():
    x = torch.randn(5)
    compiled = torch.compile(Twice(), fullgraph=True, backend="eager")
    assert_close(compiled(x), x + 2 * x.cos())
    length = {"x": {0: torch.export.Dim("T")}}
    program = torch.export.export(Twice(), (x,), dynamic_shapes=length).module()
    assert_close(program(torch.ones(7)), 1 + 2 * torch.ones(7).cos())
