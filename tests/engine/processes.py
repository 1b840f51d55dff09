"""A scheduler and workers as processes of their own, which a test can stop and kill."""

import os
import signal
import sys
from contextlib import contextmanager
from importlib import import_module

from distributed import Client
from distributed.utils import json_load_robust

from tests.schedulers import forks


def run(module, words, folder):
    """Run a command of distributed in this process, which says nothing."""
    os.chdir(folder)
    silence = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(silence, number)
    sys.argv = [module, *words]
    import_module("distributed.cli." + module).main()


def send(process, number):
    """Send a signal to a process."""
    os.kill(process.pid, number)


class Processes:
    """Starts processes; each can be killed, and all are when the test ends."""

    def __init__(self, folder):
        self.folder = folder
        self.started = []

    def start(self, module, *words):
        one = forks().Process(target=run, args=(module, words, str(self.folder)), daemon=True)
        one.start()
        self.started.append(one)
        return one

    def scheduler(self):
        """Start a scheduler, and return it and the address that it took."""
        found = str(self.folder / "scheduler.json")
        words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", found)
        one = self.start("dask_scheduler", *words)
        return one, json_load_robust(found, timeout=60)["address"]

    def worker(self, address):
        words = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0")
        return self.start("dask_worker", address, *words)

    def end(self):
        for one in self.started:
            one.kill()
        for one in self.started:
            one.join()


@contextmanager
def a_cluster(folder, n_workers):
    """Yield a client, the scheduler's process, the workers' processes, and what starts more."""
    processes = Processes(folder)
    try:
        scheduler, address = processes.scheduler()
        workers = [processes.worker(address) for _ in range(n_workers)]
        with Client(address, timeout=30) as client:
            client.wait_for_workers(n_workers, timeout=60)
            yield client, scheduler, workers, processes
            for one in processes.started:
                if one.is_alive():
                    send(one, signal.SIGCONT)
    finally:
        processes.end()
