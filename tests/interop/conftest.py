"""Tests against real other programs; ``--write-table`` writes what they declare, with versions and outcome."""

import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from tests.interop.rows import TABLE, read_tables, write_tables

PYTHON = "{}.{}".format(*sys.version_info)
OUTCOMES = pytest.StashKey[dict]()


def pytest_addoption(parser):
    parser.addoption("--write-table", action="store_true", help=f"write {TABLE.name} from what was run")


def pytest_configure(config):
    config.addinivalue_line("markers", "interop(row, packages): a row of the table, and what it needs")
    config.stash.setdefault(OUTCOMES, {})


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "interop":
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # other programs warn of each other


def pytest_runtest_setup(item):
    mark = item.get_closest_marker("interop")
    if mark is not None:
        missing = [package for package in mark.kwargs["packages"] if found_version(package) is None]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)}; make interop brings them")


def found_version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    mark = item.get_closest_marker("interop")
    if mark is not None and (report.when == "call" or not report.passed):
        seen = item.config.stash[OUTCOMES].setdefault(mark.kwargs["row"], (mark.kwargs["packages"], []))
        reason = report.longrepr[2].removeprefix("Skipped: ") if report.skipped else ""
        seen[1].append(f"skipped ({reason})" if reason else report.outcome)
    return report


def pytest_sessionfinish(session):
    if not session.config.getoption("--write-table", default=False):
        return
    outcomes, versions = read_tables()
    for row, (packages, found) in session.config.stash[OUTCOMES].items():
        # Of several cases of one row the worst counts: "passed" is the last of all in this order.
        worst = min(found, key=lambda outcome: ("failed", "skipped", "passed").index(outcome.split()[0]))
        outcomes.setdefault(row, {})[PYTHON] = worst
        for package in packages:
            versions.setdefault(package, {})[PYTHON] = found_version(package) or "missing"
    write_tables({row: outcomes[row] for row in session.config.stash[OUTCOMES]}, dict(sorted(versions.items())))
