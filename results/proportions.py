"""How wide, how deep: the proportions of the twenty open models of results/open_models.json.

    python results/proportions.py          # some seconds

Width, layers and vocabulary are read from each model's configuration in `transformers`, with the
settings of `open_models.py`, whose sums of weights confirmed them. `network` counts the hidden
channels of the feed-forward networks that work on a token: of the one network, or of the experts
that it goes to and of the shared ones (how many these are says the table's column "Experts").
"""

import json
import re
from pathlib import Path
from typing import Any

import transformers
from model_code import Model
from open_models import MODELS, OUT

from attnbook import device
from attnbook.provenance import provenance, write

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "proportions.json"


def proportions(model: Model, experts: str) -> dict[str, int]:
    """Width, layers, hidden channels at work on a token and vocabulary of one model."""
    config: Any = getattr(transformers, model.config or f"{model.kind}Config")(**model.settings)
    hidden, at_once = config.intermediate_size, 1
    if experts != "dense":
        hidden = getattr(config, "moe_intermediate_size", None) or hidden
        found = [re.search(pattern, experts) for pattern in (r"(\d+) at a time", r"(\d+) shared")]
        at_once = sum(int(number[1]) for number in found if number)
    return {
        "width": config.hidden_size,
        "layers": config.num_hidden_layers,
        "network": at_once * hidden,
        "vocabulary": config.vocab_size,
    }


def main() -> None:
    table = {row["name"]: row["cells"] for row in json.loads(OUT.read_text("utf-8"))["models"]}
    found = {m.name: proportions(m, table[m.name]["Experts"]["says"]) for m in MODELS}
    said = {"transformers": transformers.__version__, "models": found}
    write(STORE, said | {"provenance": provenance(device.choose())})
    for name, numbers in found.items():
        print(name, numbers)


if __name__ == "__main__":
    main()
