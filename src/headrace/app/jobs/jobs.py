"""`app.jobs`: find, count and change jobs by filters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, overload

from msgspec.structs import replace

from headrace.app.jobs.fork import fork
from headrace.app.services import archived_jobs as archive
from headrace.app.services.filters import as_filter
from headrace.app.services.services import Services
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.option_times import check_moment
from headrace.core.retention.retention import FinishedJob
from headrace.core.tasks.options import check_limit, check_text
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.job import Job

_BATCH = 500
_UNLIMITED = 1 << 40


class JobPage(Sequence[Job[Any]]):
    """Some jobs, newest first. `cursor` continues after them, None at the end.

    `searched` is about how many jobs were searched, if the search stopped at `reach` before the end.
    """

    def __init__(self, jobs: list[Job[Any]], cursor: str | None, searched: int | None = None) -> None:
        self.jobs = jobs
        self.cursor = cursor
        self.searched = searched

    @overload
    def __getitem__(self, index: int) -> Job[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job[Any]]: ...
    def __getitem__(self, index: int | slice) -> Job[Any] | list[Job[Any]]:
        return self.jobs[index]

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Job[Any]]:
        return iter(self.jobs)

    def __repr__(self) -> str:
        return f"<JobPage of {len(self.jobs)}{', more follow' if self.cursor else ''}>"


class Jobs:
    """`app.jobs`. The filters are the same everywhere: state, queue, task, tag, args, worker, text, flow, since, until,
    ids.

    `args` finds jobs by one argument of tasks that index it: `args={"order_id": 40199}`.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def get(self, job_id: str) -> Job[Any]:
        """The job with this id, or JobNotFound."""
        return Job(self._services, self._services.row(check_text("job id", job_id)))

    def find(
        self,
        /,
        *,
        limit: int = 50,
        cursor: str | None = None,
        archived: bool = False,
        reach: int | None = None,
        whole: bool = False,
        **filters: Any,
    ) -> JobPage:
        """The matching jobs, newest first, at most `limit` of them.

        `archived` selects archived jobs, ordered by their finish, to which `since` and `until` then apply; worker, text
        and flow do not filter them. `reach` ends a search without an index after about so many jobs; its cursor
        continues after them. Long arguments and results are read on first use; with `whole` they are read at once.
        """
        if cursor is not None and not isinstance(cursor, str):
            raise InvalidJob(f"cursor {short(cursor)} is not one that find() returned", field="cursor", value=cursor)
        which, most = as_filter(filters), check_limit("limit", limit)
        if _flag("archived", archived):
            page = archive.find(self._services.engine, self._services.archive, which, most, cursor)
        else:
            scan_limit, light = None if reach is None else _reach(reach), not _flag("whole", whole)
            page = self._services.engine.queries.find(which, most, cursor, scan_limit, light=light)
        stopped = page.cursor is not None and len(page.jobs) < most and not archived
        return JobPage([Job(self._services, row) for row in page.jobs], page.cursor, reach if stopped else None)

    def count(self, /, *, archived: bool = False, **filters: Any) -> int:
        """The number of matching jobs; with `archived`, in the archive."""
        which = as_filter(filters)
        if not _flag("archived", archived):
            return self._services.engine.queries.count(which).jobs
        archive.refuse_unsupported(which)
        return 0 if self._services.archive is None else self._services.archive.count(which)

    def count_up_to(self, reach: int, /, **filters: Any) -> JobCount:
        """The number of matching jobs among about `reach` scanned ones: exact, or a lower bound."""
        return self._services.engine.queries.count(as_filter(filters), _reach(reach))

    def cancel(self, /, **filters: Any) -> int:
        """Cancel the matching unfinished jobs; returns their number."""
        return self._move(filters, Trigger.CANCEL)

    def retry(self, /, **filters: Any) -> int:
        """Run the matching finished jobs again; returns their number. Without a state, only failed ones."""
        if not {"state", "ids"} & filters.keys():
            filters = {**filters, "state": State.FAILED}
        return self._move(filters, Trigger.REVIVE)

    def promote(self, /, **filters: Any) -> int:
        """Run the matching scheduled, retrying or waiting jobs now; returns their number."""
        return self._move(filters, Trigger.PROMOTE_NOW)

    def delete(self, /, *, finished_before: datetime | None = None, limit: int | None = None, **filters: Any) -> int:
        """Delete the matching jobs that are not running; returns their number. With `ids`, also from the archive.

        `finished_before` selects jobs that finished before that time, oldest first, and none of the archive. At most
        `limit` are deleted.
        """
        most = _UNLIMITED if limit is None else _limit(limit)
        if finished_before is None:
            return self._move(filters, Trigger.DELETE, most)
        return self._delete_finished(as_filter(filters), check_moment("finished_before", finished_before), most)

    def _delete_finished(self, which: Filter, before: int, most: int) -> int:
        if which.states and not set(which.states) <= FINAL:
            raise InvalidJob("finished_before: only completed, failed and cancelled jobs have finished")
        engine, removed = self._services.engine, 0
        names = [which.queue] if which.queue is not None else [queue.name for queue in engine.queries.rules().queues]
        for queue, state in itertools.product(names, which.states or sorted(FINAL)):
            after: FinishedJob | None = None
            while removed < most and (found := engine.retention_store.finished(queue, state, before, _BATCH, after)):
                after = found[-1]
                # The store checks the filters again when it deletes these ids.
                ids = tuple(job.id for job in found if not which.ids or job.id in which.ids)
                some = replace(which, ids=ids, states=(state,))
                removed += len(engine.queries.move(some, Trigger.DELETE, most - removed)) if ids else 0
        return removed

    def fork(self, job: Job[Any] | str, /, from_step: str | None = None) -> Job[Any]:
        """Run a finished job anew from this step, as a new job that keeps the results of the steps before it.

        Without a step, it runs from the beginning. The old job stays as it is.
        """
        job_id = check_text("job", job.id if isinstance(job, Job) else job)
        step = None if from_step is None else check_text("from_step", from_step)
        return self.get(fork(self._services, job_id, step))

    def replay(self, job: Job[Any] | str, /, *, debugger: bool = False, recorded_only: bool = False) -> Any:
        """Run a stored job here and now, in this thread, with the results that its steps have recorded.

        It returns or raises what the task does, claims nothing and stores nothing. A step without a recorded result
        runs, unless `recorded_only`. ReplayStopped where the job would sleep, wait or spawn. With `debugger`, pdb opens
        where the task raised. Lines that the job logs go to the logger `headrace.replay`.
        """
        from headrace.app.jobs.replay import replay_of  # deferred: few programs replay jobs

        found = self.get(job.id if isinstance(job, Job) else job)
        only = _flag("recorded_only", recorded_only)
        return replay_of(self._services, found, debugger=_flag("debugger", debugger), recorded_only=only).run()

    aget = twin(get)
    afind = twin(find)
    acount = twin(count)
    acount_up_to = twin(count_up_to)
    acancel = twin(cancel)
    aretry = twin(retry)
    apromote = twin(promote)
    adelete = twin(delete)
    afork = twin(fork)
    areplay = twin(replay)

    def _move(self, filters: dict[str, Any], event: Trigger, most: int = _UNLIMITED) -> int:
        which = as_filter(filters)
        if which == Filter():  # also if every given filter is None
            raise InvalidJob("give at least one filter, for example queue='default'")
        return len(self._services.move(which, event, most=most))


def _flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise InvalidJob(f"{name}: expected True or False, got {short(value)}", value=value)
    return value


def _limit(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise InvalidJob(f"limit: expected a maximum number of jobs, 1 or more, got {short(value)}", value=value)
    return value


def _reach(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise InvalidJob(f"reach: expected a number of jobs to scan, 1 or more, got {short(value)}", value=value)
    return value
