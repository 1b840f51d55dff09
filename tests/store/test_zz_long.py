"""A store against a model in memory, under any order of appends, kills, resumes, other writers, and damage.

``DSPECTRAL_LONG=1`` tries many more orders.
"""

import os
import re
import shutil
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import dask
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scipy import sparse

from dspectral.store import arrays, blocks, writer
from dspectral.store.counts import open_store
from dspectral.store.forget import forget
from dspectral.store.location import Location, StoreError
from dspectral.store.lock import hold_write_lock
from dspectral.store.matrix import write_counts
from dspectral.store.writer import discard_unfinished

N_COLUMNS = 5
LONG = os.environ.get("DSPECTRAL_LONG", "") not in ("", "0")
ROWS = st.tuples(st.integers(0, 99), st.integers(1, 6))


class KilledError(Exception):
    """What ends a writer in these tests."""


@contextmanager
def killed_after(n_arrays):
    """Raise an error in place of an array after some; yield a list that is not empty if the work ended before."""
    left, finished = [n_arrays], []

    def write_array(store, path, values):
        if not left[0]:
            raise KilledError
        left[0] -= 1
        plain(store, path, values)

    plain = arrays.write_array
    with pytest.MonkeyPatch.context() as patch, suppress(KilledError):
        for module in (blocks, writer):
            patch.setattr(module, "write_array", write_array)
        yield finished
        finished.append(True)


def rows_of(seed, n_rows):
    counts = np.random.default_rng(seed).integers(0, 3, (n_rows, N_COLUMNS))
    counts[0, seed % N_COLUMNS] += 1
    return sparse.csr_array(counts.astype(np.float32))


class StoreMachine(RuleBasedStateMachine):
    """The model is all finished rows, and the rows of a writer that was killed."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.url = str(self.folder / "store")
        self.expected = np.zeros((0, N_COLUMNS))
        self.generation = -1
        self.pending = None
        self.opened = None
        self.scheduler = dask.config.set(scheduler="sync")

    def teardown(self):
        self.scheduler.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    def write(self, rows):
        write_counts(rows_of(*rows), self.url, block_rows=2, append=len(self.expected) > 0)
        self.expected = np.concatenate([self.expected, rows_of(*rows).toarray()])
        self.generation += 1

    def forget(self, rows):
        forget(self.url, rows)
        self.expected = np.delete(self.expected, rows, axis=0)
        self.generation += 1
        self.pending = self.opened = None

    @initialize(rows=ROWS)
    def begin(self, rows):
        self.write(rows)

    @precondition(lambda self: self.pending is None)
    @rule(rows=ROWS)
    def append(self, rows):
        self.write(rows)

    @precondition(lambda self: self.pending is None)
    @rule(rows=ROWS, n_arrays=st.integers(0, 18))
    def kill(self, rows, n_arrays):
        with killed_after(n_arrays) as finished:
            self.write(rows)
        if not finished:
            self.pending = rows

    @precondition(lambda self: len(self.expected) > 1)
    @rule(data=st.data(), n_arrays=st.integers(0, 30))
    def forget_rows(self, data, n_arrays):
        n = len(self.expected)
        rows = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n - 1, unique=True))
        with killed_after(n_arrays) as finished:
            self.forget(rows)
        if not finished:
            self.pending = None
            self.it_has_what_was_finished()
            self.forget(rows)

    @precondition(lambda self: self.pending is not None)
    @rule()
    def resume(self):
        self.write(self.pending)
        self.pending = None

    @precondition(lambda self: self.pending is not None)
    @rule(rows=ROWS)
    def write_other_rows(self, rows):
        self.write(rows)
        self.pending = None

    @rule(rows=ROWS)
    def overwrite(self, rows):
        write_counts(rows_of(*rows), self.url, block_rows=2, overwrite=True)
        self.expected, self.pending, self.opened = rows_of(*rows).toarray(), None, None
        self.generation = open_store(self.url).generation

    @rule()
    def discard(self):
        discard_unfinished(self.url)
        self.pending = None

    @rule(rows=ROWS)
    def meet_another_writer(self, rows):
        with (
            hold_write_lock(Location.from_url(self.url)),
            pytest.raises(StoreError, match=rf"writer.*{re.escape(self.url)}"),
        ):
            self.write(rows)

    @rule()
    def keep_it_open(self):
        self.opened = open_store(self.url), self.expected

    @invariant()
    def it_has_what_was_finished(self):
        if not len(self.expected):
            return
        store, expected = open_store(self.url), self.expected
        assert np.array_equal(store.counts.compute().toarray(), expected)
        assert np.array_equal(store.document_frequency, (expected != 0).sum(axis=0))
        assert np.array_equal(store.column_sums, expected.sum(axis=0))
        assert store.generation == self.generation
        assert not list(Path(self.url).glob("writer*"))
        if self.opened is not None:
            earlier, rows = self.opened
            assert np.array_equal(earlier.counts.compute().toarray(), rows)
            assert np.array_equal(earlier.column_sums, rows.sum(axis=0))


limits = partial(settings, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck), database=None)
StoreMachine.TestCase.settings = (
    limits(max_examples=300, stateful_step_count=40) if LONG else limits(max_examples=80, stateful_step_count=30)
)
TestStore = StoreMachine.TestCase
