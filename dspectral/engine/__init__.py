"""Blocks to summaries to one summary: the only place that builds task graphs.

:func:`summarize` maps a function over row blocks and merges what comes back up a tree whose shape depends on
the number of blocks and on ``fan_in`` alone. Whatever runs the graph (nothing but this thread, threads,
processes, or the ``dask.distributed`` client in force), the same blocks give the same bits: merges happen in
block order, and BLAS has one thread inside a task.
"""

from dspectral._compiled import LISTENERS
from dspectral.engine.blas import blas_in_one_thread
from dspectral.engine.cluster.asking import answer, asked
from dspectral.engine.cluster.errors import ClusterError
from dspectral.engine.column_groups import column_groups
from dspectral.engine.compiling import announce as _announce
from dspectral.engine.configuration import asked_memory_limit, memory_limit
from dspectral.engine.fitting import (
    OnlyPlannedError,
    expect_passes,
    fitting,
    not_planned,
    numbered,
    only_planned,
    told,
)
from dspectral.engine.keeping.kept_folder import forget, keep
from dspectral.engine.merge_tree import projected_memory, tree_depth
from dspectral.engine.passes import collect_rows, map_rows, run_tasks, summarize
from dspectral.engine.planning.asking import plan, sample_of
from dspectral.engine.planning.run_plan import RunPlan
from dspectral.engine.row_blocks import Blocks, Stream, is_lazy, lazy_rows, refuse_other_containers
from dspectral.engine.summary import Summary, add_fields
from dspectral.engine.telling import as_message, listening
from dspectral.engine.timing import PassTime, timed_passes
from dspectral.engine.whole_data import fits_in_memory, scratch_of_probe

LISTENERS.append(_announce)

__all__ = [
    "Blocks",
    "ClusterError",
    "OnlyPlannedError",
    "PassTime",
    "RunPlan",
    "Stream",
    "Summary",
    "add_fields",
    "answer",
    "as_message",
    "asked",
    "asked_memory_limit",
    "blas_in_one_thread",
    "collect_rows",
    "column_groups",
    "expect_passes",
    "fits_in_memory",
    "fitting",
    "forget",
    "is_lazy",
    "keep",
    "lazy_rows",
    "listening",
    "map_rows",
    "memory_limit",
    "not_planned",
    "numbered",
    "only_planned",
    "plan",
    "projected_memory",
    "refuse_other_containers",
    "run_tasks",
    "sample_of",
    "scratch_of_probe",
    "summarize",
    "timed_passes",
    "told",
    "tree_depth",
]
