"""Does an engine that exists write the same text, from the folder that `save` wrote?

    pip install "transformers[serving]"
    ATTNBOOK_GEMMA=folder python results/real/served.py

Question. Gemma 3 270M is loaded by this module and saved by it; `transformers serve`, a process of
its own that knows nothing of this module, reads that folder and is asked over HTTP, as OpenAI's
interface has it. Is its greedy text the one that the module writes?
Budget. 12 tokens after each of two prompts.
Baselines. `generate` of this module.
Nothing found. One of the texts is another one.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from real_model import begin, finish, folder, gemma

from attnbook.generate.sampling import generate
from attnbook.models.hub import save
from bookkit.results.protocol import Study

STUDY = Study(
    name="served",
    question="Does an engine that exists write the same text, from the folder that save wrote?",
    budget="12 tokens after each of two prompts",
    reporting_seeds=range(1),
    baselines=("generate of this module",),
    no_gain="one of the texts is another one",
)
PROMPTS = ("The capital of France is", "To sort a list in Python,")
MORE, PATIENCE = 12, 600
START = "from transformers.cli.transformers import main; main()"


@contextmanager
def server(where: Path) -> Iterator[str]:
    """`transformers serve` with this folder, as long as it is needed: its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", str(where), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen([sys.executable, "-c", START, *words], env=offline)
    try:
        address, end = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
        while not awake(address):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit("transformers serve does not start: is its extra installed?")
            time.sleep(1)
        yield address
    finally:
        process.terminate()
        process.wait()


def awake(address: str) -> bool:
    """Does it answer?"""
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=10) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def asked(address: str, model: str, prompt: str) -> str:
    """What the server writes, greedily."""
    body = {"model": model, "prompt": prompt, "max_tokens": MORE, "temperature": 0}
    request = urllib.request.Request(
        f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)["choices"][0]["text"]


def own(prompt: str) -> str:
    """What this module writes."""
    tokens = gemma().batch([prompt])
    written = generate(gemma().model, tokens, MORE)[0, tokens.shape[1] :]
    return gemma().tokenizer.decode(written.tolist())


@torch.no_grad()
def texts() -> dict[str, Any]:
    """Both texts after each prompt."""
    config = json.loads((folder() / "config.json").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        where = Path(temporary)
        save(gemma().model, where, config)
        shutil.copy(folder() / "tokenizer.json", where)
        with server(where) as address:
            return {
                prompt: {"served": asked(address, str(where), prompt), "own": own(prompt)}
                for prompt in PROMPTS
            }


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found = runs.get("texts", texts)
    finish(STUDY, said, runs, {"texts": found})


if __name__ == "__main__":
    main()
