"""Beside the data, the machine, the libraries and the code itself decide the bits of a result."""

from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from dspectral.engine.blas import blas_kinds
from dspectral.engine.cluster.asking import addresses_of, asked
from dspectral.engine.cluster.clients import Client

LIBRARIES = ("numpy", "scipy", "numba")
PATIENCE = 5.0
"""Seconds that workers have for an answer; those that were silent for so long are not asked."""


@cache
def kind_of_machine() -> str:
    """Return what else than the data may change bits: BLAS, the processor that loops are compiled for, versions."""
    from dspectral._machine_code import cpu_of_loops  # noqa: PLC0415  Numba is imported with it

    return "; ".join([cpu_of_loops(), blas_kinds(), *(f"{name} {version(name)}" for name in LIBRARIES)])


@cache
def code_digest() -> str:
    """Return a digest of the code of dspectral: what another version left is not found by this one."""
    root = Path(__file__).parents[2]
    seen = blake2b(digest_size=16)
    for path in sorted(root.rglob("*.py")):
        seen.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return seen.hexdigest()


def kinds_on(client: Client | None) -> list[str]:
    """Return the kinds of the machines that compute."""
    if client is None:
        return [kind_of_machine()]

    heard = asked(client, client.run_on_scheduler, addresses_of, seconds=PATIENCE)
    question = {"workers": heard, "on_error": "return", "seconds": PATIENCE}
    answers = asked(client, client.run, kind_of_machine, **question) if heard else None
    kinds = {one for one in (answers or {}).values() if isinstance(one, str)}
    return sorted(kinds) or [kind_of_machine()]
