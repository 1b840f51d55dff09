"""The folder of a run, filled only when all is done, and the folder of what it needs on the way."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unfinished(out: Path) -> Iterator[Path]:
    """Yield a folder within ``out`` that is gone afterwards, whatever happens."""
    existed = out.exists()
    if existed and not out.is_dir():
        raise NotADirectoryError(f"--out {out} is a file, but a folder is needed")
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=out))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        if not existed and not any(out.iterdir()):
            out.rmdir()


@contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """Yield a new folder that is gone afterwards, in the system's place, or in ``parent``, made where it is missing."""
    if parent is not None:
        if parent.exists() and not parent.is_dir():
            raise NotADirectoryError(f"--scratch {parent} is a file, but a folder is needed")
        parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dspectral-", dir=parent) as folder:
        yield Path(folder)


def publish(folder: Path, out: Path) -> None:
    """Move everything into ``out``, in place of what was there; ``report.json`` last."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == "report.json"):
        target = out / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)
