"""File systems of URLs, with a test whether their endpoint answers."""

import os
import socket
import time
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dspectral.engine.around.callbacks import get_current_worker
from dspectral.engine.around.retries import ENDPOINT_ADVICE, N_ATTEMPTS

CONNECT_SECONDS = 4.0
"""Seconds in which an endpoint must accept a first connection."""
_ANSWERED: set[tuple[str, int]] = set()
"""Hosts and ports that have accepted a connection of this process."""


def open_file_system(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the file system of fsspec for a URL, and the path in it; raise ConnectionError for a wrong endpoint."""
    import fsspec  # noqa: PLC0415  slow

    file_system, path = fsspec.url_to_fs(url, **options)
    inner = file_system
    while (wrapped := getattr(inner, "sync_fs", getattr(inner, "fs", None))) is not None:
        inner = wrapped
    if "s3" in inner.protocol:
        variables = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        in_options = (inner.endpoint_url, (inner.client_kwargs or {}).get("endpoint_url"))
        endpoint = next(filter(None, (*in_options, *variables)), None)
        if endpoint is not None and not (inner.config_kwargs or {}).get("proxies"):
            _check_endpoint(endpoint)
    return file_system, path


def _check_endpoint(endpoint: str) -> None:
    """Raise ConnectionError if an endpoint accepts no connection. Clients of S3 try several times as long."""
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    if (host, port) in _ANSWERED or (parts.scheme in getproxies() and not proxy_bypass(host)):
        return
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            socket.create_connection((host, port), timeout=max(0.5, deadline - time.monotonic())).close()
        except OSError as error:
            if time.monotonic() + 0.5 < deadline:
                time.sleep(0.5)
                continue
            address = f"{parts.scheme}://{host}:{port}"
            refusal = ConnectionError(f"nothing answers at the S3 endpoint {address} ({error}){ENDPOINT_ADVICE}")
            if get_current_worker() is None:  # workers retry: the endpoint has answered the client
                setattr(refusal, N_ATTEMPTS, 1)
            raise refusal from None
        _ANSWERED.add((host, port))
        return
