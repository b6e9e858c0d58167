"""Do the writers of chapter 1 need short lessons, or a lower learning rate?

    python results/bracket_rates.py        # resumed run by run; about five minutes on one free core

Question. `bracket_writers.py` trained at one rate, 0.01, not chosen from a grid: on the mixed text
alone its LSTMs wrote .70 and .26 of their far brackets right, with short lessons first .99. What do
both reach at 0.003? (A pilot with seed 1, the one of .26, gave the right kind .76 of the
probability after 2,000 steps of the mixed text alone.)
Budget. Model, text, 2,000 steps, batches, lessons and measure are those of `bracket_writers.py`.
The layer runs in torch's LSTM on the same weights, which is faster; a test compares the two.
Reporting seeds 2 and 3; the mixed text alone first, each stored when both seeds are there.
Baselines. A quarter, chance; the runs at 0.01.
No gain. The rate changes nothing if at 0.003 neither LSTM of the mixed text alone has more than .70
of its far brackets right. Short lessons gain nothing at 0.003 if with them the worse seed is no
better than the better one without.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from bracket_writers import LENGTH, LESSONS, LINES, WIDTH, judged, loss
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.data.brackets import CHARACTERS, brackets
from attnbook.provenance import provenance, write
from attnbook.recurrent import LanguageModel, LSTMCell, language_model
from attnbook.train.loop import cosine, train
from bookkit.results.protocol import Runs, Study, committed

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "bracket_rates.json"
RATE = 0.003
STUDY = Study(
    name="bracket_rates",
    question="Do the writers of chapter 1 need short lessons, or a lower rate?",
    budget="2,000 steps of 64 windows of 64 characters",
    reporting_seeds=(2, 3),
    baselines=("a quarter, chance", "the runs at 0.01"),
    no_gain="at 0.003 the worse seed with short lessons is no better than the better one without",
)


class Fast(nn.Module):
    """The book's model in torch's LSTM, with the very same weights."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.embed, self.lm_head = model.embed, model.lm_head
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        cell: Any = model.body.layers[0].cell
        self.lstm.weight_ih_l0, self.lstm.bias_ih_l0 = cell.from_input.weight, cell.from_input.bias
        self.lstm.weight_hh_l0, self.lstm.bias_hh_l0 = cell.from_state.weight, cell.from_state.bias

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        return self.lm_head(self.lstm(self.embed(tokens))[0]), None


def network(lessons: Sequence[tuple[int, int]], seed: int) -> dict[str, Any]:
    """As `bracket_writers.network`, at `RATE`."""
    docs = text.load("python-docs")
    torch.manual_seed(seed)
    model = language_model(LSTMCell, len(CHARACTERS), WIDTH)
    for n, (far, steps) in enumerate(lessons):
        sampler, schedule, drawn = brackets(docs.train, far=far), cosine(steps, 50), seed + 100 * n
        train(
            Fast(model), sampler, loss, steps=steps, lr=RATE,
            schedule=schedule, seed=drawn, progress=False,
        )  # fmt: skip
    held_out = brackets(docs.validation, B=300)(torch.Generator().manual_seed(99))
    with torch.no_grad():
        nats = round(loss(model, held_out).item(), 4)
    start = CHARACTERS.encode(" ").expand(LINES, 1)
    drawn_lines = model.sample(start, LENGTH, torch.Generator().manual_seed(seed))
    return {"loss": nats} | judged([CHARACTERS.decode(row) for row in drawn_lines])


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "bracket_rates.draft", write)
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "rate": RATE}
    for name, lessons in LESSONS.items():

        def of_seed(seed: int, name: str = name, lessons: Any = lessons) -> dict[str, Any]:
            return runs.get(f"{name}/{seed}", partial(network, lessons, seed))

        result[name] = STUDY.report(of_seed)
        write(STORE, result | {"provenance": provenance(device.choose(0))})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
