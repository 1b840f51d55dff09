import argparse
import gc
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from workflows._form import running
from workflows._form.interrupts import USUAL, interrupts_held_back, one_interrupt

PROGRAM = """
import signal
import time
from dspectral.engine import run_tasks
from workflows._form import form, running

def main():
    with form.run(form.parser("rivers", "Wait.").parse_args()):
        run_tasks(time.sleep, [3.0] * 8, name="sleep")

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("signals", [[signal.SIGINT] * 3, [signal.SIGTERM]], ids=["Ctrl-C thrice", "terminated"])
def test_a_program_that_is_stopped_closes_its_workers_and_leaves_no_semaphore(signals, tmp_path):
    (tmp_path / "rivers.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    given = [sys.executable, "rivers.py", "--workers", "1", "--out", "out"]
    running = subprocess.Popen(
        given, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "dashboard" in running.stdout.readline()
    time.sleep(1.0)
    for number in signals:
        running.send_signal(number)
        time.sleep(0.5)
    _, error = running.communicate(timeout=120)
    assert running.returncode == 130
    said = [line for line in error.splitlines() if not line.startswith("[")]
    assert re.fullmatch("python -m workflows.rivers: .* out", said[-1])
    assert all(line.startswith("stopping") for line in said[:-1]), error
    assert list(tmp_path.iterdir()) == [tmp_path / "rivers.py"]


@pytest.fixture
def _usual_handlers():
    """Let the main thread answer signals as a program does, and as before afterwards."""
    before = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_usual_handlers")
def test_an_interrupt_that_falls_into_a_collection_of_garbage_is_not_lost():
    def interrupt(phase, _info):
        if phase == "stop":
            gc.callbacks.remove(interrupt)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), one_interrupt():  # noqa: PT012  what comes after is what is asked
        gc.callbacks.append(interrupt)
        gc.collect()
        time.sleep(60.0)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("_usual_handlers")
def test_an_interrupt_waits_until_the_cluster_stands():
    stood = []

    def start():
        with interrupts_held_back():
            os.kill(os.getpid(), signal.SIGINT)
            stood.append(True)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert stood
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"keep": "s3://a/checkpoints"}, "s3://a/checkpoints"),
        ({"append": False, "store": "my.zarr"}, "my.zarr"),
    ],
)
def test_an_interrupted_program_names_what_is_kept(options, kept, tmp_path, capsys):
    shared = {"out": tmp_path, "prog": "rivers", "options": {}, "debug": False, "plan": False}
    with pytest.raises(SystemExit) as caught, running._one_sentence(argparse.Namespace(**shared, **options)):
        raise KeyboardInterrupt
    assert caught.value.code == 130
    assert kept in capsys.readouterr().err
