"""A paged KV cache: keys and values of many sequences in one store, found by their block tables.

Kwon et al. 2023, section 4.1. Their kernel reads the pages where they lie; here they are gathered
into one tensor first, which is exact and costs a copy.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.cache import AppendOnly, KeysAndValues
from attnbook.generate.sampling import last_logits
from attnbook.masks import Grid
from attnbook.serving.pages import Pages, Table

Store = Float[Tensor, "pages size H D"]


class Rows:
    """The sequences of one call of the model: where they write, and where their past lies.

    Row b has `tables[b].length` positions and writes T more, all T alike; the pages for them are
    reserved already.
    """

    def __init__(self, pages: Pages, tables: Sequence[Table], new: Int[Tensor, "B T"]):
        T, lengths = new.shape[1], [table.length for table in tables]
        ends = new.new_tensor(lengths)[:, None]
        self.positions: Int[Tensor, "B T"] = ends + torch.arange(T, device=new.device)
        self.total, self.T, self.size = max(lengths) + T, T, pages.size
        self.alike = len({*lengths}) == 1
        used = -(-self.total // pages.size)
        rows = [(table.pages + [0] * used)[:used] for table in tables]
        self.blocks: Int[Tensor, "B used"] = new.new_tensor(rows)
        self.page = self.blocks.gather(1, self.positions // pages.size)
        self.inside = self.positions % pages.size

    @property
    def there(self) -> Bool[Tensor, "B total"] | None:
        """True where a row has a key, False beyond its end; None if all rows are as long."""
        if self.alike:
            return None
        ends = self.positions[:, -1:]
        return torch.arange(self.total, device=ends.device) <= ends


class PagedLayer(AppendOnly):
    """The cache of one layer, for one call of the model: what attention asks of a cache."""

    def __init__(self, cache: "PagedCache", layer: int, rows: Rows):
        self.cache, self.layer, self.rows = cache, layer, rows
        self.length = rows.total - rows.T

    def append(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]) -> KeysAndValues:
        """Write the new positions into their pages; return those of all, gathered."""
        keys, values = self.cache.stores(self.layer, k, v)
        rows = self.rows
        found = []
        for store, new in ((keys, k), (values, v)):
            store[rows.page, rows.inside] = new.transpose(1, 2)
            found.append(store[rows.blocks].flatten(1, 2)[:, : rows.total].transpose(1, 2))
        return found[0], found[1]

    def total(self, T: int) -> int:
        """A mask speaks of the positions of the longest row."""
        return self.rows.total

    def grid(self, B: int, Tq: int, Tk: int, device: torch.device) -> Grid:
        """The keys stand at 0, 1, …; a mask says where a row's end is."""
        return Grid(B, Tq, Tk, device)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        raise ValueError("a paged cache has no rows to select: fork the sequence's table")

    def cut(self, length: int) -> None:
        raise ValueError("a paged cache is not cut: release the sequence's table")


class PagedCache:
    """The keys and values of all layers of a model, in the pages that `pages` hands out."""

    def __init__(self, pages: Pages, layers: int):
        self.pages, self.layers = pages, layers
        self.kept: dict[int, tuple[Store, Store]] = {}

    def stores(self, layer: int, k: Tensor, v: Tensor) -> tuple[Store, Store]:
        """The two tensors of a layer; made when its sizes are known."""
        if layer not in self.kept:
            shape = self.pages.count, self.pages.size
            with torch.inference_mode(False):
                self.kept[layer] = (
                    k.new_zeros(*shape, k.shape[1], k.shape[3]),
                    v.new_zeros(*shape, v.shape[1], v.shape[3]),
                )
        return self.kept[layer]

    def copy_pages(self) -> None:
        """Do the copies that forked sequences need."""
        for old, new in self.pages.copies:
            for stores in self.kept.values():
                for store in stores:
                    store[new] = store[old]
        self.pages.copies.clear()

    @torch.no_grad()
    def read(
        self, model: nn.Module, tables: Sequence[Table], new: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B V"]:
        """The logits after the last of T new tokens of each sequence.

        Several sequences of different lengths read one token each (T = 1); one alone any number.
        """
        if new.shape[1] > 1 and len({table.length for table in tables}) > 1:
            raise ValueError(
                f"rows of different lengths read one token at a time; got {new.shape[1]}"
            )
        for table in tables:
            self.pages.reserve(table, new.shape[1])
        self.copy_pages()
        rows = Rows(self.pages, tables, new)
        layers = [PagedLayer(self, layer, rows) for layer in range(self.layers)]
        return last_logits(model, new, layers, mask=rows.there, positions=rows.positions)
