"""The documents of alerts in a store. Every change names the version it read.

alert.rule      by name: an operator's rules, also those that replace a default one
alert.channel   by name, encrypted where an app has keys
alert.silence   by id
alert           by rule and labels: the open alert, or the last one
alert.history   by time and id: state changes of alerts, never changed
alert.health    "rule NAME" or "channel NAME": its current error, if any
~alert.post     by id: queued notifications
~alert.turn     when rules were last evaluated
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from headrace.core.alerts.alert import (
    AlertEvent,
    AlertHistoryEntry,
    AlertRow,
    AlertRuleRow,
    AlertTransition,
    SilenceRow,
    key_of,
)
from headrace.core.alerts.defaults import SHIPPED
from headrace.core.codec.encryption import Cipher, decrypted
from headrace.core.damaged_records import DAMAGE, readable
from headrace.core.documents import Document
from headrace.core.events.log import EventGroup
from headrace.core.jobs import ids
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.errors import InvalidAlert
from headrace.runtime.alerts.channels import BUILT_IN, Channel, from_setting, unusable
from headrace.runtime.documents import documents_of, drop_documents

RULE, CHANNEL, SILENCE = "alert.rule", "alert.channel", "alert.silence"
ALERT, HISTORY, HEALTH, POST, TURN = "alert", "alert.history", "alert.health", "~alert.post", "~alert.turn"
_PAGE = 1000
T = TypeVar("T", bound=Struct)


class ChannelHealth(Struct, frozen=True, omit_defaults=True):
    """The error of a rule or a channel, since when it lasts, and how often it occurred."""

    state: Literal["broken", "no_data", "failing"]
    since: int
    error: str = ""
    count: int = 1


class Notification(Struct, frozen=True, omit_defaults=True):
    """A queued notification. Not tried before `due`: it is being sent, or backing off."""

    channel: str
    news: AlertEvent
    due: int
    tries: int = 0


class AlertStore:
    """Reads and writes the alert documents of one store."""

    def __init__(self, engine: Engine, settings: Settings, cipher: Cipher | None) -> None:
        self._document_store = engine.document_store
        self._events = engine.events
        self._clock = engine.clock
        self._settings = settings
        self._cipher = cipher

    # -- rules

    def rules(self) -> dict[str, AlertRuleRow]:
        """Every rule by its name: the default rules, with the operator's changes, and the operator's own."""
        return {**SHIPPED, **self.own_rules()}

    def own_rules(self) -> dict[str, AlertRuleRow]:
        return {document.key: rule_on(document) for document in self.browse(RULE)}

    # -- channels

    def channels(self) -> dict[str, Channel]:
        """Every channel by its name. A channel in the settings overrides a stored one."""
        stored = {document.key: self._open(document) for document in self.browse(CHANNEL)}
        from_settings = [_from_setting_or_unusable(text) for text in self._settings.alert_channels]
        return {BUILT_IN.name: BUILT_IN, **stored, **{one.name: one for one in from_settings}}

    def ensure_channels(self, names: Sequence[str] | None) -> None:
        """InvalidAlert if one of these does not exist."""
        channels = self.channels() if names else {}
        for name in names or ():
            if name not in channels:
                raise InvalidAlert(f"notify: there is no channel {name!r}; there are {', '.join(channels)}")

    def keep_channel(self, channel: Channel, version: int) -> bool:
        text = msgspec.json.encode(channel).decode()
        if self._cipher is not None:
            text = self._cipher.encrypted(text, "channel", channel.name)
        return self._document_store.put([Document(CHANNEL, channel.name, version, text)])

    def _open(self, document: Document) -> Channel:
        try:
            text = decrypted(self._cipher, document.value, "channel", document.key)
            stored = msgspec.json.decode(text, type=Channel)
        except DAMAGE as error:
            return unusable(document.key, str(error))
        # A user who may store a channel may lack access to the internal network; the author of the settings has it.
        return msgspec.structs.replace(stored, networks=self._settings.webhook_networks)

    # -- alerts

    def alerts(self) -> Iterator[tuple[Document, AlertRow]]:
        """Every stored alert, with its document."""
        return readable(_alert, self.browse(ALERT))

    def alert(self, rule: str, series: dict[str, str]) -> tuple[Document, AlertRow] | None:
        found = self._document_store.get(ALERT, [key_of(rule, series)])
        return next(readable(_alert, found), None)

    def keep(
        self, before: Document | None, step: AlertTransition, by: str | None = None, note: str | None = None
    ) -> bool:
        """Store an alert's state change, in one commit with its history and notifications; False if it was late."""
        if step.alert is None:
            return before is None or self.remove(before)
        now = self._clock.now()
        document = before or self._blank(key_of(step.alert.rule, step.alert.series))
        documents = [rewritten(document, step.alert)]
        if before is not None and documents[0].value == before.value:
            return True
        if step.action is not None:
            change = AlertHistoryEntry(at=now, what=step.action, alert=step.alert, by=by, note=note)
            documents.append(Document(HISTORY, f"{cursor_of(now)}-{ids.new_id(now)}", 0, _text(change)))
            if step.notify:
                documents += self._posts((step.action, step.alert), now)
        if not self._document_store.put(documents):
            return False
        self._emit_event(before, step.alert, now)
        return True

    def _blank(self, key: str) -> Document:
        """The document of a new alert; it replaces a damaged one."""
        damaged = [
            document for document in self._document_store.get(ALERT, [key]) if not any(readable(_alert, [document]))
        ]
        return damaged[0] if damaged else Document(ALERT, key, 0, "")

    def _emit_event(self, before: Document | None, alert: AlertRow, now: int) -> None:
        """Emit an event if the alert began or ended. Its notifications are stored even if the process dies before."""
        was = None if before is None else decoded(before, AlertRow).state
        kind = {"firing": "alert.raised", "resolved": "alert.cleared"}.get(alert.state)
        if kind is None or was == alert.state or not self._settings.events:
            return
        data = {"id": alert.id, "rule": alert.rule, "severity": alert.severity, "summary": alert.summary}
        queue, task, worker = (alert.series.get(name) for name in ("queue", "task", "worker"))
        self._events.append([EventGroup(kind, now, queue, task, worker, data=[{**data, "labels": alert.all_labels}])])

    def _posts(self, event: AlertEvent, now: int) -> Iterator[Document]:
        names = self._settings.alert_notify if event[1].notify is None else event[1].notify
        for name in dict.fromkeys(names):
            yield Document(POST, ids.new_id(now), 0, _text(Notification(name, event, now)))

    def forget(self, documents: Sequence[Document]) -> None:
        """Remove alerts that ended long ago; one that changed meanwhile stays."""
        for document in documents:
            self.remove(document)

    def history(self, limit: int, last: str | None = None) -> list[tuple[str, AlertHistoryEntry]]:
        """State changes before this cursor, newest first, each with its own cursor."""
        documents = self._document_store.get(HISTORY, last=last, limit=limit, newest_first=True)
        return list(readable(lambda document: (document.key, decoded(document, AlertHistoryEntry)), documents))

    def trim(self, before: int) -> bool:
        """Remove some of the history before this time; whether that was all."""
        return drop_documents(self._document_store, HISTORY, cursor_of(before), _PAGE) < _PAGE

    # -- silences

    def silences(self) -> list[tuple[Document, SilenceRow]]:
        return list(readable(lambda document: (document, decoded(document, SilenceRow)), self.browse(SILENCE)))

    # -- health

    def health(self) -> dict[str, ChannelHealth]:
        return dict(readable(lambda document: (document.key, decoded(document, ChannelHealth)), self.browse(HEALTH)))

    def record_health(self, key: str, state: Literal["broken", "no_data", "failing"] | None, error: str = "") -> bool:
        """Store the error of a rule or channel, or that it has none; whether that is new."""
        found = self._document_store.get(HEALTH, [key])
        known = next(readable(lambda document: decoded(document, ChannelHealth), found), None)
        if state is None:
            return bool(found) and self._document_store.put((), found)
        is_same = known is not None and (known.state, known.error) == (state, error)
        if is_same and state != "failing":
            return False
        since = known.since if known is not None and known.state == state else self._clock.now()
        count = known.count + 1 if known is not None and known.state == state else 1
        health = ChannelHealth(state, since, error, count)
        stored = self._document_store.put([Document(HEALTH, key, found[0].version if found else 0, _text(health))])
        return stored and not is_same

    # -- documents

    def browse(self, kind: str) -> Iterator[Document]:
        """Every document of a kind."""
        return documents_of(self._document_store, kind)

    def get(self, kind: str, key: str) -> Document | None:
        return next(iter(self._document_store.get(kind, [key])), None)

    def put(self, kind: str, key: str, version: int, value: Struct) -> bool:
        return self._document_store.put([Document(kind, key, version, _text(value))])

    def remove(self, document: Document) -> bool:
        return self._document_store.put((), [document])

    def put_all(self, documents: Sequence[Document], delete: Sequence[Document] = ()) -> bool:
        return self._document_store.put(documents, delete)


def cursor_of(at: int) -> str:
    """The cursor before all state changes at this time."""
    return f"{max(at, 0):015d}"


def _from_setting_or_unusable(text: str) -> Channel:
    try:
        return from_setting(text)
    except InvalidAlert as error:
        return unusable(text.partition("=")[0], str(error))


def rule_on(document: Document) -> AlertRuleRow:
    """The rule in a document; an unreadable one is a rule that can't be evaluated, and blocks no other."""
    try:
        return decoded(document, AlertRuleRow)
    except DAMAGE:
        return AlertRuleRow(name=document.key, when="")


def _alert(document: Document) -> tuple[Document, AlertRow]:
    return document, decoded(document, AlertRow)


def decoded(document: Document, kind: type[T]) -> T:
    return msgspec.json.decode(document.value, type=kind)


def rewritten(document: Document, value: Struct) -> Document:
    """The document with another text, to be put at its present version."""
    return structs.replace(document, value=_text(value))


def _text(value: Struct) -> str:
    return msgspec.json.encode(value).decode()
