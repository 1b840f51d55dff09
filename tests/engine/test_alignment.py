from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

from dspectral.decomposition.moments import Moments
from dspectral.engine.around.retries import run_single_threaded
from dspectral.engine.blocks import call_on_blocks
from dspectral.engine.graph import SharedFunction, merge_summaries
from dspectral.linalg.blas import copy_unaligned


def off(array):
    """The same array, as it lies in bytes that were received."""
    moved = np.frombuffer(bytearray(array.nbytes + 1), dtype=np.uint8)[1:].view(array.dtype)
    moved = moved.reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


class Pair(NamedTuple):
    first: object
    second: object


def parts_of(content):
    """All arrays in a content, in order."""
    if isinstance(content, np.ndarray):
        return [content]
    if sparse.issparse(content):
        return [content.data, content.indices, content.indptr]
    if isinstance(content, partial):
        content = [content.args, content.keywords]
    if isinstance(content, dict):
        content = list(content.values())
    return [part for one in content for part in parts_of(one)] if isinstance(content, tuple | list) else []


def of_all_kinds(array):
    rows = sparse.csr_array(np.eye(4))
    rows.indices = array.astype(np.int32) if array.flags.aligned else off(array.astype(np.int32))
    return [
        array,
        rows,
        Pair(array, (5, "word")),
        [array, {"a": array, "b": None}],
        partial(len, array, key=[array]),
    ]


@pytest.mark.parametrize("number", range(5))
def test_whatever_holds_arrays_is_the_same_with_aligned_ones(number):
    fine = of_all_kinds(np.arange(4.0))[number]
    received = of_all_kinds(off(np.arange(4.0)))[number]
    actual = copy_unaligned(received)
    assert copy_unaligned(fine) is fine
    assert type(actual) is type(fine)
    assert all(part.flags.aligned for part in parts_of(actual))
    assert [part.tolist() for part in parts_of(actual)] == [part.tolist() for part in parts_of(fine)]
    assert not all(part.flags.aligned for part in parts_of(received))


def test_many_words_and_numbers_are_not_looked_through():
    class Words(list):
        def __iter__(self):
            yield "one"
            raise AssertionError

    words = Words(["one"] * 200)
    assert copy_unaligned((words, dict.fromkeys(map(str, range(200)), 1)))[0] is words


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
