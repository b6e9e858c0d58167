"""Train it here: what learns in the page learns as the module does; each ruin has its symptom."""

import json
import math
import os
import re
import sys

import pytest
import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

from attnbook.data import text
from attnbook.feedforward import MLP
from attnbook.losses import token_loss
from attnbook.models.llama import llama
from bookkit.results.stored_run import stored_run

RATE, WARMUP, BETAS, DECAY = 0.03, 30, (0.9, 0.99), 0.1
RUINS = ("none", "rate", "warmup", "mask", "target")
PAGE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>training</title>
<style>html[data-theme=dark] body {{ background: #121212; color: #CED6DD }}</style>
<script src="states.js"></script>
<main><h1>A model</h1><figure id="fig-here">{}</figure><p style="height: 300vh"></p></main>"""


@pytest.fixture(scope="module")
def trainer(root):
    sys.path.insert(0, str(root / "book/_ext"))
    try:
        import trainer
    finally:
        sys.path.pop(0)
    return trainer


@pytest.fixture(scope="module")
def live(chromium, trainer, root, tmp_path_factory):
    """A page on a disk with the explorable on it; `asked` is what it has loaded."""
    folder = tmp_path_factory.mktemp("train")
    scripts = folder / "_static/find"
    scripts.mkdir(parents=True)
    (folder / "index.html").write_text(PAGE.format("".join(trainer.page(""))), "utf-8")
    (folder / "states.js").write_text((root / "book/_static/states.js").read_text("utf-8"))
    (scripts / "train-here.js").write_text(trainer.small(), "utf-8")
    (scripts / "shakespeare.js").write_text(trainer.text_script(), "utf-8")
    engine = (root / "book/_ext/scripts/training.js").read_text("utf-8")
    (scripts / "training.js").write_text(engine, "utf-8")
    page = chromium.new_page(viewport={"width": 390, "height": 844})
    page.asked, page.trouble = [], []
    page.on("request", lambda request: page.asked.append(request.url.rsplit("/", 1)[1]))
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.goto((folder / "index.html").as_uri())
    yield page
    assert page.trouble == []
    page.close()


def ask(page, code, given=None):
    """Evaluate JavaScript in which `e` is the explorable, `n` the engine, `given` an argument."""
    code = f"""async (given) => {{
        const e = document.querySelector('attn-train-here'), n = window.attnTraining; {code} }}"""
    return page.evaluate(code, given)


@pytest.fixture(scope="module")
def text_in(live):
    """The page with the text at hand, outside of the worker: `window.held` is it."""
    ask(live, "window.text ??= new n.Text(await n.load(e.numbers.text))")
    return live


def module(weights):
    """The same model from the module's parts, in float64, with these weights."""
    V, width = weights["lm_head.weight"][0], weights["lm_head.weight"][1]
    network = lambda: MLP(width, 4 * width, torch.nn.ReLU(), bias=False)  # noqa: E731
    model = llama(V, width, depth=2, heads=2, network=network).double()
    shaped = {
        name: torch.tensor(data, dtype=torch.float64).view((rows, columns) if rows > 1 else columns)
        for name, (rows, columns, data) in weights.items()
    }
    model.load_state_dict(shaped)
    return model


def step_of(model, optimizer, ruin, step, batch):
    """One step of the module: its loss, and the norm of its gradients before clipping."""
    x, y = (torch.tensor(list(batch[name])).view(16, 32) for name in ("x", "next"))
    mask = torch.ones(32, 32, dtype=torch.bool).tril(1 if ruin == "mask" else 0)
    logits = model.lm_head(model.body(model.embed(x), mask=mask))
    loss = token_loss(logits, x if ruin == "target" else y)
    optimizer.zero_grad()
    loss.backward()
    rate = RATE * (10 if ruin == "rate" else 1)
    warmup = 1 if ruin == "warmup" else WARMUP
    optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / warmup)
    norm = clip_grad_norm_(model.parameters(), 1.0)
    return loss.item(), norm.item()


START = """const run = new n.Run(text, { ruin: given, seed: 1 })
const all = (part) => Object.fromEntries(run.model.weights.map((w) =>
    [w.name, [w.rows, w.columns, [...w[part]]]])), steps = []
const step = () => { const batch = run.batch()
    steps.push({ x: [...batch.x], next: [...batch.next], ...run.train(batch) }) }
"""


@pytest.mark.parametrize("ruin", RUINS)
def test_loss_every_gradient_and_an_adamw_step_are_those_of_the_module(text_in, ruin):
    code = "const first = all('data'); step(); const grads = all('grad'), after = all('data')"
    found = ask(text_in, f"{START}{code}; return {{ first, grads, after, steps }}", ruin)
    model = module(found["first"])
    optimizer = AdamW(model.parameters(), RATE, BETAS, weight_decay=DECAY)
    loss, norm = step_of(model, optimizer, ruin, 0, found["steps"][0])
    assert found["steps"][0]["loss"] == pytest.approx(loss, abs=1e-8)
    assert found["steps"][0]["norm"] == pytest.approx(norm, rel=1e-7)
    cut = 1 / (norm + 1e-6)  # torch has clipped its own
    assert norm > 1 and len(found["grads"]) == len(list(model.parameters())) == 15
    for name, weight in model.named_parameters():
        grad = torch.tensor(found["grads"][name][2], dtype=torch.float64).view_as(weight) * cut
        assert (grad - weight.grad).abs().max() < 1e-6 * weight.grad.abs().max(), name
    optimizer.step()
    for name, weight in model.named_parameters():
        now = torch.tensor(found["after"][name][2], dtype=torch.float64).view_as(weight)
        assert (now - weight).abs().max() < 1e-6, name
        assert (now - torch.tensor(found["first"][name][2]).view_as(now)).abs().max() > 1e-5, name


def test_twenty_steps_have_the_losses_of_the_module(text_in):
    code = "const first = all('data'); for (let i = 0; i < 20; i += 1) step()"
    found = ask(text_in, f"{START}{code}; return {{ first, steps }}", "none")
    model = module(found["first"])
    optimizer = AdamW(model.parameters(), RATE, BETAS, weight_decay=DECAY)
    for step, batch in enumerate(found["steps"]):
        loss, norm = step_of(model, optimizer, "none", step, batch)
        optimizer.step()
        assert batch["loss"] == pytest.approx(loss, abs=1e-5), step
        assert batch["norm"] == pytest.approx(norm, rel=1e-4), step
    assert batch["loss"] < 3.3 and found["steps"][0]["loss"] > 4


def test_held_out_losses_are_the_module_s_and_with_the_wrong_mask_nothing_is_given_away(text_in):
    code = "step(); step(); return { first: all('data'), found: run.examine() }"
    starts, held = ask(text_in, "return [text.starts(), [...text.held]]")
    windows = torch.tensor([held[start : start + 33] for start in starts])
    x, y = windows[:, :-1], windows[:, 1:]
    for ruin in ("none", "mask", "target"):
        answer = ask(text_in, START + code, ruin)
        model = module(answer["first"])

        def logits(x, ruin=ruin, model=model):
            shift = 1 if ruin == "mask" else 0
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(shift)
            return model.lm_head(model.body(model.embed(x), mask=mask))

        with torch.no_grad():
            own = token_loss(logits(x), x if ruin == "target" else y).item()
            used = token_loss(logits(x), y).item()
            if ruin == "mask":
                cuts = (8, 16, 24, 32)
                parts = [token_loss(logits(x[:, :t])[:, -1], y[:, t - 1]) for t in cuts]
                used = sum(parts).item() / 4
        assert answer["found"]["own"] == pytest.approx(own, abs=1e-6), ruin
        assert answer["found"]["used"] == pytest.approx(used, abs=1e-6), ruin


def test_the_lines_are_counted_from_the_text(text_in, trainer):
    found, lines = ask(text_in, "return text.counted()"), trainer.baselines()
    assert found["unigram"] == pytest.approx(lines["unigram"], abs=1e-9)
    assert found["bigram"] == pytest.approx(lines["bigram"], abs=1e-9)
    assert ask(text_in, "return text.V") == lines["V"] == 61
    assert ask(text_in, "return new n.Model(61).size") == 28_640


def test_the_text_is_the_beginning_of_both_parts_of_tiny_shakespeare(trainer):
    if not os.environ.get("ATTNBOOK_DATA"):
        pytest.skip("set ATTNBOOK_DATA: the text of Shakespeare is not part of the package")
    whole, here = text.load("shakespeare"), trainer.texts()
    assert whole.train.startswith(here["train"]) and whole.validation.startswith(here["held"])


def test_a_branch_goes_on_as_the_run_would_have_and_another_ruin_makes_it_another(text_in):
    found = ask(
        text_in,
        """const a = new n.Run(text, { seed: 2 }); for (let i = 0; i < 4; i += 1) a.train()
        const b = a.branch("none"), c = a.branch("target"), go = (run) => {
            const { loss } = run.train(); return [loss, run.train().loss, run.step] }
        return [a, b, c].map(go)""",
    )
    assert found[0] == found[1] and found[0][2] == 6
    assert abs(found[2][1] - found[0][1]) > 0.01
    again = """return [0, 0, 1].map((seed) => {
        const run = new n.Run(text, { seed }); return run.train().loss })"""
    first, second, other = ask(text_in, again)
    assert first == second != other


def test_a_sick_run_shows_it_within_forty_steps(text_in, trainer):
    """Fast signs, in the page itself; what 300 steps show is stored."""
    code = """const run = new n.Run(text, { ruin: given })
        for (let i = 0; i < 40; i += 1) run.train()
        return { ...run.examine(), text: run.write(60), looks: [...run.looks()] }"""
    found = {ruin: ask(text_in, code, ruin) for ruin in ("none", "rate", "warmup", "target")}
    used = {ruin: one["used"] for ruin, one in found.items()}
    assert used["none"] < 2.95
    assert used["rate"] > used["none"] + 0.1
    assert used["warmup"] > used["none"] + 0.05
    assert found["target"]["own"] < 0.5 and used["target"] > 4
    most = lambda words: max(words.count(sign) for sign in set(words)) / len(words)  # noqa: E731
    assert most(found["target"]["text"]) > 2 * most(found["none"]["text"])


def test_the_next_letter_is_seen_with_the_wrong_mask_only(text_in):
    code = "const run = new n.Run(text, { ruin: given }); return [...run.looks()]"
    for ruin in ("none", "mask"):
        looks = torch.tensor(ask(text_in, code, ruin)).view(4, 32, 32)
        assert (looks.triu(2) == 0).all()
        assert (looks.diagonal(1, 1, 2) > 0).all() == (ruin == "mask")
        torch.testing.assert_close(looks.sum(-1), torch.ones(4, 32))


class TestInThePage:
    def test_nothing_is_loaded_before_a_press_and_the_start_says_what_the_paper_says(
        self, live, trainer
    ):
        live.reload()
        assert live.asked[-4:] == ["index.html", "states.js", "training.js", "train-here.js"]
        say = live.locator("attn-train-here .say")
        assert say.inner_text() == trainer.sentence()
        assert live.evaluate("document.documentElement.scrollWidth") <= 390
        # the page's own thread must not train
        ask(live, "n.Run.prototype.train = () => { throw new Error('not in a worker') }")
        live.get_by_role("button", name="Train").press("Enter")
        live.wait_for_function(
            "document.querySelector('attn-train-here').steps() > 2", timeout=60_000
        )
        worker = ask(live, "return e.worker instanceof Worker")
        assert worker and [name for name in live.asked if ".js" in name][-1] == "shakespeare.js"
        live.get_by_role("button", name="Pause").press("Enter")
        words = live.locator("attn-train-here .say")
        assert re.search(r"after 0 steps: held-out loss \d\.\d\d nats", words.inner_text())

    def test_it_stops_when_it_is_not_seen_and_goes_on_when_it_is(self, live):
        ask(live, "e.reset(); await e.ready; e.toggle()")
        begun = "document.querySelector('attn-train-here').sent"
        live.wait_for_function(begun, timeout=60_000)
        live.evaluate("scrollTo(0, document.body.scrollHeight)")
        live.wait_for_function(f"!{begun}")
        assert ask(live, "return e.training")
        live.wait_for_timeout(500)  # what was under way has been reported
        before = ask(live, "return e.steps()")
        live.wait_for_timeout(500)
        assert ask(live, "return e.steps()") == before
        live.evaluate("scrollTo(0, 0)")
        live.wait_for_function(f"{begun}")
        there = "document.querySelector('attn-train-here').steps()"
        live.wait_for_function(f"{there} > {before}", timeout=60_000)
        ask(live, "e.reset()")
        assert ask(live, "return [e.steps(), e.training, e.sent]") == [0, False, None]

    def test_a_branch_is_trained_from_the_step_at_which_it_left(self, live):
        state = {"a": "none", "b": "target", "from": 4, "run": "b"}
        ask(live, "e.reset(); e.set(given); e.toggle(); e.until = 7; e.steer()", state)
        live.wait_for_function(
            "!document.querySelector('attn-train-here').training", timeout=90_000
        )
        found = ask(live, "return [e.runs.a, e.runs.b].map((run) => run.losses.length)")
        assert found == [4, 3]
        say = live.locator("attn-train-here .say").inner_text()
        assert say.startswith("Run B after 7 steps:") and "copy" in say
        # what is chosen for B begins again where A was left
        live.get_by_label("rate × 10").check(force=True)
        ask(live, "e.toggle(); e.until = 6; e.steer()")
        live.wait_for_function(
            "!document.querySelector('attn-train-here').training", timeout=90_000
        )
        found = ask(live, "return [e.runs.a, e.runs.b].map((run) => run.losses.length)")
        assert found == [4, 2] and ask(live, "return e.state.b") == "rate"

    def test_a_ruin_that_is_chosen_later_is_a_second_run_beside_the_first(self, live):
        ask(live, "e.reset(); e.toggle(); e.until = 2; e.steer()")
        live.wait_for_function(
            "!document.querySelector('attn-train-here').training", timeout=90_000
        )
        live.get_by_label("mask off by one").check(force=True)
        state = ask(live, "await e.ready; return e.state")
        assert [state[name] for name in ("a", "b", "from", "run")] == ["none", "mask", 0, "b"]
        assert ask(live, "return e.runs.a.losses.length") == 2
        assert live.get_by_role("radiogroup", name="run", exact=True).is_visible()
        live.get_by_role("button", name="Reset").press("Enter")
        live.get_by_role("radiogroup", name="run", exact=True).wait_for(state="hidden")

    def test_keys_move_the_guess_until_training_begins(self, live):
        ask(live, "e.reset(); await e.ready")
        live.locator("attn-train-here [role=slider]").focus()
        for key in ("ArrowDown", "ArrowDown", "PageDown"):
            live.keyboard.press(key)
        assert ask(live, "return e.state.guess") == pytest.approx(3.5)
        live.keyboard.press("Home")
        assert ask(live, "return e.state.guess") == 4.1
        live.keyboard.press("ArrowDown")
        live.keyboard.press("Escape")
        assert ask(live, "return e.state.guess") == 4.1

    def test_the_address_holds_the_settings(self, live):
        states = [
            {"guess": 2.4, "a": "mask"},
            {"b": "rate", "from": 120, "run": "b", "seed": 2, "guess": 2.55},
        ]
        for state in states:
            found = ask(
                live,
                """e.reset(); e.set(given); const link = attnStates.link(e), was = {...e.state}
                e.reset(); attnStates.take(e, decodeURIComponent(link).split(/=(.*)/s)[1])
                return [link, was, e.state]""",
                state,
            )
            assert found[0].startswith("#fig-here=") and found[1] == found[2]
            assert {**found[2], **state} == found[2]
        for wrong in ({"a": "x"}, {"guess": 9}, {"from": -1}, {"b": "fast"}, {"colour": 3}):
            tried = "try { e.set(given); return false } catch { return true }"
            assert ask(live, tried, wrong), wrong
        ask(live, "e.reset(); await e.ready")

    @pytest.mark.parametrize("width", [390, 1366])
    def test_it_fits_with_targets_for_fingers_and_letters_for_eyes(self, live, width):
        live.set_viewport_size({"width": width, "height": 844})
        ask(live, "e.reset(); e.set({ b: 'rate', from: 20, run: 'b' }); await e.ready")
        live.wait_for_timeout(200)
        assert live.evaluate("document.documentElement.scrollWidth") <= width
        small = ask(
            live,
            """return [...e.shadowRoot.querySelectorAll("button, .set label, [role=slider]")]
            .map((node) => [node.getBoundingClientRect(), node.outerHTML])
            .filter(([box]) => box.width && Math.min(box.width, box.height) < 32)
            .map(([box, text]) => text)""",
        )
        assert small == []
        letters = ask(
            live,
            """return [...e.shadowRoot.querySelectorAll("text, span, p, b, button")]
            .filter((node) => node.textContent.trim() && node.getBoundingClientRect().width
                && !node.closest(".quiet"))
            .map((node) => parseFloat(getComputedStyle(node).fontSize)
                * (node.getScreenCTM && node.ownerSVGElement ? node.getScreenCTM().a : 1))""",
        )
        assert min(letters) >= 10.9
        live.set_viewport_size({"width": 390, "height": 844})

    def test_both_themes_are_read_well(self, live):
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        live.evaluate(axe.axe_script)
        for theme in ("light", "dark"):
            live.evaluate("(theme) => { document.documentElement.dataset.theme = theme }", theme)
            found = live.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            faults = [
                (fault["id"], [node["html"][:200] for node in fault["nodes"][:3]])
                for fault in found["violations"]
            ]
            assert faults == []
        live.evaluate("document.documentElement.dataset.theme = 'light'")


def test_it_is_light(trainer, root):
    from bookkit.explore.element import source

    shared = len(source("shared.js"))
    assert len(trainer.small()) - shared < 30_000
    assert len((root / "book/_ext/scripts/training.js").read_text("utf-8")) < 24_000
    assert len(trainer.text_script()) < 200_000
    before, after = trainer.page("../")
    assert len(before + after) < 16_000
    assert not re.search(r"https?://(?!www\.w3\.org/)", before + after + trainer.small())


def test_it_is_in_print_and_without_scripts_a_picture(trainer, blank):
    with blank(700, java_script_enabled=False) as page:
        page.set_content(PAGE.format("".join(trainer.page(""))))
        assert page.locator("svg[role=img]").is_visible()
        assert page.get_by_text(trainer.sentence()).is_visible()


@pytest.fixture(scope="module")
def measured():
    return stored_run("train_here")["runs"]


class TestStored:
    """What 300 steps of the module, two seeds, show: what the page may say."""

    def last(self, measured, ruin, what="used"):
        return [measured[f"{ruin}/{seed}"][what][-1] for seed in range(2)]

    def test_the_healthy_run_ends_below_the_table_of_pairs(self, measured, trainer):
        assert all(x < trainer.baselines()["bigram"] - 0.1 for x in self.last(measured, "none"))

    def test_a_rate_ten_times_as_high_stays_above_the_pairs(self, measured, trainer):
        assert all(x > trainer.baselines()["bigram"] + 0.1 for x in self.last(measured, "rate"))

    def test_without_warm_up_the_first_twenty_steps_bring_less(self, measured):
        for seed in range(2):
            first = [measured[f"{name}/{seed}"]["used"][1] for name in ("warmup", "none")]
            assert first[0] > first[1] + 0.1

    def test_leaks_are_too_good_by_their_own_code_and_bad_in_use(self, measured, trainer):
        lines = trainer.baselines()
        for ruin in ("mask", "target"):
            assert all(x < 0.3 for x in self.last(measured, ruin, "own"))
            assert all(x > lines["bigram"] + 0.1 for x in self.last(measured, ruin))

    def test_first_losses_are_near_chance(self, measured, trainer):
        for one in measured.values():
            assert one["used"][0] == pytest.approx(math.log(61), abs=0.6)
            assert len(one["used"]) == len(one["own"]) == 16

    def test_the_caption_says_what_was_measured(self, measured, trainer, root):
        cells = json.loads((root / "book/14-in-practice.ipynb").read_text("utf-8"))["cells"]
        page = "".join(line for cell in cells for line in cell["source"])
        said = page.split(":::{train-here}")[1].split(":::")[0]
        assert f"The bigram model has {trainer.baselines()['bigram']:.2f}." in said
        for ruin, words in (("none", "held-out loss of 2.5"), ("rate", "the loss is 3.3")):
            assert words in said
            mean = sum(self.last(measured, ruin)) / 2
            assert f"{mean:.1f}" == words[-3:]
        behind = [
            measured[f"warmup/{seed}"]["used"][-1] - measured[f"none/{seed}"]["used"][-1]
            for seed in range(2)
        ]
        first, second = (f"{nats:.2f}" for nats in behind)
        assert f"After 300 steps this model is {first} and {second} nats behind" in page

    def test_the_start_of_the_page_has_no_number_that_was_not_computed(self, trainer):
        numbers = json.loads(json.dumps(trainer.baselines()))
        assert f"ln 61 = {math.log(61):.2f}" in trainer.sentence()
        assert f"{numbers['bigram']:.2f}" in trainer.sentence()
