"""The schema has the rules that are enforced: allowed values are accepted, others are refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Headrace
from headrace.web.api.openapi import document
from headrace.web.api.router import PREFIX, TABLES
from headrace.web.problems import STATUSES
from tests.surfaces.rest.kit import Api

SCHEDULE = {"id": "tick", "task": "add", "every": 3600}
# An endpoint, a valid body, and its fields with a rule.
BODIES: dict[tuple[str, str], tuple[dict[str, Any], tuple[str, ...]]] = {
    ("POST", "/jobs"): (
        {"task": "add"},
        (
            *("task", "queue", "priority", "delay", "expires", "timeout", "retry", "idempotency_key", "job_id"),
            *("rate_key", "concurrency_key", "remove_on_complete", "remove_on_fail"),
        ),
    ),
    ("PATCH", "/queues/{queue}"): (
        {"rate": "10/s", "key_rate": "10/s"},
        ("weight", "ageing", "max_length", "burst", "concurrency", "key_burst", "key_concurrency"),
    ),
    ("PATCH", "/tasks/{task}"): ({"rate": "10/s"}, ("burst", "concurrency")),
    ("POST", "/schedules"): (
        SCHEDULE,
        ("id", "task", "every", "limit", "catch_up_limit", "catch_up_window", "queue", "priority", "timeout", "retry"),
    ),
    ("PATCH", "/jobs/{job_id}"): ({}, ("priority", "queue")),
    ("PATCH", "/lifecycle/policy"): (
        {"task": "add"},
        ("max_pending", "max_age", "keep_failed", "remove_on_complete", "remove_on_fail"),
    ),
    ("POST", "/alert-rules"): (
        {"name": "slow", "metric": "wait_p99", "op": ">", "threshold": 5},
        ("window", "for_", "cooldown"),
    ),
}
NUMBERS = ("integer", "number")
CASES = [(method, path, field) for (method, path), (_, fields) in BODIES.items() for field in fields]
DESCRIBED: dict[str, Any] = json.loads(document(TABLES, PREFIX))


def rule_of(method: str, path: str, field: str) -> dict[str, Any]:
    """The rule of the schema for a number or a text at this place."""
    body = DESCRIBED["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]["schema"]
    schema = DESCRIBED["components"]["schemas"][body["$ref"].rpartition("/")[2]]["properties"][field]
    kinds: list[dict[str, Any]] = schema.get("anyOf", [schema])
    [rule] = [kind for kind in kinds if kind.keys() & {"minimum", "pattern", "minLength"}]
    return rule


def allowed(rule: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "pattern" in rule:
        return st.from_regex(rule["pattern"], fullmatch=True)
    if rule["type"] == "string":
        return st.text(st.characters(exclude_categories=["Cs"]), min_size=rule["minLength"], max_size=rule["maxLength"])
    ends = st.sampled_from([rule["minimum"], rule["maximum"]])
    if rule["type"] == "integer":
        return ends | st.integers(rule["minimum"], rule["maximum"])
    return ends | st.floats(rule["minimum"], rule["maximum"])


def beyond(rule: dict[str, Any]) -> list[Any]:
    if rule["type"] != "string":
        return [rule["minimum"] - 1, rule["maximum"] + 1]
    return ["", "x" * (rule.get("maxLength", 200) + 1)]


def ask(method: str, path: str, field: str, value: Any) -> tuple[int, str]:
    with Headrace("memory://") as app:
        app.task_by_name("add").using(job_id="job", delay=3600).enqueue()
        api = Api(app.asgi(rate=None), headers={"x-requested-with": "x"})
        body, _ = BODIES[method, path]
        there = path.replace("{queue}", "mail").replace("{task}", "add").replace("{job_id}", "job")
        response = api(method, there, json=body | {field: value})
        return response.status_code, response.text


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "field"), CASES)
def test_values_that_the_schema_allows_are_accepted(method: str, path: str, field: str) -> None:
    @settings(max_examples=15)  # each opens an app; the values include both bounds
    @given(value=allowed(rule_of(method, path, field)))
    def take(value: Any) -> None:
        status, text = ask(method, path, field, value)
        assert status in (200, 201), text

    take()


@pytest.mark.parametrize(("method", "path", "field"), CASES)
def test_values_that_the_schema_forbids_are_refused(method: str, path: str, field: str) -> None:
    for value in beyond(rule_of(method, path, field)):
        status, text = ask(method, path, field, value)
        assert status == 422, (value, text)


def test_every_number_of_a_body_has_its_bounds() -> None:
    unbounded = set()
    for path, operations in DESCRIBED["paths"].items():
        for operation in operations.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                schema = DESCRIBED["components"]["schemas"][media["schema"]["$ref"].rpartition("/")[2]]
                for field, described in schema["properties"].items():
                    numbers = [kind for kind in described.get("anyOf", [described]) if kind.get("type") in NUMBERS]
                    unbounded |= {
                        (path, field) for kind in numbers if not kind.keys() & {"minimum", "exclusiveMinimum"}
                    }
    assert {field for _, field in unbounded} == {"threshold"}, unbounded


def test_bodies_refuse_unknown_fields_and_the_schema_says_so() -> None:
    for path, operations in DESCRIBED["paths"].items():
        for method, operation in operations.items():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                schema = DESCRIBED["components"]["schemas"][media["schema"]["$ref"].rpartition("/")[2]]
                assert schema["additionalProperties"] is False, (method, path)


def test_every_status_of_an_error_is_in_the_document() -> None:
    described = DESCRIBED["components"]["responses"].keys()
    assert {str(status) for _, status in STATUSES} <= described
    for operations in DESCRIBED["paths"].values():
        assert all(described <= operation["responses"].keys() for operation in operations.values())


def test_a_rate_is_written_as_the_schema_says() -> None:
    rule = rule_of("PATCH", "/queues/{queue}", "rate")
    for text, status in {"10/s": 200, "3/10s": 200, "5 per hour": 200, "10": 422, "": 422, "/s": 422}.items():
        assert ask("PATCH", "/queues/{queue}", "rate", text)[0] == status
        assert bool(re.search(rule["pattern"], text)) is (status == 200)
