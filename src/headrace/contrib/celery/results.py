"""Celery's results over jobs: AsyncResult, GroupResult, and EagerResult for calls that ran at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from headrace import Headrace, Job, State
from headrace.contrib.celery.current import current_app
from headrace.contrib.celery.exceptions import original_error
from headrace.core.jobs.dependencies import PARENT_FAILED
from headrace.errors import FlowNotFound, JobCancelled, JobFailed, JobNotFound

PENDING, STARTED, RETRY = "PENDING", "STARTED", "RETRY"
SUCCESS, FAILURE, REVOKED = "SUCCESS", "FAILURE", "REVOKED"
READY_STATES = frozenset({SUCCESS, FAILURE, REVOKED})
ERRBACK = "celery.link_error"  # the task that calls errbacks
STATE_KEY = "state"  # in the progress of a job: the state that update_state() named
_STATES = {
    State.RUNNING: STARTED,
    State.RETRYING: RETRY,
    State.COMPLETED: SUCCESS,
    State.FAILED: FAILURE,
    State.CANCELLED: REVOKED,
}


class AsyncResult:
    """A job by its id, as Celery shows it. Each look reads the store."""

    def __init__(self, id: str, app: Headrace, parent: Any = None) -> None:
        self.id = id
        self.parent = parent
        self._app = app

    @property
    def task_id(self) -> str:
        return self.id

    @property
    def job(self) -> Job[Any] | None:
        """The job of headrace behind it; None if there is none."""
        try:
            return self._app.jobs.get(self.id)
        except JobNotFound:
            return None

    @property
    def state(self) -> str:
        """PENDING, STARTED, RETRY, SUCCESS, FAILURE, REVOKED, or what update_state() named. PENDING if unknown."""
        job = self.job
        if job is None:
            return PENDING
        if job.state is State.CANCELLED and job.reason == PARENT_FAILED:
            return FAILURE
        if job.state is State.RUNNING and isinstance(progress := job.progress, dict) and STATE_KEY in progress:
            return str(progress[STATE_KEY])
        return _STATES.get(job.state, PENDING)

    status = state

    @property
    def result(self) -> Any:
        """The return value, the exception of a failed job, or the meta of update_state()."""
        job = self.job
        if job is None:
            return None
        if job.is_finished:
            try:
                return job.outcome()
            except (JobFailed, JobCancelled) as error:
                return self._error(job, error)
        progress = job.progress
        return {name: value for name, value in progress.items() if name != STATE_KEY} if progress else None

    info = result

    @property
    def traceback(self) -> str | None:
        """The traceback of the last failed attempt."""
        job = self.job
        errors = [] if job is None else job.errors
        return errors[-1].traceback if errors else None

    @property
    def retries(self) -> int:
        job = self.job
        return 0 if job is None else max(job.attempt - 1, 0)

    @property
    def name(self) -> str | None:
        job = self.job
        return None if job is None else job.task

    @property
    def date_done(self) -> datetime | None:
        job = self.job
        return None if job is None else job.finished_at

    def ready(self) -> bool:
        return self.state in READY_STATES

    def successful(self) -> bool:
        return self.state == SUCCESS

    def failed(self) -> bool:
        return self.state == FAILURE

    def get(self, timeout: float | None = None, propagate: bool = True, **_: Any) -> Any:
        """Wait for the result. The error of a failed job is raised, as its own type if that is a builtin one."""
        job = self._app.jobs.get(self.id)
        try:
            return job.result(timeout)
        except (JobFailed, JobCancelled) as failed:
            error = self._error(job.refresh(), failed)
            if propagate:
                raise error from None
            return error

    wait = get

    def _error(self, job: Job[Any], error: BaseException) -> BaseException:
        """The error of the job, or of the failed one before it in its chain."""
        if isinstance(error, JobFailed):
            return original_error(error)
        for parent in job.parents() if job.reason == PARENT_FAILED else ():
            try:
                if parent.is_finished:
                    parent.outcome()
            except (JobFailed, JobCancelled) as cause:
                return self._error(parent, cause)
        return error

    def revoke(self, terminate: bool = False, **_: Any) -> None:
        """Cancel the job. A task in a process of its own is killed, whatever `terminate` says."""
        if (job := self.job) is not None:
            job.cancel()

    def forget(self) -> None:
        """Delete the job, if it has finished."""
        if (job := self.job) is not None and job.is_finished:
            job.delete()

    def __eq__(self, other: object) -> bool:
        return getattr(other, "id", other) == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"


class EagerResult:
    """The result of a call that has already run here."""

    def __init__(self, id: str, value: Any, state: str, traceback: str | None = None, name: str | None = None) -> None:
        self.id = self.task_id = id
        self.result = self.info = value
        self.state = self.status = state
        self.traceback = traceback
        self.name = name
        self.parent: Any = None

    def ready(self) -> bool:
        return True

    def successful(self) -> bool:
        return self.state == SUCCESS

    def failed(self) -> bool:
        return self.state == FAILURE

    def get(self, timeout: float | None = None, propagate: bool = True, **_: Any) -> Any:
        if propagate and isinstance(self.result, BaseException) and self.state != SUCCESS:
            raise self.result
        return self.result

    wait = get

    def revoke(self, *_: Any, **__: Any) -> None:
        """Nothing to stop."""

    def forget(self) -> None:
        """Nothing is stored."""

    def __repr__(self) -> str:
        return f"<EagerResult: {self.id}>"


class GroupResult:
    """The results of a group, in its order."""

    def __init__(self, id: str, results: Sequence[Any], parent: Any = None) -> None:
        self.id = id
        self.results = list(results)
        self.parent = parent

    children = property(lambda self: self.results)

    def get(self, timeout: float | None = None, propagate: bool = True, **_: Any) -> list[Any]:
        """Wait for all results, and return them as a list."""
        deadline = None if timeout is None else time.monotonic() + timeout
        found = []
        for result in self.results:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            found.append(result.get(left, propagate=propagate))
        return found

    join = join_native = get

    def iter_native(self, **_: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """The id, state and result of each, in the order of the group."""
        for result in self.results:
            value = result.get(propagate=False)
            yield result.id, {"task_id": result.id, "status": result.state, "result": value}

    def save(self, **_: Any) -> GroupResult:
        """Nothing to do: its jobs are in the store."""
        return self

    @classmethod
    def restore(cls, id: str, app: Any = None, **_: Any) -> GroupResult | None:
        """The results of a group by its id: those of the last jobs of its flow. None if there is none."""
        headrace: Headrace = (app or current_app)._app
        try:
            jobs = [job for job in headrace.flows.get(id).jobs if job.task != ERRBACK]
        except FlowNotFound:
            return None
        used = {parent.id for job in jobs for parent in job.parents()}
        return cls(id, [AsyncResult(job.id, headrace) for job in jobs if job.id not in used])

    def ready(self) -> bool:
        return all(result.ready() for result in self.results)

    def successful(self) -> bool:
        return all(result.successful() for result in self.results)

    def failed(self) -> bool:
        return any(result.failed() for result in self.results)

    def waiting(self) -> bool:
        return not self.ready()

    def completed_count(self) -> int:
        return sum(result.successful() for result in self.results)

    @property
    def state(self) -> str:
        return FAILURE if self.failed() else SUCCESS if self.ready() else PENDING

    def revoke(self, **how: Any) -> None:
        for result in self.results:
            result.revoke(**how)

    def forget(self) -> None:
        for result in self.results:
            result.forget()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: int) -> Any:
        return self.results[place]

    def __repr__(self) -> str:
        return f"<GroupResult: {self.id} of {len(self)}>"
