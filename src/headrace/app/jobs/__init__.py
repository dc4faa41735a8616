"""`app.jobs`."""

from __future__ import annotations
