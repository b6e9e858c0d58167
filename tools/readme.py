"""Write the README's table of measured numbers anew, from the stored runs.

python tools/readme.py
"""

import json
import re
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BETWEEN = re.compile(r"(?<=<!-- numbers -->\n).*?(?=<!-- /numbers -->)", re.DOTALL)
RUNS, RESULTS = "src/bookkit/runs", "results"
FAST, LADDER, BESIDE = f"{RUNS}/fast.json", f"{RUNS}/speedrun.json", "benchmarks/models.json"
DECODING = f"{RUNS}/decoding.json"
WEIGHTS = "src/attnbook/weights"
MODEL = f"{WEIGHTS}/book-lm/card.json"
TWINS = {"attention": "with attention", "vector": "with one vector"}


def stored(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def trained() -> list[str]:
    """tiny Shakespeare beside nanoGPT's own script: nats per character and processor seconds."""
    run, rival = stored(LADDER), stored(f"{RESULTS}/speedrun/nanoGPT.json")
    last = list(run["rungs"].values())[-1]
    (longer,) = run["longer"]["8"].values()
    ours = "; ".join(reached(one) for one in (last, longer))
    theirs = f"nanoGPT {rival['validation_loss']:.2f} in {rival['cpu_seconds']:.0f} s"
    what = (
        f"tiny Shakespeare, {rival['parameters'] / 1e6:.1f} million parameters, nats per character"
    )
    return [f"[{what}]({LADDER})", ours, theirs]


def reached(run: Any) -> str:
    losses, seconds = run["validation_loss"], run["cpu_seconds"]
    return f"{mean(losses):.2f} in {mean(seconds):.0f} s, {len(losses)} seeds"


def model() -> list[str]:
    card = stored(MODEL)
    ours, counts = card["nats_per_byte"], card["table_of_counts"]
    what = f"the book's language model, {card['parameters'] / 1e6:.1f} million, nats per byte"
    texts = {"shakespeare": "plays", "python-docs": "documentation"}
    row = [", ".join(f"{texts[k]} {of[k]:.2f}" for k in texts) for of in (ours, counts)]
    return [f"[{what}]({MODEL})", row[0], f"table of counts: {row[1]}"]


def translated() -> list[str]:
    """BLEU with 4 beams of the three translators that are shipped."""
    card = stored(f"{WEIGHTS}/translator/card.json")
    what = f"the book's translator, {card['parameters'] / 1e6:.1f} million, BLEU on Multi30k"
    ours = f"{card['test']['bleu_4_beams']:.1f} after {60 * card['cpu_hours']:.0f} min"
    twins = {name: stored(f"{WEIGHTS}/translator-{name}/card.json") for name in TWINS}
    beside = ", ".join(f"{TWINS[k]} {of['test']['bleu_4_beams']:.1f}" for k, of in twins.items())
    return [f"[{what}]({WEIGHTS}/translator/card.json)", ours, f"recurrent twins: {beside}"]


def written() -> list[str]:
    speeds = stored(FAST)["runs"]
    texts = {"one text": speeds["speed/1/texts"], "16 texts": speeds["speed/16/texts"]}
    best = {what: max(ratios(ways)) for what, ways in texts.items()}
    ours = ", ".join(f"{what}: {ratio:.1f} × ({way})" for what, (ratio, way) in best.items())
    return [f"[tokens a second, same weights]({FAST})", ours, "the plain cache: 1"]


def generated() -> list[str]:
    """Our fastest way to write one text on one thread, beside `generate` of transformers."""
    cases = [case for case in stored(DECODING)["cases"] if case["B"] == case["threads"] == 1]
    found = [(case["model"], max(ratios(case["ways"], "attnbook"))) for case in cases]
    rival = [(case["model"], max(ratios(case["ways"], "transformers"))) for case in cases]
    ours, theirs = (
        "; ".join(f"{model}: {ratio:.1f} × ({way})" for model, (ratio, way) in ways)
        for ways in (found, rival)
    )
    beside = f"its plain `generate`: 1; its fastest: {theirs}"
    return [f"[tokens a second beside transformers, same weights]({DECODING})", ours, beside]


def ratios(ways: dict[str, Any], whose: str = "") -> list[tuple[float, str]]:
    return [
        (way["ratio"], name.removeprefix(f"{whose}, "))
        for name, way in ways.items()
        if "ratio" in way and name.startswith(whose)
    ]


def steps() -> list[str]:
    """Our time over theirs for a training step, the middle of all sizes."""
    found: dict[str, list[float]] = {}
    for case in stored(BESIDE)["cases"]:
        if case["what"] in ("training step", "stack") and isinstance(case.get(case["rival"]), dict):
            found.setdefault(case["rival"], []).append(case[case["rival"]]["ratio"])
    ours = ", ".join(f"{name} {median(times):.2f}" for name, times in found.items())
    return [f"[time of a training step, ours over theirs]({BESIDE})", ours, "1 is level"]


def table() -> str:
    rows = [["what", "measured, one CPU thread", "beside"], ["---"] * 3]
    rows += [trained(), model(), translated(), written(), generated(), steps()]
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n"


def main() -> None:
    path = ROOT / "README.md"
    path.write_text(BETWEEN.sub(table(), path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
