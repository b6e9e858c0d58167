"""What makes tensors beside a model makes them where the model lies: with a second device in name
only (`elsewhere`), since no test has a GPU."""

import copy

import pytest
import torch
from elsewhere import Apart, elsewhere
from torch.testing import assert_close

from attnbook import seq2seq
from attnbook.attention import AdditiveScores
from attnbook.data import pairs
from attnbook.models.llama import llama
from attnbook.quantise.gptq import by_gptq, calibrated
from attnbook.quantise.rounding import int4_kernel, int8_kernel, quantised
from attnbook.serving.engine import Engine, Request
from attnbook.serving.pages import Pages
from attnbook.shipped import translator, vision
from bookkit.experiments.translators import align, assemble, right_pairs

TOKENS = torch.tensor([[3, 1, 4, 1, 5]])


def small():
    torch.manual_seed(0)
    return llama(V=32, width=32, depth=2, heads=2, kv_heads=1, hidden=32).eval()


def test_tensors_that_lie_apart_are_found():
    with elsewhere() as device:
        x, y = torch.ones(3), torch.ones(3, device=device)
        assert (x.device.type, y.device.type, (y + 1).device.type) == ("cpu", "cuda", "cuda")
        assert torch.equal(y + torch.tensor(1.0), y + y) and torch.equal(y[x.long()], y)
        for wrong in (lambda: x + y, lambda: x[y.long()], lambda: y.numpy()):
            with pytest.raises(Apart):
                wrong()
        assert_close((x.to(device) + y).cpu(), x + 1)
        with torch.no_grad(), pytest.raises(Apart):
            small().to(device)(TOKENS)


def test_an_engine_reads_where_its_model_lies():
    def written(device):
        engine = Engine(small().to(device), Pages(20, 4), most=2, budget=3)
        requests = [Request([3, 1, 4, 1, 5], 4), Request([9, 2], 6), Request([6], 3)]
        for request in requests:
            engine.add(request)
        list(engine.run())
        return [request.tokens for request in requests]

    with elsewhere() as device:
        assert written(device) == written("cpu")


@pytest.mark.parametrize("name", translator.names())
def test_translators_read_where_they_lie(name):
    book, text = translator.load(name), "Ein Hund rennt."
    want = book.translate([text], 2)
    with elsewhere() as device:
        book.model.to(device)
        assert book.translate([text], 2) == want
        book.nats_per_piece([(text, "a dog runs .")])
        if name != "translator-vector":
            book.looks(text)


def test_the_vision_transformer_reads_where_it_lies():
    book = vision.load()
    want = book.says(book.pictures[:2])
    with elsewhere() as device:
        book.model.to(device)
        assert book.says(book.pictures[:2]) == book.says(book.pictures[:2].to(device)) == want


def test_few_bits_go_along():
    model = quantised(small(), 8, product=int8_kernel)
    with torch.no_grad(), elsewhere() as device:
        want = model(TOKENS)
        assert_close(model.to(device)(TOKENS.to(device)).cpu(), want)
        x = torch.randn(1, 20, 32, generator=torch.Generator().manual_seed(1))
        blocks = copy.deepcopy(small().to(device).body.blocks)
        calibrated(blocks, x.to(device), by_gptq(4, 8))
        few = quantised(small(), 4, 32, product=int4_kernel)
        few(TOKENS)
        with pytest.raises(ValueError, match="for a CPU; on cuda multiply by `unpacked`"):
            few.to(device)(TOKENS.to(device))


def test_a_rotation_keeps_its_frequencies_where_the_model_lies():
    with elsewhere() as device:
        model = small().to(device, torch.bfloat16)
        rotations = [part for part in model.modules() if hasattr(part, "frequencies")]
        assert rotations
        for part in rotations:
            assert (part.speed.device.type, part.speed.dtype) == ("cuda", torch.float32)
            assert part.speed.tolist() == [*part.frequencies]
    empty = torch.nn.ModuleList(rotations).to("meta").to_empty(device="cpu")
    assert all(part.speed.tolist() == [*part.frequencies] for part in empty)


def test_sentences_of_chapter_2_are_read_where_the_translator_lies():
    torch.manual_seed(0)
    data = pairs.load("toy")
    context = seq2seq.AttentionContext(AdditiveScores(query_width=48, key_width=48, width=8))
    model = assemble(data, context).eval()
    want = align(model, data, ["my", "red", "car"])
    with torch.no_grad(), elsewhere() as device:
        model.to(device)
        weights, words = align(model, data, ["my", "red", "car"])
        assert words == want[1]
        assert_close(weights.cpu(), want[0])
        assert right_pairs(model, data, data.test[:3]).device.type == "cpu"
