"""What plans are held against: methods, sizes, and data that anybody can generate."""

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np

import dspectral

Asked = dict[str, Any]


def _asked(method: str, workers: int, data: Asked, **settings: Any) -> Asked:
    return {"method": method, "workers": workers, "settings": settings, **data}


def _of(data: str, *names: str) -> Callable[..., Asked]:
    return lambda *sizes: {"data": data, "data_size": dict(zip(names, sizes, strict=True))}


def _corpus(megabytes: int, block_megabytes: int) -> Asked:
    return {"data": "corpus", "data_size": {"megabytes": megabytes, "block_bytes": block_megabytes << 20}}


_text = _of("text", "megabytes")
_counts, _dense = (_of(data, "columns", "rows", "blocks") for data in ("counts", "dense"))
_labels, _classes = (_of(data, "columns", "labels", "rows", "blocks") for data in ("labels", "classes"))
SKETCH, GRAM = {"solver": "frequent_directions"}, {"solver": "gram"}
CONFIGURATIONS: dict[str, Asked] = {
    "sketch-1": _asked("SketchedPCA", 1, _counts(1 << 16, 4000, 20), n_components=40, **SKETCH),
    "sketch-2": _asked(
        "SketchedPCA", 2, _counts(1 << 17, 3000, 24), n_components=30, sketch_size=120, **SKETCH
    ),
    "sketch-3": _asked(
        "SketchedPCA", 2, _counts(3 << 15, 2500, 18), n_components=50, random_state=5, **SKETCH
    ),
    "krylov-1": _asked("TruncatedSVD", 1, _counts(1 << 17, 20000, 24), n_components=100, n_passes=5),
    "krylov-2": _asked("TruncatedSVD", 2, _counts(1 << 16, 30000, 30), n_components=60, n_passes=6),
    "gram-2": _asked("SketchedPCA", 2, _dense(1500, 8000, 24), n_components=20, **GRAM),
    "hashing-1": _asked("build_store", 1, _text(100), block_bytes=4 << 20),
    "vocabulary-2": _asked("build_vocabulary", 2, _text(100), block_bytes=4 << 20),
    "corpus-2": _asked("build_corpus", 2, _text(200), block_bytes=8 << 20),
    "embedding-1": _asked("WordEmbedding", 1, _corpus(60, 2), n_components=50, window=5),
    "brown-2": _asked("SpectralBrownClustering", 2, _corpus(120, 4), n_clusters=50),
    "anchor-2": _asked("AnchorHMM", 2, _corpus(60, 2), n_states=12),
    "anchor-3": _asked("AnchorHMM", 2, _corpus(40, 1), n_states=20, random_state=5),
    "multilabel-2": _asked("MomentMultiLabelClassifier", 2, _labels(20000, 400, 4000, 24), n_states=20),
    "hybrid-1": _asked("HybridLSI", 1, _classes(30000, 10, 8000, 20), n_components=40),
    "tree-2": _asked("TreePCA", 2, _corpus(60, 2), n_components=40, length=16),
    "sketch-4": _asked("SketchedPCA", 1, _counts(1 << 15, 5000, 22), n_components=60, **SKETCH),
    "krylov-3": _asked("TruncatedSVD", 2, _counts(3 << 15, 15000, 26), n_components=80, n_passes=4),
    "gram-1": _asked("SketchedPCA", 1, _dense(1200, 10000, 20), n_components=30, **GRAM),
    "hashing-2": _asked("build_store", 2, _text(150), block_bytes=8 << 20),
    "vocabulary-1": _asked("build_vocabulary", 1, _text(60), block_bytes=4 << 20),
    "corpus-1": _asked("build_corpus", 1, _text(100), block_bytes=8 << 20),
    "embedding-2": _asked("WordEmbedding", 2, _corpus(90, 3), n_components=100, window=8),
    "brown-1": _asked("SpectralBrownClustering", 1, _corpus(80, 4), n_clusters=100),
    "anchor-1": _asked("AnchorHMM", 1, _corpus(80, 2), n_states=16),
    "multilabel-1": _asked("MomentMultiLabelClassifier", 1, _labels(30000, 300, 6000, 20), n_states=30),
    "hybrid-2": _asked("HybridLSI", 2, _classes(40000, 8, 10000, 24), n_components=60),
    "tree-1": _asked("TreePCA", 1, _corpus(50, 2), n_components=30, length=32),
    "brown-3": _asked("SpectralBrownClustering", 2, _corpus(150, 4), n_clusters=80),
    "anchor-4": _asked("AnchorHMM", 1, _corpus(100, 3), n_states=14),
    "tree-3": _asked("TreePCA", 2, _corpus(70, 2), n_components=25, length=32),
    "embedding-3": _asked("WordEmbedding", 1, _corpus(110, 3), n_components=80, window=6),
    "embedding-4": _asked("WordEmbedding", 2, _corpus(130, 4), n_components=120, window=5),
    "embedding-5": _asked("WordEmbedding", 2, _corpus(120, 4), n_components=60, window=7),
    "brown-4": _asked("SpectralBrownClustering", 1, _corpus(100, 3), n_clusters=60),
    "embedding-6": _asked("WordEmbedding", 1, _corpus(100, 3), n_components=90, window=4),
    "multilabel-3": _asked(
        "MomentMultiLabelClassifier", 1, _labels(25000, 350, 5000, 22), n_states=25, n_em_iter=1
    ),
    "krylov-4": _asked("TruncatedSVD", 2, _counts(1 << 16, 25000, 22), n_components=70, n_passes=5),
    "tree-4": _asked("TreePCA", 2, _corpus(80, 3), n_components=32, length=16),
    "hybrid-3": _asked("HybridLSI", 2, _classes(50000, 12, 9000, 20), n_components=50),
}
UNSEEN = (
    "sketch-4",
    "krylov-4",
    "gram-1",
    "hashing-2",
    "vocabulary-1",
    "corpus-1",
    "embedding-6",
    "brown-4",
    "anchor-4",
    "multilabel-3",
    "hybrid-3",
    "tree-4",
)
"""Added after the laws were last mended, for which the others served (last krylov-3, tree-3 and hybrid-2, when what
travels between workers was counted anew): nothing was changed for these twelve. What a fit chooses by itself from
more data than a sample has is not planned: multilabel-1 takes two passes of EM more than its samples do."""
RANDOM = (
    "SketchedPCA",
    "TruncatedSVD",
    "gram",
    "HybridLSI",
    "MomentMultiLabelClassifier",
    "WordEmbedding",
    "SpectralBrownClustering",
    "AnchorHMM",
    "build_store",
)


def drawn(generator: np.random.Generator) -> Asked:
    """Draw a method, a size, a limit, and a number of workers."""
    method = str(generator.choice(RANDOM))
    power = int(generator.integers(14, 18))
    k = int(np.exp(generator.uniform(np.log(10), np.log(150))))
    blocks = int(generator.integers(6, 17))
    counts = {"columns": 1 << power, "rows": 2000, "blocks": blocks}
    labelled = {"columns": 1 << (power - 2), "labels": 50, "rows": 2000, "blocks": blocks}
    corpus = {"megabytes": int(generator.integers(8, 30)), "block_bytes": 1 << 20}
    of: dict[str, tuple[str, Asked, Asked]] = {
        "SketchedPCA": ("counts", counts, {"n_components": k, "solver": "frequent_directions"}),
        "TruncatedSVD": ("counts", counts, {"n_components": k, "n_passes": int(generator.integers(2, 5))}),
        "gram": (
            "dense",
            {"columns": 500 * (k // 10), "rows": 2000, "blocks": blocks},
            {"n_components": 10, "solver": "gram"},
        ),
        "HybridLSI": ("classes", labelled, {"n_components": k}),
        "MomentMultiLabelClassifier": ("labels", labelled, {"n_states": min(k, 60)}),
        "WordEmbedding": ("corpus", corpus, {"n_components": k}),
        "SpectralBrownClustering": ("corpus", corpus, {"n_clusters": k}),
        "AnchorHMM": ("corpus", corpus, {"n_states": min(k, 20)}),
        "build_store": ("text", {"megabytes": 40}, {"block_bytes": 1 << int(generator.integers(19, 25))}),
    }
    data, size, settings = of[method]
    limit = int(np.exp(generator.uniform(np.log(320), np.log(1300))))
    return {
        "method": "SketchedPCA" if method == "gram" else method,
        "workers": int(generator.integers(1, 3)),
        "memory_limit": f"{limit}MB",
        "settings": settings,
        "data": data,
        "data_size": size,
    }


def prepared(asked: Asked, scratch: Path) -> Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Generate the data of a configuration, unless it is there, and return what opens it."""
    key = zlib.crc32(json.dumps([asked["data"], asked["data_size"]]).encode())
    path = scratch / f"{asked['data']}-{key:08x}"
    if not Path(f"{path}.done").exists():
        scratch.mkdir(parents=True, exist_ok=True)
        with dask.config.set(scheduler="threads"):
            WRITERS[asked["data"]](path, **asked["data_size"])
        Path(f"{path}.done").touch()

    def opened() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        settings, method = asked["settings"], asked["method"]
        if method in ("build_store", "build_corpus", "build_vocabulary"):
            if method == "build_vocabulary":
                settings = {**settings, "vocabulary": dspectral.VocabularySettings(min_document_frequency=5)}
            function = dspectral.build_corpus if method == "build_corpus" else dspectral.build_store
            return (
                function,
                (f"{path}.txt", f"{path}-{np.random.default_rng().integers(1 << 60)}.zarr"),
                settings,
            )
        estimator = getattr(dspectral, method)(**settings)
        return estimator, READERS[asked["data"]](path, **asked["data_size"]), {}

    return opened


def _write_counts(path: Path, *, columns: int, rows: int, blocks: int) -> None:
    counts = dspectral.datasets.low_rank_counts(
        rows * blocks, columns, 50, row_length=80, block_rows=rows, seed=1
    )
    dspectral.write_counts(counts, f"{path}.zarr")


def _write_nothing(path: Path, **_size: int) -> None:
    """Random rows are drawn when they are read."""


def _write_labelled(
    path: Path, *, columns: int, labels: int, rows: int, blocks: int, each: float = 3.0
) -> None:
    words, marks = dspectral.datasets.labelled_counts(
        rows * blocks,
        columns,
        labels,
        min(10, labels),
        row_length=80,
        labels_each=each,
        block_rows=rows,
        seed=1,
    )
    dspectral.write_counts(words, f"{path}.zarr", labels=marks)


def _write_text(path: Path, *, megabytes: int) -> None:
    """Write lines of words whose frequencies follow Zipf's law, each word after one of few others."""
    generator = np.random.default_rng(1)
    words = np.array([f"w{i:x}" for i in range(20_000)], dtype=object)
    with Path(f"{path}.txt").open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1_000_000:
            ranks = np.minimum(generator.zipf(1.25, size=(20_000, 15)), len(words)) - 1
            ranks[:, 1::2] = (ranks[:, ::2][:, :7] * 7 + ranks[:, 1::2]) % len(words)
            file.write("\n".join(map(" ".join, words[ranks])) + "\n")


def _write_corpus(path: Path, *, megabytes: int, block_bytes: int) -> None:
    _write_text(path, megabytes=megabytes)
    dspectral.build_corpus(f"{path}.txt", f"{path}.zarr", block_bytes=block_bytes, min_count=10)


WRITERS: dict[str, Callable[..., None]] = {
    "counts": _write_counts,
    "dense": _write_nothing,
    "labels": _write_labelled,
    "classes": _write_labelled,
    "text": _write_text,
    "corpus": _write_corpus,
}


def _read_counts(path: Path, **_size: int) -> tuple[Any, ...]:
    return (dspectral.open_store(f"{path}.zarr"),)


def _read_dense(_path: Path, *, columns: int, rows: int, blocks: int) -> tuple[Any, ...]:
    return (dspectral.datasets.gaussian_rows(rows * blocks, columns, block_rows=rows, seed=1),)


def _read_classes(path: Path, *, labels: int, **_size: int) -> tuple[Any, ...]:
    store = dspectral.open_store(f"{path}.zarr")
    # The class of a row is its number, as good as any: what a fit takes does not depend on it.
    return store, np.arange(store.n_rows) % labels


def _read_corpus(path: Path, **_size: int) -> tuple[Any, ...]:
    # Counts that an earlier run has left there are not made again.
    shutil.rmtree(f"{path}.zarr/contexts", ignore_errors=True)
    return (dspectral.open_corpus(f"{path}.zarr"),)


READERS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "counts": _read_counts,
    "dense": _read_dense,
    "labels": _read_counts,
    "classes": _read_classes,
    "corpus": _read_corpus,
}
