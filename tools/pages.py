"""The code of the pages: run it as a reader would, and write beneath each block what it printed.

A page is run in an empty folder, its ``python`` blocks one after the other. What a block prints stands beneath it in an
``output`` block, with ``...`` for what differs between machines; a block without one prints nothing. A block after the
line ``<!-- needs: gensim -->`` runs where that package is installed. ``python tools/pages.py docs/start.md`` writes the
outputs of a page anew.
"""

import argparse
import doctest
import importlib
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PARTS = re.compile(
    r"^(?:<!-- needs: (?P<needs>[^>]+?) -->\n+)?```python\n(?P<code>.*?)^```\n(?:\n```output\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
STAGED = ("notebooks", "api", "changelog.md", "contributing.md")
"""Of the pages, those that are made of what stands elsewhere."""


class Block(NamedTuple):
    """A piece of code on a page, and what it should print."""

    line: int
    code: str
    output: str
    needs: tuple[str, ...]
    span: tuple[int, int]

    @property
    def missing(self) -> list[str]:
        """Packages that the block needs and that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


class Ran(NamedTuple):
    """A block that ran, and what it printed."""

    block: Block
    printed: str

    @property
    def as_shown(self) -> bool:
        """Whether the page shows what was printed."""
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        return doctest.OutputChecker().check_output(self.block.output, self.printed, flags)


def pages() -> list[str]:
    """Return the pages with code of their own, by their names in the repository."""
    found = [path.relative_to(ROOT) for path in sorted((ROOT / "docs").rglob("*.md"))]
    written = [str(path) for path in found if path.parts[1] not in STAGED]
    return ["README.md", "CONTRIBUTING.md", *written]


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page in their order."""
    found = []
    for part in PARTS.finditer(text):
        needs = tuple(name.strip() for name in (part["needs"] or "").split(",") if name.strip())
        line = text.count("\n", 0, part.start("code"))
        found.append(Block(line, part["code"], part["output"] or "", needs, part.span()))
    return found


def run(name: str, text: str, folder: Path) -> Iterator[Ran]:
    """Run the blocks of a page in a folder; those whose packages are missing are left out."""
    names: dict[str, Any] = {"__name__": name}
    for block in blocks(text):
        if not block.missing:
            code = compile("\n" * block.line + block.code, name, "exec")
            with chdir(folder), importable(folder), redirect_stdout(io.StringIO()) as printed:
                exec(code, names)  # noqa: S102  our own pages
            yield Ran(block, printed.getvalue())


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let Python import what lies in a folder, as it does for a script there."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def with_outputs(text: str, ran: list[Ran]) -> str:
    """Return a page that shows what its blocks printed, where it does not do so already."""
    for block, printed in reversed([one for one in ran if not one.as_shown]):
        begin, end = block.span
        part = text[begin:end]
        head = part[: part.index("```python\n")] + f"```python\n{block.code}```\n"
        text = text[:begin] + head + (f"\n```output\n{printed}```\n" if printed else "") + text[end:]
    return text


def main() -> None:
    """Write outputs into the pages that the command names."""
    parser = argparse.ArgumentParser(description="write beneath each block of pages what it prints")
    parser.add_argument("pages", nargs="*", type=Path, default=[ROOT / name for name in pages()])
    for path in parser.parse_args().pages:
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            ran = list(run(path.name, text, Path(folder)))
        path.write_text(with_outputs(text, ran), encoding="utf-8")
        left_out = sorted({name for block in blocks(text) for name in block.missing})
        print(path, f"{len(ran)} blocks", f"without {', '.join(left_out)}" if left_out else "")


if __name__ == "__main__":
    main()
