"""Machines of a network: namespaces that veth pairs join to a bridge, all of them gone with the processes in them."""

import os
import shutil
import subprocess

from tests.cluster.processes import Started

SUBNET = "10.213.7"
HOLDER = ["sh", "-c", "echo here && exec sleep infinity"]


def why_not():
    """Return the reason why networks cannot be made here; empty where they can."""
    if os.name != "posix" or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
        return "network namespaces need Linux with ip, unshare and nsenter"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Network("one"):
            return ""
    except (AssertionError, subprocess.CalledProcessError) as error:
        return f"network namespaces are not permitted here: {str(error).splitlines()[0]}"


class Network:
    """Named machines behind one bridge; a cable can be pulled and put back."""

    def __init__(self, *names):
        self.names = names
        self._holders = {}

    def __enter__(self):
        try:
            for name in ("hub", *self.names):
                holder = Started(["unshare", "-n", *HOLDER])
                self._holders[name] = holder
                holder.wait_for(lambda line: line == "here" or None)
            self._in("hub", "ip", "link", "add", "bridge", "type", "bridge")
            self._in("hub", "ip", "link", "set", "bridge", "up")
            for number, name in enumerate(self.names):
                self._join(number, name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        for holder in self._holders.values():
            holder.kill()

    def _join(self, number, name):
        ends = [str(self._holders[which].pid) for which in ("hub", name)]
        _run(
            "ip",
            "link",
            "add",
            f"port{number}",
            "netns",
            ends[0],
            "type",
            "veth",
            "peer",
            "cable",
            "netns",
            ends[1],
        )
        self._in("hub", "ip", "link", "set", f"port{number}", "master", "bridge", "up")
        self._in(name, "ip", "address", "add", f"{self.address(name)}/24", "dev", "cable")
        self._in(name, "ip", "link", "set", "cable", "up")
        self._in(name, "ip", "link", "set", "lo", "up")

    def holder(self, name):
        """Return the process that holds a machine."""
        return self._holders[name].pid

    def inside(self, name):
        """Return what goes before a command that shall run on a machine."""
        return ["nsenter", "-t", str(self._holders[name].pid), "-n"]

    def address(self, name):
        """Return the address of a machine."""
        return f"{SUBNET}.{self.names.index(name) + 1}"

    def pull(self, name):
        """Take the cable of a machine out: nothing comes through any more, and nobody is told."""
        self._in("hub", "ip", "link", "set", f"port{self.names.index(name)}", "down")

    def put_back(self, name):
        """Put the cable back."""
        self._in("hub", "ip", "link", "set", f"port{self.names.index(name)}", "up")

    def _in(self, name, *command):
        _run(*self.inside(name), *command)


def _run(*command):
    subprocess.run(command, check=True, capture_output=True, timeout=20)
