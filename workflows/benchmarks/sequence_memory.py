"""Peak memory against tokens: fit sequence models to streams of more and more sentences, drawn as they are read.

No sentence is kept: each block is drawn from a known model by the task that reads it, again in each pass. What is
left is what the models themselves need, and that is not to grow with the sentences.
"""

import argparse
from collections.abc import Callable
from typing import Any

from dspectral import EMHMM, AnchorHMM, RefinementHMM
from dspectral.datasets import anchor_sentences, refinement_sequences

from .._form import form
from .._form.plots import new_plot

LENGTH = 20.0
"""Tokens of a sentence, on average."""
BLOCK_SENTENCES = 5000


def main(argv: list[str] | None = None) -> None:
    """Fit each model to each number of tokens."""
    parser = options()
    arguments = parser.parse_args(argv)
    if not arguments.workers and not arguments.scheduler:
        parser.error("peak memory is each worker's own: give --workers N or --scheduler ADDRESS")
    with form.run(arguments) as run:
        for method in arguments.methods:
            peaks = [fit(run, method, n_tokens) for n_tokens in sorted(arguments.tokens)]
            run.note(
                f"{method}: {peaks[-1] / peaks[0]:.2f} times the memory for {growth(arguments):g} times the tokens"
            )
        plot(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.sequence_memory", __doc__)
    add = parser.add_argument
    add("--tokens", type=form.positive, nargs="+", default=[1_000_000, 10_000_000], help="numbers of tokens")
    add("--types", type=form.positive, default=500, help="of words")
    add("--states", type=form.positive, default=12, help="hidden states, or labels of 2 refinements")
    add("--methods", nargs="+", choices=list(MODELS), default=list(MODELS), help="to compare")
    return parser


def growth(arguments: argparse.Namespace) -> float:
    """Return how many times the tokens grow."""
    return float(max(arguments.tokens) / min(arguments.tokens))


def fit(run: form.Run, method: str, n_tokens: int) -> int:
    """Fit one model; return the peak of the largest worker."""
    arguments = run.arguments
    n_sentences = max(1, int(n_tokens / LENGTH))
    with run.measure(f"draw {n_tokens} tokens"):
        stream = STREAMS[method](n_sentences, arguments)
    model = MODELS[method](arguments)
    with run.measure(f"{method}, {n_tokens} tokens") as used:
        model.fit(stream)
    run.passes += model.n_passes_
    peak = max(peak for name, peak in used.peaks.items() if name != "this process")
    shown = {"tokens": n_tokens, "sentences": n_sentences, "passes": model.n_passes_}
    values = {"peak_memory_bytes": peak, "cpu_seconds": round(used.cpu_seconds, 1)}
    for metric, value in values.items():
        run.row(data="drawn", method=method, metric=metric, value=value, **shown)
    return peak


def words(n_sentences: int, arguments: argparse.Namespace) -> Any:
    """Draw sentences from an anchor HMM."""
    return anchor_sentences(
        n_sentences,
        n_states=arguments.states,
        n_types=arguments.types,
        mean_length=LENGTH,
        block_sentences=BLOCK_SENTENCES,
        seed=arguments.seed,
    )


def labelled(n_sentences: int, arguments: argparse.Namespace) -> Any:
    """Draw labelled sequences from a refinement HMM."""
    return refinement_sequences(
        n_sentences,
        n_labels=arguments.states,
        n_types=arguments.types,
        mean_length=LENGTH,
        block_sequences=BLOCK_SENTENCES,
        seed=arguments.seed,
    )


STREAMS: dict[str, Callable[[int, argparse.Namespace], Any]] = {
    "anchor": words,
    "em": words,
    "refinement": labelled,
}
MODELS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "anchor": lambda arguments: AnchorHMM(
        arguments.states, spelling=0.0, min_count=4, random_state=arguments.seed
    ),
    "em": lambda arguments: EMHMM(arguments.states, n_iter=1, random_state=arguments.seed),
    "refinement": lambda arguments: RefinementHMM(2, n_em_iter=1, random_state=arguments.seed),
}


def plot(run: form.Run) -> None:
    """Draw memory against tokens."""
    figure, axes = new_plot("Memory of the largest worker", x="tokens", y="MB", log="x")
    for method in run.arguments.methods:
        rows = [
            row for row in run.report.rows if row["method"] == method and row["metric"] == "peak_memory_bytes"
        ]
        axes.plot(
            [row["tokens"] for row in rows], [row["value"] / 1e6 for row in rows], marker="o", label=method
        )
    axes.legend(frameon=False)
    axes.set_ylim(bottom=0)
    run.plot("memory", figure, "Peak memory of the largest worker against the tokens.")


if __name__ == "__main__":
    main()
