"""What users may import is there, documented and complete; what they may not is not offered."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headrace
import headrace.testing
from tests.support.cases import check_each

ROOT = Path(__file__).parents[2]

# The contract: these names are promised. A name may be added here, and none may leave without a major version.
PROMISED = {
    "INJECTED": "",
    "Headrace": "on_worker_start on_worker_stop around_attempt around_enqueue provide overriding "
    "task enqueue aenqueue enqueue_many aenqueue_many queue queues aqueues jobs workers aworkers worker "
    "run_worker asgi close settings clock tasks schedules cron every signal asignal flow flows dead "
    "lifecycle metrics alerts audit admin events aevents on listening webhooks correlation",
    "Task": "enqueue aenqueue map amap using bind name",
    "Job": "id task queue state args kwargs priority attempt max_attempts created_at run_at started_at finished_at "
    "worker progress tags metadata correlation_id errors refresh arefresh wait result aresult cancel acancel retry "
    "aretry promote apromote delete adelete update aupdate logs alogs history ahistory why awhy flow parents aparents "
    "children achildren __await__",
    "JobContext": "id attempt worker progress log cancel_requested lease_version deadline metadata correlation_id "
    "heartbeat aheartbeat step "
    "astep sleep asleep wait_event await_event spawn aspawn",
    "Chunk": "cursor attempt number at data",
    "Event": "cursor type at job_id task queue worker attempt data",
    "Flow": "name add enqueue aenqueue",
    "FlowRun": "id name state jobs ajobs results aresults progress counts created_at is_finished refresh arefresh wait "
    "await_ result aresult cancel acancel retry aretry graph agraph mermaid amermaid svg asvg __await__",
    "ParentFailure": "job_id task state error message",
    "chain": "",
    "group": "",
    "Breaker": "name is_open reset areset",
    "BreakerStatus": "name state failures error open_until summary",
    "Queue": "pause apause resume aresume stats astats length alength peek apeek clear aclear configure "
    "aconfigure configure_key aconfigure_key rules",
    "Webhook": "id url types queue task paused reason created_at secret",
    "Worker": "start stop pause resume join id",
    "AppSettings": "",
    "CallOptions": "",
    "ScheduleOptions": "",
    "TaskOptions": "",
    "WebOptions": "",
    "WorkerSettings": "",
    "AttemptError": "at attempt type message traceback",
    "HistoryEntry": "at event from_state to_state version attempt worker message",
    "Lifecycle": "max_scheduled max_waiting max_pending max_retrying max_running max_age on_stale keep_completed "
    "keep_failed keep_cancelled archive",
    "LifecyclePolicy": "task queue max_pending on_stale keep_failed archive remove_on_complete remove_on_fail origin",
    "PolicyLayers": "kind name declared override",
    "LogEntry": "at attempt level message fields",
    "QueueStats": "queue paused scheduled waiting pending running retrying completed failed cancelled oldest_pending "
    "rules starts_left condition",
    "QueueRules": "max_length weight strategy ageing rate concurrency key_rate key_concurrency keys",
    "KeyRules": "rate concurrency weight",
    "TaskRules": "paused rate concurrency strategy",
    "TaskStats": "task known paused pending is_exact running figures last_failure last_error rules batch within",
    "WorkerInfo": "id host pid state queues concurrency running completed failed started_at seen_at tasks",
    "Retry": "limit backoff base factor cap floor jitter on never on_timeout",
    "Unique": "by key states window on_conflict",
    "Cache": "ttl key",
    "Schedule": "id task queue args kwargs cron every at tz next_run last_run last_job paused fired origin error "
    "is_over",
    "ScheduleRun": "at recorded_at status job_id detail skipped",
    "DeadLetter": "id job_id task queue reason status entered_at fingerprint args kwargs error_type error_message "
    "error_traceback requeues notes resolved_at resolved_by is_pending",
    "DeadNote": "at text by",
    "DeadPage": "dead_letters cursor __len__ __iter__ __getitem__",
    "DeadGroup": "fingerprint task error_type message count first_seen last_seen",
    "DeadStats": "reason total pending requeued permanently_failed average_requeues oldest newest",
    "RequeueResult": "id job_id requeued status requeues message",
    "BulkRequeue": "matched requeued permanently_failed skipped dry_run",
    "ArchiveRun": "dry_run archived deleted history steps dead_letters dropped jobs seconds",
    "ArchiveMonth": "month jobs bytes",
    "ArchivePartition": "name since until jobs bytes",
    "ArchiveStats": "jobs bytes partitions swept_at seconds archived deleted dead_letters partition dropped",
    "TaskDurations": "task jobs average p95 longest",
    "StaleJob": "id task queue state by lasted threshold action is_stale applied",
    "OpenQuestion": "job task queue event text to answer asked_at until",
    "StateAges": "state queue jobs average longest over_an_hour over_a_day stalest",
    "StoragePart": "name kind entries bytes expires",
    "MetricsSnapshot": "at window total queues tasks workers depth oldest workers_alive dead stale schedule_misses "
    "store_bytes busy clients schedules sampled_at",
    "MetricFigures": "enqueued started completed failed retried cancelled errors throughput enqueue_rate failure_rate "
    "error_rate attempts_avg retry_success wait run",
    "MemoryTrace": "allocated peak growth",
    "MetricDurations": "avg min max p50 p95 p99",
    "QueueMetrics": "queue figures depth oldest workers eta",
    "QueueScale": "queue workers slots slots_wanted workers_wanted seconds_behind paused",
    "StoreScale": "target_wait workers slots slots_wanted workers_wanted seconds_behind queues",
    "TaskMetrics": "task queue figures",
    "WorkerMetrics": "worker figures",
    "MetricSeries": "name step points queue task worker",
    "MetricPoint": "at value",
    "DayMetrics": "day figures max_depth queue task",
    "Backup": "path jobs bytes",
    "Restored": "jobs released",
    "Erasure": "archived audit_entries deliveries dead_letters dry_run events format_counts jobs questions running "
    "schedules spooled",
    "Explanation": "cause remedy more sentence text plus",
    "Remedy": "verb target command words",
    "Finding": "code sentence advice count repairable note examples",
    "JobContextFilter": "filter",
    "TextFormatter": "format",
    "JsonFormatter": "format",
    "configure_logs": "",
    "State": "SCHEDULED WAITING PENDING RUNNING RETRYING COMPLETED FAILED CANCELLED",
    "Alert": "id rule state severity summary labels figures since fired_at acknowledged_at acknowledged_by resolved_at "
    "resolved_by note runbook notified silenced no_data",
    "AlertChange": "at what alert by note",
    "AlertChannel": "name kind target severity enabled signed origin error failing_since failures waiting",
    "AlertReading": "labels holds figures summary",
    "AlertRule": "name when for_ cooldown severity per labels notify summary runbook enabled shipped changed state "
    "error",
    "AlertSilence": "id rule labels at until by note",
    "JobCount": "jobs is_exact",
    "JobPage": "jobs cursor __len__ __iter__ __getitem__",
    "Call": "",
    "current_job": "",
    "current_jobs": "",
}
PROMISED_JOBS = (
    "get aget find afind count acount count_up_to acount_up_to cancel acancel retry aretry promote apromote delete "
    "adelete"
)
PROMISED_ADMIN = (
    "migrate amigrate backup abackup restore arestore examine aexamine optimize aoptimize checkpoint acheckpoint check "
    "acheck repair arepair"
)
PROMISED_METRICS = (
    "snapshot asnapshot scale ascale value avalue baseline abaseline labels alabels series aseries totals atotals days "
    "adays tasks atasks prometheus aprometheus"
)
PROMISED_ERRORS = {
    "HeadraceError": Exception,
    "InvalidJob": ValueError,
    "PayloadStoreUnavailable": headrace.EngineUnavailable,
    "PayloadTooLarge": headrace.InvalidJob,
    "UnknownTask": headrace.InvalidJob,
    "QueueFull": headrace.HeadraceError,
    "QueueNotEmpty": headrace.HeadraceError,
    "NotFound": KeyError,
    "JobNotFound": headrace.NotFound,
    "FlowNotFound": headrace.JobNotFound,
    "DeadLetterNotFound": headrace.JobNotFound,
    "DeadLetterClosed": headrace.HeadraceError,
    "JobFailed": headrace.HeadraceError,
    "JobCancelled": headrace.HeadraceError,
    "JobTimeout": TimeoutError,
    "JobInterrupted": BaseException,
    "LeaseLost": headrace.HeadraceError,
    "ReplayStopped": headrace.HeadraceError,
    "ResultUnavailable": headrace.HeadraceError,
    "CorruptPayload": headrace.HeadraceError,
    "EngineUnavailable": headrace.HeadraceError,
    "UnsupportedByEngine": headrace.HeadraceError,
    "DuplicateJob": headrace.HeadraceError,
    "InvalidSchedule": ValueError,
    "InvalidAlert": ValueError,
    "AlertNotFound": headrace.NotFound,
    "AlertRuleNotFound": headrace.AlertNotFound,
    "AlertChannelNotFound": headrace.AlertNotFound,
    "AlertSilenceNotFound": headrace.AlertNotFound,
    "QueueNotFound": headrace.NotFound,
    "QuestionNotFound": headrace.NotFound,
    "BreakerNotFound": headrace.NotFound,
    "ScheduleNotFound": headrace.NotFound,
    "WebhookNotFound": headrace.NotFound,
    "WorkerNotFound": headrace.NotFound,
    "AppClosed": RuntimeError,
    "StoreMoved": headrace.ConfigError,
    "ConfigError": headrace.HeadraceError,
    "SchemaMismatch": headrace.ConfigError,
    "RetryLater": Exception,
    "Snooze": Exception,
    "BreakerOpen": headrace.Snooze,
    "CancelJob": Exception,
    "PermanentError": Exception,
    "BudgetExceeded": headrace.PermanentError,
    "RetryableError": Exception,
}
PROMISED_KIT = {
    "VirtualClock",
    "adrain",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "enqueued",
    "inline",
    "isolated",
}


def attributes(thing: Any) -> set[str]:
    """What an instance offers: its class's attributes, its fields, and what `__init__` gives it."""
    fields = set(getattr(thing, "__struct_fields__", ())) | set(getattr(thing, "__slots__", ()))
    source = inspect.getsource(thing.__init__) if inspect.isfunction(thing.__init__) else ""
    nodes = ast.walk(ast.parse(textwrap.dedent(source)))
    given = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    return set(dir(thing)) | fields | given


@pytest.mark.parametrize("module", [headrace, headrace.testing], ids=lambda module: module.__name__)
def test_every_name_that_is_offered_exists_and_the_list_is_sorted(module: ModuleType) -> None:
    constants_first = sorted(set(module.__all__), key=lambda name: (not name.isupper(), name))
    assert constants_first == module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


def test_every_name_that_is_offered_says_what_it_is() -> None:
    def check(name: str) -> None:
        thing = getattr(headrace, name, None) or getattr(headrace.testing, name)
        own = thing.__dict__.get("__doc__") if isinstance(thing, type) else thing.__doc__
        assert own, f"{name} has no docstring of its own"
        assert own.strip()[0].isupper()

    check_each([*headrace.__all__, *headrace.testing.__all__], check)


def test_nothing_that_is_promised_is_missing_and_nothing_else_is_offered() -> None:
    assert set(headrace.__all__) == {*PROMISED, *PROMISED_ERRORS}
    assert set(headrace.testing.__all__) == PROMISED_KIT


def test_every_attribute_that_is_promised_is_there() -> None:
    def check(name: str) -> None:
        assert set(PROMISED[name].split()) <= attributes(getattr(headrace, name))

    check_each(PROMISED, check)


def test_the_facade_of_jobs_has_all_that_is_promised() -> None:
    with headrace.Headrace("memory://") as app:
        assert set(PROMISED_JOBS.split()) <= set(dir(app.jobs))


def test_the_facade_of_maintenance_has_all_that_is_promised() -> None:
    with headrace.Headrace("memory://") as app:
        assert set(PROMISED_ADMIN.split()) <= set(dir(app.admin))


def test_the_facade_of_metrics_has_all_that_is_promised() -> None:
    with headrace.Headrace("memory://") as app:
        assert set(PROMISED_METRICS.split()) <= set(dir(app.metrics))


def test_every_error_can_be_caught_as_what_it_is() -> None:
    def check(case: tuple[str, type[BaseException]]) -> None:
        name, base = case
        assert issubclass(getattr(headrace, name), base)
        assert issubclass(getattr(headrace, name), Exception) or name == "JobInterrupted"

    check_each(PROMISED_ERRORS.items(), check)


def test_the_errors_are_drawn_as_they_are() -> None:
    drawn = importlib.import_module("headrace.errors").__doc__ or ""
    assert [name for name in PROMISED_ERRORS if name not in drawn] == []


@pytest.mark.parametrize("name", ["Headrace", "Task", "Job", "JobContext", "Queue", "Worker"])
def test_every_method_a_user_calls_says_what_it_does(name: str) -> None:
    kind = getattr(headrace, name)
    methods = [
        attribute
        for attribute in PROMISED[name].split()
        if not attribute.startswith("_") and inspect.isfunction(inspect.getattr_static(kind, attribute, None))
    ]
    assert methods
    assert [attribute for attribute in methods if not getattr(kind, attribute).__doc__] == []


def test_a_star_import_brings_the_public_names_and_nothing_else() -> None:
    code = "before = set(dir()); from headrace import *; print(*sorted(set(dir()) - before - {'before'}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "src", check=True)
    assert found.stdout.split() == sorted(headrace.__all__)


def test_what_lies_beside_the_public_names_is_modules_only() -> None:
    """Whatever else `headrace.` completes to must be a module, so that nobody comes to rely on a stray name."""
    beside = {name for name in vars(headrace) if not name.startswith("_")} - set(headrace.__all__)
    strays = {name for name in beside if not isinstance(getattr(headrace, name), ModuleType)}
    assert strays <= {"annotations", "TYPE_CHECKING", "Any"}


@pytest.mark.slow
def test_every_module_can_be_imported_by_itself() -> None:
    """In one new process for each: a circle, or a module that needs another one first, would show."""
    django = "headrace.contrib.django"
    excluded = {"headrace.__main__", f"{django}.worker_app"}  # they start the CLI, and Django
    excluded |= {f"{django}.models", f"{django}.admin"}  # they need the settings of a project
    names = [name for _, name, _ in pkgutil.walk_packages(headrace.__path__, "headrace.") if name not in excluded]
    code = "import sys, importlib; [importlib.import_module(name) for name in sys.argv[1:]]"
    for name in ("headrace.errors", "headrace.runtime.worker.worker", "headrace.testing.contexts"):
        assert name in names
        subprocess.run([sys.executable, "-c", code, name], check=True, cwd=ROOT / "src", capture_output=True)
    subprocess.run([sys.executable, "-c", code, *reversed(names)], check=True, cwd=ROOT / "src", capture_output=True)


def test_the_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert headrace.__version__ == project["version"]


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(headrace.__file__).parent / "py.typed").exists()
