"""Measure how the block size and the order of unlabeled text affect the accuracy of intents.

Sentences are the docstrings and comments of the Python standard library, as in the demo. They are sorted by label or
shuffled, in few blocks or many. Accuracy is the mean over four draws of a few labels per package. The reference uses
exact directions of the whole matrix. One pass is Frequent Directions, which depends on blocks and order.
"""

import time
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from dspectral import IntentClassifier, IntentRecipe, SentenceRecipe, SentenceRepresentation
from dspectral.datasets import standard_library_intents
from dspectral.text import hash_documents
from dspectral.types import Documents

from .._form import form
from .._parts.intent_scores import margin
from ..intent_classification import draw_labeled

METHODS = {"default": None, "one pass": SentenceRecipe(n_passes=1)}


def main(argv: list[str] | None = None) -> None:
    """Run the comparison."""
    parser = form.parser("benchmarks.cuts", __doc__)
    add = parser.add_argument
    add("--blocks", type=form.positive, nargs="+", default=[1, 2, 9, 30, 100], help="numbers of blocks")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="which representations")
    add("--n-components", type=form.positive, default=100, help="components of a word's vector")
    add("--labelled", type=form.positive, default=20, help="labels per package")
    add("--packages", type=form.positive, default=20, help="number of classes")
    with form.run(parser.parse_args(argv)) as run:
        compare(run, standard_library_intents(run.arguments.packages, seed=run.arguments.seed))


def compare(run: form.Run, data: Any) -> None:
    """Report the accuracy of exact directions, then of each method for each number of blocks and order."""
    arguments = run.arguments
    exact = SentenceRepresentation(arguments.n_components, n_features=1 << 16)
    texts = [*data.train_texts, *data.unlabeled_texts]
    counts = hash_documents(Documents.from_strings(texts), exact.word_hashing).astype(np.float32)
    shuffled = counts[np.random.default_rng(arguments.seed).permutation(len(texts))]
    reference = correct_sentences(arguments, data, exact.fit(counts))
    for name in arguments.methods:
        for n_blocks in arguments.blocks:
            for order, rows in (("sorted", counts), ("shuffled", shuffled)):
                model = SentenceRepresentation(arguments.n_components, n_features=1 << 16, recipe=METHODS[name])
                started = time.process_time()
                with dask.config.set({"dspectral.in-memory-bytes": 0}):
                    model.fit(split_into_blocks(rows, n_blocks))
                seconds = time.process_time() - started
                draws = correct_sentences(arguments, data, model)
                accuracy, error = margin(draws, [np.zeros_like(draw) for draw in draws])
                over_exact, over_exact_error = margin(draws, reference)
                values = {
                    "accuracy": accuracy,
                    "accuracy_error": error,
                    "over_exact": over_exact,
                    "over_exact_error": over_exact_error,
                }
                values |= {"cpu_seconds": seconds, "passes": model.n_passes_}
                run.rows(values, data="docstrings", method=name, blocks=n_blocks, order=order)
    run.note(f"exact directions ({exact.solver_}): accuracy {np.mean(reference):.4f}")


def split_into_blocks(rows: sparse.csr_array, n_blocks: int) -> da.Array:
    """Split rows into blocks of almost equal size."""
    edges = np.linspace(0, rows.shape[0], n_blocks + 1).astype(int)
    meta = sparse.csr_array((0, 0), dtype=rows.dtype)
    blocks = [rows[start:end] for start, end in pairwise(edges)]
    return da.concatenate([da.from_delayed(dask.delayed(block), block.shape, meta=meta) for block in blocks])


def correct_sentences(arguments: Any, data: Any, model: SentenceRepresentation) -> list[Any]:
    """Return the correct test sentences of a classifier on a few labels, for each draw."""
    labels, expected = np.asarray(data.train_labels), np.asarray(data.test_labels)
    draws = []
    for seed in range(4):
        rows = draw_labeled(labels, arguments.labelled, seed)
        classifier = IntentClassifier(model, recipe=IntentRecipe(characters=False)).fit(
            [data.train_texts[i] for i in rows], labels[rows]
        )
        draws.append(classifier.predict(data.test_texts) == expected)
    return draws


if __name__ == "__main__":
    main()
