"""What tests of clusters share: data, calm bits, a cluster that is mended before each test, and the table of faults."""

import pytest

from tests.cluster import fits
from tests.cluster.clusters import Cluster
from tests.cluster.rows import Measured, row_of, write_rows

MEASURED = pytest.StashKey[dict]()
TELLS = ("TaskRetried", "Warned", "Failed")
"""Kinds of messages that say of a fault."""


def pytest_addoption(parser):
    parser.addoption("--faults", action="store_true", help="run the long form of the tests of clusters")
    parser.addoption("--faults-table", action="store_true", help="write docs/faults_table.md from what was run")


def pytest_configure(config):
    config.addinivalue_line("markers", "fault(what, phase): part of the long form, and a row of its table")
    config.stash.setdefault(MEASURED, {})


def pytest_collection_modifyitems(config, items):
    if config.getoption("--faults", default=False):
        return
    long = [item for item in items if item.get_closest_marker("fault")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("fault")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    row = row_of(item)
    if row is not None and not report.passed:
        seen = "failed" if report.failed else f"skipped ({report.longrepr[2].removeprefix('Skipped: ')})"
        item.config.stash[MEASURED][row] = Measured(seen, "-", "-")
    return report


def pytest_sessionfinish(session):
    if session.config.getoption("--faults-table", default=False):
        write_rows(session.config.stash[MEASURED])


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    """Where a store and a corpus are."""
    return fits.make_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def calm(places):
    """Bits of every fit, by one thread."""
    return fits.calm_bits(places, scheduler="sync")


@pytest.fixture(scope="session")
def calm_tasks(places):
    """Number of tasks of every fit."""
    return fits.n_tasks(places)


@pytest.fixture(scope="module")
def started():
    """A cluster for all tests of a file."""
    with Cluster(0) as made:
        yield made


@pytest.fixture
def cluster(started):
    """A cluster of two workers and a client, all well."""
    started.give_up()
    started.mend(2)
    return started


@pytest.fixture
def measured(request):
    """Note what stands in the row of this test; a fit is measured by :func:`of_fit`."""

    def note(redone, told):
        seen = Measured("nothing", redone, told if isinstance(told, str) else f"{max(told, 0.0):.1f}")
        request.config.stash[MEASURED][row_of(request.node)] = seen

    return note


@pytest.fixture
def right(calm, measured):
    """Wait for the end of a fit: it has the bits of the calm one, and what was done again is noted."""

    def check(fitting, name, *, since):
        assert fitting.bits() == calm[name]
        heard = fitting.so_far()
        measured(done_again(heard), seconds_till_told(heard, since))

    return check


def done_again(heard):
    """Say how many of the tasks of a fit were done again."""
    n_tasks = sum(message["n_blocks"] + message["n_merges"] for message in heard if message["kind"] == "PassStarted")
    by_run = {message["run"]: message["n_repeated"] for message in heard if message["kind"] == "BlocksDone"}
    n_again = sum(by_run.values())
    return f"{n_again} of {n_tasks} tasks" if n_again else "nothing"


def seconds_till_told(heard, since):
    """Say how long after the fault its first message came."""
    signs = (m for m in heard if m["kind"] in TELLS or m.get("n_repeated"))
    times = [message["time"] for message in signs if message["time"] >= since]
    return times[0] - since if times else "not reported"
