import errno
import gzip
import re
import socket
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client

import dspectral
from dspectral import configuration
from dspectral.engine import run_tasks
from dspectral.engine.around import file_systems, retries
from dspectral.engine.around.callbacks import TaskRetried
from tests.engine.recording import Recorder


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Seconds that were waited; none is."""
    waited = []
    monkeypatch.setattr(retries.time, "sleep", waited.append)
    return waited


class Flaky:
    """Raises what it is given, one after the other, and then answers."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, answer="there"):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer


def answered(**fields):
    """An error as clients of object stores raise it."""
    error = RuntimeError("answered")
    vars(error).update(fields)
    return error


TRANSIENT_ERRORS = [
    TimeoutError(),
    ConnectionResetError("gone"),
    OSError("S3 is busy"),
    OSError(errno.EIO, "Input/output error"),
    OSError(errno.ESTALE, "Stale file handle"),
    BlockingIOError(errno.EAGAIN, "again"),
    answered(status=503),
    answered(response={"ResponseMetadata": {"HTTPStatusCode": 429}}),
    answered(response=SimpleNamespace(status_code=502)),
    type("HTTPClientError", (Exception,), {"__module__": "botocore.exceptions"})("cut"),
]
LASTING = [
    FileNotFoundError("x"),
    PermissionError("x"),
    OSError(errno.ENOSPC, "No space left on device"),
    gzip.BadGzipFile("not a gzipped file"),
    ValueError("damaged"),
    KeyError("counts/c/3"),
    answered(status=404),
    answered(response={"ResponseMetadata": {"HTTPStatusCode": 403}}),
]


@pytest.mark.parametrize("error", TRANSIENT_ERRORS, ids=repr)
def test_what_may_pass_is_tried_again(error):
    read = Flaky(error)
    assert retries.retry(read, description="reading") == "there"
    assert read.calls == 2


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_what_another_attempt_would_meet_again_is_raised_at_once(error):
    read = Flaky(error)
    with pytest.raises(type(error)):
        retries.retry(read, description="reading")
    assert read.calls == 1


def test_endpoint_that_does_not_answer_is_named_with_its_option(pauses):
    kind = type("EndpointConnectionError", (ConnectionError,), {})  # as of botocore
    with pytest.raises(kind) as raised:
        retries.retry(Flaky(*(kind() for _ in range(9))), description="reading a block")
    assert "endpoint_url" in raised.value.__notes__[0]


def test_endpoint_that_accepts_no_connection_is_named_once(monkeypatch):
    monkeypatch.setattr(file_systems, "CONNECT_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        file_systems._check_endpoint(url)
    other = url.replace("127.0.0.1", "localhost")  # a first contact of the same port
    calls = []

    def open_location():
        calls.append(other)
        file_systems._check_endpoint(other)

    with pytest.raises(ConnectionError, match=f"{other}.*endpoint_url"):
        retries.retry(open_location, description="reading")
    assert len(calls) == 1
    file_systems._check_endpoint(url)  # has answered: an outage is for retries


def test_retries_pause_longer_and_the_last_error_counts_them(pauses):
    read = Flaky(*(TimeoutError(f"busy\n{i}") for i in range(9)))
    heard = []
    with (
        dask.config.set({"dspectral.retries": 3}),
        Recorder(heard.append),
        pytest.raises(TimeoutError, match="3") as raised,
    ):
        retries.retry(read, description="reading a block")
    assert pauses == [0.25, 1.0, 4.0]
    assert heard == [TaskRetried("reading a block", i + 1, pauses[i], f"busy {i}") for i in range(3)]
    (note,) = raised.value.__notes__
    assert "4 attempts" in note


@pytest.mark.parametrize(("n_retries", "n_calls"), [(0, 1), (2, 3)])
def test_attempts_are_as_configured_and_none_after_an_inner_failure(n_retries, n_calls):
    read = Flaky(*(TimeoutError() for _ in range(99)))
    with dask.config.set({"dspectral.retries": n_retries}), pytest.raises(TimeoutError):
        retries.retry(lambda: retries.retry(read, description="inner"), description="outer")
    assert read.calls == n_calls


SETTINGS = {
    "retries": configuration.get_n_retries,
    "fan-in": configuration.get_fan_in,
    "wait-warning": configuration.get_wait_warning,
    "same-bits": configuration.requires_same_bits,
    "memory-limit": configuration.get_memory_limit,
    "joined-bytes": configuration.get_max_group_bytes,
}
BAD = {
    "retries": [-1, 1.5, True, "twice"],
    "fan-in": [1, "2"],
    "wait-warning": ["soon", 0, -1, None],
    "same-bits": ["perhaps"],
    "memory-limit": ["much"],
    "joined-bytes": ["much"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD for value in BAD[name]])
def test_a_setting_that_means_nothing_is_refused_by_its_name_and_value(name, value):
    match = rf"dspectral\.{name}.*{re.escape(repr(value))}"
    with dask.config.set({f"dspectral.{name}": value}), pytest.raises(ValueError, match=match):
        SETTINGS[name]()


def flaky_block(block, *, folder, error):
    """Fail at the first attempt to read each block, in whatever process."""
    mark = folder / f"{float(block[0, 0])}"
    if not mark.exists():
        mark.touch()
        raise error
    return block


def fitted(rows):
    return dspectral.TruncatedSVD(2, solver="frequent_directions").fit(rows)


@pytest.fixture
def rows():
    return da.from_array(np.random.default_rng(0).standard_normal((40, 6)), chunks=(10, 6))


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_blocks_whose_first_reading_fails_are_read_again_and_told(scheduler, rows, tmp_path):
    flaky = rows.map_blocks(flaky_block, folder=tmp_path, error=TimeoutError("slow\nstorage"), dtype=float)
    heard = []
    with dask.config.set(scheduler=scheduler), Recorder(heard.append):
        model = fitted(flaky)
    assert np.array_equal(model.components_, fitted(rows).components_)
    told = [event for event in heard if isinstance(event, TaskRetried)]
    assert sorted(event.what for event in told) == [f"block {i} of sketch" for i in range(4)]
    assert {event.error for event in told} == {"slow storage"}


def test_workers_report_retries_and_follow_the_setting_of_the_client(rows, tmp_path):
    flaky = rows.map_blocks(flaky_block, folder=tmp_path, error=OSError("busy"), dtype=float)
    heard = []
    with (
        Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"),
        Recorder(heard.append),
    ):
        model = fitted(flaky)
        with dask.config.set({"dspectral.retries": 0}), pytest.raises(OSError, match="again"):
            run_tasks(Flaky(OSError("again")), ["a"], name="read")
    assert np.array_equal(model.components_, fitted(rows).components_)
    assert len([event for event in heard if isinstance(event, TaskRetried)]) == 4
