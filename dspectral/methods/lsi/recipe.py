"""Settings of hybrid latent semantic indexing that studies compare and users leave as they are."""

from typing import NamedTuple

from dspectral.methods.lsi.similarity_factors import FactorKind
from dspectral.registry import saved


@saved
class HybridRecipe(NamedTuple):
    """How :class:`~dspectral.HybridLSI` factors similarities and decomposes documents, beyond what a user would set.

    Attributes
    ----------
    factor : {"auto", "dense", "sparse", "polynomial"}, default="auto"
        How S is factored: Cholesky (``8 d^2`` bytes), sparse Cholesky by SuperLU, or its square root as a polynomial,
        which takes products with ``S'`` alone. The answer is the same; ``"auto"`` is dense up to 1,024 terms,
        else polynomial.
    solver : {"auto", "gram", "krylov", "nystrom"}, default="auto"
        Solver of the decomposition, as for :class:`~dspectral.TruncatedSVD`.
    n_passes : int, default=5
        How often ``"krylov"`` reads the documents.
    sketch_size : int, optional
        Columns of the products of all passes together, at least k; by default ``3 k + 10``.

    Examples
    --------
    >>> HybridRecipe(solver="krylov", n_passes=3).factor
    'auto'
    """

    factor: FactorKind = "auto"
    solver: str = "auto"
    n_passes: int = 5
    sketch_size: int | None = None
