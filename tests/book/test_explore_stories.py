"""What a reader finds in half a minute with each explorable is true of the module."""

import itertools
import math

import nbformat
import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from attnbook.attention import attend, scaled_dot_scores
from attnbook.block import Block, PostNorm, PreNorm
from attnbook.data import graphs
from attnbook.efficient import flash, sparse
from attnbook.generate.speculative import overlap, residual
from attnbook.inside.circuits import attentions
from attnbook.inside.watch import watch, without_heads
from attnbook.losses import parameters
from attnbook.masks import causal_mask
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.models.mixtral import mixtral
from attnbook.norms import LayerNorm
from attnbook.positions import frequencies
from attnbook.recurrence.delta import delta_loop
from attnbook.recurrence.layer import unit
from attnbook.serving.engine import Engine, Request
from attnbook.serving.load import under_load
from attnbook.serving.pages import Pages
from attnbook.shipped.language import load
from bookkit.drawings import roofline
from bookkit.explore import clocks, speed
from bookkit.explore.alignment import RUNS, Alignment, per_cent, written
from bookkit.explore.block import BlockWalk, parts
from bookkit.explore.by_hand import AttentionByHand
from bookkit.explore.clinic import INSTRUMENTS, PATIENTS, Clinic, height, short
from bookkit.explore.clocks import Clocks
from bookkit.explore.colours import PAIRS, ColourRefinement, adjacency
from bookkit.explore.colours import tokens as told
from bookkit.explore.controller import (
    LONG,
    NUMBERS,
    ONE,
    ORDERS,
    ROWS,
    SLOT,
    SLOTS,
    B,
    Chip,
    D,
    MemoryController,
    N,
    order,
)
from bookkit.explore.cost import MODELS, Cost, Model, cache_bytes, count
from bookkit.explore.heads import HeadSwitchboard, trained
from bookkit.explore.low_rank import LowRankChange
from bookkit.explore.masks import MaskPainter
from bookkit.explore.memory import STORY, WORDS, FourMemories, keys, match, pictures
from bookkit.explore.next_token import NextToken
from bookkit.explore.patches import PatchRows
from bookkit.explore.router import SEEDS, RouterLoads, within
from bookkit.explore.sampling import Sampling, drawn
from bookkit.explore.speed import Speed
from bookkit.results.stored_run import stored_run


def result(thing, **patch):
    return thing.result({**thing.start(), **patch})


class TestByHand:
    thing = AttentionByHand()

    def test_the_best_word_has_seven_tenths_and_all_as_in_the_chapter(self):
        now = result(self.thing)
        assert [round(s, 2) for s in now["scores"][0]] == [1, 3.15, 0.5, 0, 1, 0.5]
        assert [round(w, 2) for w in now["weights"][0]] == [0.08, 0.71, 0.05, 0.03, 0.08, 0.05]
        assert [round(x, 2) for x in now["output"][0]] == [0.64, 0.04, 0.13, 0.68]

    def test_at_a_temperature_of_a_tenth_cat_takes_nearly_all(self):
        assert result(self.thing, divide="tau", tau=0.1)["weights"][0][1] > 0.99

    def test_a_longer_key_gets_louder_for_every_query(self):
        k = self.thing.start()["k"]
        longer = [[2 * x for x in row] if j == 2 else row for j, row in enumerate(k)]
        before, after = (result(self.thing, queries=2, k=keys)["weights"] for keys in (k, longer))
        assert all(new[2] > old[2] for old, new in zip(before, after, strict=True))

    def test_along_the_wrong_axis_one_query_gives_ones(self):
        assert result(self.thing, over="queries")["weights"] == [[1.0] * 6]
        two = result(self.thing, over="queries", queries=2)["weights"]
        assert [sum(pair) for pair in zip(*two, strict=True)] == pytest.approx([1] * 6)
        assert abs(sum(two[0]) - 1) > 1

    def test_all_masked_gives_zeros_and_great_scores_no_nan(self):
        nothing = result(self.thing, mask=[False] * 6)
        assert nothing["weights"] == [[0.0] * 6] and nothing["output"] == [[0.0] * 4]
        k = [[2.0] * 4, *self.thing.start()["k"][1:]]
        great = result(self.thing, q=[[2.0] * 4] * 2, k=k, divide="tau", tau=0.05)
        assert max(great["scores"][0]) > 88 and great["weights"][0][0] == pytest.approx(1)

    def test_wrong_sizes_are_named(self):
        with pytest.raises(ValueError, match="6 words, but 5 keys and 6 values"):
            AttentionByHand(k=torch.zeros(5, 4))
        with pytest.raises(ValueError, match="4 features, but queries have width 3 and keys 4"):
            AttentionByHand(q=torch.zeros(2, 3))
        with pytest.raises(ValueError, match="1 or 2 queries with a name each; got 2 and 1"):
            AttentionByHand(asks=["animal?"])
        with pytest.raises(ValueError, match="between −2 and 2"):
            AttentionByHand(v=torch.full((6, 4), 3.0))


class TestMasks:
    thing = MaskPainter()

    def test_one_wrong_cell_reaches_row_2_and_a_layer_later_rows_3_to_8(self):
        told = result(self.thing)["told"]
        assert told[0] == [2] and told[1] == [2, 3, 4, 5, 6, 7, 8]
        assert [sum(line) for line in result(self.thing)["reach"]] == [5, 6, 10, 10]

    def test_a_window_of_3_reaches_3_5_7_9(self):
        now = result(self.thing, pattern="window", flips=[], row=11)
        assert [sum(line) for line in now["reach"]] == [3, 5, 7, 9]

    def test_two_hubs_connect_all_in_two_layers_and_a_causal_global_token_nothing(self):
        assert (
            result(self.thing, pattern="hubs", width=2, flips=[])["complete"]
            == [False] + [True] * 3
        )
        alone = result(self.thing, pattern="global", flips=[], row=7)["reach"]
        assert all(line == [j in (0, 7) for j in range(12)] for line in alone)

    def test_a_stride_never_leaves_its_class(self):
        reach = result(self.thing, pattern="strided", width=3, flips=[], row=7)["reach"]
        assert reach[3] == [j % 3 == 1 for j in range(12)]

    def test_a_flip_in_row_10_leaks_into_one_row_and_in_row_0_into_all_that_could_not_see_it(self):
        assert result(self.thing, flips=[[10, 11]])["told"][3] == [10]
        assert result(self.thing, flips=[[0, 11]])["told"][1] == list(range(11))

    def test_an_empty_row_is_said_to_get_zeros(self):
        empty = MaskPainter("all", flips=[(3, j) for j in range(12)], row=3)
        assert "Row 3 sees nothing and gets zeros." in empty.sentence()

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match=r"pattern is one of all, causal.*; got 'diagonal'"):
            MaskPainter("diagonal")
        with pytest.raises(ValueError, match=r"T is 4 to 12, .* got 13, 3, 2"):
            MaskPainter(T=13)
        with pytest.raises(ValueError, match="places from 0 to 11; got 12"):
            MaskPainter(row=12)


class TestColours:
    thing = ColourRefinement()

    def found(self, pair, tokens, look="edges"):
        now = result(self.thing, pair=pair, tokens=tokens, look=look)
        return now["apart"], now["gap"]

    @pytest.mark.parametrize("pair", ["rings", "molecules"])
    def test_colours_do_not_tell_these_graphs_apart_but_walks_home_do(self, pair):
        for tokens, look in itertools.product(("nothing", "degree"), ("edges", "all")):
            assert self.found(pair, tokens, look) == (-1, pytest.approx(0, abs=1e-12))
        apart, gap = self.found(pair, "walks")
        assert apart == 0 and gap > 0.05

    def test_attention_cannot_count_equal_neighbours_and_colours_can(self):
        assert self.found("path and star", "nothing") == (1, pytest.approx(0, abs=1e-12))
        assert self.found("path and star", "degree")[1] > 0.05

    def test_numbers_tell_apart_what_is_one_graph(self):
        one, other = (adjacency(edges) for _, edges in PAIRS["one, renumbered"])
        assert any(
            torch.equal(one[list(order)][:, list(order)], other)
            for order in itertools.permutations(range(6))
        )
        assert self.found("one, renumbered", "numbers")[0] == 1
        assert self.found("one, renumbered", "numbers")[1] > 0.05
        assert self.found("one, renumbered", "walks") == (-1, pytest.approx(0, abs=1e-12))

    def test_numbers_without_edges_say_nothing(self):
        for pair in PAIRS:
            assert self.found(pair, "numbers", "all")[1] == pytest.approx(0, abs=1e-12)

    def test_walks_are_the_module_s_and_each_pair_differs_where_it_should(self):
        for pair, sides in PAIRS.items():
            one, other = (adjacency(edges) for _, edges in sides)
            for A in (one, other):
                walks = graphs.walk_returns(A.bool(), 5)[:, 1:]
                torch.testing.assert_close(told(A, "walks")[:, 1:].float(), walks)
            spectra = [torch.linalg.eigvalsh(A) for A in (one, other)]
            assert torch.allclose(*spectra) == (pair == "one, renumbered")

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match=r"pair is one of rings, .*; got 'cubes'"):
            ColourRefinement("cubes")
        with pytest.raises(ValueError, match="rounds are 0 to 4, not 5"):
            ColourRefinement(rounds=5)


class TestNextToken:
    thing = NextToken()

    def test_the_same_top_p_keeps_85_tokens_after_the_and_4_after_king(self):
        assert result(self.thing)["kept"] == 85
        assert result(self.thing, place=6)["kept"] == 4

    def test_top_k_keeps_as_many_where_the_model_is_sure(self):
        assert [result(self.thing, cut="top_k", place=place)["kept"] for place in (5, 6)] == [
            40
        ] * 2

    def test_what_stays_sums_to_one_and_had_the_share_that_was_asked_for(self):
        for place in range(7):
            now = result(self.thing, place=place)
            assert sum(now["now"]) + now["others"] == pytest.approx(1)
            assert now["had"] >= 0.9

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match=r"place is 0 to 6, cut one of none, top_k.*; got 7"):
            NextToken(7)
        with pytest.raises(ValueError, match=r"tau is 0.1 to 3, .*; got 0.0, 40"):
            NextToken(tau=0.0)


class TestAlignment:
    thing = Alignment()
    stored = stored_run("alignments")

    def steps(self, follow):
        """Every word of this translator in every sentence: its sentence and the result."""
        for sentence, here in enumerate(self.thing.sentences):
            for word in range(len(here["next"][follow])):
                yield here, result(self.thing, sentence=sentence, follow=follow, word=word)

    def test_weights_are_shares_of_the_source(self):
        for here, now in self.steps(0):
            for row in filter(None, now["looks"]):
                assert len(row) == len(here["source"])
                assert sum(row) == pytest.approx(1, abs=0.005)

    def test_a_word_is_compared_with_the_same_word_of_the_others_or_with_none(self):
        for here, now in (step for follow in range(3) for step in self.steps(follow)):
            for words, place in zip(written(here), now["at"], strict=True):
                assert place < 0 or words[place] == now["word"]
        other = Alignment(first=0, word=4)
        mine = written(other.sentences[0])[0][4]
        steps = other.sentences[0]["next"][1]
        other.sentences[0]["next"][1] = [step.replace(f"{mine} ", "gai ", 1) for step in steps]
        now = result(other)
        assert now["word"] == mine and now["at"][:2] == [4, -1] and now["looks"][1] == []
        assert other.sentence().endswith("seed 1 never writes it.") and "<svg" in other.picture()

    def test_two_times_the_same_word_are_told_apart(self):
        other = Alignment(first=2)
        steps = [["a 9", "b 9", "a 9"], ["b 9", "a 9", "a 9"], ["a 9", "c 9"]]
        other.sentences[2]["next"] = steps
        found = [result(other, word=word)["at"] for word in range(3)]
        assert found == [[0, 1, 0], [1, 0, -1], [2, 2, -1]]
        assert result(other, word=2)["next"] == [[["a", 0.009]], [["a", 0.009]], []]

    def test_the_likeliest_word_is_written_and_its_rivals_follow(self):
        for follow in range(3):
            for _, now in self.steps(follow):
                shares = [share for _, share in now["next"][follow]]
                assert now["next"][follow][0][0] == now["word"]
                assert shares == sorted(shares, reverse=True) and sum(shares) < 1.003

    def test_the_two_seeds_write_a_word_while_they_look_at_different_places(self):
        """It happens, and in fewer than half of the cases."""
        pairs = [now["looks"] for _, now in self.steps(0) if all(now["looks"])]
        apart = [one.index(max(one)) != two.index(max(two)) for one, two in pairs]
        assert 0 < sum(apart) < len(apart) / 2

    def test_all_runs_have_the_same_sentences_and_settings_but_model_and_seed(self):
        assert set(self.stored["runs"]) == set(RUNS)
        for name, run in self.stored["runs"].items():
            assert set(run["alignments"]) == set(self.stored["sentences"])
            assert run["provenance"]["command"] == "python results/alignments.py"
            assert f"{run['config']['model']}.seed{run['config']['seed']}" == name
            settings = {**self.stored["runs"][RUNS[0]]["config"], **run["config"]}
            assert settings == run["config"] and run["steps"] == 2080

    def test_the_chapter_says_what_is_stored(self, root):
        notebook = nbformat.read(root / "book/02-bahdanau-attention.ipynb", nbformat.NO_CONVERT)
        text = next(cell.source for cell in notebook.cells if cell.id == "maps")
        one, two, fixed = (self.stored["runs"][name]["bleu"] for name in RUNS)
        assert f"the two reach {one:.1f} and {two:.1f}, the third {fixed:.1f}" in text
        assert fixed < min(one, two)
        for number in (self.stored["pairs"], self.stored["tested"], 2080):
            assert f"{number:,}" in text
        text = next(cell.source for cell in notebook.cells if cell.id == "alignment-text")
        best, next_best, _ = result(self.thing, sentence=0, follow=0, word=4)["next"][0]
        for word, share in (best, next_best):
            assert f"*{word}* gets {per_cent(share)}" in text
        for place, (word, mistake) in ((3, ("knife", "passeport")), (7, ("flower", "boîte"))):
            here = self.thing.sentences[place]
            assert word in here["source"] and mistake in written(here)[2] and mistake in text
        now, source = result(self.thing), self.thing.sentences[5]["source"]
        most = [source[row.index(max(row))] for row in now["looks"]]
        assert (now["word"], *most) == ("ont", "two", "have")
        assert "*ont*, seed 0 attends most to *two*, and seed 1 to *have*" in text

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match=r"a sentence from 0 to 7, .* got 8, 0, 3"):
            Alignment(first=8)
        with pytest.raises(ValueError, match="got 5, 3, 3"):
            Alignment(follow=3)


class TestHeads:
    thing = HeadSwitchboard()

    def right(self, on, **more):
        now = result(self.thing, on=[digit == "1" for digit in on], **more)
        return [round(now[what], 2) for what in ("left", "friend", "both")]

    def test_one_of_two_heads_that_look_at_the_friend_may_go_but_not_both(self):
        assert min(self.right("0111")) > 0.95 < min(self.right("1110"))
        assert self.right("0110")[1] < 0.15

    def test_two_heads_are_enough_if_they_are_the_right_two_and_one_is_not(self):
        for seed, two in enumerate(("1100", "1100", "1001")):
            assert self.right(two, seed=seed)[2] > 0.98
            ones = [f"{1 << n:04b}" for n in range(4)]
            assert max(self.right(one, seed=seed)[2] for one in ones) < 0.3
        assert self.right("1001")[2] < 0.2  # two that answer the same question

    def test_a_head_that_looks_left_most_of_the_time_cannot_answer_alone_what_another_can(self):
        assert self.right("0100")[0] == 1 > 0.95 > self.right("0010")[0]

    def test_with_no_head_everybody_says_the_same(self):
        said = result(self.thing, on=[False] * 4)["said"]
        assert len({tuple(two) for two in said}) == 1
        assert max(self.right("0000")) < 0.15

    def test_what_the_heads_write_adds_up_to_what_the_model_says(self):
        model, x = trained(0), self.thing.x.double()
        parts = [model(x).unflatten(-1, (2, 10))]
        for head in range(4):
            with without_heads(model[1], [other for other in range(4) if other != head]):
                parts.append(model(x).unflatten(-1, (2, 10)))
        with without_heads(model[1], range(4)):
            nothing = model(x).unflatten(-1, (2, 10))
        torch.testing.assert_close(sum(parts[1:]) - 3 * nothing, parts[0])

    def test_wrong_switches_are_named(self):
        with pytest.raises(ValueError, match=r"4 switches, .* got 3, 0, 1"):
            HeadSwitchboard([True] * 3)
        with pytest.raises(ValueError, match=r"a seat from 0 to 11 fit; got 4, 0, 12"):
            HeadSwitchboard(seat=12)
        with pytest.raises(ValueError, match="of the seeds 0, 1, 2; got 7"):
            trained(7)


class TestBlock:
    thing = BlockWalk()

    def test_it_walks_as_the_module_does(self):
        for norm, wrap in (("before", PreNorm), ("after", PostNorm)):
            attention, network = parts()
            block = Block(*(wrap(part, LayerNorm(4).double()) for part in (attention, network)))
            x = self.thing.x[None].double()
            found = torch.tensor(result(self.thing, norm=norm)["y"], dtype=torch.float64)
            torch.testing.assert_close(found, block(x)[0].detach())

    def test_without_the_stream_four_blocks_leave_one_vector(self):
        now = result(self.thing)
        assert [round(s, 2) for s in now["lost"][:4]] == [0.68, 0.57, 0.42, 0.07]
        assert now["lost"][4] < 1e-4 < 0.39 < now["kept"][4]
        assert [round(now["kept"][n], 2) for n in (3, 8)] == [0.48, 0.23]

    def test_after_the_sum_the_norm_gives_every_vector_the_length_2(self):
        now = result(self.thing, norm="after")
        for row in (*now["z"], *now["y"]):
            assert sum(x * x for x in row) ** 0.5 == pytest.approx(2, abs=1e-3)

    def test_the_network_does_the_same_whoever_stands_beside(self):
        attention, network = parts()
        x = self.thing.x.double()
        torch.testing.assert_close(network(x)[1], network(x[1:2])[0])
        assert not torch.allclose(attention(x[None])[0, 1], attention(x[None, 1:2])[0, 0])

    def test_a_constant_vector_is_normalised_to_zeros(self):
        now = result(self.thing, x=[[1.0] * 4, *self.thing.start()["x"][1:]])
        assert now["seen"][0] == [0.0] * 4

    def test_the_numbers_are_those_that_the_chapter_prints(self):
        now = result(self.thing, norm="after")
        assert [round(x, 2) for x in now["first"][1]] == [0.13, 0.64, 0.40, 1.55]
        assert [round(x, 2) for x in now["y"][1]] == [-1.16, 0.44, -0.69, 1.41]
        assert [sum(x > 0 for x in row) for row in now["wide"]] == [4, 8, 7]

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match=r"x is \(3, 4\).*; got \(2, 4\)"):
            BlockWalk(torch.zeros(2, 4))
        with pytest.raises(ValueError, match="norm is one of before, after, none; got 'pre'"):
            BlockWalk(norm="pre")
        with pytest.raises(ValueError, match="token is 1 to 3, depth 1 to 12; got 0 and 8"):
            BlockWalk(token=0)


class TestMemory:
    thing = FourMemories()

    def told(self, **patch):
        said = result(self.thing, **patch)["says"]
        return [[WORDS[n] for n in lane] for lane in said]

    def test_cache_and_sum_show_old_and_new_together_and_the_delta_rule_the_new_one(self):
        cache, added, *corrected = self.told()
        assert {*cache} == {*added} == {"cat", "fish"} and corrected == [["fish"]] * 2

    def test_overwritten_once_more_the_delta_rule_answers_with_that_picture_alone(self):
        now = result(self.thing, again="a")
        assert now["match"][2:] == pytest.approx([1, 1]) and max(now["match"][:2]) < 0.85
        assert [len(lane) for lane in now["says"]][2:] == [1, 1]

    def test_at_right_angles_all_sixteen_names_fit_and_the_sum_fails_on_those_that_returned(self):
        settings = {"step": 20, "keys": "right angles", "keep": 1}
        assert result(self.thing, **settings)["right"][1:] == [13, 16, 16]
        read = "".join(name for name, _ in STORY)
        for name in {*read}:
            alone = [len(lane) == 1 for lane in self.told(ask=name, **settings)]
            assert alone[1] == (read.count(name) == 1) and all(alone[2:])

    @pytest.mark.parametrize("seed", ["0", "1"])
    def test_the_newest_pairs_as_they_are_answer_more_names_in_no_more_bytes(self, seed):
        now = result(self.thing, step=20, keys=seed, cache="equal")
        assert max(now["bytes"]) == now["bytes"][1] == 4096 and now["bytes"][0] == 3840
        assert now["right"][0] > max(now["right"][1:])

    @pytest.mark.parametrize("seed", ["0", "1"])
    def test_a_memory_that_fades_before_every_pair_answers_fewer_names(self, seed):
        for keep in (0.5, 0.7, 0.8, 0.9):
            right = result(self.thing, step=20, keys=seed, keep=keep)["right"]
            assert right[3] < right[2]
        same = result(self.thing, step=20, keys=seed, keep=1)
        assert same["S"][1] == same["S"][2]

    def test_emptied_where_the_topic_changes_it_answers_what_follows_better(self):
        """48 pairs that nobody asks for again, then eight; 400 drawings of keys and values."""
        numbers, size = torch.Generator().manual_seed(0), (400, 56)
        k = unit(torch.randn(*size, 16, generator=numbers).double())
        what = torch.randint(len(WORDS), size, generator=numbers)
        gates = torch.zeros(3, *size).double()
        gates[1, :, 48] = -20
        gates[2] = math.log(0.9)
        v, beta = pictures()[what], torch.ones(size).double()
        right = []
        for gate in gates:
            _, S = delta_loop(k, k, v, beta, gate)
            found = match((k[:, -8:] @ S)[:, :, None], pictures()).argmax(-1)
            right.append((found == what[:, -8:]).double().mean(-1))
        full, emptied, fades = torch.stack(right)
        for better, worse in ((emptied, full), (full, fades)):
            gain = better - worse
            assert gain.mean() > 3 * gain.std() / math.sqrt(400)

    def test_what_is_kept_fades_with_age(self):
        now = result(self.thing, step=5, keys="right angles", keep=0.5)
        old, new = torch.tensor(now["S"][1:], dtype=torch.float64)
        k = keys("right angles")
        assert (k[2] @ new).tolist() == pytest.approx((k[2] @ old / 4).tolist())
        assert (k[4] @ new).tolist() == pytest.approx((k[4] @ old).tolist())

    def test_from_13_pairs_on_the_cache_is_larger_than_a_matrix(self):
        kept = [result(self.thing, step=n)["bytes"] for n in (12, 13)]
        assert kept[0][0] < kept[0][1] == kept[1][1] < kept[1][0]

    def test_a_name_that_has_not_come_is_answered_all_the_same(self):
        assert all(self.told(ask="p"))
        assert self.told(ask="p", keys="right angles", step=1)[1:] == [[]] * 3

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match="names are a to p; got 21, 'a'"):
            FourMemories(step=21)
        with pytest.raises(ValueError, match=r"right angles; got 0\.2"):
            FourMemories(keep=0.2)


class TestSpeed:
    thing = Speed()

    @staticmethod
    def of(**patch):
        return {**Speed().start(), **patch}

    def test_a_step_is_bounded_as_in_the_chapters_equations(self):
        model = speed.MODELS["8 B"]
        for b, t, bits in ((0, 0, 16), (5, 3, 16), (3, 4, 4)):
            now = result(self.thing, b=b, t=t, bits=bits)
            weights = model.parameters * speed.BITS[bits] / 8
            caches = 2**b * 1000 * 2**t * speed.position(model)
            assert now["reading"] == pytest.approx((weights + caches) / 3.35e12)
        assert 2 * model.parameters / speed.position(model) == pytest.approx(122_000, rel=0.01)
        sizes = Model(32, 4096, 32, 8, 128, 14_336, 3, 128_256, 8192, 4096)
        assert count(sizes, 1) + 128_256 * 4096 == model.parameters
        moved, work = speed.step(model, 2, 8000, 16)
        assert moved - 2 * model.parameters == cache_bytes(sizes, 8000, 2)
        assert work == pytest.approx(2 * (2 * model.parameters + 4 * 32 * 4096 * 8000))

    def test_one_text_waits_for_memory_and_many_short_ones_on_a_core_for_arithmetic(self):
        alone, many = (result(self.thing, machine="one core", t=0, bits=4, b=b) for b in (0, 5))
        assert alone["reading"] > 5 * alone["computing"] and many["computing"] > many["reading"]
        assert 3 < alone["rate"] < 4  # tokens that one can read along

    def test_longer_texts_keep_a_larger_batch_from_helping(self):
        short, long = (
            [2**b * result(self.thing, bits=4, t=t, b=b)["rate"] for b in (0, 3)] for t in (0, 6)
        )
        assert short[1] / short[0] > 6 and long[1] / long[0] < 2

    def test_the_core_is_the_one_that_the_chapter_measured(self):
        runs, core = stored_run("fast")["runs"], speed.machines()["one core"]
        four = min(runs["product/1"]["4 bits"]["all"])
        assert core["bandwidth"] == pytest.approx(4096**2 * 4.5 / 8 / four, rel=0.01)
        half = min(runs["product/256"]["16 bits"]["all"])
        assert core["speed"] == pytest.approx(2 * 4096**2 * 256 / half, rel=0.01)

    def test_slots_are_given_as_the_engine_gives_them(self):
        class Second(speed.Pace):
            def __call__(self, rows):
                return 1.0

        def timed(engine, times, clock):
            asked = [Request([5], n) for n in (7, 2, 3, 5, 2, 4)]
            return [each.tokens for each in under_load(engine, asked, times, clock=clock)]

        book = load("book-lm")
        for most, times in ((1, [0.0, 1.0, 2.0, 2.5, 3.0, 30.0]), (3, [0.0] * 6)):
            slots = speed.Slots(most, Second(self.of()))
            ticks = itertools.count().__next__
            engine = Engine(book.model, Pages(64), most)
            real = timed(engine, times, lambda tick=ticks: float(tick()))
            assert timed(slots, times, lambda slots=slots: slots.now) == real

    def test_a_queue_grows_once_more_is_asked_for_than_can_be_written(self):
        calm, busy = (result(self.thing, load=load, at=0.2) for load in (6, 9))
        assert calm["waiting"] == 0 and calm["first"] < 0.1
        assert busy["waiting"] > 10 and busy["first"] > 0.5 and busy["written"] == 0
        assert result(self.thing, load=9, bits=4, t=0, at=0.2)["first"] < 0.1

    def test_each_draft_writes_the_same_text_and_keeps_only_guesses_that_are_in_it(self):
        kept = speed.numbers()
        assert [len(said.split("|")) for said in kept["texts"]] == [speed.N] * len(speed.STARTS)
        for draft in ("counts", "coarse"):
            for n in range(len(speed.STARTS)):
                assert sum(speed.brings(n, draft)) == speed.N
            own, at = kept["texts"][0].split("|"), 0
            for brings, wrong in zip(speed.brings(0, draft), kept["wrong"][draft], strict=True):
                guesses = wrong.split("|") if wrong else []
                assert brings - 1 + len(guesses) <= speed.K
                at += brings
                assert not guesses or guesses[0] != own[at - 1]

    @pytest.mark.weekly
    def test_what_is_stored_is_what_the_model_and_its_draft_in_three_bits_write(self):
        book = load("book-lm")
        x, begin = speed.written(book, 0)
        assert speed.told(book, x[begin:].tolist()) == speed.numbers()["texts"][0]
        found = list(speed.checks(x, begin, speed.coarse()))
        assert [kept + 1 for kept, _ in found] == speed.brings(0, "coarse")
        wrong = [speed.told(book, rest) for _, rest in found]
        assert wrong == speed.numbers()["wrong"]["coarse"]

    def test_a_sure_guess_is_kept_when_the_model_would_draw_it_and_its_distribution_stays(self):
        dice = torch.Generator().manual_seed(0)
        for p in torch.rand(8, 5, generator=dice, dtype=torch.float64).softmax(-1):
            for guess in torch.eye(5, dtype=torch.float64):
                kept = overlap(p, guess)
                assert kept == (p * guess).sum()
                assert torch.allclose(kept * guess + (1 - kept) * residual(p, guess), p)

    def test_the_draft_that_is_kept_more_often_is_slower(self):
        counts, coarse = (result(self.thing, draft=draft) for draft in ("counts", "coarse"))
        assert len(speed.brings(0, "coarse")) < len(speed.brings(0, "counts"))
        assert counts["gain"] > 1.3 and coarse["gain"] < 1


class TestLowRank:
    thing = LowRankChange()

    def test_a_few_ranks_keep_more_of_the_change_than_of_the_matrix(self):
        for rank in (1, 4, 16, 48):
            change, model = result(self.thing, rank=rank)["kept"]
            assert change > model

    def test_each_rank_keeps_more_and_costs_as_much_as_the_last_one(self):
        found = [result(self.thing, rank=rank) for rank in range(1, 49)]
        for what in (0, 1):
            kept = [now["kept"][what] for now in found]
            assert kept == sorted(kept) and kept[-1] <= 1
        assert [now["numbers"] for now in found[:3]] == [896, 1792, 2688]

    def test_the_corner_comes_nearer_to_what_it_is(self):
        whole = torch.tensor(self.thing.run["change"]["corner"], dtype=torch.float64)
        gaps = [
            (torch.tensor(result(self.thing, rank=rank)["corner"]) - whole).square().mean()
            for rank in (1, 48)
        ]
        assert gaps[1] < gaps[0] / 2

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match="got 49 and 'change'"):
            LowRankChange(rank=49)


class TestPatchRows:
    thing = PatchRows()

    def test_cut_as_on_paper_and_a_reshape_gives_lines(self):
        picture = self.thing.moved(self.thing.start()).tolist()
        rows = result(self.thing)["rows"]
        assert len(rows) == 16 and rows[1] == [*picture[0][2:4], *picture[1][2:4]]
        assert result(self.thing, way="reshape")["rows"][0] == picture[0][:4]
        assert result(self.thing, size="8")["rows"] == [[x for row in picture for x in row]]

    def test_a_pixel_costs_the_transformer_more_than_the_convolutional_network(self):
        moves = ((1, 0), (-1, 0), (0, 1), (0, -1))
        both = [result(self.thing, right=right, down=down)["share"] for right, down in moves]
        lead = [cnn - vit for cnn, vit in both]
        assert min(lead) > 0.05 and sum(lead) / 4 > 0.1, lead
        assert min(result(self.thing, right=0)["share"]) > 0.9

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match="got digit 10, right 1"):
            PatchRows(digit=10)


class TestRouterLoads:
    thing = RouterLoads()
    stored = stored_run("router")

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_without_a_bias_two_of_eight_experts_get_most_and_with_it_all_get_work(self, seed):
        """On the line that is shown, and on 8,192 characters."""
        alone = result(self.thing, seed=seed)["load"]
        assert sum(sorted(alone)[-2:]) > 0.7 * 64
        many, balanced = (self.stored[bias][seed]["path"][-1]["share"] for bias in ("off", "on"))
        assert sum(sorted(many)[-2:]) > 0.7 * 2 and min(many) < 0.1 * 0.25
        assert max(balanced) < 1.3 * 0.25 and min(balanced) > 0.8 * 0.25
        assert max(self.stored["off"][seed]["path"][1]["share"]) > 2.5 * 0.25  # after ten steps

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_with_the_bias_a_single_line_is_not_even(self, seed):
        assert max(result(self.thing, bias="on", seed=seed)["load"]) >= 1.5 * 8

    def test_moves_of_the_bias_spread_one_line_and_no_share_counts_the_bias(self):
        chances = self.thing.numbers(self.thing.start()).sigmoid()
        before, after = (result(self.thing, moves=moves) for moves in (0, 40))
        assert max(before["load"]) == 32 and max(after["load"]) < 16 and min(after["load"]) > 4
        for n, (chosen, share) in enumerate(zip(after["chosen"], after["share"], strict=True)):
            of = chances[n, chosen]
            assert share == pytest.approx((of / of.sum()).tolist())

    def test_the_run_with_a_bias_is_the_one_of_the_chapter(self):
        theirs = stored_run("parts")["experts"]["bias"]["seeds"]
        for ours, other in zip(self.stored["on"], theirs, strict=False):
            assert ours["loss"] == pytest.approx(other["report"], abs=0.005)

    def test_with_all_experts_active_nobody_chooses(self):
        now = result(self.thing, active=8, room="1")
        assert now["load"] == [32] * 8 and now["dropped"] == 0

    @pytest.mark.parametrize("room", ["1", "1.5"])
    def test_who_finds_no_place_is_dropped(self, room):
        now = result(self.thing, room=room)
        assert max(now["kept"]) == now["room"] == 8 * float(room)
        assert sum(now["load"]) - sum(now["kept"]) == now["dropped"] > 20

    def test_as_many_visits_are_dropped_as_the_chapter_says(self):
        of = lambda bias, seed: result(self.thing, bias=bias, seed=seed, room="1")  # noqa: E731
        without, balanced = ([of(b, s) for s in range(SEEDS)] for b in ("off", "on"))
        assert [now["dropped"] for now in without] == [34, 39, 36]
        assert [now["dropped"] for now in balanced] == [11, 13, 10]
        assert [now["alone"] for now in without + balanced] == [10, 10, 9, 0, 0, 1]

    def test_first_choices_come_before_second_ones_and_earlier_tokens_first(self):
        chosen = torch.tensor([[1, 0], [0, 1], [0, 2], [0, 1]])
        stays = [[True, False], [True, True], [True, True], [False, False]]
        assert within(chosen, 2).tolist() == stays

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match="got step 4, seed 0, 2 active"):
            RouterLoads(step=4)
        with pytest.raises(ValueError, match=r"the room no limit, 1, .* got 'off' and '3'"):
            RouterLoads(room="3")


class TestClinic:
    thing = Clinic()

    def test_the_first_patient_has_better_losses_than_the_healthy_one_and_is_worse_in_use(self):
        healthy = PATIENTS.index("healthy")
        rows = list(INSTRUMENTS)
        for seed in (0, 1):
            sick, well = (
                result(self.thing, patient=patient, seed=seed)["lines"] for patient in (0, healthy)
            )
            for reading in ("loss", "held out"):
                assert sick[rows.index(reading)][-1] < well[rows.index(reading)][-1] - 0.2
            assert sick[rows.index("in use")][-1] > well[rows.index("in use")][-1] + 0.2

    def test_every_patient_has_a_fault_of_its_own_and_one_has_none(self):
        assert len(set(PATIENTS)) == 9
        verdicts = [
            result(self.thing, patient=n, guess=name)["verdict"]
            for n, name in itertools.product(range(9), PATIENTS)
        ]
        assert verdicts.count("right") == 9 and verdicts.count("wrong") == 72
        assert result(self.thing, guess="tell")["verdict"] == "told"
        assert set(self.thing.fixed()["told"]) == set(PATIENTS) - {"healthy"}

    def test_a_panel_ends_at_its_lowest_and_highest_value(self):
        for reading, (_, low, high, _) in INSTRUMENTS.items():
            assert height(reading, low) == 0 and height(reading, 2 * high) == 1
        assert height("stream", math.sqrt(0.1 * 200)) == pytest.approx(0.5)

    def test_numbers_are_said_with_two_digits(self):
        found = [short(x) for x in (0.0, 4.693, 0.1312, 86.4, 116.0, 0.000203, 10.0)]
        assert found == ["0", "4.7", "0.13", "86", "116", "0.0002", "10"]

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match=r"patients are 0 to 8.*got 9 and 'none'"):
            Clinic(patient=9)


class TestMemoryController:
    thing = MemoryController()

    def played(self, name, slots, moves):
        return result(self.thing, level=name, slots=slots, moves="".join(moves))

    def ends(self):
        """Level, slots, a machine's moves, and what they come to."""
        for name, slots in itertools.product(ROWS, SLOTS):
            for machine, how in ORDERS[name].items():
                yield name, slots, machine, self.played(name, slots, order(name, slots, *how))

    def test_every_order_ends_with_the_answers_of_attend_and_of_flash_attend(self):
        q, k, v = (torch.tensor(NUMBERS[x], dtype=torch.float64)[:, None] for x in "qkv")
        for name, _, _, now in self.ends():
            kept = torch.tensor(now["kept"], dtype=torch.float64)
            q_ = q[: len(kept)]
            mask = causal_mask(len(kept)) if name == "causal" else None
            pattern = sparse.causal if name == "causal" else None
            assert_close(kept[:, 2:], attend(q_, k, v, mask)[0])
            assert_close(kept[:, 2:], flash.flash_attend(q_, k, v, pattern=pattern, block=B))
            scores = (q_ @ k.T).masked_fill(
                ~(torch.ones(1) > 0 if mask is None else mask), -math.inf
            )
            assert_close(kept[:, 0], scores.amax(-1))
            assert_close(kept[:, 0] + kept[:, 1].log(), scores.logsumexp(-1))

    def test_the_pairs_are_the_tiles_that_flash_attend_computes(self, monkeypatch):
        sizes = []
        scores = lambda q, k: sizes.append(1) or scaled_dot_scores(q, k)  # noqa: E731
        monkeypatch.setattr(flash, "scaled_dot_scores", scores)
        x = torch.randn(N * B, 1)
        for name, pattern in (("all pairs", None), ("causal", sparse.causal)):
            sizes.clear()
            flash.flash_attend(x, x, x, pattern=pattern, block=B)
            now = self.played(name, 12, order(name, 12, True))
            assert len(now["done"]) == len(sizes) == len(Chip(name, 12).pairs)

    def test_bytes_are_those_of_the_chapter_and_of_the_two_papers_orders(self):
        T = N * LONG
        ends = 2 * 4 * T * D  # queries, keys, values, answers: once, 16 bits
        for name, slots, machine, now in self.ends():
            stay = min(N, (slots - 3) // 2)
            again = math.ceil(N / stay)
            if name == "all pairs" and machine == "FlashAttention 2":  # K and V for each group of Q
                assert now["chip"]["moved"] == ends + (again - 1) * 2 * N * SLOT
            if name == "all pairs" and machine == "FlashAttention 1":  # Q, and Y in and out
                assert now["chip"]["moved"] == ends + (again - 1) * 3 * N * SLOT
            if slots == 12 and name != ONE:
                assert now["chip"]["moved"] == ends
            assert now["chip"]["slots"] == [""] * slots and now["saved"] == []

    def test_the_dot_is_on_the_roof_of_figure_10_3(self, monkeypatch):
        monkeypatch.setattr(roofline, "T", N * LONG)
        best, clumsy = (
            self.played("all pairs", slots, order("all pairs", slots, by_rows))
            for slots, by_rows in ((12, True), (5, False))
        )
        assert best["intensity"] == roofline.in_tiles() == N * LONG / 2
        assert best["speed"] == clumsy["speed"] == roofline.PEAK / 1e12
        assert roofline.written_out() == pytest.approx(60, abs=0.5)
        together, alone = (self.played(ONE, 12, order(ONE, 12, True, most)) for most in (2, 1))
        assert together["intensity"] == pytest.approx(roofline.by_head(2), rel=0.01)
        assert alone["intensity"] == pytest.approx(roofline.by_head(1), rel=0.01)

    def test_scores_fill_the_chip_and_v_0_turns_four_slots_of_them_into_one(self):
        moves = self.thing.start()["moves"]
        now = result(self.thing)
        assert now["chip"]["slots"].count("s0") == 4 and now["done"] == []
        after = result(self.thing, moves=moves + "v0")
        assert after["done"] == [0]
        assert sorted(filter(None, after["chip"]["slots"])) == ["k0", "q0", "v0", "y0"]
        full = result(self.thing, moves=moves + "k1s1k2")
        assert "" not in full["chip"]["slots"] and full["done"] == []
        assert result(self.thing, moves=moves + "k1s1k2v0") == full  # no slot
        assert result(self.thing, moves=moves + "k1s1k2K2v0")["done"] == [0]

    def test_scores_can_be_kept_in_slow_memory_at_four_tiles_out_and_four_in(self):
        moves = "q0k0s0S0v0"
        out, back = (result(self.thing, moves=moves[:n])["chip"]["moved"] for n in (6, 8))
        assert (out, back) == (2 * SLOT, 6 * SLOT)
        done = result(self.thing, slots=7, moves="q0k0s0S0Q0K0s0v0")
        assert done["done"] == [0] and done["chip"]["moved"] == 11 * SLOT

    def test_on_five_slots_the_way_back_and_forth_beats_both_machines(self):
        moves = []
        for i in range(N):
            keys = range(N)[:: (-1) ** i]
            moves.append(f"q{i}")
            for j in keys:
                stay = [] if j == keys[-1] else [f"K{j}", f"V{j}"]
                moves += [f"k{j}", f"v{j}", *stay]
        now = self.played("all pairs", 5, moves)
        assert len(now["done"]) == 16 and now["chip"]["moved"] == 34 * SLOT
        assert all(machine["chip"]["moved"] >= 40 * SLOT for machine in now["orders"])

    def test_five_slots_share_keys_and_values_where_small_queries_and_answers_travel(self):
        moves = []
        for j in range(N):
            moves += [f"k{j}", f"v{j}"]
            for i in range(ROWS[ONE]):
                moves += [*[f"y{i}"] * (j > 0), f"q{i}", f"Y{i}", f"Q{i}"]
            moves += [f"K{j}", f"V{j}"]
        shared = self.played(ONE, 5, moves)
        alone = shared["orders"][0]["chip"]["moved"]
        assert [machine["chip"]["moved"] for machine in shared["orders"]] == [alone, alone]
        assert len(shared["done"]) == 8 and shared["chip"]["moved"] < 0.51 * alone
        assert shared["intensity"] < 2

    def test_an_unfinished_answer_goes_out_and_must_come_back(self):
        begun = self.played("all pairs", 5, ["q0", "k0", "v0", "Y0", "K0", "V0", "k1", "v1"])
        assert begun["saved"] == ["y0"] and begun["done"] == [0]
        again = self.played("all pairs", 5, ["q0", "k0", "v0", "Y0", "K0", "V0", "k1", "y0", "v1"])
        assert again["saved"] == [] and again["done"] == [0, 1]


class TestSampling:
    thing = Sampling()

    def test_hot_then_cut_keeps_four_and_cut_then_hot_three(self):
        now = result(self.thing)
        assert (now["kept"], now["swapped"]) == (4, 3)

    def test_where_it_is_sure_top_k_lets_nonsense_in_and_top_p_does_not(self):
        sure = {"weights": [950, 20, 12, 9, 6, 3]}
        assert result(self.thing, order=["top_k"], k=3, **sure)["kept"] == 3
        assert result(self.thing, order=["top_p"], p=0.9, **sure)["kept"] == 1

    def test_the_least_temperature_is_nearly_greedy(self):
        now = result(self.thing, order=["temperature"], tau=0.1)
        assert now["probabilities"][0] > 0.98

    def test_all_that_tie_at_k_stay_and_p_of_1_keeps_all(self):
        ties = {"weights": [300, 300, 300, 50, 50, 50]}
        assert result(self.thing, order=["top_k"], k=2, **ties)["kept"] == 3
        assert result(self.thing, order=["top_p"], p=1)["kept"] == 6

    def test_ten_thousand_draws_are_distributed_as_the_bars_say(self):
        shares = torch.tensor(result(self.thing)["probabilities"])
        for seed in range(3):
            tally = torch.tensor(drawn(shares, 10_000, seed)).double()
            expected = 10_000 * shares[:4]
            chi2 = ((tally[:4] - expected).square() / expected).sum()
            assert chi2 < 16.3 and tally[4:].sum() == 0  # 3 degrees of freedom: p > 0.001

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match="6 words with a weight each; got 6 and 2"):
            Sampling(weights=[1, 2])
        with pytest.raises(ValueError, match="temperature, top_k, top_p once at most; got"):
            Sampling(order=["beam"])
        with pytest.raises(ValueError, match=r"tau is 0.1 to 5, .* got 9.0, 3, 0.7"):
            Sampling(tau=9.0)


class TestClocks:
    thing = Clocks()

    @pytest.mark.parametrize("head", clocks.HEADS)
    def test_the_arrows_reach_as_high_as_the_score_of_the_model_itself(self, head):
        book = load("book-lm")
        layer, number = clocks.HEADS[head]
        part = attentions(book.model)[layer]
        given = []
        hook = part.project.register_forward_hook(lambda *seen: given.append(seen[2]))
        tokens = book.encode(clocks.LINE)
        with torch.no_grad():
            book.model(tokens)
            hook.remove()
            q, k = part.rotate_both(*given[0][:2], None, False, None)
            scores = part.score(q, k.repeat_interleave(2, 1))[0, number, -1]
        assert [book.decode(token) for token in tokens[0].split(1)] == self.thing.fixed()["words"]
        for key, score in enumerate(scores.tolist()):
            now = result(self.thing, head=head, key=key, distance=len(scores) - 1 - key)
            assert now["score"] == pytest.approx(score, abs=1e-3)
            assert sum(now["parts"]) == pytest.approx(now["score"])
        assert now["weights"] == pytest.approx(scores.softmax(-1).tolist(), abs=1e-3)

    def test_the_curve_passes_through_the_arrows_tip_at_each_distance(self):
        for distance in (0, 1, 100, 511):
            now = result(self.thing, distance=distance)
            assert now["curve"][distance] == pytest.approx(now["score"])

    def test_the_token_before_is_found_by_fast_and_middle_pairs_a_repetition_by_slow_ones(self):
        shares = self.thing.fixed()["shares"]
        fast, middle, both, slow, *_, whole = shares["previous"]["trained"]["near"]
        assert max(fast, middle) < 0.4 * whole and both > 0.9 * whole and slow < 0.05
        fast, middle, both, slow, *_, whole = shares["repeat"]["trained"]["near"]
        assert slow > 0.9 * whole and both < 0.1

    def test_beyond_the_trained_length_far_looks_near_until_the_frequencies_are_lower(self):
        far = {name: kind["far"] for name, kind in self.thing.fixed()["shares"]["previous"].items()}
        (found, beyond), (half, _), (base, _) = far["trained"], far["half"], far["base"]
        assert beyond > 0.25 > 0.1 > max(far["half"][1], far["base"][1])
        assert half < found < base
        peaks = {name: result(self.thing, speeds=name)["curve"] for name in far}
        tops = {name: max(range(512), key=curve.__getitem__) for name, curve in peaks.items()}
        assert tops == {"trained": 1, "half": 2, "base": 1}
        assert max(peaks["trained"][256:]) > max(peaks["half"][256:]) + 2

    def test_what_is_stored_is_what_the_model_does(self):
        book = load("book-lm")
        q, k = clocks.caught(book, "previous", book.encode(clocks.LINE))
        kept = clocks.unpacked(clocks.numbers()["heads"]["previous"])
        assert torch.allclose(kept, torch.cat((q[0, -1:], k[0])).double(), atol=2e-4)
        tokens, back = clocks.texts("repeat", False, book)
        q, k = clocks.caught(book, "repeat", tokens)
        for bits, share in enumerate(clocks.numbers()["shares"]["repeat"]["trained"]["near"], 1):
            w = clocks.weights(q, k, frequencies(64), clocks.kept(bits))
            found = w.diagonal(-back, dim1=1, dim2=2)[:, 1:].mean().item()
            assert found == pytest.approx(share, abs=2e-3)


class TestCost:
    thing = Cost()

    @pytest.mark.parametrize(
        ("name", "recipe"),
        [
            ("GPT-2", gpt2),
            ("Llama 2 7B", llama),
            (
                "Llama 2 70B",
                lambda: llama(width=8192, depth=80, heads=64, kv_heads=8, hidden=28672),
            ),
            ("Mistral 7B", lambda: llama(kv_heads=8, hidden=14336)),
            ("Mixtral 8x7B", mixtral),
        ],
    )
    def test_parameters_are_those_of_the_recipes(self, name, recipe):
        with torch.device("meta"):
            assert result(self.thing, model=name)["parameters"] == parameters(recipe())

    def test_operations_are_those_that_torch_counts_and_bytes_those_that_a_cache_holds(self):
        small = Model(3, 32, 4, 2, 8, 48, 3, 50, 64, 32)
        model = llama(V=50, width=32, depth=3, heads=4, kv_heads=2, hidden=48).eval()
        caches = model.caches()
        with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
            model(torch.randint(50, (5, 15)), caches)
            with watch(model), FlopCounterMode(display=False) as counter:
                model(torch.randint(50, (5, 1)), caches)
            patch.setitem(MODELS, "small", small)
            now = result(self.thing, model="small", t=4, b=0)
            assert counter.get_total_flops() == 5 * (now["matrices"] + now["scores"])
            held = sum(c.keys[:, :, :16].nbytes + c.values[:, :, :16].nbytes for c in caches)
            assert held == 5 * 2 * now["cache"]  # float32, five readers

    def test_70b_writes_one_token_with_139_gb_and_waits_for_memory(self):
        now = result(self.thing)
        assert (round(now["weights"] / 1e9), round(now["cache"] / 1e9, 1)) == (138, 1.3)
        assert round(now["flops"] / 1e12, 2) == 0.15
        assert now["memory"] > 100 * now["arithmetic"] and now["machines"] == 2
        assert self.thing.sentence().startswith(
            "Writing one token moves 139 GB and computes 0.15 TFLOP: it waits for memory."
        )

    def test_at_2048_tokens_scores_are_a_few_per_cent(self):
        for name in ("Llama 2 7B", "Llama 2 70B", "Mistral 7B"):
            now = result(self.thing, model=name, t=11)
            assert 0.02 < now["scores"] / (now["scores"] + now["matrices"]) < 0.08

    def test_shared_keys_change_the_cache_and_not_the_scores(self):
        all_heads, shared = (
            result(self.thing, model=m, t=12) for m in ("Llama 2 7B", "Mistral 7B")
        )
        assert all_heads["cache"] == 4 * shared["cache"]
        assert all_heads["scores"] == shared["scores"]

    def test_where_no_position_was_learned_it_is_said(self):
        assert "GPT-2 has learned 1024 positions only" in Cost("GPT-2", T=2048).sentence()
        assert "learned" not in Cost("GPT-2", T=1024).sentence()

    def test_more_readers_share_the_weights_until_the_cache_fills_the_memory(self):
        one, many = (result(self.thing, t=12, b=b) for b in (0, 6))
        assert many["moved"] / 64 < one["moved"] / 30
        assert many["cache"] > 80e9

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match=r"model is one of GPT-2, .* got 'GPT-5' and 'A100'"):
            Cost("GPT-5")
        with pytest.raises(ValueError, match=r"T is a power of 2 .* got 1000 and 1"):
            Cost(T=1000)
        with pytest.raises(ValueError, match="bits are 4, 8 or 16; got 3"):
            Cost(bits=3)
