"""Forgotten rows of a store on an S3 endpoint."""

import json

import pytest

from tests.cluster.network import BUCKET, Endpoint, why_no_s3
from tests.cluster.processes import Started, python

FORGET = """
import json, sys
from dspectral import forget, open_store
from tests.engine.recording import bits
from tests.store.test_forget import ESTIMATORS, N_ROWS, get_contents, write_store

bucket, options = json.loads(sys.argv[1])
for name, removed in {"one": [401], "hundred": [*range(300, 400)], "percent": [*range(3, N_ROWS, 100)]}.items():
    url, storage = f"{bucket}/{name}", {"storage_options": options}
    store = write_store(url, **storage)
    parts = f"memory://parts-{name}"
    ESTIMATORS["gram"].fit(store, checkpoints=parts)
    forget(url, removed, **storage)
    forgotten, expected = open_store(url, **storage), write_store(f"{url}-expected", removed, **storage)
    forgotten.check()
    assert get_contents(forgotten) == get_contents(expected)
    fitted = ESTIMATORS["gram"].fit(forgotten, checkpoints=parts)
    assert bits(fitted) == bits(ESTIMATORS["gram"].fit(expected))
    remaining = {f"blocks/{block}" for block in forgotten.location.list_names("blocks") if block != "zarr.json"}
    assert remaining == {block.name for block in forgotten.blocks}
    print("forgotten", name, flush=True)
"""


@pytest.mark.slow
def test_forget_on_an_s3_endpoint_leaves_the_bits_of_a_store_without_the_rows():
    if reason := why_no_s3():
        pytest.skip(reason)
    with Endpoint() as endpoint:
        # In a process of its own: s3fs keeps a thread and connections, which warn when this process ends.
        child = Started(python("-c", FORGET, json.dumps([f"s3://{BUCKET}", endpoint.options])))
        try:
            assert child.wait(600) == 0, child.lines[-9:]
        finally:
            child.kill()
