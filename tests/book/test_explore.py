"""What every explorable promises, in a real browser: arithmetic, keys, fingers, phones, themes."""

import json
import math
import re
from itertools import chain, pairwise, product
from pathlib import Path

import pytest
import torch

from attnbook.attention import AdditiveScores
from bookkit.explore import element, speed
from bookkit.explore.alignment import Alignment
from bookkit.explore.block import BlockWalk
from bookkit.explore.by_hand import AttentionByHand
from bookkit.explore.clinic import Clinic
from bookkit.explore.clocks import Clocks
from bookkit.explore.colours import ColourRefinement
from bookkit.explore.controller import ROWS, SLOT, B, MemoryController, order
from bookkit.explore.cost import Cost
from bookkit.explore.decay import Decay
from bookkit.explore.decoding import Decoding
from bookkit.explore.emergence import Emergence
from bookkit.explore.heads import HeadSwitchboard
from bookkit.explore.inside import Inside
from bookkit.explore.lookup import Lookup
from bookkit.explore.low_rank import LowRankChange
from bookkit.explore.machines import FourMachines
from bookkit.explore.masks import MaskPainter
from bookkit.explore.memory import FourMemories
from bookkit.explore.next_token import NextToken
from bookkit.explore.patches import PatchRows
from bookkit.explore.planner import Planner
from bookkit.explore.router import RouterLoads
from bookkit.explore.sampling import Sampling
from bookkit.explore.scaling import ScalingFit
from bookkit.explore.speed import Speed
from bookkit.results.stored_run import stored_run

WORDS = ["my", "red", "car"]
STATES = torch.tensor([[0.5, 1.5], [-1.0, 0.5], [1.0, -1.0]])


def lookup(words=WORDS):
    additive = AdditiveScores(2, 2, 3)
    for i, part in enumerate(additive.parameters()):
        part.data = torch.linspace(-1.5, 2, part.numel()).view_as(part) * (-1) ** i
    return Lookup(words, STATES, torch.tensor([1.0, 0.5]), additive)


MAKERS = {
    "alignment": Alignment,
    "block": BlockWalk,
    "lookup": lookup,
    "low-rank": LowRankChange,
    "clinic": Clinic,
    "clocks": Clocks,
    "colours": ColourRefinement,
    "speed": Speed,
    "controller": MemoryController,
    "cost": Cost,
    "decay": Decay,
    "decoding": Decoding,
    "emergence": Emergence,
    "heads": HeadSwitchboard,
    "inside": Inside,
    "by-hand": AttentionByHand,
    "machines": FourMachines,
    "masks": MaskPainter,
    "next-token": NextToken,
    "memory": FourMemories,
    "patches": PatchRows,
    "planner": Planner,
    "router": RouterLoads,
    "sampling": Sampling,
    "scaling": ScalingFit,
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
# What they share stands in shared.js and one style sheet: a few show it, weekly all do.
FEW = ("by-hand", "clinic", "controller", "heads", "machines", "masks", "memory", "scaling")
few = pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[] if name in FEW else [pytest.mark.weekly])
        for name, make in MAKERS.items()
    ],
)
PAGE = """<!doctype html><html lang="en" data-theme="light"><title>explorable</title>
<meta name="viewport" content="width=device-width">
<style>html[data-theme=dark] body {{ background: #121212; color: #CED6DD }}
@media (max-width: 480px) {{ body {{ margin: 0 28px }} section {{ overflow-x: auto }} }}</style>
<body><main><h1>An explorable</h1>{body}<p style="height: 150vh"></p></main>"""
TARGETS = "button, .set label, [role=slider], [role=spinbutton], [role=gridcell], input[type=range]"


class Visit:
    """A page with explorables on it; `trouble` is what it said or asked for."""

    def __init__(self, blank, *things, width=700, **settings):
        self.tab = blank(width, **{"reduced_motion": "reduce", **settings})
        self.trouble = []
        note = self.trouble.append
        self.heard = {
            "pageerror": lambda error: note(str(error)),
            "console": lambda line: note(line.text),
            "request": lambda request: note(request.url),
        }
        body = "".join(f"<section>{thing._repr_html_()}</section>" for thing in things)
        self.content = PAGE.format(body=body)
        self.name = f"attn-{things[0].tag}"

    def __enter__(self):
        self.page = self.tab.__enter__()
        for event, hear in self.heard.items():
            self.page.on(event, hear)
        self.page.set_content(self.content)
        return self

    def __exit__(self, *error):
        for event, hear in self.heard.items():
            self.page.remove_listener(event, hear)
        self.tab.__exit__(*error)
        assert self.trouble == []

    def ask(self, code, given=None):
        """Evaluate JavaScript in which `e` is the first explorable and `given` an argument."""
        code = f"async (given) => {{ const e = document.querySelector('{self.name}'); {code} }}"
        return self.page.evaluate(code, given)

    @property
    def state(self):
        return self.ask("return e.state")

    def find(self, selector):
        """What matches in the first explorable and can be seen, once all changes are drawn."""
        self.ask("await e?.ready")
        return self.page.locator(self.name).first.locator(selector).locator("visible=true")


def close(found, expected, near):
    """Nested lists and dictionaries, number by number."""
    if isinstance(expected, dict):
        assert set(expected) <= set(found)
        return all(close(found[key], expected[key], near) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(
            close(f, x, near) for f, x in zip(found, expected, strict=True)
        )
    if isinstance(expected, float):
        return found == pytest.approx(expected, rel=near, abs=near)
    return found == expected


def test_all_explorables_are_tested():
    made = {type(make()) for make in MAKERS.values()}
    assert made == set(element.Explorable.__subclasses__())


@every
def test_the_browser_computes_what_the_module_computes(blank, make):
    thing = make()
    cases = list(thing.cases())
    assert len(cases) > 9
    with Visit(blank, thing) as visit:
        found = visit.ask(
            "return given.map((patch) => { e.reset(); e.set(patch); return e.result })", cases
        )
    for patch, result in zip(cases, found, strict=True):
        expected = thing.result({**thing.start(), **patch})
        assert close(result, expected, thing.near), patch


@every
def test_it_starts_with_the_numbers_and_the_sentence_of_the_still_picture(blank, make):
    thing = make()
    with Visit(blank, thing) as visit:
        assert close(visit.ask("return e.result"), thing.result(thing.start()), thing.near)
        assert visit.state == json.loads(json.dumps(thing.start()))
        assert visit.find(".say").inner_text() == thing.sentence()
        assert visit.find(".ask").inner_text() == thing.question
    assert re.search(r"\d", thing.sentence())
    assert thing.question.endswith("?")


@few
def test_without_scripts_and_in_print_the_still_picture_is_seen(blank, make):
    thing = make()
    with Visit(blank, thing, java_script_enabled=False) as visit:
        assert visit.page.locator("svg[role=img]").is_visible()
        assert visit.page.get_by_text(thing.sentence()).is_visible()
    with Visit(blank, thing) as visit:
        still = visit.page.locator(f"{visit.name} > svg")
        assert not still.is_visible()
        visit.page.emulate_media(media="print")
        assert still.is_visible()
        assert not visit.find(".card").is_visible()
        outside = """node => [...node.querySelectorAll("text")].filter((text) => {
            const box = text.getBBox(), all = node.viewBox.baseVal
            return box.x < 0 || box.x + box.width > all.width || box.y + box.height > all.height
        }).map((text) => text.textContent)"""
        assert still.evaluate(outside) == []
        ink = still.locator("text").first.evaluate("node => getComputedStyle(node).fill")
        visit.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert still.locator("text").first.evaluate("node => getComputedStyle(node).fill") == ink


@every
def test_every_control_is_reached_by_tab_seen_and_moved_by_keys(blank, make):
    with Visit(blank, make()) as visit:
        ring = """const node = e.shadowRoot.activeElement, style = getComputedStyle(node),
            next = node.nextElementSibling && getComputedStyle(node.nextElementSibling)
            return [style, next].some((s) => s && s.outlineStyle == "solid"
                && parseFloat(s.outlineWidth) >= 3)"""
        visit.page.keyboard.press("Tab")
        stops = 0
        while visit.ask("return !!e.shadowRoot.activeElement"):
            assert visit.ask(ring), visit.ask("return e.shadowRoot.activeElement.outerHTML")
            stops += 1
            visit.page.keyboard.press("Tab")
        groups = visit.find("[role=radiogroup]").count() + visit.find("button.reset").count()
        assert stops >= groups + 1
        start = visit.state
        movers = visit.find("[role=slider], [role=spinbutton], input[type=range]")
        radios = visit.find("input[type=radio]:checked")
        movers = movers.all()
        for node in chain(movers[:: 1 + len(movers) // 16], radios.all()):
            node.focus()
            for key in ("ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft"):
                visit.page.keyboard.press(key)
                visit.ask("await e.ready")  # a control may come or go with the picture
                if visit.state != start:
                    break
            assert visit.state != start, node.evaluate("node => node.outerHTML")
            visit.page.keyboard.press("Home")
            visit.ask("await e.ready")
            assert visit.state == start
        visit.find("button.reset").focus()


@every
def test_escape_and_reset_go_back_to_the_start(blank, make):
    thing = make()
    patches = [patch for patch in thing.cases() if {**thing.start(), **patch} != thing.start()]
    with Visit(blank, thing) as visit:
        for way in ("Escape", "Enter"):
            visit.ask("e.set(given); await e.ready", patches[0])
            assert visit.state != thing.start()
            visit.find("button.reset").focus()
            visit.page.keyboard.press(way)
            visit.ask("await e.ready")
            assert visit.find(".say").inner_text() == thing.sentence()
            assert visit.state == json.loads(json.dumps(thing.start()))


def faults(page, **options):
    """What axe-core finds, contrast included; it is given to a page once."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.axe_script)
    options["resultTypes"] = ["violations"]
    found = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
    return [(fault["id"], [node["html"][:200] for node in fault["nodes"][:3]]) for fault in found]


def drag(visit, node, dx, dy):
    """A finger on the middle of a node moves in eight steps and is lifted."""
    node.scroll_into_view_if_needed()
    box = node.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = visit.page.context.new_cdp_session(visit.page)
    for step in range(10):
        kind = {0: "touchStart", 9: "touchEnd"}.get(step, "touchMove")
        points = [{"x": x + dx * step / 8, "y": y + dy * step / 8}] if step < 9 else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.detach()


@few
def test_a_finger_drags_what_can_be_dragged_and_scrolls_the_page_elsewhere(blank, make):
    with Visit(blank, make(), width=390, has_touch=True, is_mobile=True) as visit:
        handles = visit.find("[role=spinbutton], [role=slider]").all()
        for handle in handles[:: max(1, len(handles) // 6)]:
            start = visit.state
            drag(visit, handle, 40, 0)
            visit.page.wait_for_timeout(30)
            moved = visit.state != start
            if not moved:  # it stood at its greatest
                drag(visit, handle, -40, 0)
                moved = visit.state != start
            assert moved, handle.evaluate("node => node.outerHTML")
        visit.page.evaluate("scrollTo(0, 0)")
        drag(visit, visit.find(".picture"), 0, -150)
        visit.page.wait_for_timeout(300)
        assert visit.page.evaluate("scrollY") > 50


@few
@pytest.mark.parametrize("width", [390, 1000])
def test_it_fits_with_targets_for_fingers_and_letters_for_eyes(blank, make, width):
    thing = make()
    letters = """const sizes = [], walk = (node) => {
        for (const child of node.childNodes) {
            if (child.nodeType == 3 && child.data.trim()) {
                const style = getComputedStyle(node)
                const scale = node.getScreenCTM ? node.getScreenCTM().a : 1
                if (node.checkVisibility?.() && node.tagName != "STYLE")
                    sizes.push([parseFloat(style.fontSize) * scale, child.data])
            } else if (child.nodeType == 1) walk(child)
        }
    }
    walk(e.shadowRoot); return sizes"""
    with Visit(blank, thing, width=width, is_mobile=width < 500) as visit:
        for patch in ({}, *list(thing.cases())[:3]):
            visit.ask("e.reset(); e.set(given); await e.ready", patch)
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
            ends = """e.scrollIntoView(); const box = e.getBoundingClientRect()
                return [box.left + 3, box.right - 3].every((x) =>
                    document.elementFromPoint(x, box.top + 30) === e)"""
            assert visit.ask(ends), "the page cuts it off"
            assert min(visit.ask(letters))[0] >= 11, min(visit.ask(letters))
            sides = f"""return [...e.shadowRoot.querySelectorAll("{TARGETS}")]
                .map((node) => [node.getBoundingClientRect(), node.outerHTML])
                .filter(([box]) => box.width).map(([b, text]) => [b.width, b.height, text])"""
            for across, down, node in visit.ask(sides):
                assert min(across, down) >= thing.target - 0.01, node


@few
def test_the_letters_in_it_do_not_cover_each_other(blank, make):
    """Leaves with text, measured by their letters; buttons and cells hold what is in them."""
    boxes = """const found = [], walk = (node) => {
        for (const child of node.childNodes) {
            if (child.nodeType == 3 && child.data.trim() && node.tagName != "STYLE"
                && node.checkVisibility?.({opacityProperty: true}) && !node.closest(".quiet")) {
                const range = document.createRange()
                range.selectNodeContents(child)
                for (const r of range.getClientRects())
                    found.push([r.left, r.top, r.right, r.bottom, child.data])
            } else if (child.nodeType == 1) walk(child)
        }
    }
    walk(e.shadowRoot); return found"""
    thing = make()
    for width in (390, 700):
        with Visit(blank, thing, width=width, is_mobile=width < 500) as visit:
            for patch in ({}, *list(thing.cases())[:3]):
                visit.ask("e.reset(); e.set(given); await e.ready", patch)
                found = visit.ask(boxes)
                card = visit.find(".card").bounding_box()
                for i, (left, top, right, bottom, words) in enumerate(found):
                    assert card["x"] <= left and right <= card["x"] + card["width"], words
                    for l2, t2, r2, b2, other in found[:i]:
                        across, down = (
                            min(right, r2) - max(left, l2),
                            min(bottom, b2) - max(top, t2),
                        )
                        assert across <= 1 or down <= 4, (width, patch, words, other)


@few
def test_drawing_it_again_is_little_work(blank, make):
    """What is there is changed in place; at most some hundred nodes are new."""
    with Visit(blank, make()) as visit:
        made = visit.ask(
            """const watch = new MutationObserver(() => {})
            watch.observe(e.shadowRoot ?? e, { childList: true, subtree: true })
            e.render()
            const nodes = watch.takeRecords().flatMap((record) => [...record.addedNodes])
            return nodes.reduce((n, x) => n + 1 + (x.querySelectorAll?.('*').length ?? 0), 0)"""
        )
    print(f"{make().tag}: {made} nodes")
    assert made <= 300


@few
def test_nothing_moves_by_itself(blank, make):
    with Visit(blank, make()) as visit:
        frames = visit.ask(
            """await e.ready
            let frames = 0
            const ask = window.requestAnimationFrame
            window.requestAnimationFrame = (f) => { frames += 1; return ask(f) }
            await new Promise((done) => setTimeout(done, 300))
            return [frames, e.getAnimations({ subtree: true }).length]"""
        )
    assert frames == [0, 0]


@few
def test_both_themes_are_read_well_and_switching_draws_nothing_again(blank, make):
    thing = make()
    with Visit(blank, thing) as visit:
        visit.ask(
            "e.drawn = 0; const draw = e.draw; e.draw = (...x) => { e.drawn++; draw.apply(e, x) }"
        )
        for patch in ({}, *list(thing.cases())[:1]):
            visit.ask("e.reset(); e.set(given); await e.ready", patch)
            drawn = visit.ask("return e.drawn")
            for theme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
                visit.page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
                assert faults(visit.page, **rules) == []
            assert visit.ask("return e.drawn") == drawn


@pytest.mark.parametrize(
    "place", ["html data-theme=dark", "html theme=dark", "body data-jp-theme-light=false"]
)
def test_the_theme_of_site_colab_and_jupyterlab_is_followed(blank, place):
    ink = lambda visit: visit.find(".say").evaluate("node => getComputedStyle(node).color")  # noqa: E731
    node, setting = place.split(" ")
    name, value = setting.split("=")
    with Visit(blank, AttentionByHand(), color_scheme="light") as visit:
        visit.page.evaluate("document.documentElement.removeAttribute('data-theme')")
        light = ink(visit)
        visit.page.locator(node).evaluate(
            "(node, [k, v]) => node.setAttribute(k, v)", [name, value]
        )
        dark = ink(visit)
        assert light == "rgb(34, 40, 50)" and dark == "rgb(206, 214, 221)"


def test_where_the_page_says_nothing_the_system_decides(blank):
    for scheme, ink in (("light", "rgb(34, 40, 50)"), ("dark", "rgb(206, 214, 221)")):
        with Visit(blank, AttentionByHand(), color_scheme=scheme) as visit:
            visit.page.evaluate("document.documentElement.removeAttribute('data-theme')")
            assert visit.find(".say").evaluate("node => getComputedStyle(node).color") == ink


@few
def test_two_copies_do_not_know_of_each_other(blank, make):
    thing = make()
    patch = next(p for p in thing.cases() if {**thing.start(), **p} != thing.start())
    with Visit(blank, thing, make()) as visit:
        visit.ask("e.set(given); await e.ready", patch)
        second = visit.page.locator(visit.name).nth(1)
        assert second.evaluate("e => e.state") == json.loads(json.dumps(thing.start()))
        assert visit.state != second.evaluate("e => e.state")


@every
def test_a_state_that_does_not_exist_is_refused(blank, make):
    with Visit(blank, make()) as visit:
        said = visit.ask("try { e.set({ colour: 3 }) } catch (error) { return error.message }")
        assert said == 'no "colour" in the state'
        limits = visit.ask("return e.constructor.limits")
        for name, (low, *_, high) in limits.items():
            code = "try { e.set({ [given[0]]: given[1] }) } catch (error) { return error.message }"
            wrong = "blue" if isinstance(low, str) else high + 1
            assert visit.ask(code, [name, wrong]).endswith(f": {wrong}"), name


@every
def test_what_is_stored_is_small_and_always_the_same(make):
    thing = make()
    stored = thing._repr_html_()
    torch.set_default_dtype(torch.float64)
    try:
        assert make()._repr_html_() == stored
    finally:
        torch.set_default_dtype(torch.float32)
    numbers = re.search(r"data-numbers='([^']*)'", stored)[1]
    run = element.script(thing.tag, *thing.needs)
    assert len((run + numbers).encode()) <= 30_000
    assert len(stored.encode()) <= 40_000
    assert repr(thing) == f"{type(thing).__name__}: move it in the browser"
    assert not re.search(r"https?://(?!www\.w3\.org/)", stored)


@every
def test_what_the_page_adds_to_an_explorable_has_a_class_of_its_own(make):
    """The frame around Reset and Copy link had the class of the clinic's numbers."""
    states = (Path(__file__).parents[2] / "book/_static/states.js").read_text("utf-8")
    (added,) = re.findall(r'className: "([\w-]+)"', states)
    assert f".{added} {{" in states
    thing = make()
    assert not re.search(rf"[.\"\s]{added}\b", element.script(thing.tag, *thing.needs))


def test_hostile_words_stay_words(blank):
    hostile = ['"><script>console.log(1)</script>', "</attn-lookup><b>", "&lt;c"]
    words = [*hostile, "on", "the", "mat"]
    for thing in (lookup(hostile), AttentionByHand(words=words, asks=["<i>a", "b"])):
        with Visit(blank, thing) as visit:
            assert visit.page.locator("b:not(p > b), i").count() == 0
            assert hostile[0] in visit.page.locator(visit.name).evaluate(
                "e => e.shadowRoot.textContent"
            )


def contrast(one, other):
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05

    a, b = light(one), light(other)
    return max(a, b) / min(a, b)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_role_is_read_on_the_page_and_on_a_surface(theme):
    colours = element.palette("light") | element.palette(theme)
    roles = [
        "ink",
        "muted",
        "query",
        "key",
        "value",
        "weight",
        "output",
        "position",
        "state",
        "gradient",
    ]
    for role in roles:
        for ground in ("paper", "surface"):
            assert contrast(colours[f"--d-{role}"], colours[f"--d-{ground}"]) >= 4.5, role
    assert contrast(colours["--d-line"], colours["--d-surface"]) >= 3


def cell(visit, i, j):
    box = visit.page.locator(f"[data-cell='{i} {j}']").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_mouse_paints_a_mask_and_the_python_beside_it_makes_the_same(blank):
    thing = MaskPainter(flips=(), pattern="window")
    with Visit(blank, thing) as visit:
        mouse = visit.page.mouse
        mouse.move(*cell(visit, 1, 5))
        mouse.down()
        mouse.move(*cell(visit, 1, 9), steps=9)
        mouse.move(*cell(visit, 3, 9), steps=9)
        mouse.up()
        assert visit.state["flips"] == [[1, 5], [1, 6], [1, 7], [1, 8], [1, 9], [2, 9], [3, 9]]
        for patch in ({}, *list(thing.cases())[1::7]):
            visit.ask("e.set(given); await e.ready", patch)
            names = {"torch": torch}
            exec(visit.find(".code").inner_text(), names)
            assert names["mask"].tolist() == visit.ask("return e.result.mask")


def test_a_finger_flips_by_a_tap_paints_sideways_and_scrolls_upwards(blank):
    with Visit(blank, MaskPainter(), width=390, has_touch=True, is_mobile=True) as visit:
        visit.page.touchscreen.tap(*cell(visit, 0, 11))
        assert visit.state["flips"] == [[0, 11], [2, 9]]
        node = visit.page.locator("[data-cell='5 6']")
        drag(visit, node, 60, 0)
        assert [5, 8] in visit.state["flips"]
        before = visit.state["flips"]
        drag(visit, node, 0, -100)
        visit.page.wait_for_function("scrollY > 50")
        assert visit.state["flips"] == before


def test_space_flips_the_cell_that_the_arrows_reached(blank):
    with Visit(blank, MaskPainter(flips=())) as visit:
        visit.page.locator("[data-cell='0 0']").focus()
        for key in ("ArrowRight", "ArrowDown", "ArrowRight", "Space"):
            visit.page.keyboard.press(key)
        assert visit.state["flips"] == [[1, 2]]


def test_what_is_copied_is_the_python(blank):
    with Visit(blank, MaskPainter()) as visit:
        visit.find("button >> text=Copy").click()
        assert visit.find("button >> text=/Copied|Selected/").is_visible()
        assert visit.page.evaluate("String(getSelection())") == visit.find(".code").inner_text()


def test_what_training_brings_is_kept_back_until_a_guess_and_said_as_it_was_measured(blank):
    thing = Emergence()
    halves = stored_run("emergence")["order"]["one head"]["0.5"]["steps"]
    with Visit(blank, thing) as visit:
        ahead = (
            "return [...e.shadowRoot.querySelectorAll('.ahead')].map((n) => n.getAttribute('d'))"
        )
        assert all(line.count("L") == 0 for line in visit.ask(ahead))
        for seed in range(3):
            for guess, right in (("layer 0", "No"), ("layer 1", "Right")):
                visit.ask("e.set({ seed: given }); await e.ready", seed)
                visit.find(f"[aria-label='{guess}’s head']").check(force=True)
                visit.ask("await e.ready")
                assert all(line.count("L") > 8 for line in visit.ask(ahead))
                second, first, fall = (
                    math.floor(halves[name][seed] + 0.5) for name in ("follows", "before", "loss")
                )
                words = visit.find(".say").inner_text()
                assert words.endswith(
                    f"{right}: with seed {seed} layer 1’s head is half-way after {second} steps, "
                    f"layer 0’s after {first}, the loss after {fall}."
                )
                assert 0.4 < visit.ask("return e.result.follows") < 0.65
        visit.ask("e.set({ seed: 2, freeze: 'layer 0' }); await e.ready")
        last = [stored_run("emergence")["runs"][f"{n}/2"]["loss"][-1] for n in ("layer 0", "both")]
        assert (
            visit.find(".say")
            .inner_text()
            .endswith(
                f"With layer 0 frozen the loss after 300 steps is {last[0]:.2f} nats, "
                f"with nothing frozen {last[1]:.2f}."
            )
        )


def test_a_tap_on_the_curves_goes_to_that_step(blank):
    with Visit(blank, Emergence(), width=390, has_touch=True, is_mobile=True) as visit:
        box = visit.find(".field").bounding_box()
        for share in (0.25, 0.5, 1.0):
            visit.page.touchscreen.tap(box["x"] + share * (box["width"] - 1), box["y"] + 20)
            there = f"document.querySelector('{visit.name}').result.step == {200 * share}"
            visit.page.wait_for_function(there)


def test_time_passes_when_play_is_pressed_and_only_then(blank):
    with Visit(blank, Speed(), reduced_motion="no-preference") as visit:
        ats = visit.ask("""
            const seen = [e.state.at, e.play(), e.tick(0.5), e.state.at, e.tick(0.75), e.state.at]
            e.play()  // a pause, from which it goes on
            seen.push(e.running, e.play(), e.state.at, e.tick(600), e.state.at, e.running)
            return seen.filter((x) => x !== undefined)""")
        start, half, later, paused, goes, end, runs = ats
        assert [start, half, later, paused, goes, runs] == [1, 0.5, 1.25, False, 1.25, False]
        now = Speed().result({**Speed().start(), "at": end})
        assert now["written"] == speed.N and end == pytest.approx(speed.N * now["first"])
        visit.ask("e.reset(); await e.ready")
        assert visit.state == Speed().start()


def test_without_motion_play_shows_the_end(blank):
    with Visit(blank, Speed()) as visit:
        visit.find("button >> text=Play").click()
        visit.ask("await e.ready")
        assert visit.ask("return e.result.written") == speed.N
        assert visit.find(".say").inner_text().endswith("128 tokens, all 32 have 4,096.")
        assert not visit.ask("return Boolean(e.running)")


def test_kept_pale_and_wrong_guesses_are_told_apart_and_the_words_are_the_texts(blank):
    plain = "".join(speed.in_lines(speed.numbers()["texts"][0].split("|")))
    with Visit(blank, Speed()) as visit:
        for draft in ("counts", "coarse"):
            visit.ask("e.set(given); await e.ready", {"draft": draft, "at": 0.9})
            looks = visit.ask("""return [...e.shadowRoot.querySelectorAll(".page span")]
                .map((span) => [span.className, span.textContent])""")
            said = "".join(words for look, words in looks if look in ("value", "ink"))
            assert plain.startswith(said) and len(said) > 40
            assert {"value", "gradient", "ink", "muted"} == {look for look, _ in looks}
            assert "without a draft" in visit.find(".say").inner_text()
        visit.ask("e.set(given); await e.ready", {"draft": "none", "load": 9, "at": 0.2})
        assert visit.find(".head .gradient").inner_text() == "you wait"


def tile(visit, name):
    """The tile of slow memory, or the slot, that is called so."""
    return visit.find(f"button[aria-label^='{name}']").first


def said(visit):
    """The sentence for the present state."""
    visit.ask("await e.ready")
    return visit.find(".say").inner_text().strip()


def touch(visit, *names):
    for name in names:
        tile(visit, name).click()


def test_the_first_row_is_shown_tile_by_tile(blank):
    """What is marked is what the sentence asks for, on a phone without scrolling."""
    wanted = "return [...e.shadowRoot.querySelectorAll('.wanted')].map((n) => n.textContent)"
    with Visit(blank, MemoryController(), width=390, has_touch=True, is_mobile=True) as visit:
        visit.ask("e.scrollIntoView()")
        for name in ("V₀", "K₁", "V₁", "K₂", "V₂", "K₃", "V₃"):
            assert said(visit).endswith(f"Tap {name}.")
            assert visit.ask(wanted) == [name]
            tile(visit, name).tap()
        assert visit.state["moves"] == MemoryController().start()["moves"] + "v0k1v1k2v2k3v3"
        assert visit.page.evaluate("scrollY") < 100
        assert visit.ask("return e.result.done") == [0, 1, 2, 3]
        assert said(visit) == (
            "+0.26 MB. ✓ Row 2 of Q₀: m rises by 1, old z and u shrink by e⁻¹ = .37. "
            "Y₀ finished and written. Your turn: three rows left."
        )
        assert visit.ask(wanted) == []
        assert visit.find("p >> text=4 of 16 pairs done").is_visible()
        visit.find("button >> text=Empty").tap()
        assert said(visit).endswith("Tap Q₀.")


def test_a_tap_brings_a_tile_and_where_all_is_full_the_next_tap_makes_room(blank):
    start = MemoryController().start()["moves"]
    with Visit(blank, MemoryController(), width=390, has_touch=True, is_mobile=True) as visit:
        for name in ("K₁", "S₀₁", "K₂"):
            tile(visit, name).tap()
        assert said(visit) == (
            "+0.13 MB. The scores of 2 of 16 pairs fill 8 of 12 slots; all would fill 64."
        )
        tile(visit, "S₀₂").tap()
        assert said(visit) == (
            "S₀₂ needs 4 free slots: tap on the chip what goes out. "
            "With V₂ there, one slot is enough."
        )
        tile(visit, "V₀").tap()
        assert said(visit) == "V₀ needs a free slot: tap on the chip what goes out."
        tile(visit, "slot 12: K₂").tap()
        full = start + "k1s1k2K2v0"
        assert said(visit) == "+0.13 MB. ✓ Scores added up and thrown away."
        assert visit.state["moves"] == full
        tile(visit, "S₀₁").tap()  # written, at four tiles
        tile(visit, "K₁").tap()
        tile(visit, "Q₁").tap()
        visit.ask("await e.ready")
        assert visit.state["moves"] == full + "S1K1q1"
        assert visit.ask("return e.result.done") == [0, 4]
        visit.find("button >> text=Undo").tap()
        visit.find("button >> text=Undo").tap()
        assert visit.state["moves"] == full + "S1"
        visit.find("button >> text=Empty").tap()
        assert visit.state["moves"] == ""
        visit.find("button >> text=Undo").tap()
        assert visit.state["moves"] == full + "S1"


def test_tiles_are_fetched_by_keys(blank):
    start = MemoryController().start()["moves"]
    with Visit(blank, MemoryController()) as visit:
        for key in ("Tab", "ArrowDown", "Enter", "Tab", "ArrowRight", "Enter"):
            visit.page.keyboard.press(key)
        assert visit.state["moves"] == start + "v0K0"
        visit.page.keyboard.press("Escape")
        assert visit.state["moves"] == start


def test_the_mouse_drags_tiles_into_a_slot_and_out_of_the_chip(blank):
    start = MemoryController().start()["moves"]
    with Visit(blank, MemoryController()) as visit:
        visit.ask("e.set({ moves: given }); await e.ready", start + "k1s1k2")
        tile(visit, "V₀").drag_to(tile(visit, "slot 12"))
        assert visit.state["moves"] == start + "k1s1k2K2v0"
        tile(visit, "slot 2").drag_to(tile(visit, "Q₃"))
        assert visit.state["moves"] == start + "k1s1k2K2v0K0"
        tile(visit, "Q₃").drag_to(tile(visit, "slot 5"))
        assert visit.state["moves"] == start + "k1s1k2K2v0K0q3"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_a_machine_fetches_step_by_step_or_by_itself(blank, motion):
    moves = "".join(order("causal", 7, True))
    with Visit(blank, MemoryController(), reduced_motion=motion) as visit:
        visit.ask("e.set({ level: 'causal', slots: 7, moves: '' }); await e.ready")
        machine = visit.find("button >> text=FlashAttention 2")
        machine.click()
        if motion == "reduce":
            visit.page.wait_for_timeout(600)
            assert visit.state["moves"] == moves[:2]
            while visit.state["moves"] != moves:
                machine.click()
        else:
            visit.page.wait_for_function(
                f"document.querySelector('{visit.name}').state.moves.length > 6"
            )
            machine.click()  # a pause
            assert moves.startswith(visit.state["moves"]) and not visit.ask("return e.timer")
            machine.click()
            visit.ask("while (e.timer) await new Promise((done) => setTimeout(done, 100))")
        assert visit.state["moves"] == moves
        visit.ask("await e.ready")
        assert said(visit) == (
            "✓ Every answer is exact, with 2.62 MB moved. An H100 could compute at its peak."
        )
        T, D = 2048, 128
        table = f"table: {(8 * T * D + 8 * T * T) / 1e6:.2f} MB"
        assert visit.find(f"text >> text={table}").is_visible()
        assert visit.find("text >> text=512 FLOP per byte").is_visible()


def test_what_comes_next_is_offered_when_all_pairs_are_done(blank):
    next_ = "button >> text=Next:"
    with Visit(blank, MemoryController()) as visit:
        seen = []
        for _ in range(6):
            assert (
                visit.find(next_).count() == 0 and visit.find("text >> text=roofline").count() == 0
            )
            visit.ask("e.set({ moves: e.result.orders[1].moves }); await e.ready")
            assert said(visit).startswith("✓ Every answer is exact")
            assert visit.find("text >> text=roofline").is_visible()
            seen.append((visit.state["level"], visit.state["slots"]))
            if visit.find(next_).count():
                visit.find(next_).click()
                visit.ask("await e.ready")
                assert visit.state["moves"] == "" and said(visit)
        assert seen == list(product(ROWS, (12, 5)))
        assert visit.find(next_).count() == 0


def test_what_a_step_costs_is_said_as_it_is_counted(blank):
    """Scores written out and read back are four tiles each; the counter rises by what is said."""
    with Visit(blank, MemoryController()) as visit:
        visit.find("button >> text=Empty").click()
        touch(visit, "Q₀", "K₀")
        assert said(visit) == "+0.13 MB. Tap S₀₀."
        scores = tile(visit, "S₀₀")
        assert scores.inner_text() == "S₀₀"
        counts = [visit.ask("return e.result.chip.moved")]
        for how in ("", "Written out: +", "+"):
            scores.click()
            words = said(visit)
            counts.append(visit.ask("return e.result.chip.moved"))
            cost = (counts[-1] - counts[-2]) / 1e6
            assert ("+" in words) == (cost > 0)
            if how:
                assert words.startswith(f"{how}{cost:.2f} MB.")
            assert visit.find(f"p >> text=chip: {counts[-1] / 1e6:.2f} MB moved").is_visible()
        assert [round((b - a) / SLOT) for a, b in pairwise(counts)] == [0, B, B]
        assert tile(visit, "slot 6").inner_text().startswith("S₀₀ 4/4")
        touch(visit, "K₀", "K₀")
        assert said(visit).startswith("+0.13 MB.")


def test_what_a_larger_maximum_does_to_z_and_u_is_said_in_words(blank):
    """By how much m rises and what e to that power is, as the table shows it of that row."""
    rise = re.compile(r"Row (\d) of Q(.): m rises by (\d), old z and u shrink by e⁻(.) = (\S+)\. ")
    table = "return e.rows.innerText.split('\\n').map((line) => line.split('\\t'))"
    found = 0
    with Visit(blank, MemoryController()) as visit:
        for level, rows in (("all pairs", B), ("two requests", 1)):
            visit.ask("e.set({ level: given, slots: 5, moves: '' }); await e.ready", level)
            moves, before = visit.ask("return e.result.orders[1].moves"), {}
            for n in range(2, len(moves) + 1, 2):
                visit.ask("e.set({ moves: given }); await e.ready", moves[:n])
                if not visit.ask("return e.result.done.length"):
                    continue
                shown = visit.ask(table)
                tile = shown[0][0].removeprefix("row of Q")
                assert shown[0][1:] == [str(row + 1) for row in range(rows)]
                now = {(tile, row): int(m) for row, m in enumerate(shown[1][1:], 1)}
                rises = [key for key in now if key in before and now[key] > before[key]]
                told = rise.search(said(visit))
                assert bool(told) == bool(rises) or said(visit).startswith("✓ Every")
                if told:
                    found += 1
                    row, of, by, power, factor = told.groups()
                    key = (of, int(row))
                    assert key == rises[0] and int(by) == now[key] - before[key]
                    assert "⁰¹²³⁴"[int(by)] == power
                    assert float(factor) == round(math.exp(-int(by)), 2)
                before |= now
    assert found == 3


def test_a_machine_says_that_it_begins_with_an_empty_chip(blank):
    with Visit(blank, MemoryController(), reduced_motion="no-preference") as visit:
        touch(visit, "K₂")
        mine = visit.state
        assert visit.find(".control:has-text('from an empty chip') button").count() == 2
        visit.find("button >> text=FlashAttention 1").click()
        assert said(visit) == "FlashAttention 1 began with an empty chip. Undo brings yours back."
        visit.find("button >> text=Undo").click()
        assert visit.state == mine and not visit.ask("return e.timer")


@pytest.mark.parametrize("width", [390, 760])
def test_controls_stay_where_they_are_whatever_is_said(blank, width):
    places = """e.scrollIntoView()
        return [...e.shadowRoot.querySelectorAll('.controls button, .controls label')]
        .filter((node) => !/^Next/.test(node.textContent))
        .map((node) => node.getBoundingClientRect()).map((box) => [box.x, box.y, box.width])"""
    with Visit(blank, MemoryController(), width=width, is_mobile=width < 500) as visit:
        start = visit.ask(places)
        for level, slots in product(ROWS, (12, 5)):
            visit.ask("e.set({ level: given[0], slots: given[1], moves: '' })", [level, slots])
            moves = visit.ask("return e.result.orders.map((order) => order.moves)")
            for moved in moves:
                for n in (0, 6, 12, 14, len(moved)):
                    visit.ask("e.set({ moves: given }); await e.ready", moved[:n])
                    assert visit.ask(places) == start, (level, slots, moved[:n])


def test_the_scale_grows_with_what_was_moved(blank):
    """Two requests and five slots: whoever brings the same keys again and again stays in sight."""
    inside = """const box = e.graph.getBoundingClientRect()
        const dot = e.graph.querySelector('circle').getBoundingClientRect()
        return dot.top >= box.top && dot.bottom <= box.bottom"""
    with Visit(blank, MemoryController()) as visit:
        for level, most in (("two requests", 3), ("all pairs", 8)):
            for again, times in (
                (10, 1),
                (30, 2 if most == 3 else 1),
                (100, 8 if most == 3 else 2),
            ):
                patch = {"level": level, "slots": 5, "moves": "k0K0" * again}
                visit.ask("e.set(given); await e.ready", patch)
                assert visit.find(f"text >> text='{most * times} MB'").is_visible(), (level, again)
                assert visit.ask(inside), (level, again)


def test_with_five_slots_v_first_makes_a_strip_of_scores_enough(blank):
    with Visit(blank, MemoryController()) as visit:
        visit.ask("e.set({ slots: 5, moves: 'q0k0' }); await e.ready")
        touch(visit, "S₀₀")
        assert said(visit) == (
            "S₀₀ needs 4 free slots: tap on the chip what goes out. "
            "With V₀ there, one slot is enough."
        )
        touch(visit, "V₀")
        assert said(visit) == "+0.13 MB. ✓ Scores made in one slot, added up and thrown away."
        assert visit.find(".board .computable").inner_text() == "scores, gone"
        touch(visit, "K₁", "V₁")
        assert said(visit) == "V₁ needs a free slot: tap on the chip what goes out."
        touch(visit, "slot 2: K₀")
        assert said(visit) == "+0.13 MB. No room to compute: free 1 more."
        touch(visit, "V₀")
        assert said(visit) == "✓ Scores made in one slot, added up and thrown away."


def test_under_the_causal_mask_a_tile_that_no_query_may_see_is_for_nothing(blank):
    with Visit(blank, MemoryController()) as visit:
        visit.ask("e.set({ level: 'causal', moves: 'q0' }); await e.ready")
        touch(visit, "K₁")
        assert said(visit) == "+0.13 MB. Masked: no query on the chip attends to K₁."
        touch(visit, "Q₁")
        assert said(visit) == "+0.13 MB."
        touch(visit, "V₁")
        assert visit.ask("return [...e.result.done]") == [5]


def test_a_change_stops_the_machine_and_undo_takes_every_change_back(blank):
    with Visit(blank, MemoryController(), reduced_motion="no-preference") as visit:
        assert visit.find("button >> text=Undo").is_disabled()
        states = [visit.state]
        changes = {
            "a move": lambda: touch(visit, "K₂"),
            "a level": lambda: visit.find("label:has-text('causal')").click(),
            "slots": lambda: visit.find("label:has-text('5')").click(),
            "Escape": lambda: visit.page.keyboard.press("Escape"),
            "Empty": lambda: visit.find("button >> text=Empty").click(),
            "Reset": lambda: visit.find("button.reset").click(),
        }
        for name, change in changes.items():
            visit.find("button >> text=FlashAttention 1").click()
            visit.ask("await e.ready")
            assert visit.ask("return !!e.timer"), name
            visit.page.wait_for_timeout(500)
            change()
            assert not visit.ask("return e.timer"), name
            states.append(visit.state)
            visit.page.wait_for_timeout(500)
            assert visit.state == states[-1], name
        for state in states[-2::-1]:
            visit.find("button >> text=Undo").click()  # before the change, where the machine was
            visit.find("button >> text=Undo").click()
            assert visit.state == state
        assert visit.find("button >> text=Undo").is_disabled()


def test_on_a_phone_a_machine_is_seen_at_work_and_fingers_have_room(blank):
    with Visit(blank, MemoryController(), width=390, has_touch=True, is_mobile=True,
               reduced_motion="no-preference") as visit:  # fmt: skip
        sides = f"""return [...e.shadowRoot.querySelectorAll("{TARGETS}")]
            .map((node) => node.getBoundingClientRect()).filter((box) => box.width)
            .map((box) => Math.min(box.width, box.height))"""
        assert min(visit.ask(sides)) >= 44
        machine = visit.find("button >> text=FlashAttention 2")
        machine.scroll_into_view_if_needed()
        machine.tap()
        box = visit.find(".board").bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= visit.page.viewport_size["height"]
        machine.tap()


def test_explorables_and_drawings_have_one_palette(blank):
    """Both are put on one page; the browser says what colour each variable has in each."""
    from bookkit.drawings.palette import CSS

    with Visit(blank, AttentionByHand()) as visit:
        visit.page.locator("main").evaluate(
            "(node, css) => { node.innerHTML += `<style>${css}</style><div class=drawing></div>` }",
            CSS,
        )
        colours = """node => Object.fromEntries(given.map((name) =>
            [name, getComputedStyle(node).getPropertyValue(name).trim()]))"""
        names = re.findall(r"(--d-\w+): #", CSS)
        assert len(set(names)) > 12
        for theme in ("light", "dark"):
            visit.page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            ours, theirs = (
                visit.page.locator(place).first.evaluate(
                    colours.replace("given", json.dumps(sorted({*names} - {"--d-grey"})))
                )
                for place in (visit.name, ".drawing")
            )
            assert ours == theirs
        for role, fill, reach in element.FILLS:
            assert element.palette("light")[f"--d-{role}-fill"] in fill
            assert element.palette("light")[f"--d-{role}-reach"] == reach
