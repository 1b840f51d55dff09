"""Which machines compute: what decides the last bits of their results, and whether they fit together."""

import platform
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from socket import gethostname
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from dspectral.engine.blas import blas_kinds
from dspectral.engine.cluster.asking import addresses_of, asked
from dspectral.engine.cluster.clients import Client
from dspectral.engine.cluster.errors import ClusterError
from dspectral.engine.configuration import wants_same_bits
from dspectral.engine.events import LOGGER

PACKAGES = ("dspectral", "numpy", "scipy", "numba", "dask", "distributed", "zarr", "threadpoolctl")
HERE = "this process"
INTERVAL = 5.0
"""Seconds between two comparisons of one cluster, unless ``dspectral.same-bits`` is true."""
SHOWN = 3
"""Machines that a sentence names."""

Facts = Mapping[str, str]


class _Known:
    """Facts about the workers of one client."""

    def __init__(self) -> None:
        self.facts: dict[str, Facts] = {}
        self.hosts: dict[str, str] = {}
        self.asked = -INTERVAL
        self.told = ""


_KNOWN: "WeakKeyDictionary[Client, _Known]" = WeakKeyDictionary()


def facts() -> dict[str, str]:
    """Return what decides the last bits of results that this process computes.

    >>> facts()["Python"] == platform.python_version()
    True
    """
    from dspectral._machine_code import cpu_of_loops  # noqa: PLC0415  Numba is imported with it

    found = {"Python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # it is on the path without being installed
            found[package] = str(getattr(sys.modules.get(package), "__version__", "absent"))
    return found | {"BLAS": blas_kinds(), "Numba": cpu_of_loops()}


def compare_machines(client: Client) -> None:
    """Compare all workers of a cluster with each other and with this process; each is asked once."""
    known = _KNOWN.setdefault(client, _Known())
    strict = wants_same_bits()
    if not strict and time.monotonic() - known.asked < INTERVAL:
        return
    addresses = set(asked(client, client.run_on_scheduler, addresses_of) or ())
    known.asked = time.monotonic()
    new = addresses - known.facts.keys()
    if new:
        answers = asked(client, client.run, facts, workers=sorted(new), on_error="return") or {}
        _refuse_without_packages(answers)
        known.facts |= {address: one for address, one in answers.items() if isinstance(one, dict)}
        if near := sorted(filter(_is_loopback, new)):
            # A worker that dies meanwhile is the pass's matter: here it is one that is not known to be near.
            hosts = asked(client, client.run, gethostname, workers=near, on_error="return") or {}
            known.hosts |= {address: host for address, host in hosts.items() if isinstance(host, str)}
    known.facts = {address: known.facts[address] for address in addresses & known.facts.keys()}
    said = differences({HERE: facts()} | known.facts)
    if said and strict:
        raise ClusterError(
            f"dspectral.same-bits is true, but results may differ in their last bits: {said}; use machines of one kind "
            "(OPENBLAS_CORETYPE and NUMBA_CPU_NAME can make them so), or set dspectral.same-bits to false"
        )
    if said and said != known.told:
        sentence = f"machines of the cluster differ, and so may the last bits of results: {said}"
        LOGGER.warning("%s", sentence)
        warnings.warn(sentence, RuntimeWarning, stacklevel=2)
    known.told = said


def workers_are_here(client: Client) -> bool:
    """Report whether all workers of a cluster were on this machine when they were compared."""
    known = _KNOWN.setdefault(client, _Known())
    return bool(known.facts) and all(is_here(address, known.hosts.get(address)) for address in known.facts)


def is_here(address: str, host: str | None) -> bool:
    """Report whether a worker is one that this process reaches on this machine.

    >>> here = gethostname()
    >>> is_here("tcp://127.0.0.1:40123", here), is_here("tls://10.0.0.7:40123", here)
    (True, False)
    >>> is_here("tcp://127.0.0.1:40123", "node7")
    False
    """
    return host == gethostname() and _is_loopback(address)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(urlsplit(address).hostname or "").is_loopback
    except ValueError:  # a name, or no host at all
        return False


def differences(machines: Mapping[str, Facts]) -> str:
    """Return in what machines differ.

    >>> differences({"a": {"BLAS": "Haswell"}, "b": {"BLAS": "Haswell"}, "c": {"BLAS": "Prescott"}})
    'BLAS is Prescott on c, and Haswell on the 2 others'
    """
    parts = []
    for name in dict.fromkeys(name for one in machines.values() for name in one):
        values = {machine: one.get(name, "absent") for machine, one in machines.items()}
        (most, n_most), *others = Counter(values.values()).most_common()
        odd = [
            f"{value} on {_some([m for m, one in values.items() if one == value])}" for value, _n in others
        ]
        if odd:
            rest = "the other" if n_most == 1 else f"the {n_most} others"
            parts.append(f"{name} is {', '.join(odd)}, and {most} on {rest}")
    return "; ".join(parts)


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _refuse_without_packages(answers: Mapping[str, object]) -> None:
    """Raise an error if a worker cannot import what the question needs, which is what passes need."""
    failed = {address: error for address, error in answers.items() if isinstance(error, ImportError)}
    if failed:
        error = next(iter(failed.values()))
        raise ClusterError(
            f"{_some(sorted(failed))} cannot import {error.name or 'what passes need'} ({error}): install dspectral in "
            "the same version as here on every worker"
        ) from error
