"""`app.dead`."""

from __future__ import annotations
