"""`attnbook train lm` on two processes that torchrun starts: the same run as on one.

A start of two costs some seconds, so what two runs show is looked at from several sides.
"""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from attnbook import cli
from attnbook.shipped.language import load
from attnbook.train.cli import log
from attnbook.train.sharded_checkpoint import saved

pytestmark = pytest.mark.slow

SMALL = {"vocabulary": 270, "width": 12, "depth": 2, "heads": 2, "context": 7, "batch": 8}
SAME = SMALL | {
    "steps": 8,
    "lr": 0.01,
    "warmup": 2,
    "log_every": 1,
    "save_every": 4,
    "device": "cpu",
}
CLOSE = 1e-5  # nats; sums of halves are rounded otherwise than sums of wholes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("team")
    (path / "text.txt").write_text("All the world's a stage, 1 + 1 = 2.\nSo it goes.\n" * 70)
    return path


def words(folder, out, *more, **other):
    given = {"data": folder / "text.txt", "evaluate_every": 4} | SAME | other
    flags = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    return ["train", "lm", "--out", str(out), *(f.replace("_", "-") for f in flags), *more]


def torchrun(*arguments):
    """A job of two processes, not yet at its end."""
    start = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "attnbook"]
    return subprocess.Popen(
        [sys.executable, "-m", *start, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1", "ATTNBOOK_DEVICE": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(job):
    try:
        told, wrong = job.communicate(timeout=100)
    finally:
        job.kill()
    assert job.returncode == 0, told + wrong
    return told


def numbers(out, name="loss"):
    return {line["step"]: line[name] for line in log.read_lines(out / log.FILE) if name in line}


def apart(one, other):
    """The largest difference of two runs' numbers at the steps that both have."""
    found = max(abs(one[step] - other[step]) for step in one.keys() & other.keys())
    print(f"{len(one.keys() & other.keys())} steps, {found:.1e} apart")
    return found


@pytest.fixture(scope="module")
def alone(folder):
    """Eight steps of one process; the first four are kept beside it as a run that was stopped."""
    assert cli.main(words(folder, folder / "alone")) == 0
    stopped = folder / "one-to-two"
    shutil.copytree(folder / "alone", stopped)
    shutil.rmtree(saved(stopped)[-1])
    return folder / "alone"


@pytest.fixture(scope="module")
def ddp(folder):
    told = finished(torchrun(*words(folder, folder / "ddp", "--parallel", "ddp", accumulate=2)))
    assert "2 process(es)" in told and told.count("config:") == 1
    return folder / "ddp"


@pytest.fixture(scope="module")
def fsdp(folder, alone):
    """Two processes that share what one began."""
    out = folder / "one-to-two"
    finished(torchrun("train", "lm", "--resume", "--parallel", "fsdp", "--out", str(out)))
    return out


def test_two_processes_have_the_losses_of_one(alone, ddp):
    assert list(numbers(ddp)) == list(range(1, 9))
    for name in ("loss", "grad_norm", "validation"):
        assert apart(numbers(alone, name), numbers(ddp, name)) < CLOSE


def test_a_checkpoint_of_replicas_holds_everything_once(alone, ddp):
    def size(out):
        return sum(path.stat().st_size for path in saved(out)[-1].iterdir())

    assert size(ddp) < 1.3 * size(alone)


def test_one_process_goes_on_with_what_two_saved(folder, alone, ddp):
    out = folder / "two-to-one"
    shutil.copytree(ddp, out)
    shutil.rmtree(saved(out)[-1])
    assert cli.main(["train", "lm", "--resume", "--parallel", "none", "--out", str(out)]) == 0
    assert apart(numbers(alone), numbers(out)) < CLOSE and max(numbers(out)) == 8


def test_two_sharded_processes_go_on_with_what_one_saved(alone, fsdp):
    assert max(numbers(fsdp)) == 8
    for name in ("loss", "grad_norm", "validation"):
        assert apart(numbers(alone, name), numbers(fsdp, name)) < CLOSE
    lm, other = load(alone).model.state_dict(), load(fsdp).model.state_dict()
    assert all((lm[name] - other[name]).abs().max() < 1e-4 for name in lm)


def test_one_process_goes_on_with_shards(folder, alone, fsdp):
    """The eighth step was saved by two, in shards; a ninth, tenth are those of one alone."""
    for out in (alone, fsdp):
        copy = folder / f"{out.name}-longer"
        shutil.copytree(out, copy)
        longer = ["--resume", "--parallel", "none", "--steps", "10", "--out", str(copy)]
        assert cli.main(["train", "lm", *longer]) == 0
    one, other = (numbers(folder / f"{out.name}-longer") for out in (alone, fsdp))
    assert max(one) == max(other) == 10 and apart(one, other) < CLOSE


def test_a_killed_process_ends_the_job_with_one_sentence_and_what_is_saved_resumes(folder):
    out = folder / "killed"
    job = torchrun(*words(folder, out, "--parallel", "ddp", steps=100_000, save_every=5))
    ended = time.monotonic() + 90
    while len(saved(out)) < 2 and time.monotonic() < ended and job.poll() is None:
        time.sleep(0.05)
    os.kill(worker(job.pid), signal.SIGKILL)
    told, wrong = job.communicate(timeout=60)
    assert job.returncode != 0
    assert (told + wrong).count("another process of this job is gone") == 1
    step = int(saved(out)[-1].name.removeprefix("step-"))
    assert f"step {step} is saved: --resume goes on from there" in wrong
    more = ["--parallel", "none", "--steps", str(step + 2), "--out", str(out)]
    assert cli.main(["train", "lm", "--resume", *more]) == 0
    assert max(numbers(out)) == step + 2


def test_a_job_that_is_told_to_end_saves_where_it_is(folder):
    out = folder / "told"
    job = torchrun(*words(folder, out, "--parallel", "fsdp", steps=100_000, save_every=5))
    while not saved(out) and job.poll() is None:
        time.sleep(0.05)
    job.terminate()
    told, _ = job.communicate(timeout=60)
    assert told.count("stopped and saved") == 1
    step = int(saved(out)[-1].name.removeprefix("step-"))
    assert max(numbers(out)) == step and load(out).card["steps"] == step


def worker(parent):
    """The youngest child of a job."""
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        return int(file.read().split()[-1])
