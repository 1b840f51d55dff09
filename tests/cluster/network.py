"""What stands in for other machines: namespaces of a network behind a bridge, and an endpoint that speaks S3."""

import json
import os
import shutil
import subprocess
from importlib.util import find_spec

from tests.cluster.processes import Started, free_port, python

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
                holder.says("here")
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
        pair = ("type", "veth", "peer", "cable", "netns", ends[1])
        _run("ip", "link", "add", f"port{number}", "netns", ends[0], *pair)
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


BUCKET = "texts"


def why_no_s3():
    """Return the reason why there is no endpoint here; empty where there can be one."""
    missing = [package for package in ("moto", "s3fs", "flask") if find_spec(package) is None]
    return f"not installed: {', '.join(missing)}; the extra cluster brings them" if missing else ""


class Endpoint:
    """The server, and a bucket of it with the data of these tests, if there are places."""

    def __init__(self, places=None):
        self._places = places
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def __enter__(self):
        self.process = Started(python("-m", "moto.server", "-H", "127.0.0.1", "-p", self.port))
        try:
            self.process.says("Running on")
            self._put()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_error):
        self.process.kill()

    @property
    def options(self):
        """Options of the file system; the secret is no secret here."""
        return {
            "key": "test",
            "secret": "test",
            "client_kwargs": {"endpoint_url": self.url, "region_name": "eu-west-1"},
        }

    @property
    def places(self):
        """The data in the bucket."""
        return self._places._replace(
            counts=f"s3://{BUCKET}/counts", corpus=f"s3://{BUCKET}/corpus", options=self.options
        )

    def _put(self):
        # In a process of its own: s3fs keeps a thread and connections, which warn when this process ends.
        local = {} if self._places is None else {name: getattr(self._places, name) for name in ("counts", "corpus")}
        order = json.dumps([self.options, local])
        done = Started(python("-c", UPLOAD, order))
        try:
            assert done.wait() == 0, done.lines[-5:]
        finally:
            done.kill()


UPLOAD = f"""
import json, sys, s3fs
options, local = json.loads(sys.argv[1])
files = s3fs.S3FileSystem(**options)
files.mkdir("{BUCKET}")
for name, path in local.items():
    files.put(path, f"{BUCKET}/{{name}}", recursive=True)
"""
