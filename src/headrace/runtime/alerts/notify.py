"""Delivers notifications: one message per channel at a time, by the channel's kind.

Each delivery takes a bounded time; if it fails, `Undelivered` has a reason without secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headrace.core.alerts.alert import AlertEvent, Severity
from headrace.core.alerts.text import headline, one_line
from headrace.core.text import why
from headrace.runtime.alerts.channels import Channel, Kind, Undelivered

log = logging.getLogger("headrace.alerts")

_LEVELS: dict[Severity, int] = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.ERROR}
_MAX_REASON_CHARS = 300

Sender = Callable[[Channel, Sequence[AlertEvent], str, int], None]


def deliver(channel: Channel, events: Sequence[AlertEvent], message_id: str, now: int) -> None:
    """Send one message with all of these to a channel. A receiver may drop a message with a repeated `message_id`."""
    try:
        if channel.trouble is not None:
            raise Undelivered(channel.trouble)
        _sender_of(channel.kind)(channel, events, message_id, now)
    except (Undelivered, OSError, ValueError) as error:
        reason = str(error) if isinstance(error, Undelivered) else why(error)
        raise Undelivered(one_line(channel.without_secrets(reason))[:_MAX_REASON_CHARS]) from None


def _sender_of(kind: Kind) -> Sender:
    # Deferred: few stores use these, and TLS, HTTP and SMTP take time and memory to load.
    if kind == "email":
        from headrace.runtime.alerts.email import mail

        return mail
    if kind == "apprise":
        from headrace.runtime.alerts.apprise_services import notify

        return notify
    if kind in ("webhook", "slack"):
        from headrace.runtime.alerts import http

        return http.webhook if kind == "webhook" else http.slack
    return _log


def _log(channel: Channel, events: Sequence[AlertEvent], message_id: str, now: int) -> None:
    for what, alert in events:
        level = logging.INFO if what == "resolved" else _LEVELS[alert.severity]
        log.log(level, "%s", one_line(headline(what, alert)), extra={"event": f"alert.{what}"})
