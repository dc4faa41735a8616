"""`headrace doctor`, `migrate`, `copy` and the maintenance of a store."""

from __future__ import annotations
