"""What handles and parts of the app share: lookup, waiting, `why`."""

from __future__ import annotations
