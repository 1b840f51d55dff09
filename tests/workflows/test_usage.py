import mmap
import subprocess
import sys

from workflows._form.usage import Meter, peak_bytes, reset_peak


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
