"""Summaries of several sites as files without rows, and one model of all of them."""

from os import PathLike
from typing import Any

import fsspec
import numpy as np
from sklearn.base import clone

from dspectral import engine
from dspectral.configuration import get_fan_in
from dspectral.decomposition.estimators import PCA, SketchedPCA, TruncatedSVD
from dspectral.decomposition.nystrom import find_pilot_basis
from dspectral.decomposition.spectrum import (
    block_summarizer,
    check_size,
    nystrom_summarizer,
    pad_components,
    pilot_basis,
    spectrum_from_summary,
)
from dspectral.engine.around.checkpoints import digest
from dspectral.engine.around.context import current_context, fit_context
from dspectral.engine.graph import merge_summaries
from dspectral.io.line_files import open_atomic
from dspectral.parameters import check_integer
from dspectral.paths import resolve_url
from dspectral.preprocessing.weighting import TfidfWeighting
from dspectral.store.columns import (
    Columns,
    check_columns,
    columns_from_hashing,
    columns_from_names,
    count_document_frequencies,
    get_fitted_columns,
    set_fitted_columns,
)
from dspectral.store.counts import hashing_from_record
from dspectral.summary_files import DAMAGE_ERRORS, decode_summary, encode_summary
from dspectral.text.weighting import DocumentFrequencies
from dspectral.types import RowsLike

FORMAT = 1
KIND = "summary of a site"
ESTIMATORS = {kind.__name__: kind for kind in (PCA, SketchedPCA, TfidfWeighting, TruncatedSVD)}
OWN = "own"


def write_summary(
    X: RowsLike,
    path: str | PathLike[str],
    estimator: Any,
    *,
    start: str | PathLike[str] | None = None,
    at_least: int = 1,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write the summary of the rows of one site to a file, which :func:`combine` merges with those of other sites.

    Parameters
    ----------
    X : store, Dask array, SciPy sparse or ndarray, shape (n_rows, n_columns)
        Rows of the site.
    path : str or path-like
        Local path or URL of the file.
    estimator : PCA, SketchedPCA, TruncatedSVD or TfidfWeighting
        Model with the parameters of all sites, not fitted. A solver must take one pass and make a sum: ``"auto"``,
        ``"gram"``, ``"frequent_directions"``, ``"median_frequent_directions"`` or ``"nystrom"``. A weighting sums
        document frequencies.
    start : {"own"}, str or path-like, optional
        For ``"nystrom"``, the common basis: by default drawn by ``random_state``; ``"own"`` from rows of this site; or
        the summary of another site, whose basis is used.
    at_least : int, default=1
        Smallest number of rows of a block. A sum of few rows shows much of each of them.
    storage_options : dict, optional
        Options of the file system of ``path`` and ``start``.

    Raises
    ------
    ValueError
        If a block has fewer rows, or the solver makes no sum.

    Notes
    -----
    One pass. A local file is replaced when the new one is complete. It has the sums, the names of the columns and the
    parameters, but no rows, texts or row numbers. It is not anonymous: the sum of few rows, or the difference of two
    sums, shows rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import combine
    >>> rows = np.random.default_rng(0).standard_normal((100, 5)) * [9.0, 5.0, 1.0, 1.0, 1.0]
    >>> write_summary(rows[:30], "memory://a.summary", PCA(2, svd_solver="gram"))
    >>> write_summary(rows[30:], "memory://b.summary", PCA(2, svd_solver="gram"))
    >>> model = combine(["memory://a.summary", "memory://b.summary"])
    >>> bool(np.allclose(model.components_, PCA(2).fit(rows).components_)), model.n_samples_seen_
    (True, 100)
    """
    context = current_context()
    if context.planner is not None and context.fit is None:
        places: dict[str, Any] = {"start": start, "storage_options": storage_options}
        context.planner(write_summary, X, path, estimator, at_least=at_least, **places)
    if type(estimator) not in ESTIMATORS.values():
        raise TypeError(f"estimator={estimator!r:.80} must be a PCA, SketchedPCA, TruncatedSVD or TfidfWeighting")
    model = clone(estimator)
    is_weighting = isinstance(model, TfidfWeighting)
    options: Any = None
    if is_weighting:
        rows: Any = model._validate_counts(X, reset=True)  # noqa: SLF001  the estimators are of this package
    else:
        rows, options = model._prepare(X, one_pass=True)  # noqa: SLF001
    sizes = engine.as_dask_rows(rows).chunks[0] if engine.is_lazy(rows) else (rows.shape[0],)
    if min(sizes) < check_integer("at_least", at_least, at_least=1):
        raise ValueError(f"block {sizes.index(min(sizes))} has {min(sizes)} rows, but must have at_least={at_least}")
    if start is not None and (is_weighting or options.solver != "nystrom"):
        raise ValueError(f"start={start!r} must be None but for solver='nystrom'")
    parameters: dict[str, Any] = model.get_params(deep=False)
    settings = {
        "estimator": type(model).__name__,
        "n_columns": rows.shape[1],
        "weighting": getattr(model, "weighting_", None),
        "has_names": get_fitted_columns(model) is not None,
    }
    with fit_context("write_summary"):
        if is_weighting:
            settings |= parameters
            summary: Any = engine.summarize(rows, summarize_block=count_document_frequencies, name="count")
        else:
            parameters["random_state"] = options.seed
            summary, more = _sum_rows(rows, options, start, storage_options)
            settings |= more
    columns, record = get_fitted_columns(model), None
    if columns is not None:
        names = None if columns.names is None else columns.names.tolist()
        record = [columns.kind, names, columns.hashing and columns.hashing.record()]
    facts: dict[str, Any] = {"format": FORMAT, "settings": settings, "parameters": parameters, "columns": record}
    content = encode_summary(KIND, summary, facts)
    with open_atomic(path, "wb", **(storage_options or {})) as file:
        file.write(content)


def combine(paths: Any, n_components: float | None = None, *, storage_options: dict[str, Any] | None = None) -> Any:
    """Return the model of the rows of all sites, from the files of :func:`write_summary`.

    Parameters
    ----------
    paths : sequence of str or path-like
        Files, one a site. Their order does not matter: sites with more rows are merged first, those with equal numbers
        of rows in the order of their content hashes.
    n_components : int, optional
        Number of components, by default that of the summaries.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    PCA, SketchedPCA, TruncatedSVD or TfidfWeighting
        Fitted model, whose certificate covers the rows of all sites. ``partial_fit`` can add rows to it.

    Raises
    ------
    ValueError
        If columns, parameters or formats of the files differ, a file is damaged, or two are of the same rows.

    Notes
    -----
    No pass. The merge tree is that of one fit whose blocks are the sites. The model is bit-identical to one fit of a
    store with the sites in the order of the merges, if all but the last one have the same number of blocks, a power of
    two.

    Examples
    --------
    See :func:`write_summary`.
    """
    sites = sort_sites([_read_site(path, storage_options) for path in paths])
    if not sites:
        raise ValueError("paths has no files, but must have at least one of write_summary")
    (_, first_path, _, facts), *others = sites
    model = ESTIMATORS[facts["settings"]["estimator"]](**facts["parameters"])
    set_fitted_columns(model, _decode_columns(facts["columns"]), facts["settings"]["weighting"])
    for (previous, previous_path, *_), (content_hash, path, _, other) in zip(sites, others, strict=False):
        different = [name for name, value in facts["settings"].items() if other["settings"].get(name) != value]
        if different:
            value, expected = (x["settings"].get(different[0]) for x in (other, facts))
            raise ValueError(f"{path} has {different[0]}={value}, but must have {expected}, as {first_path}")
        check_columns(model, _decode_columns(other["columns"]), str(path))
        if content_hash == previous:
            raise ValueError(f"{path} and {previous_path} are the same summary: pass it once")
    if n_components is not None:
        model.set_params(n_components=n_components)
    summaries, fan_in = [summary for _, _, summary, _ in sites], get_fan_in()
    with fit_context("combine"):
        while len(summaries) > 1:
            groups = [summaries[i : i + fan_in] for i in range(0, len(summaries), fan_in)]
            summaries = [merge_summaries(*group) if len(group) > 1 else group[0] for group in groups]
        (summary,) = summaries
        model.n_features_in_ = facts["settings"]["n_columns"]
        if isinstance(model, TfidfWeighting):
            model._set(summary, n_passes=0)  # noqa: SLF001
            return model
        model.random_state_ = facts["parameters"]["random_state"]
        options = model._make_options(np.dtype(facts["settings"]["dtype"]), one_pass=True)  # noqa: SLF001
        if options.n_components is None:
            options = options._replace(n_components=min(summary.n_rows, model.n_features_in_))
        check_size(options._replace(sketch_size=facts["settings"].get("sketch_size")), model.n_features_in_)
        model._set(pad_components(spectrum_from_summary(summary, options), options))  # noqa: SLF001
    return model


def sort_sites(sites: list[Any]) -> list[Any]:
    """Return sites of :func:`_read_site` in the order in which they are merged."""
    return sorted(sites, key=lambda site: (-site[2].n_rows, site[0]))


def _sum_rows(
    rows: Any, options: Any, start: Any, storage_options: dict[str, Any] | None
) -> tuple[Any, dict[str, Any]]:
    """Return the summary of a solver, and the settings that must be equal at all sites."""
    check_size(options, rows.shape[1])
    settings = {"solver": options.solver, "center": options.center, "dtype": np.dtype(options.dtype).name}
    basis = None
    if options.solver == "nystrom":
        basis = _get_basis(rows, options, start, storage_options)
        settings |= {"sketch_size": basis.shape[1], "random_state": options.seed}
        summarize_block: Any = nystrom_summarizer(basis, options.seed)
    elif options.solver in ("gram", "frequent_directions", "median_frequent_directions"):
        settings |= {} if options.solver == "gram" else {"sketch_size": options.n_sketch_rows}
        summarize_block = block_summarizer(options, options.solver)
    else:
        raise ValueError(f"solver={options.solver!r} must be 'gram', 'frequent_directions' or 'nystrom', of one pass")
    summary: Any = engine.summarize(rows, summarize_block=summarize_block, name="sketch")
    return summary if basis is None else summary._replace(basis=basis), settings


def _get_basis(rows: Any, options: Any, start: Any, storage_options: dict[str, Any] | None) -> Any:
    """Return the common basis (d, l) of the products of ``"nystrom"``."""
    if start == OWN:
        return pilot_basis(rows, options)
    if start is None:
        width = min(rows.shape[1], options.n_space_columns)
        no_rows, settings = np.zeros((0, rows.shape[1])), {"seed": options.seed, "dtype": options.dtype}
        return find_pilot_basis(no_rows, width, center=options.center, **settings)
    _, _, summary, _ = _read_site(start, storage_options)
    if (basis := getattr(summary, "basis", None)) is None:
        raise ValueError(f"start={start!r} must be a summary of solver='nystrom'")
    return basis


def _read_site(path: Any, storage_options: dict[str, Any] | None) -> tuple[str, Any, Any, dict[str, Any]]:
    """Return the content hash, path, summary and facts of a file."""
    url, pairs = resolve_url(path, storage_options)
    with fsspec.open(url, "rb", compression="infer", **dict(pairs)) as file:
        content = file.read()
    try:
        summary, facts = decode_summary(KIND, content)
        version, n_columns = facts["format"], facts["settings"]["n_columns"]
        ESTIMATORS[facts["settings"]["estimator"]](**facts["parameters"])
        total = summary.document_frequency if isinstance(summary, DocumentFrequencies) else summary.total
        if len(total) != n_columns:
            raise ValueError(f"it has sums of {len(total)} columns, but names {n_columns}")
    except DAMAGE_ERRORS as error:
        raise ValueError(
            f"{path} is damaged or no file of write_summary ({type(error).__name__}: {error!s:.80})"
        ) from error
    if version != FORMAT:
        raise ValueError(f"{path} has format {version!r:.20}, but this version reads {FORMAT}: write it with this one")
    return digest(summary), path, summary, facts


def _decode_columns(record: list[Any] | None) -> Columns | None:
    if record is None:
        return None
    kind, names, hashing = record
    return columns_from_names(kind, names) if hashing is None else columns_from_hashing(hashing_from_record(hashing))
