"""Drawings say the tensors' numbers, the same everywhere, and can be read by everybody."""

import gzip
import locale
import math
import re
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import nbformat
import pytest
import torch
from torch import nn

from attnbook.attention import MultiHeadAttention, attend, scaled_dot_scores
from attnbook.block import Block, PostNorm
from attnbook.generate.search import beam_search
from attnbook.inside.watch import watch
from attnbook.masks import causal, causal_mask
from attnbook.models.gpt2 import gpt2
from attnbook.models.vaswani import vaswani_2017
from attnbook.positions import Rotary
from attnbook.quantise.gptq import gptq
from attnbook.recurrence.delta import delta_step
from attnbook.recurrence.gated_delta import GatedDelta, decay_per_head
from attnbook.recurrent import GRUCell, LSTMCell
from attnbook.train.preferences import advantages
from bookkit.drawings import gallery, paths
from bookkit.drawings.adding import HEADS, MATRIX, sum_of_heads
from bookkit.drawings.asks import ring, who_asks
from bookkit.drawings.averages import averages
from bookkit.drawings.beams import CASE, END, beams, per_word, trace
from bookkit.drawings.block import residual_stream
from bookkit.drawings.bottleneck import look_back
from bookkit.drawings.cache import kv_cache, shared_keys
from bookkit.drawings.cones import heard, nothing_leaks
from bookkit.drawings.drawing import STYLE, Drawing, page
from bookkit.drawings.events import one_look
from bookkit.drawings.families import FAMILIES
from bookkit.drawings.flows import MODELS, four_models, numbers_kept, what_stacks_keep
from bookkit.drawings.forcing import teacher_forcing
from bookkit.drawings.gru import gru_cell
from bookkit.drawings.heads import split_attend_join
from bookkit.drawings.language import bpe, draft_check, next_token
from bookkit.drawings.lookup import soft_lookup
from bookkit.drawings.lstm import lstm_cell
from bookkit.drawings.machines import cuts
from bookkit.drawings.matrices import attention_matrices
from bookkit.drawings.memory import matrix_memory
from bookkit.drawings.palette import CSS, DARK, LIGHT, ROLES
from bookkit.drawings.pen import Pen, printed, read, symbols
from bookkit.drawings.permits import MASKS, table
from bookkit.drawings.remain import CURES, three_problems
from bookkit.drawings.rounding import alike, errors_move_on
from bookkit.drawings.seats import two_questions
from bookkit.drawings.serving import shared_pages, two_batches
from bookkit.drawings.superposition import superposition
from bookkit.drawings.tuning import chat_template, compared_answers, low_rank
from bookkit.drawings.turning import turning_hands
from bookkit.drawings.unrolled import unrolled
from bookkit.drawings.walk import lstm_walk
from bookkit.explore import element
from bookkit.results.stored_run import stored_run


class OnDemand(dict[str, Drawing]):
    """Each drawing by its name, made when it is first asked for."""

    def __missing__(self, name: str) -> Drawing:
        self[name] = gallery.GALLERY[name]()
        return self[name]


DRAWINGS = OnDemand()


def whole() -> dict[str, Drawing]:
    return {name: DRAWINGS[name] for name in gallery.GALLERY}


each_drawing = pytest.mark.parametrize("name", gallery.GALLERY)


@pytest.fixture(params=[f"{name}-{look}" for name in gallery.GALLERY for look in ("wide", "tall")])
def svg(request):
    """Each drawing in each of its two layouts."""
    name, look = request.param.rsplit("-", 1)
    return DRAWINGS[name].layouts[look]


# -- one: the same everywhere -------------------------------------------------------------------


@contextmanager
def another_machine():
    """Another locale, another number of threads, another kind of float."""
    threads, kind = torch.get_num_threads(), torch.get_default_dtype()
    before = locale.setlocale(locale.LC_ALL)
    names = ("de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8", "C")
    torch.set_num_threads(2 if threads == 1 else 1)
    torch.set_default_dtype(torch.float64)
    for name in names:
        try:
            locale.setlocale(locale.LC_ALL, name)
            break
        except locale.Error:
            continue
    yield
    locale.setlocale(locale.LC_ALL, before)
    torch.set_num_threads(threads)
    torch.set_default_dtype(kind)


@pytest.mark.slow
@each_drawing
def test_a_drawing_is_the_same_twice_and_on_another_machine(name):
    first = DRAWINGS[name].html()
    assert gallery.GALLERY[name]().html() == first
    with another_machine():
        assert gallery.GALLERY[name]().html() == first


def test_a_number_on_a_border_is_printed_the_same_with_a_float_error_on_either_side():
    assert printed(0.065 - 1e-8) == printed(0.065) == printed(0.065 + 1e-8) == ".06"
    assert printed(0.075) == ".08"  # to the even digit
    assert printed(0.0651) == ".07"  # what is more than an error counts


@pytest.mark.parametrize(
    ("x", "words"), [(0.484, ".48"), (1, "1"), (-0.7, "−.70"), (-1.95, "−1.95"), (-0.001, "0")]
)
def test_a_cell_prints_no_leading_zero_and_a_true_minus(x, words):
    assert printed(x) == words
    assert read(words) == round(x, 2)


# -- two: the tensors' numbers ------------------------------------------------------------------


def given(name):
    return torch.tensor(getattr(gallery, name), dtype=torch.float)


def agrees(table, tensor, digits=2):
    """Every cell prints the tensor's number, half a digit off at most."""
    cells = torch.tensor([[read(words) for words in row] for row in table])
    assert cells.shape == tensor.shape
    return bool(((cells - tensor).abs() <= 0.5 * 10**-digits + 1e-5).all())


def test_the_six_tables_hold_what_attend_computes():
    q, k, v = given("QUERIES"), given("KEYS"), given("VALUES")
    output, weights = attend(q, k, v)
    truth = {"q": q, "k": k.T, "v": v, "s": scaled_dot_scores(q, k), "a": weights, "y": output}
    drawing = DRAWINGS["attention_matrices"]
    for pen in (drawing.wide, drawing.tall):
        assert pen.tables.keys() == truth.keys()
        assert all(agrees(pen.tables[name], tensor) for name, tensor in truth.items())
    assert not agrees(drawing.wide.tables["a"], weights + 0.01)  # this test can fail


def sums(svg):
    """The sums that a drawing spells out, with what they should give."""
    for words in re.findall(r'aria-label="([^"]*·[^"]* = [^"]*)"', svg):
        left, right = words.rsplit(" = ", 1)
        yield eval(left.replace("·", "*").replace("−", "-")), read(right)


@pytest.mark.parametrize("look", ["wide", "tall"])
def test_every_sum_that_is_spelled_out_is_right(look):
    found = list(sums(DRAWINGS["attention_matrices"].layouts[look]))
    assert len(found) == 2 * 6 + 2 * 4
    assert all(abs(value - said) < 0.0055 for value, said in found)


def test_a_mask_is_hatched_and_its_weights_are_none():
    x = torch.eye(3)
    drawing = attention_matrices(x, x, x, "abc", "abc", mask=causal_mask(3))
    assert drawing.layouts["wide"].count(">masked: no weight<") == 3
    assert agrees(drawing.wide.tables["a"], attend(x, x, x, causal_mask(3))[1])


def test_a_soft_lookup_prints_the_answers_of_attend_at_each_temperature():
    q, k, v = given("QUERIES")[:1], given("KEYS"), given("VALUES")
    for pen in (DRAWINGS["soft_lookup"].wide, DRAWINGS["soft_lookup"].tall):
        for n, heat in enumerate((0.1, 1, 5)):
            output, weights = attend(q / heat, k, v)
            assert agrees(pen.tables[f"y{n}"], output)
            shares = [f">{printed(w)}</text>" for w in weights[0].tolist() if w > 0.1]
            assert all(share in "".join(pen.marks) for share in shares)


def test_the_streams_carry_what_the_block_computes():
    block = gallery.block_of_sines()
    x = torch.tensor(gallery.TOKENS, dtype=torch.float)
    with torch.no_grad():
        vectors = {"x": x, "middle": block.attention(x), "after": block(x)}
    for pen in (DRAWINGS["residual_stream"].wide, DRAWINGS["residual_stream"].tall):
        for name, tensor in vectors.items():
            printed_rows = [pen.tables[f"{name}{t}"][0] for t in range(3)]
            assert agrees(printed_rows, tensor[0], digits=1)
    assert not agrees(printed_rows, x[0], digits=1)


def test_the_lines_of_a_block_are_as_wide_as_its_weights():
    block, x = gallery.block_of_sines(), torch.tensor(gallery.TOKENS, dtype=torch.float)
    with watch(block) as seen:
        block(x)
    (weights,) = seen.values()
    drawn = re.findall(r'class="weight share"[^>]*--w:([\d.]+)', DRAWINGS["residual_stream"].html())
    mean = [printed(w) for w in weights[0].mean(0).flatten().tolist()]
    assert drawn == 2 * mean


def test_the_cell_carries_what_an_lstm_computes():
    cell, zero = gallery.cell_of_the_text(), torch.zeros(1, 1)
    with torch.no_grad():
        h, c = cell(zero, (zero, torch.full((1, 1), 2.0)))
    for svg in DRAWINGS["lstm_cell"].layouts.values():
        assert f">= {float(h):.2f}<" in svg and f">{float(c):.2f}<" in svg
        gates = torch.tensor([-3.0, 3, 1]).sigmoid().tolist()
        assert all(f"× {gate:.2f}<" in svg for gate in gates)
    with pytest.raises(ValueError, match="a cell of width 1 fits; got width 2"):
        lstm_cell(LSTMCell(1, 2), zero, zero.expand(1, 2), zero.expand(1, 2))


def test_a_walk_shows_what_the_cell_computes_letter_by_letter():
    cell, x = gallery.cell_of_the_brackets(), torch.eye(4)[[0, 1, 1, 2, 3, 1]]
    state, shown, held = cell.start(1), [], []
    for x_t in x:
        with torch.no_grad():
            state = cell(x_t[None], state)
        shown.append(f"{float(state[0]):.2f}".replace("-", "−"))
        held.append(f"{float(state[1]):.2f}".replace("-", "−"))
    assert held[:4] == ["0.92", "0.94", "0.96", "0.05"] and float(state[1]) < -0.8
    for svg in DRAWINGS["lstm_walk"].layouts.values():
        assert re.findall(r"output f s b[^>]*>([−.\d]+)<", svg) == shown
        assert [words for words in re.findall(r">([−.\d]+)<", svg) if words in held]
    with pytest.raises(ValueError, match="a row for each of at most 6 letters fit; got width 1, 6"):
        lstm_walk(cell, x, "seven l")


def test_what_is_read_along_one_feature_of_several_is_its_dot_product_with_the_others():
    turn = 2 * torch.pi * torch.arange(5) / 5
    for pen in (DRAWINGS["superposition"].wide, DRAWINGS["superposition"].tall):
        assert agrees(pen.tables["read"], turn.cos()[None])
        assert agrees(pen.tables["left"], torch.tensor([[1 - turn[1].cos(), 0, 0, 0, 0]]))
    with pytest.raises(ValueError, match="3 to 7 features share the plane; got 2"):
        superposition(2)


def test_a_gru_takes_anew_what_it_does_not_keep():
    cell, zero = gallery.cell_that_keeps(), torch.zeros(1, 1)
    with torch.no_grad():
        (h,) = cell(zero, (torch.full((1, 1), 0.9),))
    keep, reset = torch.tensor([4.0, 1]).sigmoid().tolist()
    for svg in DRAWINGS["gru_cell"].layouts.values():
        assert f">{float(h):.2f}<" in svg and f"{keep**30:.2f} is left<" in svg
        assert svg.count(f"× {keep:.2f}<") == 2 and f"× {reset:.2f}<" in svg
        assert f"× {1 - keep:.2f}" in svg  # the same gate's other opening
    with pytest.raises(ValueError, match="a cell of width 1 fits; got width 2"):
        gru_cell(GRUCell(1, 2), zero, zero.expand(1, 2))


def test_an_output_hears_what_two_masks_let_through():
    causal, everything = causal_mask(5), torch.ones(5, 5, dtype=torch.bool)
    for masks in ((causal, causal), (causal, everything)):
        reached = masks[1].float() @ masks[0].float() > 0
        for i in range(5):
            assert sorted(heard(masks, i)[0]) == reached[i].nonzero()[:, 0].tolist()
    for output in (0, 2, 4):
        svg = nothing_leaks(output).layouts["wide"]
        assert svg.count('class="mark"') == 4 - output  # the steps from the right, one panel
        hears = f"output {output + 1} hears inputs 1 to"
        assert f">{hears} {output + 1}<" in svg and f">{hears} 5<" in svg
    with pytest.raises(ValueError, match="outputs are 0 to 4; got 5"):
        nothing_leaks(5)


def test_a_path_is_as_long_as_products_of_who_reads_whom_say():
    for name, (layers, _) in paths.STACKS.items():
        reached, steps = torch.eye(paths.T), 0
        while not reached[-1, 0]:
            step = layers[steps] if layers else 0
            mask = torch.zeros(paths.T, paths.T)
            for i in range(paths.T):
                mask[i, paths.reads(step, i)] = 1
            reached, steps = (mask @ reached).clamp(max=1), steps + 1
        assert steps == len(paths.way(layers)) - 1, name
        words = f"{steps} layer{'s' if steps > 1 else ''}<"
        for layout in DRAWINGS["path_lengths"].layouts.values():
            assert f">{words}" in layout and f">{paths.T - 1} steps<" in layout


def test_on_a_phone_two_ways_to_cut_stand_apart():
    """What lies between two panels is wider than what lies between two parts of one drawing."""
    tall, middle = DRAWINGS["cuts"].tall, 180
    boxes = re.findall(r'<rect[^>]* x="([\d.]+)"[^>]* width="([\d.]+)"', "".join(tall.marks))
    ends = [(float(x), float(x) + float(width)) for x, width in boxes]
    left = max(end for start, end in ends if end < middle + 1)
    assert min(start for start, end in ends if start > middle - 1) - left >= 16


def test_what_heads_write_adds_up_to_concatenation_and_projection():
    heads, matrix = torch.tensor(HEADS).float(), torch.tensor(MATRIX).float()
    project = nn.Linear(6, 6, bias=False)
    project.weight.data = matrix.T
    for pen in (DRAWINGS["sum_of_heads"].wide, DRAWINGS["sum_of_heads"].tall):
        assert agrees(pen.tables["sum"], project(heads.flatten())[None].detach(), 0)
        for n, block in enumerate(matrix.split(2)):
            assert agrees(pen.tables[f"block{n}"], block, 0)
            assert agrees(pen.tables[f"written{n}"], heads[n : n + 1] @ block, 0)
    with pytest.raises(ValueError, match=r"a matrix \(6, 6\) fit; got \(2, 3\) and \(6, 6\)"):
        sum_of_heads(heads.view(2, 3), matrix)


def test_the_cures_of_the_three_problems_are_those_of_the_chapter(root):
    notebook = nbformat.read(root / "book/01-recurrent-networks.ipynb", 4)
    text = "\n".join(cell.source for cell in notebook.cells).replace("*", "")
    for cure, does in CURES.items():
        (row,) = re.findall(rf"\n\| {cure}\b.*", text)
        cells = [re.sub("^help$", "helps", words.strip()) for words in row.split("|")[2:5]]
        assert tuple(cells) == does, cure
    for svg in three_problems(5).layouts.values():
        assert ">from 1 to 5: 4 steps<" in svg and ">5 inputs, one vector<" in svg
    with pytest.raises(ValueError, match="3 to 8 states fit; got 9"):
        three_problems(9)


def test_an_unrolled_network_shows_its_states_and_the_jacobian_of_two_steps():
    cell, x = gallery.cell_of_the_pulse(), torch.tensor([[1.0], [0.0], [0.0]])
    (h1,) = cell(x[:1], cell.start(1))

    def later(h):
        for t in (1, 2):
            (h,) = cell(x[t : t + 1], (h[None] if h.dim() == 1 else h,))
        return h[0]

    jacobian = torch.autograd.functional.jacobian(later, h1[0].detach())
    for pen in (DRAWINGS["unrolled"].wide, DRAWINGS["unrolled"].tall):
        assert agrees(pen.tables["h0"], h1.detach())
        assert agrees(pen.tables["h2"], later(h1[0])[None].detach())
        assert agrees(pen.tables["product"], jacobian)
    with pytest.raises(ValueError, match=r"width 2 fit; got \(2, 1\), width 2"):
        unrolled(cell, x[:2])


def test_each_word_looks_with_the_weights_that_were_given():
    weights = torch.tensor([[0.75, 0.25], [0.125, 0.875], [0.5, 0.5]])
    svg = look_back(["red", "car"], ["voiture", "rouge", "</s>"], weights).layouts["tall"]
    drawn = re.findall(r"--w:([\d.]+)", svg)
    assert drawn == [printed(weight) for weight in weights.flatten().tolist()]
    assert "rouge looks at red .12, car .88<" in svg
    with pytest.raises(ValueError, match=r"weights \(3, 2\) do not fit 2 words that look at 3"):
        look_back(["my", "red", "car"], ["ma", "voiture"], weights)


def test_the_teacher_gives_true_words_and_alone_each_word_comes_from_the_last_one():
    for svg in DRAWINGS["teacher_forcing"].layouts.values():
        assert svg.count('class="value f s"') == 5  # <s> twice, and three true words
        assert len(re.findall(r'class="hair" d', svg)) == 3  # all cells behind the mistake
        assert all(svg.count(f">{word}<") == 2 for word in ("ma", "mon", "noir"))
    later = teacher_forcing(said=("ma", "chien", "noir"), wrong=1).layouts["wide"]
    assert len(re.findall(r'class="hair" d', later)) == 2


def kept(tree, width, alpha, limit=6):
    """The text of the module's search, and the beginnings that it lengthens at each step."""
    words = [END, *sorted({word for then in tree.values() for word in then} - {END}), "<s>"]
    asked = []

    def next_logits(tokens):
        rows = [tuple(words[n] for n in row if n < len(words) - 1) for row in tokens.tolist()]
        asked.append(rows)
        p = [[tree.get(row, {}).get(word, 0.0) for word in words] for row in rows]
        logits = torch.tensor(p).clamp(min=1e-30).log()
        return torch.cat([logits, (1 - torch.tensor(p).sum(-1, keepdim=True)).log()], -1)

    start = torch.tensor([[len(words) - 1]])
    found = beam_search(next_logits, start, 0, limit, width, alpha)[0].tolist()
    return [words[n] for n in found], asked


def test_the_trace_of_a_beam_is_that_of_the_module_s_search():
    greedy, _ = kept(CASE, 1, 0.0)
    short, asked = kept(CASE, 2, 0.0)
    long, _ = kept(CASE, 2, 1.0)
    assert greedy == ["mon", "auto", "rouge", END]
    assert short == ["ma", "voiture", END, END] and long == ["ma", "voiture", "rouge", END]
    steps = trace(CASE, 2)
    assert len(steps) == len(asked) == 4  # and then both are finished
    for found, later in zip(steps, asked[1:], strict=False):
        assert [one.words for one in found[:2]] == later
    ended = {" ".join(one.words): (math.log(one.p), per_word(one)) for one in steps[-1][:2]}
    (a, a_word), (b, b_word) = ended["ma voiture </s>"], ended["ma voiture rouge </s>"]
    assert a > b and a_word < b_word  # log p is for the short one, per word for the long one


def test_a_beam_prints_the_products_of_each_step_and_frames_both_winners():
    for pen in (DRAWINGS["beams"].wide, DRAWINGS["beams"].tall):
        for n, found in enumerate(trace(CASE, 2)):
            assert pen.tables[f"step{n + 1}"] == [[printed(one.p)] for one in found]
            products = [
                math.prod(CASE[one.words[:j]][one.words[j]] for j in range(len(one.words)))
                for one in found
            ]
            assert [one.p for one in found] == pytest.approx(products)
        assert sum('class="mark"' in mark for mark in pen.marks) == 2


def test_a_look_has_its_six_events_in_order_and_lines_as_wide_as_the_weights():
    for svg in DRAWINGS["one_look"].layouts.values():
        events = re.findall(r">(\d) (\w+)", svg)
        assert sorted(events) == [
            ("1", "query"), ("2", "scores"), ("3", "softmax"),
            ("4", "weights"), ("5", "mixture"), ("6", "next"),
        ]  # fmt: skip
        assert re.findall(r"--w:([\d.]+)", svg) == [".04", ".07", ".89"]
    with pytest.raises(ValueError, match="3 words with a weight each fit; got 2 and 3"):
        one_look(reads=("red", "car"))


def test_bahdanau_asks_with_the_state_before_and_luong_with_the_new_one():
    for pen in (DRAWINGS["two_models"].wide, DRAWINGS["two_models"].tall):
        marks = "".join(pen.marks)
        first, second = marks.index("Bahdanau"), marks.index("Luong")
        assert first < marks.index("state before") < second < marks.index("new state")
        assert second < marks.index("tanh(W [c")


def test_each_head_attends_to_half_of_every_row():
    x = torch.arange(18.0).view(3, 6)
    for pen in (DRAWINGS["split_attend_join"].wide, DRAWINGS["split_attend_join"].tall):
        for n, stripe in enumerate((x[:, :3], x[:, 3:])):
            output, weights = attend(stripe / 10, stripe / 10, stripe)
            assert agrees(pen.tables[f"head{n}"], stripe, 0)
            assert agrees(pen.tables[f"weights{n}"], weights)
            assert agrees(pen.tables[f"y{n}"], output, 0)
        assert agrees(pen.tables["wrong01"], x[:1, 3:], 0)  # head 1 would get the first row's end
    with pytest.raises(ValueError, match=r"3 rows and 6 columns fits; got \(2, 6\)"):
        split_attend_join(x[:2])


def test_the_drinks_that_are_brought_are_those_of_the_two_who_are_asked():
    drinks = [(7 * n) % 10 for n in range(12)]
    drawing = two_questions(list(range(12)), [4, 9] * 6, drinks, seat=5)
    left, friend = torch.eye(10)[drinks[4]], torch.eye(10)[drinks[9]]
    for pen in (drawing.wide, drawing.tall):
        for n, shares in enumerate((left, friend, (left + friend) / 2)):
            assert agrees(pen.tables[f"row{n}"], shares[None], 1)
        assert [pen.tables[f"drink{n}"][0][0] for n in range(12)] == [str(d) for d in drinks]


def test_a_memory_is_written_as_the_delta_rule_writes_it():
    S, k, v = torch.tensor([[0.2, 0.4], [0.1, 0.9]]), torch.tensor([0.6, 0.8]), torch.ones(2)
    drawing = matrix_memory(S.tolist(), k.tolist(), v.tolist(), beta=0.5, keep=0.9)
    read, after = delta_step(S, k, k, v, torch.tensor(0.5), torch.tensor([0.9]).log())
    for pen in (drawing.wide, drawing.tall):
        assert agrees(pen.tables["faded"], 0.9 * S) and agrees(pen.tables["after"], after)
        assert agrees(pen.tables["wrong"], (v - 0.9 * S.T @ k)[None])
        assert agrees(pen.tables["read"], read[None])


def test_the_loss_of_a_dialogue_counts_where_the_answer_is_to_be_said():
    drawing = chat_template(["user:", "hello", "end", "book:", "hi", "end"], answer=4)
    for pen in (drawing.wide, drawing.tall):
        assert [n for row in pen.tables["mask"] for n in row] == ["0", "0", "0", "1", "1"]


@pytest.mark.weekly
def test_the_bytes_beside_a_cut_are_those_that_are_counted():
    from attnbook.parallel import claims
    from attnbook.parallel.wire import crew

    for claim in ("data", "ZeRO 3", "tensor", "pipeline"):
        sent = crew(2, claims.CLAIMS[claim])[0]["sent"]
        assert f"{sent:,} bytes" in cuts().desc
        assert f"{sent:,} bytes" in "".join(cuts().wide.marks)


def test_a_thin_product_has_the_numbers_that_are_said():
    drawing = low_rank(100, 50, 2)
    assert "300 numbers, 6.0 %" in drawing.desc and "5,000 numbers" in drawing.desc
    assert "300 learn" in "".join(drawing.wide.marks)


def test_nobody_waits_in_a_batch_that_changes_and_everybody_writes_what_was_asked():
    drawing = two_batches((4, 1, 2, 3), 2)
    for pen in (drawing.wide, drawing.tall):
        static, continuous = (pen.tables[name] for name in ("static", "continuous"))
        assert static == [list("AAAACC·"), list("B···DDD")]
        assert continuous == [list("AAAA··"), list("BCCDDD")]
        for rows in (static, continuous):
            letters = "".join(letter for row in rows for letter in row)
            assert [letters.count(name) for name in "ABCD"] == [4, 1, 2, 3]


def test_the_errors_that_move_on_end_at_the_levels_of_gptq():
    rows = errors_move_on().wide.tables["rows"]
    levels, scales = gptq(torch.tensor([[0.4, 1.4, 0.3, 3]]), alike(4, 0.8), 3, 4, damp=0.0)
    assert [read(x) for x in rows[-1]] == (levels * scales)[0].tolist()
    assert rows[0] == [".40", "1.40", ".30", "3"] and len(rows) == 5
    assert [row[0] for row in rows[1:]] == ["0"] * 4  # what is rounded stays


def test_a_layer_keeps_what_its_cache_holds():
    layers = {
        "F": MultiHeadAttention(64, 4),
        "D": GatedDelta(64, (4, 16), decay=decay_per_head(64, 4)),
    }
    for kind, layer in layers.items():
        cache = layer.cache()
        layer(torch.randn(1, 30, 64), mask=causal, cache=cache)
        if kind == "F":  # there is room for more
            kept = [x[:, :, : cache.length] for x in (cache.keys, cache.values)]
        else:
            kept = [cache.state]
        assert sum(x.numel() for x in kept) == numbers_kept(kind, 30)
    assert numbers_kept("w", 30) == numbers_kept("w", 500) == 2 * 16 * 64
    assert "DDDF 68,608" in what_stacks_keep().desc


def test_gradients_reach_the_two_models_that_learn():
    for pen in (four_models().wide, four_models().tall):
        marks = "".join(pen.marks)
        assert marks.count('class="gradient grad"') == 2 and marks.count("frozen") == 2
        assert sum(title.split("_")[0] in marks for title, _ in MODELS.values()) == 4


def test_pages_that_hold_the_same_beginning_stand_in_both_block_tables():
    blocks = shared_pages().wide.tables["blocks"]
    assert blocks == [["1", "2", "3"], ["1", "2", "4"]]
    apart = shared_pages(("a b c d e", "b c d e f")).wide.tables["blocks"]
    assert not set(apart[0]) & set(apart[1])


def test_answers_are_compared_by_their_advantages():
    drawing = compared_answers("1 + 1 =", ("2", "3", "2"), (1, 0, 1), (0, 0, 0))
    for pen in (drawing.wide, drawing.tall):
        gains = advantages(torch.tensor([[1.0, 0, 1]])).T
        assert agrees(pen.tables["first gains"], gains)
        assert agrees(pen.tables["second gains"], torch.zeros(3, 1))


def test_a_cache_computes_each_position_once():
    wide = ElementTree.fromstring(DRAWINGS["kv_cache"].layouts["wide"])
    rows = [g for g in wide.iter("g") if g.get("class") == "step"]
    squares = [sum(box.get("class") == "query f" for box in row) for row in rows]
    assert squares == [5, 6, 7, 8, 9, 10, 11, 12] + [5] + 7 * [1]
    assert "without a cache: 68 computed" in DRAWINGS["kv_cache"].html()
    assert "with a cache: 12 computed" in DRAWINGS["kv_cache"].html()


def test_the_losses_over_the_words_are_those_of_the_stored_run():
    run = stored_run("next_token")
    for word, place, loss in zip(
        run["tokens"][1:], run["places"][1:], gallery.LOSSES, strict=False
    ):
        assert place["first"][place["names"].index(word)] == -loss
        for svg in DRAWINGS["next_token"].layouts.values():
            assert f">{printed(loss)}<" in svg


def test_the_merges_are_counted_in_the_words_and_make_what_is_drawn():
    drawing = DRAWINGS["bpe"]
    assert re.findall(r">(\d) ×<", drawing.layouts["wide"]) == list("995322")
    assert drawing.desc.endswith("s low, s lower, s lowest, f low, f lower, g low.")


def test_what_is_rejected_is_what_is_filled_up():
    drawing = draft_check(["a", "b"], torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5]))
    assert "kept .75, rejected and replaced .25" in drawing.html()


def test_what_is_kept_of_a_token_is_what_a_layer_projects():
    numbers = re.findall(r">(\d+) numbers kept<", DRAWINGS["shared_keys"].layouts["wide"])
    for kept, kv_heads in zip(numbers[:3], (4, 2, 1), strict=True):
        to_k = nn.Linear(48, kv_heads * 12)
        assert int(kept) == 2 * to_k.out_features
    wide = ElementTree.fromstring(DRAWINGS["shared_keys"].layouts["wide"])
    bars = [float(box.get("width")) for box in wide.iter("rect") if box.get("y") == "216"]
    lengths = [bars[0] + bars[1], bars[2] + bars[3], bars[4] + bars[5], bars[6]]
    scale = [length / int(kept) for length, kept in zip(lengths, numbers, strict=True)]
    assert max(scale) / min(scale) < 1.01


@pytest.mark.parametrize(
    ("block", "shape", "message"),
    [
        (Block(PostNorm(nn.Identity(), nn.Identity()), nn.Identity()), (1, 3, 4), "PreNorm"),
        (gallery.block_of_sines(), (1, 2, 4), r"three tokens of four numbers fit; got \(1, 2, 4\)"),
    ],
)
def test_a_block_that_does_not_fit_is_refused(block, shape, message):
    with pytest.raises(ValueError, match=message):
        residual_stream(block, torch.ones(shape))


def test_the_transformer_names_the_parameters_of_the_model():
    with torch.device("meta"):
        model = vaswani_2017(37_000)
    part = model.decoder.blocks[0].cross_attention.sublayer
    count = sum(weight.numel() for weight in part.parameters())
    html = DRAWINGS["transformer_2017"].html()
    assert f">{count:,} parameters<" in html
    total = sum(weight.numel() for weight in {id(w): w for w in model.parameters()}.values())
    assert f">{total / 1e6:.1f} M<" in html


def test_areas_are_shares_of_the_parameters():
    svg = ElementTree.fromstring(DRAWINGS["parameters"].layouts["wide"])
    areas = {}
    for box in svg.iter("rect"):
        name = box.get("class")
        areas.setdefault(name, []).append(float(box.get("width")) * float(box.get("height")))
    with torch.device("meta"):
        model = gpt2()
    block = model.body.blocks[0]
    network = sum(weight.numel() for weight in block.feedforward.sublayer.parameters())
    tokens = model.embed.tokens.weight.numel()
    assert areas["muted edge"][0] / sum(areas["muted f"][:12]) == pytest.approx(
        tokens / network / 12, rel=0.08
    )


def test_averages_are_those_of_the_weights():
    html = DRAWINGS["averages"].layouts["wide"]
    numbers = re.findall(r'class="s b"[^>]*>([^<]*)<', html)
    assert numbers[:10] == ["0", "16", "4", "12", "6", "10", "7", "9", "7.5", "8.5"]
    assert numbers[10:14] == ["0", "16", "4", "28"]


def test_the_shapes_of_who_asks_are_those_that_run():
    html = DRAWINGS["who_asks"].html()
    x, memory = torch.randn(2, 3), torch.randn(5, 7)
    to_q, to_k, to_v = (nn.Linear(*sizes) for sizes in ((3, 4), (7, 4), (7, 6)))
    output, weights = attend(to_q(x), to_k(memory), to_v(memory))
    for tensor in (x, memory, to_k.weight, to_v.weight, output, weights):
        assert html.count(f">{tuple(tensor.shape)}<") >= 2  # in both layouts


def test_the_three_families_draw_a_line_for_each_pair_that_sees_itself():
    html = DRAWINGS["families"].layouts["wide"]
    pairs = sum(int(family.mask.sum()) for family in FAMILIES)
    assert html.count('class="weight share"') == pairs == 25 + 10 + 9 + 9 + 6
    two = FAMILIES[2].mask
    assert not two[:3, 3:].any() and two[3:, :3].all() and torch.equal(two[3:, 3:], causal_mask(3))


def test_turning_hands_print_the_score_that_rotary_gives_at_both_pairs_of_places():
    one = torch.zeros(1, 8)
    one[0, 0] = 1.0
    rotate = Rotary(8)
    for svg in DRAWINGS["turning_hands"].layouts.values():
        for q, k in ((1, 3), (5, 7)):
            score = float(rotate(one, q)[0] @ rotate(one, k)[0])
            assert f">q at {q}, k at {k}<" in svg
            assert svg.count(f"angle 2, score {printed(score)}<") == 2
        assert all(f">{turn}<" in svg for turn in ("6", "63", "628", "6,283"))
    with pytest.raises(ValueError, match="D is 4, 6 or 8 and places are two; got D = 16"):
        turning_hands(16)


def test_a_gallery_fills_the_cells_that_its_patterns_allow():
    for svg in DRAWINGS["mask_gallery"].layouts.values():
        filled = re.findall(r'class="weight f" d="([^"]*)"', svg)
        counts = [path.count("z") for path in filled]
        assert counts == [int(table(mask).sum()) for mask, _, _ in MASKS.values()]
    causal_cells = counts[list(MASKS).index("causal")]
    assert causal_cells == int(causal_mask(8).sum()) == 36
    assert counts[0] == 64 and counts[3] == 33 and counts[6] == 15 + 6


def test_the_doors_name_every_scheme_and_leave_the_values_alone():
    svg = DRAWINGS["where_positions"].layouts["wide"]
    for word in ("sines, learned table", "rotary", "ALiBi, learned bias"):
        assert f">{word}<" in svg
    assert svg.count(">turn<") == 2 and "nothing says a position here" in svg


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: two_questions(names=[0]), "12 seats fit, and one of them asks; got 1 and seat 1"),
        (lambda: two_questions(drinks=[10] * 12), "drinks are 0 to 9"),
        (lambda: next_token(["a", "b", "c"], [1.0]), "got 3 words and 1 losses"),
        (lambda: bpe(["lowlands"], [("l", "o")] * 3), "got 1 words and 3 merges"),
        (lambda: draft_check(["a"], torch.ones(1), torch.ones(1)), "got 1 words"),
        (lambda: matrix_memory(k=[1.0]), "a memory of 2 × 2, a key and a value of 2 fit"),
        (lambda: chat_template(["a", "b"], answer=2), "2 tokens and an answer from 2 on"),
        (lambda: low_rank(4, 4, 5), "got 4 × 4 and 5"),
        (lambda: two_batches((1, 2), 2), "got 2 and"),
        (lambda: two_batches((9, 9, 9), 2), "13 steps fit; got 18"),
        (lambda: shared_pages(("a",)), "got 1 texts, pages of 4"),
        (lambda: what_stacks_keep(("FF",)), "4 layers F, w or D fit"),
        (lambda: errors_move_on((1.0, 2.0)), "got 2 weights, rho = 0.8"),
        (lambda: compared_answers(answers=("1", "2")), "got 2 answers, 4 and 4 rewards"),
        (lambda: kv_cache(prompt=9), "up to 14 positions in 8 steps fit; got 9 and 8"),
        (lambda: shared_keys(heads=3), "4 heads that divide the width fit; got 3, 48, 32"),
        (lambda: ring("AB"), "3 to 8 different names fit on a ring; got 'AB'"),
        (lambda: ring("ABA"), "got 'ABA'"),
        (lambda: who_asks(asks=(2, 9)), "lengths up to 8 fit"),
        (lambda: averages(torch.ones(2), torch.eye(2), layers=6), "1 to 5 layers fit; got 6"),
        (lambda: lookup(temperatures=(0, 1, 2)), "three temperatures above 0 fit"),
        (lambda: teacher_forcing(true=("ma",)), "3 words each, a mistake at 0 to 2; got 1, 3, 0"),
        (lambda: beams(width=9), "1 to 3 beams fit, and words to begin with; got 9, 7"),
        (lambda: beams({(): dict.fromkeys("abcdef", 0.1)}), "no word follows a, b"),
        (
            lambda: beams({(): {"a": 0.3, END: 0.1}, ("a",): dict.fromkeys("bcdefg", 0.1)}, 1),
            "no word follows a b",
        ),
        (lambda: beams({(): {END: 0.3, **dict.fromkeys("abcdef", 0.1)}}, 1), "got .7.$"),
        (lambda: lookup(words="abc"), "with a word each; got keys .*, 3 words"),
    ],
)
def test_what_does_not_fit_on_a_sheet_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def lookup(words=gallery.WORDS, **other):
    return soft_lookup(given("QUERIES")[0], given("KEYS"), given("VALUES"), words, **other)


@pytest.mark.parametrize(
    ("queries", "words", "features", "message"),
    [
        ("ab", "abc", (), "2 queries and 3 words are named; there are 3 and 3"),
        ("abc", "abc", ("one",), "1 features for widths 3 and 3"),
    ],
)
def test_names_that_do_not_fit_are_refused(queries, words, features, message):
    x = torch.eye(3)
    with pytest.raises(ValueError, match=message):
        attention_matrices(x, x, x, queries, words, features)


def test_tables_that_do_not_fit_on_the_sheet_are_refused():
    with pytest.raises(ValueError, match=r"at most 6 rows and 4 columns fit; got q \(7, 2\)"):
        attention_matrices(torch.ones(7, 2), torch.ones(2, 2), torch.ones(2, 2), "abcdefg", "ab")


# -- three: only classes ------------------------------------------------------------------------

PLACES = {"x", "y", "x1", "y1", "cx", "cy", "r", "rx", "width", "height", "d", "dy", "transform"}
MEANING = {"class", "style", "viewBox", "role", "tabindex", "id"}
MEANING |= {"aria-label", "aria-describedby", "data-part", "data-on"}
CLASSES = set(re.findall(r"\.([a-z][\w-]*)", CSS))


def style_faults(svg):
    """What a drawing says about its looks beside classes, and names that lead nowhere."""
    root, faults, parts, asked = ElementTree.fromstring(svg), [], set(), set()
    for node in root.iter():
        faults += [f"{node.tag} {name}" for name in node.attrib if name not in PLACES | MEANING]
        faults += [f"class {name}" for name in node.get("class", "").split() if name not in CLASSES]
        style = node.get("style", "")
        if style and not re.fullmatch(r"--[vw]:(0|1|\.\d+)|--n:\d+", style):
            faults.append(f"style {style}")
        parts |= set(node.get("data-part", "").split())
        asked |= set(node.get("data-on", "").split())
    return faults + [f"nothing is called {name}" for name in sorted(asked - parts)]


def test_looks_come_from_the_style_sheet_alone_and_every_name_exists(svg):
    assert style_faults(svg) == []


@pytest.mark.parametrize(
    "fault",
    ['<g fill="red"/>', '<g class="crimson"/>', '<g style="color:red"/>', '<g data-on="none"/>'],
)
def test_a_planted_colour_class_or_name_is_found(fault):
    assert len(style_faults(f"<svg>{fault}</svg>")) == 1


# -- four: contrast -----------------------------------------------------------------------------


def channels(colour):
    return [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]


def mixed(over, under, share):
    """`over` with this opacity on `under`, as a browser paints it."""
    return [share * a + (1 - share) * b for a, b in zip(over, under, strict=True)]


def contrast(one, other):
    def light(rgb):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


THEMES = {"light": (LIGHT, 0.13, None), "dark": (DARK, 0.12, 0.96)}
each_theme = pytest.mark.parametrize("theme", THEMES)


def tint(theme, role):
    """The ground of a part; keys and values are paler than the others."""
    colours, share, _ = THEMES[theme]
    paler = float(re.search(r"\.value\.t \{ --d-tint: (\d+)%", CSS)[1]) / 100
    share = paler if role in ("key", "value") else share
    return mixed(channels(colours[role]), channels(colours["paper"]), share)


@each_theme
@pytest.mark.parametrize("role", [*ROLES, "ink", "muted"])
def test_words_in_a_role_can_be_read_on_the_page_on_surfaces_and_on_their_own_tint(theme, role):
    colours = THEMES[theme][0]
    for ground in ("paper", "surface"):
        assert contrast(channels(colours[role]), channels(colours[ground])) >= 4.5, ground
    assert contrast(channels(colours[role]), tint(theme, role)) >= 4.5


@each_theme
def test_lines_stand_out_and_ink_can_be_read_on_every_tint(theme):
    colours = THEMES[theme][0]
    for ground in ("paper", "surface"):
        assert contrast(channels(colours["line"]), channels(colours[ground])) >= 3
    for role, words in [(role, words) for role in ROLES for words in ("ink", "muted")]:
        assert contrast(channels(colours[words]), tint(theme, role)) >= 4.5, role


def fills():
    """For each role its fill behind numbers, light and dark, and how far it may go in light."""
    rule = r"\.drawing \.(\w+) \{ --c: [^;]*; --f: (?:var\(--d-grey, )?(#\w{6})\)?; --r: ([.\d]+)"
    return {role: (fill, float(reach)) for role, fill, reach in re.findall(rule, CSS)}


@each_theme
@pytest.mark.parametrize("role", [*ROLES, "ink", "muted"])
def test_numbers_can_be_read_in_their_cells_however_dark_these_are(theme, role):
    colours, _, reach = THEMES[theme]
    fill, own = fills()[role]
    if theme == "dark" and role in ("state", "ink", "muted"):
        fill = colours["grey"]
    for v in (0, 0.5, 1):
        share = 0.13 + v * ((reach or own) - 0.13)
        ground = mixed(channels(fill), channels(colours["paper"]), share)
        assert contrast(channels(colours["cell"]), ground) >= 4.5, v


def test_contrast_is_that_of_the_standard():
    assert contrast([0, 0, 0], [1, 1, 1]) == pytest.approx(21)
    assert contrast(channels("#777777"), [1, 1, 1]) == pytest.approx(4.48, abs=0.01)  # too pale


# -- five: in a browser -------------------------------------------------------------------------

FAULTS = (Path(__file__).parent / "drawings.js").read_text(encoding="utf-8")


@contextmanager
def show(chromium, content, width, **settings):
    look = {"viewport": {"width": width, "height": 900}, "reduced_motion": "reduce"}
    context = chromium.new_context(**look | settings)
    sheet = context.new_page()
    sheet.set_content(content)
    yield sheet
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_overlaps_is_crossed_leaves_the_sheet_or_is_too_small(chromium, width, theme):
    with show(chromium, page(whole(), theme), width) as sheet:
        assert sheet.evaluate(FAULTS) == []
        sheet.add_style_tag(content="svg text { letter-spacing: .2px }")  # as in a wider font
        assert sheet.evaluate(FAULTS) == []
        look = sheet.locator(".wide" if width > 660 else ".tall").first
        assert look.is_visible()
        ink = (LIGHT if theme == "light" else DARK)["ink"]
        rgb = ", ".join(str(round(255 * part)) for part in channels(ink))
        assert look.evaluate("svg => getComputedStyle(svg).fill") == f"rgb({rgb})"


def broken(plant):
    """A drawing with a fault."""
    pen = Pen(360, 200)
    pen.text(180, 100, "a label", "s")
    plant(pen)
    return {"broken": Drawing(pen, None, "broken", "")}


@pytest.mark.parametrize(
    ("plant", "fault"),
    [
        (lambda pen: pen.text(200, 102, "another", "s"), "overlaps"),
        (lambda pen: pen.text(350, 20, "too far right", "s"), "leaves the sheet"),
        (lambda pen: pen.line([(0, 97), (360, 97)]), "is crossed by muted k"),
        (lambda pen: pen.stream([(180, 0), (180, 200)]), "is crossed by state k thick"),
        (lambda pen: pen.text(180, 150, "W_{small}", "s"), None),
    ],
)
def test_a_planted_fault_is_found(chromium, plant, fault):
    with show(chromium, page(broken(plant)), 1200) as sheet:
        found = sheet.evaluate(FAULTS)
        assert all(fault in line for line in found) and found if fault else found == []


def test_the_only_layout_of_a_small_drawing_serves_both_windows(chromium):
    for width in (1200, 390):
        with show(chromium, page(broken(lambda pen: None)), width) as sheet:
            assert sheet.locator("svg.only").is_visible()


LIT = "(svg) => [...svg.querySelectorAll('text')].filter(t => t.closest('.lit')).length"


def test_a_score_that_is_pointed_at_lights_its_query_its_key_and_its_sum(chromium):
    content = page({"it": DRAWINGS["attention_matrices"]})
    with show(chromium, content, 1200) as sheet:
        layout = sheet.locator("svg.wide")
        assert layout.get_by_text("Point at a number:").is_visible()
        layout.locator("[data-part~=s14]").hover()
        lit = layout.evaluate(
            "svg => [...svg.querySelectorAll('.lit text')].map(t => t.textContent)"
        )
        row, column = given("QUERIES")[1], given("KEYS")[4]
        numbers = [*map(printed, row.tolist()), *map(printed, column.tolist()), ".50"]
        assert sorted(lit[:-1]) == sorted(numbers)
        assert lit[-1].endswith("/ 2 = .50")
        dim = layout.locator("[data-part~=s00]").evaluate("g => getComputedStyle(g).opacity")
        assert float(dim) < 0.5
        sheet.mouse.move(2, 2)
        assert layout.evaluate(LIT) == 0


def test_arrow_keys_lead_from_number_to_number_and_escape_lets_go(chromium):
    content = page({"it": DRAWINGS["attention_matrices"]})
    with show(chromium, content, 1200) as sheet:
        sheet.keyboard.press("Tab")
        first = "document.activeElement.dataset.part"
        assert sheet.evaluate(first).startswith("q0")
        for key in ["ArrowRight"] * 5:
            sheet.keyboard.press(key)
        assert sheet.evaluate(first).split()[0] == "s01"
        sheet.keyboard.press("ArrowDown")
        assert sheet.evaluate(first).split()[0] == "s11"
        assert sheet.locator("svg.wide").evaluate(LIT) == 4 + 4 + 1 + 1
        sheet.keyboard.press("Escape")
        assert sheet.locator("svg.wide").evaluate(LIT) == 0


def test_without_script_a_drawing_is_complete_and_promises_nothing(chromium):
    with show(chromium, page(whole()), 1200, java_script_enabled=False) as sheet:
        assert not any(hint.is_visible() for hint in sheet.locator(".hint").all())
        assert all(rest.is_visible() for rest in sheet.locator(".wide .rest").all())
        assert sheet.locator(".wide .rest").count() > 0


def test_steps_come_one_by_one_while_somebody_looks_and_are_there_otherwise(chromium):
    content = page({"it": DRAWINGS["kv_cache"]})
    names = "svg => [...svg.querySelectorAll('.step')].map(g => getComputedStyle(g).animationName)"
    for motion, name in (("no-preference", "d-come"), ("reduce", "none")):
        with show(chromium, content, 1200, reduced_motion=motion) as sheet:
            layout = sheet.locator("svg.wide")
            assert set(layout.evaluate(names)) == {"none"}
            layout.hover()
            assert set(layout.evaluate(names)) == {name}
            sheet.mouse.move(2, 2)
            layout.focus()
            assert set(layout.evaluate(names)) == {name}


def test_print_takes_the_wide_layout_in_light(chromium):
    with show(chromium, page(whole(), "dark"), 390) as sheet:
        sheet.emulate_media(media="print")
        assert sheet.locator(".wide").first.is_visible()
        assert not sheet.locator(".tall").first.is_visible()
        rgb = ", ".join(str(round(255 * part)) for part in channels(LIGHT["ink"]))
        fill = "svg => getComputedStyle(svg).fill"
        assert sheet.locator(".wide").first.evaluate(fill) == f"rgb({rgb})"


def test_a_screen_reader_finds_nothing_to_complain_about(chromium):
    """Contrast is measured above, by role."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with show(chromium, page(whole()), 1200) as sheet:
        options = {
            "runOnly": ["wcag2a", "wcag2aa"],
            "rules": {"color-contrast": {"enabled": False}},
        }
        found = axe.run(sheet, options=options).response["violations"]
        faults = [f"{fault['id']}: {fault['nodes'][0]['html'][:200]}" for fault in found]
        assert faults == []


# -- six: words for those who do not see it -----------------------------------------------------


@each_drawing
def test_a_drawing_has_a_title_and_a_description_to_be_told_on_the_telephone(name):
    drawing = DRAWINGS[name]
    assert drawing.title and not drawing.title.endswith(".")
    assert len(drawing.desc.split()) >= 25
    bundle = drawing._repr_mimebundle_()
    assert bundle["text/plain"] == f"Drawing: {drawing.title}\n\n{drawing.desc}"
    for svg in drawing.layouts.values():
        root = ElementTree.fromstring(svg)
        assert root.get("aria-label") == drawing.title
        assert root[0].tag == "desc" and root[0].text == drawing.desc
        assert root[0].get("id") == root.get("aria-describedby")
        answers = [node for node in root.iter() if node.get("data-on")]
        assert root.get("role") == ("group" if answers else "img")
        assert all(node.get("role") == "img" and node.get("aria-label") for node in answers)
        assert [node.get("tabindex") for node in answers].count("0") == bool(answers)


def htmls(cell):
    """What a cell shows as HTML."""
    outputs = cell.get("outputs", [])
    return ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]


def caption_faults(notebook):
    """Drawings of a chapter without a caption whose first sentence ends in a full stop."""
    for cell in notebook.cells:
        html = "".join(
            "".join(output.get("data", {}).get("text/html", ""))
            for output in cell.get("outputs", [])
        )
        if '<div class="drawing">' in html:
            figure = cell.metadata.get("mystnb", {}).get("figure", {})
            if "name" not in figure or not re.match(
                r"[^.]{10,}[^.]\.(\s|$)", figure.get("caption", "")
            ):
                yield cell.source


@pytest.mark.parametrize("caption", ["Who looks at whom. More.", "Who looks at whom", ""])
def test_a_drawing_without_a_finding_below_it_is_found(caption):
    html = nbformat.v4.new_output(
        "display_data", {"text/html": DRAWINGS["attention_matrices"].html()}
    )
    about = {"mystnb": {"figure": {"caption": caption, "name": "fig-it"}}}
    cell = nbformat.v4.new_code_cell("matrices", outputs=[html], metadata=about)
    faults = list(caption_faults(nbformat.v4.new_notebook(cells=[cell])))
    assert faults == ([] if caption.endswith("More.") else ["matrices"])


def test_every_drawing_of_a_chapter_has_its_finding_below_it(root):
    for path in sorted((root / "book").glob("*.ipynb")):
        assert list(caption_faults(nbformat.read(path, 4))) == [], path.name


# -- seven: weight and names --------------------------------------------------------------------


def test_a_layout_is_light(svg):
    """Raw as it stands in a notebook, and compressed as a server sends it."""
    text = svg.encode()
    six = b"Six ways to cut" in text  # six figures that became the panels of one
    assert len(text) <= (36_000 if b"data-on" in text or six else 18_000)
    assert len(gzip.compress(text)) <= 6_000


def test_the_style_sheet_is_light():
    assert len(STYLE.encode()) <= 8_000


def identities(html):
    return re.findall(r'\bid="([^"]*)"', html)


def test_two_drawings_on_a_page_do_not_meet():
    names = identities("".join(drawing.html() for drawing in whole().values()))
    assert len(names) == len(set(names)) >= len(gallery.GALLERY)
    one = DRAWINGS["attention_matrices"]
    assert identities(one.html()) != identities(DRAWINGS["transformer_2017"].html())


def test_every_id_of_a_chapter_is_there_once(root):
    for path in sorted((root / "book").glob("*.ipynb")):
        drawn = [html for cell in nbformat.read(path, 4).cells for html in htmls(cell)]
        names = identities("".join(html for html in drawn if '<div class="drawing">' in html))
        assert len(names) == len(set(names)), path.name


# -- the pen ------------------------------------------------------------------------------------


def test_symbols_rise_and_fall_and_come_back_to_the_line():
    shifts = [int(dy) for dy in re.findall(r'dy="(-?\d+)"', symbols("W_q x^{T} + b"))]
    assert sum(shifts) == 0 and shifts[0] > 0 > shifts[2]
    assert symbols("a < b") == "a &lt; b"


def test_a_corner_is_rounded_by_half_of_a_short_leg_at_most():
    pen = Pen(100, 100)
    pen.line([(0, 0), (50, 0), (50, 6)], "muted k", "")
    assert 'd="M0 0L47 0Q50 0 50 3L50 6"' in pen.marks[0]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_explorables_have_the_same_palette(theme):
    here = {"light": LIGHT, "dark": DARK}[theme]
    there = element.palette(theme)
    shared = [role for role in here if f"--d-{role}" in there]
    assert set(ROLES) <= set(shared)
    assert all(here[role].lower() == there[f"--d-{role}"].lower() for role in shared)


def test_the_palette_has_the_same_roles_in_both_themes():
    assert set(LIGHT) == set(DARK) - {"grey"} and set(ROLES) < set(LIGHT)
    assert all(LIGHT[one] != LIGHT[other] for one, other in combinations(ROLES, 2))
