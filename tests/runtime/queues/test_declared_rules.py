"""Limits declared with @app.task: workers store them, operators override them, later code changes what is its own."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidJob, TaskRules
from headrace.app.queues.declared_rules import KIND, sync_rules
from headrace.core.queues.rules_text import format_rules


def declare(app: Headrace, **options: Any) -> list[str]:
    @app.task(name="send", **options)
    def send() -> None: ...

    return sync_rules(app.engine, app.tasks)


def rules(app: Headrace) -> str:
    return format_rules(app.task_rules().get("send", TaskRules()))


def test_a_worker_stores_what_the_code_declares(app: Headrace) -> None:
    @app.task(name="send", rate="10/s", burst=3, concurrency=2)
    def send() -> int:
        return 1

    with app.worker(concurrency=1):
        assert rules(app) == "rate=10/s burst=3 concurrency=2"
        assert send.enqueue().result(10) == 1


def test_a_draining_worker_stores_them_too(app: Headrace) -> None:
    @app.task(name="send", concurrency=4)
    def send() -> None: ...

    app.run_worker(drain=True, concurrency=1)
    assert rules(app) == "concurrency=4"


def test_a_new_declaration_replaces_the_old_one_and_none_removes_it(app: Headrace) -> None:
    assert declare(app, rate="10/s") == ["send"]
    assert declare(app, rate="10/s") == []
    assert declare(app, rate="20/s", concurrency=1) == ["send"]
    assert rules(app) == "rate=20/s burst=20 concurrency=1"
    assert declare(app) == ["send"]
    assert rules(app) == ""
    assert declare(app) == []


def test_what_an_operator_set_stays_whatever_the_code_declares(app: Headrace) -> None:
    app.configure_task("send", concurrency=9)
    declare(app, rate="10/s", concurrency=2)
    assert rules(app) == "rate=10/s burst=10 concurrency=9"
    app.configure_task("send", rate="1/s")
    declare(app, rate="30/s", concurrency=3)
    assert rules(app) == "rate=1/s burst=1 concurrency=9"
    app.pause_task("send")
    app.configure_task("send", rate=None)
    declare(app, rate="40/s")
    assert rules(app) == "paused=true concurrency=9"


def test_an_operator_gives_a_rule_back_to_the_code_by_setting_what_it_declares(app: Headrace) -> None:
    declare(app, concurrency=2)
    app.configure_task("send", concurrency=5)
    app.configure_task("send", concurrency=2)
    declare(app, concurrency=3)
    assert rules(app) == "concurrency=3"


def test_a_task_without_rules_leaves_no_record(app: Headrace) -> None:
    declare(app)
    assert app.engine.document_store.get(KIND) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"rate": "fast"}, "rate: "),
        ({"rate": 5}, "expected text such as '10/s'"),
        ({"burst": 5}, "burst: it belongs to a rate"),
        ({"rate": "1/s", "burst": 0}, "burst: expected a whole number"),
        ({"concurrency": 0}, "concurrency: expected a whole number"),
    ],
)
def test_wrong_limits_are_refused_where_the_task_is_defined(app: Headrace, options: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        app.task(name="send", **options)(lambda: None)


def test_a_call_can_not_have_limits_of_its_own(app: Headrace) -> None:
    @app.task(name="send", rate="1/s")
    def send() -> None: ...

    with pytest.raises(InvalidJob, match="rate_key and concurrency_key"):
        send.using(concurrency=1).enqueue()  # type: ignore[call-arg]
