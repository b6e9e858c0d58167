"""One body for all data; a captioner, a codebook, and pictures out of noise."""

import math

import pytest
import torch
from torch.nn import functional as F

from attnbook.data import small
from attnbook.losses import parameters
from attnbook.masks import pattern_mask
from attnbook.modalities.body import Adapted, fit, shared_body
from attnbook.modalities.captioner import Captioner
from attnbook.modalities.diffusion import DiffusionTransformer, drawn, flow_loss, pasted
from attnbook.modalities.quantiser import Tokeniser, VectorQuantiser
from attnbook.vision import cut
from bookkit.experiments import pictures, tasks
from bookkit.results.stored_run import stored_run


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


class TestBody:
    def test_the_body_is_the_same_for_all_data(self):
        sizes = {parameters(Adapted(*given).body) for given in ((4, 10, 16), (1, 2), (34, 2))}
        assert sizes == {parameters(shared_body())}

    def test_without_places_tokens_are_a_set_and_with_places_a_line(self):
        torch.manual_seed(0)
        tokens, order = torch.randn(2, 5, 3), torch.randperm(5, generator=dice(1))
        for places, same in ((None, True), (5, False)):
            made = Adapted(3, 2, places)
            assert torch.allclose(made(tokens)[:, order], made(tokens[:, order]), atol=1e-6) == same

    def test_a_width_that_heads_do_not_divide_is_refused(self):
        with pytest.raises(ValueError, match="does not divide into 4 heads"):
            shared_body(30)

    def test_training_repeats_itself(self):
        def run():
            rows = torch.randn(20, 3, 2, generator=dice())

            def loss(model, batch):
                return model(batch).square().mean()

            return fit(lambda: Adapted(2, 1), tasks.rows_of(rows, 4), loss, 3)

        assert torch.equal(run().embed.weight, run().embed.weight)


class TestTasks:
    def test_labels_spread_to_the_mean_of_the_neighbours(self):
        line = torch.tensor([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]).bool()
        found = tasks.harmonic(line, torch.tensor([0, 3]), torch.tensor([0.0, 3.0]))
        assert torch.allclose(found, torch.arange(4.0))

    def test_least_squares_finds_a_linear_series(self):
        t = torch.arange(60.0)
        windows = torch.stack((t.cos(), t.sin()), 1).unfold(0, 2, 1).mT
        found = tasks.by_least_squares(windows[:30], windows[30:])
        assert torch.allclose(found, windows[30:, -1], atol=1e-3)


class TestCaptioner:
    def made(self):
        torch.manual_seed(0)
        return Captioner(4, 20, 5, 12, small.BEGIN).eval()

    def test_words_see_the_picture_and_not_the_words_to_come(self):
        made, words = self.made(), torch.tensor([[10, 3, 4, 5, 6]])
        picture = torch.rand(1, 1, 8, 40, generator=dice())
        other = words.clone()
        other[0, 3] = 9
        before, after = made(picture, words), made(picture, other)
        assert torch.equal(before[:, :3], after[:, :3]) and not torch.equal(before, after)
        assert not torch.allclose(made(picture.flip(-1), words)[:, 0], before[:, 0])

    def test_patches_see_each_other_but_no_word(self):
        looks = self.made().mask
        table = pattern_mask(looks, 25)
        assert table[:20, :20].all() and not table[:20, 20:].any()
        assert torch.equal(table[20:, 20:], torch.ones(5, 5).tril().bool())

    def test_writing_is_the_most_likely_word_again_and_again(self):
        made, picture = self.made(), torch.rand(3, 1, 8, 40, generator=dice())
        said = made.write(picture, 4)
        first = torch.full((3, 1), small.BEGIN)
        fed = torch.cat((first, said[:, :-1]), 1)
        assert torch.equal(made(picture, fed).argmax(-1), said)


class TestQuantiser:
    def test_the_nearest_entry_is_found_and_the_gradient_passes_through(self):
        made = VectorQuantiser(3, 2)
        made.codebook.data = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 9.0]])
        y = torch.tensor([[[1.0, 0.0], [3.0, 1.0]]], requires_grad=True)
        found = made(y)
        assert found.codes.tolist() == [[0, 1]]
        assert found.vectors.tolist() == [[[0, 0], [4, 0]]]
        (gradient,) = torch.autograd.grad(found.vectors.sum(), y)
        assert torch.equal(gradient, torch.ones_like(y))

    def test_the_loss_is_the_papers(self):
        torch.manual_seed(0)
        made, y = VectorQuantiser(5, 3), torch.randn(2, 4, 3)
        near = made.codebook[made.encode(y)]
        distance = ((near - y) ** 2).mean()
        assert torch.isclose(made(y).loss, 1.25 * distance)

    def test_codes_lead_back_to_what_the_decoder_was_given(self):
        torch.manual_seed(0)
        made, tokens = Tokeniser(4, 16, 8), torch.randn(3, 16, 4)
        back, found = made(tokens)
        assert torch.equal(made.encode(tokens), found.codes)
        assert torch.allclose(made.decode(found.codes), back, atol=1e-5)

    def test_a_codebook_of_one_entry_is_refused(self):
        with pytest.raises(ValueError, match="at least 2 entries"):
            VectorQuantiser(1, 4)


class TestDiffusion:
    def test_patches_are_put_together_as_they_were_cut(self):
        images = torch.randn(3, 1, 8, 6, generator=dice())
        assert torch.equal(pasted(cut(images, 2), images, 2), images)

    def test_it_starts_by_saying_nothing(self):
        torch.manual_seed(0)
        made, noise = DiffusionTransformer(10, 16, 2), torch.randn(2, 1, 8, 8)
        assert not made(noise, torch.rand(2), torch.tensor([1, 2])).any()
        assert torch.equal(drawn(made, noise, torch.tensor([1, 2]), 3)[-1], noise)

    def test_a_perfect_velocity_leads_to_the_picture_in_one_step(self):
        goal = torch.randn(2, 1, 4, 4, generator=dice())

        class Perfect(torch.nn.Module):
            classes = 3

            def forward(self, x, time, kind):
                return (goal - x) / (1 - time[:, None, None, None])

        noise, kind = torch.randn(2, 1, 4, 4, generator=dice(1)), torch.tensor([0, 1])
        for steps in (1, 4):
            assert torch.allclose(drawn(Perfect(), noise, kind, steps)[-1], goal, atol=1e-5)
        assert flow_loss(Perfect(), (goal, kind)) < 1e-4

    def test_guidance_of_one_is_no_guidance_and_of_zero_no_class(self):
        class Shift(torch.nn.Module):
            classes = 3

            def forward(self, x, time, kind):
                return torch.ones_like(x) * kind[:, None, None, None]

        start, kind = torch.zeros(1, 1, 2, 2), torch.tensor([1])
        for guidance, end in ((1.0, 1.0), (0.0, 3.0), (2.0, -1.0)):
            found = drawn(Shift(), start, kind, 2, guidance)[-1]
            assert torch.allclose(found, torch.full_like(found, end))

    def test_the_distance_of_two_normal_distributions_is_the_formula_in_one_dimension(self):
        a = torch.randn(500, 8, 8, generator=dice())
        a[:, 1:], a[:, :, 1:] = 0, 0
        b = 3 * a
        b[:, 0, 0] += 1
        one, two = a[:, 0, 0], b[:, 0, 0]
        exact = (one.mean() - two.mean()) ** 2 + (one.std() - two.std()) ** 2
        assert math.isclose(pictures.frechet(a, b), exact.item(), rel_tol=1e-4)
        assert abs(pictures.frechet(a, a)) < 1e-6


class Scribe(Captioner):
    """A captioner that always says the same words, whatever it is shown."""

    def __init__(self, words):
        super().__init__(4, 20, small.MOST + 1, len(small.WORDS), small.BEGIN)
        self.words = torch.tensor(words)

    def write(self, images, count):
        return self.words.expand(len(images), -1)

    def forward(self, images, before):
        return F.one_hot(self.words, len(small.WORDS)).float().expand(len(images), -1, -1)


class TestReading:
    def test_a_caption_that_is_always_the_same_has_what_chance_gives_it(self):
        end = small.END
        found = pictures.read(Scribe([7, end, end, end, end]), count=4000)
        assert math.isclose(found["captions"], 0.025, abs_tol=0.01)  # one of four lengths, of ten
        assert math.isclose(found["number"], 0.25, abs_tol=0.03)
        assert math.isclose(found["digits"], 0.1, abs_tol=0.03)
        assert math.isclose(found["next"], 1.1 / 3.5, abs_tol=0.02)  # a tenth, then a quarter each

    def test_hidden_pictures_are_blank_when_they_are_read(self):
        seen = []

        class Spy(Scribe):
            def write(self, images, count):
                seen.append(images.abs().sum().item())
                return super().write(images, count)

        for hidden in (False, True):
            pictures.read(Spy([small.END] * 5), count=10, hidden=hidden)
        assert seen[0] > 0 and seen[1] == 0


class TestMistakes:
    def test_each_kind_of_mistake_is_known(self):
        end, count = small.END, 500
        strips = pictures.unseen_strips(count)

        class Changed(Scribe):
            def __init__(self, change):
                super().__init__([end] * 5)
                self.change = change

            def write(self, images, count):
                said = strips.captions.clone()
                return self.change(said)

        def one_digit(said):
            said[:, 0] = (said[:, 0] + 1) % 10
            return said

        def turned(said):
            said[:, :2] = said[:, :2].flip(1)
            return torch.where(strips.lengths[:, None] > 1, said, strips.captions)

        kinds = {"one digit": one_digit, "order": turned}
        kinds["too few or too many"] = lambda said: torch.cat((said[:, :1], said[:, :-1]), 1)
        for name, change in kinds.items():
            found = pictures.mistakes(Changed(change), count)
            assert found == {kind: float(kind == name) for kind in found}


class TestStored:
    def test_every_case_has_its_seeds(self):
        runs = stored_run("anything")["runs"]
        assert all(len(values) == 10 for values in runs["club"].values())
        for name in runs.keys() - {"club"}:
            assert all(len(values) == 5 for values in runs[name].values()), name

    def test_what_the_chapter_says_of_made_digits_holds_with_every_seed(self):
        made = {name: stored_run("anything")["runs"][name] for name in ("painting", "writing")}
        painted, written = made["painting"], made["writing"]
        assert min(painted["as asked"]) > max(written["as asked"])
        assert min(painted["Fréchet, guided"]) > max(painted["Fréchet"])
        assert min(painted["Fréchet"]) < max(written["Fréchet"])  # they overlap

    def test_a_captioner_errs_in_shapes_and_a_blind_one_is_at_chance(self):
        runs = stored_run("anything")["runs"]
        assert set(runs["reading"]["number"]) == {1.0}
        assert min(runs["reading"]["one digit"]) > 0.9 > 0.05 > max(runs["reading"]["order"])
        assert max(runs["reading"]["captions, hidden"] + runs["blind"]["captions"]) < 0.04

    def test_edges_are_what_the_club_needs(self):
        club = stored_run("anything")["runs"]["club"]
        pairs = zip(club["transformer"], club["without edges"], strict=True)
        assert all(a > b for a, b in pairs)

    def test_the_simple_models_are_those_of_the_run(self):
        """They have no random start: the stored numbers come out again."""
        stored = stored_run("anything")["runs"]["brain waves"]
        series = small.brain_waves()
        windows = series.unfold(0, 17, 1).mT
        found = tasks.by_least_squares(windows[: 560 - 16], windows[560:])
        error = F.mse_loss(found, windows[560:, -1]).item()
        assert all(math.isclose(error, value, rel_tol=2e-3) for value in stored["autoregression"])
