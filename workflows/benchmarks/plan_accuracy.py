"""Hold plans against runs: memory and seconds that were planned, beside those that were measured.

Each configuration is planned by its short probe, and then run on worker processes of its own; data is generated. A
plan is right if the largest worker's memory is within 15 % and the wall time within 25 %. A machine with neighbors
changes its speed within minutes. So each run lies between two plans, all in new processes: it is held against
their mean, and counts for nothing where the plans themselves are further apart than 25 %. This is repeated until two
runs were planned right or two were not, five times at most: those two decide, and each is told. With
`--random N` configurations of random method, size and memory limit are drawn instead: one that is admitted must end,
one that is not must say so.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
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
"""Runs of a configuration that decide: as many were planned right, or as many were not."""
TRIES = 5
"""Runs of a configuration, at most; where they do not decide, it was not planned right."""
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
    run.answer(f"{right} of {n} configurations were planned right, and {plans_right} of {plans} runs.")


def plans_of(name: str, scratch: Path, run: form.Run) -> list[bool]:
    """Plan and run a configuration in turn until enough runs agree; return whether each was planned right."""

    def done(step: str) -> dict[str, Any]:
        found = in_a_process({"name": name, **CONFIGURATIONS[name], "step": step}, scratch, run.arguments)
        if found.get("error"):
            run.note(f"{name}: {found['error']}")
        return found

    all_right: list[bool] = []
    before = done("plan")
    for number in range(1, TRIES + 1):
        measured, after = done("run"), done("plan")
        if all("error" not in one for one in (before, measured, after)):
            right = is_right(name, number, (before, after), measured, run)
            all_right += [] if right is None else [right]
        else:
            all_right.append(False)
        if max(sum(all_right), len(all_right) - sum(all_right)) == AGREE:
            break
        before = after
    return all_right


def is_right(
    name: str, number: int, plans: Sequence[dict[str, Any]], found: dict[str, Any], run: form.Run
) -> bool | None:
    """Report a run and the plans before and after it; return whether it was planned right, if that is known."""
    workers, measured = found["workers"], found["measured"]
    planned = {what: fmean(plan["planned"][what] for plan in plans) for what in ("memory", "seconds")}
    apart = plans[1]["planned"]["seconds"] / plans[0]["planned"]["seconds"] - 1
    off = {what: planned[what] / measured[what] - 1 for what in planned}
    for what, value in off.items():
        metric = "peak_memory_bytes" if what == "memory" else "seconds"
        rows = [("planned before", metric, plans[0]["planned"][what])]
        rows += [("planned after", metric, plans[1]["planned"][what]), ("measured", metric, measured[what])]
        for method, of, number_ in [*rows, ("off by", f"share_of_{what}", value)]:
            run.row(data=name, method=method, metric=of, value=number_, workers=workers, repetition=number)
    right = abs(off["memory"]) <= MEMORY and abs(off["seconds"]) <= SECONDS
    known = abs(apart) <= SECONDS
    run.note(
        f"{name}, {number}: memory {off['memory']:+.1%}, seconds {off['seconds']:+.1%} of {measured['seconds']:.1f}, "
        f"the second plan {apart:+.1%} of the first; "
        + (("right" if right else "OFF") if known else "the machine has changed meanwhile")
    )
    content = json.dumps({"before": plans[0], "run": found, "after": plans[1]})
    run.detail(data=name, method="plan", metric="json", value=content, workers=workers, repetition=number)
    return right if known else None


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
    """Plan and run one configuration, or do one of these, and print what was planned and measured as JSON."""
    asked = json.loads(arguments.one)
    what, given, keywords = prepared(asked, arguments.scratch)()
    limit, step = asked.get("memory_limit", "0"), asked.get("step")
    found: dict[str, Any] = {"workers": asked["workers"]}
    if step != "run":
        with worker_settings(limit):
            plan = dspectral.plan(what, *given, workers=asked["workers"], memory_limit=limit, **keywords)
        planned = {"memory": plan.worker_memory, "seconds": plan.seconds, "client": plan.client_memory}
        found |= {"planned": planned, "probe_seconds": plan.probe_seconds, "plan": plan.as_dict()}
        found |= {"end": "refused", "refusal": plan.refusal, "error": plan.refusal} if plan.refusal else {}
    if step != "plan" and "refusal" not in found:
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
