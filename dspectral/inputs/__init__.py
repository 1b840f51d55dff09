"""The doors of the estimators: rows, sequences, labeled rows, class labels and parameters.

Names are imported when they are asked for: :mod:`~dspectral.inputs.rows` and
:mod:`~dspectral.inputs.labelled_rows` import scikit-learn, which a worker that only summarizes blocks need not hold.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspectral.inputs.class_labels import ClassRows, class_rows, unit_class_rows
    from dspectral.inputs.corpora import TokenCorpus, as_corpus
    from dspectral.inputs.labelled_rows import LabelledStreams, checked_documents, labelled_streams
    from dspectral.inputs.lazy_output import LazyOutputMixin
    from dspectral.inputs.parameters import (
        RandomState,
        check_integer,
        check_option,
        check_real,
        resolve_seed,
    )
    from dspectral.inputs.rows import checked_rows, project, row_dtype

__all__ = [
    "ClassRows",
    "LabelledStreams",
    "LazyOutputMixin",
    "RandomState",
    "TokenCorpus",
    "as_corpus",
    "check_integer",
    "check_option",
    "check_real",
    "checked_documents",
    "checked_rows",
    "class_rows",
    "labelled_streams",
    "project",
    "resolve_seed",
    "row_dtype",
    "unit_class_rows",
]

_PLACES = {
    "class_labels": ("ClassRows", "class_rows", "unit_class_rows"),
    "corpora": ("TokenCorpus", "as_corpus"),
    "labelled_rows": ("LabelledStreams", "checked_documents", "labelled_streams"),
    "lazy_output": ("LazyOutputMixin",),
    "parameters": ("RandomState", "check_integer", "check_option", "check_real", "resolve_seed"),
    "rows": ("checked_rows", "project", "row_dtype"),
}


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
