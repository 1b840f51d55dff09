"""Fitted estimators as JSON and arrays in Zarr, and back; a file may name registered and imported classes alone."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dis import get_instructions, opmap
from functools import cache
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from operator import index
from os import PathLike
from pkgutil import walk_packages
from types import CodeType
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral import decomposition, methods, preprocessing
from dspectral.linalg.sparse_products import find_csr_error
from dspectral.persistence.checks import check_arrays
from dspectral.registry import ESTIMATORS, RECORDS
from dspectral.store.arrays import UNFINISHED, StoredGroup, read_stored_group, write_stored_group
from dspectral.store.columns import get_fitted_columns
from dspectral.store.location import Location, StoreError
from dspectral.store.lock import HOLDER, LOCK, hold_write_lock
from dspectral.text.tokenizers import Tokenizer, as_tokenizer, register_tokenizer
from dspectral.types import JSON, CSRRows, is_sparse

FORMAT = 1
KEY = "dspectral_model"
_UNFINISHED_FILES = rf"zarr\.json(\.[0-9a-f]{{32}}\.partial)?|{LOCK}|{HOLDER}"
WAIT_SECONDS = 60.0
"""Seconds that a save waits for another one at the same path."""
MAX_READS = 100
"""Number of times that ``load`` starts again because another process has replaced the model meanwhile."""


def save(
    model: Any,
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Save a fitted estimator.

    Parameters
    ----------
    model : estimator
        A fitted estimator of dspectral, with whatever fitted ones it holds; a subclass of one; or a Pipeline,
        FeatureUnion or ColumnTransformer of these and of a few from scikit-learn (StandardScaler, MaxAbsScaler,
        Normalizer, LinearSVC, LogisticRegression, Ridge).
    path : str or path-like
        Local path or fsspec URL of the Zarr group to make.
    overwrite : bool, default=False
        Whether a model at ``path`` may be replaced. It stays whole until the new one is.
    storage_options : dict, default=None
        Options of the file system of ``path``.

    Raises
    ------
    ValueError
        If the model is not fitted, something is at ``path`` already, or another process saves there for a minute.
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
    if get_class_name(type(model)) is None:
        raise TypeError(f"a {type(model).__name__} cannot be saved, but {', '.join(ESTIMATORS)} can")
    if not _is_fitted(model):
        raise ValueError(f"this {type(model).__name__} is not fitted: call fit before save")
    where = Location.from_url(path, storage_options)
    # Everything that can be refused is refused before anything is written, the lock included.
    _check_replaceable(where, overwrite=overwrite)
    arrays: list[Any] = []
    node = cast("dict[str, Any]", encode(model, type(model).__name__, arrays))
    with hold_write_lock(where, wait=WAIT_SECONDS):
        _check_replaceable(where, overwrite=overwrite)  # another process may have saved a model meanwhile
        write_stored_group(where, {KEY: {"format": FORMAT, "version": version("dspectral"), **node}}, arrays)


def _check_replaceable(where: Location, *, overwrite: bool) -> None:
    """Refuse a path where something is that a save must not replace."""
    there = read_stored_group(where)
    ours = there is not None and not {KEY, UNFINISHED}.isdisjoint(there.attributes)
    # A first save that was killed leaves a group of nothing, a lock, or a file that was not renamed yet.
    is_unfinished = there is None or not there.attributes
    if not ours and not (
        is_unfinished and all(re.fullmatch(_UNFINISHED_FILES, name) for name in where.names())
    ):
        raise ValueError(f"something that is not a model is at {where.url}: choose another path")
    if there is not None and KEY in there.attributes and not overwrite:
        raise ValueError(f"there is a model at {where.url} already: overwrite=True replaces it")


def load(
    path: str | PathLike[str],
    *,
    classes: Iterable[type | Callable[[str], Iterable[Any]]] = (),
    storage_options: dict[str, Any] | None = None,
) -> Any:
    """Load a fitted estimator: it transforms and predicts as the saved one did, to the bit.

    Parameters
    ----------
    path : str or path-like
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
    where, classes = Location.from_url(path, storage_options), list(classes)
    given = [one for one in classes if isinstance(one, type)]
    for function in (one for one in classes if not isinstance(one, type)):
        register_tokenizer(function, "classes")
    for _ in range(MAX_READS):
        record = read_stored_group(where)
        if record is None or KEY not in record.attributes:
            raise ValueError(f"there is no model at {path}: save writes one")
        try:
            return _decode(record, where.url, given)
        except StoreError:
            # The arrays are gone once save(overwrite=True) has written newer ones: those are read instead.
            if (newer := read_stored_group(where)) is None or newer.attributes == record.attributes:
                raise
    raise StoreError(
        f"the model at {path} was replaced {MAX_READS} times while it was read: load it again later"
    )


def _decode(record: StoredGroup, path: str, given: Sequence[type]) -> Any:
    """Return the model of a record."""
    head = record.attributes[KEY]
    try:
        if type(head["format"]) is not int or not 1 <= head["format"] <= FORMAT:
            raise StoreError(
                f"the model at {path} has format {head['format']!r:.60} of dspectral {head['version']!r:.60}, but "
                f"this version reads up to format {FORMAT}: install a newer dspectral"
            )
        return Decoder(record, lambda name: find_class(name, given, record.where.url)).value(head)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        if isinstance(error, StoreError) or record.where.url in str(error):
            raise
        message = f"{type(error).__name__}: {error}"
        raise ValueError(f"the model at {path} holds what save does not write ({message:.200})") from error


def _is_fitted(model: Any) -> bool:
    """Ask the model, a Pipeline for instance, or look for anything beside its parameters."""
    if hasattr(model, "__sklearn_is_fitted__"):
        return bool(model.__sklearn_is_fitted__())
    return not vars(model).keys() <= model.get_params(deep=False).keys()


@cache
def import_all() -> None:
    """Import every module that may define a class that is saved: each registers its own."""
    for package in (decomposition, preprocessing, methods):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def get_class_name(kind: type) -> str | None:
    """Return the name that an estimator's class has in files, or None if it is not saved.

    >>> import_all()
    >>> get_class_name(ESTIMATORS["TruncatedSVD"]), get_class_name(dict)
    ('TruncatedSVD', None)
    """
    for name, known in ESTIMATORS.items():
        if known is kind:
            return name
    return (
        _get_qualified_name(kind) if any(issubclass(kind, known) for known in _get_own_estimators()) else None
    )


def find_class(name: str, given: Sequence[type], url: str) -> Any:
    """Return the class behind a name in a file."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    short = name.rsplit(".", 1)[-1]
    if short == name:
        known = ", ".join(ESTIMATORS)
        raise ValueError(f"the model at {url} names the class {name!r}, but only these are loaded: {known}")
    # The last one wins: a notebook's cell that was run again has defined the class again.
    found = [kind for kind in _iter_subclasses() if _get_qualified_name(kind) == name]
    found += [kind for kind in given if kind.__name__ == short]
    if not found:
        raise ValueError(
            f"the model at {url} names the class {name!r}, which is not imported: import its module, or give "
            f"load(..., classes=[{short}])"
        )
    return found[-1]


def _get_qualified_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _get_own_estimators() -> list[type]:
    """Return the estimators of dspectral: the register holds a few of scikit-learn too."""
    return [kind for kind in ESTIMATORS.values() if kind.__module__.startswith("dspectral.")]


def _iter_subclasses() -> Iterator[type]:
    """Yield the subclasses of dspectral's estimators that are imported, each after its bases."""
    waiting = _get_own_estimators()
    while waiting:
        kind = waiting.pop()
        below: list[type] = type.__subclasses__(kind)
        yield from below
        waiting += below


def encode(value: Any, name: str, arrays: list[Any]) -> JSON:
    """Return what JSON knows of a value; arrays of numbers are added to ``arrays``."""
    # Exact types: an object of a subclass of int or str would come back as a plain one.
    if value is None or type(value) in (bool, int, str):
        return cast("JSON", value)
    if type(value) is float:
        return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
    if isinstance(value, np.ndarray | np.generic) or is_sparse(value):
        return _encode_array(value, name, arrays)
    if type(value) in (list, tuple, dict, slice, set, frozenset):
        return _encode_container(value, name, arrays)
    if type(value) in (np.random.RandomState, np.random.Generator):
        return _encode_random(value, name, arrays)
    return _encode_object(value, name, arrays)


def _encode_container(
    value: list[Any] | tuple[Any, ...] | dict[Any, Any] | slice | set[Any] | frozenset[Any],
    name: str,
    arrays: list[Any],
) -> JSON:
    # Pairs in place of a JSON object, whose keys could be strings alone.
    if isinstance(value, dict):
        pairs = [_encode_container(list(pair), name, arrays) for pair in value.items()]
        return {"kind": "dict", "items": pairs}
    if isinstance(value, slice):
        parts = [value.start, value.stop, value.step]
        return {"kind": "slice", "items": _encode_container(parts, name, arrays)}
    listed = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
    items = [encode(item, f"{name}[{i}]", arrays) for i, item in enumerate(listed)]
    return items if isinstance(value, list) else {"kind": type(value).__name__, "items": items}


def _encode_array(value: "NDArray[Any] | np.generic | CSRRows", name: str, arrays: list[Any]) -> JSON:
    if is_sparse(value):
        rows = sparse.csr_array(value)
        parts = [encode(part, name, arrays) for part in (rows.data, rows.indices, rows.indptr)]
        return {"kind": "sparse", "shape": list(rows.shape), "items": parts}
    if value.dtype.kind in "biuf" and value.ndim:
        arrays.append(value)
        # BLAS sums in another order where the memory is in another order.
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return {"kind": "array", "number": len(arrays) - 1, "order": order}
    # Strings, objects and single numbers go into the JSON: they are few, and no array of numbers could hold them.
    if value.dtype.kind in "biufUO":
        items = [encode(item, name, arrays) for item in value.ravel().tolist()]
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {"kind": f"small {kind}", "dtype": value.dtype.str, "shape": list(value.shape), "items": items}
    raise TypeError(f"{name} is an array of {value.dtype}, but only numbers and strings can be saved")


def _encode_random(value: np.random.RandomState | np.random.Generator, name: str, arrays: list[Any]) -> JSON:
    """Return the state of a source of random numbers, so that it goes on where it was."""
    if legacy := isinstance(value, np.random.RandomState):
        state: Any = value.get_state(legacy=False)
    else:
        state = value.bit_generator.state
    return {"kind": "random", "legacy": legacy, "items": [encode(state, name, arrays)]}


def _encode_object(value: Any, name: str, arrays: list[Any]) -> JSON:
    record = next((known for known, kind in RECORDS.items() if kind is type(value)), None)
    if isinstance(value, Tokenizer) or (name.endswith(".tokenizer") and callable(value)):
        known = as_tokenizer(value, name)
        return None if known is None else known.name
    if record is not None:
        check_arrays(value)
        fields = {field: encode(of, f"{name}.{field}", arrays) for field, of in value._asdict().items()}
        return {"kind": "record", "class": record, "fields": fields}
    class_name = get_class_name(type(value))
    if class_name is None:
        raise TypeError(f"{name} is a {type(value).__qualname__}, which cannot be saved")
    parameters = value.get_params(deep=False)
    # scikit-learn adds its version to the attributes of its own estimators.
    ours = not type(value).__module__.startswith("sklearn.")
    state = vars(value) if ours else value.__getstate__()
    # Parameters go to the constructor and attributes are set afterwards, so that a loaded model is made as any other.
    fitted = {key: of for key, of in state.items() if key not in parameters}
    if wrong := find_unset_names(type(value), fitted, parameters):
        raise TypeError(
            f"{name} has {wrong[0]!r}, which no method of {class_name} sets: remove it, or keep it elsewhere"
        )
    check_arrays(value, fitted=bool(fitted))  # what load would refuse is not written
    return {
        "kind": "estimator",
        "class": class_name,
        "parameters": {key: encode(of, f"{name}.{key}", arrays) for key, of in parameters.items()},
        "attributes": {key: encode(of, f"{name}.{key}", arrays) for key, of in fitted.items()},
    }


class Decoder(NamedTuple):
    """Make values of what :func:`encode` returned."""

    record: StoredGroup
    class_named: Callable[[str], Any]

    def value(self, node: JSON) -> Any:
        """Return the value of a node."""
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        if node["kind"] not in _DECODERS:
            url = self.record.where.url
            raise ValueError(f"the model at {url} holds an unknown kind of value, {node['kind']!r}")
        return _DECODERS[node["kind"]](self, node)

    def items(self, node: dict[str, Any]) -> list[Any]:
        """Return the values of the items of a node."""
        return [self.value(item) for item in node["items"]]

    def check(self, made: Any, *, fitted: bool = True) -> Any:
        """Return an object whose arrays fit each other."""
        try:
            check_arrays(made, fitted=fitted)
        except ValueError as error:
            raise ValueError(
                f"the model at {self.record.where.url} does not fit together: {error}; save it again"
            ) from error
        return made

    def values(self, nodes: dict[str, JSON]) -> dict[str, Any]:
        """Return the values of named nodes."""
        values = {name: self.value(node) for name, node in nodes.items()}
        if isinstance(name := values.get("tokenizer"), str):
            # A string that a user gives is imported; this one is from a file, and loading imports nothing.
            values["tokenizer"] = Tokenizer(name)
        return values


def _decode_small_array(decoder: Decoder, node: dict[str, Any]) -> Any:
    # Filled and not converted: from a list of tuples or lists NumPy would make an array of more dimensions.
    dtype, url = np.dtype(node["dtype"]), decoder.record.where.url
    if dtype.kind not in "biufUO" or any(size < 0 for size in node["shape"]):
        raise ValueError(f"the model at {url} has a small array of {dtype} and shape {node['shape']}")
    values = np.empty(len(node["items"]), dtype=dtype)
    values[:] = decoder.items(node)
    return values.reshape(node["shape"]) if node["kind"] == "small array" else values[0]


def _decode_sparse(decoder: Decoder, node: dict[str, Any]) -> sparse.csr_array:
    # Compiled loops trust indices, and whoever wrote the file may have sealed wrong ones.
    rows = sparse.csr_array(tuple(decoder.items(node)), shape=tuple(node["shape"]))
    if fault := find_csr_error(rows.indices, rows.indptr, rows.shape[1]):
        raise ValueError(f"the model at {decoder.record.where.url} holds a damaged sparse matrix: {fault}")
    return rows


def _decode_random(decoder: Decoder, node: dict[str, Any]) -> np.random.RandomState | np.random.Generator:
    state = decoder.items(node)[0]
    kind = state["bit_generator"]
    if kind not in _BIT_GENERATORS:
        raise ValueError(
            f"the model at {decoder.record.where.url} has a random state of unknown kind, {kind!r}"
        )
    bits = _BIT_GENERATORS[kind]()
    # NumPy reads at a position without looking whether it is inside.
    positions = index(state["state"].get("pos", 0)), index(state.get("buffer_pos", 0))
    if not (0 <= positions[0] <= len(state["state"].get("key", ())) and 0 <= positions[1] <= 4):
        raise ValueError(
            f"the model at {decoder.record.where.url} has a random state at position {max(positions)}, "
            "outside of its key: save the model again"
        )
    if node["legacy"]:
        made = np.random.RandomState(bits)
        made.set_state(state)
        return made
    bits.state = state
    return np.random.Generator(bits)


def _decode_record(decoder: Decoder, node: dict[str, Any]) -> Any:
    if node["class"] not in RECORDS:
        raise ValueError(
            f"the model at {decoder.record.where.url} names the class {node['class']!r}, but only these are "
            f"loaded: {', '.join(RECORDS)}"
        )
    return decoder.check(RECORDS[node["class"]](**decoder.values(node["fields"])))


def _decode_estimator(decoder: Decoder, node: dict[str, Any]) -> Any:
    kind, parameters = decoder.class_named(node["class"]), decoder.values(node["parameters"])
    if isinstance(parameters.get("memory"), str):
        parameters["memory"] = None  # of a Pipeline: a folder of pickles, which the next fit would run
    made, attributes = kind(**parameters), decoder.values(node["attributes"])
    if wrong := find_unset_names(kind, attributes, made.get_params(deep=False)):
        raise ValueError(f"the model at {decoder.record.where.url} sets {wrong[0]!r}, which no fit does")
    if "_sklearn_version" in attributes:  # it warns of models that another version has fitted
        made.__setstate__({**vars(made), **attributes})
    else:
        vars(made).update(attributes)
    columns, n_columns = get_fitted_columns(made), attributes.get("n_features_in_")
    if columns is not None and n_columns is not None and columns.n_columns != n_columns:
        raise ValueError(
            f"the model at {decoder.record.where.url} has feature_names_in_ or column_identity_ of "
            f"{columns.n_columns} columns, but n_features_in_ is {n_columns}: save the model again"
        )
    made.set_params(**parameters)
    if hasattr(kind, "_parameter_constraints"):
        made._validate_params()  # noqa: SLF001  it has no public name
    return decoder.check(made, fitted=bool(attributes))


def find_unset_names(kind: type, attributes: Iterable[str], parameters: Iterable[str]) -> list[str]:
    """Return the names of attributes that hide a parameter, method or property, or that no method of a class sets."""
    hidden = {name for name in attributes if hasattr(getattr(kind, name, None), "__get__")}
    return [
        name
        for name in attributes
        if name in {*hidden, *parameters} or name not in _find_set_attributes(kind)
    ]


@cache
def _find_set_attributes(kind: type) -> frozenset[str]:
    """Return the attributes of self that the methods of a class and of its bases set, as their code says."""
    found, waiting = (
        set(_SET_BY_FUNCTIONS),
        [member for base in kind.__mro__ for member in vars(base).values()],
    )
    while waiting:
        member = waiting.pop()
        if isinstance(member, CodeType):
            waiting += member.co_consts
            if opmap["STORE_ATTR"] in member.co_code[::2]:  # few do, and reading all takes .1 s a class
                steps = [step for step in get_instructions(member) if step.opname != "EXTENDED_ARG"]
                # Newer versions of Python load two variables in one step: the second one is the object.
                found |= {
                    step.argval
                    for before, step in pairwise(steps)
                    if step.opname == "STORE_ATTR" and before.argrepr.split(", ")[-1] == "self"
                }
        else:
            names = ("__wrapped__", "__func__", "__code__", "fget", "fset", "func", "fn")
            waiting += [getattr(member, name) for name in names if hasattr(member, name)]
    return frozenset(found)


_SET_BY_FUNCTIONS = frozenset(
    {"n_features_in_", "feature_names_in_", "column_identity_", "weighting_", "_sklearn_version"}
)
"""Attributes that functions beside the classes set, ours and scikit-learn's."""
_BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}
_DECODERS: dict[str, Callable[[Decoder, dict[str, Any]], Any]] = {
    "float": lambda _, node: float(node["value"]),
    "tuple": lambda decoder, node: tuple(decoder.items(node)),
    "set": lambda decoder, node: set(decoder.items(node)),
    "frozenset": lambda decoder, node: frozenset(decoder.items(node)),
    "dict": lambda decoder, node: dict(decoder.items(node)),
    "slice": lambda decoder, node: slice(*decoder.items(node)),
    "array": lambda decoder, node: np.asarray(decoder.record.array(node["number"]), order=node["order"]),
    "small array": _decode_small_array,
    "small scalar": _decode_small_array,
    "sparse": _decode_sparse,
    "random": _decode_random,
    "record": _decode_record,
    "estimator": _decode_estimator,
}
