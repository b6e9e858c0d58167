"""Through the model: what the page computes on the way is what the module computes."""

import json
import sys
from contextlib import ExitStack, contextmanager

import pytest
import torch

from attnbook.generate.sampling import generate
from attnbook.inside.circuits import attentions, body_of, edited, lens, record, replaced
from attnbook.norms import RMSNorm
from attnbook.shipped import language
from bookkit.explore.through import FILE, LINE, stages, start

OTHER = "def main(x):\n    return x, my lord"
OFF = [["3.3"], ["1.network"], ["rotary"], ["norms"], ["0.1", "2.network", "rotary"]]
PAGE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>through</title>
<main><h1>A model</h1>{}<p style="height: 150vh"></p></main>"""


@pytest.fixture(scope="module")
def through(root):
    sys.path.insert(0, str(root / "book/_ext"))
    try:
        import through
    finally:
        sys.path.pop(0)
    return through


@pytest.fixture(scope="module")
def book():
    return language.load("book-lm")


@pytest.fixture(scope="module")
def live(chromium, through, root, tmp_path_factory):
    """A page on a disk with the explorable on it; `asked` is what it has loaded."""
    import writer

    folder = tmp_path_factory.mktemp("through")
    scripts = folder / "_static/find"
    scripts.mkdir(parents=True)
    (folder / "index.html").write_text(PAGE.format("".join(through.page(""))), "utf-8")
    (scripts / "through.js").write_text(through.small(), "utf-8")
    (scripts / "book-lm.js").write_text(writer.model_script(), "utf-8")
    engine = (root / "book/_ext/scripts/model.js").read_text("utf-8")
    (scripts / "model.js").write_text(engine, "utf-8")
    page = chromium.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    page.asked, page.trouble = [], []
    page.on("request", lambda request: page.asked.append(request.url.rsplit("/", 1)[1]))
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.goto((folder / "index.html").as_uri())
    yield page
    assert page.trouble == []
    page.close()


def ask(page, code, given=None):
    """Evaluate JavaScript in which `e` is the explorable and `given` an argument."""
    code = f"async (given) => {{ const e = document.querySelector('attn-through'); {code} }}"
    return page.evaluate(code, given)


def loaded(page):
    """The page with the model, as it stands after Reset."""
    if not ask(page, "return !!e.model"):
        page.get_by_role("button", name="Load the model").press("Enter")
        page.wait_for_function("document.querySelector('attn-through').model")
    ask(page, "e.reset(); await e.ready")
    return page


@contextmanager
def without(model, off):
    """Inside this context the module's model lacks what `off` names, as the page does."""
    heads = [name.split(".") for name in off if name[-1].isdigit()]
    silent = {(int(layer), int(head)): torch.zeros(()) for layer, head in heads}
    with ExitStack() as hooks:
        hooks.enter_context(replaced(model, silent))
        for number, block in enumerate(body_of(model).blocks):
            if f"{number}.network" in off:
                down = block.get_submodule("feedforward.sublayer.down")
                nothing = lambda _, given, out: torch.zeros_like(out)  # noqa: E731
                hooks.callback(down.register_forward_hook(nothing).remove)
        layers = attentions(model)
        if "rotary" in off:
            for layer in layers:
                hooks.callback(setattr, layer, "rotate", layer.rotate)
                layer.rotate = None
        if "norms" in off:
            own = {layer.project.q_norm for layer in layers}  # of queries and keys
            for part in model.modules():
                if isinstance(part, RMSNorm) and part not in own:
                    gain = lambda part, given, _: given[0] * part.weight  # noqa: E731
                    hooks.callback(part.register_forward_hook(gain).remove)
        yield


def test_what_stands_there_at_first_is_what_the_model_computes(book):
    stored = json.loads(FILE.read_text("utf-8"))
    fresh = json.loads(json.dumps(start(book, LINE)))
    assert FILE.stat().st_size < 40_000
    exact = ("words", "line", "tokens", "weights")
    assert {key: stored[key] for key in exact} == {key: fresh[key] for key in exact}
    sizes = (torch.tensor(numbers["sizes"]) for numbers in (stored, fresh))
    assert torch.stack(list(sizes)).diff(dim=0).abs().max() < 0.02
    assert [[say[0] for say in row] for row in stored["says"]] == [
        [say[0] for say in row] for row in fresh["says"]
    ]


def test_it_is_light(through):
    """The script without what all explorables share; what is stored has a test of its own."""
    from bookkit.explore.element import source

    shared = len(through.tight(source("shared.js")))
    assert len(through.small()) - shared < 48_000


def test_nothing_is_loaded_before_a_press_and_the_start_says_what_the_paper_says(live, through):
    assert live.asked == ["index.html", "model.js", "through.js"]
    say = live.locator("attn-through .say")
    assert say.inner_text() == through.sentence() and "thou" in through.sentence()
    live.locator("attn-through canvas").focus()
    live.keyboard.press("ArrowUp")
    live.locator("attn-through .say", has_text="“fore”").wait_for(timeout=20_000)
    loaded(live)
    assert live.asked[3:] == ["book-lm.js"]
    assert say.inner_text() == through.sentence()
    assert live.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("line", [LINE, OTHER])
def test_streams_attention_and_lens_are_those_of_the_module(live, book, line):
    found = ask(
        loaded(live),
        """e.set({text: given}); const {tokens, rows} = e.result
        return {tokens, rows: rows.map(({stream, parts, chances}) => ({
            stream: stream.map((x) => [...x]), chances: chances.map((row) => [...row]),
            looks: parts.map((part) => part.looks) }))}""",
        line,
    )
    tokens = book.encode(line)
    run = record(book.model, tokens)
    stream = stages(run)
    with torch.no_grad():
        chances = lens(book.model, stream).softmax(-1)
    assert found["tokens"] == tokens[0].tolist()
    for t, row in enumerate(found["rows"]):
        assert (torch.tensor(row["stream"]) - stream[:, t]).abs().max() < 1e-3
        assert (torch.tensor(row["chances"]) - chances[:, t]).abs().max() < 1e-4
        looks = torch.tensor(row["looks"])
        assert (looks - run.weights[:, 0, :, t, : t + 1]).abs().max() < 1e-4


def test_without_a_part_the_logits_are_those_of_the_module_without_it(live, book):
    tokens = book.encode(LINE)
    whole = record(book.model, tokens).logits[0]
    for off in OFF:
        rows = ask(
            loaded(live), "e.set({off: given}); return e.result.rows.map((r) => [...r.logits])", off
        )
        with torch.no_grad(), without(book.model, off):
            logits = book.model(tokens)[0]
        assert (logits - whole).abs().max() > 0.5, off
        assert (torch.tensor(rows) - logits).abs().max() < 2e-3 * logits.abs().max(), off


def test_one_changed_letter_leaves_what_stands_before_it_and_the_rest_is_right(live, book):
    line = "Romeo, Roman, wherefore art"
    loaded(live).locator("attn-through input.line").fill(line)
    found = ask(live, "await e.ready; return {moved: e.changed, was: e.state.was}")
    ids = [book.encode(text)[0].tolist() for text in (LINE, line)]
    first = next(t for t, pair in enumerate(zip(*ids, strict=True)) if pair[0] != pair[1])
    assert found["was"] == LINE and 0 < first < len(ids[1])
    for t, row in enumerate(found["moved"]):
        assert (max(row) > 0) == (t >= first)
    logits = ask(live, "return [...e.result.rows.at(-1).logits]")
    with torch.no_grad():
        assert (torch.tensor(logits) - book.model(book.encode(line))[0, -1]).abs().max() < 1e-3
    assert f"{len(ids[1]) - first} rows" in live.locator("attn-through .say").inner_text()


def test_an_old_stream_put_back_gives_what_patching_gives_in_the_module(live, book):
    was, text = (f"The class {name} is new. An instance of Zem" for name in ("Zembla", "Zemzla"))
    old, new = (book.encode(line) for line in (was, text))
    run = record(book.model, old)
    ask(loaded(live), "e.set({was: given[0], text: given[1], view: 'changes'})", [was, text])
    for t, block in ((5, 2), (17, 4), (17, 3)):
        with torch.no_grad(), edited(book.model, block, put_in(run.stream[block], t)):
            logits = book.model(new)[0, -1]
        cell = f"{t}.{2 * block}"
        found = ask(live, "e.set({put: [given]}); return [...e.result.rows.at(-1).logits]", cell)
        alone = ask(live, "const s = e.swing(); return [...s.now.logitsWith(...given,"
            " s.old.rows[given[0]].stream[given[1]])]", [t, 2 * block])  # fmt: skip
        assert (torch.tensor([found, alone]) - logits).abs().max() < 2e-3
    ask(live, "e.set({put: ['5.4']}); await e.ready")
    assert "% of the way back" in live.locator("attn-through .say").inner_text()


def put_in(stream, t):
    """A change of a stream: at position t it is another's."""

    def change(x):
        x = x.clone()
        x[:, t] = stream[:, t]
        return x

    return change


def test_it_goes_on_as_the_module_does_whole_and_without_a_head(live, book):
    tokens = book.encode(LINE)
    T = tokens.shape[1]
    assert ask(loaded(live), "return e.continued([])") == book.decode(
        generate(book.model, tokens, 24)[0, T:]
    )
    with without(book.model, ["2.network"]):
        less = book.decode(generate(book.model, tokens, 24)[0, T:])
    assert ask(live, "return e.continued(['2.network'])") == less


def test_what_has_no_token_is_spelled_and_comes_back(live, book):
    code = "e.set({text: given}); await e.ready; return "
    words = ask(loaded(live), f"{code} e.result.words", "é, é, é")
    assert words[:7] == [r"\x", "c", "3", r"\x", "a", "9", ","]
    assert r"byte by byte: \x" in live.locator("attn-through .say").inner_text()
    start = book.encode("é, é, é")
    written = generate(book.model, start, 24)[:, start.shape[1] :]
    assert ask(live, "return e.continued([])") == book.decode(written)
    assert ask(live, f"{code} (e.add(), e.state.text)", "é, é, ") == "é, é, é"


def test_a_number_under_the_pointer_is_explained_with_its_operands(live, book):
    say = ask(
        loaded(live),
        """const L = e.L, up = L.matrices.find(({name, l}) => name === "up" && l === 1)
        e.point(e.hit(up.x + 300.5 * L.s, up.y + 7.5 * L.s)); await e.ready
        return e.sentence.textContent""",
    )
    weight = book.model.body.blocks[1].get_submodule("feedforward.sublayer.up").weight[300, 7]
    shown = f"{weight.item():.2f}".replace("0.", ".", 1).replace("-", "−")
    assert say.startswith(f"Weight 7 → 300 of up, block 1: {shown}") or abs(weight) < 0.005
    assert "one of 256 terms of number 300" in say


def test_nine_stops_zoom_and_what_an_address_may_not_ask_for(live):
    loaded(live)
    tales = ask(
        live,
        """const seen = []; for (let n = 0; n < 10; n += 1) {
            e.step(1); await e.ready
            seen.push([e.sentence.textContent, e.camera.z]) } return seen""",
    )
    assert [tale[:6] for tale, _ in tales[:9]] == [f"{n} of 9" for n in range(1, 10)]
    assert tales[0][1] > 1 and tales[9][1] == 1 and tales[9][0][:4] != "1 of"
    live.locator("attn-through canvas").focus()
    live.keyboard.press("+")
    assert ask(live, "await e.ready; return e.camera.z") == 2
    live.keyboard.press("ArrowDown")
    live.keyboard.press("Escape")
    assert ask(live, "await e.ready; return e.camera.z") == 1
    ask(live, "e.enlarge(true); await e.ready")
    live.keyboard.press("Escape")
    assert ask(live, "return e.big") is False
    for wrong in ({"off": ["4.1"]}, {"stop": 12}, {"text": "a" * 500}, {"view": "x"}):
        tried = "try { e.set(given); return false } catch { return true }"
        assert ask(live, tried, wrong), wrong
