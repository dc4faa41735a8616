"""Sends alerts by HTTP: to webhooks, and to chats compatible with Slack.

Webhooks are signed by the Standard Webhooks specification (webhook-id, webhook-timestamp, webhook-signature).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.alerts.alert import AlertEvent
from headrace.core.alerts.text import MAX_SHOWN, details, headline, one_line, record
from headrace.core.clock import to_datetime
from headrace.core.events.webhooks import sign
from headrace.runtime.alerts.channels import TIMEOUT, Channel, Undelivered, signing_key
from headrace.runtime.http_client import NotTaken, post

_MARKS = {"info": ":information_source:", "warning": ":warning:", "critical": ":rotating_light:"}


def webhook(channel: Channel, events: Sequence[AlertEvent], message_id: str, now: int) -> None:
    """Send JSON to a program, signed if the channel has a secret."""
    alerts = [record(what, alert) for what, alert in events]
    body = msgspec.json.encode({"type": "alerts", "timestamp": to_datetime(now), "alerts": alerts})
    _post(channel, body, {**signed(channel.secret, message_id, now // 1000, body), "webhook-id": message_id})


def signed(secret: str | None, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The signature headers of a message; none without a secret."""
    if secret is None:
        return {}
    signature = sign(signing_key(secret), message_id, timestamp, body)
    return {"webhook-timestamp": str(timestamp), "webhook-signature": signature}


def slack(channel: Channel, events: Sequence[AlertEvent], message_id: str, now: int) -> None:
    """Send a message to a chat compatible with Slack."""
    lines = []
    for what, alert in events[:MAX_SHOWN]:
        mark = ":white_check_mark:" if what == "resolved" else _MARKS[alert.severity]
        lines.append(f"{mark} *{_for_slack(headline(what, alert))}*\n{_for_slack(' · '.join(details(alert)))}")
    if len(events) > MAX_SHOWN:
        lines.append(f"… and {len(events) - MAX_SHOWN} more")
    _post(channel, msgspec.json.encode({"text": "\n".join(lines)}), {})


def _for_slack(text: str) -> str:
    """Escape a text as Slack requires: otherwise a name could mention everybody, or hide a link's target."""
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _post(channel: Channel, body: bytes, headers: dict[str, str]) -> None:
    try:
        post(channel.url or "", body, headers, TIMEOUT, channel.networks)
    except NotTaken as error:
        raise Undelivered(str(error)) from None
