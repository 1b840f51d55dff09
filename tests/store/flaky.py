"""A file system in memory whose reads and writes fail, or find nothing, for a moment: a seeded share of them."""

import threading
from typing import ClassVar

import fsspec
import numpy as np
from fsspec.implementations.memory import MemoryFileSystem


class FlakyFileSystem(MemoryFileSystem):
    """Files in memory; every call asks a seeded generator whether it fails."""

    protocol = "flaky"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    cachable = False
    fails = 0.0
    misses = 0.0
    n_faults = 0
    path = ""
    missing: ClassVar[set] = set()
    n_looks = 0
    _random = np.random.default_rng(0)
    _lock = threading.Lock()

    @classmethod
    def reset(cls, *, fails=0.0, misses=0.0, seed=0):
        """Set the share of calls that fail, and of reads that find nothing."""
        cls.fails, cls.misses, cls.n_faults = fails, misses, 0
        cls._random = np.random.default_rng(seed)
        cls.miss("", set())

    @classmethod
    def miss(cls, path, missing):
        """Let looks of some numbers, from 0, not find one path."""
        cls.path, cls.missing, cls.n_looks = path, missing, 0

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("flaky://", "memory://", 1))

    def unstrip_protocol(self, name):
        return f"flaky://{name.lstrip('/')}"

    def _fault(self, path, *, reads):
        with self._lock:
            if reads and path.endswith(self.path or "nowhere"):
                type(self).n_looks += 1
                if self.n_looks - 1 in self.missing:
                    raise FileNotFoundError(path)
            drawn = self._random.random()
            fails, misses = drawn < self.fails, reads and self.fails <= drawn < self.fails + self.misses
            misses = misses and not path.endswith(
                ".txt"
            )  # a source that is not there is an error, and at once
            type(self).n_faults += bool(fails or misses)
        if fails:
            raise OSError(f"injected: {path}")
        if misses:
            raise FileNotFoundError(path)

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._fault(path, reads=True)
        return super().cat_file(path, start, end, **kwargs)

    def _open(self, path, mode="rb", **kwargs):
        self._fault(path, reads="r" in mode)
        return super()._open(path, mode, **kwargs)

    def info(self, path, **kwargs):
        self._fault(path, reads=True)
        return super().info(path, **kwargs)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self._fault(path, reads=False)
        # No exclusive create: what is there is replaced.
        MemoryFileSystem.pipe_file(self, path, value, **kwargs)

    def ls(self, path, detail=True, **kwargs):
        self._fault(path, reads=False)
        return super().ls(path, detail, **kwargs)


fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
