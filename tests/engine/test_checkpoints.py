"""Fits that are kept: what was finished is read, what is missing is made, and the bits are the same."""

import inspect
import io
import json
import shutil
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import dask.bag
import numpy as np
import pytest
from distributed import Client
from scipy import sparse

from dspectral import (
    SketchedPCA,
    TfidfWeighting,
    TruncatedSVD,
    build_store,
    checkpoints,
    clear_checkpoints,
    summarize,
    write_counts,
)
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.engine import run
from dspectral.engine.around import checkpoints as keeping
from dspectral.engine.around.callbacks import BlocksDone, PassStarted
from dspectral.engine.around.checkpoints import CheckpointFolder, UnknownContentError, digest
from dspectral.summary_files import DAMAGE_ERRORS, decode_summary, encode_summary
from tests.engine.recording import (
    BLOCK_ROWS,
    N_BLOCKS,
    N_COLUMNS,
    bits,
    counts,
    fit_and_count,
    list_checkpoints,
    record,
    record_events,
)

ESTIMATORS = {
    "frequent_directions": SketchedPCA(3, solver="frequent_directions", sketch_size=8),
    "krylov": TruncatedSVD(3, solver="krylov", n_passes=3),
    "gram": SketchedPCA(3, solver="gram"),
}


@pytest.fixture
def store(tmp_path):
    return write_counts(counts(), str(tmp_path / "store"), block_rows=BLOCK_ROWS)


@pytest.fixture
def everything(monkeypatch):
    """Let every summary be written, however soon it was made."""
    monkeypatch.setattr(keeping, "MIN_COST_RATIO", 0.0)


@pytest.fixture
def only_whole(monkeypatch):
    """Let the last summary of a pass alone be written, however long the others took to make on a busy machine."""
    monkeypatch.setattr(keeping, "MIN_COST_RATIO", float("inf"))


def make_unreadable(where, blocks):
    """Remove arrays of blocks."""
    for block in blocks:
        shutil.rmtree(Path(where.url) / block.name / "data")


@pytest.mark.parametrize(("name", "place"), [("frequent_directions", "disk"), ("krylov", "memory")])
def test_second_fit_reads_no_block_and_has_the_same_bits(name, place, store, tmp_path):
    folder = tmp_path / "kept" if place == "disk" else "memory://kept-parts"
    expected = bits(ESTIMATORS[name].fit(store))
    first, passes = fit_and_count(lambda: ESTIMATORS[name].fit(store, checkpoints=folder))
    assert bits(first) == expected
    assert {n_kept for _, n_kept in passes} == {0}
    make_unreadable(store.location, store.blocks)
    again, passes = fit_and_count(lambda: ESTIMATORS[name].fit(store, checkpoints=folder))
    assert bits(again) == expected
    assert all(n_blocks == n_kept == N_BLOCKS for n_blocks, n_kept in passes)
    assert clear_checkpoints(folder).n_files >= len(passes)


@pytest.mark.parametrize("fan_in", [2, 3])
def test_appended_rows_read_only_new_blocks(fan_in, store, tmp_path, everything):
    for n_appended in (1, 2, 4):  # onto complete and incomplete subtrees
        shutil.copytree(store.location.url, tmp_path / f"grown-{n_appended}")
    with dask.config.set({"dspectral.fan-in": fan_in}):
        fit = partial(summarize, summarize_block=Moments.from_block)
        fit(store, checkpoints=tmp_path / "kept")
        for n_appended in (1, 2, 4):
            url = str(tmp_path / f"grown-{n_appended}")
            grown = write_counts(counts(n_appended, seed=1), url, append=True, block_rows=BLOCK_ROWS)
            expected = fit(grown)
            make_unreadable(grown.location, store.blocks)
            actual, passes = fit_and_count(partial(fit, grown, checkpoints=tmp_path / "kept"))
            assert passes == [(N_BLOCKS + n_appended, N_BLOCKS)]
            assert actual.gram.tobytes() == expected.gram.tobytes()


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "exchange"])
def test_damaged_checkpoint_is_computed_again_with_a_warning(damage, store, tmp_path, only_whole):
    fit = lambda: ESTIMATORS["krylov"].fit(store, checkpoints=tmp_path / "kept")  # noqa: E731
    expected = bits(fit())
    first, second, *_ = list_checkpoints(tmp_path / "kept")
    if damage == "flip":
        flip(first)
    elif damage == "exchange":
        first.write_bytes(second.read_bytes())
    else:
        first.write_bytes(first.read_bytes()[:-9] if damage == "cut" else b"")
    with pytest.warns(UserWarning, match=rf"{first.parent.name}/{first.stem}"):
        fitted, heard = record(fit)
    assert bits(fitted) == expected
    assert heard[-1].n_passes == 3  # an attempt that a damaged file ended is no pass
    assert bits(fit()) == expected  # it was written once more


def test_checkpoints_of_other_content_are_not_used(store, tmp_path, monkeypatch):
    def kept(X, estimator):
        return fit_and_count(lambda: estimator.fit(X, checkpoints=tmp_path / "kept"))[1][0][1]

    known = SketchedPCA(3, solver="frequent_directions", sketch_size=8)
    kept(store, known)
    other = write_counts(counts(seed=5), str(tmp_path / "other"), block_rows=BLOCK_ROWS)
    weighted = [store.tfidf(), store.weighted(TfidfWeighting(norm="l1").fit(store))]
    moved = write_counts(counts(), str(tmp_path / "moved"), block_rows=BLOCK_ROWS)
    assert [kept(X, known) for X in (store, moved, other, *weighted)] == [N_BLOCKS, N_BLOCKS, 0, 0, 0]
    assert [kept(X, known) for X in weighted] == [N_BLOCKS, N_BLOCKS]
    assert kept(store, SketchedPCA(3, solver="frequent_directions", sketch_size=9)) == 0
    monkeypatch.setattr(run, "get_machine_kinds", lambda client: ["another machine"])
    assert kept(store, known) == 0


def unknown(kind, tmp_path):
    """Rows, and what summarizes them, of which one has no known content."""
    ones = da.ones((4, 2), chunks=(2, 2))
    if kind == "function":
        return ones.map_blocks(lambda block: block + 1, dtype=float), Moments.from_block
    if kind == "summary":
        return ones, lambda block, **_more: Moments.from_block(block)
    if kind == "impure":
        return da.from_delayed(dask.delayed(np.load)("rows.npy"), (4, 2), float), Moments.from_block
    np.save(tmp_path / "rows.npy", np.ones((4, 2)))
    rows = da.from_array(np.load(tmp_path / "rows.npy", mmap_mode="r"), chunks=(2, 2), asarray=False)
    return rows.map_blocks(np.load, dtype=float), Moments.from_block


@pytest.mark.parametrize("kind", ["function", "file", "summary", "impure"])
def test_content_that_may_change_is_refused_in_a_sentence(kind, tmp_path):
    rows, of = unknown(kind, tmp_path)
    with pytest.raises(UnknownContentError, match="checkpoints"):
        summarize(rows, summarize_block=of, checkpoints=tmp_path / "kept")


def test_checkpoint_that_cannot_be_written_is_a_warning(store, tmp_path, monkeypatch, only_whole):
    def full(self, path, summary):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CheckpointFolder, "write", full)
    with pytest.warns(UserWarning, match=r"kept.*No space left"):
        fitted = ESTIMATORS["gram"].fit(store, checkpoints=tmp_path / "kept")
    assert bits(fitted) == bits(ESTIMATORS["gram"].fit(store))


def test_the_folder_comes_from_an_argument_a_context_or_the_configuration(store, tmp_path, only_whole):
    fit = partial(ESTIMATORS["gram"].fit, store)
    with dask.config.set({"dspectral.checkpoints": str(tmp_path / "configured")}):
        fit()
        with checkpoints(tmp_path / "context"):
            fit()
            fit(checkpoints=str(tmp_path / "argument"))
            with checkpoints(None):
                assert fit_and_count(fit)[1] == [(N_BLOCKS, 0)]
            assert fit_and_count(fit)[1] == [(N_BLOCKS, N_BLOCKS)]
    assert [len(list_checkpoints(tmp_path / name)) for name in ("configured", "context", "argument")] == [1, 1, 1]
    assert fit_and_count(fit)[1] == [(N_BLOCKS, 0)]
    with (
        dask.config.set({"dspectral.checkpoints": 3}),
        pytest.raises(ValueError, match=r"dspectral.checkpoints.*3"),
    ):
        fit()


def test_progress_begins_with_what_is_kept(store, tmp_path, everything):
    summarize(store, summarize_block=Moments.from_block, checkpoints=tmp_path / "kept")
    grown = write_counts(counts(2, seed=1), store.location.url, append=True, block_rows=BLOCK_ROWS)
    read = partial(summarize, grown, summarize_block=Moments.from_block, checkpoints=tmp_path / "kept")
    began, *done = record_events(read, PassStarted, BlocksDone)
    # Six blocks are two subtrees, of four and of two: their five merges but the one that joined both are found.
    assert (began.n_blocks, began.n_kept, began.n_merges, began.n_kept_merges) == (8, 6, 7, 4)
    assert (done[0].n_blocks, done[0].n_merges) == (6, 4)
    assert (done[-1].n_blocks, done[-1].n_merges) == (8, 7)


def test_a_cluster_reads_and_writes_what_is_kept(store, tmp_path, everything):
    expected = bits(ESTIMATORS["frequent_directions"].fit(store))
    fit = partial(ESTIMATORS["frequent_directions"].fit, store, checkpoints=tmp_path / "kept")
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"):
        assert bits(fit()) == expected
        for path in list_checkpoints(tmp_path / "kept")[::2]:
            path.unlink()
        assert bits(fit()) == expected
    assert bits(fit()) == expected


def test_clear_checkpoints_removes_nothing_else(store, tmp_path):
    folder = tmp_path / "kept"
    ESTIMATORS["krylov"].fit(store, checkpoints=folder)
    sizes = [path.stat().st_size for path in list_checkpoints(folder)]
    list_checkpoints(folder)[0].with_name(f"{'0' * 32}.npz.{'1' * 32}.tmp").write_bytes(b"half")
    (folder / "letter.npz").write_text("mine")
    assert len(sizes) >= 3  # the last of each pass, and what took long enough to be worth the time
    assert clear_checkpoints(folder) == (len(sizes), sum(sizes) + 4)
    assert [path.name for path in folder.iterdir()] == ["letter.npz"]
    assert clear_checkpoints(folder) == (0, 0)


SUMMARY = (
    Moments.from_block(np.arange(12.0).reshape(4, 3)),
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
            of = partial(GramProduct.from_block, factor=product.copy())
            _, [(n_blocks, actual)] = fit_and_count(partial(summarize, rows, summarize_block=of, checkpoints=tmp_path))
            assert actual == (n_blocks if n_kept is None else 0)
    X[0, 0] += 1
    assert fit_and_count(lambda: summarize(X, summarize_block=Moments.from_block, checkpoints=tmp_path))[1][0][1] == 0


def test_builds_keep_nothing_since_they_go_on_by_themselves(tmp_path):
    texts = dask.bag.from_sequence(["aa bb cc", "cc dd"] * 20, npartitions=2)
    with checkpoints(tmp_path / "kept"):  # counting the texts of a bag is a pass, of content that is not known
        assert build_store(texts, str(tmp_path / "a")).n_rows == 40
    assert list_checkpoints(tmp_path / "kept") == []


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
    back = decode_summary("a/b", encode_summary("a/b", SUMMARY))[0]
    assert same(SUMMARY, back)
    assert back[2][1].flags.f_contiguous
    assert not back[2][1].flags.c_contiguous


def test_a_file_makes_nothing_but_the_records_that_are_asked_for():
    with pytest.raises(TypeError, match=r"inspect\.Attribute"):
        encode_summary("a/b", inspect.Attribute("a", "b", "c", "d"))
    with pytest.raises(TypeError, match="range"):
        encode_summary("a/b", range(2))
    content = encode_summary("a/b", SUMMARY)
    for name in (b"dspectral.decomposition.moments:add_fields", b"builtins:exec"):
        summary = {"kind": "object", "class": name.decode(), "fields": ["1"]}
        head = np.frombuffer(json.dumps({"path": "a/b", "facts": None, "summary": summary}).encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, head)
        with pytest.raises(DAMAGE_ERRORS):
            decode_summary("a/b", file.getvalue())
    assert same(decode_summary("a/b", content)[0], SUMMARY)


def test_equal_contents_have_equal_digests_and_others_have_others():
    big = np.arange(1 << 18, dtype=float)
    square = np.arange(4.0).reshape(2, 2)
    things = [1, 1.0, True, "1", b"1", None, (1,), [1], {"a": 1}, {1, 2}, np.float64(1), np.array([1.0])]
    things += [slice(1), np.dtype("f8"), Moments.from_block, partial(GramProduct.from_block, factor=big[:4])]
    things += [big, big.astype(np.float32), big.reshape(2, -1), big.reshape(2, -1).T, big + 1]
    things += [square, square.T, np.array(["a-b", "c"], dtype=object), np.array(["a", "b-c"], dtype=object)]
    things += [sparse.csr_array(np.eye(2)), sparse.csc_array(np.eye(2)), np.random.SeedSequence(3)]
    digests = [digest(thing) for thing in things]
    assert len(set(digests)) == len(things)
    assert [digest(thing) for thing in things] == digests
    before = digest(big)
    big[-1] += 1  # as a method may do that updates its weights in place
    assert digest(big) != before
