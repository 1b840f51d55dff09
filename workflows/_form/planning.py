"""``--plan``: the first fit or build of a program is planned, and nothing is run."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import dask

from dspectral.engine import RunPlan, only_planned, plan

from .messages import in_options
from .report import plain
from .schedulers import scheduler, worker_settings

FILE = "plan.json"


class Planned(Exception):  # noqa: N818  no error: it ends a program that is only planned
    """Holds the plan of the first fit or build: what follows needs its result."""


@contextmanager
def planned(arguments: argparse.Namespace) -> Iterator[None]:
    """Plan the first fit or build of the body, print the plan, and write it to ``plan.json``."""

    def planner(function: Callable[..., Any], *given: Any, **keywords: Any) -> NoReturn:
        owner = given[0] if given and hasattr(given[0], "fit") else None
        what = function if owner is None else getattr(owner, function.__name__)
        rest = given if owner is None else given[1:]
        limit = arguments.memory_limit if arguments.workers else None
        raise Planned(plan(what, *rest, workers=arguments.workers, memory_limit=limit, **keywords))

    # Workers are only asked where they are there already: none is started for a plan.
    where = scheduler(arguments) if arguments.scheduler else worker_settings(arguments.memory_limit)
    settings = {} if arguments.scheduler else {"scheduler": "threads"}
    try:
        with where, dask.config.set(settings), only_planned(planner):
            yield
    except Planned as found:
        _show(found.args[0], arguments)
    else:
        print("there is nothing to plan: the program fits and builds nothing from its data")


def _show(found: RunPlan, arguments: argparse.Namespace) -> None:
    print(found)
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps(plain([found.as_dict()]), indent=2, allow_nan=False)
    (arguments.out / FILE).write_text(content + "\n", encoding="utf-8")
    print(f"plan: {arguments.out / FILE}; nothing was run")
    if found.refusal:
        print(f"{arguments.prog}: error: {in_options(found.refusal, arguments.options)}", file=sys.stderr)
        raise SystemExit(2)
