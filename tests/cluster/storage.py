"""A file system that is slow and fails now and then, under ``shaky://``: workers preload this module.

Its options: ``delay``, seconds before each read; ``counter``, a folder where each failure leaves a file, so that all
processes together fail ``failures`` times and no more; ``every``, of so many reads one fails until then.
"""

import errno
import faulthandler
import itertools
import os
import signal
import time
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

READS = itertools.count(1)


class ShakyFileSystem(LocalFileSystem):
    """Local files behind a bad line."""

    protocol = "shaky"

    def __init__(self, delay=0.0, failures=0, every=5, counter="", **options):
        super().__init__(**options)
        self.delay, self.failures, self.every, self.counter = delay, failures, every, counter

    def cat_file(self, path, start=None, end=None, **options):
        """Read bytes, late, or not at all."""
        time.sleep(self.delay)
        if self.counter and next(READS) % self.every == 0 and self._fails():
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super().cat_file(path, start=start, end=end, **options)

    def _fails(self):
        """Claim one of the failures that are left, among all processes."""
        for number in range(self.failures):
            try:
                os.close(os.open(Path(self.counter, str(number)), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False


faulthandler.register(signal.SIGUSR1)  # a process that hangs is asked where it is
fsspec.register_implementation("shaky", ShakyFileSystem, clobber=True)


def shaky(places, **options):
    """The same data behind a bad line."""
    return places._replace(
        counts=f"shaky://{places.counts}", corpus=f"shaky://{places.corpus}", options=options
    )
