"""The short form, part of the ordinary suite: one cluster of real processes, and the faults that matter most."""

import signal
import time

import pytest

from tests.cluster import fits
from tests.cluster.fits import shaky

pytestmark = pytest.mark.slow
LATE = 0.02  # seconds of each read, some of which a block takes
ON_PROCESSES = ("SketchedPCA", "MomentMultiLabelClassifier", "AnchorHMM")


@pytest.fixture(scope="module")
def calm(places):
    """Bits of the fits of this file, by one thread."""
    return fits.calm_bits(places, ON_PROCESSES, scheduler="sync")


def test_real_processes_give_the_bits_of_one_thread(cluster, places, calm):
    for name in ON_PROCESSES:
        cluster.fitting.fit(name, places)
        assert cluster.fitting.bits() == calm[name]


def test_a_stopped_worker_of_two_is_waited_for_while_the_other_works(cluster, places, calm):
    cluster.fitting.fit("SketchedPCA", shaky(places, delay=LATE))
    cluster.fitting.heard_blocks(2)
    cluster.workers[0].signal(signal.SIGSTOP)
    time.sleep(0.5)
    cluster.workers[0].signal(signal.SIGCONT)
    assert cluster.fitting.bits() == calm["SketchedPCA"]
