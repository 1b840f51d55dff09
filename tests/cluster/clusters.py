"""Clusters of processes: a scheduler, workers, and clients that say what they hear of their fits."""

import json
import subprocess

from tests.cluster.processes import NURSERY, PATIENCE, Started, free_port, python

PRELOADED = ("tests.cluster.storage", "tests.cluster.fits")
"""Imported before a worker registers: an import in a task holds up its signs of life for seconds."""
SOON_LOST = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s"}
"""A silent worker counts as lost after 10 seconds instead of 300."""


class Cluster:
    """A scheduler, workers and clients; ``network`` gives each a machine of its own, ``tls`` a certificate."""

    def __init__(self, n_workers=2, *, network=None, tls=None, environment=None):
        self.network, self.tls = network, tls
        self.environment = environment or {}
        self._started = []
        self.port = free_port()
        self.host = network.address("scheduler") if network else "127.0.0.1"
        self.address = f"{'tls' if tls else 'tcp'}://{self.host}:{self.port}"
        self.scheduler = self.fitting = None
        self.hurt = []
        self.workers = []
        self._n_workers = n_workers
        self._n_made = 0

    def __enter__(self):
        try:
            if self._n_workers:
                self.start_scheduler()
                self.add_workers(self._n_workers)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error):
        self.close()

    def close(self):
        """End all processes."""
        for started in reversed(self._started):
            started.kill()

    def start(self, command, *, on="", environment=None, stdin=None):
        """Start a process of this cluster, on a machine of the network."""
        inside = self.network.inside(on) if self.network else ()
        settings = {**self.environment, **(environment or {})}
        self._started.append(Started(command, inside=inside, environment=settings, stdin=stdin))
        return self._started[-1]

    def start_scheduler(self):
        """Start a scheduler at the address of this cluster; it may follow one that is gone."""
        options = ["--host", self.host, "--port", self.port, "--no-dashboard", *self._security()]
        options += ["--protocol", "tls"] if self.tls else []
        self.scheduler = self.start(python("-m", "dask", "scheduler", *options), on="scheduler")
        self.scheduler.wait_for(lambda line: True if "Scheduler at:" in line else None)

    def add_workers(self, n, *options, nanny=False, on=None, interpreter=None, environment=None):
        """Start workers of one thread, and wait until the scheduler knows them."""
        added = []
        for _ in range(n):
            self._n_made += 1
            name = on or f"worker-{self._n_made}"
            arguments = ["--nthreads", 1, "--no-dashboard", "--name", f"w{self._n_made}"]
            arguments += [word for module in PRELOADED for word in ("--preload", module)]
            arguments += ["--nanny" if nanny else "--no-nanny", *self._security(), *options]
            if self.network:
                arguments += ["--host", self.network.address(name)]
            if not any(option == "--memory-limit" for option in options):
                arguments += ["--memory-limit", "0"]
            if nanny or interpreter:
                command = python("-m", "dask", "worker", self.address, *arguments)
                command[0] = interpreter or command[0]
                worker = self.start(command, on=name, environment=environment)
            else:
                settings = {**self.environment, **(environment or {})}
                network = self.network.holder(name) if self.network else None
                worker = NURSERY.worker([self.address, *arguments], settings, network)
                self._started.append(worker)
            worker.name, worker.called = name, f"w{self._n_made}"
            added.append(worker)
        for worker in added:
            worker.wait_for(lambda line: True if "Registered to:" in line else None)
        self.workers += added
        return added

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

    def restart_scheduler(self):
        """Kill the scheduler, and start another at the same address."""
        self.scheduler.kill()
        self.start_scheduler()

    def client(self, *, adapt=False, environment=None):
        """Start a process that fits on this cluster, or on one of its own that adapts to the work."""
        tls = self.tls._asdict() if self.tls else None
        arguments = json.dumps({"address": self.address, "tls": tls, "adapt": adapt})
        command = python("-m", "tests.cluster.client", arguments)
        started = self.start(command, on="client", environment=environment, stdin=subprocess.PIPE)
        return Fitting(started)

    def _security(self):
        return self.tls.options() if self.tls else []


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
        return self.process.wait_for(
            lambda line: next(
                (m for m in messages([line]) if m["kind"] in kinds and m["time"] >= since and where(m)), None
            ),
            since=self._since,
            timeout=timeout,
        )

    @property
    def has_ended(self):
        """Whether no fit was begun, or the last one has said its end."""
        said = {message["kind"] for message in self.so_far()}
        return not self._since or bool(said & {"Fitted", "Failed"})

    def so_far(self):
        """All messages of the present fit."""
        return list(messages(self.process.lines[self._since :]))

    def ended(self, timeout=PATIENCE):
        """Wait for the end of the fit, and return what it says."""
        return self.heard("Fitted", "Failed", timeout=timeout)

    def bits(self, timeout=4 * PATIENCE):
        """Wait for the end of a fit that succeeds, and return the bits of its model."""
        end = self.ended(timeout)
        assert end["kind"] == "Fitted", end
        return end["bits"]


def messages(lines):
    """Those of the lines that are messages of a client, as dictionaries."""
    for line in lines:
        if line.startswith('{"kind": '):
            yield json.loads(line)
