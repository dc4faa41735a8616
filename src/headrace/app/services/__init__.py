"""Services for handles and parts of the app: lookup, waiting, `why`."""

from __future__ import annotations
