"""Scheduler plugin: processes the messages of fits, and serves the page."""

from functools import partial
from importlib import import_module
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.ioloop import IOLoop

from dspectral.engine.around.callbacks import HOOKS, TOPIC
from dspectral.watch.history import FitHistory

NAME = "dspectral-dashboard"
"""Name of the plugin."""
PATH = "/spectral"
"""Path of the page."""
KINDS = {kind.__name__: kind for kind in HOOKS}


class SpectralPlugin(SchedulerPlugin):
    """Hold the state of fits, from the messages of their clients."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.name = NAME
        self.history = FitHistory()
        self._scheduler = scheduler

    def log_event(self, topic: str, msg: Any) -> None:
        """Call the hook of a message of the event log."""
        if topic == TOPIC:
            kind: Any = KINDS[msg["event"]]
            getattr(self.history, HOOKS[kind])(kind(*(msg[field] for field in kind._fields)))

    def remove_client(self, *_args: Scheduler | str, **_facts: Scheduler | str) -> None:
        """Mark running fits as ended when the last client disconnects."""
        if not any(name != "fire-and-forget" for name in self._scheduler.clients):
            self.history.end_all()


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
    show = partial(page.fill_document, plugin.history)
    app = core.BokehApplication({PATH: show}, dask_scheduler, dashboard.prefix, variables)
    dask_scheduler.http_application.add_application(app)
    app.initialize(IOLoop.current())
    app.start()
    dask_scheduler.add_plugin(plugin, name=NAME)
    return ""
