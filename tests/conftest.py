"""What all tests share: the collector passes over what is there before the first of them."""

import gc

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


settings.register_profile(
    "untimed", deadline=None
)  # tests are never timed: other processes share the machine
settings.load_profile("untimed")


@settings(database=None, max_examples=1)
@given(none())
def nothing(_):
    """Let Hypothesis begin: an old one asks the collector who holds its random numbers, which sees nothing frozen."""
