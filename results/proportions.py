"""How wide, how deep: the proportions of the open models of open_models.json.

    python results/proportions.py          # some seconds

Width, layers and vocabulary are read from each model's configuration in `transformers`, with the
settings of `open_models.py`, whose sums of weights confirmed them. `network` counts the hidden
channels of the feed-forward networks that work on a token: of the one network, or of the experts
that it goes to and of the shared ones (how many these are says the table's column "Experts").
Month, parameters in all and active (billions), kB of cache per token and the layers that attend to
all that came before are taken from the table's cells.
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


Cells = dict[str, dict[str, str]]


def proportions(model: Model, cells: Cells) -> dict[str, Any]:
    """The numbers of one model, of its configuration and of its cells in the table."""
    config: Any = getattr(transformers, model.config or f"{model.kind}Config")(**model.settings)
    experts = cells["Experts"]["says"]
    hidden, at_once = getattr(config, "intermediate_size", 0), 1
    if experts != "dense":
        hidden = getattr(config, "moe_intermediate_size", None) or hidden
        found = [re.search(pattern, experts) for pattern in (r"(\d+) at a time", r"(\d+) shared")]
        at_once = sum(int(number[1]) for number in found if number)
    parameters = re.findall(r"([\d.]+) (B|T)", cells["Parameters"]["says"])
    billions = [float(number) * (1000 if unit == "T" else 1) for number, unit in parameters]
    everything = re.search(r"(\d+) × full", cells["Layers"]["says"])
    return {
        "width": config.hidden_size,
        "layers": config.num_hidden_layers,
        "network": at_once * hidden,
        "vocabulary": config.vocab_size,
        "month": model.month,
        "total": billions[0],
        "active": billions[-1],
        "cache": float(cells["Cache, per token"]["says"].removesuffix(" kB")),
        "full": int(everything[1]) if everything else 0,
    }


def main() -> None:
    table = {row["name"]: row["cells"] for row in json.loads(OUT.read_text("utf-8"))["models"]}
    found = {m.name: proportions(m, table[m.name]) for m in MODELS}
    said = {"transformers": transformers.__version__, "models": found}
    write(STORE, said | {"provenance": provenance(device.choose())})
    for name, numbers in found.items():
        print(name, numbers)


if __name__ == "__main__":
    main()
