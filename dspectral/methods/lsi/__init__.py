"""Hybrid and local latent semantic indexing.

Names are imported when they are asked for: a worker that summarizes blocks need not hold scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspectral.methods.lsi.hybrid import HybridLSI
    from dspectral.methods.lsi.linear_svm import LinearSVMs, Training, train_linear_svms
    from dspectral.methods.lsi.local import LocalLSI
    from dspectral.methods.lsi.local_regions import LocalRecipe
    from dspectral.methods.lsi.squared_hinge import Relevancy
    from dspectral.methods.lsi.term_similarity import TermSimilarity

__all__ = [
    "HybridLSI",
    "LinearSVMs",
    "LocalLSI",
    "LocalRecipe",
    "Relevancy",
    "TermSimilarity",
    "Training",
    "train_linear_svms",
]
_PLACES = {
    "HybridLSI": "hybrid",
    "LinearSVMs": "linear_svm",
    "LocalLSI": "local",
    "LocalRecipe": "local_regions",
    "Relevancy": "squared_hinge",
    "TermSimilarity": "term_similarity",
    "Training": "linear_svm",
    "train_linear_svms": "linear_svm",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
