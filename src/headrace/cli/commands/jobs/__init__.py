"""`headrace jobs`, `why`, `enqueue` and `signal`."""

from __future__ import annotations
