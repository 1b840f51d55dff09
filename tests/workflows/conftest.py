"""What all tests of the programs need."""

import pytest

from workflows._form import schedulers


@pytest.fixture(autouse=True)
def _any_port_for_dashboards(monkeypatch):
    """Let programs that start workers take a free port: other tests run at the same time, and Dask leaves open
    the socket of a port that was taken in between.
    """
    monkeypatch.setattr(schedulers, "DASHBOARD_PORT", 0)
