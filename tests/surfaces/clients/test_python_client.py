"""The generated Python client: it is up to date, typed, and speaks to a real server."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from docs.tools.clients.document import read_api
from docs.tools.clients.files import PYTHON, clients
from headrace import Headrace, current_job
from headrace.testing import drain
from tests.support.site import Site, serve
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.engines("sqlite")
TOKEN = "5f2a91"


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("headrace_client", PYTHON)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def site(app: Headrace) -> Iterator[Site]:
    with serve(app, tokens=[TOKEN]) as site:
        yield site


@pytest.fixture
def client(module: ModuleType, site: Site) -> Any:
    return module.HeadraceClient(site.url, token=TOKEN, timeout=PATIENCE)


def test_the_clients_are_what_the_code_would_write_now() -> None:
    for path, wanted in clients().items():
        assert path.read_text("utf-8") == wanted, "run: python -m docs.tools.generate"


def test_every_endpoint_is_a_method(client: Any) -> None:
    operations = read_api().operations
    assert len(operations) > 100
    for operation in operations:
        assert callable(getattr(getattr(client, operation.tag), operation.name))


def test_a_job_is_created_found_and_explained(app: Headrace, client: Any) -> None:
    job = client.jobs.create(task="mail.send", kwargs={"to": "ann"}, queue="mail", tags=["a"])
    client.jobs.create(task="other", delay=60)
    assert app.jobs.get(job["id"]).kwargs == {"to": "ann"}
    found = client.jobs.find(state=["pending", "running"], total=True, limit=5)
    assert ([one["id"] for one in found["jobs"]], found["total"]) == ([job["id"]], 1)
    assert client.jobs.find(queue="mail", since=None)["jobs"] == found["jobs"], "None is no parameter"
    assert "No worker is alive" in client.jobs.why(job["id"])["why"]
    assert client.jobs.cancel_many(queue="mail") == {"changed": 1, "dry_run": False}
    assert client.jobs.delete(job["id"]) is None


def test_a_name_with_slashes_and_spaces_is_one_part_of_the_path(client: Any) -> None:
    created = client.schedules.create(id="nightly:a/b", task="report", every=60)
    assert created["id"] == "nightly:a/b"
    assert client.schedules.get("nightly:a/b")["every"] == 60.0
    assert client.schedules.pause("nightly:a/b")["paused"] is True
    with pytest.raises(ValueError, match="must not be empty"):
        client.schedules.get("")


def test_a_refusal_is_an_error_with_its_field(module: ModuleType, client: Any, site: Site) -> None:
    with pytest.raises(module.ApiError, match="422 invalid-body") as caught:
        client.jobs.create(task="send", priority="high")
    assert (caught.value.status, caught.value.field) == (422, "priority")
    with pytest.raises(module.ApiError, match="there is no parameter 'colour'"):
        client.jobs.find(colour="red")
    with pytest.raises(module.ApiError) as caught:
        client.jobs.get("nowhere")
    assert (caught.value.status, caught.value.kind) == (404, "job-not-found")
    with pytest.raises(module.ApiError, match="401"):
        module.HeadraceClient(site.url, token="wrong").jobs.find()


def test_an_answer_that_is_not_from_headrace_is_an_error_too(module: ModuleType, site: Site) -> None:
    with pytest.raises(module.ApiError) as caught:
        module.HeadraceClient(f"{site.url}/elsewhere", token=TOKEN).queues.find()
    assert caught.value.status == 404
    assert module._refusal(502, b"<html>bad gateway").kind == "unknown"
    assert module._refusal(502, b"[1]").status == 502


def test_a_worker_claims_renews_and_settles(app: Headrace, client: Any) -> None:
    job = app.task_by_name("py.add").using(queue="py").enqueue(1, 2)
    (claimed,) = client.worker.claim(worker="py-1", tasks=["py.add"], queues={"py": 1}, wait=1)["jobs"]
    held = {"id": claimed["id"], "version": claimed["version"]}
    assert client.worker.renew(worker="py-1", jobs=[held | {"progress": 0.5}]) == {"lost": [], "command": "run"}
    assert job.refresh().progress == 0.5
    outcome = held | {"outcome": "success", "result": sum(claimed["args"])}
    assert client.worker.settle(worker="py-1", outcomes=[outcome])["results"][0]["applied"] is True
    assert client.worker.settle(worker="py-1", outcomes=[outcome])["results"][0]["applied"] is False
    client.worker.leave(worker="py-1")
    assert job.refresh().outcome() == 3
    assert app.workers() == []


def test_events_are_streamed_as_they_happen(app: Headrace, client: Any) -> None:
    first = app.enqueue("send")
    events = client.events.stream(types=["job.enqueued"], since="0")
    assert next(events)["job_id"] == first.id
    second = app.enqueue("send")
    assert next(events)["job_id"] == second.id
    events.close()


def test_a_stream_is_read_to_the_end_of_its_job(app: Headrace, client: Any) -> None:
    @app.task
    def tell() -> None:
        current_job().stream("to")
        current_job().stream({"ken": 1})

    job = tell.enqueue()
    drain(app)
    chunks = list(client.jobs.stream(job.id))
    assert [chunk["data"] for chunk in chunks] == ["to", {"ken": 1}]
    page = client.jobs.chunks(job.id, cursor=chunks[0]["cursor"])
    assert ([chunk["data"] for chunk in page["chunks"]], page["is_over"]) == ([{"ken": 1}], True)


@pytest.mark.slow
def test_the_types_find_a_mistake_and_accept_what_is_right(tmp_path: Path) -> None:
    right = (
        "from headrace_client import HeadraceClient\n"
        "client = HeadraceClient()\n"
        'state: str = client.jobs.create(task="a", args=[1])["state"]\n'
    )
    wrong = right + 'client.jobs.create(queue="a")\nclient.jobs.find(limit="x")\nclient.queues.get("a")["colour"]\n'
    assert _checked(tmp_path, right) == []
    found = _checked(tmp_path, wrong)
    assert [line.split(":")[1] for line in found] == ["4", "5", "6"], found


def _checked(folder: Path, text: str) -> list[str]:
    (folder / "use.py").write_text(text, "utf-8")
    (folder / PYTHON.name).write_text(PYTHON.read_text("utf-8"), "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", "use.py", PYTHON.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if ": error:" in line]
