"""Save and load fitted estimators."""

import re
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any, cast

from dspectral.persistence.encoding import Decoder, encoded, import_all, name_of, named
from dspectral.registry import ESTIMATORS
from dspectral.store.location import Location
from dspectral.store.records import UNFINISHED, read_record, write_record
from dspectral.text.tokenizers import as_tokenizer

FORMAT = 1
KEY = "dspectral_model"
_BEGUN = r"zarr\.json(\.[0-9a-f]{32}\.partial)?"


def save(
    model: Any, path: str, *, overwrite: bool = False, storage_options: dict[str, Any] | None = None
) -> None:
    """Save a fitted estimator.

    Parameters
    ----------
    model : estimator
        A fitted estimator of dspectral, with whatever fitted ones it holds; a subclass of one; or a Pipeline,
        FeatureUnion or ColumnTransformer of these and of a few from scikit-learn (StandardScaler, MaxAbsScaler,
        Normalizer, LinearSVC, LogisticRegression, Ridge).
    path : str
        Local path or fsspec URL of the Zarr group to make.
    overwrite : bool, default=False
        Whether a model at ``path`` may be replaced. It stays whole until the new one is.
    storage_options : dict, default=None
        Options of the file system of ``path``.

    Raises
    ------
    ValueError
        If the model is not fitted, or something is at ``path`` already.
    TypeError
        If the model is of, or holds, a class that cannot be saved.

    Notes
    -----
    Arrays keep their type and have checksums; numbers keep every bit; sparse matrices come back as CSR.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import SketchedPCA
    >>> save(SketchedPCA(1).fit(np.eye(3)), "memory://a-model")
    >>> load("memory://a-model").n_samples_seen_
    3
    """
    import_all()
    if name_of(type(model)) is None:
        raise TypeError(f"a {type(model).__name__} cannot be saved, but {', '.join(ESTIMATORS)} can")
    if not _is_fitted(model):
        raise ValueError(f"this {type(model).__name__} is not fitted: call fit before save")
    where = Location.of(str(path), storage_options)
    # Whatever is at the path is looked at before anything is written: only a model may be replaced.
    there = read_record(where)
    ours = there is not None and not {KEY, UNFINISHED}.isdisjoint(there.attributes)
    # A first save that was killed leaves a group of nothing, or a file that was not renamed yet.
    begun = there is None or not there.attributes
    if not ours and not (begun and all(re.fullmatch(_BEGUN, name) for name in where.names())):
        raise ValueError(f"something that is not a model is at {path}: choose another path")
    if there is not None and KEY in there.attributes and not overwrite:
        raise ValueError(f"there is a model at {path} already: overwrite=True replaces it")
    arrays: list[Any] = []
    node = cast("dict[str, Any]", encoded(model, type(model).__name__, arrays))
    write_record(where, {KEY: {"format": FORMAT, "version": version("dspectral"), **node}}, arrays)


def load(
    path: str,
    *,
    classes: Iterable[type | Callable[[str], Iterable[Any]]] = (),
    storage_options: dict[str, Any] | None = None,
) -> Any:
    """Load a fitted estimator: it transforms and predicts as the saved one did, to the bit.

    Parameters
    ----------
    path : str
        Local path or fsspec URL, as given to :func:`save`.
    classes : iterable of type or function, default=()
        Your own subclasses that the model may be of, or hold, and your own tokenizers. Imported subclasses are found
        by module and name, those given here by their name alone; a tokenizer is found only if it is given here, or
        was given to an estimator or a builder in this process.
    storage_options : dict, default=None
        Options of the file system of ``path``.

    Returns
    -------
    estimator
        The model, of the class that was saved.

    Raises
    ------
    ValueError
        If there is no model at ``path``, it is damaged or of a newer format, or it names a class that dspectral does
        not save and nobody has imported: nothing is imported because a file names it.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import SketchedPCA
    >>> class MyPCA(SketchedPCA):
    ...     pass
    >>> save(MyPCA(1).fit(np.eye(3)), "memory://my-model")
    >>> type(load("memory://my-model", classes=[MyPCA])) is MyPCA
    True
    """
    import_all()
    record = read_record(Location.of(str(path), storage_options))
    if record is None or KEY not in record.attributes:
        raise ValueError(f"there is no model at {path}: save writes one")
    head = record.attributes[KEY]
    if head["format"] > FORMAT:
        raise ValueError(
            f"the model at {path} has format {head['format']} of dspectral {head['version']}, but this "
            f"version reads up to format {FORMAT}: install a newer dspectral"
        )
    classes = list(classes)
    given = [one for one in classes if isinstance(one, type)]
    for function in (one for one in classes if not isinstance(one, type)):
        as_tokenizer(function, "classes")
    try:
        return Decoder(record, lambda name: named(name, given, record.where.url)).value(head)
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"the model at {path} holds what save does not write ({said:.200})") from error


def _is_fitted(model: Any) -> bool:
    """Ask the model, a Pipeline for instance, or look for anything beside its parameters."""
    if hasattr(model, "__sklearn_is_fitted__"):
        return bool(model.__sklearn_is_fitted__())
    return not vars(model).keys() <= model.get_params(deep=False).keys()
