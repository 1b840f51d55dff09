"""A scheduler and workers as processes of their own, which a test can stop and kill."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

from distributed import Client


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Processes:
    """Starts processes; each can be killed, and all are when the test ends."""

    def __init__(self, folder):
        self.folder = folder
        self.started = []

    def start(self, *words, **environment):
        given = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **environment}
        one = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
            cwd=self.folder,
            env=os.environ | given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.started.append(one)
        return one

    def scheduler(self, port):
        return self.start("dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")

    def worker(self, address, **environment):
        words = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0")
        return self.start("dask_worker", address, *words, **environment)

    def end(self):
        for one in self.started:
            if one.poll() is None:
                one.send_signal(signal.SIGKILL)
        for one in self.started:
            one.wait()


@contextmanager
def a_cluster(folder, n_workers, **environment):
    """Yield a client, the scheduler's process, the workers' processes, and what starts more."""
    processes = Processes(folder)
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    try:
        scheduler = processes.scheduler(port)
        workers = [processes.worker(address, **environment) for _ in range(n_workers)]
        with Client(address, timeout=30) as client:
            client.wait_for_workers(n_workers, timeout=60)
            yield client, scheduler, workers, processes
            for one in processes.started:
                if one.poll() is None:
                    one.send_signal(signal.SIGCONT)
    finally:
        processes.end()
