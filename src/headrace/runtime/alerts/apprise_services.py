"""Sends alerts by Apprise, which knows more than a hundred services: chats, pagers, push messages.

Needs the extra `apprise`, which is loaded with the first message.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.alerts.alert import AlertEvent
from headrace.core.alerts.text import MAX_SHOWN, details, headline, one_line, subject
from headrace.runtime.alerts.channels import Channel, Undelivered


def notify(channel: Channel, events: Sequence[AlertEvent], message_id: str, now: int) -> None:
    """Send one message. Services have no place for its id: one that is sent again arrives again."""
    try:
        import apprise
    except ImportError as error:
        raise Undelivered(f"it needs a package ({error}); install it: pip install 'headrace[apprise]'") from None
    services = apprise.Apprise(asset=apprise.AppriseAsset(app_id="headrace", app_desc="alerts", async_mode=False))
    if not services.add(channel.url or ""):
        raise Undelivered("Apprise knows no service for its URL, or the URL is incomplete")
    shown = ["\n".join([one_line(headline(what, alert)), *details(alert)]) for what, alert in events[:MAX_SHOWN]]
    more = [f"... and {len(events) - MAX_SHOWN} more"] if len(events) > MAX_SHOWN else []
    if not services.notify(
        title=_without_mentions(subject(events))[:200],
        body=_without_mentions("\n\n".join([*shown, *more])),
        body_format=apprise.NotifyFormat.TEXT,
        notify_type=_type_of(events),
    ):
        raise Undelivered(f"the service of {channel.target} did not accept it, or is away")


def _without_mentions(text: str) -> str:
    """A name in an alert must not call people: a zero-width space ends a mention such as @everyone."""
    return text.replace("@", "@\u200b")


def _type_of(events: Sequence[AlertEvent]) -> str:
    """The color of the message in services that have colors."""
    severities = {alert.severity for what, alert in events if what != "resolved"}
    if not severities:
        return "success"
    return "failure" if "critical" in severities else "warning" if "warning" in severities else "info"
