"""Take the screenshots of the gallery: ``python -m tools.screenshots``, after ``make docs``.

The demo is run with two workers; the dashboard is photographed while it works, its output and report after that. What
is not there (Chromium, the built documentation) is left out with a sentence. The gallery then lists what there is.
"""

import re
import shutil
import subprocess
import sys
import time
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
CAPTIONS = {
    "demo": "`dspectral demo` in a terminal",
    "report": "the report that the demo writes, `out/demo/report.html`",
    "dashboard": "the dashboard while the demo runs",
    "explore": "the page of `dspectral explore`",
    "front": "the front page of this documentation",
    "notebook": "a notebook",
}
TERMINAL = """<meta charset="utf-8"><body style="margin:0;background:#16181c"><pre style="margin:0;padding:24px;
color:#d7dae0;font:15px/1.45 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap">{}</pre>"""


def main() -> None:
    """Take them all, and write the gallery."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print("screenshots: there is no Chromium on the path; the gallery stays as it is")
        return
    run_demo(browser)
    pages = {
        "report": ROOT / "out" / "demo" / "report.html",
        "explore": ROOT / "out" / "explore" / "explore.html",
        "front": ROOT / "out" / "docs" / "index.html",
        "notebook": ROOT / "out" / "docs" / "notebooks" / "01_sentence_representations.html",
    }
    for name, page in pages.items():
        if page.exists():
            shoot(browser, name, page.as_uri())
        else:
            print(f"screenshots: {page.relative_to(ROOT)} is not there, so {name}.png is not taken")
    write_gallery()


def shoot(browser: str, name: str, url: str, height: int = 1000) -> None:
    """Photograph a page."""
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=8000",
    ]
    target = IMAGES / f"{name}.png"
    command = [browser, *options, f"--window-size=1400,{height}", f"--screenshot={target}", url]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    print(target.relative_to(ROOT))


def run_demo(browser: str) -> None:
    """Run the demo, and photograph the dashboard meanwhile and the terminal after it."""
    command = [sys.executable, "-m", "workflows.demo", "--out", str(ROOT / "out" / "demo"), "--workers", "2"]
    lines: list[str] = []
    found = None
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as demo:
        reader = Thread(target=lambda: lines.extend(demo.stdout or ()))
        reader.start()
        while demo.poll() is None and not (found := re.search(r"http://[\w.]+:\d+", "".join(lines))):
            time.sleep(0.5)
        if found:
            time.sleep(15)
            shoot(browser, "dashboard", f"{found[0]}/{dashboard_page(found[0])}")
        demo.wait()
        reader.join()
    with TemporaryDirectory() as folder:
        page = Path(folder, "terminal.html")
        page.write_text(TERMINAL.format(escape("".join(lines).expandtabs())), encoding="utf-8")
        shoot(browser, "demo", page.as_uri(), height=80 + 22 * min(len(lines), 60))


def dashboard_page(address: str) -> str:
    """Return the page of the dashboard that is ours, or Dask's own first page where that is missing."""
    try:
        with urlopen(f"{address}/spectral", timeout=10):  # noqa: S310  http, of this machine
            return "spectral"
    except URLError:
        return "status"


def write_gallery() -> None:
    """Write the page that shows what there is."""
    parts = [
        "# Gallery",
        "",
        "Screenshots from headless Chromium. `python -m tools.screenshots` takes them anew.",
    ]
    for name, caption in CAPTIONS.items():
        if (IMAGES / f"{name}.png").exists():
            parts += ["", f"## {caption[0].upper()}{caption[1:]}", "", f"![{caption}](images/{name}.png)"]
    (ROOT / "docs" / "gallery.md").write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
