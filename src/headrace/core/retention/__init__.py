"""How long jobs are kept: lifecycle policies, staleness, archive partitions."""

from __future__ import annotations
