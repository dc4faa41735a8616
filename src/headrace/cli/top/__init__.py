"""`headrace top`."""

from __future__ import annotations
