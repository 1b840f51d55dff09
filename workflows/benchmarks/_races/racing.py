"""What a race is, and how its contenders are compared: in turn, each in a process of its own, on one thread.

What else runs on a machine slows all who run in the same hour, so a ratio is taken within a repetition, and the median
of these ratios stands with its quartiles. Every other repetition runs in the reverse order.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[3]
ONE_THREAD = {
    **dict.fromkeys((f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")), "1"),
    "DASK_SCHEDULER": "sync",
    "MALLOC_TRIM_THRESHOLD_": "65536",  # memory that is free is given back, whoever freed it
    "PYTHONHASHSEED": "0",  # gensim's vectors start from it
}
"""Environment of every contender's process."""
Settings = Mapping[str, Any]
Found = dict[str, np.ndarray]
"""What a contender found, in arrays by their names."""


class Contender(NamedTuple):
    """One way to do what a race asks for.

    `prepare` makes the function that is measured of the module that its process imports, the folder of the data and
    the settings; `tell` makes arrays of what that function returns, for the score.
    """

    module: str
    prepare: Callable[[ModuleType, Path, Settings], Callable[[], Any]]
    tell: Callable[[Any], Found] = dict


class Race(NamedTuple):
    """Contenders who do the same: their task in a sentence, settings of each size, and how they are scored."""

    task: str
    sizes: dict[str, dict[str, Any]]
    make: Callable[[Path, Settings], str]
    contenders: dict[str, Contender]
    accuracy: Callable[[Path, Settings, Found], dict[str, float]]


@dataclass
class Lane:
    """What one contender did in each repetition, and why it does not run, or runs no more."""

    runs: list[dict[str, float]] = field(default_factory=list)
    out: str = ""

    def of(self, metric: str) -> np.ndarray:
        """Return one metric of all repetitions."""
        return np.array([run[metric] for run in self.runs if metric in run])

    def middle(self, metric: str) -> float:
        """Return the median of a metric, NaN where no run has it."""
        return float(np.median(self.of(metric))) if len(self.of(metric)) else float("nan")


@dataclass(frozen=True)
class Course:
    """Where a race is run: folders and settings of practice and data, seconds and bytes for a contender (0: any)."""

    name: str
    race: Race
    stages: list[tuple[Path, dict[str, Any]]]
    limit: float
    data_limit: int = 0

    def run(self, contender: str) -> dict[str, float] | str:
        """Run one contender once; return what it took and found, or why it did not end."""
        folder, _ = self.stages[-1]
        out = folder / "found.npz"
        orders = {"stages": [(str(place), how) for place, how in self.stages], "out": str(out)}
        orders["data_limit"] = self.data_limit
        command = [sys.executable, "-m", f"{__package__}.contender", self.name, contender, json.dumps(orders)]
        try:
            done = subprocess.run(  # noqa: S603  our own
                command,
                capture_output=True,
                text=True,
                check=False,
                cwd=ROOT,
                env={**os.environ, **ONE_THREAD},
                timeout=self.limit,
            )
        except subprocess.TimeoutExpired:
            return f"stopped after {self.limit:g} s"
        if done.returncode:
            return " ".join((done.stderr.strip() or f"ended with code {done.returncode}").splitlines()[-1:])
        with np.load(out) as found:
            scores = self.race.accuracy(*self.stages[-1], dict(found))
        return {**json.loads(done.stdout.splitlines()[-1]), **scores}


def hold(course: Course, n: int, step: Callable[[str, int], Any]) -> dict[str, Lane]:
    """Run all contenders of a race, in turn, forth and back; who is not installed is out."""
    packages = {name: of.module.partition(".")[0] for name, of in course.race.contenders.items()}
    lanes = {
        name: Lane(out="" if find_spec(package) else f"{package} is not installed")
        for name, package in packages.items()
    }
    for repetition in range(n):
        for name in list(lanes) if repetition % 2 == 0 else list(reversed(lanes)):
            lane = lanes[name]
            if lane.out:
                continue
            with step(name, repetition):
                took = course.run(name)
            # As they come: a run of hours that is cut off has said what it found.
            if isinstance(took, str):
                lane.out = took  # it would not end the next time either
                print(f"{course.name}, {name}: {took}", flush=True)
            else:
                lane.runs.append({**took, "repetition": repetition})
                figures = ", ".join(f"{metric} {value:.4g}" for metric, value in took.items())
                print(f"{course.name}, {name}: {figures}", flush=True)
    return lanes


def ratios(lane: Lane, first: Lane) -> np.ndarray:
    """Return quartiles of CPU seconds over the first contender's, of the repetitions that both ended.

    >>> seconds = (2, 6, 4), (1, 2, 2)
    >>> runs = [[{"repetition": i, "cpu_seconds": own[i]} for i in range(3)] for own in seconds]
    >>> ratios(Lane(runs[0]), Lane(runs[1])).tolist()
    [2.0, 2.0, 2.5]
    """
    ours = {run["repetition"]: run["cpu_seconds"] for run in first.runs}
    found = [run["cpu_seconds"] / max(ours[run["repetition"]], 1e-9) for run in lane.runs if run["repetition"] in ours]
    return np.quantile(found, [0.25, 0.5, 0.75]) if found else np.full(3, np.nan)
