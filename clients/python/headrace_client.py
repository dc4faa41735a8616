"""A client of headrace's REST API, version 0.1.0. One file without dependencies, for Python 3.11+: copy it.

    client = HeadraceClient("http://127.0.0.1:8080", token="s3cret")
    job = client.jobs.create(task="emails.send", kwargs={"to": "ann@example.com"})
    print(client.jobs.why(job["id"])["why"])

Times are RFC 3339 texts, durations are seconds. Answers are plain dicts; their types are for a type checker.
Generated from the OpenAPI document by `python -m docs.tools.clients`; do not edit.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NotRequired, TypedDict, Unpack, cast
from urllib.parse import quote, urlencode


class ApiError(Exception):
    """The server refused a request. `status` is its HTTP status, `kind` the stable name of the error.

    `field` is the invalid field or parameter, if there is one.
    """

    def __init__(self, status: int, kind: str, detail: str, field: str | None = None) -> None:
        super().__init__(f"{status} {kind}: {detail}")
        self.status, self.kind, self.detail, self.field = status, kind, detail, field


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it could send the token to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class _Connection:
    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        self._root = f"{url.rstrip('/')}/api/v1"
        self._headers = {"Content-Type": "application/json", "X-Requested-With": "headrace-client"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect)

    def open(self, method: str, path: str, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None) -> Any:
        parameters = urlencode([pair for name, value in (query or {}).items() for pair in _pairs(name, value)])
        url = f"{self._root}{path}{'?' if parameters else ''}{parameters}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, self._headers, method=method)
        # A claim may wait for jobs on the server.
        timeout = self._timeout + float((body or {}).get("wait") or 0)
        try:
            return self._opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, error.read()) from None


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [pair for one in value for pair in _pairs(name, one)]
    return [(name, str(value).lower() if isinstance(value, bool) else str(value))]


def _refusal(status: int, text: bytes) -> ApiError:
    try:
        problem = json.loads(text)
        return ApiError(status, problem["type"].removeprefix("urn:headrace:"), problem["detail"], problem.get("field"))
    except (ValueError, KeyError, TypeError, AttributeError):  # not from headrace: a proxy, for example
        return ApiError(status, "unknown", text[:200].decode("utf-8", "replace"))


def _quoted(name: str) -> str:
    if not name:
        raise ValueError("a name in a path must not be empty")
    return quote(name, safe="")


class _Resource:
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def _send(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None
    ) -> Any:
        with self._connection.open(method, path, query, body) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _stream(self, path: str, *, query: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """The data of each server-sent event, until the server ends the stream."""
        with self._connection.open("GET", path, query, None) as answer:
            kind, data = "", list[str]()
            for raw in answer:
                name, _, value = raw.decode().rstrip("\r\n").partition(":")
                if name == "data":
                    data.append(value.removeprefix(" "))
                elif name == "event":
                    kind = value.strip()
                elif not name and not value:  # a blank line ends an event
                    if kind == "end":
                        return
                    if data and kind != "trouble":
                        yield json.loads("\n".join(data))
                    kind, data = "", []


State = Literal["cancelled", "completed", "failed", "pending", "retrying", "running", "scheduled", "waiting"]


Trigger = Literal["cancel", "cancel_request", "claim", "compensation", "cost", "delete", "event", "expire", "fail", "lease_expired", "lease_lost", "patch", "promote", "promote_now", "question", "release", "retry", "review", "revive", "sleep", "snooze", "stale", "step", "submit", "succeed", "supersede", "unblock", "update"]


class JobList(TypedDict):
    """Jobs, newest first. `cursor` continues after them; it is null only at the end."""

    jobs: list[JobRecord]
    cursor: str | None
    total: NotRequired[int | None]
    total_is_exact: NotRequired[bool | None]
    searched: NotRequired[int | None]


class JobRecord(TypedDict):
    """A job. Lists omit the fields after `arguments`."""

    id: str
    task: str
    queue: str
    state: State
    priority: int
    attempt: int
    max_attempts: int
    created_at: str
    updated_at: str
    run_at: str
    expires_at: str | None
    started_at: str | None
    finished_at: str | None
    worker: str | None
    reason: str | None
    progress: Any
    flow: str | None
    archived: bool
    tags: list[str]
    metadata: Any
    correlation_id: str | None
    arguments: dict[str, Any] | None
    args: NotRequired[list[Any] | None]
    kwargs: NotRequired[dict[str, Any] | None]
    unreadable: NotRequired[str]
    stored_call: NotRequired[PayloadRecord]
    stored_result: NotRequired[PayloadRecord]
    result: NotRequired[Any]
    steps: NotRequired[list[StepRecord]]
    errors: NotRequired[list[AttemptError]]
    cost: NotRequired[int]
    version: NotRequired[int]
    crashes: NotRequired[int]
    lease_until: NotRequired[str | None]
    options: NotRequired[Any]
    parents: NotRequired[list[DependencyRecord]]
    children: NotRequired[list[DependencyRecord]]
    why: NotRequired[str]


class PayloadRecord(TypedDict):
    """A payload in the payload store: its path there, its size in bytes, and the hash of its file."""

    path: str
    size: int
    sha256: str


class StepRecord(TypedDict):
    """A step of a job, without its value, which may be secret."""

    kind: str
    name: str
    number: int
    at: str | None


class AttemptError(TypedDict):
    """The error of one attempt."""

    at: str
    attempt: int
    type: str
    message: str
    traceback: str


class DependencyRecord(TypedDict):
    """A parent or child of a job."""

    id: str
    task: str
    state: State


class JobRequest(TypedDict):
    """A call of a task, with the options of `using()`: times in seconds; omitted options follow the task."""

    queue: NotRequired[str]
    priority: NotRequired[int]
    delay: NotRequired[float]
    run_at: NotRequired[str]
    expires: NotRequired[float]
    timeout: NotRequired[float | None]
    idempotency_key: NotRequired[str]
    job_id: NotRequired[str]
    tags: NotRequired[list[str] | dict[str, str]]
    metadata: NotRequired[dict[str, Any]]
    after: NotRequired[list[str]]
    parent: NotRequired[str]
    on_parent_failure: NotRequired[Literal["cancel", "hold", "only", "run"]]
    lifo: NotRequired[bool]
    needs: NotRequired[list[str]]
    rate_key: NotRequired[str]
    cost: NotRequired[int]
    budget: NotRequired[int]
    concurrency_key: NotRequired[str]
    keep_result: NotRequired[bool]
    remove_on_complete: NotRequired[bool | int]
    remove_on_fail: NotRequired[bool | int]
    isolation: NotRequired[Literal["async", "process", "thread"]]
    task: str
    args: NotRequired[list[Any]]
    kwargs: NotRequired[dict[str, Any]]
    retry: NotRequired[int | NewRetry]
    unique: NotRequired[bool | NewUnique]


class NewRetry(TypedDict):
    """A retry policy; times in seconds, errors by their dotted names."""

    limit: NotRequired[int]
    backoff: NotRequired[Literal["exponential", "fixed", "linear"] | list[float]]
    base: NotRequired[float]
    factor: NotRequired[float]
    cap: NotRequired[float]
    floor: NotRequired[float]
    jitter: NotRequired[float]
    on: NotRequired[list[str]]
    never: NotRequired[list[str]]
    on_timeout: NotRequired[bool]


class NewUnique(TypedDict):
    """A uniqueness rule: at most one open job per key."""

    by: NotRequired[list[str]]
    key: NotRequired[str | None]
    states: NotRequired[list[State] | None]
    window: NotRequired[float | None]
    on_conflict: NotRequired[Literal["cancel_running", "keep_last_if_running", "raise", "replace", "reschedule", "return_existing"]]


class NewJobs(TypedDict):
    """Jobs to submit in one commit: all or none."""

    jobs: list[JobRequest]


class StoredJobs(TypedDict):
    """The ids of the jobs, in the given order."""

    ids: list[str]


class JobFilter(TypedDict):
    """Filters of a bulk action, at least one; `dry_run` only counts the jobs."""

    state: NotRequired[list[State] | None]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    tag: NotRequired[str | None]
    arg: NotRequired[str | None]
    worker: NotRequired[str | None]
    text: NotRequired[str | None]
    flow: NotRequired[str | None]
    since: NotRequired[str | None]
    until: NotRequired[str | None]
    ids: NotRequired[list[str] | None]
    dry_run: NotRequired[bool]


class Changed(TypedDict):
    """The number of changed items; for a dry run, the number that would change."""

    changed: int
    dry_run: NotRequired[bool]


class DeleteFilter(TypedDict):
    """Jobs to delete, at most `limit`; with `finished_before` only jobs that finished before, oldest first."""

    state: NotRequired[list[State] | None]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    tag: NotRequired[str | None]
    arg: NotRequired[str | None]
    worker: NotRequired[str | None]
    text: NotRequired[str | None]
    flow: NotRequired[str | None]
    since: NotRequired[str | None]
    until: NotRequired[str | None]
    ids: NotRequired[list[str] | None]
    dry_run: NotRequired[bool]
    finished_before: NotRequired[str | None]
    limit: NotRequired[int | None]


class LogEntry(TypedDict):
    """A log line of a job."""

    at: str
    attempt: int
    level: str
    message: str
    fields: dict[str, Any]


class ChunkList(TypedDict):
    """Chunks, oldest first. `cursor` continues after them; no more come if `is_over`: the job is finished."""

    chunks: list[Chunk]
    cursor: str | None
    is_over: bool


class Chunk(TypedDict):
    """One chunk of a job's stream, a text or data. `cursor` is where to read on behind it."""

    cursor: str
    attempt: int
    number: int
    at: str
    data: Any


class HistoryEntry(TypedDict):
    """One entry of a job's history."""

    at: str
    event: Trigger
    from_state: State | None
    to_state: State
    version: int
    attempt: int
    worker: NotRequired[str | None]
    message: NotRequired[str | None]


class Why(TypedDict):
    """Why a job is not running now, or what it is doing, in one sentence; and what can be done about it."""

    id: str
    state: str
    why: str
    remedy: NotRequired[Remedy | None]


class Remedy(TypedDict):
    """What an operator can do: a verb, the name or id it applies to, and the command line that does it."""

    verb: Literal["answer_question", "promote_job", "raise_queue_limit", "raise_task_limit", "resume_queue", "resume_task", "resume_worker", "retry_job", "send_signal", "show_dead_letter", "start_worker"]
    target: str
    command: str
    words: NotRequired[str]


class Fork(TypedDict):
    """The step to begin with; without one, the new job keeps nothing."""

    from_step: NotRequired[str | None]


class JobChange(TypedDict):
    """Fields to change; omitted fields stay."""

    priority: NotRequired[int]
    run_at: NotRequired[str]
    queue: NotRequired[str]


class OpenQuestion(TypedDict):
    """A question that a job waits with."""

    job: str
    task: str
    queue: str
    event: str
    number: int
    text: str
    to: str | None
    answer: dict[str, Any]
    asked_at: str | None
    until: str | None


class AnswerRequest(TypedDict):
    """The answer: a value of the type that the question's `answer` describes."""

    answer: Any
    event: NotRequired[str | None]
    number: NotRequired[int | None]


class SignalRequest(TypedDict):
    """The name of an event, and its data."""

    event: str
    data: NotRequired[Any]


class QueueRecord(TypedDict):
    """A queue: its jobs by state, since when its oldest pending job has been due, and its rules."""

    queue: str
    paused: bool
    scheduled: int
    waiting: int
    pending: int
    running: int
    retrying: int
    completed: int
    failed: int
    cancelled: int
    oldest_pending: str | None
    workers: int
    starts_left: int | None
    rules: QueueRuleFields
    keys: NotRequired[dict[str, KeyRuleFields]]


class QueueRuleFields(TypedDict):
    """The rules of a queue; null is no rule."""

    max_length: NotRequired[int | None]
    weight: NotRequired[int | None]
    strategy: NotRequired[Literal["fifo", "fresh_first", "lifo", "priority", "weighted_random"] | None]
    ageing: NotRequired[float | None]
    rate: NotRequired[str | None]
    burst: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    key_rate: NotRequired[str | None]
    key_burst: NotRequired[int | None]
    key_concurrency: NotRequired[int | None]


class KeyRuleFields(TypedDict):
    """The rules of one key of a queue, in place of those of every key; null is no rule of its own."""

    rate: NotRequired[str | None]
    burst: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    weight: NotRequired[int | None]


class QueueChange(TypedDict):
    """Rules to change: null removes a rule, omitted rules stay."""

    max_length: NotRequired[int | None]
    weight: NotRequired[int | None]
    strategy: NotRequired[Literal["fifo", "fresh_first", "lifo", "priority", "weighted_random"] | None]
    ageing: NotRequired[float | None]
    rate: NotRequired[str | None]
    burst: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    key_rate: NotRequired[str | None]
    key_burst: NotRequired[int | None]
    key_concurrency: NotRequired[int | None]


class KeyChange(TypedDict):
    """Rules to change: null removes a rule, omitted rules stay."""

    rate: NotRequired[str | None]
    burst: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    weight: NotRequired[int | None]
    key: str


class TaskRecord(TypedDict):
    """A task: whether its code is known to the web process, its rules, and its batches: their size and wait."""

    rate: NotRequired[str | None]
    burst: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    strategy: NotRequired[Literal["fifo", "fresh_first", "lifo", "priority", "weighted_random"] | None]
    task: str
    known: bool
    paused: NotRequired[bool]
    batch: NotRequired[int | None]
    within: NotRequired[float | None]


class TaskChange(TypedDict):
    """Rules to change: null removes a rule, omitted rules stay."""

    rate: NotRequired[str | None]
    burst: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    strategy: NotRequired[Literal["fifo", "fresh_first", "lifo", "priority", "weighted_random"] | None]


class BreakerStatus(TypedDict):
    """A circuit breaker with failures in a row. `error` is the type of the last one."""

    name: str
    state: Literal["failing", "open", "trying"]
    failures: int
    error: str
    open_until: str | None


class WorkerInfo(TypedDict):
    """A worker as of its last heartbeat."""

    id: str
    host: str
    pid: int
    state: str
    queues: dict[str, int]
    concurrency: int
    running: int
    completed: int
    failed: int
    heartbeat: float
    started_at: str | None
    seen_at: str | None
    tasks: list[str]
    silent: bool
    capabilities: NotRequired[list[str]]
    cpu: NotRequired[float | None]
    memory: NotRequired[int | None]
    memory_trace: NotRequired[MemoryTrace | None]
    stalled: NotRequired[list[str]]


class MemoryTrace(TypedDict):
    """The last memory trace of a process."""

    allocated: int
    peak: int
    growth: list[str]


class LogLevelBody(TypedDict):
    """A level, or one for each logger: `INFO,headrace.store=DEBUG`."""

    level: str


class ScheduleRecord(TypedDict):
    """A schedule. Durations are seconds; `next_run` is null while it is paused and when it will not fire again."""

    id: str
    task: str
    queue: str
    priority: int
    args: list[Any]
    kwargs: dict[str, Any]
    cron: str | None
    every: float | None
    at: str | None
    tz: str
    start: str | None
    end: str | None
    limit: int | None
    jitter: float
    dst_gap: str
    dst_overlap: str
    catch_up: str
    catch_up_limit: int
    catch_up_window: float
    overlap: str
    paused: bool
    next_run: str | None
    last_run: str | None
    last_job: str | None
    fired: int
    origin: Literal["api", "code"]
    created_at: str
    updated_at: str
    error: str | None


class NewSchedule(TypedDict):
    """A new schedule: a call, a timing with exactly one of cron, every (seconds) and at, and options of its jobs."""

    cron: NotRequired[str]
    every: NotRequired[float]
    at: NotRequired[str]
    tz: NotRequired[str]
    start: NotRequired[str | None]
    end: NotRequired[str | None]
    limit: NotRequired[int | None]
    jitter: NotRequired[float]
    dst_gap: NotRequired[Literal["shift", "skip"]]
    dst_overlap: NotRequired[Literal["both", "first", "last"]]
    catch_up: NotRequired[Literal["all", "latest", "limited", "none"]]
    catch_up_limit: NotRequired[int]
    catch_up_window: NotRequired[float]
    overlap: NotRequired[Literal["allow", "queue", "skip"]]
    id: str
    task: str
    args: NotRequired[list[Any]]
    kwargs: NotRequired[dict[str, Any]]
    immediate: NotRequired[bool]
    queue: NotRequired[str]
    priority: NotRequired[int]
    timeout: NotRequired[float | None]
    tags: NotRequired[list[str] | dict[str, str]]
    metadata: NotRequired[dict[str, Any]]
    retry: NotRequired[int | NewRetry]


class ScheduleRun(TypedDict):
    """The result of one occurrence of a schedule: enqueued, skipped or error."""

    at: str
    recorded_at: str
    status: Literal["enqueued", "error", "skipped"]
    job_id: str | None
    detail: str | None
    skipped: int


class ScheduleChange(TypedDict):
    """Fields to change; a timing has exactly one of cron, every (seconds) and at."""

    cron: NotRequired[str]
    every: NotRequired[float]
    at: NotRequired[str]
    tz: NotRequired[str]
    start: NotRequired[str | None]
    end: NotRequired[str | None]
    limit: NotRequired[int | None]
    jitter: NotRequired[float]
    dst_gap: NotRequired[Literal["shift", "skip"]]
    dst_overlap: NotRequired[Literal["both", "first", "last"]]
    catch_up: NotRequired[Literal["all", "latest", "limited", "none"]]
    catch_up_limit: NotRequired[int]
    catch_up_window: NotRequired[float]
    overlap: NotRequired[Literal["allow", "queue", "skip"]]
    task: NotRequired[str]
    args: NotRequired[list[Any]]
    kwargs: NotRequired[dict[str, Any]]
    queue: NotRequired[str]
    priority: NotRequired[int]


class FlowList(TypedDict):
    """Flows, newest first. `cursor` continues after them."""

    flows: list[FlowRecord]
    cursor: str | None


class FlowRecord(TypedDict):
    """A flow: its state, its finished jobs, and the number of jobs in each state."""

    id: str
    name: str
    state: str
    done: int
    jobs: int
    counts: dict[str, int]
    created_at: str


class FlowDetail(TypedDict):
    """A flow with its jobs and the graph of their dependencies."""

    flow: FlowRecord
    budget: Spending | None
    jobs: list[JobRecord]
    graph: dict[str, Any]


class Spending(TypedDict):
    """The units that were reported, and how many may be; None: any."""

    used: int
    ceiling: NotRequired[int | None]


class FlowBudget(TypedDict):
    """How many units the jobs of a flow may report in all."""

    units: int


class DeadList(TypedDict):
    """Dead letters, newest first. `cursor` continues after them."""

    dead_letters: list[DeadLetter]
    cursor: str | None


class DeadLetter(TypedDict):
    """A job that failed for good, as it was at the failure."""

    id: str
    job_id: str
    task: str
    queue: str
    reason: str
    status: str
    entered_at: str
    fingerprint: str
    original_state: str
    priority: int
    attempts: int
    max_attempts: int
    args: list[Any]
    kwargs: dict[str, Any]
    arguments: dict[str, Any]
    damage: str | None
    tags: list[str]
    metadata: dict[str, Any]
    created_at: str
    started_at: str | None
    worker: str | None
    error_type: str | None
    error_message: str | None
    error_traceback: str | None
    flow: str | None
    parents: list[str]
    crashes: list[list[Any]]
    progress: Any
    steps: list[str]
    logs: list[LogEntry]
    first_failed_at: str
    requeues: int
    next_requeue_at: str | None
    notes: list[DeadNote]
    resolved_at: str | None
    resolved_by: str | None


class DeadNote(TypedDict):
    """A note on a dead letter."""

    at: str
    text: str
    by: NotRequired[str | None]


class DeadLetterBody(TypedDict):
    """The job, and a reason of one word."""

    job_id: str
    reason: NotRequired[str]
    note: NotRequired[str | None]


class DeadGroup(TypedDict):
    """Dead letters of one fingerprint. Task, reason, error and message are from the newest."""

    fingerprint: str
    task: str
    reason: str
    error_type: str | None
    message: str | None
    count: int
    first_seen: str
    last_seen: str


class DeadStats(TypedDict):
    """The counts of one reason."""

    reason: str
    total: int
    pending: int
    requeued: int
    manually_resolved: int
    permanently_failed: int
    cancelled: int
    expired: int
    average_requeues: float
    oldest: str
    newest: str


class RequeueMany(TypedDict):
    """Filters of a bulk requeue: at least one, or `everything`. `rate` ("10/s") spreads the starts of the jobs."""

    reason: NotRequired[str | None]
    task: NotRequired[str | None]
    queue: NotRequired[str | None]
    fingerprint: NotRequired[str | None]
    since: NotRequired[str | None]
    until: NotRequired[str | None]
    everything: NotRequired[bool]
    limit: NotRequired[int | None]
    rate: NotRequired[str | None]
    priority_boost: NotRequired[int | None]
    max_requeues: NotRequired[int | None]
    note: NotRequired[str | None]
    dry_run: NotRequired[bool]


class BulkRequeue(TypedDict):
    """The result of a bulk requeue, or of a `dry_run`."""

    matched: int
    requeued: int
    permanently_failed: int
    skipped: int
    dry_run: bool
    until: NotRequired[str | None]


class Purge(TypedDict):
    """Purge dead letters resolved at least `older_than` seconds ago; pending ones only if `status` names them."""

    older_than: NotRequired[float]
    status: NotRequired[list[Literal["cancelled", "expired", "manually_resolved", "pending", "permanently_failed", "requeued"]] | None]
    dry_run: NotRequired[bool]


class Requeue(TypedDict):
    """Options of a requeue; `args` and `kwargs` replace the job's arguments."""

    priority_boost: NotRequired[int | None]
    max_requeues: NotRequired[int | None]
    note: NotRequired[str | None]
    args: NotRequired[list[Any] | None]
    kwargs: NotRequired[dict[str, Any] | None]


class RequeueResult(TypedDict):
    """The result of a requeue. For a job requeued too often, `requeued` is False and the record permanently_failed."""

    id: str
    job_id: str
    requeued: bool
    status: str
    requeues: int
    message: str


class Resolve(TypedDict):
    """The resolution."""

    status: Literal["cancelled", "manually_resolved", "permanently_failed"]
    note: NotRequired[str | None]


class NewNote(TypedDict):
    """A note."""

    text: str


class StaleJob(TypedDict):
    """A stale job or, if not `is_stale`, one past 75 % of its limit. Times in seconds."""

    id: str
    task: str
    queue: str
    state: State
    by: Literal["age", "state"]
    lasted: float
    threshold: float
    action: Literal["dead", "fail", "review"]
    is_stale: bool
    applied: bool


class StaleRequest(TypedDict):
    """Stale jobs to handle by their on_stale action; nothing changes unless `dry_run` is false."""

    task: NotRequired[str | None]
    queue: NotRequired[str | None]
    limit: NotRequired[int]
    dry_run: NotRequired[bool]


class StateAges(TypedDict):
    """How long the jobs of a queue have been in a state, in seconds; jobs not due yet count as 0."""

    state: State
    queue: str
    jobs: int
    average: float
    longest: float
    over_an_hour: int
    over_a_day: int
    stalest: list[str]


class ArchiveRequest(TypedDict):
    """Nothing changes unless `dry_run` is false."""

    dry_run: NotRequired[bool]


class ArchiveRun(TypedDict):
    """The result of a retention run or dry run: the number of archived and deleted jobs."""

    dry_run: bool
    archived: int
    deleted: int
    history: int
    steps: int
    dead_letters: int
    dead_letters_expired: int
    dropped: list[str]
    jobs: list[str]
    seconds: float


class EraseRequest(TypedDict):
    """Filters of the jobs to erase, at least one. Nothing changes unless `dry_run` is false."""

    ids: NotRequired[list[str] | None]
    tag: NotRequired[str | None]
    key: NotRequired[str | None]
    arg: NotRequired[str | None]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    worker: NotRequired[str | None]
    flow: NotRequired[str | None]
    state: NotRequired[list[State] | None]
    since: NotRequired[str | None]
    until: NotRequired[str | None]
    dry_run: NotRequired[bool]


class Erasure(TypedDict):
    """What was erased. A dry run counts up to `spooled` and changes nothing."""

    dry_run: bool
    jobs: NotRequired[int]
    running: NotRequired[int]
    archived: NotRequired[int]
    dead_letters: NotRequired[int]
    schedules: NotRequired[int]
    spooled: NotRequired[int]
    deliveries: NotRequired[int]
    questions: NotRequired[int]
    payloads: NotRequired[int]
    events: NotRequired[int]
    audit_entries: NotRequired[int]


class ArchiveStats(TypedDict):
    """The size of the archive, and the last retention run of a worker (None without one)."""

    jobs: int
    bytes: int
    partitions: int
    swept_at: str | None
    seconds: float | None
    archived: int
    deleted: int
    dead_letters: int
    partition: str | None
    dropped: list[str]


class ArchiveMonth(TypedDict):
    """The archived jobs that finished in a month, such as "2026-11", and their size."""

    month: str | None
    jobs: int
    bytes: int


class ArchivePartition(TypedDict):
    """A partition of the archive. `since` and `until` bound the finish of its jobs; both are None for the default partition. `bytes` is its size."""

    name: str
    since: str | None
    until: str | None
    jobs: int
    bytes: int


class LifecyclePolicy(TypedDict):
    """The lifecycle policy of a task, a queue, or any job: seconds, None for no limit."""

    task: str | None
    queue: str | None
    max_scheduled: float | None
    max_waiting: float | None
    max_pending: float | None
    max_retrying: float | None
    max_running: float | None
    max_age: float | None
    on_stale: Literal["dead", "fail", "review"]
    keep_completed: float | None
    keep_failed: float | None
    keep_cancelled: float | None
    archive: bool
    remove_on_complete: bool | int
    remove_on_fail: bool | int
    origin: dict[str, str]


class PolicyChange(TypedDict):
    """Terms to set for a task or a queue: seconds, null for no limit, "default" to remove a term set before."""

    max_scheduled: NotRequired[float | str | None]
    max_waiting: NotRequired[float | str | None]
    max_pending: NotRequired[float | str | None]
    max_retrying: NotRequired[float | str | None]
    max_running: NotRequired[float | str | None]
    max_age: NotRequired[float | str | None]
    on_stale: NotRequired[str]
    keep_completed: NotRequired[float | str | None]
    keep_failed: NotRequired[float | str | None]
    keep_cancelled: NotRequired[float | str | None]
    archive: NotRequired[bool | str]
    remove_on_complete: NotRequired[bool | int | str]
    remove_on_fail: NotRequired[bool | int | str]
    task: NotRequired[str | None]
    queue: NotRequired[str | None]


class MetricsSnapshot(TypedDict):
    """Metrics of a store: those of the last `window` seconds, and the gauges read at `sampled_at`."""

    at: str
    window: float
    total: MetricFigures
    queues: list[QueueMetrics]
    tasks: list[TaskMetrics]
    workers: list[WorkerMetrics]
    depth: dict[str, int]
    oldest: float | None
    workers_alive: int | None
    dead: int | None
    stale: int | None
    schedule_misses: float | None
    store_bytes: int | None
    busy: float | None
    clients: int | None
    schedules: int | None
    sampled_at: str | None


class MetricFigures(TypedDict):
    """Metrics of jobs within a time."""

    enqueued: int
    started: int
    completed: int
    failed: int
    retried: int
    cancelled: int
    errors: int
    throughput: float
    enqueue_rate: float
    failure_rate: float
    error_rate: float | None
    attempts_avg: float | None
    retry_success: float | None
    wait: MetricDurations
    run: MetricDurations


class MetricDurations(TypedDict):
    """How long something took: mean, shortest, longest and quantiles, which are within 5 %."""

    avg: NotRequired[float | None]
    min: NotRequired[float | None]
    max: NotRequired[float | None]
    p50: NotRequired[float | None]
    p95: NotRequired[float | None]
    p99: NotRequired[float | None]


class QueueMetrics(TypedDict):
    """Metrics and depth of a queue."""

    queue: str
    figures: MetricFigures
    depth: dict[str, int]
    oldest: float
    workers: int
    eta: float | None


class TaskMetrics(TypedDict):
    """Metrics of one task in one queue."""

    task: str
    queue: str
    figures: MetricFigures


class WorkerMetrics(TypedDict):
    """Metrics of one worker."""

    worker: str
    figures: MetricFigures


class StoreScale(TypedDict):
    """The same for all queues together, for workers that serve all of them, and for each queue."""

    target_wait: float
    workers: int
    slots: int
    slots_wanted: float
    workers_wanted: int
    seconds_behind: float
    queues: list[QueueScale]


class QueueScale(TypedDict):
    """What a queue has and what it wants. `seconds_behind` is the wait of a job that is enqueued now."""

    queue: str
    workers: int
    slots: int
    slots_wanted: float
    workers_wanted: int
    seconds_behind: float
    paused: NotRequired[bool]


class DayMetrics(TypedDict):
    """A day in UTC. `max_depth` is the maximum of pending jobs."""

    day: str
    figures: MetricFigures
    max_depth: int | None
    queue: NotRequired[str | None]
    task: NotRequired[str | None]


class MetricSeries(TypedDict):
    """A metric over time, oldest point first; `step` is the seconds per point."""

    name: str
    step: float
    points: list[MetricPoint]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    worker: NotRequired[str | None]


class MetricPoint(TypedDict):
    """The value of a metric for the step that begins at this moment."""

    at: str
    value: float | None


class Alert(TypedDict):
    """A rule that holds, or held, for these labels. `since` is when that began, `fired_at` when it fired."""

    id: str
    rule: str
    state: Literal["acknowledged", "firing", "pending", "resolved"]
    severity: Literal["critical", "info", "warning"]
    summary: str
    labels: dict[str, str]
    figures: dict[str, float | None]
    since: str
    fired_at: str | None
    acknowledged_at: str | None
    acknowledged_by: str | None
    resolved_at: str | None
    resolved_by: str | None
    note: str | None
    runbook: str | None
    notified: int
    silenced: bool
    no_data: bool


class AlertChange(TypedDict):
    """A history entry of an alert (raised, repeated, acknowledged or resolved), with the alert as of then."""

    cursor: str
    at: str
    what: Literal["acknowledged", "raised", "repeated", "resolved"]
    alert: Alert
    by: str | None
    note: str | None


class NoteBody(TypedDict):
    """A note."""

    note: NotRequired[str | None]


class AlertRule(TypedDict):
    """An alert rule. Times in seconds."""

    name: str
    when: str
    for_: float
    cooldown: float
    severity: Literal["critical", "info", "warning"]
    per: list[Literal["queue", "reason", "task", "worker"]]
    labels: dict[str, str]
    notify: list[str] | None
    summary: str | None
    runbook: str | None
    enabled: bool
    shipped: bool
    changed: bool
    state: Literal["acknowledged", "broken", "firing", "no_data", "off", "ok", "pending"]
    error: NotRequired[str | None]


class NewRule(TypedDict):
    """A new rule."""

    when: NotRequired[str]
    for_: NotRequired[float]
    cooldown: NotRequired[float]
    severity: NotRequired[Literal["critical", "info", "warning"]]
    per: NotRequired[list[Literal["queue", "reason", "task", "worker"]]]
    labels: NotRequired[dict[str, str]]
    notify: NotRequired[list[str] | None]
    summary: NotRequired[str | None]
    runbook: NotRequired[str | None]
    enabled: NotRequired[bool]
    metric: NotRequired[str]
    op: NotRequired[str]
    threshold: NotRequired[float]
    window: NotRequired[float]
    name: str


class RuleFields(TypedDict):
    """Fields of a rule: `when`, or `metric`, `op`, `threshold` and `window`; times in seconds."""

    when: NotRequired[str]
    for_: NotRequired[float]
    cooldown: NotRequired[float]
    severity: NotRequired[Literal["critical", "info", "warning"]]
    per: NotRequired[list[Literal["queue", "reason", "task", "worker"]]]
    labels: NotRequired[dict[str, str]]
    notify: NotRequired[list[str] | None]
    summary: NotRequired[str | None]
    runbook: NotRequired[str | None]
    enabled: NotRequired[bool]
    metric: NotRequired[str]
    op: NotRequired[str]
    threshold: NotRequired[float]
    window: NotRequired[float]


class AlertReading(TypedDict):
    """Whether a rule holds for these labels now, None without data, and the values."""

    labels: dict[str, str]
    holds: bool | None
    figures: dict[str, float | None]
    summary: str


class AlertSilence(TypedDict):
    """A silence of this rule with these labels until a time; None and {} mean any."""

    id: str
    rule: str | None
    labels: dict[str, str]
    at: str
    until: str
    by: str | None
    note: str | None


class NewSilence(TypedDict):
    """Mute notifications of a rule, of labels, or of everything, for a number of seconds."""

    rule: NotRequired[str | None]
    labels: NotRequired[dict[str, str] | None]
    for_: float
    note: NotRequired[str | None]


class AlertChannel(TypedDict):
    """An alert channel. `target` is its destination without secrets; `severity` the lowest severity to send."""

    name: str
    kind: Literal["apprise", "email", "log", "slack", "webhook"]
    target: str
    severity: Literal["critical", "info", "warning"]
    enabled: bool
    signed: bool
    origin: Literal["built-in", "setting", "store"]
    error: NotRequired[str | None]
    failing_since: NotRequired[str | None]
    failures: NotRequired[int]
    waiting: NotRequired[int]


class NewChannel(TypedDict):
    """A new channel: `slack` and `webhook` need `url`, `email` needs `host` and `to`, `log` needs nothing."""

    url: NotRequired[str]
    secret: NotRequired[str | None]
    host: NotRequired[str]
    port: NotRequired[int | None]
    security: NotRequired[Literal["none", "starttls", "tls"]]
    user: NotRequired[str | None]
    password: NotRequired[str | None]
    sender: NotRequired[str | None]
    to: NotRequired[list[str]]
    severity: NotRequired[Literal["critical", "info", "warning"]]
    enabled: NotRequired[bool]
    name: str
    kind: Literal["email", "log", "slack", "webhook"]


class TestOutcome(TypedDict):
    """Whether the test message was accepted, and the error if not."""

    taken: bool
    error: NotRequired[str | None]


class ChannelFields(TypedDict):
    """Fields of a channel; each kind uses its own."""

    url: NotRequired[str]
    secret: NotRequired[str | None]
    host: NotRequired[str]
    port: NotRequired[int | None]
    security: NotRequired[Literal["none", "starttls", "tls"]]
    user: NotRequired[str | None]
    password: NotRequired[str | None]
    sender: NotRequired[str | None]
    to: NotRequired[list[str]]
    severity: NotRequired[Literal["critical", "info", "warning"]]
    enabled: NotRequired[bool]


class Event(TypedDict):
    """Something that happened, as stored. `cursor` is where to continue behind it."""

    cursor: str
    type: str
    at: str
    job_id: NotRequired[str | None]
    task: NotRequired[str | None]
    queue: NotRequired[str | None]
    worker: NotRequired[str | None]
    attempt: NotRequired[int | None]
    data: NotRequired[dict[str, Any]]


class Webhook(TypedDict):
    """A webhook. Only create() returns its secret."""

    id: str
    url: str
    types: list[str]
    queue: str | None
    task: str | None
    paused: bool
    reason: str | None
    created_at: str
    secret: NotRequired[str | None]


class NewWebhook(TypedDict):
    """A new webhook. Without `secret`, one is generated; `insecure` allows plain HTTP to other machines."""

    url: str
    types: NotRequired[list[str]]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    secret: NotRequired[str | None]
    insecure: NotRequired[bool]


class WebhookChange(TypedDict):
    """Fields to change; null means any queue or any task."""

    url: NotRequired[str]
    types: NotRequired[list[str]]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    insecure: NotRequired[bool]


class System(TypedDict):
    """Version, store and settings of this server; secrets are redacted."""

    version: str
    url: str
    store: dict[str, Any]
    settings: dict[str, Any]
    origins: dict[str, str]


class StoragePart(TypedDict):
    """A table or a key of the store: its name without the common prefix, its purpose and its size."""

    name: str
    kind: str
    entries: int
    bytes: NotRequired[int | None]
    expires: NotRequired[float | None]


class Me(TypedDict):
    """The caller and its role."""

    name: str
    role: Literal["admin", "viewer", "worker"]
    read_only: bool


class AuditList(TypedDict):
    """Audit entries, newest first. `cursor` continues after them."""

    entries: list[AuditEntry]
    cursor: str | None


class AuditEntry(TypedDict):
    """One requested write. `cursor` continues a list after it."""

    cursor: str
    at: str
    who: str
    what: str
    target: str
    outcome: str
    detail: dict[str, Any]


class ClaimParameters(TypedDict):
    """A claim: the tasks a worker can run, its queues by weight (none: all), and the lease in seconds."""

    worker: str
    tasks: list[str]
    queues: NotRequired[dict[str, int]]
    capabilities: NotRequired[list[str]]
    limit: NotRequired[int]
    lease: NotRequired[float]
    wait: NotRequired[float]
    holding: NotRequired[list[HeldLease] | None]


class HeldLease(TypedDict):
    """A job that the worker holds."""

    id: str
    version: int


class ClaimedJobs(TypedDict):
    """The claimed jobs."""

    jobs: list[ClaimedJob]


class ClaimedJob(TypedDict):
    """A claimed job. The worker holds it until `lease_until`, while its `version` is unchanged."""

    id: str
    version: int
    task: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    args: list[Any]
    kwargs: dict[str, Any]
    timeout: float | None
    metadata: Any
    created_at: str | None
    lease_until: str | None


class HeartbeatRequest(TypedDict):
    """A heartbeat, sent every third of the lease: facts about the worker, and the jobs it runs."""

    worker: str
    jobs: NotRequired[list[RunningJob]]
    lease: NotRequired[float]
    tasks: NotRequired[list[str]]
    queues: NotRequired[dict[str, int]]
    capabilities: NotRequired[list[str]]
    concurrency: NotRequired[int]
    completed: NotRequired[int]
    failed: NotRequired[int]
    host: NotRequired[str]
    pid: NotRequired[int]


class RunningJob(TypedDict):
    """A job that the worker runs, with its progress and log lines."""

    id: str
    version: int
    progress: NotRequired[Any]
    logs: NotRequired[list[ReportedLogLine]]


class ReportedLogLine(TypedDict):
    """A line of a job's log."""

    message: str
    level: NotRequired[Literal["debug", "error", "info", "warning"]]
    fields: NotRequired[dict[str, Any]]


class HeartbeatResult(TypedDict):
    """Jobs that the worker has lost and must stop, and an operator's command."""

    lost: list[str]
    command: Literal["pause", "run", "stop"]


class StepsRequest(TypedDict):
    """A job that the worker runs."""

    worker: str
    id: str
    version: int


class StoredSteps(TypedDict):
    """The results of the steps by name, and the data of the events that came, by name in their order."""

    steps: dict[str, Any]
    events: dict[str, list[Any]]


class FinishedStep(TypedDict):
    """A finished step of a job that the worker runs."""

    worker: str
    id: str
    version: int
    name: str
    result: NotRequired[Any]


class SettleRequest(TypedDict):
    """Outcomes to settle."""

    worker: str
    outcomes: list[OutcomeReport]


class OutcomeReport(TypedDict):
    """The outcome of an attempt."""

    id: str
    version: int
    outcome: Literal["cancel", "failure", "release", "snooze", "success", "wait"]
    result: NotRequired[Any]
    spawn: NotRequired[list[JobRequest]]
    event: NotRequired[str | None]
    number: NotRequired[int]
    error: NotRequired[Failure | None]
    permanent: NotRequired[bool]
    delay: NotRequired[float | None]
    reason: NotRequired[str | None]
    cost: NotRequired[int | None]


class Failure(TypedDict):
    """The error of an attempt."""

    type: NotRequired[str]
    message: NotRequired[str]
    traceback: NotRequired[str]


class SettledJobs(TypedDict):
    """For each outcome, in order: whether it was accepted. It is refused if the worker no longer held the job."""

    results: list[RemoteSettleResult]


class RemoteSettleResult(TypedDict):
    """Whether an outcome was accepted, and the state of the job afterwards; None if the job is gone."""

    id: str
    applied: bool
    state: State | None


class Unregister(TypedDict):
    """The worker that ends."""

    worker: str


class Problem(TypedDict):
    """A problem document. `type` is the stable name of the error; `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    field: NotRequired[str | None]
    instance: NotRequired[str | None]


class JobsFindQuery(TypedDict):
    """Parameters of `jobs.find`."""

    state: NotRequired[list[State]]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    tag: NotRequired[str | None]
    arg: NotRequired[str | None]
    worker: NotRequired[str | None]
    text: NotRequired[str | None]
    flow: NotRequired[str | None]
    since: NotRequired[str | None]
    until: NotRequired[str | None]
    archived: NotRequired[bool]
    total: NotRequired[bool]
    limit: NotRequired[int]
    cursor: NotRequired[str | None]


class JobsChunksQuery(TypedDict):
    """Parameters of `jobs.chunks`."""

    cursor: NotRequired[str | None]
    limit: NotRequired[int]


class JobsStreamQuery(TypedDict):
    """Parameters of `jobs.stream`."""

    since: NotRequired[str | None]


class JobsGetQuery(TypedDict):
    """Parameters of `jobs.get`."""

    payloads: NotRequired[bool]


class QuestionsFindQuery(TypedDict):
    """Parameters of `questions.find`."""

    to: NotRequired[str | None]
    limit: NotRequired[int]


class QueuesPeekQuery(TypedDict):
    """Parameters of `queues.peek`."""

    limit: NotRequired[int]


class SchedulesFindQuery(TypedDict):
    """Parameters of `schedules.find`."""

    task: NotRequired[str | None]
    paused: NotRequired[bool | None]


class SchedulesPreviewOfQuery(TypedDict):
    """Parameters of `schedules.preview_of`."""

    cron: NotRequired[str | None]
    every: NotRequired[float | None]
    tz: NotRequired[str | None]
    n: NotRequired[int]
    after: NotRequired[str | None]


class SchedulesPreviewQuery(TypedDict):
    """Parameters of `schedules.preview`."""

    n: NotRequired[int]
    after: NotRequired[str | None]


class SchedulesHistoryQuery(TypedDict):
    """Parameters of `schedules.history`."""

    limit: NotRequired[int]


class FlowsFindQuery(TypedDict):
    """Parameters of `flows.find`."""

    limit: NotRequired[int]
    cursor: NotRequired[str | None]


class DeadFindQuery(TypedDict):
    """Parameters of `dead.find`."""

    status: NotRequired[Literal["any", "cancelled", "expired", "manually_resolved", "pending", "permanently_failed", "requeued"]]
    reason: NotRequired[str | None]
    task: NotRequired[str | None]
    queue: NotRequired[str | None]
    fingerprint: NotRequired[str | None]
    since: NotRequired[str | None]
    until: NotRequired[str | None]
    limit: NotRequired[int]
    cursor: NotRequired[str | None]


class DeadGroupsQuery(TypedDict):
    """Parameters of `dead.groups`."""

    status: NotRequired[Literal["any", "cancelled", "expired", "manually_resolved", "pending", "permanently_failed", "requeued"]]
    limit: NotRequired[int]


class LifecycleStaleQuery(TypedDict):
    """Parameters of `lifecycle.stale`."""

    task: NotRequired[str | None]
    queue: NotRequired[str | None]
    warnings: NotRequired[bool]
    limit: NotRequired[int]


class LifecyclePolicyQuery(TypedDict):
    """Parameters of `lifecycle.policy`."""

    task: NotRequired[str | None]
    queue: NotRequired[str | None]


class MetricsSystemQuery(TypedDict):
    """Parameters of `metrics.system`."""

    window: NotRequired[str]


class MetricsQueuesQuery(TypedDict):
    """Parameters of `metrics.queues`."""

    window: NotRequired[str]


class MetricsQueueQuery(TypedDict):
    """Parameters of `metrics.queue`."""

    window: NotRequired[str]


class MetricsScaleQuery(TypedDict):
    """Parameters of `metrics.scale`."""

    target_wait: NotRequired[str | None]
    window: NotRequired[str]


class MetricsTasksQuery(TypedDict):
    """Parameters of `metrics.tasks`."""

    queue: NotRequired[str | None]
    window: NotRequired[str]
    limit: NotRequired[int]


class MetricsDaysQuery(TypedDict):
    """Parameters of `metrics.days`."""

    count: NotRequired[int]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]


class MetricsSeriesQuery(TypedDict):
    """Parameters of `metrics.series`."""

    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    worker: NotRequired[str | None]
    window: NotRequired[str]
    step: NotRequired[str | None]
    until: NotRequired[str | None]


class AlertsActiveQuery(TypedDict):
    """Parameters of `alerts.active`."""

    severity: NotRequired[Literal["critical", "info", "warning"] | None]
    acknowledged: NotRequired[bool | None]
    pending: NotRequired[bool]


class AlertsHistoryQuery(TypedDict):
    """Parameters of `alerts.history`."""

    rule: NotRequired[str | None]
    before: NotRequired[str | None]
    limit: NotRequired[int]
    cursor: NotRequired[str | None]


class EventsStreamQuery(TypedDict):
    """Parameters of `events.stream`."""

    types: NotRequired[list[str]]
    queue: NotRequired[str | None]
    task: NotRequired[str | None]
    since: NotRequired[str | None]


class WebhooksDeliveriesQuery(TypedDict):
    """Parameters of `webhooks.deliveries`."""

    limit: NotRequired[int]


class SystemStorageQuery(TypedDict):
    """Parameters of `system.storage`."""

    pattern: NotRequired[str]
    limit: NotRequired[int]


class SystemAuditQuery(TypedDict):
    """Parameters of `system.audit`."""

    limit: NotRequired[int]
    cursor: NotRequired[str | None]


class JobsApi(_Resource):
    """Jobs: search, submit, inspect and change them."""

    def find(self, **query: Unpack[JobsFindQuery]) -> JobList:
        """List and search jobs, newest first."""
        return cast("JobList", self._send("GET", "/jobs", query=query))

    def create(self, **body: Unpack[JobRequest]) -> JobRecord:
        """Submit a job."""
        return cast("JobRecord", self._send("POST", "/jobs", body=body))

    def create_many(self, **body: Unpack[NewJobs]) -> StoredJobs:
        """Submit many jobs in one commit: all, or none if one is invalid."""
        return cast("StoredJobs", self._send("POST", "/jobs/bulk", body=body))

    def cancel_many(self, **body: Unpack[JobFilter]) -> Changed:
        """Cancel the matching unfinished jobs."""
        return cast("Changed", self._send("POST", "/jobs/cancel", body=body))

    def retry_many(self, **body: Unpack[JobFilter]) -> Changed:
        """Run the matching finished jobs again; without a state, the failed ones."""
        return cast("Changed", self._send("POST", "/jobs/retry", body=body))

    def promote_many(self, **body: Unpack[JobFilter]) -> Changed:
        """Run the matching scheduled, retrying or waiting jobs now."""
        return cast("Changed", self._send("POST", "/jobs/promote", body=body))

    def delete_many(self, **body: Unpack[DeleteFilter]) -> Changed:
        """Delete the matching jobs that are not running."""
        return cast("Changed", self._send("POST", "/jobs/delete", body=body))

    def logs(self, job_id: str, /) -> list[LogEntry]:
        """Return the log lines of a job, oldest first."""
        return cast("list[LogEntry]", self._send("GET", f"/jobs/{_quoted(job_id)}/logs"))

    def chunks(self, job_id: str, /, **query: Unpack[JobsChunksQuery]) -> ChunkList:
        """Return chunks that a job has streamed, oldest first, with secrets redacted."""
        return cast("ChunkList", self._send("GET", f"/jobs/{_quoted(job_id)}/chunks", query=query))

    def stream(self, job_id: str, /, **query: Unpack[JobsStreamQuery]) -> Iterator[Chunk]:
        """Stream the chunks of a job as server-sent events, those that it streamed before and those that come."""
        return self._stream(f"/jobs/{_quoted(job_id)}/stream", query=query)

    def history(self, job_id: str, /) -> list[HistoryEntry]:
        """Return the history of a job, oldest first."""
        return cast("list[HistoryEntry]", self._send("GET", f"/jobs/{_quoted(job_id)}/history"))

    def why(self, job_id: str, /) -> Why:
        """Explain why a job is not running, or what it is doing."""
        return cast("Why", self._send("GET", f"/jobs/{_quoted(job_id)}/why"))

    def cancel(self, job_id: str, /) -> JobRecord:
        """Cancel an unfinished job. A running attempt is asked to stop, and its result is refused."""
        return cast("JobRecord", self._send("POST", f"/jobs/{_quoted(job_id)}/cancel"))

    def retry(self, job_id: str, /) -> JobRecord:
        """Run a finished job again, with fresh attempts."""
        return cast("JobRecord", self._send("POST", f"/jobs/{_quoted(job_id)}/retry"))

    def promote(self, job_id: str, /) -> JobRecord:
        """Run a scheduled, retrying or waiting job now."""
        return cast("JobRecord", self._send("POST", f"/jobs/{_quoted(job_id)}/promote"))

    def fork(self, job_id: str, /, **body: Unpack[Fork]) -> JobRecord:
        """Run a finished job anew from a step, as a new job that keeps the results of the steps before it."""
        return cast("JobRecord", self._send("POST", f"/jobs/{_quoted(job_id)}/fork", body=body))

    def get(self, job_id: str, /, **query: Unpack[JobsGetQuery]) -> JobRecord:
        """Return everything about one job, with secrets redacted."""
        return cast("JobRecord", self._send("GET", f"/jobs/{_quoted(job_id)}", query=query))

    def update(self, job_id: str, /, **body: Unpack[JobChange]) -> JobRecord:
        """Change the priority, time or queue of a job that has not started."""
        return cast("JobRecord", self._send("PATCH", f"/jobs/{_quoted(job_id)}", body=body))

    def delete(self, job_id: str, /) -> None:
        """Delete a job that is not running, with its history, also from the archive."""
        self._send("DELETE", f"/jobs/{_quoted(job_id)}")


class QuestionsApi(_Resource):
    """Questions that jobs ask people, their answers, and events for waiting jobs."""

    def find(self, **query: Unpack[QuestionsFindQuery]) -> list[OpenQuestion]:
        """List the jobs that wait for an answer, the oldest first."""
        return cast("list[OpenQuestion]", self._send("GET", "/questions", query=query))

    def get(self, job_id: str, /) -> OpenQuestion:
        """Return the question that a job waits with."""
        return cast("OpenQuestion", self._send("GET", f"/jobs/{_quoted(job_id)}/question"))

    def answer(self, job_id: str, /, **body: Unpack[AnswerRequest]) -> JobRecord:
        """Answer the question of a job, once. The audit trail records who did."""
        return cast("JobRecord", self._send("POST", f"/jobs/{_quoted(job_id)}/answer", body=body))

    def signal(self, job_id: str, /, **body: Unpack[SignalRequest]) -> JobRecord:
        """Send an event to a job that waits, or will wait, for it."""
        return cast("JobRecord", self._send("POST", f"/jobs/{_quoted(job_id)}/signal", body=body))


class QueuesApi(_Resource):
    """Queues with their counts and rules."""

    def find(self) -> list[QueueRecord]:
        """List the queues with their counts, by name."""
        return cast("list[QueueRecord]", self._send("GET", "/queues"))

    def peek(self, queue: str, /, **query: Unpack[QueuesPeekQuery]) -> list[JobRecord]:
        """Return the next jobs in claim order."""
        return cast("list[JobRecord]", self._send("GET", f"/queues/{_quoted(queue)}/peek", query=query))

    def get(self, queue: str, /) -> QueueRecord:
        """Return one queue with its counts and rules; an unknown queue is empty."""
        return cast("QueueRecord", self._send("GET", f"/queues/{_quoted(queue)}"))

    def configure(self, queue: str, /, **body: Unpack[QueueChange]) -> QueueRecord:
        """Change rules of a queue. All workers and callers apply them within a second."""
        return cast("QueueRecord", self._send("PATCH", f"/queues/{_quoted(queue)}", body=body))

    def delete(self, queue: str, /) -> None:
        """Delete a queue with its rules and finished jobs; 409 while it has unfinished jobs."""
        self._send("DELETE", f"/queues/{_quoted(queue)}")

    def configure_key(self, queue: str, /, **body: Unpack[KeyChange]) -> QueueRecord:
        """Change rules of one key of a queue, such as a tenant's, in place of those of every key."""
        return cast("QueueRecord", self._send("PATCH", f"/queues/{_quoted(queue)}/keys", body=body))

    def pause(self, queue: str, /) -> QueueRecord:
        """Pause a queue: workers start none of its jobs. Running jobs continue."""
        return cast("QueueRecord", self._send("POST", f"/queues/{_quoted(queue)}/pause"))

    def resume(self, queue: str, /) -> QueueRecord:
        """Resume a queue."""
        return cast("QueueRecord", self._send("POST", f"/queues/{_quoted(queue)}/resume"))

    def clear(self, queue: str, /) -> Changed:
        """Delete every unfinished job of a queue that does not run, also scheduled and retrying ones."""
        return cast("Changed", self._send("POST", f"/queues/{_quoted(queue)}/clear"))


class TasksApi(_Resource):
    """Known tasks and their rules."""

    def find_tasks(self) -> list[TaskRecord]:
        """List the tasks that the web process knows or that have rules, by name."""
        return cast("list[TaskRecord]", self._send("GET", "/tasks"))

    def configure_task(self, task: str, /, **body: Unpack[TaskChange]) -> TaskRecord:
        """Change rules of a task. Workers apply them from their next claim on."""
        return cast("TaskRecord", self._send("PATCH", f"/tasks/{_quoted(task)}", body=body))

    def pause_task(self, task: str, /) -> TaskRecord:
        """Pause a task: workers start none of its jobs. Other tasks continue."""
        return cast("TaskRecord", self._send("POST", f"/tasks/{_quoted(task)}/pause"))

    def resume_task(self, task: str, /) -> TaskRecord:
        """Resume a task."""
        return cast("TaskRecord", self._send("POST", f"/tasks/{_quoted(task)}/resume"))


class BreakersApi(_Resource):
    """Circuit breakers at which calls of external services have failed."""

    def find(self) -> list[BreakerStatus]:
        """List the circuit breakers with failures, open ones first. The others are closed."""
        return cast("list[BreakerStatus]", self._send("GET", "/breakers"))

    def reset(self, breaker: str, /) -> None:
        """Close a circuit breaker, as if nothing had failed; 404 if nothing has. Jobs that it put back run when due."""
        self._send("POST", f"/breakers/{_quoted(breaker)}/reset")


class WorkersApi(_Resource):
    """Workers, and commands to them."""

    def find(self) -> list[WorkerInfo]:
        """List the live workers."""
        return cast("list[WorkerInfo]", self._send("GET", "/workers"))

    def get(self, worker_id: str, /) -> WorkerInfo:
        """Return one worker as of its last heartbeat."""
        return cast("WorkerInfo", self._send("GET", f"/workers/{_quoted(worker_id)}"))

    def pause(self, worker_id: str, /) -> WorkerInfo:
        """Pause a worker from its next heartbeat on."""
        return cast("WorkerInfo", self._send("POST", f"/workers/{_quoted(worker_id)}/pause"))

    def resume(self, worker_id: str, /) -> WorkerInfo:
        """Resume a paused worker."""
        return cast("WorkerInfo", self._send("POST", f"/workers/{_quoted(worker_id)}/resume"))

    def stop(self, worker_id: str, /) -> WorkerInfo:
        """Stop a worker after its running jobs."""
        return cast("WorkerInfo", self._send("POST", f"/workers/{_quoted(worker_id)}/stop"))

    def set_log_level(self, worker_id: str, /, **body: Unpack[LogLevelBody]) -> WorkerInfo:
        """Change the log level of a worker's process, until the next change or its end."""
        return cast("WorkerInfo", self._send("POST", f"/workers/{_quoted(worker_id)}/log-level", body=body))


class SchedulesApi(_Resource):
    """Schedules, which enqueue jobs at their times."""

    def find(self, **query: Unpack[SchedulesFindQuery]) -> list[ScheduleRecord]:
        """List the schedules by id; filter by task or by paused."""
        return cast("list[ScheduleRecord]", self._send("GET", "/schedules", query=query))

    def create(self, **body: Unpack[NewSchedule]) -> ScheduleRecord:
        """Create a schedule."""
        return cast("ScheduleRecord", self._send("POST", "/schedules", body=body))

    def preview_of(self, **query: Unpack[SchedulesPreviewOfQuery]) -> list[str]:
        """Return the next run times of a timing, to test an expression."""
        return cast("list[str]", self._send("GET", "/schedule-preview", query=query))

    def preview(self, schedule_id: str, /, **query: Unpack[SchedulesPreviewQuery]) -> list[str]:
        """Return the next run times of a schedule."""
        return cast("list[str]", self._send("GET", f"/schedules/{_quoted(schedule_id)}/preview", query=query))

    def history(self, schedule_id: str, /, **query: Unpack[SchedulesHistoryQuery]) -> list[ScheduleRun]:
        """Return the last runs of a schedule, newest first."""
        return cast("list[ScheduleRun]", self._send("GET", f"/schedules/{_quoted(schedule_id)}/history", query=query))

    def pause(self, schedule_id: str, /) -> ScheduleRecord:
        """Pause a schedule."""
        return cast("ScheduleRecord", self._send("POST", f"/schedules/{_quoted(schedule_id)}/pause"))

    def resume(self, schedule_id: str, /) -> ScheduleRecord:
        """Resume a schedule. Runs missed during the pause are not made up."""
        return cast("ScheduleRecord", self._send("POST", f"/schedules/{_quoted(schedule_id)}/resume"))

    def run_now(self, schedule_id: str, /) -> JobRecord:
        """Enqueue the job of a schedule now, paused or not."""
        return cast("JobRecord", self._send("POST", f"/schedules/{_quoted(schedule_id)}/run-now"))

    def get(self, schedule_id: str, /) -> ScheduleRecord:
        """Return one schedule."""
        return cast("ScheduleRecord", self._send("GET", f"/schedules/{_quoted(schedule_id)}"))

    def update(self, schedule_id: str, /, **body: Unpack[ScheduleChange]) -> ScheduleRecord:
        """Change the timing, the call, the queue or the priority of a schedule."""
        return cast("ScheduleRecord", self._send("PATCH", f"/schedules/{_quoted(schedule_id)}", body=body))

    def delete(self, schedule_id: str, /) -> None:
        """Delete a schedule and its history. The next worker creates a schedule declared in code again."""
        self._send("DELETE", f"/schedules/{_quoted(schedule_id)}")


class FlowsApi(_Resource):
    """Flows: jobs created together, and their dependencies."""

    def find(self, **query: Unpack[FlowsFindQuery]) -> FlowList:
        """List flows, newest first."""
        return cast("FlowList", self._send("GET", "/flows", query=query))

    def get(self, flow_id: str, /) -> FlowDetail:
        """Return one flow with its jobs and its graph."""
        return cast("FlowDetail", self._send("GET", f"/flows/{_quoted(flow_id)}"))

    def cancel(self, flow_id: str, /) -> Changed:
        """Cancel all unfinished jobs of a flow."""
        return cast("Changed", self._send("POST", f"/flows/{_quoted(flow_id)}/cancel"))

    def retry(self, flow_id: str, /) -> Changed:
        """Retry the failed and cancelled jobs of a flow, with the jobs cancelled because of them."""
        return cast("Changed", self._send("POST", f"/flows/{_quoted(flow_id)}/retry"))

    def set_budget(self, flow_id: str, /, **body: Unpack[FlowBudget]) -> Spending:
        """Change the budget of a flow that was enqueued with one."""
        return cast("Spending", self._send("POST", f"/flows/{_quoted(flow_id)}/budget", body=body))


class DeadApi(_Resource):
    """Dead letters: inspect failed jobs, requeue or resolve them."""

    def find(self, **query: Unpack[DeadFindQuery]) -> DeadList:
        """List dead letters, newest first; pending ones unless a status is given."""
        return cast("DeadList", self._send("GET", "/dead", query=query))

    def add(self, **body: Unpack[DeadLetterBody]) -> DeadLetter:
        """Make a dead letter of a job by hand. A job that has not started fails."""
        return cast("DeadLetter", self._send("POST", "/dead", body=body))

    def groups(self, **query: Unpack[DeadGroupsQuery]) -> list[DeadGroup]:
        """Group dead letters by the fingerprint of their error, largest group first."""
        return cast("list[DeadGroup]", self._send("GET", "/dead/groups", query=query))

    def stats(self) -> list[DeadStats]:
        """Count dead letters by reason."""
        return cast("list[DeadStats]", self._send("GET", "/dead/stats"))

    def requeue_many(self, **body: Unpack[RequeueMany]) -> BulkRequeue:
        """Requeue the pending dead letters that match, newest first."""
        return cast("BulkRequeue", self._send("POST", "/dead/requeue", body=body))

    def purge(self, **body: Unpack[Purge]) -> Changed:
        """Delete dead letters that were resolved long ago."""
        return cast("Changed", self._send("POST", "/dead/purge", body=body))

    def history(self, dead_letter_id: str, /) -> list[HistoryEntry]:
        """Return the history of the job of a dead letter, oldest first."""
        return cast("list[HistoryEntry]", self._send("GET", f"/dead/{_quoted(dead_letter_id)}/history"))

    def requeue(self, dead_letter_id: str, /, **body: Unpack[Requeue]) -> RequeueResult:
        """Run the job of a pending dead letter again, with fresh attempts and a higher priority."""
        return cast("RequeueResult", self._send("POST", f"/dead/{_quoted(dead_letter_id)}/requeue", body=body))

    def resolve(self, dead_letter_id: str, /, **body: Unpack[Resolve]) -> DeadLetter:
        """Resolve a pending dead letter. Its job does not change."""
        return cast("DeadLetter", self._send("POST", f"/dead/{_quoted(dead_letter_id)}/resolve", body=body))

    def note(self, dead_letter_id: str, /, **body: Unpack[NewNote]) -> DeadLetter:
        """Add a note to a dead letter of any status."""
        return cast("DeadLetter", self._send("POST", f"/dead/{_quoted(dead_letter_id)}/notes", body=body))

    def get(self, dead_letter_id: str, /) -> DeadLetter:
        """Return one dead letter by its id, or the newest of the job with this id."""
        return cast("DeadLetter", self._send("GET", f"/dead/{_quoted(dead_letter_id)}"))

    def delete(self, dead_letter_id: str, /) -> None:
        """Delete a dead letter of any status. Its job does not change."""
        self._send("DELETE", f"/dead/{_quoted(dead_letter_id)}")


class LifecycleApi(_Resource):
    """Stale jobs, retention, the archive, lifecycle policies, and erasures."""

    def stale(self, **query: Unpack[LifecycleStaleQuery]) -> list[StaleJob]:
        """List stale jobs, the most overdue first. Nothing changes."""
        return cast("list[StaleJob]", self._send("GET", "/lifecycle/stale", query=query))

    def deal_with_stale(self, **body: Unpack[StaleRequest]) -> list[StaleJob]:
        """Apply the on_stale action of stale jobs; a dry run unless `dry_run` is false."""
        return cast("list[StaleJob]", self._send("POST", "/lifecycle/stale", body=body))

    def ages(self) -> list[StateAges]:
        """Return how long jobs have been in their state, for each open state and queue."""
        return cast("list[StateAges]", self._send("GET", "/lifecycle/ages"))

    def archive(self, **body: Unpack[ArchiveRequest]) -> ArchiveRun:
        """Archive or delete finished jobs past their retention now; a dry run unless `dry_run` is false."""
        return cast("ArchiveRun", self._send("POST", "/lifecycle/archive", body=body))

    def archive_stats(self) -> ArchiveStats:
        """Return the size of the archive and the last retention run of a worker."""
        return cast("ArchiveStats", self._send("GET", "/lifecycle/archive"))

    def erase(self, **body: Unpack[EraseRequest]) -> Erasure:
        """Erase all that the store and its archive hold about the matching jobs; a dry run unless `dry_run` is false."""
        return cast("Erasure", self._send("POST", "/lifecycle/erase", body=body))

    def archive_months(self) -> list[ArchiveMonth]:
        """Return the number and size of archived jobs by the month they finished in."""
        return cast("list[ArchiveMonth]", self._send("GET", "/lifecycle/archive/months"))

    def restore(self, job_id: str, /) -> JobRecord:
        """Return an archived job to the store, to run again."""
        return cast("JobRecord", self._send("POST", f"/lifecycle/archive/{_quoted(job_id)}/restore"))

    def partitions(self) -> list[ArchivePartition]:
        """List the partitions of the archive, oldest first."""
        return cast("list[ArchivePartition]", self._send("GET", "/lifecycle/partitions"))

    def policy(self, **query: Unpack[LifecyclePolicyQuery]) -> LifecyclePolicy:
        """Return the lifecycle policy of a task, a queue or all jobs, and where each is set."""
        return cast("LifecyclePolicy", self._send("GET", "/lifecycle/policy", query=query))

    def configure(self, **body: Unpack[PolicyChange]) -> LifecyclePolicy:
        """Change the lifecycle policy of a task or a queue. It overrides code and settings."""
        return cast("LifecyclePolicy", self._send("PATCH", "/lifecycle/policy", body=body))


class MetricsApi(_Resource):
    """Metrics of the store, current and past."""

    def system(self, **query: Unpack[MetricsSystemQuery]) -> MetricsSnapshot:
        """Return throughput, errors and times of the window by queue, task and worker, and the waiting jobs."""
        return cast("MetricsSnapshot", self._send("GET", "/metrics", query=query))

    def queues(self, **query: Unpack[MetricsQueuesQuery]) -> list[QueueMetrics]:
        """Return the metrics of each queue."""
        return cast("list[QueueMetrics]", self._send("GET", "/metrics/queues", query=query))

    def queue(self, queue: str, /, **query: Unpack[MetricsQueueQuery]) -> QueueMetrics:
        """Return the metrics of one queue."""
        return cast("QueueMetrics", self._send("GET", f"/metrics/queues/{_quoted(queue)}", query=query))

    def scale(self, **query: Unpack[MetricsScaleQuery]) -> StoreScale:
        """Return how many workers each queue wants, and how many seconds it is behind."""
        return cast("StoreScale", self._send("GET", "/metrics/scale", query=query))

    def tasks(self, **query: Unpack[MetricsTasksQuery]) -> list[TaskMetrics]:
        """Return the metrics of tasks: most failed attempts first, then the busiest."""
        return cast("list[TaskMetrics]", self._send("GET", "/metrics/tasks", query=query))

    def days(self, **query: Unpack[MetricsDaysQuery]) -> list[DayMetrics]:
        """Return daily totals in UTC, today last."""
        return cast("list[DayMetrics]", self._send("GET", "/metrics/days", query=query))

    def series(self, name: str, /, **query: Unpack[MetricsSeriesQuery]) -> MetricSeries:
        """Return a metric over time, such as `throughput`, `error_rate`, `wait_p95` or `depth`."""
        return cast("MetricSeries", self._send("GET", f"/metrics/series/{_quoted(name)}", query=query))


class AlertsApi(_Resource):
    """Alerts, their history, their rules and silences."""

    def active(self, **query: Unpack[AlertsActiveQuery]) -> list[Alert]:
        """List the firing alerts, most severe first."""
        return cast("list[Alert]", self._send("GET", "/alerts", query=query))

    def history(self, **query: Unpack[AlertsHistoryQuery]) -> list[AlertChange]:
        """List the history of alerts, newest first. The `cursor` of the last entry continues the list."""
        return cast("list[AlertChange]", self._send("GET", "/alert-history", query=query))

    def acknowledge(self, alert_id: str, /, **body: Unpack[NoteBody]) -> Alert:
        """Acknowledge an alert, which stops its repeated notifications."""
        return cast("Alert", self._send("POST", f"/alerts/{_quoted(alert_id)}/acknowledge", body=body))

    def resolve(self, alert_id: str, /, **body: Unpack[NoteBody]) -> Alert:
        """Resolve an alert by hand. It fires again if its rule still holds."""
        return cast("Alert", self._send("POST", f"/alerts/{_quoted(alert_id)}/resolve", body=body))

    def get(self, alert_id: str, /) -> Alert:
        """Return one alert by its id, or the only open alert of the rule with this name."""
        return cast("Alert", self._send("GET", f"/alerts/{_quoted(alert_id)}"))

    def rules(self) -> list[AlertRule]:
        """List the rules with their states, by name."""
        return cast("list[AlertRule]", self._send("GET", "/alert-rules"))

    def create_rule(self, **body: Unpack[NewRule]) -> AlertRule:
        """Create a rule."""
        return cast("AlertRule", self._send("POST", "/alert-rules", body=body))

    def test_rule(self, **body: Unpack[RuleFields]) -> list[AlertReading]:
        """Evaluate a rule that is not stored. No notification is sent."""
        return cast("list[AlertReading]", self._send("POST", "/alert-rule-test", body=body))

    def test_stored_rule(self, name: str, /) -> list[AlertReading]:
        """Evaluate a stored rule. No notification is sent."""
        return cast("list[AlertReading]", self._send("GET", f"/alert-rules/{_quoted(name)}/test"))

    def rule(self, name: str, /) -> AlertRule:
        """Return one rule with its state."""
        return cast("AlertRule", self._send("GET", f"/alert-rules/{_quoted(name)}"))

    def update_rule(self, name: str, /, **body: Unpack[RuleFields]) -> AlertRule:
        """Change a rule, also a built-in one."""
        return cast("AlertRule", self._send("PATCH", f"/alert-rules/{_quoted(name)}", body=body))

    def delete_rule(self, name: str, /) -> None:
        """Delete a rule. A built-in rule returns to its defaults."""
        self._send("DELETE", f"/alert-rules/{_quoted(name)}")

    def silences(self) -> list[AlertSilence]:
        """List the active silences."""
        return cast("list[AlertSilence]", self._send("GET", "/alert-silences"))

    def silence(self, **body: Unpack[NewSilence]) -> AlertSilence:
        """Mute notifications for a time."""
        return cast("AlertSilence", self._send("POST", "/alert-silences", body=body))

    def unsilence(self, silence_id: str, /) -> None:
        """End a silence."""
        self._send("DELETE", f"/alert-silences/{_quoted(silence_id)}")


class ChannelsApi(_Resource):
    """Alert channels: where notifications are sent."""

    def find(self) -> list[AlertChannel]:
        """List the channels with their health, without secrets."""
        return cast("list[AlertChannel]", self._send("GET", "/alert-channels"))

    def create(self, **body: Unpack[NewChannel]) -> AlertChannel:
        """Create a channel."""
        return cast("AlertChannel", self._send("POST", "/alert-channels", body=body))

    def test(self, name: str, /) -> TestOutcome:
        """Send a test message now and return whether the channel accepted it."""
        return cast("TestOutcome", self._send("POST", f"/alert-channels/{_quoted(name)}/test"))

    def get(self, name: str, /) -> AlertChannel:
        """Return one channel."""
        return cast("AlertChannel", self._send("GET", f"/alert-channels/{_quoted(name)}"))

    def update(self, name: str, /, **body: Unpack[ChannelFields]) -> AlertChannel:
        """Change a stored channel. Omitted fields and secrets stay."""
        return cast("AlertChannel", self._send("PATCH", f"/alert-channels/{_quoted(name)}", body=body))

    def delete(self, name: str, /) -> None:
        """Delete a stored channel that no rule uses."""
        self._send("DELETE", f"/alert-channels/{_quoted(name)}")


class EventsApi(_Resource):
    """Events of the store, live and recent."""

    def stream(self, **query: Unpack[EventsStreamQuery]) -> Iterator[Event]:
        """Stream events as server-sent events."""
        return self._stream("/events", query=query)


class WebhooksApi(_Resource):
    """Webhooks: HTTP endpoints that receive events."""

    def find(self) -> list[Webhook]:
        """List the webhooks, oldest first. The query of a URL is hidden, because it may contain a token."""
        return cast("list[Webhook]", self._send("GET", "/webhooks"))

    def create(self, **body: Unpack[NewWebhook]) -> Webhook:
        """Create a webhook. A generated secret is returned here and never again."""
        return cast("Webhook", self._send("POST", "/webhooks", body=body))

    def deliveries(self, webhook_id: str, /, **query: Unpack[WebhooksDeliveriesQuery]) -> list[JobRecord]:
        """List the newest deliveries of a webhook. Each delivery is a job."""
        return cast("list[JobRecord]", self._send("GET", f"/webhooks/{_quoted(webhook_id)}/deliveries", query=query))

    def pause(self, webhook_id: str, /) -> Webhook:
        """Pause a webhook. Events during the pause are not sent."""
        return cast("Webhook", self._send("POST", f"/webhooks/{_quoted(webhook_id)}/pause"))

    def resume(self, webhook_id: str, /) -> Webhook:
        """Resume a webhook, with events from now on."""
        return cast("Webhook", self._send("POST", f"/webhooks/{_quoted(webhook_id)}/resume"))

    def test(self, webhook_id: str, /) -> TestOutcome:
        """Send one event of the type `webhook.test` now and return whether it was accepted."""
        return cast("TestOutcome", self._send("POST", f"/webhooks/{_quoted(webhook_id)}/test"))

    def get(self, webhook_id: str, /) -> Webhook:
        """Return one webhook."""
        return cast("Webhook", self._send("GET", f"/webhooks/{_quoted(webhook_id)}"))

    def update(self, webhook_id: str, /, **body: Unpack[WebhookChange]) -> Webhook:
        """Change a webhook. Pending deliveries go to the new URL, too."""
        return cast("Webhook", self._send("PATCH", f"/webhooks/{_quoted(webhook_id)}", body=body))

    def delete(self, webhook_id: str, /) -> None:
        """Delete a webhook. Pending deliveries are dropped."""
        self._send("DELETE", f"/webhooks/{_quoted(webhook_id)}")


class SystemApi(_Resource):
    """Version, store, settings and the audit trail."""

    def get(self) -> System:
        """Return version, store and settings."""
        return cast("System", self._send("GET", "/system"))

    def storage(self, **query: Unpack[SystemStorageQuery]) -> list[StoragePart]:
        """List the tables or keys of the store with kind, entries and bytes, without values."""
        return cast("list[StoragePart]", self._send("GET", "/system/storage", query=query))

    def me(self) -> Me:
        """The caller and its role."""
        return cast("Me", self._send("GET", "/me"))

    def audit(self, **query: Unpack[SystemAuditQuery]) -> AuditList:
        """List the audit trail of changes over HTTP, newest first."""
        return cast("AuditList", self._send("GET", "/audit", query=query))


class WorkerApi(_Resource):
    """For workers in any language: claim jobs, renew their leases, settle them."""

    def claim(self, **body: Unpack[ClaimParameters]) -> ClaimedJobs:
        """Claim jobs, or wait for some."""
        return cast("ClaimedJobs", self._send("POST", "/worker/claim", body=body))

    def renew(self, **body: Unpack[HeartbeatRequest]) -> HeartbeatResult:
        """Renew the leases of running jobs, store their progress and logs, and return the lost ones."""
        return cast("HeartbeatResult", self._send("POST", "/worker/renew", body=body))

    def steps(self, **body: Unpack[StepsRequest]) -> StoredSteps:
        """Read the steps that earlier runs of a job stored, and the events that came for it."""
        return cast("StoredSteps", self._send("POST", "/worker/steps", body=body))

    def step(self, **body: Unpack[FinishedStep]) -> None:
        """Store the result of a step, for good, before the run continues."""
        self._send("POST", "/worker/step", body=body)

    def settle(self, **body: Unpack[SettleRequest]) -> SettledJobs:
        """Settle attempts."""
        return cast("SettledJobs", self._send("POST", "/worker/settle", body=body))

    def leave(self, **body: Unpack[Unregister]) -> None:
        """Unregister a worker, after it has settled or released its jobs."""
        self._send("POST", "/worker/leave", body=body)


class HeadraceClient:
    """A client of one headrace server; each attribute is a resource of its REST API."""

    def __init__(
        self, url: str = "http://127.0.0.1:8080", *, token: str | None = None, timeout: float = 30.0
    ) -> None:
        """`url` is where `headrace web` serves or an app mounts it; `timeout` is in seconds."""
        connection = _Connection(url, token, timeout)
        self.jobs = JobsApi(connection)
        self.questions = QuestionsApi(connection)
        self.queues = QueuesApi(connection)
        self.tasks = TasksApi(connection)
        self.breakers = BreakersApi(connection)
        self.workers = WorkersApi(connection)
        self.schedules = SchedulesApi(connection)
        self.flows = FlowsApi(connection)
        self.dead = DeadApi(connection)
        self.lifecycle = LifecycleApi(connection)
        self.metrics = MetricsApi(connection)
        self.alerts = AlertsApi(connection)
        self.channels = ChannelsApi(connection)
        self.events = EventsApi(connection)
        self.webhooks = WebhooksApi(connection)
        self.system = SystemApi(connection)
        self.worker = WorkerApi(connection)
