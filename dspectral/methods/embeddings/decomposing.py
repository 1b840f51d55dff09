"""Word vectors from scaled context counts: their leading singular vectors, and a power of the singular values."""

import warnings
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dspectral.decomposition.spectrum import Certificate, Plan, Spectrum, reads_of, spectrum
from dspectral.engine import collect_rows, expect_passes, map_rows, numbered
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import unit_rows
from dspectral.methods.embeddings.recipe import EmbeddingRecipe


class HasShape(Protocol):
    """Rows of a matrix, in memory or lazy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        ...


class WordVectors(NamedTuple):
    """Vectors of word types, and how they were found.

    `vectors` (n_types, k): rows of length 1, or zero; `singular_values` (k,): singular values of the scaled
    counts, without those that are skipped; `certificate`: bound on what is left of the scaled counts outside
    the space that was searched; `n_passes`: number of passes over the scaled counts.
    """

    vectors: NDArray[np.float32]
    singular_values: NDArray[np.float64]
    certificate: Certificate
    n_passes: int


def word_vectors(rows: HasShape, plan: Plan, recipe: EmbeddingRecipe, power: float) -> WordVectors:
    """Decompose scaled counts, A = U S V', and return the rows of ``U S^power``, scaled to length 1.

    Shapes: `rows` (n_types, n_contexts).

    The passes of the solver, and one for the products A V, which are U S.
    """
    # The solver returns right singular vectors V and values S^2: U S = A V takes one more pass, block by block, and
    # only blocks of it are ever in the memory of a task.
    possible = plan._replace(n_components=min(plan.n_components, *rows.shape))
    expect_passes(reads_of(rows, possible) + 1)
    found = _all_components(_leading(rows, possible), plan.n_components, recipe.n_skipped)
    values, axes = np.sqrt(found.values[recipe.n_skipped :]), found.axes[recipe.n_skipped :]
    project = partial(sparse_products.times, Z=np.ascontiguousarray(axes.T))
    with numbered(is_pass=True):
        products = map_rows(rows, project, n_columns=len(values), dtype=plan.dtype, name="vectors")
        vectors = collect_rows(products)
    # The products are U S: one power less is wanted, and 0 where there is no direction.
    weights = np.zeros_like(values)
    np.power(values, power - 1.0, out=weights, where=values > 0)
    vectors = vectors * weights
    if recipe.add_contexts:
        # The vector of a word as a context is a row of V S^power. Both sides are scaled to length 1 before they are
        # added, as either may be much longer.
        vectors = unit_rows(vectors) + unit_rows(axes.T * (weights * values))
    return WordVectors(unit_rows(vectors).astype(np.float32), values, found.certificate, found.n_passes + 1)


def _leading(rows: HasShape, plan: Plan) -> Spectrum:
    """Decompose, without a warning of directions that are missing: the caller has better names for them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components is", category=UserWarning)
        return spectrum(rows, plan)


def _all_components(found: Spectrum, n_wanted: int, n_skipped: int) -> Spectrum:
    """Put zeros in the place of directions that the counts do not have, and warn of them."""
    n_asked, n_found = n_wanted - n_skipped, max(0, int(np.sum(found.values > 0)) - n_skipped)
    if n_found < n_asked:
        warnings.warn(
            f"n_components is {n_asked}, but the context counts have only {n_found} direction(s) beside the first "
            f"n_skipped = {n_skipped}: the other components are zeros",
            UserWarning,
            stacklevel=4,
        )
    missing = n_wanted - len(found.values)
    values, axes = np.pad(found.values, (0, missing)), np.pad(found.axes, ((0, missing), (0, 0)))
    return found._replace(values=values, axes=axes)
