"""How much results differ between kinds of machines: every estimator under other kernels of BLAS and loops of Numba.

``python -m tools.kinds`` fits all estimators of ``tests/contracts.py``, and larger decompositions, in one process for
each kind, and prints the largest difference of their results from those of this machine, as a table in Markdown.
"""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
from scipy import sparse

KINDS = {
    "this machine": {},
    "Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "generic loops": {"NUMBA_CPU_NAME": "generic"},
}
"""Environment of each kind."""


def results() -> dict[str, list[Any]]:
    """Return what each estimator gives, as plain lists."""
    import dspectral  # noqa: PLC0415  BLAS reads its environment when it is loaded
    from dspectral.datasets import low_rank_counts  # noqa: PLC0415
    from tests.contracts import CASES  # noqa: PLC0415

    found = {}
    for name, case in CASES.items():
        X, y = case.data()
        model = case.make().fit(X) if y is None else case.make().fit(X, y)
        found[name] = flat(case.result(model, X))
    rows = low_rank_counts(5000, 500, 20, block_rows=500, seed=0)
    for solver in ("frequent_directions", "gram", "krylov"):
        model = dspectral.SketchedPCA(20, solver=solver).fit(rows)
        found[f"SketchedPCA, {solver}, 5,000 x 500: singular values"] = flat(model.singular_values_)
        found[f"SketchedPCA, {solver}, 5,000 x 500: components"] = flat(model.components_)
    return found


def flat(result: Any) -> list[Any]:
    """Return numbers or labels as one list."""
    if sparse.issparse(result):
        result = result.tocsr().data
    if isinstance(result, list | tuple):
        return [one for part in result for one in flat(part)]
    return np.asarray(result).ravel().tolist()


def difference(here: list[Any], there: list[Any]) -> str:
    """Return the largest difference in parts of the largest magnitude; of labels, how many differ."""
    if any(isinstance(one, str | bool) for one in here):
        n_other = sum(one != other for one, other in zip(here, there, strict=True))
        return f"{n_other} of {len(here)} labels" if n_other else "none"
    a, b = np.asarray(here), np.asarray(there)
    largest = float(np.abs(a - b).max(initial=0.0)) / (float(np.abs(a).max(initial=0.0)) or 1.0)
    return f"{largest:.1e}" if largest else "none"


def main() -> None:
    """Print the table."""
    if sys.argv[1:] == ["results"]:
        print(json.dumps(results()))
        return
    found = {}
    for kind, environment in KINDS.items():
        command = [sys.executable, "-W", "ignore", "-m", "tools.kinds", "results"]
        done = subprocess.run(command, env=os.environ | environment, check=True, capture_output=True, text=True)
        found[kind] = json.loads(done.stdout.splitlines()[-1])
    here = found.pop("this machine")
    print(f"| estimator | {' | '.join(found)} |\n|---|{'---|' * len(found)}")
    for name, result in here.items():
        cells = (difference(result, there[name]) for there in found.values())
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
