"""One real fit of each method, and how much of its time each loop takes, by a profile."""

import cProfile
import pstats
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import dask

from dspectral import (
    EMHMM,
    MomentMultiLabelClassifier,
    SpectralBrownClustering,
    TruncatedSVD,
    WordEmbedding,
    build_corpus,
    build_store,
    open_corpus,
    write_counts,
)
from dspectral.datasets import gaussian_rows, low_rank_counts, sample_labelled_documents

from .chains import DECODING, LEARNING, STATES
from .counting import BROWN, CLUSTERS, EMBEDDING, WINDOW
from .data import columns_of, texts, types_of
from .loops import Loop
from .products import KRYLOV, SKETCH
from .reading import BUILD
from .sketches import DENSE, MOMENTS, ROWS
from .sketches import STATES as TOPICS

BLOCKS = 4
"""Blocks of the store that is decomposed."""


class Profile(NamedTuple):
    """Seconds of a fit in one thread, and of the functions in it.

    `seconds`: wall time; `calls`: as :mod:`pstats` has them.
    """

    seconds: float
    calls: dict[Any, Any]

    def share(self, inside: Iterable[str], without: Iterable[str]) -> float:
        """Return the share of some functions, less that of others which these call."""
        spent = sum(entry[3] for key, entry in self.calls.items() if _is_one(key, inside))
        for key, entry in self.calls.items():
            if _is_one(key, without):
                spent -= sum(by[3] for caller, by in entry[4].items() if _is_one(caller, inside))
        return float(spent / self.seconds)


def _is_one(key: tuple[str, int, str], names: Iterable[str]) -> bool:
    path, _, function = key
    return any(f"{Path(path).as_posix()}:{function}".endswith(f"/{name}") for name in names)


def profile(go: Callable[[], object]) -> Profile:
    """Run a fit in this thread, and see where its time goes."""
    profiler = cProfile.Profile()
    with dask.config.set(scheduler="synchronous"):
        start = time.perf_counter()
        profiler.runcall(go)
        seconds = time.perf_counter() - start
    return Profile(seconds, pstats.Stats(profiler).stats)  # type: ignore[attr-defined]


def _store(folder: Path, size: int, seed: int) -> Any:
    n_columns = columns_of(size)
    rows = low_rank_counts(BLOCKS * size, n_columns, min(50, n_columns), block_rows=size, seed=seed)
    return write_counts(rows, str(folder / "counts"))


def _decomposed(**settings: Any) -> Callable[[Path, int, int], Callable[[], object]]:
    def make(folder: Path, size: int, seed: int) -> Callable[[], object]:
        store, k = _store(folder, size, seed), min(100, max(2, size // 16))
        return lambda: TruncatedSVD(k, random_state=seed, **settings).fit(store)

    return make


def _dense(_folder: Path, size: int, seed: int) -> Callable[[], object]:
    n_columns = max(16, size // 16)
    rows = gaussian_rows(max(64, size // 4), n_columns, block_rows=max(32, size // 8), seed=seed)
    k = min(ROWS // 2, n_columns // 4)
    return lambda: TruncatedSVD(k, solver="frequent_directions", n_passes=1, random_state=seed).fit(rows)


def _built(folder: Path, size: int, seed: int) -> Callable[[], object]:
    (folder / "text.txt").write_text("\n".join(texts(size, seed)), encoding="utf-8")
    return lambda: build_store(str(folder / "text.txt"), str(folder / "built"))


def _corpus(folder: Path, size: int, seed: int) -> Any:
    (folder / "words.txt").write_text("\n".join(texts(size, seed)), encoding="utf-8")
    length = (folder / "words.txt").stat().st_size
    build_corpus(str(folder / "words.txt"), str(folder / "corpus"), block_bytes=max(64, length // BLOCKS))
    return open_corpus(str(folder / "corpus"))


def _embedded(folder: Path, size: int, seed: int) -> Callable[[], object]:
    corpus, k = _corpus(folder, size, seed), min(100, types_of(size) // 4)
    return lambda: WordEmbedding(k, window=WINDOW, random_state=seed).fit(corpus)


def _clustered(folder: Path, size: int, seed: int) -> Callable[[], object]:
    corpus, m = _corpus(folder, size, seed), min(CLUSTERS, types_of(size) // 4)
    k = min(64, max(1, types_of(size) // 4))
    return lambda: SpectralBrownClustering(m, n_dimensions=k, random_state=seed).fit(corpus)


def _learned(folder: Path, size: int, seed: int) -> Callable[[], object]:
    corpus = _corpus(folder, size, seed)
    return lambda: EMHMM(STATES, n_iter=3, random_state=seed).fit(corpus)


def _decoded(folder: Path, size: int, seed: int) -> Callable[[], object]:
    corpus = _corpus(folder, size, seed)
    fitted = EMHMM(STATES, n_iter=1, random_state=seed).fit(corpus)
    return lambda: fitted.decode(corpus)


def _labelled(_folder: Path, size: int, seed: int) -> Callable[[], object]:
    n_words, k = max(64, size // 8), min(TOPICS, max(2, size // 64))
    words, labels, _ = sample_labelled_documents(
        max(64, size // 2), n_words=n_words, n_states=k, length=80.0, seed=seed
    )
    return lambda: MomentMultiLabelClassifier(k, random_state=seed).fit(words, labels)


FITS: dict[str, Callable[[Path, int, int], Callable[[], object]]] = {
    KRYLOV: _decomposed(solver="krylov", n_passes=4, sketch_size=300),
    SKETCH: _decomposed(solver="frequent_directions", n_passes=1, sketch_size=ROWS),
    DENSE: _dense,
    BUILD: _built,
    EMBEDDING: _embedded,
    BROWN: _clustered,
    LEARNING: _learned,
    DECODING: _decoded,
    MOMENTS: _labelled,
}
"""Each makes its data in a folder of its own, and returns the fit: what is timed."""


def shares(loops: Iterable[Loop], fit: str, profiled: Profile) -> dict[str, float]:
    """Return the share of each loop that a fit has, by the loop's name."""
    return {
        loop.name: profiled.share(share.inside, share.without)
        for loop in loops
        for share in loop.shares
        if share.fit == fit
    }
