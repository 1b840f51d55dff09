"""Settings of word embeddings that studies compare and users leave as they are."""

from typing import NamedTuple

from dspectral.cooccurrence.contexts import Context
from dspectral.registry import saved


@saved
class EmbeddingRecipe(NamedTuple):
    """How :class:`~dspectral.WordEmbedding` counts and decomposes contexts, beyond what a user would set.

    Attributes
    ----------
    context : {"bag", "list", "zones"}, default="bag"
        Whether a context is a word wherever it stands in the window, a word at a position, or a word within two words
        or farther: with ``"zones"`` each word is two contexts, so that what stands close by says its own.
    distance_weighting : bool, default=True
        Whether a context at distance d counts 1/d instead of 1.
    context_smoothing : float in [0, 1], default=0.75
        Exponent of the sums of contexts, for ``scaling="cca"`` and ``"ppmi"``.
    shift : float, default=1.0
        Number above 0 whose logarithm ``scaling="ppmi"`` subtracts.
    n_skipped : int, default=1
        Number of leading singular vectors that are left out. The first says little but how frequent a word is; with
        ``count_transform="none"`` and ``"cca"`` it is the trivial pair of correspondence analysis, which says
        nothing else.
    add_contexts : bool, default=False
        Whether the vectors of the same words as contexts are added; only for ``context="bag"`` without hashing.
    n_contexts : int, optional
        Number of columns that contexts are hashed to; by default each context has its own column.
    sketch_size : int, optional
        Columns of all products of the block Krylov solver together; by default ``4 * (n_components + n_skipped)``,
        more than :class:`~dspectral.TruncatedSVD` takes, because spectra of contexts are flat.
    n_passes : int, default=6
        Number of passes of the block Krylov solver over the counts; 1 is taken as 2, the fewest that it needs.

    Examples
    --------
    >>> EmbeddingRecipe(context="list", n_skipped=0).distance_weighting
    True
    """

    context: Context = "bag"
    distance_weighting: bool = True
    context_smoothing: float = 0.75
    shift: float = 1.0
    n_skipped: int = 1
    add_contexts: bool = False
    n_contexts: int | None = None
    sketch_size: int | None = None
    n_passes: int = 6
