"""Print what the benchmarks stored: ours beside each rival, a line per case.

    python benchmarks/print_tables.py
    python benchmarks/print_tables.py _build/bench     the speed run and the decoding of that folder

Without a folder these two are the stored ones.
"""

import argparse
import json
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parents[1]
FAST, BESIDE = "src/bookkit/runs/fast.json", "src/bookkit/runs/decoding.json"
SIZE = ("B", "T", "width", "depth", "heads", "D", "norm", "causal")


def lines(case: dict) -> list[str]:
    """One line per rival of a case: what, size, our median and theirs in ms, ratio, quartiles."""
    ours, *rivals = [name for name, value in case.items() if isinstance(value, dict)]
    size = ", ".join(f"{key} {case[key]}" for key in SIZE if key in case)
    return [
        f"{case.get('what', 'forward and backward'):22} {name:20} {case[ours]['median']:>10.2f}"
        f" {case[name]['median']:>10.2f} {case[name]['ratio']:>6.2f}"
        f"  {case[name]['quartiles'][0]:.2f}–{case[name]['quartiles'][1]:.2f}  {size}"
        for name in rivals
    ]


def beside_generate(path: Path) -> list[str]:
    """A line per way to write: milliseconds a step, and the speed beside transformers' own."""
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cases": []}
    found = ["\nwriting, beside transformers' generate"]
    found += [
        f"{'model':20} {'texts':>5} {'threads':>7}  {'way':28} {'ms a step':>10} {'speed':>6}"
    ]
    for case in stored["cases"]:
        size = f"{case['model']:20} {case['B']:5} {case['threads']:7}"
        found += [
            f"{size}  {name:28} {way['ms a step']:10.2f} {way['ratio']:6.2f}"
            for name, way in case["ways"].items()
        ]
    return found


def speed_run(folder: Path) -> list[str]:
    """A line per rung of the speed run, and nanoGPT's own: nats, processor seconds, seeds."""
    found = [f"\nspeed run: {folder.name}", f"{'rung':40} {'nats':>6} {'CPU s':>6} {'seeds':>6}"]
    for path in sorted(folder.glob("[0-9]*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        runs, times = stored["runs"], stored["config"]["times"]
        nats, seconds = (
            mean(run[name] for run in runs) for name in ("validation_loss", "cpu_seconds")
        )
        name = stored["rung"] + f", {times} times the steps" * (times > 1)
        found.append(f"{name:40} {nats:6.3f} {seconds:6.1f} {len(runs):6}")
    if (rival := folder / "nanoGPT.json").exists():
        run = json.loads(rival.read_text(encoding="utf-8"))
        nats, seconds = run["validation_loss"], run["cpu_seconds"]
        found.append(f"{'nanoGPT, its own script':40} {nats:6.3f} {seconds:6.1f} {1:6}")
    return found


def decoding(path: Path) -> list[str]:
    """A line per way to write: milliseconds a step, and the speed beside the plain cache."""
    found = [f"\ndecoding: {path.name}", f"{'texts':>5} {'way':20} {'ms a step':>10} {'speed':>6}"]
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}
    for name, ways in runs.items():
        if name.startswith("speed/"):
            texts = name.split("/")[1]
            found += [
                f"{texts:>5} {way:20} {1e3 * one['median']:10.2f} {one['ratio']:6.2f}"
                for way, one in ways.items()
            ]
    return found


def main() -> None:
    """All stored results, with the machine of each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="of a new speed run and decoding")
    folder = parser.parse_args().folder
    for path in sorted(Path(__file__).parent.glob("*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        machine = stored["provenance"]
        print(f"\n{path.stem}: {machine.get('device', '')} {machine.get('processor', '')}".rstrip())
        print(f"{'what':22} {'beside':20} {'ours, ms':>10} {'theirs':>10} {'ratio':>6}  quartiles")
        for case in stored["cases"]:
            if not any(isinstance(value, dict) for value in case.values()):
                print(f"{case['rival']}: {case['what']}")
                continue
            print("\n".join(lines(case)))
    print("\n".join(speed_run(folder or ROOT / "results/speedrun")))
    print("\n".join(decoding(folder / "fast.json" if folder else ROOT / FAST)))
    print("\n".join(beside_generate(folder / "decoding.json" if folder else ROOT / BESIDE)))


if __name__ == "__main__":
    main()
