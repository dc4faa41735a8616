"""`headrace alerts`: alerts, their rules and channels."""

from __future__ import annotations
