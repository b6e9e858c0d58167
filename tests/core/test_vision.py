"""A picture in patches: equal to a convolution, and the model to that of transformers."""

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnbook.inside.watch import watch
from attnbook.losses import parameters
from attnbook.models.vit import vit
from attnbook.positions import sinusoidal_2d
from attnbook.vision import ClassToken, MeanPool, Patches, cut, grid_of, resize

B, CLASSES, C, H = 2, 3, 12, 3
SMALL = {"image": (6, 8), "patch": 2, "classes": CLASSES, "width": C, "depth": 2, "heads": H}


def pictures(rows=6, columns=8, channels=3):
    return torch.randn(B, channels, rows, columns, generator=torch.Generator().manual_seed(1))


def model(**changes):
    torch.manual_seed(0)
    made = vit(**SMALL | {"dropout": 0.0} | changes)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(std=0.5)
    return made


# -- patches ----------------------------------------------------------------------------------


@settings(max_examples=20)
@given(*(st.integers(1, n) for n in (4, 3, 5, 3)), st.integers(0, 10**6))
def test_patches_are_a_convolution_whose_steps_are_its_size(size, rows, columns, channels, seed):
    torch.manual_seed(seed)
    patches = Patches(size, 7, channels).double()
    conv = nn.Conv2d(channels, 7, size, stride=size).double()
    conv.weight.data = patches.to_width.weight.data.view_as(conv.weight)
    conv.bias.data = patches.to_width.bias.data
    x = torch.randn(B, channels, size * rows, size * columns, dtype=torch.float64)
    ours, theirs = patches(x), conv(x).flatten(2).mT
    assert ours.shape == (B, rows * columns, 7)
    assert_close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    assert_close(patches.to_width.weight.grad, conv.weight.grad.flatten(1))


def test_patches_without_a_bias_add_nothing():
    assert not Patches(4, 7, bias=False)(torch.zeros(1, 3, 8, 8)).any()


def test_an_imagenet_picture_is_196_patches_of_768_numbers():
    assert grid_of((224, 224), 16) == (14, 14)
    assert cut(torch.zeros(1, 3, 224, 224), 16).shape == (1, 196, 768)


def test_four_patches_by_hand():
    picture = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16.0]])
    expected = [[1, 2, 5, 6], [3, 4, 7, 8], [9, 10, 13, 14], [11, 12, 15, 16]]
    assert cut(picture[None, None], 2)[0].tolist() == expected
    both = cut(torch.stack((picture, -picture))[None], 2)[0]  # a second channel comes after
    assert both.tolist() == [[*row, *(-x for x in row)] for row in expected]


def test_cutting_loses_nothing():
    x = pictures(4, 6)
    back = nn.functional.fold(cut(x, 2).mT, (4, 6), 2, stride=2)
    assert torch.equal(back, x)


# -- the model ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "named"),
    [
        (86_567_656, {}),
        (88_224_232, {"patch": 32}),
        (304_326_632, {"width": 1024, "depth": 24, "heads": 16}),
        (86_567_656 - 2 * 768, {"pool": MeanPool()}),  # the token and its position
    ],
)
def test_published_sizes(expected, named):
    with torch.device("meta"):
        assert parameters(vit(**named)) == expected


def as_in_transformers(model, tensor):
    """`tensor` of our weights, under the names and in the shapes that transformers has."""
    names = {}
    for path, ours in [
        ("vit.layernorm", model.body.norm),
        ("classifier", model.classifier),
        ("vit.embeddings.patch_embeddings.projection", model.patches.to_width),
    ]:
        weight, shift = ours.parameters()
        names[f"{path}.weight"], names[f"{path}.bias"] = tensor(weight), tensor(shift)
    projection = "vit.embeddings.patch_embeddings.projection.weight"
    names[projection] = names[projection].view(C, 3, 2, 2)
    names["vit.embeddings.cls_token"] = tensor(model.pool.token)[None, None]
    names["vit.embeddings.position_embeddings"] = tensor(model.positions.table)[None]
    for i, block in enumerate(model.body.blocks):
        attention, mlp = block.attention.sublayer, block.feedforward.sublayer
        for path, ours in [
            ("attention.o_proj", attention.to_out),
            ("layernorm_before", block.attention.norm),
            ("layernorm_after", block.feedforward.norm),
            ("mlp.fc1", mlp.up),
            ("mlp.fc2", mlp.down),
        ]:
            weight, shift = ours.parameters()
            names[f"vit.layers.{i}.{path}.weight"] = tensor(weight)
            names[f"vit.layers.{i}.{path}.bias"] = tensor(shift)
        for last, fused in [("weight", attention.to_qkv.weight), ("bias", attention.to_qkv.bias)]:
            for name, piece in zip("qkv", tensor(fused).chunk(3), strict=True):
                names[f"vit.layers.{i}.attention.{name}_proj.{last}"] = piece
    return names


def test_vit_is_transformers_vit_forward_maps_and_gradient():
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        image_size=(6, 8),
        patch_size=2,
        hidden_size=C,
        num_hidden_layers=2,
        num_attention_heads=H,
        intermediate_size=4 * C,
        num_labels=CLASSES,
        layer_norm_eps=1e-6,
        attn_implementation="eager",
    )
    ours, images = model(), pictures()
    reference = transformers.ViTForImageClassification(config).eval()
    reference.load_state_dict(as_in_transformers(ours, lambda weight: weight.detach()))
    theirs = reference(images, output_attentions=True)
    logits = ours(images)
    assert theirs.logits.std() > 0.2
    assert_close(logits, theirs.logits, atol=1e-5, rtol=1e-5)
    with watch(ours) as seen:
        ours(images)
    assert_close(list(seen.values()), list(theirs.attentions), atol=1e-5, rtol=1e-5)
    for output in (logits, theirs.logits):
        nn.functional.cross_entropy(output, torch.tensor([2, 0])).backward()
    expected = {name: weight.grad for name, weight in reference.named_parameters()}
    grads = as_in_transformers(ours, lambda weight: weight.grad)
    assert_close(grads, expected, atol=1e-5, rtol=1e-5)


def test_the_class_token_is_one_more_and_first():
    pool, patches = ClassToken(C), torch.randn(B, 5, C)
    pool.token.data = torch.arange(C).float()
    joined = pool.join(patches)
    assert torch.equal(joined[:, 1:], patches) and (joined[:, 0] == pool.token).all()
    assert torch.equal(pool(joined), joined[:, 0])


def test_the_mean_adds_no_token():
    pool, patches = MeanPool(), torch.randn(B, 5, C)
    assert pool.join(patches) is patches
    assert_close(pool(patches), patches.sum(1) / 5)


@pytest.mark.parametrize("pool", [ClassToken, lambda _: MeanPool()])
@pytest.mark.parametrize("places", [True, False])
def test_without_positions_a_vit_sees_a_bag_of_patches(pool, places):
    made = model(pool=pool(C))
    if not places:
        made.positions.table.data.zero_()
    x = pictures()
    swapped = x.clone()  # two patches change places
    swapped[..., 0:2, 0:2], swapped[..., 4:6, 2:4] = x[..., 4:6, 2:4], x[..., 0:2, 0:2]
    same = torch.allclose(made(x), made(swapped), atol=1e-5)
    assert same != places


def test_every_patch_sees_every_other():
    x = pictures().requires_grad_()
    made = model(depth=1)
    made(x)[0, 0].backward()
    assert (x.grad[0] != 0).all() and (x.grad[1] == 0).all()


# -- another size of images ---------------------------------------------------------------------


def test_resizing_keeps_the_class_tokens_position_and_the_other_weights():
    made = model()
    before = {name: weight.clone() for name, weight in made.state_dict().items()}
    assert resize(made, (10, 12)) is made
    after = made.state_dict()
    old, new = before.pop("positions.table"), after.pop("positions.table")
    assert_close(dict(after), before)
    assert new.shape == (1 + 5 * 6, C) and torch.equal(new[0], old[0])
    assert made(pictures(10, 12)).shape == (B, CLASSES)
    made(pictures(10, 12)).sum().backward()
    assert made.positions.table.grad is not None


@pytest.mark.parametrize("pool", [None, MeanPool()])
def test_resizing_to_the_same_size_changes_nothing(pool):
    made = model(pool=pool)
    before = made(pictures())
    assert_close(resize(made, (6, 8))(pictures()), before)


def test_positions_that_grow_to_the_right_still_do_when_resized():
    made = model()
    column = torch.arange(4.0).repeat(3)  # each patch's column
    made.positions.table.data[1:] = column[:, None]
    table = resize(made, (6, 16)).positions.table[1:].view(3, 8, C)
    assert (table.diff(dim=1) > 0).all()
    assert_close(table, table[:1].expand_as(table))


def test_positions_that_are_a_formula_need_no_resizing():
    class Sinusoids(nn.Module):
        def forward(self, T):
            return sinusoidal_2d(T // 4, 4, C)

    made = model(pool=MeanPool())
    made.positions = Sinusoids()
    assert resize(made, (10, 8))(pictures(10, 8)).shape == (B, CLASSES)


# -- and it learns --------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", [None, MeanPool()])
def test_a_small_vit_learns_on_which_side_the_light_is(pool):
    torch.manual_seed(0)
    made = vit((4, 6), 2, 2, 12, 1, 3, channels=1, dropout=0.0, pool=pool)
    side = torch.arange(32) % 2
    images = 0.3 * torch.randn(32, 1, 4, 6)
    images[side == 0, :, :, :3] += 1
    images[side == 1, :, :, 3:] += 1
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-2)
    for _ in range(40):
        loss = nn.functional.cross_entropy(made(images), side)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (made(images).argmax(-1) == side).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vit((30, 32), 16), "image of 30 × 32 does not divide into patches of 16 × 16"),
        (lambda: vit((32, 30), 16), "image of 32 × 30 does not divide into patches of 16 × 16"),
        (lambda: vit((8, 8), 0), "image of 8 × 8 does not divide into patches of 0 × 0"),
        (lambda: cut(pictures(6, 8), 4), "image of 6 × 8 does not divide into patches of 4 × 4"),
        (lambda: resize(model(), (7, 8)), "image of 7 × 8 does not divide into patches of 2 × 2"),
        (lambda: model()(pictures(8, 8)), "images are 8 × 8, this model is for 6 × 8"),
        (lambda: model()(pictures(channels=1)), "images have 1 channels, not 3"),
        (lambda: model()(pictures()[0]), "one alone is image\\[None\\]"),
        (lambda: vit(width=30, heads=4), "width 30 does not divide into 4 heads"),
    ],
)
def test_bad_input_is_named(monkeypatch, call, message):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=message):
        call()
