"""Clusters of processes: a scheduler, workers, and clients that say what they hear of their fits."""

import asyncio
import json

import numpy as np
import psutil
from distributed import Client

from tests.cluster.processes import PATIENCE, Forked, Started, free_port, python

SOON_LOST = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s"}
"""A silent worker counts as lost after 10 seconds instead of 300."""


class Cluster:
    """A scheduler, workers and clients; ``network`` gives each a machine of its own."""

    def __init__(self, n_workers=2, *, network=None, environment=None):
        self.network = network
        self.environment = environment or {}
        self.host = network.address("scheduler") if network else "127.0.0.1"
        self.port = free_port()
        self.address = f"tcp://{self.host}:{self.port}"
        self.scheduler = self.fitting = None
        self.hurt, self.workers, self._started = [], [], []
        self._n_workers, self._n_made = n_workers, 0

    def __enter__(self):
        try:
            if self._n_workers:
                self.start_scheduler()
                self.add_workers(self._n_workers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        for started in reversed(self._started):
            started.kill()

    def start(self, command, *, on):
        """Start a process of this cluster, on a machine of the network."""
        inside = self.network.inside(on) if self.network else ()
        self._started.append(Started(command, inside=inside, environment=self.environment))
        return self._started[-1]

    def start_scheduler(self):
        """Start a scheduler at the address of this cluster; it may follow one that is gone."""
        options = ["--host", self.host, "--port", self.port, "--no-dashboard"]
        self.scheduler = self.start(python("-m", "dask", "scheduler", *options), on="scheduler")
        self.scheduler.says("Scheduler at:")

    def add_workers(self, n, *, memory="0", nanny=False):
        """Start workers of one thread, and wait until the scheduler knows them."""
        added = []
        for _ in range(n):
            self._n_made += 1
            machine, name = f"worker-{self._n_made}", f"w{self._n_made}"
            arguments = [self.address, "--nthreads", 1, "--no-dashboard", "--name", name]
            # An import in a task holds up the worker's signs of life for seconds.
            arguments += ["--preload", "tests.cluster.fits", "--memory-limit", memory]
            arguments += ["--nanny" if nanny else "--no-nanny"]
            arguments += ["--host", self.network.address(machine)] if self.network else []
            if nanny:
                worker = self.start(python("-m", "dask", "worker", *arguments), on=machine)
            else:
                holder = self.network.holder(machine) if self.network else None
                worker = Forked(arguments, self.environment, holder)
                self._started.append(worker)
            worker.name, worker.called = machine, name
            added.append(worker)
        for worker in added:
            worker.says("Registered to:")
        self.workers += added

    def mend(self, n_workers):
        """Bring the cluster to a scheduler, so many workers and a client; those who were hurt are replaced."""
        for hurt in self.hurt:
            hurt.kill()
        self.hurt.clear()
        if not (self.scheduler and self.scheduler.is_running):
            for worker in self.workers:
                worker.kill()
            self.start_scheduler()
        self.workers = [worker for worker in self.workers if worker.is_running]
        for surplus in self.workers[n_workers:]:
            surplus.kill()
        del self.workers[n_workers:]
        self.add_workers(n_workers - len(self.workers))
        if not (self.fitting and self.fitting.process.is_running):
            self.fitting = self.client()

    def give_up(self):
        """End a client whose fit a test did not wait for: what it says later is of no other fit."""
        if self.fitting and not self.fitting.has_ended:
            self.fitting.process.kill()
            self.fitting = None

    def client(self):
        """Start a process that fits on this cluster."""
        return Fitting(self.start(python("-m", "tests.cluster.client", self.address), on="client"))

    def on_workers(self, workers, function, *arguments, on_error="raise"):
        """Run a function on workers, outside their tasks."""
        names = [worker.called for worker in workers]
        with Client(self.address) as client:
            known = client.scheduler_info(n_workers=-1)["workers"]
            addresses = [address for address, worker in known.items() if worker["name"] in names]
            assert len(addresses) == len(names), known
            client.run(function, *arguments, workers=addresses, on_error=on_error)


class Fitting:
    """The process of a client, and what it says of its fits."""

    def __init__(self, process):
        self.process = process
        self._since = 0
        self.heard("Ready")

    def fit(self, name, places, *, hold=None, **asked):
        """Begin a fit; ``hold`` is the kind and number of an event at which it waits for :meth:`go_on`."""
        self._since = len(self.process.lines)
        order = {"do": "fit", "name": name, "places": places._asdict(), "hold": hold, **asked}
        self.process.tell(json.dumps(order))

    def go_on(self):
        """Let the fit go on that holds."""
        self.process.tell("{}")

    def heard(self, *kinds, timeout=PATIENCE, since=0.0, where=lambda _message: True):
        """Wait for a message of the present fit, of one of these kinds and sent after a time, and return it."""

        def wanted(line):
            message = message_of(line)
            right = message and message["kind"] in kinds and message["time"] >= since and where(message)
            return message if right else None

        return self.process.wait_for(wanted, since=self._since, timeout=timeout)

    def heard_blocks(self, n_blocks):
        """Wait until some blocks are done."""
        self.heard("BlocksDone", where=lambda message: message["n_blocks"] >= n_blocks)

    @property
    def has_ended(self):
        """Whether no fit was begun, or the last one has said its end."""
        return not self._since or any(m["kind"] in ("Fitted", "Failed") for m in self.so_far())

    def so_far(self):
        """All messages of the present fit."""
        return [message for line in self.process.lines[self._since :] if (message := message_of(line))]

    def ended(self, timeout=PATIENCE):
        """Wait for the end of the fit, and return what it says."""
        return self.heard("Fitted", "Failed", timeout=timeout)

    def bits(self):
        """Wait for the end of a fit that succeeds, and return the bits of its model."""
        end = self.ended()
        assert end["kind"] == "Fitted", end
        return end["bits"]

    def fails(self, *words, timeout=PATIENCE):
        """Wait for the end of a fit that fails in one line with these words, and return when it said so."""
        end = self.ended(timeout)
        assert end["kind"] == "Failed"
        assert all(word in end["message"] for word in words), end
        return end["time"]


def message_of(line):
    """The message of a client in a line, or None."""
    return json.loads(line) if line.startswith('{"kind": ') else None


HELD = []


async def hold_share(share, dask_worker):
    """Hold memory until this process has a share of its worker's memory limit, and wait until the worker pauses."""
    missing = share * dask_worker.memory_manager.memory_limit - psutil.Process().memory_info().rss
    HELD.append(np.ones(max(0, int(missing)), dtype=np.uint8))
    for _ in range(100):
        if dask_worker.status.name == "paused":
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"the worker holds {psutil.Process().memory_info().rss} bytes and does not pause")


def release():
    """Let go what is held."""
    HELD.clear()
