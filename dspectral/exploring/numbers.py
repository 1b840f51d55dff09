"""Sizes and times as a person reads them."""


def scaled_bytes(n: float) -> str:
    """Return a number of bytes in the largest unit that leaves at least 1.

    >>> scaled_bytes(512), scaled_bytes(3_400_000), scaled_bytes(120e9)
    ('512 bytes', '3.4 MB', '120 GB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.2g} {unit}" if n < 10 * size else f"{n / size:,.0f} {unit}"
    return f"{n:.0f} bytes"


def scaled_seconds(seconds: float) -> str:
    """Return a time in seconds, minutes or hours.

    >>> scaled_seconds(0.25), scaled_seconds(42.4), scaled_seconds(150), scaled_seconds(4000)
    ('0.2 s', '42 s', '2 min 30 s', '1 h 7 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {round(whole % 3600 / 60)} min"
