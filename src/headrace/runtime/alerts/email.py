"""Sends alerts by e-mail."""

from __future__ import annotations

import contextlib
import logging
import smtplib
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid

from headrace.core.alerts.alert import AlertEvent
from headrace.core.alerts.text import MAX_SHOWN, details, headline, one_line, subject
from headrace.runtime.alerts.channels import TIMEOUT, Channel

log = logging.getLogger("headrace.alerts")


def mail(channel: Channel, events: Sequence[AlertEvent], message_id: str, now: int) -> None:
    """Send one message to all recipients."""
    message = EmailMessage()
    message["Subject"] = f"[headrace] {subject(events)}"[:200]
    message["From"] = channel.sender
    message["To"] = ", ".join(channel.to)
    message["Date"] = format_datetime(datetime.fromtimestamp(now / 1000, UTC))
    message["Message-ID"] = make_msgid(message_id, (channel.sender or "").rpartition("@")[2] or "headrace")
    shown = ["\n  ".join([one_line(headline(what, alert)), *details(alert)]) for what, alert in events[:MAX_SHOWN]]
    more = [f"... and {len(events) - MAX_SHOWN} more"] if len(events) > MAX_SHOWN else []
    message.set_content("\n\n".join([*shown, *more]) + "\n")
    server = _connected(channel)
    try:
        if channel.user is not None and channel.password is not None:
            server.login(channel.user, channel.password)
        refused = server.send_message(message)
        with contextlib.suppress(OSError):  # the server has the message: whatever it answers now, none is sent again
            server.quit()
    finally:
        server.close()
    if refused:  # only some of them, else it would be an error; a repeat would reach the others twice
        log.warning("channel %s: the mail server refused %s; the others got it", channel.name, ", ".join(refused))


def _connected(channel: Channel) -> smtplib.SMTP:
    host, port = channel.host or "", channel.port or 0
    if channel.security == "tls":
        return smtplib.SMTP_SSL(host, port, timeout=TIMEOUT, context=ssl.create_default_context())
    server = smtplib.SMTP(host, port, timeout=TIMEOUT)
    if channel.security == "starttls":
        try:
            server.starttls(context=ssl.create_default_context())
        except BaseException:
            server.close()
            raise
    return server
