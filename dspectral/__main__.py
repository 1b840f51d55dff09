"""The command ``dspectral``, which lists and runs the programs.

Programs are the modules with a ``main`` in ``dspectral/programs/``, or in ``workflows/`` of a checkout.
"""

import argparse
import ast
import sys
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dspectral

INSTALLED = Path(__file__).parent / "programs"
CHECKOUT = Path(__file__).parents[1] / "workflows"


def list_programs(folder: Path) -> dict[str, str]:
    """Return the name of each program in a folder, and the first sentence of its description."""
    sentences = {}
    for path in sorted(folder.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            paragraph = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
            sentences[path.stem.replace("_", "-")] = paragraph.partition(". ")[0].rstrip(".") + "."
    return sentences


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    folder = INSTALLED if INSTALLED.is_dir() else CHECKOUT
    sentences = list_programs(folder)
    parser = _make_parser()
    arguments = parser.parse_args(argv)
    name = (arguments.program or "").replace("_", "-")
    if not name:
        parser.print_help()
        _print_programs(sentences)
    elif name == "list":
        _print_programs(sentences)
    elif name == "warm":
        _compile_loops()
    elif name in sentences:
        _run(folder, name, arguments.options)
    else:
        matches = get_close_matches(name, [*sentences, "list", "warm"], n=1, cutoff=0.5)
        hint = f"did you mean {matches[0]}?" if matches else "`dspectral list` shows all programs"
        parser.exit(2, f"dspectral: error: {arguments.program} is not a program: {hint}\n")


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "dspectral",
        description="Spectral learning on text that does not fit in memory.",
        epilog="`dspectral list` shows all programs, `dspectral PROGRAM --help` the options of one; `dspectral warm` "
        "compiles the loops of the main methods into the cache.",
    )
    parser.add_argument("--version", action="version", version=f"dspectral {dspectral.__version__}")
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="name of a program, list or warm")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="OPTIONS", help="options of the program")
    return parser


def _print_programs(sentences: Mapping[str, str]) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("program", no_wrap=True)
    table.add_column("what it does")
    for name, sentence in sentences.items():
        table.add_row(name, Text(sentence))
    Console().print(table)


def _compile_loops() -> None:
    """Fit the main methods to a small text, so that Numba's disk cache holds their loops."""
    compiled = import_module("dspectral._compiled")  # NumPy is slow to import
    seconds: list[float] = []
    compiled.LISTENERS.append(lambda _loop, _module, time: None if time is None else seconds.append(time))
    data = dspectral.datasets.standard_library_intents(5, seed=0)
    rows = range(0, len(data.train_texts), 1 + len(data.train_texts) // 400)
    texts, labels = ([column[row] for row in rows] for column in (data.train_texts, data.train_labels))
    vocabulary = dspectral.VocabularySettings()
    with TemporaryDirectory() as folder:
        store = dspectral.build_store(dspectral.Texts(texts), f"{folder}/store.zarr", vocabulary=vocabulary)
        dspectral.Topics(5, stop_words="english").fit(store)
        dspectral.explore(texts=texts)
        dspectral.IntentClassifier().fit(texts, labels).predict(texts)
        dspectral.MomentMultiLabelClassifier(5).fit(store, [[label] for label in labels]).predict(store)
        for model in (dspectral.TruncatedSVD(5), dspectral.SketchedPCA(5)):
            dspectral.nearest(model.fit(store.tfidf()), store, texts[0])
    with suppress(OSError):  # without a marker, interactive sessions try again
        marker = compiled.get_warm_marker()
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    print(f"{len(seconds)} loops compiled in {sum(seconds):.0f} s")  # noqa: T201


def _run(folder: Path, name: str, options: list[str]) -> None:
    """Call the ``main`` of a program, whose messages then begin with ``dspectral NAME``."""
    package = "dspectral.programs"
    if folder == CHECKOUT:
        package = folder.name
        sys.path.insert(0, str(folder.parent))
    try:
        command = import_module(f"{package}._form.options").COMMAND
        started = command.set((f"dspectral {name}", options))
        try:
            import_module(f"{package}.{name.replace('-', '_')}").main(options)
        finally:
            command.reset(started)
    except KeyboardInterrupt:  # during the import, before the program handles it
        sys.stderr.write(f"dspectral {name}: interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
