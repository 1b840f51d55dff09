"""Ask for a tolerance on ten matrices, flat ones among them, and hold what is certified against the truth.

``TruncatedSVD(k, tol=...)`` reads blocks by Krylov passes until no more than that share of the energy can be lost
against the best rank k. ARPACK says what is truly lost, and the same passes, one by one, how many would have sufficed.
"""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer

from dspectral import NgramHashing, TruncatedSVD
from dspectral.datasets import low_rank_counts
from dspectral.text import hash_documents
from dspectral.types import Documents

from .._form import form
from ._races.words import documents

MOST_PASSES = 12


def main(argv: list[str] | None = None) -> None:
    """Make the table."""
    parser = form.parser("benchmarks.certificates", __doc__, fits=False)
    add = parser.add_argument
    add("--tol", type=float, nargs="+", default=[1e-2, 1e-3], help="shares of the energy that are asked for")
    add("--n-components", type=form.positive, default=10, help="of each decomposition")
    add("--size", type=form.positive, default=2000, help="columns of the matrices that are drawn")
    add("--text", nargs="+", metavar="FILE", help="a document a line (default: Python's docstrings)")
    add("--documents", type=form.positive, default=5000, metavar="N", help="of the text, the first ones")
    with form.run(parser.parse_args(argv)) as run:
        table = []
        for name, rows in matrices(run.arguments).items():
            with run.measure(name):
                table += measured(run, name, rows)
        run.show(table)


def matrices(arguments: Any) -> dict[str, Any]:
    """Return text, counts and noise, and diagonal matrices whose squared singular values follow a law."""
    n, rng = arguments.size, np.random.default_rng(arguments.seed)
    texts = documents({"text": arguments.text, "documents": arguments.documents})
    counts = hash_documents(Documents.from_strings(texts), NgramHashing(1 << 14, (1, 3))).astype(np.float64)
    topics = low_rank_counts(2 * n, n, 12, block_rows=n, seed=arguments.seed).compute().astype(np.float64)
    noise = rng.standard_normal((2 * n, n // 2))
    weak = noise.copy()
    weak[:, :10] *= np.linspace(2.5, 1.5, 10)
    scattered = sparse.random_array((2 * n, n), density=0.01, rng=rng, data_sampler=rng.standard_normal)
    i = np.arange(1.0, n + 1)
    laws = {"1 / i": 1 / i, "1 / sqrt(i)": i**-0.5, "i^(-1/4)": i**-0.25, "all alike": i**0}
    return {
        "text, counts": counts,
        "text, tf-idf": sparse.csr_array(TfidfTransformer().fit_transform(counts)),
        "planted topics": sparse.csr_array(topics),
        "noise, sparse": sparse.csr_array(scattered),
        "noise, dense": noise,
        "noise and ten weak directions": weak,
        **{name: sparse.csr_array(sparse.diags_array(np.sqrt(law))) for name, law in laws.items()},
    }


def measured(run: form.Run, name: str, rows: Any) -> list[dict[str, Any]]:
    """Report a matrix: a row for each tolerance."""
    k, table = run.arguments.n_components, []
    best = np.sum(svds(rows, k=k, return_singular_vectors=False, rng=0) ** 2)
    energy = np.sum(np.square(rows.data if sparse.issparse(rows) else rows))
    shape = f"{rows.shape[0]:,} x {rows.shape[1]:,}"

    def fitted(tol: float, n_passes: int) -> tuple[Any, float]:
        model = TruncatedSVD(k, solver="krylov", tol=tol, n_passes=n_passes, random_state=run.arguments.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows)
        return model, float(best - np.sum((rows @ model.components_.T) ** 2)) / energy

    n_passes = 1
    for tol in sorted(run.arguments.tol, reverse=True):
        while n_passes < MOST_PASSES and fitted(1e-15, n_passes)[1] > tol:
            n_passes += 1
        found, lost = fitted(tol, MOST_PASSES)
        values = {"tol": tol, "lost": lost, "certified": found.certificate_.lost, "passes": found.n_passes_}
        values["least_passes"] = n_passes
        run.rows(values, data=name, method=f"tol {tol:g}")
        table.append({"matrix": name, "shape": shape, **values})
    return table


if __name__ == "__main__":
    main()
