"""`app.schedules`."""

from __future__ import annotations
