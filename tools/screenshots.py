"""Take the screenshots of the gallery: ``python -m tools.screenshots``.

The demo is run with two workers, and its output and report photographed after that; the dashboard is photographed while
a worker of another fit is killed. What is not there (Chromium, a page) is left out with a sentence.
The gallery then lists what there is.
"""

import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.live_page import photograph_dashboard

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
CAPTIONS = {
    "topics": "3,000 docstrings of the Python standard library; each color is a topic, named by its words",
    "explore": "the page of `dspectral explore`: topics with their most typical documents",
    "report": "the report of `dspectral demo`, `out/demo/report.html`",
    "demo": "`dspectral demo` in a terminal",
    "dashboard": "a page of Dask's dashboard about fits, just after a worker was killed",
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
    photograph_dashboard(browser, IMAGES / "dashboard.png")
    pages = {
        "report": ROOT / "out" / "demo" / "report.html",
        "explore": ROOT / "out" / "explore" / "explore.html",
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
    """Run the demo, and photograph the terminal after it."""
    command = [sys.executable, "-m", "workflows.demo", "--out", str(ROOT / "out" / "demo"), "--workers", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    lines = (done.stdout + done.stderr).splitlines(keepends=True)
    with TemporaryDirectory() as folder:
        page = Path(folder, "terminal.html")
        page.write_text(TERMINAL.format(escape("".join(lines).expandtabs())), encoding="utf-8")
        shoot(browser, "demo", page.as_uri(), height=80 + 22 * min(len(lines), 60))


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
