"""A plugin on the scheduler hears the events of fits, counts their tasks, and owns the page."""

import math
import time
from functools import partial
from importlib import import_module

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import TaskGroup
from tornado.ioloop import IOLoop, PeriodicCallback

from dspectral.engine.around.events import TOPIC
from dspectral.engine.around.progress import DONE_STATES
from dspectral.watch.history import FitHistory, FitState, PassState, WorkerMemory

NAME = "dspectral-dashboard"
"""Name of the plugin on the scheduler."""
PATH = "/spectral"
"""Path of the page."""
INTERVAL = 0.5
"""Seconds between two looks at the tasks of the passes that run."""


class SpectralPlugin(SchedulerPlugin):
    """Keep what is known of fits; the scheduler's own task counters are read twice a second."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.name = NAME
        self.record = FitHistory()
        self._scheduler = scheduler
        self._interpreters: dict[str, int] = {}
        for at, message in scheduler.get_events(TOPIC):
            self.record.on_message(message, at)

    def log_event(self, topic: str, msg: object) -> None:
        """Hear a message that is written to the event log."""
        if topic == TOPIC:
            self.record.on_message(msg, time.time())

    def remove_worker(self, scheduler: Scheduler, worker: str, **_facts: str) -> None:  # noqa: ARG002
        """Count a worker that left."""
        self.record.on_worker_left(worker)
        self._interpreters.pop(worker, None)

    def remove_client(self, *_args: Scheduler | str, **_facts: Scheduler | str) -> None:
        """Let fits be over whose client is gone."""
        if not any(name != "fire-and-forget" for name in self._scheduler.clients):
            self.record.on_client_left(time.time())

    def update_counts(self) -> None:
        """Count the tasks of the passes that run, and measure the workers; nothing is done where no pass runs."""
        at = time.time()
        for root, one in self.record.get_running_passes():
            groups = (one.started.block_group, *one.started.merge_groups) if one.started else ()
            one.count([_count_done(self._scheduler.task_groups.get(name)) for name in groups], at)
            root.record_rate(one, at)
            self._measure_workers(root, one, at)

    def _measure_workers(self, root: FitState, one: PassState, at: float) -> None:
        workers = self._scheduler.workers
        memory = {address: int(state.memory.process) for address, state in workers.items()}
        # The law is for what comes on top of interpreters with their packages. Those are loaded by the first tasks, so
        # that an interpreter is known once its worker has merged: by the least that it needed since then.
        for address in self.record.merging & memory.keys():
            self._interpreters[address] = min(
                memory[address], self._interpreters.get(address, memory[address])
            )
        known = self._interpreters.keys() >= memory.keys()
        interpreters = sum(self._interpreters.values()) if known else None
        n_threads = self._scheduler.total_nthreads
        root.memory = WorkerMemory(
            sum(memory.values()), interpreters, one.memory_bound(n_threads, with_blocks=True)
        )
        memory_bound = one.memory_bound(n_threads, with_blocks=False)
        held = sum(int(state.nbytes) for state in workers.values())
        root.held.add(at, held, math.nan if memory_bound is None else memory_bound)


def _count_done(group: TaskGroup | None) -> int | None:
    return None if group is None else sum(group.states.get(state, 0) for state in DONE_STATES)


def install(dask_scheduler: Scheduler) -> str:
    """Add the page to a scheduler, on which this runs."""
    if NAME in dask_scheduler.plugins:
        return ""
    pages = getattr(getattr(dask_scheduler, "http_application", None), "applications", [])
    dashboard = next((app for app in pages if "/status" in getattr(app, "app_paths", ())), None)
    if dashboard is None:
        return "the scheduler has no dashboard: Bokeh is missing there, or the dashboard was turned off"
    try:
        # By name, for Bokeh need not be where no dashboard is.
        page = import_module("dspectral.dashboard.page")
        ours = import_module("distributed.dashboard.core")
        theirs = import_module("distributed.dashboard.scheduler")
    except ImportError as error:
        return f"the scheduler cannot show the page: {error}"
    plugin = SpectralPlugin(dask_scheduler)
    variables = theirs.template_variables(dask_scheduler)
    if PATH.strip("/") not in variables["pages"]:
        # All pages hold this very list, so that each of them has a link to ours.
        variables["pages"].insert(-1, PATH.strip("/"))
    show = partial(page.show, plugin.record)
    app = ours.BokehApplication({PATH: show}, dask_scheduler, dashboard.prefix, variables)
    dask_scheduler.http_application.add_application(app)
    app.initialize(IOLoop.current())
    app.start()
    dask_scheduler.add_plugin(plugin, name=NAME)
    looking = PeriodicCallback(plugin.update_counts, INTERVAL * 1000)
    dask_scheduler.periodic_callbacks[NAME] = looking
    looking.start()
    return ""
