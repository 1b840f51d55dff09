"""What it takes this machine to send bytes from one process to another."""

import socket
import threading
import time
from statistics import median

BYTES = 32 << 20
"""Sent at a time: more than what caches and buffers of the system hold."""
TIMES = 3


def byte_seconds() -> float:
    """Measure the seconds of a processor that one byte takes from one process to another.

    >>> 0.0 < byte_seconds() < 1e-6
    True
    """
    content = bytes(BYTES)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sending,
        server.accept()[0] as receiving,
    ):
        return median(_sent(content, sending, receiving) for _ in range(TIMES)) / BYTES


def _sent(content: bytes, sending: socket.socket, receiving: socket.socket) -> float:
    """Send bytes through a connection, and return the seconds of this process meanwhile."""
    began = time.process_time()
    sender = threading.Thread(target=sending.sendall, args=(content,))
    sender.start()
    left = memoryview(bytearray(len(content)))
    while left:
        left = left[receiving.recv_into(left) :]
    sender.join()
    return time.process_time() - began
