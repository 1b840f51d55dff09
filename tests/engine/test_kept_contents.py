"""Contents that are kept: files of summaries, and digests of what they were made of."""

import inspect
import io
import json
from functools import partial

import dask
import dask.array as da
import dask.bag
import numpy as np
import pytest
from scipy import sparse

from dspectral import build_store, keep, summarize
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.engine.keeping import digest
from dspectral.engine.kept_parts import DAMAGED, decoded, encoded
from tests.engine.hearing import BLOCK_ROWS, N_COLUMNS, counts, kept_of, partials

SUMMARY = (
    Moments.of(np.arange(12.0).reshape(4, 3)),
    [None, True, -3, 1 << 80, float("nan"), -0.0, "é", np.float32(2.5), np.array(7, dtype="<i2")],
    {1: np.asfortranarray(np.arange(6.0).reshape(2, 3)), "x": np.zeros((0, 4), dtype=np.int32)},
    sparse.csr_array(([1.0, 2.0], ([0, 2], [1, 1])), shape=(3, 5)),
    np.array([True, False])[::-1],
)


def test_arrays_in_memory_are_known_by_their_content(tmp_path):
    X = np.asarray(counts().todense(), dtype=float)
    product = np.ones((N_COLUMNS, 2))
    for rows in (X, sparse.csr_array(X), da.from_array(X.copy(), chunks=(BLOCK_ROWS, -1))):
        for n_kept in (0, None):
            of = partial(GramProduct.of, factor=product.copy())
            _, [(n_blocks, found)] = kept_of(partial(summarize, rows, of=of, keep=tmp_path))
            assert found == (n_blocks if n_kept is None else 0)
    X[0, 0] += 1
    assert kept_of(lambda: summarize(X, of=Moments.of, keep=tmp_path))[1][0][1] == 0


def test_builds_keep_nothing_since_they_go_on_by_themselves(tmp_path):
    texts = dask.bag.from_sequence(["a b c", "c d"] * 20, npartitions=2)
    with keep(tmp_path / "kept"):  # counting the texts of a bag is a pass, of content that is not known
        assert build_store(texts, str(tmp_path / "a")).n_rows == 40
    assert partials(tmp_path / "kept") == []


def same(a, b):
    """Whether two summaries have the same types and bits."""
    if isinstance(a, np.ndarray):
        return (a.dtype, a.shape, a.tobytes("A")) == (b.dtype, b.shape, b.tobytes("A"))
    if sparse.issparse(a):
        return all(same(getattr(a, part), getattr(b, part)) for part in ("data", "indices", "indptr"))
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return same(list(a.items()), list(b.items())) if isinstance(a, dict) else repr(a) == repr(b)


def test_what_is_read_is_what_was_written_even_its_order_in_memory():
    back = decoded("a/b", encoded("a/b", SUMMARY))
    assert same(SUMMARY, back)
    assert back[2][1].flags.f_contiguous
    assert not back[2][1].flags.c_contiguous


def test_a_changed_byte_anywhere_is_found_or_harmless():
    content = encoded("a/b", SUMMARY)
    rng = np.random.default_rng(0)
    n_found = 0
    for place, bit in zip(rng.integers(len(content), size=300), rng.integers(8, size=300), strict=True):
        wrong = bytearray(content)
        wrong[place] ^= 1 << int(bit)
        try:  # a date in the directory of the file, for instance, is nothing that is read
            assert same(SUMMARY, decoded("a/b", bytes(wrong)))
        except DAMAGED:
            n_found += 1
    assert n_found > 200
    for length in range(0, len(content), 37):
        with pytest.raises(DAMAGED):
            decoded("a/b", content[:length])


def test_a_file_makes_nothing_but_the_records_that_are_asked_for():
    with pytest.raises(TypeError, match=r"inspect\.Attribute"):
        encoded("a/b", inspect.Attribute("a", "b", "c", "d"))
    with pytest.raises(TypeError, match="set"):
        encoded("a/b", {1, 2})
    content = encoded("a/b", SUMMARY)
    for name in (b"dspectral.decomposition.moments:add_fields", b"builtins:exec"):
        head = np.frombuffer(json.dumps({"path": "a/b", "summary": [name.decode(), "1"]}).encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, head)
        with pytest.raises(DAMAGED):
            decoded("a/b", file.getvalue())
    assert same(decoded("a/b", content), SUMMARY)


def test_equal_contents_have_equal_digests_and_others_have_others():
    big = np.arange(1 << 18, dtype=float)
    square = np.arange(4.0).reshape(2, 2)
    things = [1, 1.0, True, "1", b"1", None, (1,), [1], {"a": 1}, {1, 2}, np.float64(1), np.array([1.0])]
    things += [slice(1), np.dtype("f8"), Moments.of, partial(GramProduct.of, factor=big[:4])]
    things += [big, big.astype(np.float32), big.reshape(2, -1), big.reshape(2, -1).T, big + 1]
    things += [square, square.T, np.array(["a-b", "c"], dtype=object), np.array(["a", "b-c"], dtype=object)]
    things += [sparse.csr_array(np.eye(2)), sparse.csc_array(np.eye(2)), np.random.SeedSequence(3)]
    digests = [digest(thing) for thing in things]
    assert len(set(digests)) == len(things)
    assert [digest(thing) for thing in things] == digests
    before = digest(big)
    big[-1] += 1  # as a method may do that updates its weights in place
    assert digest(big) != before
