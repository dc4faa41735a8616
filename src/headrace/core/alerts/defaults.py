"""The default alert rules of every store; an operator may change or disable them.

Rates need a minimum of attempts, so that one failure in a quiet night does not count.
"""

from __future__ import annotations

from typing import Any

from headrace.core.alerts.alert import AlertRuleRow

_MINUTE = 60_000
_HOUR = 60 * _MINUTE


def _rule(name: str, when: str, summary: str, **more: Any) -> AlertRuleRow:
    return AlertRuleRow(name=name, when=when, summary=summary, **{"cooldown": _HOUR, **more})


SHIPPED = {
    rule.name: rule
    for rule in (
        _rule("queue_depth", "depth > 1000", "many jobs are waiting", per=("queue",), for_=_MINUTE),
        _rule("queue_full", "fullness >= 90%", "a queue is nearly full and will refuse jobs", per=("queue",)),
        _rule("oldest_job", "oldest > 1h", "a job has been waiting for long", per=("queue",)),
        _rule(
            "no_worker",
            "depth > 0 and workers == 0",
            "jobs are waiting and no live worker serves their queue",
            per=("queue",),
            for_=_MINUTE,
            severity="critical",
        ),
        _rule(
            "workers_unhealthy",
            "workers_healthy < 80%",
            "workers stopped reporting or make no progress",
            for_=_MINUTE,
            severity="critical",
        ),
        _rule(
            "error_rate",
            "error_rate[5m] > 5% and started[5m] >= 20",
            "many attempts fail",
            per=("queue",),
            severity="critical",
        ),
        _rule(
            "slow_queue",
            "throughput[5m] < 10% * baseline(throughput[5m]) and depth > 0",
            "far fewer jobs are completed than usual",
            per=("queue",),
            for_=5 * _MINUTE,
        ),
        _rule(
            "slow_task",
            "run_p99[5m] > 2 * baseline(run_p99[5m]) and run_p99[5m] > 1s and completed[5m] >= 20",
            "jobs of a task take twice as long as usual",
            per=("task",),
            for_=5 * _MINUTE,
        ),
        _rule(
            "dead_letter",
            "dead_entered[5m] > 0",
            "jobs failed for good",
            per=("task", "reason"),
            severity="critical",
        ),
        _rule("dead_letters", "dead > 100", "dead letters are waiting for a decision", for_=15 * _MINUTE),
        _rule("stale_jobs", "stale_share > 5%", "many jobs stay too long in their state", for_=30 * _MINUTE),
        _rule(
            "stale_check",
            "stale_errors > 0",
            "the check for stale jobs fails",
            for_=10 * _MINUTE,
            severity="critical",
        ),
        _rule("schedule_misses", "schedule_misses[1h] > 1%", "runs of schedules were missed"),
        _rule("schedule_errors", "schedule_errors > 0", "a schedule can't fire", severity="critical"),
        _rule("archive", "archive_errors > 0", "finished jobs can't be archived", for_=30 * _MINUTE),
        _rule(
            "archive_partition",
            "partition_errors > 0",
            "a partition of the archive is missing",
            severity="critical",
        ),
        _rule(
            "store_space",
            "store_share > 85%",
            "the store is nearly as large as it may be",
            severity="critical",
        ),
        _rule("disk_space", "disk_free < 500MB", "the disk of the store is nearly full", severity="critical"),
    )
}
