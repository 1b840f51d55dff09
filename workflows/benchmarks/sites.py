"""Combine the summaries of three sites for many drawn matrices, and hold each certificate against the truth.

Sites have unequal sizes. A certificate holds where no squared singular value of all rows exceeds that of the model by
more than it, and the spectral norm of the error of the sketch is at most it.
"""

from pathlib import Path
from typing import Any

import numpy as np

import dspectral

from .._form import form

SOLVERS = ("gram", "frequent_directions", "nystrom")
N_COLUMNS, N_COMPONENTS, SKETCH_SIZE = 40, 5, 12


def main(argv: list[str] | None = None) -> None:
    """Make the table."""
    parser = form.parser("benchmarks.sites", __doc__, fits=False)
    parser.add_argument("--draws", type=form.positive, default=500, metavar="N", help="matrices")
    with form.run(parser.parse_args(argv)) as run, form.scratch_folder(None) as folder:
        for solver in SOLVERS:
            with run.measure(solver):
                ratios = [check_draw(folder, solver, seed) for seed in range(run.arguments.draws)]
            values = {"draws": len(ratios), "violations": sum(ratio > 1.0 for ratio in ratios)}
            run.rows({**values, "median_of_error_by_bound": float(np.median(ratios))}, data="drawn", method=solver)


def draw(seed: int) -> tuple[Any, list[int]]:
    """Return rows of a decaying, flat or shifted spectrum, and the bounds of three sites."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(150, 400))
    rows = rng.standard_normal((n, N_COLUMNS)) * np.arange(1.0, N_COLUMNS + 1) ** -rng.choice([0.0, 0.5, 1.5])
    rows = rows @ np.linalg.qr(rng.standard_normal((N_COLUMNS, N_COLUMNS)))[0] + rng.choice([0.0, 3.0])
    rows[n // 2 :] *= rng.choice([1.0, 5.0])  # sites differ
    return rows, [0, *sorted(rng.choice(np.arange(30, n - 30), 2, replace=False).tolist()), n]


def check_draw(folder: Path, solver: str, seed: int) -> float:
    """Return the largest error of a squared singular value, divided by its bound, with rounding in it."""
    rows, bounds = draw(seed)
    center = bool(seed % 2)
    kind = dspectral.SketchedPCA if center else dspectral.TruncatedSVD
    model = kind(N_COMPONENTS, solver=solver, sketch_size=SKETCH_SIZE, random_state=seed)
    paths = [folder / f"{number}.summary" for number in range(3)]
    for path, start, end in zip(paths, bounds[:-1], bounds[1:], strict=True):
        dspectral.write_summary(rows[start:end], path, model)
    combined = dspectral.combine(paths)
    exact = np.linalg.svd(rows - center * rows.mean(axis=0), compute_uv=False) ** 2
    errors = exact[:N_COMPONENTS] - combined.singular_values_**2
    rounding = 1e-12 * exact.sum()
    if errors.min() < -rounding:
        return float("inf")
    return float(errors.max() / (combined.certificate_.absolute + rounding))


if __name__ == "__main__":
    main()
