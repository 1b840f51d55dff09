"""``python -m tests.bad_inputs N SEED [rows|texts|functions|readers]``: try N inputs, and print what went wrong."""

# ruff: noqa: T201

import sys
from collections import Counter

from tests.bad_inputs.trying import failures


def main() -> int:
    n, seed = int(sys.argv[1]), int(sys.argv[2])
    only = sys.argv[3] if len(sys.argv) > 3 else None
    found = []
    for failure in failures(n, seed, only):
        print(f"{failure.number}  {failure.input}\n      {failure.fault}", flush=True)
        found.append(failure)
    print(f"{n} inputs of seed {seed}: {len(found)} failed")
    for kind, count in Counter(f.fault.partition(":")[0] for f in found).most_common():
        print(f"  {count}  {kind}")
    return bool(found)


sys.exit(main())
