"""Print what the benchmarks stored: ours beside each rival, a line per case.

python benchmarks/tables.py
"""

import json
from pathlib import Path

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


def main() -> None:
    """All stored results, with the machine of each."""
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


if __name__ == "__main__":
    main()
