"""``--plan``: fits and builds of a program are planned and not run."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask

from dspectral.engine import OnlyPlannedError, RunPlan, not_planned, only_planned, plan, sample_of

from .messages import in_options
from .report import plain
from .schedulers import scheduler, worker_settings
from .table import print_table

FILE = "plan.json"


class Planner:
    """Plans each fit in its place, and fits a few blocks instead, so that the next one can be planned.

    `plans`: what was planned.
    """

    def __init__(self, workers: int | None, memory_limit: str | None) -> None:
        self._settings = {"workers": workers, "memory_limit": memory_limit}
        self.plans: list[RunPlan] = []

    @property
    def has_planned(self) -> bool:
        """Whether the program has come to its first fit: what it reads from then on is left undone."""
        return bool(self.plans)

    def __call__(self, function: Callable[..., Any], *given: Any, **keywords: Any) -> object:
        """Plan a fit or a build, and return what takes the place of its result."""
        owner = given[0] if given and hasattr(given[0], "fit") else None
        of = function if owner is None else getattr(owner, function.__name__)
        rest = given if owner is None else given[1:]
        with not_planned():
            self.plans.append(plan(of, *rest, **self._settings, **keywords))
            if owner is None or self.plans[-1].refusal:
                # What reads the store that was not built cannot be planned.
                raise OnlyPlannedError
            arguments, named = sample_of(rest, keywords)
            return of(*arguments, **named)


@contextmanager
def planned(arguments: argparse.Namespace) -> Iterator[None]:
    """Plan the fits and builds of the body, print the plans, and write them to ``plan.json``."""
    planner = Planner(arguments.workers, arguments.memory_limit if arguments.workers else None)
    # Workers are only started where they are there already: a plan is made by processes of its own.
    where = scheduler(arguments) if arguments.scheduler else worker_settings(arguments.memory_limit)
    with (
        where,
        dask.config.set({} if arguments.scheduler else {"scheduler": "threads"}),
        only_planned(planner),
    ):
        try:
            yield
        except OnlyPlannedError:
            pass
        except (ValueError, OSError):
            # What follows a fit of a few blocks may refuse what came of it; an error before any fit is one.
            if not planner.plans:
                raise
    _show(planner.plans, arguments)


def _show(plans: list[RunPlan], arguments: argparse.Namespace) -> None:
    if not plans:
        print("there is nothing to plan: the program fits and builds nothing from its data")
        return
    for one in plans:
        print(f"\n{one.headline}")
        print_table(one.rows())
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps(plain([one.as_dict() for one in plans]), indent=2, allow_nan=False)
    (arguments.out / FILE).write_text(content + "\n", encoding="utf-8")
    print(f"\nplan: {arguments.out / FILE}; nothing was run")
    refused = [one.refusal for one in plans if one.refusal]
    if refused:
        print(f"{arguments.prog}: error: {in_options(refused[0], arguments.options)}", file=sys.stderr)
        raise SystemExit(2)
