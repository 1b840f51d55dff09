"""Add the page to a scheduler, from a client or at the start of the scheduler."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import dask

from dspectral.engine.around.cluster import query
from dspectral.engine.around.context import current_client

if TYPE_CHECKING:
    from distributed import Client, Scheduler, Worker

_FAILURES = (ImportError, AttributeError, TypeError, ValueError, OSError, RuntimeError, TimeoutError)
"""Errors from a scheduler without this module, with another version of it, or which accepts no functions."""


def show_dashboard(client: "Client | None" = None) -> str | None:
    """Add a page about fits to the dashboard of a cluster, and make fits of this process send events to it.

    Parameters
    ----------
    client : distributed.Client, optional
        Client of the cluster; by default Dask's current client.

    Returns
    -------
    str or None
        Link to the page ``/spectral``; None, after a warning, if the scheduler cannot show it.

    Raises
    ------
    ValueError
        If there is no client, or if it is asynchronous.

    Notes
    -----
    This sets ``dspectral.dashboard`` in Dask's configuration of this process. Other processes need
    ``DASK_DSPECTRAL__DASHBOARD=true`` in their environment to show their fits.

    Examples
    --------
    >>> from distributed import Client
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:  # doctest: +SKIP
    ...     print(show_dashboard(client))
    http://127.0.0.1:41907/spectral
    """
    target: Any = current_client() if client is None else client
    if target is None:
        raise ValueError("client=None, but there is no current client: create one by distributed.Client()")
    if target.asynchronous:
        raise ValueError(
            "client is asynchronous, but show_dashboard waits for the scheduler: pass a synchronous client"
        )
    link, problem = add_page(target)
    if problem:
        warnings.warn(f"the dashboard has no page about fits: {problem}", stacklevel=2)
        return None
    dask.config.set({"dspectral.dashboard": True})
    return link


def add_page(client: "Client") -> tuple[str, str]:
    """Add the page to the dashboard of a client's scheduler, without changing the configuration.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.

    Returns
    -------
    link : str
        Link to the page, or an empty string.
    problem : str
        Why there is no page, or an empty string.
    """
    plugin = _import_plugin()
    try:
        problem = query(client, client.run_on_scheduler, plugin.install)
        link = str(client.dashboard_link or "")
    except _FAILURES as error:
        kind = "lacks dspectral or has another version" if isinstance(error, ImportError) else "did not accept it"
        return "", f"the scheduler {kind} ({type(error).__name__}: {error})"
    return ("", problem) if problem else (link.rpartition("/")[0] + plugin.PATH, "")


def dask_setup(server: "Scheduler | Worker") -> None:
    """Add the page to a scheduler that starts with ``--preload dspectral.dashboard``.

    Parameters
    ----------
    server : distributed.Scheduler or distributed.Worker
        The scheduler. On a worker this only warns.
    """
    is_scheduler = hasattr(server, "task_groups")
    problem = "dspectral.dashboard is for schedulers, not for workers"
    if is_scheduler:
        plugin = _import_plugin()
        problem = plugin.install(server)
    if problem:
        warnings.warn(f"the dashboard has no page about fits: {problem}", stacklevel=2)


def _import_plugin() -> Any:
    """Import the plugin lazily, because importing distributed changes Dask's configuration."""
    return import_module("dspectral.dashboard.plugin")
