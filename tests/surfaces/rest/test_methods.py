"""A path refuses other methods, and the response names its own."""

from __future__ import annotations

import re

import pytest

from headrace import Headrace
from headrace.web.api.router import ENDPOINTS
from tests.surfaces.rest.kit import Api

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def methods_at(path: str) -> set[str]:
    """The methods of every endpoint that matches this path."""
    return {one.method for one in ENDPOINTS if re.fullmatch(re.sub(r"{\w+}", "[^/]+", one.path), path)}


@pytest.mark.engines("sqlite")
def test_every_path_refuses_other_methods_and_names_its_own(app: Headrace) -> None:
    api = Api(app.asgi(rate=None), headers={"x-requested-with": "x"})
    refused = 0
    for path in sorted({re.sub(r"{\w+}", "0", endpoint.path) for endpoint in ENDPOINTS}):
        own = methods_at(path)
        for method in set(METHODS) - own:
            response = api(method, path)
            assert response.status_code == 405, (method, path, response.status_code)
            assert set(response.headers["allow"].split(", ")) - {"HEAD"} == own, (method, path)
            refused += 1
    assert refused > 100


@pytest.mark.engines("sqlite")
def test_a_name_may_end_like_a_path_if_its_slashes_are_escaped(app: Headrace) -> None:
    app.task_by_name("any").using(job_id="eu/cancel", delay=3600).enqueue()
    api = Api(app.asgi(rate=None), headers={"x-requested-with": "x"})
    assert api("GET", "/jobs/eu%2Fcancel").json()["id"] == "eu/cancel"
    assert api("GET", "/jobs/eu/cancel").status_code == 405
    app.task_by_name("any").using(job_id="eu/1", delay=3600).enqueue()
    assert api("GET", "/jobs/eu/1").json()["id"] == "eu/1"
    assert api("POST", "/jobs/eu/1/cancel").json()["state"] == "cancelled"
