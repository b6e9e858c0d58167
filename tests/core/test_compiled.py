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
    from attnbook.attention import Attention, MultiHeadAttention, Projection
    from attnbook.block import Block, PreNorm, Stack
    from attnbook.experts import MixtureOfExperts, everybody
    from attnbook.feedforward import MLP
    from attnbook.masks import length_mask, local
    from attnbook.memo import memoise
    from attnbook.models.bert import bert
    from attnbook.models.gpt2 import gpt2
    from attnbook.models.llama import llama
    from attnbook.models.mixtral import mixtral
    from attnbook.models.registry import families
    from attnbook.models.vaswani import vaswani_2017
    from attnbook.models.vit import vit
    from attnbook.norms import LayerNorm
    from attnbook.positions import Alibi, Rotary, Sinusoidal
    from attnbook.quantise.rounding import int4_kernel, int8_kernel, quantised
    from attnbook.recurrence.gated_delta import GatedDelta
    from attnbook.recurrence.selective import Mamba, Mamba2
    from attnbook.transformer import Embed, LanguageModel, Tied

    FAMILIES = families()  # all of them are read here, without checks as well

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("as_readers_have_it")]
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
    "bert": (lambda: bert(V, 9, C, 2, 3, token_types=2), (*SOURCE, (TOKENS[:, :5] > 4).long())),
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
# A compiler takes seconds for each: all recipes and one family of each kind of part that no recipe
# has; weekly the others.
KINDS = ["phi3 longrope", "gemma3n", "deepseek_v3", "gpt_oss", "t5", "whisper", "sam2", "zamba2"]


COMPILED = [
    *RECIPES,
    *(
        pytest.param(f"family {case}", marks=[pytest.mark.weekly] * (case not in KINDS))
        for case in CASES
    ),
]
WRITERS = ["gpt2", "llama", "mixtral", "ALiBi", "patterned", "sinusoidal"]
each = pytest.mark.parametrize("name", COMPILED)


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
    if isinstance(found, tuple):
        for mine, theirs in zip(found, expected, strict=True):
            close(mine, theirs, size)
        return
    assert_close(
        found, expected, atol=size * max(1.0, float(expected.detach().abs().max())), rtol=1e-4
    )


def gradients(model, answer):
    """What each weight hears from the answer."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.autograd.grad(size(answer), weights, allow_unused=True)


def parts(answer):
    return answer if isinstance(answer, tuple) else (answer,)


def size(answer):
    """The mean square of an answer, or of all its parts."""
    return sum(part.square().mean() for part in parts(answer))


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


@pytest.mark.weekly
@pytest.mark.timeout(600)
def test_a_step_of_training_is_compiled_to_machine_code():
    model, given = subject("llama")
    compiled = torch.compile(model, fullgraph=True)
    found, expected = compiled(*given), model(*given)
    close(found, expected)
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        close(mine, theirs)


STEPS = ("family jamba", "family mamba")  # their scan is written out, one step after the other


def free(name, x):
    """The axes of an input that may have any length: batch, and text or time."""
    fixed = x.dim() == 4 or name in STEPS
    return dict.fromkeys([0] if fixed else [0, x.dim() - 1], torch.export.Dim.DYNAMIC)


def others(name, given):
    """Three rows, and less of each."""
    rows = [torch.cat((x, x[:1])) for x in given]
    return [x[..., : x.shape[-1] - 2] if len(free(name, x)) > 1 else x for x in rows]


@pytest.mark.parametrize("name", COMPILED)
def test_it_is_exported_for_any_length(name):
    model, given = subject(name)
    with torch.no_grad():
        program = torch.export.export(
            model, given, dynamic_shapes=tuple(free(name, x) for x in given)
        ).module()
        for some in (given, others(name, given)):
            close(program(*some), model(*some))


@pytest.mark.parametrize("name", ["gpt2", "llama", "patterned"])
def test_a_step_of_generation_compiles_once(name):
    model, count = subject(name)[0], []

    def backend(graph, inputs):
        count.append(graph)
        return graph.forward

    step = torch.compile(model, fullgraph=True, backend=backend)
    with torch.no_grad():
        caches = model.caches(max_len=9)
        read = [model(TOKENS[:, :2], caches)]  # the prompt, as it is
        read += [step(TOKENS[:, t : t + 1], caches) for t in range(2, T)]
        assert_close(torch.cat(read, 1), model(TOKENS), atol=1e-5, rtol=1e-5)
    assert len(count) == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("bits", "group", "product"), [(8, None, int8_kernel), (4, 32, int4_kernel)]
)
def test_a_step_in_few_bits_is_compiled_to_machine_code(bits, group, product):
    torch.manual_seed(0)
    large = llama(V=32, width=32, depth=2, heads=2, hidden=64).eval()
    few = quantised(large, bits, group, product=product)
    step, fixed, plain = (
        torch.compile(few, fullgraph=True),
        few.caches(max_len=7),
        few.caches(),
    )
    with torch.no_grad():
        assert_close(few(TOKENS[:, :2], fixed), few(TOKENS[:, :2], plain))
        for t in range(2, T):
            new = TOKENS[:, t : t + 1]
            assert_close(step(new, fixed), few(new, plain), atol=0.02, rtol=0.02)  # in 16 bits


class Twice(nn.Module):
    """A stack of two blocks that ask for the same; given its input alone, as what is exported."""

    class Asks(nn.Module):
        def forward(self, x, cache=None):
            return x + memoise("c", x.cos)

    def __init__(self):
        super().__init__()
        self.stack = Stack([self.Asks(), self.Asks()])

    def forward(self, x):
        return self.stack(x)


def test_what_is_memoised_compiles_and_exports_in_one_piece():
    def twice(x):  # a compiler remembers nothing: it finds repeated work by itself
        x = x + x.cos()
        return x + x.cos()

    x = torch.randn(1, 5, 2)
    compiled = torch.compile(Twice(), fullgraph=True, backend="eager")
    assert_close(compiled(x), twice(x))
    length = {"x": {1: torch.export.Dim("T")}}
    program = torch.export.export(Twice(), (x,), dynamic_shapes=length).module()
    assert_close(program(torch.ones(1, 7, 2)), twice(torch.ones(1, 7, 2)))


# -- function transforms --------------------------------------------------------------------------


def of_a_row(model):
    """The mean square of what the model answers to one row, as a function of weights and row.

    Ties here are parts that stand in two places. torch's `tie_weights` would put the weights in at
    both, and leave them in at the second: T5 and ALBERT would be damaged afterwards.
    """

    def loss(weights, *row):
        row = tuple(x[None] for x in row)
        return size(functional_call(model, weights, row, tie_weights=False))

    return loss


@each
def test_each_examples_own_gradient_by_vmap(name):
    model, given = subject(name)
    if len({len(x) for x in given}) > 1:
        pytest.skip("its pictures and its texts are no rows of one batch")
    model = dense(model).double()  # in float32 a ReLU near 0 may fall on either side
    given = tuple(x.double() if x.is_floating_point() else x for x in given)
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
    assert all(part.is_meta for part in parts(answer))
    assert [x.shape for x in parts(answer)] == [x.shape for x in parts(model(*given))]


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
    reaches = [
        getattr(block.attention.sublayer.pattern, "reach", None) for block in model.body.blocks
    ]
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
    if not any(isinstance(part, Attention) for part in model.modules()):
        pytest.skip("nothing in it is an attention")
    assert adapters
    expected = wrapped(*given)
    size(expected).backward()
    for mine, plain in zip(parts(expected), parts(model(*given)), strict=True):
        assert not torch.allclose(mine, plain, atol=1e-3)
    if name == "family detr":  # its decoder begins with zeros: there is nothing to take over
        adapters.pop("decoder.blocks.0.attention.sublayer.attention.project.to_v")
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
    model = dense(model)  # another expert, chosen by a hair, is not what rounding does to numbers
    if any(isinstance(part, Mamba | Mamba2) for part in model.modules()):
        pytest.skip("a memory without a norm adds up what rounding costs (Zamba2: 0.70)")
    how = dict.fromkeys(roundable(model), torch.ao.quantization.default_dynamic_qconfig)
    with torch.no_grad():
        small = torch.ao.quantization.quantize_dynamic(model, how, dtype=torch.qint8)
        maps = [part for part in small.modules() if "quantized" in type(part).__module__]
        assert len(maps) >= 4
        answer, expected = parts(small(*given)), parts(model(*given))
    for mine, theirs in zip(answer, expected, strict=True):
        assert mine.shape == theirs.shape
        assert torch.corrcoef(torch.stack((mine.flatten(), theirs.flatten())))[0, 1] > 0.98
