"""`app.admin`: checks, repairs, backups, audit."""

from __future__ import annotations
