"""Steps that others measured on few machines and on many, to hold the planner's network against."""

from dataclasses import dataclass

from attnbook.decoder_config import DecoderConfig, PlainDecoderConfig
from attnbook.planner.layout import Batch, Layout, collectives
from attnbook.planner.pace import LINKS, pace


@dataclass(frozen=True)
class Scaling:
    """FSDP alone, with the same work for each GPU: `rounds` times `micro` windows of `T` tokens.

    `fewer` and `more` are numbers of GPUs, with the tokens a second that all of them read. Since
    each GPU computes the same in both, only what is sent, and how fast, can change a step.
    """

    name: str
    decoder: DecoderConfig
    gpu: str
    T: int
    micro: int
    rounds: int
    fewer: tuple[int, int]
    more: tuple[int, int]

    def took(self, run: tuple[int, int]) -> float:
        """Measured seconds of a step."""
        gpus, speed = run
        return gpus * self.rounds * self.micro * self.T / speed

    def sends(self, gpus: int) -> int | float:
        """Planned seconds of sending in a step."""
        return pace(*self.arranged(gpus), self.gpu).data

    def arranged(self, gpus: int) -> tuple[DecoderConfig, Layout, Batch]:
        """Model, layout and batch of the run on so many GPUs."""
        batch = Batch(gpus * self.rounds * self.micro * self.T, self.T, self.micro)
        return self.decoder, Layout(gpus, shard=3), batch

    def planned(self) -> tuple[int | float, int | float]:
        """Seconds of a step on more GPUs, from that on fewer: if all sending is hidden behind
        computing, and if nothing is."""
        few, many = self.sends(self.fewer[0]), self.sends(self.more[0])
        took = self.took(self.fewer)
        return max(took, many), took - few + many

    def one_card(self) -> int | float:
        """The least that a step could take, if all that a GPU sends left by its own card."""
        alone = collectives(*self.arranged(self.more[0])).data / LINKS[self.gpu][1]
        return max(self.took(self.fewer), alone)


def mpt_config(depth: int, width: int) -> PlainDecoderConfig:
    """MPT of MosaicML: plain networks four times as wide, a shared table of 50,368 tokens."""
    heads = width // 128
    return PlainDecoderConfig(50_368, width, depth, heads, heads, 4 * width, tie=True)


LLAMA_8B = DecoderConfig(128_256, 4096, 32, 32, 8, 14_336)


def scalings() -> list[Scaling]:
    """Pairs of rows that differ in the number of GPUs alone.

    MPT: the tables of llm-foundry (scripts/train/benchmarking/README.md at commit 061f2c7), all
    "FULL_SHARD" with windows of 2,048; A100 machines joined by 1,600 gigabit/s. Llama 3.1 8B:
    torchtitan (benchmarks/llama3_h100_202412_torchtitan.md at commit 31a17bf, tables 1 and 3, with
    torch.compile), machines of eight cards of 400 gigabit/s.
    """
    return [
        Scaling("MPT 13B", mpt_config(40, 5120), "h100", 2048, 2, 1, (8, 38_336), (16, 76_280)),
        Scaling("MPT 13B", mpt_config(40, 5120), "h100", 2048, 2, 1, (8, 38_336), (32, 153_960)),
        Scaling("MPT 13B", mpt_config(40, 5120), "h100", 2048, 2, 1, (8, 38_336), (64, 307_209)),
        Scaling("MPT 3B", mpt_config(32, 2560), "h100", 2048, 6, 3, (32, 736_701), (64, 1_441_663)),
        Scaling(
            "MPT 1B", mpt_config(24, 2048), "h100", 2048, 20, 1, (16, 736_596), (64, 2_841_754)
        ),
        Scaling("Llama 3.1 8B", LLAMA_8B, "h100", 8192, 2, 1, (8, 8 * 6667), (128, 128 * 6514)),
        Scaling("MPT 7B", mpt_config(32, 4096), "a100", 2048, 18, 1, (32, 119_202), (128, 463_749)),
        Scaling(
            "MPT 13B", mpt_config(40, 5120), "a100", 2048, 16, 1, (64, 126_479), (128, 252_444)
        ),
    ]
