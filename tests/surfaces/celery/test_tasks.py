"""A module written for Celery runs: tasks, calls, retries, results and the request of `self`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidJob
from headrace.contrib.celery import (
    AsyncResult,
    Celery,
    CeleryError,
    Ignore,
    MaxRetriesExceededError,
    Reject,
    Task,
    TaskRevokedError,
    current,
    current_app,
    current_task,
    shared_task,
)
from headrace.core.queues.rules_text import format_rules
from headrace.testing import VirtualClock, drain
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.celery import shop

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOON)


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Celery]:
    with Headrace("memory://", clock=clock) as headrace:
        yield Celery.from_headrace(headrace, "shop")


def run(app: Celery) -> int:
    return drain(app.headrace)


def test_delay_apply_async_and_send_task_enqueue_and_get_returns_the_result(app: Celery) -> None:
    @app.task(name="add")
    def add(a: int, b: int = 1) -> int:
        return a + b

    results = [
        add.delay(1, b=2),
        add.apply_async((3,), {"b": 4}),
        add.apply_async(args=[5]),
        app.send_task("add", [6], {"b": 1}),
        add.s(7).delay(8),
    ]
    assert add(1, 1) == 2
    assert [result.state for result in results] == ["PENDING"] * 5
    assert not results[0].ready()
    assert run(app) == 5
    assert [result.get(timeout=1) for result in results] == [3, 7, 6, 7, 15]
    assert {(result.state, result.ready(), result.successful(), result.failed()) for result in results} == {
        ("SUCCESS", True, True, False)
    }
    assert AsyncResult(results[0].id).result == 3
    assert app.AsyncResult("unknown").state == "PENDING"
    results[0].forget()
    assert results[0].state == "PENDING"


def test_a_task_is_named_after_its_module_as_in_celery(app: Celery) -> None:
    @app.task
    def plain() -> None: ...

    @app.task(name="other")
    def named() -> None: ...

    assert (plain.name, named.name) == (f"{__name__}.plain", "other")
    assert app.gen_task_name("add", "__main__") == "shop.add"
    assert set(app.tasks) == {plain.name, "other"}


def test_options_of_a_call_are_translated(app: Celery) -> None:
    @app.task(name="note", queue="notes", priority=3)
    def note(value: int = 0) -> int:
        return value

    later = NOON + timedelta(hours=2)
    result = note.apply_async((1,), countdown=60, queue="mail", priority=9, task_id="mine", expires=600)
    jobs = [result.job, note.apply_async(eta=later).job, note.apply_async(eta=later.replace(tzinfo=None)).job]
    jobs += [note.apply_async(expires=later).job, note.delay().job]
    assert all(jobs)
    one, two, three, four, five = (job for job in jobs if job)
    assert (one.id, one.queue, one.priority, one.run_at) == ("mine", "mail", 9, NOON + timedelta(seconds=60))
    assert one.expires_at == NOON + timedelta(seconds=600)
    assert (two.run_at, three.run_at, four.expires_at) == (later, later, later)
    assert (five.queue, five.priority, five.run_at) == ("notes", 3, NOON)


def test_a_bound_task_sees_its_request(app: Celery) -> None:
    seen: list[Any] = []

    @app.task(bind=True, name="look")
    def look(self: Task, a: int, b: int = 2) -> None:
        seen.append(self.request)
        assert self.name == "look"

    look.apply_async((1,), {"b": 5}, queue="mail", task_id="mine")
    run(app)
    [request] = seen
    assert (request.id, request.task, request.retries, request.queue) == ("mine", "look", 0, "mail")
    assert (request.args, request.kwargs, request.called_directly, request.is_eager) == ((1,), {"b": 5}, False, False)
    look(1)
    assert (seen[1].id, seen[1].called_directly) == (None, True)
    with pytest.raises(InvalidJob, match="takes"):
        look.delay(1, 2, 3)


def test_retry_runs_again_after_its_countdown_until_max_retries(app: Celery, clock: VirtualClock) -> None:
    seen: list[int] = []

    @app.task(bind=True, max_retries=2, default_retry_delay=30)
    def flaky(self: Task) -> str:
        seen.append(self.request.retries)
        try:
            raise OSError("down")
        except OSError as error:
            raise self.retry(exc=error, countdown=10 if self.request.retries == 0 else None) from error

    result = flaky.delay()
    run(app)
    assert result.state == "RETRY"
    for seconds, ran in ((9, 0), (1, 1), (29, 0), (1, 1)):
        clock.advance(seconds)
        assert run(app) == ran
    assert seen == [0, 1, 2]
    assert result.state == "FAILURE"
    assert isinstance(result.result, OSError)
    assert "down" in str(result.traceback)
    with pytest.raises(OSError, match="down"):
        result.get(timeout=1)
    assert isinstance(result.get(timeout=1, propagate=False), OSError)


def test_without_an_error_the_last_retry_raises_max_retries_exceeded(app: Celery) -> None:
    @app.task(bind=True, max_retries=0)
    def flaky(self: Task) -> None:
        self.retry()

    flaky.delay()
    run(app)
    assert app.headrace.jobs.find(state="failed").jobs[0].errors[-1].type == "MaxRetriesExceededError"
    assert isinstance(flaky.apply().result, MaxRetriesExceededError)


def test_errors_are_not_retried_unless_autoretry_names_them(app: Celery, clock: VirtualClock) -> None:
    @app.task
    def plain() -> None:
        raise OSError("once")

    @app.task(autoretry_for=(OSError,), dont_autoretry_for=(FileNotFoundError,), max_retries=2, default_retry_delay=5)
    def auto(kind: str) -> None:
        raise {"os": OSError, "file": FileNotFoundError, "value": ValueError}[kind]("again")

    results = [plain.delay(), auto.delay("file"), auto.delay("value"), auto.delay("os")]
    run(app)
    assert [result.state for result in results] == ["FAILURE", "FAILURE", "FAILURE", "RETRY"]
    clock.advance(5)
    run(app)
    clock.advance(5)
    run(app)
    assert (results[3].state, results[3].retries) == ("FAILURE", 2)


def test_backoff_doubles_up_to_its_maximum(app: Celery) -> None:
    @app.task(
        autoretry_for=(OSError,),
        retry_backoff=3,
        retry_backoff_max=10,
        retry_jitter=False,
        retry_kwargs={"max_retries": 7},
    )
    def slow() -> None: ...

    @app.task(autoretry_for=(OSError,), retry_backoff=True)
    def spread() -> None: ...

    retry = slow.headrace_task.retry
    assert retry.limit == 7
    assert [retry.delay(attempt, OSError(), 0.5) for attempt in (1, 2, 3, 90)] == [3, 6, 10, 10]
    delays = [spread.headrace_task.retry.delay(4, OSError(), 0.5) for _ in range(50)]
    assert all(isinstance(delay, float) and 0 <= delay <= 8 for delay in delays)
    assert len(set(delays)) > 10


def test_ignore_and_reject_end_a_job(app: Celery) -> None:
    @app.task
    def end(kind: str) -> None:
        raise Ignore if kind == "ignore" else Reject("no")

    ignored, rejected = end.delay("ignore"), end.delay("reject")
    run(app)
    assert (ignored.state, rejected.state) == ("REVOKED", "FAILURE")


def test_revoke_cancels(app: Celery) -> None:
    @app.task
    def wait() -> None: ...

    one, two = wait.delay(), wait.delay()
    one.revoke(terminate=True)
    app.control.revoke(two.id)
    assert (one.state, two.state, run(app)) == ("REVOKED", "REVOKED", 0)


def test_a_revoked_task_raises_task_revoked_error_and_the_key_of_a_key_error_is_kept(app: Celery) -> None:
    @app.task(name="missing")
    def missing() -> None:
        raise KeyError("order 7")

    revoked, failed = missing.apply_async(countdown=60), missing.delay()
    revoked.revoke()
    run(app)
    with pytest.raises(TaskRevokedError):
        revoked.get(timeout=1)
    with pytest.raises(KeyError) as error:
        failed.get(timeout=1)
    assert error.value.args == ("order 7",)
    assert failed.date_done is not None


def test_current_app_and_current_task_stand_for_what_they_name(app: Celery) -> None:
    @app.task(name="who")
    def who() -> list[Any]:
        return [current_task.name, current_task.request.id]

    current_app.conf.task_default_queue = "mail"
    job = current_app.send_task("who")
    with pytest.raises(CeleryError, match="no task runs here"):
        _ = current_task.name
    run(app)
    assert (current_app.main, current_app(), job.get(timeout=1)) == (app.main, app, ["who", job.id])
    assert app.conf.task_default_queue == "mail"


def test_update_state_is_seen_while_the_job_runs() -> None:
    with shop.app as app, app.headrace.worker(concurrency=1):
        shop.gate.clear()
        result = shop.import_rows.delay(4)
        assert shop.reported.wait(PATIENCE)
        eventually(lambda: result.state == "IMPORT")
        assert result.info == {"done": 2}
        shop.gate.set()
        assert result.get(timeout=PATIENCE) == 4
        assert result.state == "SUCCESS"


def test_limits_of_a_task_become_options_of_headrace(app: Celery) -> None:
    @app.task(rate_limit="10/m", time_limit=30, soft_time_limit=20, ignore_result=True, acks_late=True)
    def limited() -> None: ...

    options = limited.headrace_task.options
    assert format_rules(options.rules()) == "rate=10/min burst=1"
    assert (options.timeout, options.isolation, options.keep_result) == (30_000, "process", False)
    with pytest.raises(CeleryError, match="'10/s', '10/m' or '10/h'"):
        app.task(rate_limit="10/d")(lambda: None)


@pytest.mark.slow
def test_a_soft_time_limit_interrupts_and_a_time_limit_kills() -> None:
    with shop.app as app, app.headrace.worker(concurrency=2):
        soft, hard = shop.patient.delay(), shop.stubborn.delay()
        assert soft.get(timeout=PATIENCE) == "cleaned up"
        assert hard.job is not None
        assert hard.job.wait(PATIENCE) == "failed"


def test_a_base_class_has_hooks_and_attributes(app: Celery) -> None:
    seen: list[Any] = []

    class Base(Task):
        max_retries = 1
        autoretry_for = (OSError,)
        default_retry_delay = 0

        def before_start(self, task_id: Any, args: Any, kwargs: Any) -> None:
            seen.append("start")

        def on_success(self, retval: Any, task_id: Any, args: Any, kwargs: Any) -> None:
            seen.append(("success", retval))

        def on_retry(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None:
            seen.append("retry")

        def on_failure(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None:
            seen.append(("failure", str(exc)))

        def after_return(self, status: Any, retval: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None:
            seen.append(status)

    @app.task(base=Base, cost=3)
    def work(fails: bool) -> str:
        if fails:
            raise OSError("no")
        return "done"

    assert work.cost == 3
    work.delay(False)
    run(app)
    assert seen == ["start", ("success", "done"), "SUCCESS"]
    seen.clear()
    work.delay(True)
    run(app)
    app.headrace.clock.advance(1)  # type: ignore[attr-defined]  # the virtual one
    run(app)
    assert seen == ["start", "retry", "RETRY", "start", ("failure", "no"), "FAILURE"]


def test_a_class_based_task_is_registered_by_its_instance(app: Celery) -> None:
    class Double(Task):
        name = "double"

        def run(self, number: int) -> int:
            return 2 * number

    double = app.register_task(Double())
    result = double.delay(4)
    run(app)
    assert result.get(1) == 8


def test_a_shared_task_belongs_to_the_current_app_even_if_it_comes_later(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    @shared_task(name="shared.now")
    def now() -> int:
        return 1

    assert now.app is app
    monkeypatch.setattr(current, "_current", [])

    @shared_task(bind=True, max_retries=7)
    def later(self: Task, a: int) -> int:
        return a + self.request.retries

    with pytest.raises(CeleryError, match="has no app yet"):
        later.delay(1)
    other = Celery.from_headrace(app.headrace)
    result = later.delay(5)
    run(other)
    assert (later.app is other, later.headrace_task.retry.limit, result.get(1)) == (True, 7, 5)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"routing_key": "a.b"}, "name the queue with queue="),
    ({"exchange": "x"}, "there are no exchanges"),
    ({"serializer": "pickle"}, "stored as JSON"),
    ({"soft_time_limit": 3}, "@app.task\\(soft_time_limit"),
    ({"connection": object()}, "leave it out"),
    ({"contdown": 3}, "'contdown' is not an option; options are countdown"),
    ({"eta": "noon"}, "eta: expected a datetime"),
    ({"link_error": "other"}, "expected a signature"),
]


@pytest.mark.parametrize(("options", "told"), REFUSED)
def test_what_does_not_carry_over_says_what_to_use_instead(app: Celery, options: dict[str, Any], told: str) -> None:
    @app.task
    def plain() -> None: ...

    with pytest.raises(CeleryError, match=told):
        plain.apply_async(**options)
    assert issubclass(CeleryError, ConfigError)


def test_other_parts_of_celery_are_refused_with_their_equal(app: Celery) -> None:
    @app.task(bind=True)
    def plain(self: Task) -> None: ...

    for refused, told in (
        (lambda: plain.chunks([], 10), "enqueue_many"),
        (lambda: plain.replace(plain.s()), "spawn"),
        (app.start, "headrace worker"),
        (lambda: app.task(bind=True)(_coroutine), "app.headrace.task"),
        (lambda: Celery("x", broker="amqp://guest@localhost//"), "message broker"),
        (lambda: Reject("x", requeue=True), "Snooze"),
        (lambda: plain.apply_async(5), "for one argument write"),
    ):
        with pytest.raises(CeleryError, match=told):
            refused()
    with pytest.raises(AttributeError, match="headrace jobs"):
        app.control.inspect()
    assert not hasattr(app.control, "_private")


async def _coroutine(self: Any) -> None: ...


def test_the_facade_needs_no_celery() -> None:
    assert "celery" not in sys.modules
