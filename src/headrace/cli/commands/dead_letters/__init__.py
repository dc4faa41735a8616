"""`headrace dead`."""

from __future__ import annotations
