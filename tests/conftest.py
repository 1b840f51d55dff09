"""What all tests share: objects of the imported packages and of the tests themselves are no garbage."""

import gc


def pytest_collection_finish():
    """Let the collector pass over what is there before the first test, which is most of what it would look at."""
    gc.collect()
    gc.freeze()
