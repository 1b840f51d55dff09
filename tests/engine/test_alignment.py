from functools import partial

import numpy as np
import pytest

from dspectral.decomposition.moments import Moments
from dspectral.engine.around.retries import run_single_threaded
from dspectral.engine.blocks import call_on_blocks
from dspectral.engine.graph import SharedFunction, merge_summaries


def off(array):
    """The same array, as it lies in bytes that were received."""
    moved = np.frombuffer(bytearray(array.nbytes + 1), dtype=np.uint8)[1:].view(array.dtype)
    moved = moved.reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


@pytest.mark.parametrize("call", [run_single_threaded, lambda shared: call_on_blocks(shared, 0, (), ())])
def test_a_function_of_a_task_has_aligned_arrays(call):
    vector = off(np.random.default_rng(1).standard_normal(99_999))
    assert call(SharedFunction(None, partial(np.sum, vector))) == vector.copy().sum() != 0
    assert call(SharedFunction(None, partial(lambda bound: bound.flags.aligned, vector)))


def test_unaligned_blocks_and_summaries_give_the_same_bits():
    block = np.random.default_rng(0).standard_normal((300, 10))
    shared = SharedFunction(None, Moments.from_block)
    grams = []
    for rows in (block, off(block)):
        summary = call_on_blocks(shared, 0, ((300, 10, "<f8"),), (), rows)
        received = Moments(*(off(part) if isinstance(part, np.ndarray) else part for part in summary))
        grams += [merge_summaries(*pair).gram.tobytes() for pair in ((summary, summary), (received, summary))]
    assert len(set(grams)) == 1
