"""Show that the tests notice when a line that matters is wrong: each mutation of ``tools/mutants.toml`` must be killed.

``python -m tools.mutants`` changes one place at a time in a copy of the tree, and runs the few tests that are named
beside the mutation. A mutation that they do not notice survived: a test is missing. One whose text is not in its
file exactly once is stale: the code has moved on, and the list must follow. ``python -m tools.mutants --random 100``
draws others from all rooms, by operator, and runs the tests of the room.
"""

import argparse
import ast
import copy
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")
LEFT_OUT = (".git", ".venv*", ".*_cache", ".hypothesis", "out", "*.egg-info", ".coverage*")
"""What no test reads. Caches of compiled loops stay: a copy that had to compile them would take minutes."""
MINUTES = 5.0
"""How long the tests of one mutation may take; one that makes them hang is noticed, too."""
PASSED, FAILED = 0, 1
"""Exit codes of pytest."""


class Mutation(NamedTuple):
    """One wrong line: its name, a text that is in the file exactly once, what replaces it, and tests that notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


class Verdict(NamedTuple):
    """What became of a mutation: ``"killed"``, ``"SURVIVED"``, ``"STALE"`` or ``"BROKEN"``, why, and in which time."""

    word: str
    why: str = ""
    seconds: float = 0.0


def mutations(path: Path = LIST) -> list[Mutation]:
    """Read the list."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def stale(mutation: Mutation, root: Path = ROOT) -> str:
    """Say why a mutation cannot be made any more; nothing if it can."""
    path = root / mutation.file
    if not path.is_file():
        return f"there is no file {mutation.file}"
    times = path.read_text(encoding="utf-8").count(mutation.old)
    if times != 1:
        return f"its old text is {times} times in {mutation.file}, but it must be there exactly once"
    missing = [test for test in mutation.tests if not (root / test.partition("::")[0]).exists()]
    return f"there is no file {missing[0].partition('::')[0]}" if missing else ""


SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip
"""What takes the place of a comparison or a sign."""


def wrong_form(node: ast.AST) -> tuple[str, ast.AST] | None:
    """Return the operator of a mutation of a node of source and its wrong form, if there is one."""
    wrong = copy.copy(node)
    match wrong:
        case ast.Compare(ops=[one, *others]) if type(one) in SWAPS:
            wrong.ops = [SWAPS[type(one)](), *others]
            return "comparison", wrong
        case ast.BinOp(op=one) | ast.AugAssign(op=one) if type(one) in SWAPS:
            wrong.op = SWAPS[type(one)]()
            return "sign", wrong
        case ast.UnaryOp(op=ast.USub()):
            return "sign", wrong.operand
        case ast.Constant(value=bool() | int() | float() as value):
            wrong.value = not value if isinstance(value, bool) else value + 1
            return "constant", wrong
        case ast.Expr(value=ast.Call()) | ast.Assign() | ast.AugAssign() | ast.Raise():
            return "statement", ast.Pass()
    return None


def room_tests(file: str, root: Path = ROOT) -> tuple[str, ...]:
    """Return the doctests of a file, and the tests of its room, those first that name the file, or import it."""
    *rooms, name = Path(file).with_suffix("").parts[1:]
    while rooms and not root.joinpath("tests", *rooms).is_dir():
        name = rooms.pop()
    room, module = root.joinpath("tests", *rooms), file.removesuffix(".py").replace("/", ".")
    texts = {one: one.read_text(encoding="utf-8") for one in root.joinpath("tests").rglob("test_*.py")}
    near = room.rglob("test_*.py") if rooms else (one for one in room.glob("test_*.py") if name in texts[one])
    named = {*near, *(one for one, text in texts.items() if module in text)}
    found = sorted(named, key=lambda one: (name not in one.stem, -texts[one].count(name), one))
    of_room = [str(one.relative_to(root)) for one in found]
    return (file, *of_room, *(["tests/test_contracts.py"] if "methods" in rooms or not of_room else []))


def drawn(n: int, seed: int, root: Path = ROOT) -> list[Mutation]:
    """Draw mutations at random: the operator first, then a place of it in any file."""
    places: dict[str, list[tuple[str, str, Any, ast.AST]]] = {}
    for path in sorted((root / "dspectral").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if found := wrong_form(node):
                places.setdefault(found[0], []).append((str(path.relative_to(root)), source, node, found[1]))
    rng, chosen = np.random.default_rng(seed), []
    for operator in rng.choice(sorted(places), size=n):
        file, source, node, wrong = places[operator][rng.integers(len(places[operator]))]
        lines = source.encode().splitlines(keepends=True)  # offsets count bytes
        before = b"".join([*lines[: node.lineno - 1], lines[node.lineno - 1][: node.col_offset]]).decode()
        after = b"".join([lines[node.end_lineno - 1][node.end_col_offset :], *lines[node.end_lineno :]]).decode()
        new = ast.unparse(wrong)
        name = f"{operator} in line {node.lineno}: {ast.unparse(node):.70} -> {new:.70}"
        text = f"({new})" if isinstance(node, ast.expr) else new
        chosen.append(Mutation(name, file, source, before + text + after, room_tests(file, root)))
    return chosen


def run_tests(tree: Path, tests: Sequence[str], **environment: str) -> Verdict:
    """Run tests in a copy of the tree."""
    # No byte code is written: a mutated file of the same size and second would be taken for the sound one.
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(tree),
        **environment,
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, check=False, timeout=60 * MINUTES
        )
    except subprocess.TimeoutExpired:
        return Verdict("killed", f"its tests did not end in {MINUTES:g} minutes", 60 * MINUTES)
    seconds = time.perf_counter() - start
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))] or ["", ""]
    if done.returncode in (PASSED, FAILED) or done.returncode < 0:  # a signal ends whoever ran the wrong line
        return Verdict("SURVIVED" if done.returncode == PASSED else "killed", lines[0][:150], seconds)
    # Nothing was collected, or it cannot be imported: that says nothing about the tests.
    return Verdict("BROKEN", f"pytest ended with {done.returncode}: {lines[0]} {done.stderr[-300:]}", seconds)


def tried(mutation: Mutation, tree: Path) -> Verdict:
    """Make a mutation in a copy of the tree, run its tests, and take it back."""
    if why := stale(mutation, tree):
        return Verdict("STALE", why)
    path = tree / mutation.file
    sound, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(sound.replace(mutation.old, mutation.new), encoding="utf-8")
    # Loops that call a loop of another file keep its machine code: they are compiled anew.
    cache = {"NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=tree)} if "@compiled" in sound else {}
    try:
        return run_tests(tree, mutation.tests, **cache)
    finally:
        for folder in cache.values():
            shutil.rmtree(folder)
        path.write_text(sound, encoding="utf-8")
        # With its old time, so that what was compiled of it before is taken again.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def trials(chosen: Sequence[Mutation], n_jobs: int) -> Iterator[tuple[Mutation, Verdict]]:
    """Yield the verdict of each mutation, each job in a copy of the tree of its own."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(n_jobs) as pool:
        trees: queue.Queue[Path] = queue.Queue()
        for job in range(n_jobs):
            trees.put(shutil.copytree(ROOT, Path(folder, str(job)), ignore=shutil.ignore_patterns(*LEFT_OUT)))

        def one(mutation: Mutation) -> Verdict:
            tree = trees.get()
            try:
                return tried(mutation, tree)
            finally:
                trees.put(tree)

        # First of all: tests that fail on sound code would kill everything.
        sound = run_tests(trees.queue[0], sorted({test for one in chosen for test in one.tests}))
        if sound.word != "SURVIVED":
            raise SystemExit(f"tests fail without any mutation: {sound.why}")
        print(f"sound code passes their tests in {sound.seconds:.0f} s", flush=True)
        yield from zip(chosen, pool.map(one, chosen), strict=True)


def main() -> int:
    """Try the mutations that are asked for; return 1 if one was not killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutations whose name or file has one of these words")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutations tried at a time")
    parser.add_argument("--list", action="store_true", help="name them, and whether they are stale")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many drawn ones of all rooms instead")
    parser.add_argument("--seed", type=int, default=2026, help="of what is drawn")
    options = parser.parse_args()
    chosen = [
        one
        for one in (drawn(options.random, options.seed) if options.random else mutations())
        if not options.words or any(word in f"{one.name} {one.file}" for word in options.words)
    ]
    if options.list:
        verdicts = [(one, Verdict("STALE" if (why := stale(one)) else "ready", why)) for one in chosen]
    else:
        verdicts = []
    start = time.perf_counter()
    for one, verdict in verdicts or trials(chosen, options.jobs):
        print(f"{verdict.word:8} {verdict.seconds:5.1f} s  {one.name} ({one.file}) {verdict.why}", flush=True)
        verdicts += [] if options.list else [(one, verdict)]
    n_right = sum(verdict.word in ("killed", "ready") for _, verdict in verdicts)
    word = "ready" if options.list else "killed"
    print(f"{n_right} of {len(chosen)} mutations {word}, in {time.perf_counter() - start:.0f} s")
    return int(n_right < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
