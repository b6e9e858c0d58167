"""The heart of the package can be followed: few files, few changes from one to another."""

import json
import os
import subprocess
import sys

import pytest

LIMITS = {"forward": (8, 15), "two tokens": (10, 40)}


@pytest.fixture(scope="module")
def walks(root):
    """In a process of its own: the tests' checks of types would be calls, too."""
    program = "import json, walk; print(json.dumps(walk.walks()))"
    path = os.pathsep.join([str(root / "src"), str(root / "tools")])
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(told.stdout)


@pytest.mark.parametrize("name", LIMITS)
def test_a_walk_is_short(name, walks):
    stays = walks[name]
    most_files, most_stays = LIMITS[name]
    assert stays[0] and len(set(stays)) <= most_files and len(stays) <= most_stays, stays
