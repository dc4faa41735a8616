"""Notification channels: where to send alerts. Their secrets are never shown.

An operator stores a channel, or the setting `alert_channels` has it as NAME=URL:

    slack+https://hooks.slack.com/services/...       any webhook compatible with Slack, as many chats are
    webhook+https://example.com/hook#whsec_...       JSON, signed with the secret after the #
    smtp://user:password@mail.example.com:587?from=jobs@example.com&to=ops@example.com
                                                     smtps:// for TLS from the start; `to` may be repeated
    apprise+discord://id/token                       any service of Apprise. Only as a setting: such a URL may lead to
                                                     any host, which is for those who run the process to decide
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Meta, Struct, structs

from headrace.core.alerts.alert import SEVERITIES, Severity
from headrace.core.events.webhooks import key_of
from headrace.core.fields import entry, fields_of
from headrace.core.networks import ANY
from headrace.core.text import nearest, short
from headrace.errors import InvalidAlert, InvalidJob
from headrace.runtime.http_client import parts_of

Kind = Literal["log", "webhook", "slack", "email", "apprise"]
StoredKind = Literal["log", "webhook", "slack", "email"]  # an operator may create one
Security = Literal["starttls", "tls", "none"]
TIMEOUT = 10.0  # seconds for each answer of a server
LOG = "log"  # the built-in channel
_SECRETS = ("url", "secret", "password")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}")
_ADDRESS = re.compile(r"[^\s@,;<>\"]+@[^\s@,;<>\"]+")
_HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,253}")
_PORTS = {"starttls": 587, "tls": 465, "none": 25}


class Channel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A notification channel. `severity` is the lowest to send. `security` is that of the SMTP connection."""

    name: str
    kind: Kind
    url: Annotated[str | None, entry("URL of the webhook or chat", "URL", "Address", typed="; - prompts.")] = None
    secret: Annotated[
        str | None, entry("Secret that signs webhook messages", label="Signing secret", typed="; - prompts.")
    ] = None
    host: Annotated[str | None, entry("SMTP server.", label="Mail server", hint="mail.example.com")] = None
    port: Annotated[
        Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 65_535})] | None,
        entry("SMTP port", label="Port", hint="depends on the security", typed="; the default depends on --security."),
    ] = None
    security: Annotated[Security, entry("Connection security; default starttls.", label="Security", hint="default")] = (
        "starttls"
    )
    user: Annotated[str | None, entry("SMTP user.", label="User", hint="none")] = None
    password: Annotated[str | None, entry("SMTP password", label="Password", hint="none", typed="; - prompts.")] = None
    sender: Annotated[str | None, entry("From address of mails.", label="From", hint="the first recipient")] = None
    to: Annotated[
        tuple[str, ...],
        entry("Recipients", label="To, with commas", hint="ops@example.com", typed="; may be repeated, or a,b."),
    ] = ()
    severity: Annotated[Severity, entry("Lowest severity to send.", label="Lowest severity")] = "info"
    enabled: Annotated[bool, entry("Enable or disable the channel.")] = True
    networks: tuple[str, ...] = (ANY,)  # allowed networks besides the public internet; not stored
    trouble: str | None = None  # why the rest of it is unknown

    def accepts(self, severity: Severity) -> bool:
        return self.enabled and SEVERITIES.index(severity) >= SEVERITIES.index(self.severity)

    @property
    def target(self) -> str:
        """The destination, as it may be shown: paths and queries of webhooks are secrets."""
        if self.trouble is not None:
            return "unknown"
        if self.kind == "log":
            return "the log of a worker"
        if self.kind == "email":
            return f"{', '.join(self.to)} by {self.host}:{self.port}"
        parts = urlsplit(self.url or "")
        if self.kind == "apprise":  # a token may be in the place of the host
            return f"{parts.scheme}://***"
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}/***"

    def without_secrets(self, text: str) -> str:
        """The text with all secrets of this channel masked."""
        parts = urlsplit(self.url or "")
        secrets = [getattr(self, name) for name in _SECRETS] + [parts.path, parts.query, parts.password]
        if self.kind == "apprise":
            secrets += [
                *re.split("[@/:]", parts.netloc),
                *parts.path.split("/"),
                *(value for _, value in parse_qsl(parts.query)),
            ]
        for secret in sorted((one for one in secrets if one and len(one) > 2), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return f"<Channel {self.name}: {self.kind} to {self.target}>"


class Undelivered(Exception):
    """A notification could not be delivered, for this reason."""


BUILT_IN = Channel(name=LOG, kind="log")
_OWN = {
    "log": {"severity", "enabled"},
    "webhook": {"severity", "enabled", "url", "secret"},
    "slack": {"severity", "enabled", "url"},
    "apprise": {"severity", "enabled", "url"},
    "email": {"severity", "enabled", "host", "port", "security", "user", "password", "sender", "to"},
}
CHANNEL_FIELDS = {name: field for name, field in fields_of(Channel).items() if field.text}


def unusable(name: str, trouble: str) -> Channel:
    """A placeholder for an unreadable channel: it is listed, and its notifications wait."""
    return Channel(name=name, kind="log", trouble=trouble)


def channel(name: Any, kind: Any, fields: Mapping[str, Any]) -> Channel:
    """A valid channel, or InvalidAlert that names the field; a value that may be secret is not repeated."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidAlert(
            f"channel: {short(name)} is no name; use 1 to 50 letters, digits, '_', '-' or '.'", value=name
        )
    if kind not in get_args(Kind):
        raise InvalidAlert(f"kind: expected one of {', '.join(get_args(Kind))}, got {short(kind)}", value=kind)
    given = {field: value for field, value in fields.items() if value is not None}
    for field in given:
        if field not in _OWN[kind]:
            near = nearest(field, _OWN[kind])
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(_OWN[kind]))}"
            raise InvalidAlert(f"{field}: a channel of the kind {kind} has no such field; {hint}")
    if isinstance(given.get("to"), str):
        given["to"] = tuple(part.strip() for part in given["to"].split(",") if part.strip())
    made = Channel(name=name, kind=kind, **{field: _typed(field, value) for field, value in given.items()})
    if kind == "email":
        return _checked_mail(made)
    if kind in ("webhook", "slack"):
        _ensure_url(made)
    return made


def changed(before: Channel, fields: Mapping[str, Any]) -> Channel:
    """The channel with these fields changed."""
    known = {field: value for field, value in structs.asdict(before).items() if field in _OWN[before.kind]}
    return channel(before.name, before.kind, {**known, **fields})


def _typed(field: str, value: Any) -> Any:
    try:
        return msgspec.convert(value, CHANNEL_FIELDS[field].type)
    except msgspec.ValidationError as error:
        shown = "that value" if field in _SECRETS else short(value)
        raise InvalidAlert(f"{field}: {shown} is not valid: {error}") from None


def _ensure_url(made: Channel) -> None:
    parts = parts_of(made.url)
    if parts is None:
        raise InvalidAlert(
            f"url: a channel of the kind {made.kind} needs one that begins with https:// or http://, with %-codes for "
            "what is not ASCII"
        )
    if parts.username is not None:  # it would be taken for a part of the host name
        raise InvalidAlert(
            "url: it contains a user or password, which is not sent; use a secret, or a token in its path"
        )
    if made.secret is not None:
        signing_key(made.secret)


def signing_key(secret: str) -> bytes:
    """The bytes of a webhook signing secret."""
    try:
        return key_of(secret)
    except InvalidJob:
        raise InvalidAlert(
            "secret: it should be whsec_ and 24 to 64 bytes in Base64: whsec_$(openssl rand -base64 32)"
        ) from None


def _checked_mail(made: Channel) -> Channel:
    if not made.host or not _HOST.fullmatch(made.host):
        raise InvalidAlert(
            f"host: an e-mail channel needs the name of a mail server, got {short(made.host)}", value=made.host
        )
    if made.port is not None and not 0 < made.port < 65_536:
        raise InvalidAlert(f"port: {made.port} must be from 1 to 65535", value=made.port)
    if not made.to:
        raise InvalidAlert("to: an e-mail channel needs at least one address")
    for address in (*made.to, *filter(None, [made.sender])):
        if not _ADDRESS.fullmatch(address) or not address.isprintable():
            raise InvalidAlert(f"to, sender: {short(address)} is no e-mail address", value=address)
    if (made.user is None) != (made.password is None):
        raise InvalidAlert("user, password: give both or neither")
    if made.security == "none" and made.password is not None:
        raise InvalidAlert("security: a password is not sent over an unencrypted connection; use starttls or tls")
    port = made.port or _PORTS[made.security]
    return structs.replace(made, port=port, sender=made.sender or made.to[0])


# -- as a setting


def from_setting(text: str) -> Channel:
    """The channel of NAME=URL; see the module docstring."""
    name, _, url = text.partition("=")
    scheme, _, rest = url.partition("+")
    try:
        if scheme in ("slack", "webhook") and rest:
            rest, _, secret = rest.partition("#")
            return channel(name, scheme, {"url": rest, "secret": secret or None})
        if scheme == "apprise" and "://" in rest:
            return channel(name, scheme, {"url": rest})
        return _mail(name, url)
    except (InvalidAlert, ValueError) as error:
        reason = error if isinstance(error, InvalidAlert) else "its URL can't be read"
        raise InvalidAlert(f"alert_channels: {name}: {reason}") from None


def _mail(name: str, url: str) -> Channel:
    parts = urlsplit(url)
    if parts.scheme not in ("smtp", "smtps"):
        raise InvalidAlert("use slack+https://, webhook+https://, smtp://, smtps:// or apprise+URL")
    query = parse_qsl(parts.query)
    named = dict(query)
    fields = {
        "host": parts.hostname,
        "port": parts.port,
        "security": named.get("security", "tls" if parts.scheme == "smtps" else "starttls"),
        "user": None if parts.username is None else unquote(parts.username),
        "password": None if parts.password is None else unquote(parts.password),
        "sender": named.get("from"),
        "to": ",".join(value for name, value in query if name == "to"),
    }
    return channel(name, "email", fields)
