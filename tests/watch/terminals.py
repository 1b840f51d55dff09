"""A terminal as tests have it: what it shows, and the wait until it does."""

import io
import re
import time


class Terminal(io.StringIO):
    def isatty(self):
        return True


def wait_for(condition):
    """Wait until something is so, which takes a moment; the deadline only ends a test that hangs."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def plain(text):
    """A text without what moves the cursor and colors words."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
