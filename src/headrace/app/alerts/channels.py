"""`app.alerts.channels`: where notifications are sent. Secrets are stored, encrypted if there are keys, and never
returned."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable
from typing import Any

from headrace.app.alerts.records import AlertChannel, shown_channel
from headrace.core.alerts.alert import AlertRow
from headrace.core.clock import Clock
from headrace.core.jobs import ids
from headrace.core.settings.settings import Settings
from headrace.core.tasks.options import check_text
from headrace.core.text import nearest
from headrace.errors import AlertChannelNotFound, InvalidAlert
from headrace.runtime.alerts.channels import BUILT_IN, Channel, Undelivered, changed, channel
from headrace.runtime.alerts.notify import deliver
from headrace.runtime.alerts.outbox import waiting
from headrace.runtime.alerts.store import CHANNEL, AlertStore
from headrace.runtime.jobs.async_twin import twin


class AlertChannels:
    """The channels of one store: the log, those of the setting `alert_channels`, and stored ones."""

    def __init__(self, store: Callable[[], AlertStore], clock: Callable[[], Clock], settings: Settings) -> None:
        self._make_store = store
        self._clock = clock
        self._of_settings = {text.partition("=")[0] for text in settings.alert_channels}

    @property
    def _store(self) -> AlertStore:
        return self._make_store()

    def create(self, name: str, /, *, kind: str, **fields: Any) -> AlertChannel:
        """Create a channel: kind="slack" with a `url`, "webhook" with a `url` and a signing `secret`, "email" with
        `host`, `to` and, as needed, `port`, `security`, `user`, `password` and `sender`, or "log".

        `severity` is the lowest severity to send.
        """
        if kind == "apprise":
            raise InvalidAlert(
                "kind: a channel of Apprise is defined in the setting alert_channels, as NAME=apprise+URL"
            )
        made = channel(name, kind, fields)
        self._ensure_stored(name)
        if not self._store.keep_channel(made, 0):
            raise InvalidAlert(f"channel: channel {name!r} exists already; change it with update()")
        self._store.record_health(f"channel {name}", None)  # reset the health of an earlier one with this name
        return self.get(name)

    def get(self, name: str) -> AlertChannel:
        """The channel, or AlertChannelNotFound."""
        self._known(name)
        return next(one for one in self.list() if one.name == name)

    def list(self) -> builtins.list[AlertChannel]:
        """All channels, by name."""
        store = self._store
        unsent, health = Counter(post.channel for post in waiting(store)), store.health()
        return [
            shown_channel(one, name in self._of_settings, health.get(f"channel {name}"), unsent[name])
            for name, one in sorted(store.channels().items())
        ]

    def update(self, name: str, /, **fields: Any) -> AlertChannel:
        """Change fields of a stored channel. Omitted fields and secrets stay."""
        before = self._known(name)
        self._ensure_stored(name)
        if before.trouble is not None:
            raise InvalidAlert(f"channel: {name!r} can't be read: {before.trouble}; delete it and create it again")
        document = self._store.get(CHANNEL, name)
        if document is None or not self._store.keep_channel(changed(before, fields), document.version):
            raise InvalidAlert(f"channel: {name!r} was changed or deleted by another caller; try again")
        return self.get(name)

    def delete(self, name: str) -> bool:
        """Delete a stored channel that no rule uses; False if there is none."""
        store = self._store
        users = sorted(one.name for one in store.rules().values() if name in (one.notify or ()))
        if users:
            raise InvalidAlert(f"channel: {name!r} is used by {', '.join(users)}; change these rules first")
        self._ensure_stored(name)
        document = store.get(CHANNEL, name)
        return document is not None and store.remove(document)

    def test(self, name: str) -> str | None:
        """Send a test message now; returns None on success, else the error."""
        now = self._clock().now()
        message_id = ids.new_id(now)
        test_alert = AlertRow(
            id=message_id,
            rule="test",
            series={},
            labels={},
            severity="info",
            state="firing",
            since=now,
            fired_at=now,
            summary="test of the channel; nothing is wrong",
        )
        try:
            deliver(self._known(name), [("raised", test_alert)], message_id, now)
        except Undelivered as error:
            return str(error)
        return None

    def _known(self, name: str) -> Channel:
        known = self._store.channels()
        if check_text("channel", name) not in known:
            near = nearest(name, known)
            raise AlertChannelNotFound(name, f"; did you mean {near!r}?" if near else "")
        return known[name]

    def _ensure_stored(self, name: str) -> None:
        if name in self._of_settings:
            raise InvalidAlert(f"channel: {name!r} is defined in the setting alert_channels; change it there")
        if name == BUILT_IN.name:
            raise InvalidAlert(f"channel: {name!r} is built in; remove it from alert_notify, or create another")

    acreate = twin(create)
    aget = twin(get)
    alist = twin(list)
    aupdate = twin(update)
    adelete = twin(delete)
    atest = twin(test)
