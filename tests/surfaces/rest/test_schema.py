"""Generated requests get only responses that the OpenAPI document allows, and no 5xx."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headrace import Headrace
from headrace.testing import drain
from headrace.web.api.openapi import document
from headrace.web.api.router import ENDPOINTS, PREFIX, TABLES
from tests.surfaces.rest.kit import Api
from tests.surfaces.web.client import bearer

CHECKS = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
EXAMPLES = 5


def described() -> dict[str, Any]:
    api_document: dict[str, Any] = json.loads(document(TABLES, PREFIX))
    return api_document


@pytest.fixture
def stocked(app: Headrace) -> Headrace:
    """A store with one record of every kind, so that responses are not empty."""

    @app.task(name="boom", retry=0)
    def boom() -> None:
        raise OSError("away")

    app.enqueue("boom")
    drain(app)
    app.task_by_name("boom").using(job_id="later", delay=3600, tags=("mail",)).enqueue()
    app.schedules.create("nightly", "boom", cron="0 2 * * *")
    flow = app.flow("import")
    flow.add(app.tasks["boom"].bind())
    flow.enqueue()
    app.queue("default").configure(rate="10/s")
    return app


def test_the_document_is_openapi_3_1_and_has_the_mount_path(app: Headrace) -> None:
    response = Api(app.asgi())("GET", "/openapi.json")
    assert response.headers["content-type"] == "application/json"
    assert response.json()["openapi"] == "3.1.0"
    assert response.json()["servers"] == [{"url": PREFIX}]
    described = {(method.upper(), path) for path, how in response.json()["paths"].items() for method in how}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}


@pytest.mark.slow
def test_every_response_to_a_generated_request_is_in_the_document(stocked: Headrace) -> None:
    asgi = stocked.asgi(rate=None, tokens=["5f2a"])
    schema = schemathesis.openapi.from_dict(described()).exclude(path="/events")  # a stream never ends
    answered: Counter[int] = Counter()
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            if isinstance(case.body, dict) and "wait" in case.body:
                case.body["wait"] = 0  # valid, and ends at once
            response = case.call(app=asgi, base_url=f"http://localhost{PREFIX}", headers=bearer("5f2a"))
            answered[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

        ask()
    assert {200, 404, 422} <= answered.keys()


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(path=st.text(max_size=40), body=st.binary(max_size=200))
def test_no_path_and_no_body_causes_a_server_error(path: str, body: bytes) -> None:
    with Headrace("memory://") as app:
        api = Api(app.asgi(rate=None), headers={"x-requested-with": "x"})
        for method in ("GET", "POST", "PATCH", "DELETE"):
            response = api(method, f"/jobs/{quote(path, errors='replace')}", content=body)
            assert response.status_code < 500, response.text
