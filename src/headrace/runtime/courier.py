"""Brings posts to their channels: whoever takes some for a minute, tells the channel, and removes them.

A post that nobody could deliver is tried again later and later; what is wrong with a channel is kept for all to see. A
process that dies in between leaves its posts to others, so a channel may be told twice, but not never.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Sequence

from msgspec import structs

from headrace.core.clock import Clock
from headrace.core.shelf import Paper
from headrace.errors import CorruptPayload, HeadraceError, InvalidAlert
from headrace.runtime.alert_desk import POST, AlertDesk, Post, decoded, rewritten
from headrace.runtime.channels import Channel, Undelivered
from headrace.runtime.notifying import deliver

log = logging.getLogger("headrace.alerts")

_TAKEN_FOR = 60_000  # milliseconds: longer than one message may take
_FIRST, _LONGEST, _TRIES = 15_000, 3_600_000, 8
_AT_ONCE = 100

_Posts = list[tuple[Paper, Post]]


class Courier:
    """Delivers in a thread of its own, which is there while anything is due: no chore waits for a mail server."""

    def __init__(self, desk: AlertDesk, clock: Clock) -> None:
        self._desk = desk
        self._clock = clock
        self._thread: threading.Thread | None = None

    def set_out(self) -> None:
        """Deliver what is due, in the background; whoever is on the way already sees to it."""
        if (self._thread is None or not self._thread.is_alive()) and self._due():
            self._thread = threading.Thread(target=self._run, name="headrace-courier", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.deliver()
        except HeadraceError as error:
            log.warning("alerts could not be delivered now: %s", error)
        except Exception:
            log.exception("alerts could not be delivered; it is tried again")

    def deliver(self) -> int:
        """Deliver what is due now; how many posts were."""
        due = self._due()
        channels = self._channels() if due else {}
        return sum(self._bring(name, posts, channels) for name, posts in due.items())

    def _due(self) -> dict[str, _Posts]:
        now, due = self._clock.now(), defaultdict[str, _Posts](list)
        for paper in self._desk.browse(POST):
            post = decoded(paper, Post)
            # Beyond that it would be a clock that was wrong.
            if not now < post.due <= now + _LONGEST and len(due[post.channel]) < _AT_ONCE:
                due[post.channel].append((paper, post))
        return {name: posts for name, posts in due.items() if posts}

    def _channels(self) -> dict[str, Channel]:
        try:
            return self._desk.channels()
        except (CorruptPayload, InvalidAlert) as error:
            log.error("no alert can be delivered: %s", error)
            raise

    def _bring(self, name: str, posts: _Posts, channels: dict[str, Channel]) -> int:
        taken = self._take(posts)
        if not taken:
            return 0
        channel = channels.get(name)
        wanted = [one for one in taken if channel is None or channel.is_told_of(one[1].news[1].severity)]
        try:
            if channel is None:
                raise Undelivered("there is no such channel")
            if wanted:
                deliver(channel, [post.news for _, post in wanted], taken[0][0].key, self._clock.now())
        except Undelivered as error:
            self._put_off(name, taken, str(error))
            return 0
        self._desk.remove_all([paper for paper, _ in taken])
        if wanted:
            self._desk.tell_health(f"channel {name}", None)
        return len(wanted)

    def _take(self, posts: _Posts) -> _Posts:
        """Have them for a minute; none if somebody was quicker."""
        until = self._clock.now() + _TAKEN_FOR
        mine = [(paper, structs.replace(post, due=until, tries=post.tries + 1)) for paper, post in posts]
        if not self._desk.put_all([rewritten(paper, post) for paper, post in mine]):
            return []
        return [(structs.replace(paper, version=paper.version + 1), post) for paper, post in mine]

    def _put_off(self, name: str, posts: _Posts, error: str) -> None:
        if self._desk.tell_health(f"channel {name}", "failing", error):
            log.warning("channel %s can't be told of alerts: %s; it is tried again", name, error)
        now = self._clock.now()
        later = [(paper, post) for paper, post in posts if post.tries < _TRIES]
        given_up = [paper for paper, post in posts if post.tries >= _TRIES]
        self._desk.put_all([rewritten(paper, _later(post, now)) for paper, post in later])
        if given_up:
            self._desk.remove_all(given_up)
            log.error("channel %s was not told of %d alerts after %d tries: %s", name, len(given_up), _TRIES, error)


def _later(post: Post, now: int) -> Post:
    return structs.replace(post, due=now + min(_FIRST << (post.tries - 1), _LONGEST))


def waiting(desk: AlertDesk) -> Sequence[Post]:
    """What was not delivered yet."""
    return [decoded(paper, Post) for paper in desk.browse(POST)]
