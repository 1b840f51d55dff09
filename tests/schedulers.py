"""Schedulers for tests, whose processes are forked from one that has imported what they need."""

from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import forkserver, get_context

import dask
from distributed import Client, LocalCluster

IMPORTED = [
    "pytest",
    "distributed",
    "dspectral._compiled",
    "dspectral.decomposition.estimators",
    "dspectral.methods.brown",
    "tests.engine.blocks",
    "tests.store.interrupted",
    "tests.frozen",
]


def forks(*more):
    """Where new processes come from: what they import is imported once for all tests of this process."""
    context = get_context("forkserver")
    context.set_forkserver_preload([*IMPORTED, *more])
    forkserver.ensure_running()  # before distributed names other modules
    return context


@contextmanager
def forked_workers():
    """Let clusters that are started meanwhile fork their workers."""
    forks()
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


@contextmanager
def scheduled(kind, n_workers=2):
    """Let a scheduler be in force: one of Dask's by its name, or ``"distributed"`` with processes."""
    with ExitStack() as stack:
        if kind == "distributed":
            stack.enter_context(forked_workers())
            made = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                silence_logs="CRITICAL",
            )
            stack.enter_context(Client(stack.enter_context(made)))
        else:
            settings = {"scheduler": kind, "num_workers": n_workers}
            if kind == "processes":
                settings["pool"] = stack.enter_context(ProcessPoolExecutor(n_workers, forks()))
            stack.enter_context(dask.config.set(settings))
        yield
