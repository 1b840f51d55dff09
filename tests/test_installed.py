"""What a user gets who installs the wheel: the version, and types that mypy reads."""

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import dspectral

ROOT = Path(__file__).parent.parent
PROGRAM = """
import numpy as np

from dspectral import SketchedPCA, TruncatedSVD, open_store, save, summarize
from dspectral.datasets import low_rank_counts
from dspectral.engine import map_rows


def axes(path: str) -> float:
    store = open_store(path)
    pca = SketchedPCA(5, random_state=0).fit(store)
    save(pca, path + ".model")
    n_rows: int = store.n_rows
    return n_rows * 2.0


X = low_rank_counts(100, 20, 5, block_rows=50)
svd = TruncatedSVD(3).fit(X)
wrong = TruncatedSVD(n_components=None)
"""
SETTINGS = """
[mypy]
strict = True

[mypy-dask.*,distributed.*,fsspec.*,matplotlib.*,numba.*,sklearn.*,zarr.*]
follow_imports = skip
"""
"""Strict, but without a thousand modules of other packages that say nothing about this one."""


def test_the_version_is_said_in_one_place():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\w*)", dspectral.__version__)
    assert "version" not in re.findall(r"^(\w+) =", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An environment with the wheel, and with the packages of this one."""
    folder = tmp_path_factory.mktemp("installed")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
    ]
    subprocess.run([*build, str(folder), str(ROOT)], check=True)
    venv.create(folder / "venv", with_pip=False)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(site)
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(others) + "\n")
    return folder / "venv" / "bin" / "python"


@pytest.mark.slow
def test_a_users_program_is_checked_against_the_types_of_the_wheel(python, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    mypy = [sys.executable, "-m", "mypy", "--no-incremental", "--python-executable", str(python)]
    found = subprocess.run([*mypy, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = re.findall(r"program.py:(\d+): error: (.*)", found.stdout)
    assert [int(line) for line, _ in errors] == [
        PROGRAM.split("\n").index("wrong = TruncatedSVD(n_components=None)") + 1
    ], found
    assert "n_components" in errors[0][1]
