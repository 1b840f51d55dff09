"""Race dspectral's n-gram hashing against scikit-learn's HashingVectorizer.

Both hash the same documents, a line of the text files each (or the docstrings and comments of the Python
standard library), to the same columns; their matrices are checked to be equal. Each is timed on one thread
and on two threads that take a half each, in turn, and the median counts. Each gets the documents in the form
that suits it: scikit-learn decoded strings, dspectral the bytes of a block.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from dspectral import NgramHashing
from dspectral.text import hash_documents
from dspectral.types import Documents

from .._form import form
from .._form.plots import COLOURS, new_plot
from ._races.words import documents

SPEEDUP = "speedup_over_scikit_learn_one_thread"
LEAST_SECONDS = 0.2
"""Of a timing; a few documents are hashed several times over."""


class Contestant(NamedTuple):
    """One method, which hashes a part of the documents on each of its threads."""

    method: str
    threads: int
    hash_part: Callable[[Any], sparse.csr_array]
    parts: Sequence[Any]

    def seconds(self) -> float:
        """Return the wall time of hashing all parts at once: a mean over as often as a clock asks for."""
        loops, elapsed = 0, 0.0
        with ThreadPoolExecutor(self.threads) as pool:
            start = time.perf_counter()
            while not loops or elapsed < LEAST_SECONDS:
                list(pool.map(self.hash_part, self.parts))
                elapsed = time.perf_counter() - start
                loops += 1
        return elapsed / loops


def main(argv: list[str] | None = None) -> None:
    """Run the race."""
    parser = form.parser("benchmarks.hashing", __doc__, fits=False)
    about = "text files, also .gz, or patterns of them (default: Python's docstrings)"
    parser.add_argument("--text", nargs="+", metavar="FILE", help=about)
    parser.add_argument(
        "--documents", type=form.positive, metavar="N", help="take the first N documents only (default: all)"
    )
    parser.add_argument("--repeats", type=form.positive, default=5, help="of each timing")
    parser.add_argument("--columns-bits", type=form.bits, default=18, help="2 to this power columns")
    with form.run(parser.parse_args(argv)) as run:
        texts = documents({"text": run.arguments.text, "documents": run.arguments.documents})
        if len(texts) < 2:
            raise ValueError(f"{len(texts)} document(s), but two threads need at least 2")
        settings = NgramHashing(1 << run.arguments.columns_bits, (1, 3))
        with run.measure("check that the matrices are equal"):
            check_equal(texts, settings)
        contestants = line_up(texts, settings)
        times = race(run, contestants)
        report(run, len(texts), times)


def vectorizer(settings: NgramHashing) -> HashingVectorizer:
    """Return scikit-learn's, with the same settings."""
    return HashingVectorizer(
        n_features=settings.n_features,
        ngram_range=settings.ngram_range,
        lowercase=settings.lowercase,
        alternate_sign=settings.alternate_sign,
        norm=None,
    )


def check_equal(texts: list[str], settings: NgramHashing) -> None:
    """Compare the two matrices; this also compiles the kernels."""
    ours = hash_documents(Documents.from_strings(texts), settings)
    theirs = sparse.csr_array(vectorizer(settings).transform(texts))
    differing = (ours != theirs).nonzero()[0]
    if ours.shape != theirs.shape or len(differing):
        raise RuntimeError(f"the matrices differ in {len(differing)} entries, first in document {differing[:1]}")


def line_up(texts: list[str], settings: NgramHashing) -> list[Contestant]:
    """Return both methods with one thread and with two."""
    half = len(texts) // 2
    ours, theirs = partial(hash_documents, settings=settings), vectorizer(settings).transform
    contestants = []
    for threads, parts in ((1, [texts]), (2, [texts[:half], texts[half:]])):
        contestants.append(Contestant("scikit-learn", threads, theirs, parts))
        contestants.append(Contestant("dspectral", threads, ours, [Documents.from_strings(part) for part in parts]))
    return contestants


def race(run: form.Run, contestants: list[Contestant]) -> dict[tuple[str, int], float]:
    """Return the median seconds of each; they take turns, so that a busy machine slows all alike."""
    times: dict[tuple[str, int], list[float]] = {(c.method, c.threads): [] for c in contestants}
    for repeat in range(run.arguments.repeats):
        with run.measure(f"race {repeat + 1}/{run.arguments.repeats}"):
            for contestant in contestants:
                times[contestant.method, contestant.threads].append(contestant.seconds())
    return {who: statistics.median(seconds) for who, seconds in times.items()}


def report(run: form.Run, n_documents: int, times: dict[tuple[str, int], float]) -> None:
    """Add rows and a plot."""
    run.passes = 1
    data = ", ".join(run.arguments.text or ["standard library"])
    baseline = times["scikit-learn", 1]
    figure, axes = new_plot("Hashing n-grams", x="documents a second", y="")
    for (method, threads), seconds in times.items():
        fields = {"threads": threads, "documents": n_documents, "repeats": run.arguments.repeats}
        rate = n_documents / seconds
        run.row(data=data, method=method, metric="documents_per_second", value=rate, **fields)
        run.row(data=data, method=method, metric=SPEEDUP, value=baseline / seconds, **fields)
        bar = axes.barh(f"{method}, {threads} thread(s)", rate, color=COLOURS[method == "dspectral"])
        axes.bar_label(bar, [f"{baseline / seconds:.1f}x"], padding=3)
    axes.invert_yaxis()
    run.plot("documents_per_second", figure, "Documents a second, and how many times scikit-learn on one thread.")


if __name__ == "__main__":
    main()
