"""Hidden Markov models of token sequences: by EM, with anchor words, and with latent refinements of labels.

Estimators are imported when they are asked for: data sets are drawn from chains on workers that need no scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspectral.methods.hmm.anchor import AnchorHMM, AnchorRecipe
    from dspectral.methods.hmm.em import EMHMM
    from dspectral.methods.hmm.quantizer import VectorQuantizer
    from dspectral.methods.hmm.refinement import RefinementHMM, RefinementRecipe

__all__ = ["EMHMM", "AnchorHMM", "AnchorRecipe", "RefinementHMM", "RefinementRecipe", "VectorQuantizer"]

_PLACES = {
    "AnchorHMM": "anchor",
    "AnchorRecipe": "anchor",
    "EMHMM": "em",
    "RefinementHMM": "refinement",
    "RefinementRecipe": "refinement",
    "VectorQuantizer": "quantizer",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'dspectral.methods.hmm' has no attribute {name!r}")
    return getattr(import_module(f"dspectral.methods.hmm.{_PLACES[name]}"), name)
