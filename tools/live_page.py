"""Photograph pages that live from a socket: headless Chromium is told when, over its own socket for developers.

``--screenshot`` waits for the end of all loading, which such a page has not, or takes it before there is anything.
"""

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

import dask
from distributed import Client, LocalCluster
from tornado.websocket import websocket_connect

from dspectral import TfidfWeighting, TruncatedSVD, show_dashboard
from dspectral.dashboard.plugin import NAME
from dspectral.datasets import low_rank_counts
from dspectral.engine.around.context import fit_context

OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]
N_BLOCKS, N_WORKERS = 96, 3
SETTLE_SECONDS = 0.7
"""From the moment that is waited for to the picture: the page is drawn anew that often."""


def photograph_dashboard(browser: str, target: Path, width: int = 1400, height: int = 680) -> None:
    """Photograph the page about fits just after a worker is killed."""
    with (
        # As the programs have it: a worker gets its next block only when it is free.
        dask.config.set({"distributed.scheduler.worker-saturation": 1.0}),
        LocalCluster(
            n_workers=N_WORKERS,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster) as client,
    ):
        link = show_dashboard(client)
        if link is None:
            return
        pids = client.run(os.getpid)
        work = Thread(target=fit_both)
        work.start()
        photograph(browser, link, target, (width, height), lambda: _is_lost(cluster.scheduler, pids))
        work.join()


def _is_lost(scheduler: Any, pids: dict[str, int]) -> bool:
    """Whether tasks run again; once, the worker that holds the summary of most blocks is killed."""
    for state in [state for fit in scheduler.plugins[NAME].history.get_running() for state in fit.running]:
        if state.started.name == "sketch" and state.done.n_blocks > N_BLOCKS // 2:
            keys = ((group, i) for group in reversed(state.started.merge_groups) for i in range(N_BLOCKS))
            merges = (scheduler.tasks[key] for key in keys if key in scheduler.tasks)
            held = next((merge for merge in merges if merge.who_has), None)
            if len(pids) == N_WORKERS and held is not None:
                os.kill(pids.pop(next(iter(held.who_has)).address), signal.SIGKILL)
            return bool(state.done.n_repeated)
    return False


def fit_both() -> None:
    """Weight counts, and sketch them, as one piece of work."""
    rows = low_rank_counts(N_BLOCKS * 2048, 4000, 20, row_length=60, block_rows=2048)
    with fit_context("weights and sketch"):
        TfidfWeighting().fit(rows)
        TruncatedSVD(20, solver="frequent_directions").fit(rows)


def photograph(
    browser: str,
    url: str,
    target: Path,
    size: tuple[int, int],
    is_ready: Callable[[], bool],
    patience: float = 120.0,
) -> None:
    """Open a page, wait until something has happened, and photograph what it shows then."""
    command = [browser, *OPTIONS, f"--window-size={size[0]},{size[1]}", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = next(filter(None, (re.search(r"ws://([\w.:]+)", line) for line in process.stderr or ())))[1]
            until = time.monotonic() + patience
            while not is_ready() and time.monotonic() < until:
                time.sleep(0.2)
            time.sleep(SETTLE_SECONDS)
            with urlopen(f"http://{address}/json/list", timeout=10) as answer:
                page = next(one for one in json.load(answer) if one["type"] == "page")
            target.write_bytes(asyncio.run(_capture(page["webSocketDebuggerUrl"], size)))
        finally:
            process.terminate()


async def _capture(address: str, size: tuple[int, int]) -> bytes:
    socket = await websocket_connect(address, max_message_size=1 << 28)
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    calls = [("Emulation.setDeviceMetricsOverride", metrics), ("Page.captureScreenshot", {"format": "png"})]
    answer: dict[str, Any] = {}
    for number, (method, params) in enumerate(calls):
        await socket.write_message(json.dumps({"id": number, "method": method, "params": params}))
        while answer.get("id") != number:
            answer = json.loads(await socket.read_message() or "{}")
        await asyncio.sleep(1.0)
    socket.close()
    return base64.b64decode(answer["result"]["data"])
