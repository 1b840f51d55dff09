"""Hold plans against runs: memory and seconds that were planned, beside those that were measured.

Each configuration is planned by its short probe, and then run on worker processes of its own; data is generated. A
plan is right if the largest worker's memory is within 15 % and the wall time within 25 %. What else happens on the
machine may slow a run down that was planned a moment before. So a configuration is planned and run until two plans
were right or two were not, three times at most, all in new processes: those two decide, and each is told. With
`--random N` configurations of random method, size and memory limit are drawn instead: one that is admitted must end,
one that is not must say so.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import dspectral

from .._form import form
from .._form.schedulers import scheduler, worker_settings
from .._form.usage import Meter
from .._parts.planned_configurations import CONFIGURATIONS, UNSEEN, drawn, prepared

MEMORY, SECONDS = 0.15, 0.25
"""Largest shares by which a plan may be off."""
AGREE = 2
"""Plans of a configuration that decide: as many were right, or as many were not."""
MOST_SECONDS = 300
"""After which a run that was admitted counts as one that waits for ever."""


def main(argv: list[str] | None = None) -> None:
    """Plan and run each configuration."""
    parser = options()
    arguments = parser.parse_args(argv)
    if arguments.one:
        one(arguments)
        return
    with ExitStack() as stack:
        run = stack.enter_context(form.run(arguments))
        scratch = arguments.scratch or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="dspectral-"))
        )
        if arguments.random:
            random_configurations(run, scratch)
        else:
            known_configurations(run, scratch)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.plan_accuracy", __doc__)
    add = parser.add_argument
    names = sorted(CONFIGURATIONS)
    known = parser.add_mutually_exclusive_group()
    known.add_argument(
        "--configurations",
        nargs="+",
        choices=names,
        default=names,
        metavar="NAME",
        help="of " + ", ".join(names),
    )
    known.add_argument(
        "--unseen",
        dest="configurations",
        action="store_const",
        const=list(UNSEEN),
        help=f"the {len(UNSEEN)} for which no law was changed: " + ", ".join(UNSEEN),
    )
    add("--random", type=form.positive, metavar="N", help="draw N configurations (default: those above)")
    add("--scratch", type=Path, metavar="DIR", help="folder for data, which is kept (default: a new one)")
    add("--prepare", action="store_true", help="only generate the data")
    add("--one", metavar="JSON", help="plan and run this configuration alone (default: none)")
    return parser


def known_configurations(run: form.Run, scratch: Path) -> None:
    """Plan and run the configurations asked for."""
    for name in run.arguments.configurations:
        with run.measure(f"data of {name}"):
            prepared(CONFIGURATIONS[name], scratch)
    if run.arguments.prepare:
        return
    right = plans = plans_right = 0
    for name in run.arguments.configurations:
        with run.measure(name):
            all_right = plans_of(name, scratch, run)
        right += sum(all_right) >= AGREE
        plans += len(all_right)
        plans_right += sum(all_right)
    n = len(run.arguments.configurations)
    run.answer(
        f"{right} of {n} configurations were planned right, and {plans_right} of {plans} single plans."
    )


def plans_of(name: str, scratch: Path, run: form.Run) -> list[bool]:
    """Plan and run a configuration until enough plans agree; return whether each was right."""
    all_right: list[bool] = []
    while max(sum(all_right), len(all_right) - sum(all_right)) < AGREE:
        found = in_a_process({"name": name, **CONFIGURATIONS[name]}, scratch, run.arguments)
        number = len(all_right) + 1
        if found.get("error"):
            run.note(f"{name}, {number}: {found['error']}")
            all_right.append(False)
            continue
        all_right.append(is_right(name, number, found, run))
    return all_right


def is_right(name: str, number: int, found: dict[str, Any], run: form.Run) -> bool:
    """Report a plan and its run; return whether the plan was right."""
    workers = found["workers"]
    off = {what: found["planned"][what] / found["measured"][what] - 1 for what in ("memory", "seconds")}
    for what, value in off.items():
        for which in ("planned", "measured"):
            metric = "peak_memory_bytes" if what == "memory" else "seconds"
            run.row(
                data=name,
                method=which,
                metric=metric,
                value=found[which][what],
                workers=workers,
                repetition=number,
            )
        run.row(
            data=name,
            method="off by",
            metric=f"share_of_{what}",
            value=value,
            workers=workers,
            repetition=number,
        )
    right = abs(off["memory"]) <= MEMORY and abs(off["seconds"]) <= SECONDS
    run.note(
        f"{name}, {number}: memory {off['memory']:+.1%}, seconds {off['seconds']:+.1%} of "
        f"{found['measured']['seconds']:.1f}, probe {found['probe_seconds']:.1f} s; {'right' if right else 'OFF'}"
    )
    run.detail(
        data=name, method="plan", metric="json", value=json.dumps(found), workers=workers, repetition=number
    )
    return right


def random_configurations(run: form.Run, scratch: Path) -> None:
    """Draw configurations and limits; run what is admitted."""
    generator = np.random.default_rng(run.arguments.seed)
    ends: dict[str, int] = {}
    for number in range(run.arguments.random):
        asked = drawn(generator)
        prepared(asked, scratch)
        with run.measure(f"random {number}"):
            found = in_a_process({"name": f"random-{number}", **asked}, scratch, run.arguments)
        ends[found["end"]] = ends.get(found["end"], 0) + 1
        said = {key: value for key, value in asked.items() if key not in ("data", "data_size")}
        run.row(
            data=f"{number}: {asked['method']}",
            method=asked["memory_limit"],
            metric="end",
            value=found["end"],
            workers=asked["workers"],
            planned=found.get("planned", {}).get("memory"),
            measured=found.get("measured", {}).get("memory"),
            size=json.dumps(asked["settings"]),
        )
        run.note(f"{number}: {json.dumps(said)}: {found['end']} {found.get('error', '')}")
    run.answer(", ".join(f"{count} {end}" for end, count in sorted(ends.items())) + ".")


def in_a_process(asked: dict[str, Any], scratch: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Plan and run one configuration in a process of its own, which has nothing else in memory."""
    command = [sys.executable, "-m", __spec__.name, "--one", json.dumps(asked), "--scratch", str(scratch)]
    command += ["--seed", str(arguments.seed)]
    try:
        done = subprocess.run(  # noqa: S603  this interpreter
            command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"end": "waited for ever", "error": f"no end after {MOST_SECONDS} s"}
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not answers:
        return {"end": "died", "error": done.stderr[-300:]}
    return json.loads(answers[-1])  # type: ignore[no-any-return]


def one(arguments: argparse.Namespace) -> None:
    """Plan and run one configuration, and print what was planned and measured as JSON."""
    asked = json.loads(arguments.one)
    what, given, keywords = prepared(asked, arguments.scratch)()
    limit = asked.get("memory_limit", "0")
    with worker_settings(limit):
        plan = dspectral.plan(what, *given, workers=asked["workers"], memory_limit=limit, **keywords)
    found: dict[str, Any] = {
        "workers": asked["workers"],
        "planned": {"memory": plan.worker_memory, "seconds": plan.seconds, "client": plan.client_memory},
        "probe_seconds": plan.probe_seconds,
        "plan": plan.as_dict(),
        "refusal": plan.refusal,
    }
    if plan.refusal:
        found |= {"end": "refused", "error": plan.refusal}
    else:
        found |= measured(what, given, keywords, asked["workers"], limit)
    print(json.dumps(found))


def measured(what: Any, given: Any, keywords: Any, workers: int, limit: str) -> dict[str, Any]:
    """Run on new workers; return their memory and the time."""
    how = argparse.Namespace(scheduler=None, workers=workers, memory_limit=limit, debug=False)
    with scheduler(how) as client:
        meter = Meter(client)
        try:
            with meter.measure() as used:
                began = time.perf_counter()
                (what.fit if hasattr(what, "fit") else what)(*given, **keywords)
                seconds = time.perf_counter() - began
        except Exception as error:  # noqa: BLE001  what a run ends in is what is measured
            return {"end": type(error).__name__, "error": str(error)}
    peaks = [peak for name, peak in used.peaks.items() if name != "this process"]
    client_peak = used.peaks["this process"]
    end = "done" if not used.workers_lost else "lost a worker"
    return {"end": end, "measured": {"memory": max(peaks), "seconds": seconds, "client": client_peak}}


if __name__ == "__main__":
    main()
