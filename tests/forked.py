"""Stands for ``subprocess``: commands of this interpreter in forked processes, where nothing is imported again."""

import os
import runpy
import sys
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from tempfile import TemporaryDirectory

from tests.schedulers import forks


def run(command, *, env=None, cwd=None, timeout=None, **_captured):
    """Run ``python FILE ...``, ``python -m MODULE ...`` or ``python -c CODE ...`` as ``subprocess.run`` does.

    Text is captured.
    """
    with TemporaryDirectory() as folder:
        said = [Path(folder, name) for name in ("out", "err")]
        process = forks().Process(target=_execute, args=(command[1:], env or {}, cwd or Path.cwd(), said))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutExpired(command, timeout)
        return CompletedProcess(command, process.exitcode, *(path.read_text() for path in said))


def _execute(words, env, cwd, said):
    for number, path in enumerate(said, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.environ.update(env)
    os.chdir(cwd)
    kind, what, *given = words if words[0].startswith("-") else ("", *words)
    sys.argv = [kind or what, *given]
    if not kind:
        runpy.run_path(what, run_name="__main__")
    elif kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102  the program of a test
