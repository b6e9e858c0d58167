"""Pictures read aloud: patches as a prefix, and a language model that goes on with words.

One decoder over one sequence, as in LLaVA (Liu et al. 2023) and its kind; the mask is that of a
prefix language model (Raffel et al. 2020, section 3.2.1).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.losses import token_loss
from attnbook.masks import Mask, causal, prefix
from attnbook.modalities.body import shared_body
from attnbook.positions import Learned
from attnbook.vision import cut


class Captioner(nn.Module):
    """Patches of a picture and the words so far in one sequence: what is the next word?

    Patches see each other, words see all patches and the words before them. `begin` starts a
    caption; a picture has `places` patches of `size` × `size` pixels, a caption `words` words.
    """

    def __init__(
        self,
        size: int,
        places: int,
        words: int,
        vocabulary: int,
        begin: int,
        width: int = 64,
        blocks: int = 2,
    ):
        super().__init__()
        self.size, self.places, self.begin = size, places, begin
        self.body = shared_body(width, blocks)
        self.patch, self.word = nn.Linear(size * size, width), nn.Embedding(vocabulary, width)
        self.at = Learned(places + words, width)
        nn.init.normal_(self.at.table, std=0.5)
        self.output = nn.Linear(width, vocabulary)
        self.mask: Mask = prefix(places) | causal

    def forward(
        self, images: Float[Tensor, "B 1 rows columns"], words: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits of the word after each of these words."""
        picture, text = self.patch(cut(images, self.size)), self.word(words)
        x = torch.cat((picture, text), 1)
        x = self.body(x + self.at(x.shape[1]), mask=self.mask)
        return self.output(x[:, self.places :])

    def loss(
        self, images: Float[Tensor, "B 1 rows columns"], captions: Int[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Teacher forcing: each word of the caption from the picture and the words before it."""
        first = torch.full_like(captions[:, :1], self.begin)
        return token_loss(self(images, torch.cat((first, captions[:, :-1]), 1)), captions)

    @torch.no_grad()
    def write(
        self, images: Float[Tensor, "B 1 rows columns"], words: int
    ) -> Int[Tensor, "B words"]:
        """The most likely word, again and again."""
        said = torch.full((len(images), 1), self.begin, device=images.device)
        for _ in range(words):
            said = torch.cat((said, self(images, said)[:, -1:].argmax(-1)), 1)
        return said[:, 1:]
