"""A fresh process that reads edited metadata by every door, and reports what Python's audit hook has seen.

``python -m tests.trust.audit KINDS FOLDER SEED N`` edits strings in the metadata of each kind, computes the seals anew,
and prints the events, and the doors of which it does not know how to use them. N is how many strings the seed draws
beside the telling ones; 0 stands for every string with one of five payloads, and -1 for every string with each.
"""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

WATCHED = (
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn", "subprocess.Popen",
    "ctypes.dlopen", "socket.connect", "webbrowser.open", "urllib.Request",
)  # fmt: skip
FILES = (
    "open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link",
    "os.symlink", "shutil.rmtree", "shutil.move", "glob.glob",
)  # fmt: skip
DANGEROUS = {
    "os",
    "posix",
    "nt",
    "subprocess",
    "sys",
    "shutil",
    "importlib",
    "runpy",
    "pty",
    "socket",
    "planted",
    "ctypes",
}
CALLS = {("builtins", name) for name in ("eval", "exec", "compile", "open", "__import__")}
PLANTED = """
from pathlib import Path
TRACE = Path(__file__).with_name("executed")
TRACE.touch()
def run(text):
    TRACE.touch()
    return text.split()
"""


class Watch:
    """The audit hook: events while it is armed that no door has a reason for."""

    def __init__(self, allowed: list[str], work: Path) -> None:
        self.work = os.path.realpath(work)
        self.allowed = tuple(os.path.realpath(path) for path in allowed)
        self.events: list[str] = []
        self.armed, self.door, self.busy = False, "", threading.local()
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed or getattr(self.busy, "here", False):
            return
        self.busy.here = True
        try:
            if self.is_wrong(event, arguments):
                self.events.append(f"{self.door}: {event} {arguments[0]!r:.120}")
        finally:
            self.busy.here = False

    def is_wrong(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event in WATCHED:
            return arguments[0] is not None and not is_of_numba()
        if event == "pickle.find_class":  # Dask pickles in this process what it computes names of
            return arguments[0].split(".")[0] in DANGEROUS or arguments in CALLS
        if event == "import":
            return arguments[0].split(".")[0] not in sys.modules
        if event == "exec":
            name = getattr(arguments[0], "co_filename", "")
            return not (name.startswith("<") or self.is_inside(name)) or b"planted" in repr(arguments[0]).encode()
        if event in FILES:
            return isinstance(arguments[0], str | bytes | os.PathLike) and not self.is_inside(arguments[0])
        return False

    def is_inside(self, path: Any) -> bool:
        known = os.path.realpath(os.fsdecode(path))
        return known == self.work or known.startswith(self.allowed)


def is_of_numba() -> bool:
    """Report whether compiled loops are read from their cache, which is this machine's own."""
    frame = sys._getframe()
    while frame is not None:
        if "numba" in frame.f_code.co_filename or "_compiled" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def payloads(value: str, outside: Path) -> list[str]:
    """Return what a sender writes in the place of a string: code that is imported, and places outside."""
    return ["planted:run", "os:system", f"../outside/{value}", str(outside), f"file://{outside}"]


def is_telling(name: str, path: tuple[Any, ...], new: str) -> bool:
    """Report whether an edit is one of the few that were found to run code, or to leave the folder."""
    of_root = name == "zarr.json" and "appended" not in path
    code = path[-1] == "tokenizer" and new == "planted:run"
    block = path[-3:] == ("blocks", 0, 0) and new.startswith("../outside")
    store = path[-1] == "store" and new.endswith("/outside") and new[0] == "/"
    return of_root and (code or block or store or path[-3:] == ("dspectral_model", "attributes", "memory"))


def main(kinds: str, folder: str, seed: str, number: str) -> None:
    """Edit the metadata of some kinds, separated by commas."""
    found = [audit(kind, Path(folder) / kind, int(seed), int(number)) for kind in kinds.split(",")]
    print(json.dumps(dict(zip(kinds.split(","), found, strict=True))))  # noqa: T201


def audit(kind: str, place: Path, seed: int, number: int) -> dict[str, Any]:  # noqa: PLR0915  one step after the other
    """Return what was seen of one kind."""
    place.mkdir()
    (place / "planted.py").write_text(PLANTED)
    sys.path.insert(0, str(place))
    import dask  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    from tests.trust.doors import KINDS, metadata_of, write_metadata  # noqa: PLC0415
    from tests.trust.edits import estimators_of, paths_of, value_at, with_value  # noqa: PLC0415

    dask.config.set(scheduler="sync")
    warnings.simplefilter("ignore")
    make, uses = KINDS[kind]
    # The names end as those of the kind do, and the copy outside has the name that paths lead to.
    ending = Path(kind).suffix
    original, work, outside = place / f"original{ending}", place / "work", place / "work" / "outside"
    inside = work / f"inside{ending}"
    make(str(original))
    shutil.copytree(original, outside)
    cache = os.environ.get("NUMBA_CACHE_DIR", str(Path("~/.cache").expanduser()))
    system = [
        sys.prefix,
        sys.base_prefix,
        "/usr",
        "/lib",
        "/proc",
        "/sys",
        "/dev/null",
        "/dev/urandom",
        cache,
    ]
    tempfile.tempdir = str(place / "temporary")
    (place / "temporary").mkdir()
    own = [
        str(Path(__file__).parents[2]),
        str(inside),
        tempfile.tempdir,
        "/etc/localtime",
        f"{original}-counts",
    ]
    watch = Watch([*system, *own], work)
    unknown: set[str] = set()

    def go_through() -> None:
        try:
            for watch.door, use in uses(str(inside)):
                try:
                    use()
                except NotImplementedError as error:
                    unknown.add(str(error))
                except Exception:  # noqa: BLE001, S112  refused
                    continue
        except Exception:  # noqa: BLE001  refused as it was opened
            return

    metadata = metadata_of(original)
    places = {(path, value_at(content, path)): name for name, content in metadata.items() for path in paths_of(content)}
    # Metadata of arrays and blocks are alike: each string is edited once, by each payload in turn.
    mutants = [
        (name, path, new)
        for number_of, ((path, value), name) in enumerate(places.items())
        for turn, new in enumerate(payloads(value, outside))
        if turn == number_of % 5 or is_telling(name, path, new) or number < 0
    ]
    # An attribute that no fit sets: a folder of joblib's pickles, which a Pipeline would read.
    mutants += [
        (name, (*path, part, "memory"), f"{original}-cache")
        for name, content in metadata.items()
        for path in estimators_of(content)
        for part in ("attributes", "parameters")
    ]
    if number > 0:
        rng = np.random.default_rng(seed)
        some = [mutants[i] for i in rng.permutation(len(mutants))[:number].tolist()]
        mutants = [*(one for one in mutants if is_telling(*one)), *some]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for mutant in [None, None, *mutants]:
            for path in work.glob("inside*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(original, inside)
            if mutant is not None:
                name, path, new = mutant
                write_metadata(inside, name, with_value(metadata[name], path, new))
            # What is not edited is read first: modules that the doors need are there then.
            watch.armed = mutant is not None
            count = len(watch.events)
            go_through()
            watch.armed = False
            watch.events[count:] = [f"{one}, where {mutant} was" for one in watch.events[count:]]
    return {
        "mutants": len(mutants),
        "events": watch.events,
        "unknown": sorted(unknown),
        "executed": (place / "executed").exists(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
