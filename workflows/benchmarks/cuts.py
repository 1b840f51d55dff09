"""Cut and order unlabeled text, and see what of it reaches the accuracy of intents.

Sentences are the docstrings and comments of the Python standard library, as in the demo. They lie sorted by label or
shuffled, in few blocks or many. Accuracy is that of classifiers on a few labels a package, over four draws, beside that
of exact directions of the whole matrix. One pass is Frequent Directions, which knows cuts and orders.
"""

import time
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from dspectral import IntentClassifier, SentenceRecipe, SentenceRepresentation
from dspectral.datasets import standard_library_intents
from dspectral.text import hash_documents
from dspectral.types import Documents

from .._form import form
from .._parts.intent_scores import margin
from ..intent_classification import drawn

METHODS = {"default": None, "one pass": SentenceRecipe(n_passes=1)}


def main(argv: list[str] | None = None) -> None:
    """Run the comparison."""
    parser = form.parser("benchmarks.cuts", __doc__)
    add = parser.add_argument
    add("--blocks", type=form.positive, nargs="+", default=[1, 2, 9, 30, 100], help="numbers of blocks")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="which representations")
    add("--n-components", type=form.positive, default=100, help="length of a word's vector")
    add("--labelled", type=form.positive, default=20, help="labels a package")
    add("--packages", type=form.positive, default=20, help="to tell apart")
    with form.run(parser.parse_args(argv)) as run:
        compare(run, standard_library_intents(run.arguments.packages, seed=run.arguments.seed))


def compare(run: form.Run, found: Any) -> None:
    """Report the accuracy of exact directions, then of each method at each cut and order."""
    arguments = run.arguments
    exact = SentenceRepresentation(arguments.n_components, n_features=1 << 16)
    texts = [*found.train_texts, *found.unlabelled_texts]
    counts = hash_documents(Documents.of(texts), exact.word_hashing).astype(np.float32)
    shuffled = counts[np.random.default_rng(arguments.seed).permutation(len(texts))]
    known = right(arguments, found, exact.fit(counts))
    for name in arguments.methods:
        for n_blocks in arguments.blocks:
            for order, rows in (("sorted", counts), ("shuffled", shuffled)):
                model = SentenceRepresentation(
                    arguments.n_components, n_features=1 << 16, recipe=METHODS[name]
                )
                before = time.process_time()
                with dask.config.set({"dspectral.in-memory-bytes": 0}):
                    model.fit(cut(rows, n_blocks))
                seconds = time.process_time() - before
                draws = right(arguments, found, model)
                accuracy, error = margin(draws, [np.zeros_like(draw) for draw in draws])
                less, less_error = margin(draws, known)
                of = {
                    "accuracy": accuracy,
                    "accuracy_error": error,
                    "over_exact": less,
                    "over_exact_error": less_error,
                }
                of |= {"cpu_seconds": seconds, "passes": model.n_passes_}
                run.rows(of, data="docstrings", method=name, blocks=n_blocks, order=order)
    run.note(f"exact directions ({exact.solver_}): accuracy {np.mean(known):.4f}")


def cut(rows: sparse.csr_array, n_blocks: int) -> da.Array:
    """Cut rows into blocks of almost equal size."""
    edges = np.linspace(0, rows.shape[0], n_blocks + 1).astype(int)
    meta = sparse.csr_array((0, 0), dtype=rows.dtype)
    blocks = [rows[start:end] for start, end in pairwise(edges)]
    return da.concatenate([da.from_delayed(dask.delayed(block), block.shape, meta=meta) for block in blocks])


def right(arguments: Any, found: Any, model: SentenceRepresentation) -> list[Any]:
    """Return for each draw which test sentences a classifier on a few labels gets right."""
    labels, expected = np.asarray(found.train_labels), np.asarray(found.test_labels)
    draws = []
    for seed in range(4):
        rows = drawn(labels, arguments.labelled, seed)
        classifier = IntentClassifier(model).fit([found.train_texts[i] for i in rows], labels[rows])
        draws.append(classifier.predict(found.test_texts) == expected)
    return draws


if __name__ == "__main__":
    main()
