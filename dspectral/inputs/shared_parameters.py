"""Parameters that a clone of an estimator shares with it instead of copying them."""

from copy import copy
from typing import TypeVar

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

E = TypeVar("E", bound=BaseEstimator)


def clone_sharing(estimator: E, *names: str) -> E:
    """Return an unfitted clone that keeps the values of some parameters.

    scikit-learn's ``clone`` forgets what an estimator among the parameters has learned, and copies every array. This
    function is for ``__sklearn_clone__`` of estimators whose parameter is a fitted estimator or a large table.

    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> words = CountVectorizer(vocabulary=["a", "b"])
    >>> clone_sharing(words, "vocabulary").vocabulary is words.vocabulary
    True
    """
    bare = copy(estimator)
    for name in names:
        setattr(bare, name, None)
    made: E = BaseEstimator.__sklearn_clone__(bare)
    for name in names:
        value = getattr(estimator, name)
        setattr(made, name, copy(value) if hasattr(value, "get_params") else value)
    return made


def is_fitted(estimator: BaseEstimator) -> bool:
    """Report whether an estimator is fitted, or needs no fit."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True
