"""How the URL of a store is shown."""

from __future__ import annotations

import re


def redacted_url(url: str) -> str:
    """The URL without its password, for messages."""
    # Textual: a character of the password may make it an invalid URL.
    return _SECRET_PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))


_PASSWORD = re.compile(r"(?<=://)([^:/?#@]*):.*@", re.DOTALL)
_SECRET_PARAMETER = re.compile(r"([?&][^=&]*(?:password|secret)[^=&]*=)[^&]*", re.IGNORECASE)
