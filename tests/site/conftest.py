"""What is asked of the built website: left to `make site-tests`, which builds it first."""

from pathlib import Path

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("site")
