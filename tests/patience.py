"""How long a test waits for what is to come: one answer for all of them."""

from __future__ import annotations

PATIENCE = 90.0  # seconds; never spent by a test that passes, however busy the machine is
