"""A setting comes from the nearest place that has it, and a wrong one is an error that names the place."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.settings.queue_weights import parse_queues
from headrace.core.settings.settings import NAMES, Settings, resolve
from headrace.core.tasks.retry import Retry
from headrace.errors import ConfigError

FILE = "headrace.toml"


def found(arguments: Any = (), environment: Any = (), file: Any = ()) -> Settings:
    return resolve(dict(arguments), dict(environment), dict(file), FILE).settings


def test_without_anything_the_defaults_hold() -> None:
    assert found() == Settings()
    assert (Settings().url, Settings().lease, Settings().timeout) == ("sqlite:///headrace.db", 30.0, 1800.0)


def test_an_argument_goes_before_the_environment_before_the_file() -> None:
    file = {"concurrency": 2, "lease": 40, "prefetch": 7}
    environment = {"HEADRACE_CONCURRENCY": "3", "HEADRACE_LEASE": "50", "PATH": "/bin"}
    got = resolve({"concurrency": 5}, environment, file, FILE)
    assert (got.settings.concurrency, got.settings.lease, got.settings.prefetch) == (5, 50.0, 7)
    assert got.origin == {"concurrency": "argument", "lease": "HEADRACE_LEASE", "prefetch": FILE}


def test_an_argument_of_none_was_not_given() -> None:
    assert found({"concurrency": None}, {"HEADRACE_CONCURRENCY": "3"}).concurrency == 3


@pytest.mark.parametrize("name", ["timeout", "max_jobs", "max_memory"])
def test_an_argument_of_none_switches_off_what_can_be_switched_off(name: str) -> None:
    assert getattr(found({name: None}, {f"HEADRACE_{name.upper()}": "100"}), name) is None


def test_variables_for_the_tests_are_no_settings() -> None:
    assert found(environment={"HEADRACE_TEST_POSTGRES": "postgresql://x"}) == Settings()


@pytest.mark.parametrize("text", ["none", "None", ""])
@pytest.mark.parametrize("name", ["timeout", "max_jobs", "max_memory"])
def test_a_variable_can_say_none(name: str, text: str) -> None:
    assert getattr(found(environment={f"HEADRACE_{name.upper()}": text}), name) is None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("concurrency", "8", 8),
        ("lease", "12.5", 12.5),
        ("auto_migrate", "false", False),
        ("durability", "full", "full"),
        ("importable", "shop.jobs, reports", ("shop.jobs", "reports")),
        ("queues", "critical=3, default", {"critical": 3, "default": 1}),
        ("url", "memory://", "memory://"),
    ],
)
def test_the_text_of_a_variable_is_read_as_its_type(name: str, text: str, value: Any) -> None:
    assert getattr(found(environment={f"HEADRACE_{name.upper()}": text}), name) == value


@pytest.mark.parametrize(
    ("where", "sources"),
    [
        ("concurency", {"arguments": {"concurency": 3}}),
        ("HEADRACE_CONCURENCY", {"environment": {"HEADRACE_CONCURENCY": "3"}}),
        (f"concurency in {FILE}", {"file": {"concurency": 3}}),
    ],
)
def test_an_unknown_setting_is_an_error_with_its_place_and_the_nearest_name(where: str, sources: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{where}: there is no setting 'concurency'; did you mean concurrency"):
        found(**sources)


def test_a_setting_like_no_other_lists_them_all() -> None:
    with pytest.raises(ConfigError) as caught:
        found({"zzz": 1})
    assert all(name in str(caught.value) for name in NAMES)


@pytest.mark.parametrize(
    ("where", "sources"),
    [
        ("concurrency", {"arguments": {"concurrency": "many"}}),
        ("concurrency", {"arguments": {"concurrency": 2.5}}),
        ("HEADRACE_LEASE", {"environment": {"HEADRACE_LEASE": "long"}}),
        ("HEADRACE_LEASE", {"environment": {"HEADRACE_LEASE": "\udcff"}}),
        (f"durability in {FILE}", {"file": {"durability": "maybe"}}),
        (f"auto_migrate in {FILE}", {"file": {"auto_migrate": "perhaps"}}),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error_with_its_place(where: str, sources: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{where}: .* is not valid"):
        found(**sources)


@pytest.mark.parametrize(
    ("name", "wrong", "expected"),
    [
        (
            "strategy",
            "fif",
            "use one of priority, fifo, lifo, weighted_random, fresh_first, or none (did you mean fifo?)",
        ),
        ("strategy", "?", "use one of priority, fifo, lifo, weighted_random, fresh_first, or none"),
        ("queue_order", "strickt", "use one of weighted, random, strict (did you mean strict?)"),
        ("durability", "maybe", "use one of normal, full"),
        ("log_format", "xml", "use one of human, json"),
        ("archive", "no", "use true or false"),
        ("keep_completed", "7d", "use a number, or none"),
        ("max_crashes", "few", "use a whole number, or none"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_choices(name: str, wrong: str, expected: str) -> None:
    places: dict[str, Any] = {
        name: {"arguments": {name: wrong}},
        f"HEADRACE_{name.upper()}": {"environment": {f"HEADRACE_{name.upper()}": wrong}},
        f"{name} in {FILE}": {"file": {name: wrong}},
    }
    for where, sources in places.items():
        with pytest.raises(ConfigError) as caught:
            found(**sources)
        assert str(caught.value) == f"{where}: {wrong!r} is not valid: {expected}"


@pytest.mark.parametrize("wrong", [[""], ["gpu", " "], ("a\nb",), ["x" * 101]])
def test_a_capability_without_a_name_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"^capabilities: "):
        found({"capabilities": wrong})
    with pytest.raises(ConfigError, match=f"^capabilities in {FILE}: "):
        found(file={"capabilities": wrong})


def test_capabilities_are_each_stored_once() -> None:
    assert found(environment={"HEADRACE_CAPABILITIES": "gpu, disk,,gpu,"}).capabilities == ("gpu", "disk")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", 0),
        ("processes", 0),
        ("prefetch", -1),
        ("prefetch", 10_001),
        ("lease", 0.05),
        ("lease", 86_401),
        ("heartbeat", 0),
        ("heartbeat", 30),
        ("shutdown_timeout", -1),
        ("timeout", 0),
        ("max_payload", 1023),
        ("max_jobs", 0),
        ("max_memory", 31),
        ("dead_requeue_after", 0),
        ("dead_requeue_factor", 0.5),
        ("dead_requeue_limit", 0),
        ("queues", {}),
        ("queues", {"default": 0}),
    ],
)
def test_a_value_that_breaks_a_rule_is_an_error_that_names_the_setting(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: "):
        found({name: value})


def test_the_heartbeat_must_fit_into_the_lease_wherever_the_two_come_from() -> None:
    with pytest.raises(ConfigError, match="heartbeat: 10 must be positive and shorter than the lease"):
        found({"lease": 5, "heartbeat": 10})
    assert found({"lease": 5}, {"HEADRACE_HEARTBEAT": "2"}).heartbeat == 2.0


def test_the_heartbeat_follows_the_lease_unless_it_is_set() -> None:
    assert found({}).beat == 10.0
    assert found({"lease": 6}).beat == 2.0
    assert found({"lease": 6, "heartbeat": 1}).beat == 1.0
    assert found({"lease": 6}).shown()["heartbeat"] == 2.0


def test_the_retry_of_all_tasks_can_be_set() -> None:
    assert found({}).retry == Retry()
    expected = {"HEADRACE_RETRY_LIMIT": "5", "HEADRACE_RETRY_BASE": "2.5", "HEADRACE_RETRY_BACKOFF": "fixed"}
    assert found({}, expected).retry == Retry(limit=5, base=2.5, backoff="fixed")


@pytest.mark.parametrize(
    ("name", "wrong"), [("retry_limit", 101), ("retry_limit", -1), ("retry_base", -1), ("retry_jitter", 1.5)]
)
def test_a_retry_that_can_not_be_is_refused_by_the_name_of_its_setting(name: str, wrong: float) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: ") as raised:
        found({name: wrong})
    assert (raised.value.field, raised.value.value) == (name, wrong)


def test_a_concurrency_of_auto_is_the_number_of_cpus() -> None:
    assert resolve({"concurrency": "auto"}, {}, {}, "", cpus=7).settings.concurrency == 7
    assert resolve({}, {"HEADRACE_CONCURRENCY": "auto"}, {}, "", cpus=7).settings.concurrency == 7
    assert resolve({"concurrency": 2}, {"HEADRACE_CONCURRENCY": "auto"}, {}, "", cpus=7).settings.concurrency == 2


def test_no_password_and_no_secret_is_shown() -> None:
    shown = print_of(
        url="postgresql://ann:s3cret@host/db",
        archive_url="postgresql://bob:pa55@host/db?sslpassword=hidden1",
        web_tokens=["admin=t0ken-t0ken-t0ken-t0ken"],
        web_auth=["ann:s3cret"],
        alert_channels=["ops=slack+https://hooks.example/T0P"],
    )
    assert [secret for secret in ("s3cret", "pa55", "hidden1", "t0ken", "T0P") if secret in shown] == []
    assert "ann:***@host" in shown


def print_of(**settings: Any) -> str:
    return f"{found(settings)}"


@pytest.mark.parametrize(
    ("given", "queues"),
    [
        (None, None),
        ("default", {"default": 1}),
        ("critical=3,default=1", {"critical": 3, "default": 1}),
        (["a", "b=2"], {"a": 1, "b": 2}),
        ({"a": 5}, {"a": 5}),
    ],
)
def test_queues_are_names_with_weights_in_any_form(given: Any, queues: Any) -> None:
    assert parse_queues(given) == queues


@pytest.mark.parametrize("given", ["two words", ["-x"], {"": 1}, 5, [None, "a b=2"]])
def test_what_is_no_queue_name_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="queues"):
        parse_queues(given)


@pytest.mark.parametrize("given", ["a=high", {"a": "3"}, {"a": True}, {"a": 1.5}, ["a=-1"]])
def test_a_weight_that_is_no_whole_number_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="queues"):
        parse_queues(given)


@pytest.mark.parametrize("url", ["redis://localhost/0", "rediss://h/0", "redis+sentinel://a/m/0", "unix:///r.sock"])
def test_metrics_are_kept_shorter_in_memory_by_default(url: str) -> None:
    expected = resolve({"url": url}, {}, {}, "headrace.toml")
    assert (expected.settings.metrics_keep_fine, expected.settings.metrics_keep_minutes) == (21_600, 259_200)
    assert expected.origin["metrics_keep_fine"] == "url"
    resolved = resolve({"url": url}, {"HEADRACE_METRICS_KEEP_FINE": "none"}, {}, "headrace.toml")
    assert (resolved.settings.metrics_keep_fine, resolved.settings.metrics_keep_minutes) == (None, 259_200)
    usual = resolve({"url": "sqlite:///x.db"}, {}, {}, "headrace.toml").settings
    assert (usual.metrics_keep_fine, usual.metrics_keep_minutes) == (604_800, 2_592_000)


@pytest.mark.parametrize(
    ("text", "switch"),
    [("true", True), ("false", False), ("none", False), ("worker_lost, crash_loop", ("worker_lost", "crash_loop"))],
)
def test_dead_letters_are_switched_from_the_environment(text: str, switch: bool | tuple[str, ...]) -> None:
    assert resolve({}, {"HEADRACE_DEAD_LETTERS": text}, {}, "headrace.toml").settings.dead_letters == switch


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stale_batch", 0),
        ("max_requeues", -1),
        ("priority_boost", 201),
        ("job_history_size", 0),
        ("dead_pending_max", 0),
        ("dead_pending_keep", -1),
        ("dead_letters", ("typo",)),
    ],
)
def test_a_bound_that_makes_no_sense_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        resolve({name: value}, {}, {}, "headrace.toml")
