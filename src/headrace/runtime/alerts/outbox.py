"""The notification outbox: any worker takes queued notifications for a while, sends them, and removes them.

A failed notification is retried with growing pauses; the channel's health records the error. If a process dies in
between, another one sends its notifications again, so a channel may get them twice, but not never.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import defaultdict
from collections.abc import Sequence

from msgspec import structs

from headrace.core.alerts.alert import key_of
from headrace.core.clock import Clock
from headrace.core.documents import Document
from headrace.core.text import counted, why
from headrace.runtime.alerts.channels import Channel, Undelivered
from headrace.runtime.alerts.notify import deliver
from headrace.runtime.alerts.store import POST, AlertStore, Notification, decoded, rewritten

log = logging.getLogger("headrace.alerts")

_TAKEN_MS = 120_000  # longer than one message may take
_PAUSE_FIRST, _PAUSE_LONGEST, _MAX_TRIES = 15_000, 3_600_000, 8
_ALERTS_PER_MESSAGE = 100

_Posts = list[tuple[Document, Notification]]


class Delivery:
    """One delivery to one channel. In its own thread, it never touches the store."""

    def __init__(self, name: str, channel: Channel | None, posts: _Posts, now: int) -> None:
        self.name = name
        self.posts = posts
        self.error: str | None = "not started"
        self._channel = channel
        self._now = now
        self.events = [post.news for _, post in posts if channel is None or channel.accepts(post.news[1].severity)]
        self._thread = threading.Thread(target=self.run, name="headrace-outbox", daemon=True)

    @property
    def is_local(self) -> bool:
        """Whether it needs no network."""
        return self._channel is None or self._channel.kind == "log"

    @property
    def _message_id(self) -> str:
        """An id of the set of notifications: a set with one more is another message."""
        keys = [document.key for document, _ in self.posts]
        return keys[0] if len(keys) == 1 else hashlib.sha256("\n".join(keys).encode()).hexdigest()[:32]

    def start(self) -> None:
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def run(self) -> None:
        try:
            if self._channel is None:
                raise Undelivered("there is no such channel")
            if self.events:
                deliver(self._channel, self.events, self._message_id, self._now)
            self.error = None
        except Undelivered as error:
            self.error = str(error)
        except Exception as error:  # on any error, the notification is retried
            self.error = why(error) if self._channel is None else self._channel.without_secrets(why(error))


class Outbox:
    """Starts deliveries and records their results. Each channel has at most one: none waits for another."""

    def __init__(self, queries: AlertStore, clock: Clock) -> None:
        self._queries = queries
        self._clock = clock
        self._in_progress: dict[str, Delivery] = {}
        self.is_empty = False  # nothing to deliver, now or later

    def start_due(self) -> bool:
        """Start due deliveries in the background, and record finished ones; whether any is in progress."""
        for name in [name for name, delivery in self._in_progress.items() if delivery.is_over]:
            self._settle(self._in_progress[name])  # if the store is unavailable it is recorded later, not sent again
            del self._in_progress[name]
        for delivery in self._deliveries():
            if delivery.is_local:
                delivery.run()
                self._settle(delivery)
            else:
                delivery.start()
                self._in_progress[delivery.name] = delivery
        return bool(self._in_progress)

    def deliver(self) -> int:
        """Deliver due notifications now, in this thread; returns the number of alerts sent."""
        sent = 0
        for delivery in self._deliveries():
            delivery.run()
            self._settle(delivery)
            sent += len(delivery.events) if delivery.error is None else 0
        return sent

    def _deliveries(self) -> list[Delivery]:
        due = self._due()
        channels = self._queries.channels() if due else {}
        taken = {name: self._take(posts) for name, posts in due.items() if name not in self._in_progress}
        now = self._clock.now()
        return [Delivery(name, channels.get(name), posts, now) for name, posts in taken.items() if posts]

    def _due(self) -> dict[str, _Posts]:
        now, due, ahead = self._clock.now(), defaultdict[str, _Posts](list), set[tuple[str, str]]()
        posts = list(self._queries.browse(POST))
        self.is_empty = not posts and not self._in_progress
        for document in posts:  # oldest first
            post = decoded(document, Notification)
            alert = post.news[1]
            key = (post.channel, key_of(alert.rule, alert.series))
            # A time beyond that comes from a wrong clock.
            if now < post.due <= now + _PAUSE_LONGEST:
                ahead.add(key)  # the end of an alert is not sent before its beginning
            elif key not in ahead and len(due[post.channel]) < _ALERTS_PER_MESSAGE:
                due[post.channel].append((document, post))
        return {name: posts for name, posts in due.items() if posts}

    def _take(self, posts: _Posts) -> _Posts:
        """Take them for a while; none if another worker was quicker."""
        until = self._clock.now() + _TAKEN_MS
        taken = [(document, structs.replace(post, due=until, tries=post.tries + 1)) for document, post in posts]
        if not self._queries.put_all([rewritten(document, post) for document, post in taken]):
            return []
        return [(structs.replace(document, version=document.version + 1), post) for document, post in taken]

    def _settle(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._postpone(delivery.name, delivery.posts, delivery.error)
            return
        self._queries.put_all((), [document for document, _ in delivery.posts])
        if delivery.events:
            self._queries.record_health(f"channel {delivery.name}", None)

    def _postpone(self, name: str, posts: _Posts, error: str) -> None:
        if self._queries.record_health(f"channel {name}", "failing", error):
            log.warning("channel %s can't be reached: %s; trying again", name, error)
        now = self._clock.now()
        later = [(document, post) for document, post in posts if post.tries < _MAX_TRIES]
        given_up = [document for document, post in posts if post.tries >= _MAX_TRIES]
        self._queries.put_all([rewritten(document, _later(post, now)) for document, post in later])
        if given_up:
            self._queries.put_all((), given_up)
            missed = counted(len(given_up), "alert")
            log.error("channel %s missed %s after %d tries: %s", name, missed, _MAX_TRIES, error)


def _later(post: Notification, now: int) -> Notification:
    return structs.replace(post, due=now + min(_PAUSE_FIRST << (post.tries - 1), _PAUSE_LONGEST))


def waiting(queries: AlertStore) -> Sequence[Notification]:
    """The notifications not delivered yet."""
    return [decoded(document, Notification) for document in queries.browse(POST)]
