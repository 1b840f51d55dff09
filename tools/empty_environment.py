"""Install the wheel into an empty environment, and run there what a stranger runs first.

Builds sdist and wheel twice and compares their bytes, makes an environment with nothing but pip, asks twine about
both, holds the workflow file to its schema, renders the recipe for conda, installs the wheel from the package index,
and runs in an empty folder, away from this repository: the Python blocks of README.md, the command ``dspectral`` with
``list``, ``demo`` and ``explore``, and the first notebook. Prints what each step took; the first that fails ends it.

    python tools/empty_environment.py                 # in a folder that is gone afterwards
    python tools/empty_environment.py --keep out/empty
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = "".join(f"the {a} {b} on the mat\n" for a in ("cat", "dog", "ant") for b in ("sat", "ran")) * 200

RENDER = """
from rattler_build import Stage0Recipe, VariantConfig
(made,) = Stage0Recipe.from_file("conda/recipe.yaml").render(VariantConfig())
print("recipe:", made.recipe.package.name, made.recipe.package.version, made.recipe.requirements.run)
"""


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, and leave everything (default: no)")
    keep = parser.parse_args().keep
    if keep:
        keep.mkdir(parents=True)  # a folder that is there already may hold an environment that is not empty
    with nullcontext(str(keep)) if keep else tempfile.TemporaryDirectory(prefix="dspectral-") as folder:
        check(Path(folder).resolve())


def check(folder: Path) -> None:
    """Install, and run everything, within one folder."""
    with step("build sdist and wheel, twice"):
        for name in ("dist", "again"):
            build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder / name)]
            subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("dist/*.whl")
    built = sorted(folder.glob("dist/*"))
    if any(file.read_bytes() != (folder / "again" / file.name).read_bytes() for file in built):
        sys.exit(f"two builds of one tree differ: {', '.join(file.name for file in built)}")
    with step("make an empty environment and install the wheel"):
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, str(wheel)], check=True)
    with step("twine check, workflow file against its schema, recipe for conda rendered"):
        venv.create(folder / "twine", with_pip=True)
        checker = str(folder / "twine" / "bin" / "python")
        subprocess.run([checker, *install[1:], "twine", "check-jsonschema", "py-rattler-build"], check=True)
        workflow = [str(path) for path in (ROOT / ".github" / "workflows").glob("*.yml")]
        schema = ["check_jsonschema", "--builtin-schema", "vendor.github-workflows", *workflow]
        for call in (["-m", "twine", "check", "--strict", *map(str, built)], ["-m", *schema], ["-c", RENDER]):
            subprocess.run([checker, *call], cwd=ROOT, check=True)
    work = folder / "work"
    work.mkdir()
    (work / "text.txt").write_text(TEXT, encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    (work / "readme.py").write_text("\n".join(blocks), encoding="utf-8")
    command = str(folder / "venv" / "bin" / "dspectral")
    for name, arguments in {
        "the Python blocks of README.md": [python, "readme.py"],
        "dspectral list": [command, "list"],
        "dspectral demo": [command, "demo", "--out", "demo"],
        "dspectral explore": [command, "explore", "text.txt", "--out", "explore"],
    }.items():
        if "explore" in arguments and not (ROOT / "workflows" / "explore.py").exists():
            print(f"{name}: left out, for there is no such program")
            continue
        with step(name):
            run(arguments, work)
    first = sorted((ROOT / "notebooks").glob("00*.ipynb"))
    if not first:
        print("notebook 00: left out, for there is none")
    for notebook in first:
        with step(f"install the extra notebooks, and run {notebook.name}"):
            subprocess.run([*install, f"{wheel}[notebooks]"], check=True)
            convert = [python, "-m", "nbconvert", "--to", "notebook", "--execute", str(notebook)]
            run([*convert, "--output-dir", str(work / "notebooks")], work)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say what runs, and how long it took."""
    print(f"{name} ...", flush=True)
    start = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


def run(arguments: list[str], folder: Path) -> None:
    """Run a program that sees the new environment alone; where it fails, show what it said and exit."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    binaries = str(Path(arguments[0]).parent)
    environment["PATH"] = f"{binaries}{os.pathsep}{environment.get('PATH', '')}"
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} exits with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
