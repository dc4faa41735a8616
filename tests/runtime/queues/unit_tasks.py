"""Tasks that report units; at module level, so that a sandbox finds them."""

from __future__ import annotations

from headrace import current_job


def report(units: int) -> None:
    current_job().report_cost(units)


async def areport(units: int) -> None:
    current_job().report_cost(units)
