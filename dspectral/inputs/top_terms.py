"""Terms with the largest weights in each component of a fitted model."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dspectral import store
from dspectral.parameters import check_integer
from dspectral.store.columns import check_columns, get_columns
from dspectral.text.hashing import HashingSettings
from dspectral.text.term_sample import KeptTerms
from dspectral.types import RARE, Doubles, FloatArray, Int64s

Terms: TypeAlias = (
    "KeptTerms | store.CountStore | store.AnnDataCounts | store.Vocabulary | store.Corpus | Mapping[int, str] | "
    "Sequence[str] | Any"
)
"""Sources of column names."""


class ColumnNames(NamedTuple):
    """Columns (n,) with names, and the signs of their terms."""

    columns: Int64s
    names: list[str]
    signs: Doubles


class TermLists(list[Any]):
    """Top terms of all components, printed one component per line, with ``-`` before terms of negative weight."""

    def __str__(self) -> str:
        lines = ((("-" if weight < 0 else "") + term for term, weight in terms) for terms in self)
        return "\n".join(f"{number}: {', '.join(line)}" for number, line in enumerate(lines))


class TopTermsMixin:
    """Mixin with ``top_terms`` for models that have weights of terms in components."""

    def top_terms(self, n: int = 10, *, component: int | None = None, terms: "Terms | None" = None) -> list[Any]:
        """Return the terms with the largest weights in each component.

        Parameters
        ----------
        n : int, default=10
            Maximum number of terms per component.
        component : int, default=None
            Index of one component, class or state; by default all.
        terms : store, KeptTerms, Vocabulary, Corpus, sequence of str, dict or vectorizer, default=None
            Names of the columns, see :func:`dspectral.top_terms`; by default those of the model.

        Returns
        -------
        list of list of (str, float), or for one component list of (str, float)
            Terms and their signed weights, by descending magnitude. ``print`` shows one line per component.

        Raises
        ------
        ValueError
            If the columns have no names, or the number of names differs from the number of columns.
        """
        check_is_fitted(self)
        weights, n = np.asarray(self._term_weights()), check_integer("n", n, at_least=1)
        if hasattr(terms, "tfidf"):  # a store, or rows chosen from one
            check_columns(self, get_columns(terms), "terms")
        columns, n_columns = self._term_columns()
        column_names = resolve_column_names(self._term_names() if terms is None else terms, n_columns)
        if columns is not None:
            column_names = _restrict_names(column_names, columns)
        if component is None:
            return TermLists(_select_largest_terms(row, column_names, n) for row in weights)
        number = check_integer("component", component, at_least=0)
        if number >= len(weights):
            raise ValueError(f"component={number} must be below {len(weights)}, the number of components")
        return _select_largest_terms(weights[number], column_names, n)

    def _term_weights(self) -> FloatArray:
        """Return the weights, shape (n_components, n_columns)."""
        weights: FloatArray = vars(self)["components_"]
        return weights

    def _term_columns(self) -> tuple[Int64s | None, int]:
        """Return the columns that have weights (None for all), and the total number of columns."""
        return None, self._term_weights().shape[1]

    def _term_names(self) -> "Terms | None":
        """Return the column names of the model, or None."""
        attributes = vars(self)
        return attributes.get("words_", attributes.get("feature_names_in_"))


def top_terms(model: object, n: int = 10, *, component: int | None = None, terms: "Terms | None" = None) -> list[Any]:
    """Return the terms with the largest weights in each component of a model, or of a pipeline that ends in one.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted model with ``top_terms``, or a pipeline that ends in one; its earlier steps must keep the columns.
    n : int, default=10
        Maximum number of terms per component.
    component : int, default=None
        Index of one component, class or state; by default all.
    terms : store, KeptTerms, Vocabulary, Corpus, sequence of str, dict or vectorizer, default=None
        Names of the columns: a store with a vocabulary or ``keep_terms``, the result of ``NgramHashing.kept_terms``, a
        name for each column, a dictionary from columns to names, or a vectorizer; by default those of the model or
        pipeline.

    Returns
    -------
    list of list of (str, float), or for one component list of (str, float)
        Terms and their signed weights, by descending magnitude. The weight of a hashed column has the sign of its most
        frequent term; terms that share it are joined by ``/``, with ``-`` before those of the opposite sign. ``print``
        shows one line per component.

    Raises
    ------
    TypeError
        If the model has no components over terms, or ``terms`` is of an unsupported type.
    ValueError
        If the columns have no names, or the number of names differs from the number of columns.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from dspectral import NgramHashing, TfidfWeighting, TruncatedSVD
    >>> texts = ["cats purr", "cats purr", "dogs bark", "dogs bark loud"]
    >>> model = make_pipeline(NgramHashing(2**12, (1, 1)), TfidfWeighting(), TruncatedSVD(2)).fit(texts)
    >>> print(top_terms(model, 2, terms=model[0].kept_terms(texts)))
    0: -cats, -purr
    1: bark, dogs
    """
    model_step = model
    if isinstance(model, Pipeline):
        *earlier_steps, (_, model_step) = model.steps
        terms = _get_pipeline_names([step for _, step in earlier_steps], terms)
    if not isinstance(model_step, TopTermsMixin):
        raise TypeError(f"{type(model_step).__name__} has no top terms: the model must have components over terms")
    return model_step.top_terms(n, component=component, terms=terms)


def resolve_column_names(terms: "Terms | None", n_columns: int) -> ColumnNames:
    """Return the column names from any supported source."""
    if terms is None:
        raise ValueError(
            "the columns have no names: pass terms=, such as a store with a vocabulary or keep_terms, "
            "NgramHashing(...).kept_terms(texts), or a list of names"
        )
    extracted_names = _extract_names(terms)
    if isinstance(extracted_names, KeptTerms):
        _check_width(extracted_names.n_columns, n_columns)
        by_column, signs = extracted_names.names(), extracted_names.column_signs()
        columns = np.fromiter(by_column, dtype=np.int64, count=len(by_column))
        return ColumnNames(columns, list(by_column.values()), np.array([float(signs[c]) for c in by_column]))
    if isinstance(extracted_names, Mapping):
        columns = np.array(list(extracted_names), dtype=np.int64)
        if len(columns) and not 0 <= columns.min() <= columns.max() < n_columns:
            raise ValueError(
                f"terms has a name for column {columns.max()}, but the model has {n_columns} columns, from 0"
            )
        return ColumnNames(columns, [str(name) for name in extracted_names.values()], np.ones(len(columns)))
    names = [str(name) for name in extracted_names]
    _check_width(len(names), n_columns)
    return ColumnNames(np.arange(n_columns), names, np.ones(n_columns))


def _extract_names(terms: Terms) -> KeptTerms | Mapping[int, str] | Sequence[str] | NDArray[Any]:
    """Return the names in a source as KeptTerms, a mapping or a sequence."""
    if hasattr(terms, "tfidf"):  # a store, or rows chosen from one
        stored_names = getattr(terms, "kept_terms", None) or getattr(terms, "vocabulary", None)
        if stored_names is None:
            raise ValueError(f"{terms!r} has no terms: build it with a vocabulary, or with keep_terms=100_000")
        terms = stored_names
    if isinstance(terms, store.Vocabulary):
        return terms.terms
    if isinstance(terms, store.Corpus):
        return terms.words
    if isinstance(getattr(terms, "settings", None), HashingSettings):
        raise TypeError(f"{terms!r:.60} has no terms: use terms=NgramHashing(...).kept_terms(texts)")
    if isinstance(terms, KeptTerms | Mapping):
        return terms
    if hasattr(terms, "get_feature_names_out"):
        feature_names: NDArray[Any] = terms.get_feature_names_out()
        return feature_names
    if isinstance(terms, str | bytes) or not isinstance(terms, Sequence | np.ndarray):
        raise TypeError(f"terms={terms!r:.60} must name columns: pass a store, KeptTerms, a list or a dict")
    return terms


def _get_pipeline_names(steps: list[Any], terms: "Terms | None") -> "Terms | None":
    """Return the names of the input columns of the last step of a pipeline."""
    if terms is None:
        # The last step that changes the columns may be a vectorizer with names.
        makers = [step for step in steps if not _keeps_columns(step)]
        return makers[-1] if makers and hasattr(makers[-1], "vocabulary_") else None
    changed = [type(step).__name__ for step in steps[1:] if not _keeps_columns(step)]
    if changed:
        raise ValueError(f"terms cannot name columns after {', '.join(changed)}, which changes them: remove the step")
    return terms


def _keeps_columns(step: object) -> bool:
    return step is None or step == "passthrough" or isinstance(step, OneToOneFeatureMixin)


def _check_width(n_named_columns: int, n_columns: int) -> None:
    if n_named_columns != n_columns:
        raise ValueError(
            f"terms names {n_named_columns} columns, but must name {n_columns}, the number of columns of the model"
        )


def _restrict_names(column_names: ColumnNames, columns: Int64s) -> ColumnNames:
    """Return the names of the selected columns, renumbered by their index in the sorted ``columns``."""
    # searchsorted may return len(columns): it is clipped, and the comparison below removes mismatches.
    positions = np.minimum(np.searchsorted(columns, column_names.columns), max(0, len(columns) - 1))
    is_named = np.flatnonzero(columns[positions] == column_names.columns)
    return ColumnNames(positions[is_named], [column_names.names[i] for i in is_named], column_names.signs[is_named])


def _select_largest_terms(row: FloatArray, column_names: ColumnNames, n: int) -> list[tuple[str, float]]:
    """Return the named columns of largest magnitude, ties by name, without weights that round to zero."""
    weights = np.asarray(row, dtype=np.float64)[column_names.columns] * column_names.signs
    largest = np.abs(weights).max(initial=0.0)
    # Weights are rounded relative to the largest one.
    magnitudes = np.round(np.abs(weights) / (largest or 1.0), 5)
    # Only candidates are sorted by name; n + 1 of them, since rare words are excluded.
    candidates = np.flatnonzero(magnitudes >= np.sort(magnitudes)[-(n + 1) :].min(initial=1.0))
    answers = sorted(
        (-magnitudes[i], column_names.names[i], float(weights[i])) for i in candidates.tolist() if magnitudes[i]
    )
    return [(name, weight) for _, name, weight in answers if name != RARE][:n]
