"""Transformers whose lazy results stay lazy, whatever ``set_output`` asks for."""

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

from dspectral import engine
from dspectral.inputs.dask_frames import is_dask_frame


class LazyOutputMixin:
    """Keep scikit-learn's ``set_output`` from reading lazy rows into memory: it is for dense results in memory.

    scikit-learn wraps ``transform`` and ``fit_transform`` so that they return a pandas or polars DataFrame if
    ``set_output`` asks for it. From a Dask array it would make one by computing it. With this mixin, which must stand
    before scikit-learn's own classes, results for lazy input are Dask arrays under every setting; results for input
    in memory are what ``set_output`` asks for.

    >>> import dask.array as da
    >>> import numpy as np
    >>> from dspectral import TruncatedSVD
    >>> svd = TruncatedSVD(1).set_output(transform="pandas").fit(np.eye(3))
    >>> type(svd.transform(np.eye(3))).__name__, type(svd.transform(da.eye(3))).__name__
    ('DataFrame', 'Array')
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # where scikit-learn wraps
        for name in ("transform", "fit_transform"):
            method = getattr(cls, name, None)
            if method is not None:
                # Inherited ones too: fit_transform comes wrapped from TransformerMixin.
                setattr(cls, name, _stay_lazy(method))


def _stay_lazy(method: Callable[..., Any]) -> Callable[..., Any]:
    """Call what scikit-learn wrapped, without its wrapping, if X is lazy."""
    inner = unwrap(method)

    @wraps(method)
    def choose(self: object, X: Any, *args: Any, **kwargs: Any) -> Any:
        lazy = engine.is_lazy(X) or is_dask_frame(X) or _in_store(X)
        return (inner if lazy else method)(self, X, *args, **kwargs)

    return choose


def _in_store(X: object) -> bool:
    """Report whether X is a corpus whose sentences are read from a store."""
    return getattr(getattr(X, "sentences", None), "in_memory", True) is False  # a Delayed has every attribute
