"""What Python knows of each code point, as tables for compiled loops: its lower case, and of which class it is."""

import re

import numpy as np
from numpy.typing import NDArray

N_CODE_POINTS = 0x110000
NEEDS_PYTHON = np.uint32(0xFFFFFFFF)
CAPITAL_SIGMA = 0x3A3
BLOCK = 256  # code points; one in twenty of such blocks has a capital letter


def lower_case() -> NDArray[np.uint32]:
    """Return the lower case of each code point as `str.lower` has it.

    Shapes: returns (N_CODE_POINTS,).

    >>> chr(lower_case()[ord("W")])
    'w'
    """
    # Each first run of each process waits for this: a call of Python for each code point would take half a second.
    table = np.arange(N_CODE_POINTS, dtype=np.uint32)
    for codes in table.reshape(-1, BLOCK):
        text = _text_of(codes)
        if text.lower() != text:
            lowered = [character.lower() for character in text]
            codes[:] = [ord(lower) if len(lower) == 1 else NEEDS_PYTHON for lower in lowered]
    table[CAPITAL_SIGMA] = NEEDS_PYTHON
    return table


def are(pattern: str) -> NDArray[np.bool_]:
    r"""Return which code points are of a class.

    Shapes: returns (N_CODE_POINTS,).

    >>> are(r"\s")[ord(" ")].item(), are(r"\s")[ord("x")].item()
    (True, False)
    """
    found = "".join(re.findall(f"(?:{pattern})+", _text_of(np.arange(N_CODE_POINTS, dtype=np.uint32))))
    table = np.zeros(N_CODE_POINTS, dtype=np.bool_)
    table[np.frombuffer(found.encode("utf-32-le", "surrogatepass"), dtype="<u4")] = True
    return table


def _text_of(codes: NDArray[np.uint32]) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
