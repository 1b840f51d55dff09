"""Addresses without the secrets that they may carry, for everything that is kept or shown."""

import re
from typing import Any

_STARS = "***"
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_QUERY = re.compile(
    r"(?i)([?&;](?:[\w.-]*(?:key|secret|token|password|passwd|pwd|credential|signature)[\w.-]*|sig|sas|auth)=)[^&;#\s]+"
)


def without_secrets(value: Any) -> Any:
    """Return a value whose addresses name no user, password, key, token or signature.

    Parameters
    ----------
    value : object
        A text, or dicts, lists and tuples with texts in them; anything else is returned as it is.

    Returns
    -------
    object
        The same with ``***`` in the place of what stands before ``@`` in an address, and of what the parameters of
        its query hold whose names speak of keys, secrets, tokens, passwords, credentials or signatures.

    Examples
    --------
    >>> without_secrets("s3://KEY:SECRET@bucket/a.txt")
    's3://***@bucket/a.txt'
    >>> without_secrets(["https://host/a.txt?X-Amz-Signature=abc&part=1"])
    ['https://host/a.txt?X-Amz-Signature=***&part=1']
    """
    if isinstance(value, str):
        return _QUERY.sub(rf"\g<1>{_STARS}", _USER.sub(_STARS, value)) if "://" in value else value
    if isinstance(value, dict):
        return {key: without_secrets(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_secrets(one) for one in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(without_secrets(one) for one in value)
    return value
