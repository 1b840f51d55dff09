"""What all tests share: the collector passes over what is there before the first of them."""

import gc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis.strategies import none


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave out the objects of the imported packages and of some thousand tests, which are no garbage.

    Collections would look at them again and again: a fifth of the CPU of importing the tests, and a
    thirtieth of that of running them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        nothing()
        gc.collect()
        gc.freeze()
        gc.enable()


SLOW = (
    "cluster",
    "deployment",
    "interop",
    "workflows",
    "test_documents.py",
    "test_installed.py",
    "text/test_cold_start.py",
)
"""Tests that start clusters, processes and whole programs: ``make test-all`` runs them, ``make test`` does not."""


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their argument: what compressors write holds the time of day, and processes must agree on names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items):
    slow = tuple(str(Path(__file__).parent / name) for name in SLOW)
    for item in items:
        if str(item.path).startswith(slow):
            item.add_marker(pytest.mark.slow)


settings.register_profile("untimed", deadline=None)  # tests are never timed: other processes share the machine
settings.load_profile("untimed")


@settings(database=None, max_examples=1)
@given(none())
def nothing(_):
    """Let Hypothesis begin: an old one asks the collector who holds its random numbers, which sees nothing frozen."""
