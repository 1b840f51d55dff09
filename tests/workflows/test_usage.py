import mmap
import subprocess
import sys
from types import SimpleNamespace

import pytest

from workflows._form import usage
from workflows._form.usage import Meter, _difference, peak_bytes, reset_peak


def test_the_peak_holds_what_was_freed_until_it_is_reset():
    # Pages of their own: what the heap has free may serve an array, whose end then gives nothing back.
    with mmap.mmap(-1, 64 << 20) as pages:
        pages.write(bytes(64 << 20))
    high = peak_bytes()
    if reset_peak():
        assert peak_bytes() < high - (48 << 20)


def test_cpu_seconds_include_children_alive_and_ended():
    code = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()"
    with Meter().measure() as alive:
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdout.readline()
    with Meter().measure() as over_its_end:
        child.communicate(b"\n")
    with Meter().measure() as ended:
        subprocess.run([sys.executable, "-c", code], input=b"\n", stdout=subprocess.DEVNULL, check=True)
    assert alive.cpu_seconds >= 0.35
    assert ended.cpu_seconds >= 0.35
    assert 0 <= over_its_end.cpu_seconds < 0.3


def reading(host, pid, seconds, *, counted=False):
    return {"host": host, "pid": pid, "cpu_seconds": seconds, "peak_bytes": 1, "counted": counted}


def test_workers_elsewhere_are_added_and_those_below_are_not_added_again():
    before = {
        "this process": reading("here", 1, 10.0, counted=True),
        "below": reading("here", 2, 1.0, counted=True),
        "elsewhere": reading("there", 2, 5.0),
        "lost": reading("there", 3, 100.0),
    }
    after = {
        "this process": reading("here", 1, 14.0, counted=True),
        "below": reading("here", 2, 4.0, counted=True),
        "elsewhere": reading("there", 2, 7.0),
        "new": reading("there", 4, 0.5),
    }
    assert _difference(before, after) == (4.0 + 2.0 + 0.5, 1)


def of_workers(monkeypatch, answers):
    monkeypatch.setattr(usage, "try_query", lambda *_, **__: answers)
    return usage._of_workers(SimpleNamespace(run=None))


def test_workers_that_do_not_answer_are_missing_in_the_report_which_is_said(monkeypatch):
    with pytest.warns(UserWarning, match="workers.*report"):
        assert of_workers(monkeypatch, None) == {}
