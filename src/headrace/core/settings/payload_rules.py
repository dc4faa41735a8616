"""The rules of the settings of the payload store."""

from __future__ import annotations

from typing import Protocol

from headrace.core.settings.checks import LONGEST

_MAX_LIMIT = 2_147_483_647


class PayloadSettings(Protocol):
    """The settings that these rules are about."""

    @property
    def max_payload(self) -> int: ...
    @property
    def payload_store(self) -> str | None: ...
    @property
    def payload_threshold(self) -> int: ...
    @property
    def payload_limit(self) -> int: ...
    @property
    def payload_grace(self) -> float: ...


def payload_rules(s: PayloadSettings) -> list[tuple[str, bool]]:
    """Each rule as a text, and whether it holds."""
    return [
        (f"payload_threshold: {s.payload_threshold} must be at least 1024 bytes", s.payload_threshold >= 1024),
        (
            f"payload_limit: {s.payload_limit} must be from max_payload ({s.max_payload}) to {_MAX_LIMIT} bytes",
            s.payload_store is None or s.max_payload <= s.payload_limit <= _MAX_LIMIT,
        ),
        (f"payload_grace: {s.payload_grace:g} must be at least 60 seconds", 60 <= s.payload_grace <= LONGEST),
    ]
