"""`app.lifecycle` and `app.archive`."""

from __future__ import annotations
