"""Fitted estimators on disk: a Zarr group of arrays and JSON, nothing that runs code when it is read."""

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pkgutil import walk_packages
from typing import Any

import numpy as np
from scipy import sparse

from dspectral import decomposition, methods
from dspectral.registry import ESTIMATORS, RECORDS
from dspectral.store.blocks import Location
from dspectral.store.records import Record, read_record, write_record
from dspectral.types import is_sparse

FORMAT = 1
KEY = "dspectral_model"


def save(
    model: Any, path: str, *, overwrite: bool = False, storage_options: dict[str, Any] | None = None
) -> None:
    """Save a fitted estimator.

    Parameters
    ----------
    model : estimator
        A fitted one of dspectral, with whatever fitted ones it holds.
    path : str
        Local path or fsspec URL of the Zarr group to make.
    overwrite : bool
        Whether a model at ``path`` may be replaced. It stays whole until the new one is.
    storage_options : dict, optional

    Raises
    ------
    ValueError
        If the model is not fitted, or something is at ``path`` already.
    TypeError
        If the model is of, or holds, a class that cannot be saved.

    Notes
    -----
    Arrays keep their type and have checksums; numbers in JSON keep every bit; sparse matrices come
    back as CSR. Memory: the arrays themselves.

    Examples
    --------
    >>> from dspectral import SketchedPCA
    >>> save(SketchedPCA(1).fit(np.eye(3)), "memory://a-model")
    >>> load("memory://a-model").n_samples_seen_
    3
    """
    _import_all()
    if type(model) not in ESTIMATORS.values():
        raise TypeError(f"a {type(model).__name__} cannot be saved, but {', '.join(ESTIMATORS)} can")
    given = getattr(model, "__sklearn_is_fitted__", bool)()  # word vectors, for example, need no fit
    if not given and vars(model).keys() <= model.get_params(deep=False).keys():
        raise ValueError(f"this {type(model).__name__} is not fitted: call fit before save")
    where = _location(path, storage_options)
    there = read_record(where)
    if there is not None and there.attributes and KEY not in there.attributes:
        raise ValueError(f"something that is not a model is at {path}: choose another path")
    if there is not None and there.attributes and not overwrite:
        raise ValueError(f"there is a model at {path} already: overwrite=True replaces it")
    arrays: list[Any] = []
    head = {
        "format": FORMAT,
        "version": version("dspectral"),
        **_encoded(model, type(model).__name__, arrays),
    }
    write_record(where, {KEY: head}, arrays)


def load(path: str, *, storage_options: dict[str, Any] | None = None) -> Any:
    """Load a fitted estimator: it transforms and predicts as the saved one did, to the bit.

    Parameters
    ----------
    path : str
        As given to :func:`save`.
    storage_options : dict, optional

    Returns
    -------
    estimator

    Raises
    ------
    ValueError
        If there is no model at ``path``, it was saved in a newer format, an array of it is damaged, or it
        names a class other than those that dspectral saves.
    """
    _import_all()
    record = read_record(_location(path, storage_options))
    if record is None or KEY not in record.attributes:
        raise ValueError(f"there is no model at {path}: save writes one")
    head = record.attributes[KEY]
    if head["format"] > FORMAT:
        raise ValueError(
            f"the model at {path} has format {head['format']} of dspectral {head['version']}, but this "
            f"version reads up to format {FORMAT}: install a newer dspectral"
        )
    return _decoded(head, record)


@cache
def _import_all() -> None:
    """Import every module that may define a class that is saved: each registers its own."""
    for package in (decomposition, methods):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def _location(path: str, storage_options: dict[str, Any] | None) -> Location:
    return Location(str(path), tuple(sorted((storage_options or {}).items())))


def _encoded(value: Any, name: str, arrays: list[Any]) -> Any:
    """Return what JSON knows of a value; arrays of numbers go to ``arrays``. ``name`` is for the message."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _encoded_array(value, name, arrays)
    if is_sparse(value):
        return _encoded_sparse(value, name, arrays)
    if type(value) in (list, tuple, dict):
        return _encoded_container(value, name, arrays)
    return _encoded_object(value, name, arrays)


def _encoded_container(value: Any, name: str, arrays: list[Any]) -> Any:
    if isinstance(value, dict):
        return {
            "kind": "dict",
            "items": [_encoded_container(list(pair), name, arrays) for pair in value.items()],
        }
    items = [_encoded(item, f"{name}[{i}]", arrays) for i, item in enumerate(value)]
    return items if isinstance(value, list) else {"kind": "tuple", "items": items}


def _encoded_array(value: Any, name: str, arrays: list[Any]) -> dict[str, Any]:
    if value.dtype.kind in "biuf" and value.ndim:
        arrays.append(value)
        # BLAS sums in another order where the memory is in another order.
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return {"kind": "array", "number": len(arrays) - 1, "order": order}
    if value.dtype.kind in "biufUO":
        items = [_encoded(item, name, arrays) for item in value.ravel().tolist()]
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {"kind": f"small {kind}", "dtype": value.dtype.str, "shape": list(value.shape), "items": items}
    raise TypeError(f"{name} is an array of {value.dtype}, but only numbers and strings can be saved")


def _encoded_sparse(value: Any, name: str, arrays: list[Any]) -> dict[str, Any]:
    rows = sparse.csr_array(value)
    parts = [_encoded(part, name, arrays) for part in (rows.data, rows.indices, rows.indptr)]
    return {"kind": "sparse", "shape": list(rows.shape), "items": parts}


def _encoded_object(value: Any, name: str, arrays: list[Any]) -> dict[str, Any]:
    known = RECORDS if isinstance(value, tuple) else ESTIMATORS
    made_from = next((name for name, kind in known.items() if kind is type(value)), None)
    if made_from is None:
        raise TypeError(f"{name} is a {type(value).__qualname__}, which cannot be saved")
    if known is RECORDS:
        fields = {field: _encoded(of, f"{name}.{field}", arrays) for field, of in value._asdict().items()}
        return {"kind": "record", "class": made_from, "fields": fields}
    parameters = value.get_params(deep=False)
    fitted = {attribute: of for attribute, of in vars(value).items() if attribute not in parameters}
    return {
        "kind": "estimator",
        "class": made_from,
        "parameters": {key: _encoded(of, f"{name}.{key}", arrays) for key, of in parameters.items()},
        "attributes": {key: _encoded(of, f"{name}.{key}", arrays) for key, of in fitted.items()},
    }


def _decoded(node: Any, record: Record) -> Any:
    if isinstance(node, list):
        return [_decoded(item, record) for item in node]
    if not isinstance(node, dict):
        return node
    if node["kind"] not in _DECODERS:
        raise ValueError(f"the model at {record.where.url} holds an unknown kind of value, {node['kind']!r}")
    return _DECODERS[node["kind"]](node, record)


def _items(node: dict[str, Any], record: Record) -> list[Any]:
    return [_decoded(item, record) for item in node["items"]]


def _small_array(node: dict[str, Any], record: Record) -> Any:
    values = np.empty(len(node["items"]), dtype=node["dtype"])
    values[:] = _items(node, record)
    return values.reshape(node["shape"]) if node["kind"] == "small array" else values[0]


def _sparse(node: dict[str, Any], record: Record) -> sparse.csr_array:
    return sparse.csr_array(tuple(_items(node, record)), shape=tuple(node["shape"]))


def _decoded_object(node: dict[str, Any], record: Record) -> Any:
    known = RECORDS if node["kind"] == "record" else ESTIMATORS
    if node["class"] not in known:
        raise ValueError(
            f"the model at {record.where.url} names the class {node['class']!r}, but only these are loaded: "
            f"{', '.join(known)}"
        )
    made_from = known[node["class"]]
    if node["kind"] == "record":
        return made_from(**{field: _decoded(of, record) for field, of in node["fields"].items()})
    made = made_from(**{name: _decoded(of, record) for name, of in node["parameters"].items()})
    for name, of in node["attributes"].items():
        setattr(made, name, _decoded(of, record))
    return made


_DECODERS: dict[str, Callable[[dict[str, Any], Record], Any]] = {
    "float": lambda node, _: float(node["value"]),
    "tuple": lambda node, record: tuple(_items(node, record)),
    "dict": lambda node, record: dict(_items(node, record)),
    "array": lambda node, record: np.asarray(record.array(node["number"]), order=node["order"]),
    "small array": _small_array,
    "small scalar": _small_array,
    "sparse": _sparse,
    "record": _decoded_object,
    "estimator": _decoded_object,
}
