"""Writes that fail, and power cuts, at each operation on files: after the same call again all bytes are those without.

A power cut leaves what was flushed: a file that was written since, or renamed before, is empty.
"""

import builtins
import errno
import io
import os
import shutil
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import dask
import joblib
import numpy as np
import pytest
from zarr.core.sync import _get_loop

from dspectral import (
    SketchedPCA,
    TruncatedSVD,
    build_corpus,
    build_store,
    checkpoints,
    load,
    open_store,
    save,
    write_counts,
)
from dspectral.engine.around import checkpoints as keeping
from tests.store.contents import contents
from tests.strategies import zipf_counts

FAULTS = {"error that may pass": errno.EIO, "full disk": errno.ENOSPC, "power cut": None}
CHANGES = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link", "fsync")
PLAIN = {name: getattr(os, name) for name in CHANGES}
PLAIN_OPEN = open


class PowerCut(BaseException):
    """Nothing of this process goes on."""


class Disk:
    """Counts operations on files in a folder, of which one fails; after a power cut none is done."""

    def __init__(self, folder, fault=None, at=-1):
        self.folder, self.fault, self.at, self.n, self.unflushed = folder, fault, at, 0, set()

    def does(self, what):
        is_off = self.fault == "power cut" and self.n > self.at
        self.n += not is_off
        if self.n - 1 == self.at and not is_off:
            raise (OSError(FAULTS[self.fault], f"failed by the test: {what}") if FAULTS[self.fault] else PowerCut)
        return not is_off

    def holds(self, file, dir_fd=None, **_options):
        number = file if isinstance(file, int) else dir_fd
        at = file if number is None else Path(f"/proc/self/fd/{number}").readlink()
        return isinstance(at, str | Path) and str(at).startswith(self.folder)

    def open(self, file, mode="r", *arguments, **options):
        if not self.holds(file) or not set(mode) & set("wxa+"):
            return PLAIN_OPEN(file, mode, *arguments, **options)
        opened = Written(file if self.does(f"open {file}") else "/dev/null", mode.replace("b", ""))
        opened.disk = self
        self.unflushed.add(os.fstat(opened.fileno()).st_ino)
        return opened

    def change(self, name, *arguments, **options):
        if self.holds(arguments[0], **options) and not self.does(name):
            return
        PLAIN[name](*arguments, **options)
        if name == "fsync":
            self.unflushed.discard(os.fstat(arguments[0]).st_ino)

    @contextmanager
    def plugged_in(self):
        changes = {name: lambda *given, name=name, **more: self.change(name, *given, **more) for name in PLAIN}
        no_pause = patch.object(time, "sleep", lambda _seconds: None)  # before another attempt
        opens = patch.object(io, "open", self.open), patch.object(builtins, "open", self.open)
        loop, threads = _get_loop(), ThreadPoolExecutor(1)  # those of Zarr go on when one has failed
        loop.set_default_executor(threads)
        with patch.multiple(os, **changes), opens[0], opens[1], no_pause, dask.config.set(scheduler="sync"):
            try:
                yield
            finally:
                threads.shutdown()
                loop.set_default_executor(ThreadPoolExecutor())

    def lose(self):
        for path in Path(self.folder).rglob("*"):
            if path.is_file() and path.stat().st_ino in self.unflushed:
                os.truncate(path, 0)


class Written(io.FileIO):
    def write(self, content):
        self.disk.unflushed.add(os.fstat(self.fileno()).st_ino)
        return super().write(content) if self.disk.does("write") else memoryview(content).nbytes


LINES = [f"word{i * i % 37} and word{i % 11} the word{i % 5}" for i in range(60)]
FITTED = [TruncatedSVD(k, random_state=0).fit(zipf_counts(40, 30, 8)) for k in (2, 3)]


def a_store(at, n_rows=60, **more):
    write_counts(zipf_counts(n_rows, 30, 8), f"{at}/at", block_rows=15, **more)


def kept_fit(at):
    with warnings.catch_warnings(), checkpoints(f"{at}/parts"), patch.object(keeping, "MIN_COST_RATIO", 0.0):
        warnings.simplefilter("ignore")  # of parts that are made again
        fitted = SketchedPCA(3, n_passes=2, solver="nystrom", random_state=0).fit(open_store(f"{at}/at"))
    return {"components": fitted.components_.tobytes()}


def files(at):
    return {
        name: of
        for name, of in contents(f"{at}/at").items()
        if not name.startswith(("scratch/", "writer.", "plans/zarr.json"))
    }  # space alone


def model(at):
    return {"model": joblib.hash(vars(load(f"{at}/at")))}


def nothing(_at):
    pass


WRITERS = {
    "build_store": (nothing, lambda at: build_store(f"{at}/text.txt", f"{at}/at", block_bytes=500), files),
    "build_corpus": (nothing, lambda at: build_corpus(f"{at}/text.txt", f"{at}/at", block_bytes=500), files),
    "write_counts": (nothing, a_store, files),
    "append": (a_store, lambda at: a_store(at, 30, append=True), files),
    "save": (nothing, lambda at: save(FITTED[0], f"{at}/at"), model),
    "replace": (
        lambda at: save(FITTED[0], f"{at}/at"),
        lambda at: save(FITTED[1], f"{at}/at", overwrite=True),
        model,
    ),
    "fit": (a_store, kept_fit, kept_fit),
}
"""What is there before, the call, and what reads the result."""


def tried(writer, folder, fault=None, at=-1):
    """Let an operation fail; return how the call ended, what there is after the same call again, and their number."""
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir()
    Path(folder, "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    before, call, read = WRITERS[writer]
    before(folder)
    disk, end = Disk(folder, fault, at), "went on"
    try:
        with disk.plugged_in():
            call(folder)
    except (PowerCut, OSError, ValueError) as error:
        end = "cut" if isinstance(error, PowerCut) else "error"
    disk.lose()
    try:
        if end != "went on":
            call(folder)
    except Exception as error:  # noqa: BLE001  whatever it is counts
        if " already" not in str(error):  # it was finished before
            return end, f"{type(error).__name__}: {error}", disk.n
    return end, read(folder), disk.n


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_same_call_after_a_failure_or_power_cut_gives_the_result(writer, tmp_path):
    _, expected, n = tried(writer, f"{tmp_path}/a")
    # Cut in the last nine an append is finished already, and the same call adds its rows again.
    for at in np.random.default_rng(list(writer.encode())).choice(max(n - 9, 5), 3).tolist():
        for fault in FAULTS:
            assert tried(writer, f"{tmp_path}/a", fault, at)[1] == expected, (fault, at)
