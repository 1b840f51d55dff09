"""Storage that fails now and then, does not answer for a while, or holds a damaged block."""

import shutil
import signal
import time

import dask
import numpy as np
import pytest

from dspectral import open_store, write_counts
from tests.cluster import fits
from tests.cluster.fits import shaky
from tests.cluster.network import Endpoint, why_no_s3
from tests.cluster.rows import fault

COUNTED = ("SketchedPCA", "TruncatedSVD", "HybridLSI", "MomentMultiLabelClassifier", "LocalLSI")


@fault("some reads fail, and answer when they are tried again", "in a pass")
def test_reads_that_fail_for_a_moment_are_tried_again(cluster, places, right, tmp_path, name):
    cluster.fitting.fit(name, shaky(places, failures=4, every=9, counter=str(tmp_path)))
    cluster.fitting.ended()
    failed = [path.stat().st_mtime for path in tmp_path.iterdir()]
    assert len(failed) == 4
    right(cluster.fitting, name, since=min(failed))


@pytest.fixture(scope="module")
def endpoint(places):
    """An S3 endpoint with the data."""
    if reason := why_no_s3():
        pytest.skip(reason)
    with Endpoint(places) as made:
        yield made


@fault("the S3 endpoint does not answer for two seconds", "in a pass")
def test_an_endpoint_that_does_not_answer_for_a_while_is_waited_for(cluster, endpoint, right, name):
    cluster.fitting.fit(name, endpoint.places)
    cluster.fitting.heard("PassStarted")
    since = time.time()
    endpoint.process.signal(signal.SIGSTOP)
    time.sleep(2.0)
    endpoint.process.signal(signal.SIGCONT)
    right(cluster.fitting, name, since=since)


@pytest.fixture(scope="module")
def damaged(places, tmp_path_factory):
    """A copy of the data with a damaged block, its name, and the bits of fits to a store that never had it."""
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copytree(places.counts, folder / "counts")
    store = open_store(places.counts)
    bad = 5
    block = store.blocks[bad]
    files = [path for path in (folder / "counts" / block.name / "data" / "c").rglob("*") if path.is_file()]
    chunk = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    keep = np.arange(store.n_rows) // fits.BLOCK_ROWS != bad
    with dask.config.set(scheduler="sync"):
        rows, labels = store.counts.compute()[keep], store.labels.compute()[keep]
        write_counts(rows, str(folder / "sound"), labels=labels, block_rows=fits.BLOCK_ROWS)
        without = places._replace(counts=str(folder / "sound"))
        expected = {name: fits.bits_of(fits.fitted(name, without)) for name in COUNTED}
    return places._replace(counts=str(folder / "counts")), block.name, expected


@fault("a block is damaged, and left out on request", "in a pass", *COUNTED)
def test_a_damaged_block_is_named_and_left_out_on_request(cluster, damaged, measured, name):
    hurt, block, expected = damaged
    since = time.time()
    cluster.fitting.fit(name, hurt)
    messages = cluster.fitting.fails(block)
    cluster.fitting.fit(name, hurt, without=[block])
    assert cluster.fitting.bits() == expected[name]
    measured("the fit without the block", messages - since)


CORPORA = ("TreePCA", "WordEmbedding", "AnchorHMM")


@fault("a chunk of a corpus is damaged, and comes back from a copy", "in a pass", *CORPORA)
def test_a_damaged_chunk_of_a_corpus_is_named_and_restored(cluster, places, calm, measured, tmp_path, name):
    shutil.copytree(places.corpus, tmp_path / "corpus")
    chunks = [path for path in sorted((tmp_path / "corpus").rglob("c/0")) if path.stat().st_size > 200]
    chunk = chunks[len(chunks) // 2]
    block = chunk.relative_to(tmp_path / "corpus").parts[0]
    sound = chunk.read_bytes()
    chunk.write_bytes(sound[:100] + bytes([sound[100] ^ 1]) + sound[101:])
    hurt = places._replace(corpus=str(tmp_path / "corpus"))
    since = time.time()
    cluster.fitting.fit(name, hurt)
    messages = cluster.fitting.fails(hurt.corpus, block)
    chunk.write_bytes(sound)
    cluster.fitting.fit(name, hurt)
    assert cluster.fitting.bits() == calm[name]
    measured("the fit", messages - since)
