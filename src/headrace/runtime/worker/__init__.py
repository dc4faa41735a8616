"""The worker: claims jobs, runs them, renews their leases, settles them."""

from __future__ import annotations
