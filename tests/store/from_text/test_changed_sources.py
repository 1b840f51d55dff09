"""Sources that change between a build that was stopped and the one that goes on, or while they are read."""

import gzip
import os
import re

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
from dspectral.store.writer import discard_unfinished
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
    def build():
        if kind == "corpus":
            return build_corpus(source, store, block_bytes=400)
        settings = {"hashing": SMALL} if kind == "hashing" else {"vocabulary": VocabularySettings(n_partitions=1)}
        return build_store(source, store, block_bytes=400, **settings)

    return build


def put(url, text):
    with fsspec.open(url, "w") as file:
        file.write(text)


def sentences(corpus):
    of_blocks = [read_sentences(corpus.location, block) for block in corpus.blocks]
    return corpus.words, [corpus.words[i] for block in of_blocks for i in block.ids.tolist()]


def same_rows(kind, store, text, folder):
    """Whether a store is the one that is built of a text at once."""
    put(str(folder / "fresh.txt"), text)
    fresh = str(folder / f"fresh-{kind}")
    builder(kind, str(folder / "fresh.txt"), fresh)()
    if kind == "corpus":
        ours, theirs = (sentences(open_corpus(url)) for url in (store, fresh))
        return ours == theirs
    ours, theirs = (open_store(url).counts.compute() for url in (store, fresh))
    return np.array_equal(ours.toarray(), theirs.toarray())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["local", "memory"])
def test_a_source_that_was_edited_at_the_same_size_is_named_and_refused(tmp_path, kind, place):
    source = f"memory://{tmp_path.name}.txt" if place == "memory" else str(tmp_path / "a.txt")
    other, store = str(tmp_path / "other.txt"), str(tmp_path / "store")
    put(source, OLD)
    put(other, OLD)
    build = builder(kind, [source, other], store)
    stopped_at("blocks/0000-000002", build)
    put(source, NEW)
    said = rf"{tmp_path.name if place == 'memory' else 'a'}\.txt changed since the start of the build at .*"
    for _ in range(2):
        with pytest.raises(StoreError, match=said) as raised:
            build()
        assert "other.txt" not in str(raised.value)
    discard_unfinished(store)
    build()
    assert same_rows(kind, store, NEW + OLD, tmp_path)


def test_other_sizes_are_named_file_by_file(tmp_path):
    files, store = [str(tmp_path / f"{name}.txt") for name in "abcde"], str(tmp_path / "store")
    for source in files:
        put(source, OLD)
    build = builder("hashing", files, store)
    stopped_at("blocks/0000-000002", build)
    put(files[1], OLD + "more\n")
    with pytest.raises(StoreError, match=r"b\.txt"):
        build()
    for source in files:
        put(source, "other\n")
    with pytest.raises(StoreError, match=r"a\.txt, .*b\.txt, .*c\.txt.*2 more"):
        build()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keeps_time", [False, True])
def test_a_source_that_changes_while_the_store_is_built_finishes_none(tmp_path, kind, keeps_time, monkeypatch):
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
        with pytest.raises(StoreError, match=r"a\.txt changed"):
            build()
    with pytest.raises(StoreError, match=r"a\.txt"):
        build()
    discard_unfinished(store)
    build()
    assert same_rows(kind, store, NEW, tmp_path)


def test_a_build_goes_on_from_its_beginning_where_sizes_alone_are_known(tmp_path, monkeypatch):
    source, store = tmp_path / "a.txt", str(tmp_path / "store")
    monkeypatch.setattr(sources, "get_fingerprint", lambda *_: f"size {source.stat().st_size}")
    monkeypatch.setattr(sources, "get_current_fingerprint", lambda *_: f"size {source.stat().st_size}")
    put(source, OLD)
    build = builder("hashing", str(source), store)
    stopped_at("blocks/0000-000002", build)
    put(source, NEW)
    build()
    assert same_rows("hashing", store, NEW, tmp_path)


def test_a_compressed_file_of_several_blocks_loses_no_document_when_its_build_goes_on(tmp_path):
    source, store = tmp_path / "a.txt.gz", str(tmp_path / "store")
    source.write_bytes(gzip.compress(OLD.encode(), mtime=0))
    build = builder("hashing", str(source), store)
    stopped_at("blocks/0000-000000-000002", build)  # of one span, two blocks are finished
    build()
    assert open_store(store).n_rows == 60
    assert same_rows("hashing", store, OLD, tmp_path)


@pytest.mark.parametrize("appends", [False, True])
def test_a_store_whose_sums_are_not_written_is_not_finished(tmp_path, appends):
    source, store = tmp_path / "a.txt", str(tmp_path / "store")
    put(source, OLD)
    build = builder("hashing", str(source), store)
    if appends:
        build()

        def build():
            return build_store(str(source), store, block_bytes=400, hashing=SMALL, append=True)

    stopped_at(f"totals/000{int(appends)}/document_frequency", build)
    if appends:
        assert open_store(store).n_rows == 60
        assert open_store(store).document_frequency.max() == 60
    else:
        with pytest.raises(StoreError, match=re.escape(str(store))):
            open_store(store)
    build()
    assert open_store(store).document_frequency.max() == 60 * (1 + appends)
    open_store(store).check()


def test_text_files_whose_text_is_another_one_are_refused_when_they_are_read(tmp_path):
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
    ("info", "stamp"),
    [
        ({"size": 3, "ETag": '"abc"', "LastModified": "2026"}, "etag 3 abc"),
        ({"size": 3, "LastModified": "2026 01"}, "time 3 2026T01"),
        ({"size": 3, "name": "a"}, "size 3"),
    ],
)
def test_an_etag_is_taken_before_times_and_times_before_nothing(info, stamp):
    assert get_fingerprint(Listed(), "a", info) == stamp
