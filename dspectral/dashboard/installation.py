"""How the page gets to a scheduler: from a client, or with the scheduler's own start."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import dask

from dspectral.engine.around.cluster import query
from dspectral.engine.around.context import current_client

if TYPE_CHECKING:
    from distributed import Client, Scheduler, Worker

_FAILURES = (ImportError, AttributeError, TypeError, ValueError, OSError, RuntimeError, TimeoutError)
"""Errors that come from a scheduler without this module, of another version, or which takes no functions."""


def show_dashboard(client: "Client | None" = None) -> str | None:
    """Add a page about fits to the dashboard of a cluster, and let fits of this process tell it what they do.

    Parameters
    ----------
    client : distributed.Client, optional
        Client of the cluster; by default the one in force.

    Returns
    -------
    str or None
        Link to the page ``/spectral``; None, after a warning that says why, if the scheduler cannot show it.

    Raises
    ------
    ValueError
        If no client is given or in force, or if it is asynchronous.

    Notes
    -----
    This sets ``dspectral.dashboard`` in Dask's configuration of this process; others whose fits the page is to show
    need ``DASK_DSPECTRAL__DASHBOARD=true`` in their environment.

    Examples
    --------
    >>> from distributed import Client
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:  # doctest: +SKIP
    ...     print(show_dashboard(client))
    http://127.0.0.1:41907/spectral
    """
    asked: Any = current_client() if client is None else client
    if asked is None:
        raise ValueError("client is None, and no client is in force: make one by distributed.Client()")
    if asked.asynchronous:
        raise ValueError(
            "client is asynchronous, but show_dashboard waits for the scheduler: give another one"
        )
    link, problem = add_page(asked)
    if problem:
        warnings.warn(f"no page about fits: {problem}", stacklevel=2)
        return None
    dask.config.set({"dspectral.dashboard": True})
    return link


def add_page(client: "Client") -> tuple[str, str]:
    """Add the page to the dashboard of a client's scheduler, and change nothing else.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.

    Returns
    -------
    link : str
        Link to the page, or an empty string.
    problem : str
        Why there is none, in a sentence, or an empty string.
    """
    plugin = _plugin()
    try:
        problem = query(client, client.run_on_scheduler, plugin.install)
        link = str(client.dashboard_link or "")
    except _FAILURES as error:
        kind = "has no dspectral, or another version" if isinstance(error, ImportError) else "did not take it"
        return "", f"the scheduler {kind} ({type(error).__name__}: {error})"
    return ("", problem) if problem else (link.rpartition("/")[0] + plugin.PATH, "")


def dask_setup(server: "Scheduler | Worker") -> None:
    """Add the page to a scheduler that starts with ``--preload dspectral.dashboard``.

    Parameters
    ----------
    server : distributed.Scheduler or distributed.Worker
        The scheduler. On a worker, which has no such page, a warning says so.
    """
    is_scheduler = hasattr(server, "task_groups")
    problem = "dspectral.dashboard is for schedulers, not for workers"
    if is_scheduler:
        plugin = _plugin()
        problem = plugin.install(server)
    if problem:
        warnings.warn(f"no page about fits: {problem}", stacklevel=2)


def _plugin() -> Any:
    """Import the plugin when it is asked for: distributed changes Dask's configuration when it is imported."""
    return import_module("dspectral.dashboard.plugin")
