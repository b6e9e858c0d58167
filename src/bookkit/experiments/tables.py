"""The small transformer that reads tables (chapter 11), with the weights that the book ships."""

from pathlib import Path

from attnbook.modalities.tables import TableTransformer
from attnbook.quantise import quantised_file
from attnbook.shipped.language import widened

WEIGHTS = Path(__file__).parent / "stored" / "tables.safetensors"


def shipped() -> TableTransformer:
    """Trained on made-up tables alone (`results/tables.py`), in evaluation mode."""
    few = quantised_file.load(TableTransformer(), WEIGHTS)
    model = TableTransformer()
    model.load_state_dict(widened(few))
    return model.eval().requires_grad_(False)
