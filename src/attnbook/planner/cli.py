"""The command `attnbook plan`: does a run fit, what does it send, how long does it take?"""

import argparse
from typing import Any

from attnbook.decoder_config import DecoderConfig
from attnbook.planner.bill import GPUS, bill, published
from attnbook.planner.layout import Batch, Layout, collectives, memory
from attnbook.planner.measured import scalings
from attnbook.planner.pace import pace
from attnbook.planner.sizes import of_size

EXAMPLES = """examples:
  attnbook plan --parameters 1e9 --gpus 8 --tokens 20e9
  attnbook plan --parameters 1e9 --gpus 8 --tokens 20e9 --shard 3 --micro 8
  attnbook plan --parameters 100e9 --gpus 1024 --tokens 2e12 --tensor 8 --pipeline 4 --shard 1
  attnbook plan --published              runs of others: planned against measured
"""
GB = 1e9


def add(parts: Any) -> None:
    """Add `plan` to the command's parts."""
    plan = parts.add_parser(
        "plan",
        help="memory, bytes sent and days of a training run",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("--parameters", type=float, default=1e9, help="of the model (1e9)")
    plan.add_argument("--tokens", type=float, default=20e9, help="to train on (20e9)")
    plan.add_argument("--gpus", type=int, default=8, help="in all (8)")
    plan.add_argument("--gpu", choices=GPUS, default="h100", help="their kind (h100)")
    plan.add_argument(
        "--efficiency", type=float, help="MFU, 0 to 1; without it half the peak, waiting, sending"
    )
    plan.add_argument("--tensor", type=int, default=1, help="GPUs that share each matrix (1)")
    plan.add_argument("--pipeline", type=int, default=1, help="stages of blocks (1)")
    plan.add_argument("--pieces", type=int, default=1, help="of the stack for each stage (1)")
    plan.add_argument("--shard", type=int, default=0, help="stage of ZeRO, 0 to 3; 3 is FSDP (0)")
    plan.add_argument("--batch", type=float, help="tokens of a step; about 4 million")
    plan.add_argument("--context", type=int, default=4096, help="tokens of a window (4096)")
    plan.add_argument("--micro", type=int, default=1, help="windows at a time on a replica (1)")
    plan.add_argument("--keep", action="store_true", help="activations, instead of recomputing")
    plan.add_argument("--published", action="store_true", help="compare with published runs")
    plan.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print what was asked for."""
    print(compare() if options.published else describe_plan(options))


def compare() -> str:
    """A line for each published run, and for each published step."""
    lines = [
        f"{each.name:20}{each.planned().hours:14,.0f} planned{each.hours:14,.0f} published "
        f"GPU hours{100 * each.error:+8.1f} %"
        for each in published()
    ]
    for each in scalings():
        least, most = each.planned()
        took, where = each.took(each.more), f"{each.more[0]} {each.gpu.upper()}"
        lines.append(
            f"{each.name:20}{where:>9}{least:9.2f} to {most:.2f} s planned from {each.fewer[0]:2}"
            f"{took:9.2f} s measured"
        )
    return "\n".join(lines)


def describe_plan(options: argparse.Namespace) -> str:
    """The plan in words; ValueError if the GPUs cannot be arranged so."""
    others = options.tensor * options.pipeline
    if options.gpus < 1 or others < 1 or options.gpus % others:
        raise ValueError(
            f"{options.gpus} GPUs do not divide into groups of {options.tensor} × "
            f"{options.pipeline} (--tensor × --pipeline)"
        )
    if options.efficiency is not None and not 0 < options.efficiency <= 1:
        raise ValueError(f"efficiency is {options.efficiency}; a share from 0 to 1 is needed")
    layout = Layout(
        options.gpus // others, options.tensor, options.pipeline, options.shard, options.pieces
    )
    decoder = of_size(options.parameters)
    round_up = options.context * options.micro * layout.data
    tokens = options.batch or round_up * max(1, round(2**22 / round_up))
    batch = Batch(int(tokens), options.context, options.micro, not options.keep)
    return "\n".join(
        [
            *describe_layout(decoder, layout),
            *fits(decoder, layout, batch, options.gpu),
            *sends(decoder, layout, batch),
            *takes(decoder, layout, batch, options),
        ]
    )


def describe_layout(decoder: DecoderConfig, layout: Layout) -> list[str]:
    """Lines on the model and how its GPUs are arranged."""
    return [
        f"model      {decoder.parameters / 1e9:,.2f} billion parameters: {decoder.depth} blocks of "
        f"width {decoder.width:,}, {decoder.heads} heads, {decoder.kv_heads} of keys and values",
        f"GPUs       {layout.gpus:,}: {layout.data} replicas (ZeRO stage {layout.shard}) × "
        f"{layout.tensor} tensor × {layout.pipeline} pipeline",
    ]


def fits(decoder: DecoderConfig, layout: Layout, batch: Batch, gpu: str) -> list[str]:
    """Lines on the memory of the fullest GPU."""
    need, there = memory(decoder, layout, batch), GPUS[gpu][1]
    parts = f"weights {need.weights / GB:.1f}, gradients {need.gradients / GB:.1f}, " + (
        f"optimizer {need.optimizer / GB:.1f}, activations {need.activations / GB:.1f}"
    )
    verdict = "fits" if need.total < 0.9 * there else "does not fit (a tenth is left for buffers)"
    how = "blocks recomputed" if batch.recompute else "all activations kept"
    return [
        f"memory     {need.total / GB:.1f} GB of {there / GB:.0f} on each GPU: {verdict}",
        f"           {parts} ({how})",
    ]


def sends(decoder: DecoderConfig, layout: Layout, batch: Batch) -> list[str]:
    """Lines on one step: its micro-batches, and the bytes that are sent."""
    each, rounds = collectives(decoder, layout, batch), batch.rounds(layout)
    return [
        f"step       {batch.tokens:,} tokens, {rounds} micro-batches; the pipeline waits "
        f"{100 * each.bubble:.0f} %",
        f"sent       {each.total / GB:.1f} GB by each GPU in a step: data {each.data / GB:.1f}, "
        f"tensor {each.tensor / GB:.1f}, pipeline {each.pipeline / GB:.1f}",
    ]


def takes(
    decoder: DecoderConfig, layout: Layout, batch: Batch, options: argparse.Namespace
) -> list[str]:
    """Lines on speed and time: at a given efficiency, or by the pace of a step."""
    if options.efficiency is None:
        return describe_pace(decoder, layout, batch, options)
    rate = GPUS[options.gpu][0] * options.efficiency
    cost = bill(decoder.flops(options.context), options.tokens, options.gpus, rate)
    return [
        f"speed      {cost.speed:,.0f} tokens/s at {100 * options.efficiency:.0f} % of "
        f"{GPUS[options.gpu][0] / 1e12:.0f} teraFLOP/s",
        f"time       {cost.days:,.1f} days, {cost.hours:,.0f} GPU hours, {cost.flops:.2e} FLOPs "
        f"for {options.tokens:.3g} tokens",
    ]


def describe_pace(
    decoder: DecoderConfig, layout: Layout, batch: Batch, options: argparse.Namespace
) -> list[str]:
    """Seconds of a step and days: if all sending is hidden behind computing, and if nothing is."""
    if not options.tokens > 0:
        raise ValueError(f"tokens is {options.tokens}; a number above 0 is needed")
    took = pace(decoder, layout, batch, options.gpu)
    days = [each * options.tokens / batch.tokens / 86_400 for each in (took.hidden, took.shown)]
    work = batch.tokens * decoder.flops(options.context)
    used = work / (layout.gpus * GPUS[options.gpu][0])
    return [
        f"seconds    {took.compute:.2f} computing at half the peak, {took.bubble:.2f} waiting, "
        f"{took.tensor + took.data + took.pipeline:.2f} sending",
        f"time       {days[0]:,.1f} days if all sending is hidden, {days[1]:,.1f} if nothing is: "
        f"{100 * used / took.hidden:.0f} to {100 * used / took.shown:.0f} % of the peak (MFU)",
    ]
