import os
import re
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal
import time
from dspectral.engine import run_tasks
from workflows._form import form, running

def wait(seconds):
    print("waiting", flush=True)
    time.sleep(seconds)

def main():
    with form.run(form.parser("rivers", "Wait.").parse_args()):
        run_tasks(wait, [0.5] * 200, name="wait")

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("signals", [[signal.SIGINT] * 3, [signal.SIGTERM]], ids=["Ctrl-C thrice", "terminated"])
def test_stopped_program_closes_workers_and_leaves_no_semaphore(signals, tmp_path):
    (tmp_path / "rivers.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    given = [sys.executable, "rivers.py", "--workers", "1", "--out", "out"]
    running = subprocess.Popen(
        given, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert any("waiting" in line for line in running.stdout)
    error = ""
    for number in signals:
        running.send_signal(number)
        while "stopping" not in error:
            error += next(running.stderr)
    error += running.communicate()[1]
    assert running.returncode == 130
    message = [line for line in error.splitlines() if not line.startswith("[")]
    assert re.fullmatch("python -m workflows.rivers: .* out", message[-1])
    assert all(line.startswith("stopping") for line in message[:-1]), error
    assert list(tmp_path.iterdir()) == [tmp_path / "rivers.py"]
