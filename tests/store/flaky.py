"""A file system in memory whose reads and writes fail for a moment: a seeded share of them."""

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
    n_faults = 0
    _random = np.random.default_rng(0)
    _lock = threading.Lock()

    @classmethod
    def reset(cls, *, fails=0.0, seed=0):
        """Set the share of calls that fail."""
        cls.fails, cls.n_faults = fails, 0
        cls._random = np.random.default_rng(seed)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("flaky://", "memory://", 1))

    def unstrip_protocol(self, name):
        return f"flaky://{name.lstrip('/')}"

    def _fault(self, path):
        with self._lock:
            fails = self._random.random() < self.fails
            type(self).n_faults += fails
        if fails:
            raise OSError(f"injected: {path}")

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._fault(path)
        return super().cat_file(path, start, end, **kwargs)

    def _open(self, path, mode="rb", **kwargs):
        self._fault(path)
        return super()._open(path, mode, **kwargs)

    def info(self, path, **kwargs):
        self._fault(path)
        return super().info(path, **kwargs)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self._fault(path)
        # No exclusive create: what is there is replaced.
        MemoryFileSystem.pipe_file(self, path, value, **kwargs)

    def ls(self, path, detail=True, **kwargs):
        self._fault(path)
        return super().ls(path, detail, **kwargs)


fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
