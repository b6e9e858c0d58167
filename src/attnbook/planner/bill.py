"""How long a run takes, and runs that were published to hold the answer against."""

from dataclasses import dataclass

from attnbook.decoder_config import DecoderConfig, PlainDecoderConfig

GPUS = {"a100": (312e12, 80e9), "h100": (989e12, 80e9), "h200": (989e12, 141e9)}
"""Peak of bfloat16 products without sparsity, operations a second, and memory in bytes, as NVIDIA's
data sheets give them."""


@dataclass(frozen=True)
class Bill:
    """`speed` in tokens a second, of all GPUs; `days`; `hours` of GPUs; `flops` of the model."""

    speed: int | float
    days: int | float
    hours: int | float
    flops: int | float


def bill(work: int | float, tokens: int | float, gpus: int, rate: int | float) -> Bill:
    """For `tokens` of `work` operations each, on GPUs that do `rate` a second each.

    The rate is a peak times an efficiency (MFU) that somebody has to know: it stands for all that
    is not computing, waiting for others included. Raises ValueError for what is not above 0.
    """
    for name, value in {"work": work, "tokens": tokens, "gpus": gpus, "rate": rate}.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; a number above 0 is needed")
    speed = gpus * rate / work
    seconds = tokens / speed
    return Bill(speed, seconds / 86_400, gpus * seconds / 3600, work * tokens)


@dataclass(frozen=True)
class Published:
    """A run as its makers describe it: `work` for each token, what each GPU was measured to do (its
    `rate`, operations a second), and the hours of GPUs that they say it took."""

    name: str
    work: int | float
    tokens: int | float
    gpus: int
    rate: int | float
    hours: int | float

    def planned(self) -> Bill:
        """What the planner says of it, without looking at the hours."""
        return bill(self.work, self.tokens, self.gpus, self.rate)

    @property
    def error(self) -> float:
        """Planned hours over published hours, less 1."""
        return self.planned().hours / self.hours - 1


LLAMA_405B = DecoderConfig(128_256, 16_384, 126, 128, 8, 53_248)
BLOOM_176B = PlainDecoderConfig(250_680, 14_336, 70, 112, 112, 57_344, tie=True)
MT_NLG_530B = PlainDecoderConfig(50_272, 20_480, 105, 128, 128, 81_920, tie=True)


def published() -> list[Published]:
    """Four runs, of which the rate of a GPU and the time that it took are both public.

    Llama 3.1 405B: Grattafiori et al. 2024 (The Llama 3 Herd of Models), 15.6 trillion tokens,
    400 teraFLOP/s a GPU on 16,384 H100; hours from Meta's model card. BLOOM: Le Scao et al. 2022,
    384 A100, 366 billion tokens, 1,082,990 hours; about 150 teraFLOP/s from the project's page,
    recomputation counted. PaLM: Chowdhery et al. 2022, 780 billion tokens, 45.7 % of a TPU v4's
    275 teraFLOP/s without attention (appendix B); 1,200 hours of 6,144 and 336 of 3,072, "including
    some downtime and repeated steps". Megatron-Turing NLG: Smith et al. 2022, section 2.4: one
    step, 1,920 windows of 2,048 tokens, on 2,240 A100 takes 60.1 s at 126 teraFLOP/s.
    """
    llama, bloom = LLAMA_405B.flops(8192), BLOOM_176B.flops(2048, again=True)
    step = 1920 * 2048
    turing = MT_NLG_530B.flops(2048, again=True)
    return [
        Published("Llama 3.1 405B", llama, 15.6e12, 16_384, 400e12, 30.84e6),
        Published("BLOOM 176B", bloom, 366e9, 384, 150e12, 1_082_990),
        Published("PaLM 540B", 6 * 540e9, 780e9, 6144, 0.457 * 275e12, 1200 * 6144 + 336 * 3072),
        Published("MT-NLG 530B, a step", turing, step, 2240, 126e12, 2240 * 60.1 / 3600),
    ]
