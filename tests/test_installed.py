"""What a user gets who installs the wheel: the version, the programs, and types that mypy reads."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import dspectral

ROOT = Path(__file__).parent.parent
CONDA_NAMES = {"dask[array]": "dask-core", "lazy_loader": "lazy-loader", "matplotlib": "matplotlib-base"}
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

[mypy-anndata.*,bokeh.*,dask.*,distributed.*,fsspec.*,jinja2.*,matplotlib.*,numba.*,pandas.*,pyarrow.*,rich.*,scipy.*,sklearn.*,zarr.*]
follow_imports = skip
follow_imports_for_stubs = True
"""
"""Strict, but without a thousand modules of other packages that say nothing about this one."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def python(built, tmp_path_factory):
    """An environment with the wheel, and with the packages of this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=False)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (wheel,) = built.glob("*.whl")
    shutil.unpack_archive(wheel, site, "zip")
    others = [path for path in sys.path if path.endswith("site-packages")]
    # Packages of this environment, but not what its .pth files add: this checkout is among that.
    (site / "others.pth").write_text("\n".join(others) + "\n")
    return folder / "venv" / "bin" / "python"


def tracked(*folders):
    """The files of this repository, also those that are not committed yet."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in found if (ROOT / name).is_file()}


def test_the_wheel_has_the_library_and_the_programs_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
        (entries,) = [opened.read(n).decode() for n in opened.namelist() if n.endswith("entry_points.txt")]
    programs = {
        name.replace("workflows/", "dspectral/programs/", 1)
        for name in tracked("workflows")
        if not name.startswith("workflows/benchmarks/")
    }
    assert names == tracked("dspectral") | programs
    assert {"dspectral/programs/_form/page.html", "dspectral/py.typed", "dspectral/__init__.pyi"} <= names
    assert not any("benchmarks" in name for name in names)
    assert "dspectral = dspectral.__main__:main" in entries


def test_the_sdist_has_what_building_testing_and_citing_take(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert names >= tracked("dspectral", "workflows", "tests", "conda")
    assert {"CITATION.cff", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO"} <= names


def run_alone(python, folder, *arguments):
    """Run ``python -m dspectral`` away from this repository."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # Loops would be compiled anew beside the unpacked wheel, in three processes.
    environment |= {"COLUMNS": "100", "NUMBA_DISABLE_JIT": "1"}
    command = [str(python), "-m", "dspectral", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_wheel_command_lists_programs(python, tmp_path):
    listed = run_alone(python, tmp_path, "list")
    assert listed.returncode == 0, listed.stderr
    programs = {path.stem for path in (ROOT / "workflows").glob("[!_]*.py") if "def main(" in path.read_text()}
    assert len(programs) > 9
    for name in programs:
        assert re.search(rf"^{name.replace('_', '-')} +\w.*", listed.stdout, re.MULTILINE), listed.stdout
    assert run_alone(python, tmp_path, "--version").stdout == f"dspectral {dspectral.__version__}\n"


@pytest.mark.slow
def test_a_program_of_the_wheel_runs_with_workers_in_an_empty_folder(python, tmp_path):
    (tmp_path / "lines.txt").write_text("the cat sat\non the mat\nno more\n" * 9)
    given = ["--text", "lines.txt", "--store", "s.zarr", "--columns-bits", "8", "--block-bytes", "60"]
    done = run_alone(python, tmp_path, "build_store", *given, "--workers", "1")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "build_store" / "report.json").read_text())
    assert {row["metric"]: row["value"] for row in report["rows"]}["rows"] == 27
    assert len(report["memory"]["processes"]) == 2
    assert "data:image/png" in (tmp_path / "out" / "build_store" / "report.html").read_text()


def test_the_recipe_for_conda_agrees_with_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    here = project["project"]
    assert recipe["context"] == {
        "version": dspectral.__version__,
        "python_min": here["requires-python"].removeprefix(">="),
    }
    pinned = [re.fullmatch(r"([^>]+)(>=.*)", one).groups() for one in here["dependencies"]]
    actual = {CONDA_NAMES.get(name, name): version for name, version in pinned}
    reference = dict(one.split(" ", 1) for one in recipe["requirements"]["run"])
    assert reference.pop("python") == ">=${{ python_min }}"
    assert reference == actual
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {place}" for name, place in here["scripts"].items()]
    assert recipe["about"]["license"] == here["license"]
    assert [recipe["about"]["license_file"]] == here["license-files"]


@pytest.mark.slow
def test_a_users_program_is_checked_against_the_types_of_the_wheel(python, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    mypy = [sys.executable, "-m", "mypy", "--no-incremental", "--python-executable", str(python)]
    actual = subprocess.run([*mypy, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = re.findall(r"program.py:(\d+): error: (.*)", actual.stdout)
    assert [int(line) for line, _ in errors] == [
        PROGRAM.split("\n").index("wrong = TruncatedSVD(n_components=None)") + 1
    ], actual
    assert "n_components" in errors[0][1]
