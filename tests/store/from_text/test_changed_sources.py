"""Sources that change between an interrupted build and the next, or while they are read."""

import gzip
import os
import re
from pathlib import Path

import dask
import fsspec
import numpy as np
import pytest

from dspectral.store.corpus import open_corpus, read_sentences
from dspectral.store.counts import open_store
from dspectral.store.from_text import sources, text_input
from dspectral.store.from_text.build import build_store
from dspectral.store.from_text.corpus_build import build_corpus
from dspectral.store.from_text.streams import get_fingerprint
from dspectral.store.from_text.text_files import TextFiles
from dspectral.store.location import StoreError
from dspectral.store.vocabulary import VocabularySettings
from dspectral.text.hashing import HashingSettings
from tests.store.interrupted import stopped_at

SMALL = HashingSettings(n_features=64)
OLD = "".join(f"the cat {i % 7} and cat {i % 11:02d}\n" for i in range(60))
NEW = OLD.replace("cat", "dog")
KINDS = ["hashing", "vocabulary", "corpus"]


@pytest.fixture(autouse=True)
def one_after_the_other():
    with dask.config.set(scheduler="sync"):
        yield


def builder(kind, source, store):
    def build(**options):
        if kind == "corpus":
            return build_corpus(source, store, block_bytes=400, **options)
        settings = {"hashing": SMALL} if kind == "hashing" else {"vocabulary": VocabularySettings(n_partitions=1)}
        return build_store(source, store, block_bytes=400, **settings, **options)

    return build


def put(url, text):
    with fsspec.open(url, "w") as file:
        file.write(text)


def read_content(store):
    """Return the words of all sentences of a corpus, or the rows of a store."""
    try:
        corpus = open_corpus(store)
    except StoreError:
        return open_store(store).counts.compute().toarray()
    blocks = [read_sentences(corpus.location, block) for block in corpus.blocks]
    return [corpus.words[i] for block in blocks for i in block.ids.tolist()]


def is_built_from(text, kind, store, folder):
    """Whether a store has the content of one that is built of a text at once."""
    put(str(folder / "fresh.txt"), text)
    builder(kind, str(folder / "fresh.txt"), str(folder / "fresh"))(overwrite=(folder / "fresh").exists())
    return np.array_equal(read_content(store), read_content(str(folder / "fresh")))


@pytest.mark.parametrize(
    ("kind", "url", "text"),
    [
        *((kind, "{}/a.txt", NEW) for kind in KINDS),
        ("hashing", "memory://{}.txt", NEW),
        ("hashing", "{}/a.txt", OLD * 2),
    ],
)
def test_interrupted_build_of_edited_source_starts_again(tmp_path, kind, url, text):
    source, store = url.format(tmp_path), str(tmp_path / "store")
    put(source, OLD)
    build = builder(kind, source, store)
    stopped_at("blocks/0000-000002", build)
    put(source, text)
    build()
    assert is_built_from(text, kind, store, tmp_path)


def test_interrupted_build_starts_again_if_only_sizes_are_known(tmp_path, monkeypatch):
    source, store = tmp_path / "a.txt", str(tmp_path / "store")
    monkeypatch.setattr(sources, "get_fingerprint", lambda *_: f"size {source.stat().st_size}")
    monkeypatch.setattr(sources, "get_current_fingerprint", lambda *_: f"size {source.stat().st_size}")
    put(source, OLD)
    build = builder("hashing", str(source), store)
    stopped_at("blocks/0000-000002", build)
    put(source, NEW)
    build()
    assert is_built_from(NEW, "hashing", store, tmp_path)


@pytest.mark.parametrize(("kind", "keeps_time"), [(kind, kind == "hashing") for kind in KINDS])
def test_source_that_changes_while_it_is_read_is_refused(tmp_path, kind, keeps_time, monkeypatch):
    source, store = tmp_path / "a.txt", str(tmp_path / "store")
    put(source, OLD)
    before, original = source.stat(), text_input.read_file_range

    def read_file_range(span, read_options):
        yield from original(span, read_options)
        if span.start == 400 and source.read_text(encoding="utf-8") == OLD:
            put(source, NEW)
            if keeps_time:
                os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))

    build = builder(kind, str(source), store)
    with monkeypatch.context() as patch:
        patch.setattr(text_input, "read_file_range", read_file_range)
        with pytest.raises(StoreError, match=r"a\.txt changed.*call again"):
            build()
    build()
    assert is_built_from(NEW, kind, store, tmp_path)


def test_interrupted_build_of_compressed_file_loses_no_document(tmp_path):
    source, store = tmp_path / "a.txt.gz", str(tmp_path / "store")
    source.write_bytes(gzip.compress(OLD.encode(), mtime=0))
    build = builder("hashing", str(source), store)
    stopped_at("blocks/0000-000000-000002", build)  # two blocks of one range are finished
    build()
    assert is_built_from(OLD, "hashing", store, tmp_path)


@pytest.mark.parametrize("mode", ["", "append", "overwrite"])
@pytest.mark.parametrize("kind", KINDS)
def test_store_stays_as_it_was_until_the_new_one_is_complete(tmp_path, kind, mode):
    if mode == "append" and kind == "corpus":
        pytest.skip("a corpus has no append")
    source, store = tmp_path / "a.txt", str(tmp_path / "store")
    put(source, OLD)
    build = builder(kind, str(source), store)
    if mode:
        build()
    put(source, NEW)
    options = {mode: True} if mode else {}
    number = int(bool(mode))
    stopped_at(
        f"blocks/000{number}-000002" if kind == "corpus" else f"totals/000{number}/document", lambda: build(**options)
    )
    if mode:
        assert is_built_from(OLD, kind, store, tmp_path)
    else:
        with pytest.raises(StoreError, match=re.escape(store)):
            (open_corpus if kind == "corpus" else open_store)(store)
    build(**options)
    if mode != "append":
        assert is_built_from(NEW, kind, store, tmp_path)
        assert {path.name[:4] for path in Path(store, "blocks").iterdir()} == {"zarr", f"000{number}"}
    elif kind == "hashing":
        assert is_built_from(OLD + NEW, kind, store, tmp_path)
    (open_corpus if kind == "corpus" else open_store)(store).check()


def test_text_files_that_change_before_they_are_read_are_refused(tmp_path):
    put(tmp_path / "a.txt", OLD)
    files = TextFiles(str(tmp_path / "a.txt"), block_bytes=400)
    rows = files.hash_ngrams(SMALL)
    put(tmp_path / "a.txt", NEW)
    with pytest.raises(ValueError, match=r"a\.txt"):
        rows.compute()


class Listed:
    """A file system whose listings say what is given."""

    protocol = "s3"


@pytest.mark.parametrize(
    ("info", "fingerprint"),
    [
        ({"size": 3, "ETag": '"abc"', "LastModified": "2026"}, "etag 3 abc"),
        ({"size": 3, "LastModified": "2026 01"}, "time 3 2026T01"),
        ({"size": 3, "name": "a"}, "size 3"),
    ],
)
def test_fingerprint_prefers_an_etag_to_times(info, fingerprint):
    assert get_fingerprint(Listed(), "a", info) == fingerprint
