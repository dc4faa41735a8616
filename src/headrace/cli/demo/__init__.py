"""`headrace demo`."""

from __future__ import annotations
