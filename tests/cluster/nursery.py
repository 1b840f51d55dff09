"""An interpreter that has imported what workers need, and forks them: they stand in a moment on a loaded machine.

Each line of its input is an order as JSON: arguments of ``dask worker``, environment, a fifo for what is printed, and
perhaps a process whose network is used. It answers with the number of the process.
"""

import ctypes
import json
import os
import signal
import sys

import dask
from distributed.cli import dask_worker

from tests.cluster import fits, storage

PR_SET_PDEATHSIG = 1
CLONE_NEWNET = 0x40000000
IMPORTED = (fits, storage)


def become(arguments, environment, output, network):
    """Turn this fork into a worker."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    written = os.open(output, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(written, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if network and system.setns(os.open(f"/proc/{network}/ns/net", os.O_RDONLY), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "the network of another process is not to be had")
    os.environ.update(environment)
    dask.config.refresh()
    sys.argv = ["dask-worker", *arguments]
    dask_worker.main(arguments)


def main():
    """Obey the orders of the input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries the children
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                become(**json.loads(line))
            finally:
                os._exit(1)
        print(f"child {pid}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
