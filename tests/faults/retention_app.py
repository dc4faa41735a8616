"""A process that sweeps finished jobs into the archive, drops its partitions or erases jobs, until it is killed."""

from __future__ import annotations

import sys

from headrace import Headrace
from headrace.runtime.retention.removal import RetentionCounts
from headrace.runtime.retention.sweep import RetentionSweep


def main(what: str) -> None:
    with Headrace() as app:
        print("ready", flush=True)
        if what == "drop":
            archive = app.lifecycle._archive._required_archive()
            now, week = app.clock.now(), 7 * 86_400_000
            for moment in range(now - 61 * week, now - 10 * week, week):
                archive.update_partitions(moment, None, moment)
        elif what == "erase":
            app.admin.erase(tag="user:42", by="dan")
        else:
            for _ in RetentionSweep(app.engine, app.settings, app.services.archive).walk(RetentionCounts()):
                pass


if __name__ == "__main__":
    main(sys.argv[1])
