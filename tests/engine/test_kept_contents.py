"""Contents that are kept: files of summaries, and digests of what they were made of."""

import inspect
from functools import partial

import dask
import dask.array as da
import dask.bag
import numpy as np
import pytest
from scipy import sparse

from dspectral import (
    SketchedPCA,
    TfidfWeighting,
    build_store,
    keep,
    summarize,
)
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.engine.keeping.contents import Contents
from dspectral.engine.keeping.partial_files import decoded, encoded
from tests.engine.kept import BLOCK_ROWS, N_COLUMNS, counts, heard_of, partials


def test_arrays_in_memory_are_known_by_their_content(tmp_path):
    X = np.asarray(counts().todense(), dtype=float)
    lazily = da.from_array(X.copy(), chunks=(BLOCK_ROWS, -1))
    product = np.ones((N_COLUMNS, 2))
    for rows in (X, sparse.csr_array(X), lazily, lazily.astype(np.float32), -lazily):
        for n_kept in (0, None):
            of = partial(GramProduct.of, factor=product.copy())
            _, [(n_blocks, found)] = heard_of(partial(summarize, rows, of=of, keep=tmp_path))
            assert found == (n_blocks if n_kept is None else 0)
    X[0, 0] += 1
    assert heard_of(lambda: summarize(X, of=Moments.of, keep=tmp_path))[1][0][1] == 0


def test_builds_keep_nothing_since_they_go_on_by_themselves(tmp_path):
    texts = dask.bag.from_sequence(["a b c", "c d"] * 20, npartitions=2)
    with keep(tmp_path / "kept"):  # counting the texts of a bag is a pass, of content that is not known
        assert build_store(texts, str(tmp_path / "a")).n_rows == 40
    assert partials(tmp_path / "kept") == []


def test_every_fit_that_makes_passes_says_its_argument():
    for method in (SketchedPCA.fit, TfidfWeighting.partial_fit):
        assert inspect.signature(method).parameters["keep"].kind is inspect.Parameter.KEYWORD_ONLY
        assert "keep : str or Path, optional" in method.__doc__
        assert method.__doc__.index("keep : str") < method.__doc__.index("Returns")
    assert "keep" not in inspect.signature(build_store).parameters


SUMMARY = (
    Moments.of(np.arange(12.0).reshape(4, 3)),
    [None, True, -3, 1 << 80, float("nan"), -0.0, "é", np.float32(2.5), np.array(7, dtype="<i2")],
    {1: np.asfortranarray(np.arange(6.0).reshape(2, 3)), "x": np.zeros((0, 4), dtype=np.int32)},
    sparse.csr_array(([1.0, 2.0], ([0, 2], [1, 1])), shape=(3, 5)),
    np.array([True, False])[::-1],
)


def test_what_is_read_is_what_was_written_even_its_order_in_memory():
    back = decoded("a/b", encoded("a/b", SUMMARY))
    assert type(back[0]) is Moments
    assert back[0].gram.tobytes() == SUMMARY[0].gram.tobytes()
    assert repr(back[1]) == repr(SUMMARY[1])
    assert back[2][1].flags.f_contiguous
    assert not back[2][1].flags.c_contiguous
    assert back[2]["x"].shape == (0, 4)
    assert (back[3] != SUMMARY[3]).nnz == 0
    assert back[3].indices.dtype == SUMMARY[3].indices.dtype
    assert back[4].tolist() == [False, True]


def test_a_changed_byte_anywhere_is_found():
    content = encoded("a/b", SUMMARY)
    rng = np.random.default_rng(0)
    for place, bit in zip(rng.integers(len(content), size=300), rng.integers(8, size=300), strict=True):
        wrong = bytearray(content)
        wrong[place] ^= 1 << int(bit)
        with pytest.raises(ValueError, match=r"it is no partial|its bytes are not"):
            decoded("a/b", bytes(wrong))
    for length in range(0, len(content), 37):
        with pytest.raises(ValueError, match=r"it is no partial|its bytes are not"):
            decoded("a/b", content[:length])


def test_a_file_makes_nothing_but_named_tuples_of_dspectral():
    with pytest.raises(TypeError, match="no named tuple of dspectral"):
        encoded("a/b", inspect.Attribute("a", "b", "c", "d"))
    with pytest.raises(TypeError, match="no place in a file of partials"):
        encoded("a/b", {1, 2})


def test_equal_contents_have_equal_digests_and_others_have_others():
    big = np.arange(1 << 18, dtype=float)
    things = [
        1,
        1.0,
        True,
        "1",
        b"1",
        None,
        (1,),
        [1],
        {"a": 1},
        {1, 2},
        np.float64(1),
        np.array([1.0]),
        slice(1),
    ]
    things += [big, big.astype(np.float32), big.reshape(2, -1), big.reshape(2, -1).T, big + 1, np.negative]
    things += [
        np.dtype("f8"),
        Moments.of,
        partial(GramProduct.of, factor=big[:4]),
        sparse.csr_array(np.eye(2)),
    ]
    things += [np.arange(4.0).reshape(2, 2), np.arange(4.0).reshape(2, 2).T]
    digests = [Contents().of(thing) for thing in things]
    assert len(set(digests)) == len(things)
    assert [Contents().of(thing) for thing in things] == digests
    known = Contents()
    before = known.of(big)
    big[-1] += 1  # as a method may do that updates its weights in place
    assert known.of(big) != before
    for _ in range(3):  # the memory of an array that is gone is taken by the next one
        assert known.of(np.full(1 << 18, 1.0)) != known.of(np.full(1 << 18, 2.0))
