"""The module as readers have it, without the checks of shapes that tests put around each function.

Compilers cannot look through those. Import inside `without_checks()`, and let the tests of that
file use the fixture `as_readers_have_it`.
"""

import sys
from contextlib import contextmanager

import pytest
import torch

PLAIN = {}


@contextmanager
def without_checks():
    """Inside this context the module is imported anew, without the hook that checks shapes."""
    finders, checked = sys.meta_path[:], ours()
    sys.meta_path[:] = [f for f in finders if not type(f).__module__.startswith("jaxtyping")]
    sys.modules.update(PLAIN)
    try:
        yield
    finally:
        PLAIN.update(ours())
        sys.meta_path[:] = finders
        sys.modules.update(checked)


@pytest.fixture
def as_readers_have_it():
    """A compiler looks functions up by their modules' names: there stand the plain ones."""
    torch._dynamo.reset()
    checked = ours()
    sys.modules.update(PLAIN)
    yield
    ours()
    sys.modules.update(checked)


def ours():
    """The module's files that are imported, which are then forgotten."""
    names = [name for name in sys.modules if name.partition(".")[0] == "attnbook"]
    return {name: sys.modules.pop(name) for name in names}
