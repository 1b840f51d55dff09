"""Forgotten rows: what remains is bit-identical to what never had them, at any moment, and nothing of them remains."""

import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from scipy import sparse

from dspectral import (
    PCA,
    NgramHashing,
    SketchedPCA,
    Texts,
    TfidfWeighting,
    Topics,
    TruncatedSVD,
    VocabularySettings,
    build_store,
    forget,
    open_store,
    save,
    write_counts,
)
from dspectral.decomposition.nystrom import select_pilot_blocks
from dspectral.engine.around import checkpoints as keeping
from dspectral.engine.around.callbacks import PassStarted
from dspectral.store.forget import _list_old
from dspectral.store.location import Location, StoreError
from tests.engine.recording import bits, list_checkpoints, record
from tests.schedulers import forks, scheduled
from tests.strategies import zipf_counts

N_ROWS, N_COLUMNS, BLOCK_ROWS = 640, 60, 40
N_BLOCKS = N_ROWS // BLOCK_ROWS
WORD, NUMBER = "xqzcanary", 1234.5
FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link"}


def get_bits(model):
    return [model.idf_.tobytes(), model.n_documents_] if isinstance(model, TfidfWeighting) else bits(model)


ESTIMATORS = {
    "gram": PCA(3, svd_solver="gram"),
    "frequent_directions": SketchedPCA(3, solver="frequent_directions", sketch_size=8),
    "nystrom": TruncatedSVD(3, solver="nystrom", sketch_size=12),
    "document_frequencies": TfidfWeighting(),
}
REQUESTS = {"one": [401], "share": [3, 45, 46, 630], "block": [*range(80, 120), 7]}


def draw_rows():
    rows = zipf_counts(N_ROWS, N_COLUMNS, 8)
    return rows, sparse.csr_array(np.random.default_rng(0).integers(0, 2, (N_ROWS, 4)).astype(np.float32))


def write_store(url, removed=(), **options):
    """Write a store that never had some rows, whose blocks have the same boundaries."""
    remaining = np.setdiff1d(np.arange(N_ROWS), removed)
    sizes = np.bincount(remaining // BLOCK_ROWS, minlength=N_BLOCKS)
    chunks = (tuple(sizes[sizes > 0].tolist()), -1)
    to_rows = partial(
        da.map_blocks, sparse.csr_array, dtype=np.float32, meta=sparse.csr_array((0, 0), dtype=np.float32)
    )
    rows, labels = (to_rows(da.from_array(X[remaining].toarray(), chunks=chunks)) for X in draw_rows())
    return write_counts(rows, str(url), labels=labels, **options)


def get_contents(store):
    """All that a store returns, as bytes."""
    blocks = [block[1:] for block in store.blocks]
    return blocks, store.column_sums.tobytes(), store.document_frequency.tobytes(), store.energy


@pytest.mark.parametrize(
    ("request_name", "kind"), [("one", "sync"), ("share", "threads"), ("block", "threads"), ("share", "processes")]
)
def test_forget_leaves_the_bits_of_a_store_without_the_rows(tmp_path, request_name, kind):
    store, removed = write_store(tmp_path / "store"), REQUESTS[request_name]
    with scheduled(kind):
        receipt = forget(store, removed)
        expected = write_store(tmp_path / "expected", removed)
        store = open_store(tmp_path / "store")
        store.check()
        assert get_contents(store) == get_contents(expected)
        assert bits(ESTIMATORS["gram"].fit(store)) == bits(ESTIMATORS["gram"].fit(expected))
    assert (receipt.n_rows, receipt.n_remaining_rows) == (len(removed), len(store))
    assert len(receipt.blocks) == len({row // BLOCK_ROWS for row in removed})
    (record,) = store.provenance["forgotten"]
    assert json.loads(json.dumps(receipt._asdict())) == {**record, "checkpoints": []}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_refit_after_forget_computes_only_what_changed(tmp_path, name, monkeypatch):
    monkeypatch.setattr(keeping, "MIN_COST_RATIO", 0.0)
    pilot = select_pilot_blocks((BLOCK_ROWS,) * N_BLOCKS, 0)[0]
    changed = [block for block in range(N_BLOCKS) if block not in pilot][:3]
    removed = [BLOCK_ROWS * block + 5 for block in changed]
    store = write_store(tmp_path / "store")
    with dask.config.set({"dspectral.joined-bytes": 1}):
        ESTIMATORS[name].fit(store.counts, checkpoints=tmp_path / "parts")
        forget(store, removed)
        expected = get_bits(ESTIMATORS[name].fit(write_store(tmp_path / "expected", removed).counts))
        rows = open_store(tmp_path / "store").counts
        model, events = record(lambda: ESTIMATORS[name].fit(rows, checkpoints=tmp_path / "parts"))
    assert get_bits(model) == expected
    read = [event for event in events if isinstance(event, PassStarted)][-1]
    merges = {(level, block >> level) for level in range(1, 5) for block in changed}
    assert (read.n_blocks, read.n_blocks - read.n_kept) == (N_BLOCKS, len(changed))
    assert (read.n_merges, read.n_merges - read.n_kept_merges) == (N_BLOCKS - 1, len(merges))


def iterate_contents(folder):
    """The bytes of each file, and of each array of Zarr, whose chunks are compressed."""
    for path in filter(Path.is_file, sorted(Path(folder).rglob("*"))):
        yield path, path.read_bytes()
        if path.name == "zarr.json" and json.loads(path.read_bytes())["node_type"] == "array":
            yield path, np.asarray(zarr.open_array(path.parent, mode="r")[...]).tobytes()


def find_bytes(folder, *needles):
    return [path for path, content in iterate_contents(folder) if any(needle in content for needle in needles)]


TEXTS = [f"word{i % 7} word{i * i % 11} again" + f" {WORD} {WORD}" * (i % 50 == 3) for i in range(200)]
CANARIES = [i for i, text in enumerate(TEXTS) if WORD in text]


@pytest.mark.parametrize("columns", ["vocabulary", "hashing"])
def test_forget_leaves_no_byte_of_the_rows(tmp_path, columns):
    settings = {"vocabulary": {"vocabulary": VocabularySettings()}, "hashing": {"hashing": NgramHashing(64)}}[columns]
    settings |= {} if columns == "vocabulary" else {"keep_terms": 100}
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(json.dumps({"id": f"{t[-9:]}{i}", "text": t}) + "\n" for i, t in enumerate(TEXTS)))
    ids = {"field": "text", "id_field": "id", "keep_texts": True, "block_bytes": 2000}
    url = str(tmp_path / "left" / "store")
    store = build_store(str(source), url, **settings, **ids)
    model = Topics(3, min_df=1, max_df=1.0) if columns == "vocabulary" else TruncatedSVD(3)
    save(model.fit(store), tmp_path / "left" / "model")
    assert find_bytes(tmp_path / "left", WORD.encode())
    receipt = forget(url, [store.ids[i] for i in CANARIES])
    assert receipt.n_unused_terms == (columns == "vocabulary")
    if columns == "vocabulary":
        assert {path.relative_to(url).parts[0] for path in find_bytes(url, WORD.encode())} == {"vocabulary-0001"}
        assert forget(url, range(40), compact=True).n_unused_terms == 0
    store = open_store(url)
    store.check()
    save(model.fit(store), tmp_path / "left" / "model", overwrite=True)
    assert find_bytes(tmp_path / "left", WORD.encode()) == []
    remaining = [text for text in TEXTS if WORD not in text][40 * (columns == "vocabulary") :]
    assert store.text(range(len(store))) == remaining
    fresh = build_store(Texts(remaining), str(tmp_path / "fresh"), **settings)
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(store.counts.compute(), part), getattr(fresh.counts.compute(), part))
    if columns == "vocabulary":
        for name in ("terms", "document_frequency", "counts"):
            assert np.array_equal(getattr(store.vocabulary, name), getattr(fresh.vocabulary, name))
    else:
        assert store.kept_terms.names() == fresh.kept_terms.names()
    assert store.count(TEXTS[:3]).shape == (3, store.n_columns)


def test_forget_removes_checkpoints_that_may_depend_on_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "MIN_COST_RATIO", 0.0)
    X = draw_rows()[0].toarray()
    X[9 * BLOCK_ROWS, :2] = NUMBER
    store = write_counts(X, str(tmp_path / "store"), block_rows=BLOCK_ROWS)
    parts = tmp_path / "parts"
    for solver in ("gram", "in_memory", "krylov", "nystrom"):
        TruncatedSVD(1, solver=solver, n_passes=2).fit(store, checkpoints=parts)
    SketchedPCA(1, solver="gram").fit(store.tfidf(), checkpoints=parts)
    needles = [np.array([NUMBER] * 2, dtype=dtype).tobytes() for dtype in (np.float32, np.float64)]
    assert find_bytes(parts, *needles)
    before = set(list_checkpoints(parts))
    receipt = forget(store, [9 * BLOCK_ROWS], checkpoints=parts)
    assert find_bytes(tmp_path, *needles) == []
    left = set(list_checkpoints(parts))
    assert {f"{path.parent.name}/{path.name}" for path in before - left} == set(receipt.checkpoints)
    # Those of passes without arrays as arguments remain, except for the block's: of two solvers and of the pilot.
    assert 9 not in select_pilot_blocks((BLOCK_ROWS,) * N_BLOCKS, 0)[0]
    assert len(left) == 2 * sum(N_BLOCKS // 2**level - 1 for level in range(5)) + 4 + 2 + 1


def forget_in_child(url, removed, last, counted):
    """Forget rows, and die before a numbered opening, renaming or removal in the store's folder."""

    def count(event, arguments):
        if event in FILE_EVENTS and str(arguments[0]).startswith(url):
            counted.value += 1
            if counted.value == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    with dask.config.set(scheduler="sync"):
        forget(url, removed)


@pytest.mark.parametrize("n_kills", [4, pytest.param(32, marks=pytest.mark.slow)])
def test_forget_killed_at_random_leaves_the_old_or_the_new_store(tmp_path, n_kills):
    removed, processes, generator = REQUESTS["share"], forks("tests.store.test_forget"), np.random.default_rng(n_kills)
    new = get_contents(write_store(tmp_path / "new", removed))
    old = get_contents(write_store(tmp_path / "old"))
    ends, n_events = [], 0
    for number in range(n_kills + 1):  # the first counts
        url, counted = str(tmp_path / f"store-{number}"), processes.Value("q", 0)
        shutil.copytree(tmp_path / "old", url)
        last = (
            int(generator.integers(n_events * (number - 1) // n_kills, n_events * number // n_kills)) + 1
            if number
            else 0
        )
        child = processes.Process(target=forget_in_child, args=(url, removed, last, counted))
        child.start()
        child.join()
        assert child.exitcode == (-signal.SIGKILL if number else 0)
        n_events = n_events or counted.value
        store = open_store(url)
        ends.append(get_contents(store))
        store.check()
        if ends[-1] == old or _list_old(store):
            forget(url, removed)
        assert get_contents(open_store(url)) == new
        assert not list(Path(url).rglob("0000-000000"))
        shutil.rmtree(url)
    assert all(end in (old, new) for end in ends)
    assert old in ends
    assert ends[0] == new


def test_forget_killed_before_its_removals_ends_them_when_repeated(tmp_path, monkeypatch):
    store = write_store(tmp_path / "store")
    with monkeypatch.context() as patch:
        patch.setattr(Location, "try_remove", lambda *_: None)
        patch.setattr(Location, "remove", lambda *_: None)
        with pytest.raises(StoreError, match=r"blocks/0000-000000.*forget again"):
            forget(store.location.url, [5])
    assert forget(store.location.url, [5]).n_rows == 1
    assert open_store(store.location.url).n_rows == N_ROWS - 1
    assert not (tmp_path / "store" / "blocks" / "0000-000000").exists()
    assert forget(store.location.url, [5]).n_remaining_rows == N_ROWS - 2  # nothing is left to end: another row


@pytest.mark.parametrize("compact", [False, True])
def test_store_is_appended_to_and_overwritten_after_forget(compact):
    url, settings = f"memory://forget-{compact}", {"vocabulary": VocabularySettings(tokenizer="words")}
    build_store(Texts([*TEXTS, "zzz"]), url, **settings, keep_texts=True, block_bytes=500)
    forget(build_store(Texts(["again zzz"]), url, append=True), [200, 201], compact=compact)
    store = build_store(Texts(["again zzz"]), url, append=True)
    store.check()
    assert store.text(200) == "again zzz"
    assert store.counts.compute()[200:].sum() == 2 - compact  # the column of zzz has gone
    assert np.array_equal(store.column_sums, np.asarray(store.counts.compute().sum(axis=0)).ravel())
    forget(store, [200])
    store = build_store(Texts(TEXTS), url, **settings, overwrite=True)
    store.check()
    assert {f"blocks/{name}" for name in store.location.list_names("blocks")} == {
        "blocks/zarr.json",
        *(block.name for block in store.blocks),
    }


def test_forget_drops_terms_of_texts_that_are_not_kept(tmp_path):
    store = build_store(Texts(TEXTS), str(tmp_path / "store"), hashing=NgramHashing(64), keep_terms=100)
    with pytest.warns(UserWarning, match="keep_terms"):
        forget(store, CANARIES)
    assert open_store(tmp_path / "store").kept_terms is None
    assert find_bytes(tmp_path, WORD.encode()) == []


@pytest.mark.parametrize(
    ("rows", "options", "error", "named"),
    [
        ([], {}, ValueError, "at least one"),
        ([1.5], {}, ValueError, r"1\.5"),
        ([N_ROWS], {}, IndexError, str(N_ROWS)),
        ([-1], {}, IndexError, "-1"),
        (range(N_ROWS), {}, ValueError, f"all {N_ROWS}"),
        (["a"], {}, ValueError, "id_field"),
        ([1], {"compact": True}, ValueError, "compact"),
    ],
)
def test_forget_refuses_and_leaves_the_store(tmp_path, rows, options, error, named):
    store = write_store(tmp_path / "store")
    with pytest.raises(error, match=named):
        forget(store, rows, **options)
    assert open_store(tmp_path / "store").generation == 0
    assert not (tmp_path / "store" / "plans" / "0001").exists()


def test_forget_refuses_a_store_that_was_written_since_it_was_opened(tmp_path):
    store = write_store(tmp_path / "store")
    forget(store, [1])
    with pytest.raises(StoreError, match="open it again"):
        forget(store, [1])
    assert open_store(tmp_path / "store").n_rows == N_ROWS - 1
