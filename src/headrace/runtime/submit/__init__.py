"""From a call to a stored job."""

from __future__ import annotations
