"""`headrace worker` and `headrace workers`."""

from __future__ import annotations
