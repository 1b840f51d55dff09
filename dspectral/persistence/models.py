"""Save fitted estimators as Zarr groups, and load them."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from os import PathLike
from pkgutil import walk_packages
from typing import Any, cast

from dspectral import decomposition, methods, preprocessing
from dspectral.inputs.texts import is_fitted
from dspectral.persistence.encoding import decode_object, encode_object, get_class_name
from dspectral.store.arrays import UNFINISHED, StoredGroup, read_stored_group, write_stored_group
from dspectral.store.location import Location, StoreError
from dspectral.store.lock import HOLDER_FILE, LOCK_FILE, hold_write_lock
from dspectral.summary_files import Decoder
from dspectral.text.tokenizers import register_tokenizer

FORMAT = 1
KEY = "dspectral_model"
_UNFINISHED_FILES = rf"zarr\.json(\.[0-9a-f]{{32}}\.partial)?|{LOCK_FILE}|{HOLDER_FILE}"
WAIT_SECONDS = 60.0
"""Seconds that `save` waits for the write lock."""
MAX_READS = 100
"""Largest number of attempts of `load` if other processes replace the model during the read."""


def save(
    model: object,
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Save a fitted estimator.

    Parameters
    ----------
    model : estimator
        A fitted estimator of dspectral or of a subclass, with its nested estimators; or a Pipeline, FeatureUnion or
        ColumnTransformer of these and of some scikit-learn classes (StandardScaler, MaxAbsScaler, Normalizer,
        LinearSVC, LogisticRegression, Ridge).
    path : str or path-like
        Local path or fsspec URL of the new Zarr group.
    overwrite : bool, default=False
        Whether to replace a model at ``path``, in one atomic step.
    storage_options : dict, default=None
        Options of the file system of ``path``.

    Raises
    ------
    ValueError
        If the model is not fitted, ``path`` exists already, or another process holds the lock for a minute.
    TypeError
        If the class of the model or of a nested object cannot be saved.

    Notes
    -----
    Numbers and array types are preserved bit by bit, and arrays have checksums. Sparse matrices are loaded as CSR.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import SketchedPCA
    >>> save(SketchedPCA(1).fit(np.eye(3)), "memory://a-model")
    >>> load("memory://a-model").n_samples_seen_
    3
    """
    import_all()
    if get_class_name(type(model)) is None:
        raise TypeError(f"a {type(model).__name__} cannot be saved: pass an estimator of dspectral")
    if not is_fitted(model):
        raise ValueError(f"this {type(model).__name__} is not fitted: call fit before save")
    location = Location.from_url(path, storage_options)
    # All errors are raised before anything is written, including the lock.
    _check_replaceable(location, overwrite=overwrite)
    arrays: list[Any] = []
    node = cast("dict[str, Any]", encode_object(model, type(model).__name__, arrays))
    with hold_write_lock(location, wait=WAIT_SECONDS):
        _check_replaceable(location, overwrite=overwrite)  # another process may have saved a model meanwhile
        write_stored_group(location, {KEY: {"format": FORMAT, "version": version("dspectral"), **node}}, arrays)


def _check_replaceable(location: Location, *, overwrite: bool) -> None:
    """Raise ValueError if `save` must not replace the content of a path."""
    existing = read_stored_group(location)
    is_model = existing is not None and not {KEY, UNFINISHED}.isdisjoint(existing.attributes)
    # An interrupted first save leaves an empty group, a lock, or a temporary file.
    is_unfinished = existing is None or not existing.attributes
    if not is_model and not (
        is_unfinished and all(re.fullmatch(_UNFINISHED_FILES, name) for name in location.list_names())
    ):
        raise ValueError(f"{location.url} exists and is not a model: choose another path")
    if existing is not None and KEY in existing.attributes and not overwrite:
        raise ValueError(f"there is already a model at {location.url}: overwrite=True replaces it")


def load(
    path: str | PathLike[str],
    *,
    classes: Iterable[type | Callable[[str], Iterable[Any]]] = (),
    storage_options: dict[str, Any] | None = None,
) -> Any:
    """Load a fitted estimator; its results are bit-identical to those of the saved one.

    Parameters
    ----------
    path : str or path-like
        Local path or fsspec URL, as given to :func:`save`.
    classes : iterable of type or function, default=()
        Your own subclasses and tokenizers in the model. Imported subclasses are found by module and name, classes given
        here by their name only. A tokenizer is found if it is given here, or was given to an estimator or a builder in
        this process.
    storage_options : dict, default=None
        Options of the file system of ``path``.

    Returns
    -------
    estimator
        The model, of the same class as the saved one.

    Raises
    ------
    ValueError
        If there is no model at ``path``, it is damaged or of a newer format, or its class is neither registered nor
        imported. Loading imports no module that a file names.

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
    location, classes = Location.from_url(path, storage_options), list(classes)
    extra_classes = [item for item in classes if isinstance(item, type)]
    for function in (item for item in classes if not isinstance(item, type)):
        register_tokenizer(function, "classes")
    for _ in range(MAX_READS):
        record = read_stored_group(location)
        if record is None or KEY not in record.attributes:
            raise ValueError(f"there is no model at {path}: write one with save")
        try:
            return _decode(record, extra_classes)
        except StoreError:
            # save(overwrite=True) removes the old arrays; then the new ones are read.
            if (newer := read_stored_group(location)) is None or newer.attributes == record.attributes:
                raise
    raise StoreError(f"the model at {path} was replaced {MAX_READS} times during the read: load it again later")


def _decode(group: StoredGroup, extra_classes: Sequence[type]) -> Any:
    """Decode the model of a stored group."""
    url, head = group.location.url, group.attributes[KEY]
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise StoreError(f"the model at {url} has another format than {FORMAT}: install the dspectral that wrote it")
    try:
        return Decoder(group.array, partial(decode_object, extra_classes=extra_classes)).decode(head)
    except StoreError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        message = f"{type(error).__name__}: {error}"
        raise ValueError(f"the model at {url} has invalid content ({message:.300}): save it again") from error


@cache
def import_all() -> None:
    """Import all modules that register classes for saving."""
    for package in (decomposition, preprocessing, methods):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
