"""Numbers written in bytes, read by compiled loops.

The loops look one byte ahead without asking for the end: the last byte must be one that ends a word.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled

TAB, NEWLINE, RETURN, SPACE, PLUS, MINUS, POINT = b"\t\n\r +-."
CAPITAL_E, SMALL_E = b"Ee"
Text: TypeAlias = NDArray[np.uint8]


@compiled
def whole_number(text: Text, at: int) -> tuple[int, int]:
    """Read a whole number; return it and the next byte. Beyond 2**40 it is only known to be too large."""
    number = 0
    while is_digit(text[at]):
        if number < 1 << 40:
            number = number * 10 + int(text[at]) - 48
        at += 1
    return number, at


@compiled
def real_number(text: Text, at: int) -> tuple[float, int]:
    """Read a decimal number; return it, NaN where there is none, and the next byte.

    The value is ``digits * 10**scale``, one product or one quotient of float64: for float32 right to the last bit
    but one.
    """
    sign = -1.0 if text[at] == MINUS else 1.0
    at += int(text[at] == MINUS or text[at] == PLUS)
    # Digits are gathered in float64 and not in an integer, which a long number would overflow. Powers of ten end at
    # 400, where they are infinite already.
    number, scale, digits = 0.0, 0, 0
    while is_digit(text[at]):
        number, digits, at = number * 10.0 + (text[at] - 48.0), digits + 1, at + 1
    if text[at] == POINT:
        at += 1
        while is_digit(text[at]):
            number, scale, digits, at = number * 10.0 + (text[at] - 48.0), scale - 1, digits + 1, at + 1
    if digits == 0:
        return np.nan, at
    if text[at] == SMALL_E or text[at] == CAPITAL_E:
        negative = text[at + 1] == MINUS
        at += 1 + int(text[at + 1] == MINUS or text[at + 1] == PLUS)
        if not is_digit(text[at]):
            return np.nan, at
        exponent, at = whole_number(text, at)
        scale += -exponent if negative else exponent
    if scale < 0:
        return sign * (number / 10.0 ** min(-scale, 400)), at
    # Zero stays zero, where a power that is infinite would make it no number.
    return sign * number * (10.0 ** min(scale, 400) if number else 1.0), at


@compiled
def is_digit(byte: np.uint8) -> bool:
    """Report whether a byte is one of 0 to 9."""
    return bool(48 <= byte <= 57)


@compiled
def ends_word(byte: np.uint8) -> bool:
    """Report whether a byte is a blank, a tab or the end of a line."""
    return byte in (TAB, NEWLINE, RETURN, SPACE)
