"""HTML representation of fitted models: scikit-learn's diagram and a card of the fitted attributes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import estimator_html_repr

from dspectral import engine
from dspectral.html import card, format_bytes, names, number, share, spectrum_picture
from dspectral.run_plan import RunPlan

_COUNTS = {
    "n_samples_seen_": "rows",
    "n_documents_": "documents",
    "n_sentences_": "sentences",
    "n_features_in_": "columns",
    "n_passes_": "passes over the data",
}
_LISTS = {"classes_": "classes", "words_": "words", "anchors_": "anchors"}
_CURVES = ("log_likelihoods_", "history_")
_SPECTRA = {"singular_values_": "singular values", "explained_variance_": "variances"}
_SCALARS = (bool, int, float, str, np.bool_, np.integer, np.floating)
_MAX_ARRAYS = 12


class FittedFactsMixin:
    """Mixin that shows fitted attributes in notebooks; must precede scikit-learn's classes in the bases.

    >>> from dspectral import TruncatedSVD
    >>> model = TruncatedSVD(2)
    >>> "passes over the data" in model._repr_html_()
    False
    >>> "passes over the data" in model.fit(np.diag([3.0, 2.0, 1.0]))._repr_html_()
    True
    """

    def plan(
        self,
        X: Any,
        y: Any = None,
        *,
        workers: int | None = None,
        memory_limit: str | float | None = None,
        **fit_params: Any,
    ) -> RunPlan:
        """Return the run plan of ``fit(X, y)``: passes, tasks, bytes, memory and approximate time.

        Parameters
        ----------
        X : object
            Data as ``fit`` takes it.
        y : object, optional
            Target as ``fit`` takes it.
        workers : int, optional
            Number of worker processes, as for :func:`dspectral.plan`.
        memory_limit : str or float, optional
            Memory limit of each worker, such as ``"2 GB"``.
        **fit_params : object
            Further arguments of ``fit``.

        Returns
        -------
        RunPlan
            Run plan, see :func:`dspectral.plan`.
        """
        arguments = (X,) if y is None else (X, y)
        return engine.plan(self, *arguments, workers=workers, memory_limit=memory_limit, **fit_params)

    def _html_repr(self) -> str:
        diagram = str(estimator_html_repr(self))
        end = "</body>" if diagram.endswith("</body>") else ""
        return diagram.removesuffix(end) + render_fitted_card(self) + end


def render_fitted_card(model: object) -> str:
    """Return the HTML card of the fitted attributes, empty if there are none."""
    learned = {key: value for key, value in vars(model).items() if key.endswith("_") and key[0] != "_"}
    if not learned:
        return ""
    facts = [(what, learned[key]) for key, what in _COUNTS.items() if key in learned]
    facts += _describe_certificate(learned)
    facts += [(what, names(list(learned[key]))) for key, what in _LISTS.items() if _is_list(learned.get(key))]
    facts += [(key, _describe_curve(learned[key])) for key in _CURVES if len(learned.get(key, ()))]
    shown_keys = {*_COUNTS, *_LISTS, *_CURVES, "certificate_"}
    rest = {key: value for key, value in learned.items() if key not in shown_keys}
    facts += [(key, value) for key, value in rest.items() if isinstance(value, _SCALARS)]
    arrays = {key: part for key, value in rest.items() if (part := _describe_array(value))}
    facts += list(arrays.items())[:_MAX_ARRAYS]
    facts.append(("in memory", format_bytes(count_bytes(learned))))
    return card(f"{type(model).__name__}, fitted", facts, _draw_spectrum(learned))


def count_bytes(value: object) -> int:
    """Return the total bytes of arrays and characters of strings in a nested value; each object counts once.

    >>> count_bytes({"a": (one := np.zeros(3)), "b": [one, "word", 7]})
    28
    """
    total, stack, visited = 0, [value], set()
    # `visited` holds visited objects: shared ones count once, and reference cycles terminate.
    while stack:
        part: Any = stack.pop()
        if isinstance(part, str):
            total += len(part)
        elif isinstance(part, (_SCALARS, type)) or id(part) in visited:
            continue
        elif isinstance(part, np.ndarray):
            total += part.nbytes
        elif isinstance(part, Mapping):
            stack.extend(part.values())
        elif isinstance(part, list | tuple):
            stack.extend(part)
        else:  # such as a sparse matrix
            stack.extend(getattr(part, "__dict__", {}).values())
        visited.add(id(part))
    return total


def _describe_certificate(learned: dict[str, Any]) -> list[tuple[str, object]]:
    certificate = learned.get("certificate_")
    if certificate is None:
        return []
    error = f"squared singular values are at most {number(certificate.absolute)} too small"
    return [("certificate", f"{error}, {share(certificate.relative, 1.0)} of the energy")]


def _is_list(value: object) -> bool:
    return isinstance(value, list | np.ndarray) and len(value) > 0 and not isinstance(value[0], list)


def _describe_curve(values: Sequence[float]) -> str:
    """Return a summary of a convergence history: first value, last value, number of steps."""
    return f"{number(float(values[0]))} to {number(float(values[-1]))} in {len(values):,} step(s)"


def _describe_array(value: object) -> str | None:
    """Return shape, type and size of a fitted attribute, or None if it has no size."""
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        kind: Any = value
        shape = " x ".join(f"{length:,}" for length in kind.shape)
        return f"{shape or '1'} of {kind.dtype}, {format_bytes(count_bytes(value))}"
    n_bytes = 0 if isinstance(value, str) else count_bytes(value)
    if not n_bytes:
        return None
    container = f"{len(value):,} in a {type(value).__name__}" if type(value) in (list, tuple, dict) else None  # type: ignore[arg-type]
    return f"{container or type(value).__name__}, {format_bytes(n_bytes)}"


def _draw_spectrum(learned: dict[str, Any]) -> str:
    """Return a picture of the first spectrum among the fitted attributes, or an empty string."""
    certificate = learned.get("certificate_")
    for key, what in _SPECTRA.items():
        values = learned.get(key)
        if isinstance(values, np.ndarray) and values.ndim == 1 and len(values):
            bound = None if certificate is None else float(certificate.absolute) ** 0.5
            return spectrum_picture(values, bound=bound if key == "singular_values_" else None, what=what)
    return ""
