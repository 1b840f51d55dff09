"""Run plans of fits and builds, also for paths of stores and files, and for text that is not counted yet."""

from contextlib import suppress
from dataclasses import replace
from itertools import islice
from os import PathLike
from typing import Any

from scipy import sparse
from sklearn.utils import get_tags

from dspectral import engine
from dspectral.engine.summary import get_nbytes
from dspectral.paths import expand_path
from dspectral.quantities import format_bytes
from dspectral.run_plan import RunPlan
from dspectral.store.anndata_files import HDF5_ENDINGS
from dspectral.store.corpus import open_corpus
from dspectral.store.counts import open_store
from dspectral.store.from_text.lines import BLOCK_BYTES
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.from_text.sources import split_files
from dspectral.store.from_text.text_files import TextFiles
from dspectral.store.from_text.texts import Texts
from dspectral.store.location import StoreError
from dspectral.store.rows import dask_array_from_blocks
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.packing import pack_texts
from dspectral.types import Documents


def plan(
    what: Any,
    *arguments: Any,
    workers: int | None = None,
    memory_limit: str | float | None = None,
    **keywords: Any,
) -> RunPlan:
    """Return the passes, tasks, bytes and memory of a fit or a build.

    Parameters
    ----------
    what : estimator or callable
        An estimator or its ``fit``, or a function such as :func:`dspectral.build_store`.
    *arguments
        Arguments of ``fit`` or of the function. The rows of a fit may also be an AnnData, in memory, backed or lazy
        (its ``X``); the path or URL of a store, corpus or AnnData file; or text that is not counted yet: the path, URL
        or pattern of files, :class:`TextFiles`, or :class:`Texts` of a list.
    workers : int, optional
        Number of worker processes of one thread; by default the workers of Dask's client, or threads of this process.
    memory_limit : str or float, optional
        Memory limit of each process, such as ``"2 GB"``; by default their actual limit, or the free memory.
    **keywords
        Keyword arguments of ``fit`` or the function.

    Returns
    -------
    RunPlan
        The plan. If the run does not fit, ``refusal`` is the reason, and :meth:`RunPlan.check` raises it.

    Raises
    ------
    ValueError
        If ``fit`` raises it for the data or a parameter, or no worker of the cluster answers.

    Notes
    -----
    A copy of the estimator is fitted up to its first pass, of which no block is read. Memory is the estimate that
    ``fit`` checks; a build counts with five times the bytes of a task's text. There is no time: merges, solvers and
    later passes differ too much from a first block.

    Text that is not counted yet is planned as the store that ``build_store`` would make. Its first block is hashed, and
    the others are assumed to be like it. Documents of compressed files are counted in one pass.

    Examples
    --------
    >>> import dask.array as da
    >>> from dspectral import SketchedPCA
    >>> run_plan = plan(SketchedPCA(2), da.random.default_rng(0).standard_normal((600, 8), chunks=(100, -1)))
    >>> run_plan.n_passes, run_plan.n_tasks
    (1, 11)
    """
    settings: dict[str, Any] = {"workers": workers, "memory_limit": memory_limit, **keywords}
    owner = getattr(what, "__self__", what)
    if not hasattr(owner, "fit") or not arguments:
        return engine.plan(what, *arguments, **settings)
    data, *others = arguments
    rows = _open_rows(data) if isinstance(data, str | PathLike) else data
    if not isinstance(rows, TextFiles | Texts) or not get_tags(owner).input_tags.sparse:
        return engine.plan(what, rows, *others, **settings)
    first, sizes, n_bytes = _sample_files(rows) if isinstance(rows, TextFiles) else _sample_texts(rows)
    block = hash_documents(first, HashingSettings())
    rows = dask_array_from_blocks(
        sparse.csr_array, [block] * len(sizes), sizes, block.shape[1], [get_nbytes(block)] * len(sizes)
    )
    before = f"build_store, one pass over {format_bytes(n_bytes)} of text"
    return replace(engine.plan(what, rows, *others, **settings), before=before)


def _open_rows(path: str | PathLike[str]) -> Any:
    """Return the store or corpus at a path or URL, or its text files."""
    url = expand_path(path)
    try:
        return open_store(url)
    except StoreError:
        with suppress(StoreError):
            return open_corpus(url)
        if url.rstrip("/").endswith((*HDF5_ENDINGS, ".zarr")):
            raise
    return TextFiles(url)


def _sample_files(files: TextFiles) -> tuple[Documents, list[int], int]:
    """Return the first block of files, the approximate number of documents in each block, and the bytes of text."""
    file_ranges = split_files(files.sources, files.read_options)
    first = next(iter(read_file_range(file_ranges[0], files.read_options)))
    sizes = [first.n_documents] * len(file_ranges)
    if any(file_range.compression for file_range in file_ranges):  # whose size does not give the number of documents
        sizes = [block.n_documents for block in files.blocks]
    return first, sizes, sum(file_range.n_bytes or 0 for file_range in file_ranges)


def _sample_texts(texts: Texts) -> tuple[Documents, list[int], int]:
    """Return the first block, sizes and bytes of texts in memory, as for files."""
    if not hasattr(texts.column, "__len__"):
        raise ValueError(
            f"{texts!r} can be read only once, and the plan would consume it: pass a list, a table or files"
        )
    first, *_ = islice(pack_texts(texts.column, block_bytes=BLOCK_BYTES), 1)
    n_texts = len(texts.column)
    return first, [first.n_documents] * -(-n_texts // first.n_documents), len(first.data) * n_texts // first.n_documents
