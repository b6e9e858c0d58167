"""Nothing stands in the way of torch: every recipe and every family is compiled, exported, mapped
over, built without memory, copied, quantised and wrapped, and reads no number back.

Compilers cannot look through the checks of shapes that tests put around every function: here the
module is imported once more, as readers have it.
"""

import copy
import pickle
from functools import cache

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from unchecked import as_readers_have_it, without_checks

try:
    import transformers
    from family_cases import CASES, config_of, inputs
except ImportError:
    transformers, CASES = None, {}

with without_checks():
    from attnbook.attention import Attention, MultiHeadAttention, length_mask
    from attnbook.block import Block, PreNorm, Stack
    from attnbook.experts import MixtureOfExperts, everybody
    from attnbook.families.table import FAMILIES
    from attnbook.feedforward import MLP
    from attnbook.initial import Tied
    from attnbook.masks import local
    from attnbook.norms import LayerNorm
    from attnbook.positions import Alibi, Sinusoidal
    from attnbook.projection import Projection
    from attnbook.quantise import int4_kernel, int8_kernel, quantised
    from attnbook.recipes import bert, gpt2, llama, mixtral, vaswani_2017, vit
    from attnbook.recurrence.gated_delta import GatedDelta
    from attnbook.rotary import Rotary
    from attnbook.step import once, step
    from attnbook.transformer import Embed, LanguageModel

pytestmark = pytest.mark.usefixtures("as_readers_have_it")
__all__ = ["as_readers_have_it"]
V, C, T = 13, 12, 7
TOKENS = torch.tensor([[3, 12, 0, 5, 5, 8, 1], [1, 4, 4, 2, 7, 0, 9]])
SOURCE = TOKENS[:, :5], length_mask(torch.tensor([5, 3]), 5)


def with_alibi():
    blocks = [
        Block(PreNorm(MultiHeadAttention(C, 3, relative=Alibi(3)), LayerNorm(C)), nn.Identity())
        for _ in range(2)
    ]
    return LanguageModel(Embed(V, C), Stack(blocks), nn.Linear(C, V))


def patterned():
    """A window, everything, a window: as many models are built since 2025."""
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


# a recipe, and what its model is given
RECIPES = {
    "gpt2": (lambda: gpt2(V, T=9, width=C, depth=2, heads=3), (TOKENS,)),
    "llama": (lambda: llama(V, width=C, depth=2, heads=3, kv_heads=1), (TOKENS,)),
    "mixtral": (lambda: mixtral(V, C, 2, 3, 3, 10, 50.0, 4, 2), (TOKENS,)),
    "bert": (lambda: bert(V, 9, C, 2, 3, kinds=2), (*SOURCE, (TOKENS[:, :5] > 4).long())),
    "vaswani_2017": (
        lambda: vaswani_2017(V, 11, width=C, depth=2, heads=3, hidden=17),
        (*SOURCE, TOKENS[:, 2:6].clamp(max=10)),
    ),
    "vit": (lambda: vit((8, 8), 4, 5, C, 2, 3), (torch.randn(2, 3, 8, 8),)),
    "ALiBi": (with_alibi, (TOKENS,)),
    "patterned": (patterned, (TOKENS,)),
    "sinusoidal": (sinusoids, (TOKENS,)),
}
ALL = [*RECIPES, *(f"family {case}" for case in CASES)]
# A compiler takes seconds for each: all recipes every time, the families with SLOW=1.
COMPILED = [
    *RECIPES,
    *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in RECIPES),
]
WRITERS = ["gpt2", "llama", "mixtral", "ALiBi", "patterned", "sinusoidal"]
each = pytest.mark.parametrize("name", ALL)


def build(name):
    """A new model of that name, on the device that torch makes tensors on now."""
    if name in RECIPES:
        return RECIPES[name][0]()
    config = config_of(transformers, name.removeprefix("family ")).to_dict()
    return FAMILIES[config["model_type"]].build(config)


@cache
def subject(name):
    """A model whose weights are large enough that everything depends on everything, and its input.

    Tests share it: they leave it as it is.
    """
    torch.manual_seed(2)
    model = build(name).eval()
    with torch.no_grad():
        for weight in model.parameters():
            nn.init.normal_(weight, std=0.5)
    given = RECIPES[name][1] if name in RECIPES else inputs(name.removeprefix("family "))
    return model, given


def mixtures(model):
    return [part for part in model.modules() if isinstance(part, MixtureOfExperts)]


def dense(model):
    """The model, in which every expert works on every token: which of them is no question of
    sizes then. What `by_expert` does, `nonzero`, vmap and meta tensors cannot."""
    model = copy.deepcopy(model)
    for mixture in mixtures(model):
        mixture.run = everybody
    return model


def close(found, expected, size=1e-5):
    assert_close(found, expected, atol=size * max(1.0, float(expected.abs().max())), rtol=1e-4)


def gradients(model, answer):
    """What each weight hears from the answer."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.autograd.grad(answer.square().mean(), weights, allow_unused=True)


# -- compilers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPILED)
def test_it_compiles_in_one_piece_and_its_gradients_too(name):
    model, given = subject(name)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    found, expected = compiled(*given), model(*given)
    close(found, expected)
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            close(mine, theirs)


@pytest.mark.parametrize("name", ["llama", "patterned", "vaswani_2017"])
def test_its_gradients_are_traced_ahead_of_time(name):
    model, given = subject(name)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found, expected = compiled(*given), model(*given)
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        close(mine, theirs)


def test_a_mixture_whose_sizes_depend_on_no_numbers_is_traced_in_one_piece():
    model, given = subject("mixtral")
    compiled = torch.compile(dense(model), fullgraph=True, backend="aot_eager")
    close(compiled(*given), model(*given))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_step_of_training_is_compiled_to_machine_code():
    model, given = subject("llama")
    compiled = torch.compile(model, fullgraph=True)
    found, expected = compiled(*given), model(*given)
    close(found, expected)
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        close(mine, theirs)


def lengths(name, given):
    """All axes that may have any length: those of batch, text and time."""
    free = torch.export.Dim.DYNAMIC
    pictures = given[0].dim() == 4
    return tuple({0: free} if pictures else {0: free, x.dim() - 1: free} for x in given)


def shorter(given):
    """Three rows, and less of each."""
    rows = [torch.cat((x, x[:1])) for x in given]
    return [x if x.dim() == 4 else x[..., : x.shape[-1] - 2] for x in rows]


@pytest.mark.parametrize("name", COMPILED)
def test_it_is_exported_for_any_length(name):
    model, given = subject(name)
    with torch.no_grad():
        program = torch.export.export(model, given, dynamic_shapes=lengths(name, given)).module()
        for some in (given, shorter(given)):
            close(program(*some), model(*some))


@pytest.mark.parametrize("name", ["gpt2", "llama", "patterned"])
def test_a_step_of_generation_compiles_once(name):
    model, count = subject(name)[0], []

    def backend(graph, inputs):
        count.append(graph)
        return graph.forward

    step = torch.compile(model, fullgraph=True, backend=backend)
    with torch.no_grad():
        caches = model.caches(room=9)
        read = [model(TOKENS[:, :2], caches)]  # the prompt, as it is
        read += [step(TOKENS[:, t : t + 1], caches) for t in range(2, T)]
        assert_close(torch.cat(read, 1), model(TOKENS), atol=1e-5, rtol=1e-5)
    assert len(count) == 1


@pytest.mark.slow  # it runs the compiler of C++
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("bits", "group", "product"), [(8, None, int8_kernel), (4, 32, int4_kernel)]
)
def test_a_step_in_few_bits_is_compiled_to_machine_code(bits, group, product):
    torch.manual_seed(0)
    large = llama(V=32, width=32, depth=2, heads=2, hidden=64).eval()
    few = quantised(large, bits, group, product=product)
    step, fixed, plain = torch.compile(few, fullgraph=True), few.caches(room=7), few.caches()
    with torch.no_grad():
        assert_close(few(TOKENS[:, :2], fixed), few(TOKENS[:, :2], plain))
        for t in range(2, T):
            new = TOKENS[:, t : t + 1]
            assert_close(step(new, fixed), few(new, plain), atol=0.02, rtol=0.02)  # in 16 bits


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


# -- function transforms --------------------------------------------------------------------------


def of_a_row(model):
    """The mean square of what the model answers to one row, as a function of weights and row.

    Ties here are parts that stand in two places. torch's `tie_weights` would put the weights in at
    both, and leave them in at the second: T5 and ALBERT would be damaged afterwards.
    """

    def loss(weights, *row):
        row = tuple(x[None] for x in row)
        return functional_call(model, weights, row, tie_weights=False).square().mean()

    return loss


@each
def test_each_examples_own_gradient_by_vmap(name):
    model, given = subject(name)
    model = dense(model) if mixtures(model) else model
    weights = {key: weight.detach() for key, weight in model.named_parameters()}
    loss = of_a_row(model)
    found = vmap(grad(loss), (None, *[0] * len(given)))(weights, *given)
    for key, expected in grad(loss)(weights, *(x[1] for x in given)).items():
        close(found[key][1], expected)


def test_why_a_mixture_is_mapped_over_with_everybody():
    model, given = subject("mixtral")
    weights = {key: weight.detach() for key, weight in model.named_parameters()}
    with pytest.raises(RuntimeError, match="nonzero"):
        vmap(grad(of_a_row(model)), (None, 0))(weights, *given)
    close(dense(model)(*given), model(*given))


# -- memory, precision, device --------------------------------------------------------------------


def ties(model):
    return [
        (part.weight, part.embed[0].tokens.weight)
        for part in model.modules()
        if isinstance(part, Tied)
    ]


@each
def test_built_without_memory_it_is_filled_and_keeps_its_ties(name):
    model, given = subject(name)
    expected = model(*given)
    for assign in (False, True):
        with torch.device("meta"):
            bare = build(name).eval()
        bare = bare if assign else bare.to_empty(device="cpu")
        bare.load_state_dict(model.state_dict(), assign=assign)
        assert len(ties(bare)) == len(ties(model))
        assert all(mine is theirs for mine, theirs in ties(bare))
        assert_close(bare(*given), expected)


@each
def test_defaults_of_precision_and_device_change_nothing(name):
    model, given = subject(name)
    expected = model(*given)
    try:
        torch.set_default_dtype(torch.bfloat16)
        half = model(*given)
    finally:
        torch.set_default_dtype(torch.float32)
    try:
        torch.set_default_device("meta")  # where whatever says no device of its own would go
        elsewhere = model(*given)
    finally:
        torch.set_default_device(None)
    assert_close(half, expected)
    assert_close(elsewhere, expected)


@each
def test_it_is_pickled_and_copied(name):
    model, given = subject(name)
    expected = model(*given)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_close(twin(*given), expected)


# -- numbers that are read back -------------------------------------------------------------------


class Reads(TorchDispatchMode):
    """Counts what makes a program wait for its device."""

    def __init__(self):
        super().__init__()
        self.numbers = self.choices = 0

    def __torch_dispatch__(self, function, types, args=(), named=None):
        self.numbers += function is torch.ops.aten._local_scalar_dense.default
        self.choices += function is torch.ops.aten.nonzero.default
        return function(*args, **(named or {}))


def test_reads_are_seen():
    with Reads() as seen:
        int(torch.ones(())), bool(torch.ones(2).any()), torch.ones(2).nonzero()
    assert (seen.numbers, seen.choices) == (2, 1)


@each
def test_no_number_is_read_back(name):
    """Experts that work one after the other wait once each; with `everybody` they do not."""
    model, given = subject(name)
    with Reads() as seen:
        model(*given)
    waits = sum(len(mixture.experts) for mixture in mixtures(model))
    assert (seen.numbers, seen.choices) == (0, waits)
    if waits:
        with Reads() as seen:
            dense(model)(*given)
        assert (seen.numbers, seen.choices) == (0, 0)


@each
def test_without_memory_shapes_are_computed(name):
    """On meta tensors there is no number to read, by whatever way."""
    model, given = subject(name)
    bare = dense(model).to("meta")
    answer = bare(*(x.to("meta") for x in given))
    assert answer.is_meta and answer.shape == model(*given).shape


@pytest.mark.parametrize("name", WRITERS)
def test_a_step_of_generation_reads_nothing_back(name):
    model = dense(subject(name)[0])
    for room in (None, 9):
        caches = model.caches(room)
        with torch.no_grad(), Reads() as seen:
            model(TOKENS[:, :3], caches), model(TOKENS[:, 3:4], caches)
        assert (seen.numbers, seen.choices) == (0, 0)


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "gpt2"])
def test_the_cache_of_a_windowed_layer_is_bounded(name):
    model = subject(name)[0]
    caches, T = model.caches(), 60
    with torch.no_grad():
        for token in torch.randint(V, (1, T)).split(1, 1):
            model(token, caches)
    reaches = [getattr(block.attention.part.pattern, "reach", None) for block in model.body.blocks]
    kept = [cache.keys.shape[2] for cache in caches]
    for reach, size in zip(reaches, kept, strict=True):
        assert size == reach - 1 if reach else size >= T
    assert name != "patterned" or reaches == [3, None, 2]


# -- other people's wrappers ----------------------------------------------------------------------


class Adapted(nn.Module):
    """A map with a thin one beside it, as peft puts it in its place."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)

    @property
    def in_features(self):
        return self.base.in_features

    @property
    def out_features(self):
        return self.base.out_features

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def adapted(model):
    """A copy whose attentions have an adapter beside each map, and these adapters by name."""
    model = copy.deepcopy(model)
    maps = [
        f"{name}.{inner}"
        for name, part in model.named_modules()
        if isinstance(part, Attention)
        for inner, each in part.named_modules()
        if isinstance(each, nn.Linear)
    ]
    for name in maps:
        model.set_submodule(name, Adapted(model.get_submodule(name)))
    return model, {name: model.get_submodule(name) for name in maps}


@each
def test_an_adapter_works_in_every_attention_and_learns(name):
    torch.manual_seed(3)
    model, given = subject(name)
    wrapped, adapters = adapted(model)
    assert adapters
    expected = wrapped(*given)
    expected.square().mean().backward()
    assert not torch.allclose(expected, model(*given), atol=1e-3)
    for where, adapter in adapters.items():
        for weight in (adapter.up.weight, adapter.down.weight):
            assert weight.grad is not None and weight.grad.abs().max() > 0, where


def roundable(model):
    """The linear maps, but for those of a delta memory.

    What it reads may be close to 0, and the norm after it makes the rounding as large as the rest.
    """
    named = dict(model.named_modules())
    memories = tuple(f"{n}." for n, part in named.items() if isinstance(part, GatedDelta))
    maps = [n for n, part in named.items() if isinstance(part, nn.Linear)]
    return [n for n in maps if not n.startswith(memories)] if memories else maps


@each
def test_quantised_by_torch_it_is_close(name):
    model, given = subject(name)
    how = dict.fromkeys(roundable(model), torch.ao.quantization.default_dynamic_qconfig)
    with torch.no_grad():
        small = torch.ao.quantization.quantize_dynamic(model, how, dtype=torch.qint8)
        maps = [part for part in small.modules() if "quantized" in type(part).__module__]
        assert len(maps) >= 4
        answer, expected = small(*given), model(*given)
    assert answer.shape == expected.shape
    assert torch.corrcoef(torch.stack((answer.flatten(), expected.flatten())))[0, 1] > 0.98
