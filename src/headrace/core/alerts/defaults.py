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
        _rule("queue_depth", "depth > 1000", "queue {queue} has {depth} pending jobs", per=("queue",), for_=_MINUTE),
        _rule("queue_full", "fullness >= 90%", "queue {queue} is {fullness} full and will refuse jobs", per=("queue",)),
        _rule("oldest_job", "oldest > 1h", "queue {queue}: a job has been pending for {oldest}", per=("queue",)),
        _rule(
            "no_worker",
            "depth > 0 and workers == 0",
            "no live worker serves queue {queue}, where {depth:job is|jobs are} pending",
            per=("queue",),
            for_=_MINUTE,
            severity="critical",
        ),
        _rule(
            "workers_unhealthy",
            "workers_healthy < 80%",
            "only {workers_healthy} of the workers are healthy; the others died or make no progress",
            for_=_MINUTE,
            severity="critical",
        ),
        _rule(
            "error_rate",
            "error_rate[5m] > 5% and started[5m] >= 20",
            "queue {queue}: {error_rate} of the attempts failed in 5 minutes",
            per=("queue",),
            severity="critical",
        ),
        _rule(
            "slow_queue",
            "throughput[5m] < 10% * baseline(throughput[5m]) and depth > 0",
            "queue {queue} completes far fewer jobs than usual",
            per=("queue",),
            for_=5 * _MINUTE,
        ),
        _rule(
            "slow_task",
            "run_p99[5m] > 2 * baseline(run_p99[5m]) and run_p99[5m] > 1s and completed[5m] >= 20",
            "task {task} takes {run_p99} (p99), twice as long as usual",
            per=("task",),
            for_=5 * _MINUTE,
        ),
        _rule(
            "dead_letter",
            "dead_entered[5m] > 0",
            "{task}: {dead_entered:job|jobs} failed for good in 5 minutes ({reason})",
            per=("task", "reason"),
        ),
        _rule(
            "dead_letter_burst",
            "dead_entered[5m] >= 20",
            "{task}: {dead_entered:job|jobs} failed for good in 5 minutes",
            per=("task",),
            severity="critical",
        ),
        _rule("dead_letters", "dead > 100", "{dead} dead letters are pending", for_=15 * _MINUTE),
        _rule(
            "stale_jobs",
            "stale_share > 5%",
            "{stale_share} of the open jobs stay too long in their state",
            for_=30 * _MINUTE,
        ),
        _rule(
            "stale_check",
            "stale_errors > 0",
            "the check for stale jobs fails",
            for_=10 * _MINUTE,
            severity="critical",
        ),
        _rule(
            "schedule_misses",
            "schedule_misses[1h] > 1%",
            "{schedule_misses} of the schedule runs were missed in an hour",
        ),
        _rule(
            "schedule_errors",
            "schedule_errors > 0",
            "{schedule_errors:schedule|schedules} can't fire",
            severity="critical",
        ),
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
            "the store is at {store_share} of its size limit",
            severity="critical",
        ),
        _rule(
            "disk_space", "disk_free < 500MB", "only {disk_free} are free on the disk of the store", severity="critical"
        ),
    )
}
