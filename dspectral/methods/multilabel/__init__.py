"""Many labels by the method of moments.

Names are imported when they are asked for: a worker that summarizes blocks need not hold scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspectral.methods.multilabel.classifier import MomentMultiLabelClassifier
    from dspectral.methods.multilabel.document_rows import label_rows, word_rows
    from dspectral.methods.multilabel.ranking import Topic
    from dspectral.methods.multilabel.recipe import MultiLabelRecipe

__all__ = ["MomentMultiLabelClassifier", "MultiLabelRecipe", "Topic", "label_rows", "word_rows"]
_PLACES = {
    "MomentMultiLabelClassifier": "classifier",
    "MultiLabelRecipe": "recipe",
    "Topic": "ranking",
    "label_rows": "document_rows",
    "word_rows": "document_rows",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
