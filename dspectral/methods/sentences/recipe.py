"""Settings of sentence representations that studies compare and users leave as they are."""

from typing import Literal, NamedTuple

from dspectral.decomposition.spectrum import Solver
from dspectral.methods.sentences.halves import Half
from dspectral.registry import saved


@saved
class SentenceRecipe(NamedTuple):
    """How :class:`~dspectral.SentenceRepresentation` finds directions, and what else it adds; for comparisons.

    Attributes
    ----------
    solver : {"auto", "frequent_directions", "gram", "nystrom", "krylov"} or None, default=None
        Solver of the decomposition, as for :class:`~dspectral.SketchedPCA`. None takes ``"frequent_directions"``
        where ``n_passes`` is 1, and ``"krylov"`` otherwise.
    sketch_size : int or None, default=None
        Number of rows of the sketch, at least ``n_components``. None takes ``2 n_components + 10``, and
        ``3 n_components + 10`` for ``"krylov"``.
    n_passes : int, default=1
        How often the sentences are read for the directions. With more than one, block Krylov iteration takes the
        place of the sketch of one pass, and comes closer to the exact directions with each.
    first_words : float, default=0.0
        Factor of the first two words by position; 0 leaves them out. :class:`~dspectral.IntentClassifier` with
        ``plus=True`` chooses a factor of its own, whatever this one is.

    Examples
    --------
    >>> SentenceRecipe(n_passes=3).first_words
    0.0
    """

    solver: Solver | None = None
    sketch_size: int | None = None
    n_passes: int = 1
    first_words: float = 0.0


@saved
class IntentRecipe(NamedTuple):
    """What stands beside the counts of an :class:`~dspectral.IntentClassifier`, and how it chooses; for comparisons.

    Attributes
    ----------
    half : {"sent", "sketch", "idf", "idf+sent", "auto"}, default="sent"
        Part of a sketched representation that stands beside the counts: ``"sketch"`` the directions of words alone,
        ``"idf"`` their rarity alone, each word in a column of its own, ``"sent"`` directions weighed by rarity, as
        equation 2 has it, and ``"idf+sent"`` two of them side by side. ``"auto"`` takes the one of highest
        cross-validated accuracy, or none where the counts alone are better; it takes five times as many fits.
    n_folds : int, default=3
        Number of folds of the cross-validation; at most 3,000 training sentences are held out of each fit.

    Examples
    --------
    >>> IntentRecipe(half="auto").n_folds
    3
    """

    half: Half | Literal["auto"] = "sent"
    n_folds: int = 3
