"""Archives and deletes finished jobs; finds stale ones."""

from __future__ import annotations
