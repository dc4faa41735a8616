"""Brings posts to their channels: whoever takes some for a while, tells the channel, and removes them.

A post that nobody could deliver is tried again later and later; what is wrong with a channel is kept for all to see. A
process that dies in between leaves its posts to others, so a channel may be told twice, but not never.
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
from headrace.core.text import why
from headrace.runtime.alerts.channels import Channel, Undelivered
from headrace.runtime.alerts.notify import deliver
from headrace.runtime.alerts.store import POST, AlertStore, Notification, decoded, rewritten

log = logging.getLogger("headrace.alerts")

_TAKEN_FOR = 120_000  # milliseconds: longer than one message may take
_FIRST, _LONGEST, _TRIES = 15_000, 3_600_000, 8
_AT_ONCE = 100

_Posts = list[tuple[Document, Notification]]


class Delivery:
    """One way to one channel with all that it is to be told. In a thread of its own it never touches the store."""

    def __init__(self, name: str, channel: Channel | None, posts: _Posts, now: int) -> None:
        self.name = name
        self.posts = posts
        self.error: str | None = "nobody has set out"
        self._channel = channel
        self._now = now
        self.news = [post.news for _, post in posts if channel is None or channel.is_told_of(post.news[1].severity)]
        self._thread = threading.Thread(target=self.run, name="headrace-courier", daemon=True)

    @property
    def is_short(self) -> bool:
        """Whether it leads to no other host."""
        return self._channel is None or self._channel.kind == "log"

    @property
    def _message_id(self) -> str:
        """One for each set of posts: with another one beside it, what was sent before is not the same message."""
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
            if self.news:
                deliver(self._channel, self.news, self._message_id, self._now)
            self.error = None
        except Undelivered as error:
            self.error = str(error)
        except Exception as error:  # whatever it is, the post is tried again
            self.error = why(error) if self._channel is None else self._channel.without_secrets(why(error))


class Outbox:
    """Sends errands, and keeps what became of them. Each channel has one at a time: none waits for another."""

    def __init__(self, queries: AlertStore, clock: Clock) -> None:
        self._queries = queries
        self._clock = clock
        self._on_the_way: dict[str, Delivery] = {}
        self.has_nothing = False  # to deliver, now or later

    def set_out(self) -> bool:
        """Send what is due, in the background, and keep what has come back; whether any is on the way."""
        for name in [name for name, delivery in self._on_the_way.items() if delivery.is_over]:
            self._settle(self._on_the_way[name])  # if the store is away it is settled later, not sent once more
            del self._on_the_way[name]
        for delivery in self._deliveries():
            if delivery.is_short:
                delivery.run()
                self._settle(delivery)
            else:
                delivery.start()
                self._on_the_way[delivery.name] = delivery
        return bool(self._on_the_way)

    def deliver(self) -> int:
        """Deliver what is due, here and now; of how many alerts somebody was told."""
        told = 0
        for delivery in self._deliveries():
            delivery.run()
            self._settle(delivery)
            told += len(delivery.news) if delivery.error is None else 0
        return told

    def _deliveries(self) -> list[Delivery]:
        due = self._due()
        channels = self._queries.channels() if due else {}
        taken = {name: self._take(posts) for name, posts in due.items() if name not in self._on_the_way}
        now = self._clock.now()
        return [Delivery(name, channels.get(name), posts, now) for name, posts in taken.items() if posts]

    def _due(self) -> dict[str, _Posts]:
        now, due, ahead = self._clock.now(), defaultdict[str, _Posts](list), set[tuple[str, str]]()
        posts = list(self._queries.browse(POST))
        self.has_nothing = not posts and not self._on_the_way
        for document in posts:  # the oldest first
            post = decoded(document, Notification)
            alert = post.news[1]
            whose = (post.channel, key_of(alert.rule, alert.series))
            # Beyond that it would be a clock that was wrong.
            if now < post.due <= now + _LONGEST:
                ahead.add(whose)  # that an alert is over is not told before that it began
            elif whose not in ahead and len(due[post.channel]) < _AT_ONCE:
                due[post.channel].append((document, post))
        return {name: posts for name, posts in due.items() if posts}

    def _take(self, posts: _Posts) -> _Posts:
        """Have them for a while; none if somebody was quicker."""
        until = self._clock.now() + _TAKEN_FOR
        mine = [(document, structs.replace(post, due=until, tries=post.tries + 1)) for document, post in posts]
        if not self._queries.put_all([rewritten(document, post) for document, post in mine]):
            return []
        return [(structs.replace(document, version=document.version + 1), post) for document, post in mine]

    def _settle(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._put_off(delivery.name, delivery.posts, delivery.error)
            return
        self._queries.remove_all([document for document, _ in delivery.posts])
        if delivery.news:
            self._queries.tell_health(f"channel {delivery.name}", None)

    def _put_off(self, name: str, posts: _Posts, error: str) -> None:
        if self._queries.tell_health(f"channel {name}", "failing", error):
            log.warning("channel %s can't be told of alerts: %s; it is tried again", name, error)
        now = self._clock.now()
        later = [(document, post) for document, post in posts if post.tries < _TRIES]
        given_up = [document for document, post in posts if post.tries >= _TRIES]
        self._queries.put_all([rewritten(document, _later(post, now)) for document, post in later])
        if given_up:
            self._queries.remove_all(given_up)
            log.error("channel %s was not told of %d alerts after %d tries: %s", name, len(given_up), _TRIES, error)


def _later(post: Notification, now: int) -> Notification:
    return structs.replace(post, due=now + min(_FIRST << (post.tries - 1), _LONGEST))


def waiting(queries: AlertStore) -> Sequence[Notification]:
    """What was not delivered yet."""
    return [decoded(document, Notification) for document in queries.browse(POST)]
