"""Race truncated SVD out of core against gensim's LsiModel and scikit-learn's TruncatedSVD in memory.

A topic-model matrix is generated into a store. Each program then runs in a process of its own: dspectral from
the store on disk (one pass is Frequent Directions with twice as many rows as components), the others from the
same matrix in memory, in single precision; each on one thread. Compared are CPU seconds and peak memory of the
whole process, and the excess: how far the residual is above that of the optimal components.

Where pandas is installed, scikit-learn imports it, and its 60 MB count for whoever imports scikit-learn:
``--python`` names the interpreter of an environment that holds dspectral and gensim alone.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import svds

from dspectral import open_store, write_counts
from dspectral.datasets import low_rank_counts
from dspectral.engine import map_rows
from dspectral.linalg import sparse_products
from dspectral.store import CountStore

from .._form import form
from .._form.plots import COLOURS, new_plot

PROGRAMS = {
    "dspectral": """
import sys, numpy as np
from dspectral.decomposition.estimators import TruncatedSVD
from dspectral import open_store
store, out, k, passes, size = sys.argv[1], sys.argv[3], *map(int, sys.argv[4:7])
solver = "krylov" if passes > 1 else "frequent_directions"
model = TruncatedSVD(k, solver=solver, n_passes=passes, sketch_size=size * k)
np.save(out, model.fit(open_store(store)).components_)
""",
    "scikit-learn": """
import sys, numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
matrix, out, k, n_iter = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
rows = sparse.load_npz(matrix)
np.save(out, TruncatedSVD(k, n_iter=n_iter, random_state=0).fit(rows).components_)
""",
    "gensim": """
import sys, numpy as np
from gensim.models import LsiModel
from gensim.utils import FakeDict
from scipy import sparse
matrix, out, k, chunk = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
columns = sparse.load_npz(matrix).T.tocsc()
model = LsiModel(num_topics=k, chunksize=chunk, dtype=np.float32, id2word=FakeDict(columns.shape[0]))
for start in range(0, columns.shape[1], chunk):
    model.add_documents(columns[:, start:start + chunk])
np.save(out, model.projection.u[:, :k].T)
""",
}
MEASURE = """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
peak = used.ru_maxrss * 1024
try:  # what getrusage says begins with the parent's memory
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024
except OSError:
    pass
print(used.ru_utime + used.ru_stime, peak)
"""
ENTRIES = (
    ("dspectral", {"n_passes": 1, "sketch_size_over_k": 2}),
    ("dspectral", {"n_passes": 2, "sketch_size_over_k": 2}),
    ("dspectral", {"n_passes": 3, "sketch_size_over_k": 2}),
    ("dspectral", {"n_passes": 5, "sketch_size_over_k": 2}),
    ("dspectral", {"n_passes": 4, "sketch_size_over_k": 3}),
    ("scikit-learn", {"n_iter": 2}),
    ("scikit-learn", {"n_iter": 5}),
    ("scikit-learn", {"n_iter": 10}),
    ("gensim", {"chunksize": 20_000}),
)


def main(argv: list[str] | None = None) -> None:
    """Generate, race, compare."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, tempfile.TemporaryDirectory(prefix="dspectral-") as scratch:
        with run.measure("generate the matrix"):
            store = prepared(arguments, Path(scratch))
        run.note(f"{store.n_rows} x {store.n_columns}, {store.nnz} entries, {len(store.blocks)} blocks")
        with run.measure("optimal residual"):
            best = store.energy - optimal_energy(Path(scratch), arguments.n_components)
        for _ in range(arguments.repeats):
            for method, setting in ENTRIES:
                enter(run, store, Path(scratch), method, setting, best)
        compare(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.lsi", __doc__)
    add = parser.add_argument
    add("--rows", type=form.positive, default=200_000, help="of the matrix")
    add("--columns", type=form.positive, default=50_000, help="of the matrix")
    add("--topics", type=form.positive, default=100, help="planted")
    add("--noise", type=float, default=0.3, help="share of words of no topic: more is harder")
    add("--row-length", type=form.positive, default=100, help="words of a row on average")
    add("--n-components", type=form.positive, default=100, help="k")
    add("--python", default=sys.executable, help="interpreter that runs the programs")
    add("--repeats", type=form.positive, default=1, help="of the race; each run is a row")
    return parser


def prepared(arguments: argparse.Namespace, scratch: Path) -> CountStore:
    """Write the store, and the same matrix for those who want it in memory."""
    counts = low_rank_counts(
        arguments.rows,
        arguments.columns,
        arguments.topics,
        row_length=arguments.row_length,
        noise=arguments.noise,
        block_rows=16_384,
        seed=arguments.seed,
    )
    write_counts(counts, str(scratch / "counts.zarr"))
    store = open_store(str(scratch / "counts.zarr"))
    sparse.save_npz(scratch / "counts.npz", sparse.csr_matrix(store.counts.compute()), compressed=False)
    return store


def optimal_energy(scratch: Path, k: int) -> float:
    """Return the energy of the best k components, by ARPACK in double precision."""
    rows = sparse.load_npz(scratch / "counts.npz").astype(np.float64)
    return math.fsum(svds(rows, k=k, return_singular_vectors=False, tol=1e-7) ** 2)


def enter(
    run: form.Run, store: CountStore, scratch: Path, method: str, setting: dict[str, int], best: float
) -> None:
    """Run one program in a process of its own and add its rows."""
    out = scratch / "components.npy"
    places = [str(scratch / "counts.zarr"), str(scratch / "counts.npz"), str(out)]
    numbers = [str(run.arguments.n_components), *map(str, setting.values())]
    program = [run.arguments.python, "-c", PROGRAMS[method] + MEASURE, *places, *numbers]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MALLOC_TRIM_THRESHOLD_": "65536",
        "DASK_SCHEDULER": "sync",
    }
    with run.measure(f"{method} {json.dumps(setting)}"):
        done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)  # noqa: S603  our own
    if done.returncode:
        run.note(f"{method} did not run: {done.stderr.strip().splitlines()[-1]}")
        return
    cpu_seconds, peak = map(float, done.stdout.split()[-2:])
    values = {
        "excess": residual(store, np.load(out)) / best - 1.0,
        "cpu_seconds": cpu_seconds,
        "peak_memory_bytes": peak,
    }
    for metric, value in values.items():
        run.row(data="topics", method=method, metric=metric, value=value, **setting)


def residual(store: CountStore, components: NDArray[Any]) -> float:
    """Return the energy outside the span of the components."""
    axes, _ = np.linalg.qr(components.T.astype(np.float64))
    inside = map_rows(
        store, lambda rows: sparse_products.times(rows, axes), n_columns=axes.shape[1], name="project"
    )
    return store.energy - float((inside**2).sum().compute())


def compare(run: form.Run) -> None:
    """Add ratios of CPU seconds at like accuracy, and a plot of excess against CPU seconds."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    settings = list(dict.fromkeys(name for _, setting in ENTRIES for name in setting))
    for row in run.report.rows:
        setting = ", ".join(f"{name} {row[name]}" for name in settings if name in row)
        found.setdefault((row["method"], setting), {}).setdefault(row["metric"], []).append(row["value"])
    middle = {who: {metric: float(np.median(v)) for metric, v in of.items()} for who, of in found.items()}
    for most, peer, goal in ((5e-4, "gensim", 0.5), (1e-4, "scikit-learn", 1.0)):
        within = {who: of for who, of in middle.items() if of["excess"] <= most}
        ours, theirs = (
            min((of["cpu_seconds"] for (m, _), of in within.items() if m == who), default=None)
            for who in ("dspectral", peer)
        )
        ratio = ours / theirs if ours and theirs else None
        run.row(
            data="topics",
            method="dspectral",
            metric=f"cpu_seconds_over_{peer}",
            value=ratio,
            excess=most,
            goal=goal,
        )
    figure, axes = new_plot("Truncated SVD", x="CPU seconds", y="excess over the optimal residual", log="xy")
    for (method, setting), of in middle.items():
        colour = COLOURS[list(PROGRAMS).index(method)]
        axes.plot(of["cpu_seconds"], max(of["excess"], 1e-9), "o", color=colour)
        label = f"{method}, {setting}, {of['peak_memory_bytes'] / 1e9:.2f} GB"
        axes.annotate(
            label, (of["cpu_seconds"], max(of["excess"], 1e-9)), textcoords="offset points", xytext=(6, 4)
        )
    run.plot("race", figure, "Lower left is better; peak memory of the process beside each point.")


if __name__ == "__main__":
    main()
