"""The folder of a run: filled only when all is done."""

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


def publish(folder: Path, out: Path) -> None:
    """Move everything into ``out``, in place of what was there; ``report.json`` last."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == "report.json"):
        target = out / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)
