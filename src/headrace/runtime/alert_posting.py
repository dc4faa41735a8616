"""Tells of alerts by HTTP: webhooks, and chats that take what Slack takes.

Webhooks are signed as the Standard Webhooks specification says (webhook-id, webhook-timestamp, webhook-signature).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import urllib.error
import urllib.request
from collections.abc import Sequence

import msgspec

from headrace.core.alert_words import MOST_SHOWN, details, headline, one_line, record
from headrace.core.alerts import News
from headrace.core.clock import to_datetime
from headrace.runtime.channels import TIMEOUT, Channel, Undelivered, signing_key

_MARKS = {"info": ":information_source:", "warning": ":warning:", "critical": ":rotating_light:"}


def webhook(channel: Channel, news: Sequence[News], message_id: str, now: int) -> None:
    """Tell a program: JSON, signed if the channel has a secret."""
    alerts = [record(what, alert) for what, alert in news]
    body = msgspec.json.encode({"type": "alerts", "timestamp": to_datetime(now), "alerts": alerts})
    _post(channel, body, {**signed(channel.secret, message_id, now // 1000, body), "webhook-id": message_id})


def signed(secret: str | None, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows that a message is ours; none without a secret."""
    if secret is None:
        return {}
    content = f"{message_id}.{timestamp}.".encode() + body
    mac = base64.b64encode(hmac.new(signing_key(secret), content, hashlib.sha256).digest()).decode()
    return {"webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{mac}"}


def slack(channel: Channel, news: Sequence[News], message_id: str, now: int) -> None:
    """Tell people in a chat that takes what Slack takes."""
    lines = []
    for what, alert in news[:MOST_SHOWN]:
        mark = ":white_check_mark:" if what == "resolved" else _MARKS[alert.severity]
        lines.append(f"{mark} *{_for_slack(headline(what, alert))}*\n{_for_slack(' · '.join(details(alert)))}")
    if len(news) > MOST_SHOWN:
        lines.append(f"… and {len(news) - MOST_SHOWN} more")
    _post(channel, msgspec.json.encode({"text": "\n".join(lines)}), {})


def _for_slack(text: str) -> str:
    """What Slack asks to be escaped: else a name could mention everybody, or hide where a link leads."""
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _opener() -> urllib.request.OpenerDirector:
    """One that follows no redirect: what is signed for one receiver is not for another.

    Made for each message: they are rare, and what the environment says of proxies may have changed.
    """
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.ProxyHandler())
    opener.add_handler(urllib.request.HTTPHandler())
    opener.add_handler(urllib.request.HTTPSHandler())
    opener.add_handler(urllib.request.HTTPErrorProcessor())
    opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
    return opener


def _post(channel: Channel, body: bytes, headers: dict[str, str]) -> None:
    headers = {"content-type": "application/json", "user-agent": "headrace", **headers}
    request = urllib.request.Request(channel.url or "", data=body, headers=headers, method="POST")
    try:
        with _opener().open(request, timeout=TIMEOUT) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        moved = " (it leads elsewhere, where alerts are not sent)" if 300 <= error.code < 400 else ""
        error.close()
        raise Undelivered(f"the server answered {error.code}{moved}") from None
    except urllib.error.URLError as error:
        raise Undelivered(str(error.reason) or type(error).__name__) from None
    except http.client.HTTPException as error:
        raise Undelivered(f"the server can't be understood: {type(error).__name__}") from None
