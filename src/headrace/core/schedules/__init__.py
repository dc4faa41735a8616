"""When a schedule fires: cron expressions, time zones, daylight saving time."""

from __future__ import annotations
