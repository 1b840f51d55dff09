"""Scheduler plugin: processes the events of fits, counts their tasks, and serves the page."""

import time
from functools import partial
from importlib import import_module

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import TaskGroup
from tornado.ioloop import IOLoop, PeriodicCallback

from dspectral.engine.around.events import TOPIC
from dspectral.engine.around.progress import DONE_STATES
from dspectral.watch.history import FitHistory

NAME = "dspectral-dashboard"
"""Name of the plugin."""
PATH = "/spectral"
"""Path of the page."""
UPDATE_SECONDS = 0.5
"""Seconds between two counts of the tasks of running passes."""


class SpectralPlugin(SchedulerPlugin):
    """Hold the state of fits, from their events and the task counters of the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.name = NAME
        self.record = FitHistory()
        self._scheduler = scheduler
        for received, message in scheduler.get_events(TOPIC):
            self.record.on_message(message, received)

    def log_event(self, topic: str, msg: object) -> None:
        """Process a message of the event log."""
        if topic == TOPIC:
            self.record.on_message(msg, time.time())

    def remove_worker(self, *_args: Scheduler | str, **_facts: str) -> None:
        """Count a lost worker."""
        self.record.on_worker_left()

    def remove_client(self, *_args: Scheduler | str, **_facts: Scheduler | str) -> None:
        """Mark running fits as ended when the last client disconnects."""
        if not any(name != "fire-and-forget" for name in self._scheduler.clients):
            self.record.on_client_left(time.time())

    def update_counts(self) -> None:
        """Count the tasks of running passes, and the bytes of the workers."""
        now, workers = time.time(), self._scheduler.workers.values()
        n_bytes = sum(int(worker.memory.process) for worker in workers)
        limit = sum(int(worker.memory_limit or 0) for worker in workers)
        for root, pass_state in self.record.get_running_passes():
            groups = (pass_state.started.block_group, *pass_state.started.merge_groups) if pass_state.started else ()
            pass_state.count([_count_done(self._scheduler.task_groups.get(name)) for name in groups], now)
            root.memory = n_bytes, limit
            if rate := pass_state.get_rate():
                root.rates.append((now, rate))


def _count_done(group: TaskGroup | None) -> int | None:
    return None if group is None else sum(group.states.get(state, 0) for state in DONE_STATES)


def install(dask_scheduler: Scheduler) -> str:
    """Add the page to a scheduler; return why it cannot, or an empty text. This function runs on the scheduler."""
    if NAME in dask_scheduler.plugins:
        return ""
    pages = getattr(getattr(dask_scheduler, "http_application", None), "applications", [])
    dashboard = next((app for app in pages if "/status" in getattr(app, "app_paths", ())), None)
    if dashboard is None:
        return "the scheduler has no dashboard: install Bokeh there, or start it with a dashboard address"
    try:
        # Imported here, because Bokeh is optional.
        page = import_module("dspectral.dashboard.page")
        core = import_module("distributed.dashboard.core")
        scheduler_pages = import_module("distributed.dashboard.scheduler")
    except ImportError as error:
        return f"the scheduler cannot import the page: {error}"
    plugin = SpectralPlugin(dask_scheduler)
    variables = scheduler_pages.template_variables(dask_scheduler)
    if PATH.strip("/") not in variables["pages"]:
        # All pages share this list of links.
        variables["pages"].insert(-1, PATH.strip("/"))
    show = partial(page.fill_document, plugin.record)
    app = core.BokehApplication({PATH: show}, dask_scheduler, dashboard.prefix, variables)
    dask_scheduler.http_application.add_application(app)
    app.initialize(IOLoop.current())
    app.start()
    dask_scheduler.add_plugin(plugin, name=NAME)
    callback = PeriodicCallback(plugin.update_counts, UPDATE_SECONDS * 1000)
    dask_scheduler.periodic_callbacks[NAME] = callback
    callback.start()
    return ""
