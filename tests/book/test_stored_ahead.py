"""The stored study of drafts from the hidden state, and what its page says of it."""

from bookkit.results.stored_run import stored_run

RUNS = stored_run("ahead")["runs"]
LENGTHS = (1, 2, 4)
SEEDS = sorted({name.split("/")[0] for name in RUNS})


def total(seed, way, K, name, what):
    return sum(RUNS[f"{seed}/{way}/{K}"][name][what])


def test_every_run_of_the_plan_is_there_and_no_other(script):
    assert set(RUNS) == {name for name, _ in script("results/ahead.py").work()}


def test_what_was_written_was_written_by_calls_and_kept_tokens():
    for run in RUNS.values():
        assert run["no draft"]["calls"] == [60] * 4
        for name in ("table of counts", "copy", "heads", "block"):
            found = run[name]
            for calls, kept in zip(found["calls"], found["kept"], strict=True):
                assert calls + kept == 60
            for part, all_ in zip(found["proposing"], found["seconds"], strict=True):
                assert 0 < part < all_


def test_a_longer_draft_saves_calls_and_the_block_most_of_all_with_every_seed():
    for seed in SEEDS:
        for way in ("greedy", "drawn"):
            heads, block = (
                [total(seed, way, K, name, "calls") for K in LENGTHS] for name in ("heads", "block")
            )
            assert all(b < h for b, h in zip(block, heads, strict=True))
