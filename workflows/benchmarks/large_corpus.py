"""How seconds and memory grow with the text: count a corpus of a known model, and learn from it, at several sizes.

Text of a chain of word classes is drawn once into compressed files. Each number of tokens is counted into a corpus,
from which embeddings, clusters and an anchor HMM are learned. How many words' nearest neighbor is of their own class,
and how much of the classes the clusters tell, says whether more text was worth it.
"""

import argparse
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import homogeneity_score

from dspectral import AnchorHMM, SpectralBrownClustering, WordEmbedding, build_corpus
from dspectral.store import Corpus

from .._form import form
from .._form.plots import new_lines
from .._form.usage import Used
from .._parts.class_chain import ClassChain

N_ASKED = 500
"""Words whose nearest neighbors are looked for: the most frequent ones that the model has."""


def main(argv: list[str] | None = None) -> None:
    """Count and learn at each size."""
    parser = options()
    arguments = parser.parse_args(argv)
    if not arguments.workers and not arguments.scheduler:
        parser.error("peak memory is each worker's own: give --workers N or --scheduler ADDRESS")
    place = nullcontext(arguments.scratch) if arguments.scratch else form.scratch_folder(None)
    with form.run(arguments) as run, place as scratch:
        chain = ClassChain(arguments.types, arguments.classes, arguments.seed)
        for n_tokens in sorted(arguments.tokens):
            learn(run, chain, n_tokens, scratch)
        for stage in ("corpus", *arguments.methods):
            describe(run, stage)
        plot(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.large_corpus", __doc__)
    add = parser.add_argument
    sizes = [10_000_000, 100_000_000, 1_000_000_000]
    add("--tokens", type=form.positive, nargs="+", default=sizes, metavar="N", help="numbers of tokens")
    add("--types", type=form.positive, default=100_000, metavar="N", help="words of the model")
    add("--classes", type=form.positive, default=1000, metavar="N", help="classes of the model")
    add("--components", type=form.positive, default=300, metavar="K", help="numbers of a word's vector")
    add("--clusters", type=form.positive, default=1000, metavar="N", help="clusters to find")
    add("--states", type=form.positive, default=12, metavar="N", help="hidden states of the anchor HMM")
    add("--min-count", type=form.positive, default=11, metavar="C", help="rarer words are one type")
    add("--methods", nargs="+", choices=list(MODELS), default=list(MODELS), help="to learn")
    add(
        "--scratch",
        type=form.local_path,
        metavar="DIR",
        help="folder of the text, which is kept (default: a new one)",
    )
    return parser


def learn(run: form.Run, chain: ClassChain, n_tokens: int, scratch: Path) -> None:
    """Draw one number of tokens, and learn from them in a folder that goes afterwards."""
    with run.measure(f"draw {n_tokens:,} tokens"):
        text = chain.write(scratch / "text", n_tokens)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="dspectral-") as folder:
        learn_from(run, chain, text, f"{folder}/corpus.zarr", n_tokens)


def learn_from(run: form.Run, chain: ClassChain, text: list[str], path: str, n_tokens: int) -> None:
    """Count files into a corpus, and learn everything from it."""
    with run.measure(f"corpus, {n_tokens:,} tokens") as used:
        corpus = build_corpus(text, path, min_count=run.arguments.min_count, tokens="blanks", lowercase=False)
    run.passes += 2
    report(run, "corpus", corpus, used)
    for method in run.arguments.methods:
        model = MODELS[method](run.arguments)
        used = run.fit(f"{method}, {n_tokens:,} tokens", model, corpus)
        report(run, method, corpus, used)
        if method in SCORES:
            metric, score = SCORES[method]
            rows(run, method, corpus, {metric: score(model, chain)})


def report(run: form.Run, method: str, corpus: Corpus, used: Used) -> None:
    """Add what a stage took."""
    peak, client = max(used.peaks_of_workers, default=0), used.peak_memory_bytes_here
    values = {
        "seconds": used.seconds,
        "cpu_seconds": used.cpu_seconds,
        "tokens_per_second": corpus.n_tokens / used.seconds,
        "peak_memory_bytes": peak,
        "client_memory_bytes": client,
    }
    rows(run, method, corpus, values)
    # At once: hours of work would be lost with a stage that fails, as a report is written of a whole run alone.
    print(
        f"{method}, {corpus.n_tokens:,} tokens: {used.seconds:.1f} s, {used.cpu_seconds:.1f} CPU s, largest worker "
        f"{peak / 1e9:.2f} GB, this process {client / 1e9:.2f} GB",
        flush=True,
    )


def rows(run: form.Run, method: str, corpus: Corpus, values: dict[str, float]) -> None:
    """Add figures of one size."""
    run.rows(values, data="drawn", method=method, tokens=corpus.n_tokens, types=len(corpus.words))


def neighbors_of_own_class(model: WordEmbedding, chain: ClassChain) -> float:
    """Return the share of frequent words whose nearest neighbor has the same class."""
    known = [i for i in np.argsort(-model.word_counts_, kind="stable") if model.words_[i].startswith("w")]
    asked = known[:N_ASKED]
    classes = np.array([chain.class_of(model.words_[i]) for i in known])
    vectors = model.vectors_[known]
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    near = vectors[: len(asked)] @ vectors.T
    np.fill_diagonal(near, -np.inf)
    return float(np.mean(classes[near.argmax(axis=1)] == classes[: len(asked)]))


def told_by_clusters(model: SpectralBrownClustering, chain: ClassChain) -> float:
    """Return the share of what there is to know of the classes that the clusters tell, each word once."""
    known = [i for i, word in enumerate(model.words_) if word.startswith("w")]
    classes = [chain.class_of(model.words_[i]) for i in known]
    return float(homogeneity_score(classes, model.labels_[known]))


MODELS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "embedding": lambda asked: WordEmbedding(asked.components, random_state=asked.seed),
    "clusters": lambda asked: SpectralBrownClustering(asked.clusters, random_state=asked.seed),
    "anchor": lambda asked: AnchorHMM(asked.states, spelling=0.0, min_count=4, random_state=asked.seed),
}
SCORES: dict[str, tuple[str, Callable[[Any, ClassChain], float]]] = {
    "embedding": ("nearest_neighbor_of_own_class", neighbors_of_own_class),
    "clusters": ("homogeneity", told_by_clusters),
}


def of(run: form.Run, method: str, metric: str) -> tuple[list[int], list[float]]:
    """Return tokens and values of one figure."""
    found = [each for each in run.report.rows if (each["method"], each["metric"]) == (method, metric)]
    return [each["tokens"] for each in found], [each["value"] for each in found]


def describe(run: form.Run, method: str) -> None:
    """Say how a stage grows from the smallest number of tokens to the largest."""
    tokens, seconds = of(run, method, "seconds")
    _, peaks = of(run, method, "peak_memory_bytes")
    if len(tokens) < 2:
        return
    growth = np.log(tokens[-1] / tokens[0])
    run.note(
        f"{method}: {tokens[-1] / tokens[0]:.3g} times the tokens take {seconds[-1] / seconds[0]:.3g} times the "
        f"seconds (power {np.log(seconds[-1] / seconds[0]) / growth:.2f}) and {peaks[-1] / peaks[0]:.2f} times the "
        f"memory of a worker; {tokens[-1] / seconds[-1]:,.0f} tokens a second"
    )


def plot(run: form.Run) -> None:
    """Draw seconds and memory against tokens."""
    for metric, unit, divisor in (("seconds", "seconds", 1.0), ("peak_memory_bytes", "MB", 1e6)):
        points = {
            method: [(n, value / divisor) for n, value in zip(*of(run, method, metric), strict=True)]
            for method in ("corpus", *run.arguments.methods)
        }
        log = "xy" if divisor == 1.0 else "x"
        figure, _ = new_lines(f"{unit} of each stage", points, x="tokens", y=unit, log=log)
        run.plot(metric, figure, f"{unit} of each stage against the tokens.")


if __name__ == "__main__":
    main()
