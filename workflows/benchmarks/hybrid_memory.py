"""Peak memory against documents: hybrid LSI with classes, fitted to more and more documents drawn as they are read.

No document is kept: each block, with its classes, is drawn from a known model by the task that reads it, again in each
pass. The similarities of documents are never formed, so what is left is one row for each class and the sums of the
solver, and neither is to grow with the documents.
"""

import argparse

from dspectral import HybridLSI
from dspectral.datasets import labelled_counts

from .._form import form
from .._form.plots import new_plot

BLOCK_ROWS = 10_000


def main(argv: list[str] | None = None) -> None:
    """Fit to each number of documents."""
    parser = options()
    arguments = parser.parse_args(argv)
    if not arguments.workers and not arguments.scheduler:
        parser.error("peak memory is each worker's own: give --workers N or --scheduler ADDRESS")
    with form.run(arguments) as run:
        peaks = [fit(run, n_documents) for n_documents in sorted(arguments.documents)]
        growth = max(arguments.documents) / min(arguments.documents)
        run.note(f"{peaks[-1] / peaks[0]:.2f} times the memory for {growth:g} times the documents")
        figure, axes = new_plot("Memory of the largest worker", x="documents", y="MB", log="x")
        axes.plot(sorted(arguments.documents), [peak / 1e6 for peak in peaks], marker="o")
        axes.set_ylim(bottom=0)
        run.plot("memory", figure, "Peak memory of the largest worker against the documents.")


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.hybrid_memory", __doc__)
    add = parser.add_argument
    numbers = [50_000, 500_000]
    add("--documents", type=form.positive, nargs="+", default=numbers, help="numbers of documents")
    add("--terms", type=form.positive, default=8000, help="of each document's row")
    add("--classes", type=form.positive, default=100, help="of the documents")
    add("--n-components", type=form.positive, default=50, help="rank")
    add("--alpha", type=float, default=0.5, help="weight of the classes")
    return parser


def fit(run: form.Run, n_documents: int) -> int:
    """Fit once; return the peak of the largest worker."""
    arguments = run.arguments
    words, classes = labelled_counts(
        n_documents,
        arguments.terms,
        arguments.classes,
        min(50, arguments.classes),
        block_rows=min(BLOCK_ROWS, n_documents),
        seed=arguments.seed,
    )
    model = HybridLSI(arguments.n_components, alpha=arguments.alpha, random_state=arguments.seed)
    with run.measure(f"{n_documents} documents") as used:
        model.fit(words, classes)
    run.passes += model.n_passes_
    peak = max(peak for name, peak in used.peaks.items() if name != "this process")
    for metric, value in {"peak_memory_bytes": peak, "cpu_seconds": round(used.cpu_seconds, 1)}.items():
        run.row(
            data="drawn",
            method="hybrid",
            metric=metric,
            value=value,
            documents=n_documents,
            passes=model.n_passes_,
        )
    return peak


if __name__ == "__main__":
    main()
