"""Race truncated SVD out of core against gensim's LsiModel and scikit-learn's TruncatedSVD in memory.

A topic-model matrix is generated into a store. Each program then runs in a process of its own: dspectral from
the store on disk (one pass is Frequent Directions with twice as many rows as components, or the Nystrom sketch
with three times as many columns), the others from the same matrix in memory, in single precision; each on one
thread. Compared are CPU seconds and peak memory of the
whole process, and the excess: how far the residual is above that of the optimal components.

Where pandas is installed, scikit-learn imports it, and its 60 MB count for whoever imports scikit-learn:
``--python`` names the interpreter of an environment that holds dspectral and gensim alone.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from .._form import form
from .._form.plots import COLOURS, new_plot
from ._races.matrices import energy_lost, make_topics
from ._races.racing import ONE_THREAD, ROOT

PROGRAMS = {
    "dspectral": """
import sys, numpy as np
from dspectral.decomposition.estimators import TruncatedSVD
from dspectral import open_store
store, out, k, passes, size = sys.argv[1], sys.argv[3], *map(int, sys.argv[4:7])
solver = "krylov" if passes > 1 else "frequent_directions" if size == 2 else "nystrom"
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
import time
from workflows._form.resident import peak_bytes
print(time.process_time(), peak_bytes())
"""
ENTRIES = (
    ("dspectral", {"n_passes": 1, "sketch_size_over_k": 2}),
    ("dspectral", {"n_passes": 1, "sketch_size_over_k": 3}),
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
    with form.run(arguments) as run, form.scratch_folder(None) as scratch:
        with run.measure("generate the matrix, and its best components"):
            asked = {"row_length": 100, "seed": arguments.seed, "k": arguments.n_components}
            sizes = {name: getattr(arguments, name) for name in ("rows", "columns", "topics")}
            run.note(make_topics(scratch, {**asked, **sizes}))
        for _ in range(arguments.repeats):
            for method, setting in ENTRIES:
                enter(run, scratch, method, setting)
        compare(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.lsi", __doc__)
    add = parser.add_argument
    add("--rows", type=form.positive, default=200_000, help="of the matrix")
    add("--columns", type=form.positive, default=50_000, help="of the matrix")
    add("--topics", type=form.positive, default=100, help="planted")
    add("--n-components", type=form.positive, default=100, help="k")
    add("--python", default=sys.executable, help="interpreter that runs the programs")
    add("--repeats", type=form.positive, default=1, help="of the race; each run is a row")
    return parser


def enter(run: form.Run, scratch: Path, method: str, setting: dict[str, int]) -> None:
    """Run one program in a process of its own and add its rows."""
    out = scratch / "components.npy"
    places = [str(scratch / "counts.zarr"), str(scratch / "counts.npz"), str(out)]
    numbers = [str(run.arguments.n_components), *map(str, setting.values())]
    program = [run.arguments.python, "-c", PROGRAMS[method] + MEASURE, *places, *numbers]
    environment = {**os.environ, **ONE_THREAD}
    with run.measure(f"{method} {json.dumps(setting)}"):
        done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)  # noqa: S603  our own
    if done.returncode:
        run.note(f"{method} did not run: {done.stderr.strip().splitlines()[-1]}")
        return
    cpu_seconds, peak = map(float, done.stdout.split()[-2:])
    values = {
        "excess": energy_lost(scratch, {}, {"components": np.load(out)})["excess"],
        "cpu_seconds": cpu_seconds,
        "peak_memory_bytes": peak,
    }
    run.rows(values, data="topics", method=method, **setting)


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
        values = {f"cpu_seconds_over_{peer}": ratio}
        run.rows(values, data="topics", method="dspectral", excess=most, goal=goal)
    figure, axes = new_plot("Truncated SVD", x="CPU seconds", y="excess over the optimal residual", log="xy")
    for (method, setting), of in middle.items():
        colour = COLOURS[list(PROGRAMS).index(method)]
        axes.plot(of["cpu_seconds"], max(of["excess"], 1e-9), "o", color=colour)
        label = f"{method}, {setting}, {of['peak_memory_bytes'] / 1e9:.2f} GB"
        axes.annotate(label, (of["cpu_seconds"], max(of["excess"], 1e-9)), textcoords="offset points", xytext=(6, 4))
    run.plot("race", figure, "Lower left is better; peak memory of the process beside each point.")


if __name__ == "__main__":
    main()
