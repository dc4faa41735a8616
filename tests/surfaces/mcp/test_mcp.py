"""`headrace mcp`: a client speaks the protocol to a real process; what it reads is redacted and bounded, and it changes
nothing unless that was allowed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli.mcp import acting as acting_tools
from headrace.cli.mcp import answers
from headrace.cli.mcp.server import MAX_LINE, VERSIONS
from headrace.cli.mcp.tools import ToolContext
from headrace.errors import EngineUnavailable
from headrace.testing import drain
from tests.support.command_line import Shell, _environment
from tests.support.waiting import PATIENCE

SHOP = """
from headrace import Headrace, PermanentError
print("printed by the app's code")
app = Headrace()

@app.task(retry=0, redact=("card",))
def charge(order: int, card: str) -> None:
    raise PermanentError(f"order {order} has no address")

@app.task(queue="mail")
def send(to: str) -> None: ...

@app.cron("0 9 * * MON")
@app.task
def weekly() -> None: ...
"""


class McpClient:
    """Starts the server as an assistant does, and speaks to it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "mcp", *arguments],
            cwd=folder,
            env=_environment() | {"HEADRACE_LOG_LEVEL": "ERROR"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._number = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}).encode())
        answer = self.read()
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", self._number)
        return answer

    def call(self, tool: str, **arguments: Any) -> Any:
        """What a tool answers; its error as a text."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        (content,) = result["content"]
        assert content["type"] == "text"
        return content["text"] if result["isError"] else json.loads(content["text"])

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err.decode()


@pytest.fixture
def shop(shell: Shell) -> Iterator[Headrace]:
    """A store with one dead letter and a mail that waits; the app's module is `shop_…` in the folder."""
    shell.name = shell.module(SHOP)  # type: ignore[attr-defined]
    with shell.app() as app:

        @app.task(retry=0, redact=("card",))
        def charge(order: int, card: str) -> None:
            raise ValueError(f"order {order} has no address")

        charge.enqueue(7, card="4000-1234")
        drain(app)
        app.enqueue_many([{"task": "send", "args": ["ann@example.com"], "queue": "mail"}])
        yield app


@pytest.fixture
def client(shell: Shell, shop: Headrace) -> Iterator[McpClient]:
    yield from opened(shell)


@pytest.fixture
def acting(shell: Shell, shop: Headrace) -> Iterator[McpClient]:
    yield from opened(shell, "--allow-actions")


def opened(shell: Shell, *arguments: str) -> Iterator[McpClient]:
    client = McpClient(shell.folder, "--app", f"{shell.name}:app", *arguments)  # type: ignore[attr-defined]
    try:
        yield client
    finally:
        client.process.kill()
        client.process.communicate()


# -- the protocol


def test_a_client_shakes_hands_lists_tools_and_leaves(client: McpClient) -> None:
    hello = client.ask("initialize", protocolVersion="2025-06-18", clientInfo={"name": "test"})["result"]
    assert hello["protocolVersion"] == "2025-06-18"
    assert hello["serverInfo"]["name"] == "headrace"
    client.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    client.send(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}')
    assert client.ask("ping")["result"] == {}, "a notification has no answer"
    tools = client.ask("tools/list")["result"]["tools"]
    assert all(tool["inputSchema"]["type"] == "object" and tool["description"] for tool in tools)
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools), "no tool acts unless that is allowed"
    code, err = client.end()
    assert (code, err) == (0, "printed by the app's code\n"), "a print of the app's code goes to stderr"


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["1999-01-01", None, 7])
def test_a_client_with_an_unknown_version_is_offered_the_newest(client: McpClient, asked: object) -> None:
    assert client.ask("initialize", protocolVersion=asked)["result"]["protocolVersion"] == VERSIONS[0]


def test_a_wrong_message_gets_an_error_and_the_session_goes_on(client: McpClient) -> None:
    wrong = {
        b"{": -32700,
        b'"text"': -32600,
        b"[]": -32600,
        b'{"id": 1, "method": "ping"}': -32600,
        b'{"jsonrpc": "2.0", "id": 1}': -32600,
        b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}': -32600,
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}': -32602,
        b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}': -32601,
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}': -32602,
        b"x" * (MAX_LINE + 10): -32600,
    }
    for line, code in wrong.items():
        client.send(line)
        assert client.read()["error"]["code"] == code, line[:80]
    client.send(b"\n")
    client.send(b'{"jsonrpc": "2.0", "id": 9, "result": {}}')
    assert client.ask("ping")["result"] == {}


def test_a_batch_is_answered_as_a_batch(client: McpClient) -> None:
    ping = {"jsonrpc": "2.0", "method": "ping"}
    client.send(json.dumps([ping | {"id": 1}, ping, ping | {"id": "two"}]).encode())
    assert [one["id"] for one in client.read()] == [1, "two"]


def test_an_unknown_tool_and_wrong_arguments_are_named(client: McpClient) -> None:
    error = client.ask("tools/call", name="drop_tables", arguments={})["error"]
    assert error["code"] == -32602
    assert "'drop_tables'" in error["message"]
    assert "overview" in error["message"], "the tools that exist are listed"
    assert "unknown field `colour`" in client.call("find_jobs", colour="red")
    assert "its arguments are: ids, state, queue" in client.call("find_jobs", colour="red")
    assert "Expected `int` <= 200" in client.call("find_jobs", limit=100_000)
    assert "Expected `array | null`, got `str` - at `$.state`" in client.call("find_jobs", state="failed")
    assert "Invalid enum value" in client.call("find_jobs", state=["lost"])
    assert "nowhere" in client.call("job", id="nowhere")
    assert "is_slow" in client.call("metrics", series="is_slow")
    assert "at least one filter" in client.call("plan_cancel")


def test_it_does_not_start_without_a_store(shell: Shell) -> None:
    ran = shell.run("mcp")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no store" in ran.err


# -- reading


def test_every_reading_tool_tells_what_the_store_knows(client: McpClient, shop: Headrace) -> None:
    for name, limit in (("stripe", 1), ("bank", 2)):
        with pytest.raises(ConnectionError), shop.breaker(name, failures=limit, open_for=3600):
            raise ConnectionError("away")
    told = client.call("overview")
    assert (told["jobs"]["failed"], told["jobs"]["pending"], told["dead_letters"]) == (1, 1, 1)
    assert told["queues_without_worker"] == ["mail"]
    assert told["open_breakers"] == {"stripe": "open after 1 failure (ConnectionError)"}
    (found,) = client.call("find_jobs", queue="mail")["jobs"]
    assert "No worker is alive" in client.call("why", id=found["id"])["why"]
    (failed,) = client.call("find_jobs", state=["failed"])["jobs"]
    told = client.call("job", id=failed["id"])
    assert told["job"]["errors"][0]["message"] == "order 7 has no address"
    assert [entry["to_state"] for entry in told["history"]][-1] == "failed"
    assert [one["queue"] for one in client.call("queues")["queues"]] == ["default", "mail"]
    assert client.call("workers") == {"workers": []}
    assert client.call("dead_letters")["dead_letters"][0]["job_id"] == failed["id"]
    assert client.call("dead_letter_groups")["groups"][0]["count"] == 1
    assert client.call("metrics", window="1h")["total"]["failed"] == 1
    assert client.call("metrics", series="throughput", window="10m")["name"] == "throughput"
    assert client.call("alerts")["alerts"] == []
    assert client.call("doctor")["ok"] is False
    assert client.call("schedules") == {"schedules": []}


def test_a_schedule_comes_with_its_next_runs(client: McpClient, shop: Headrace) -> None:
    shop.schedules.create("weekly", "weekly", cron="0 9 * * MON")
    shop.schedules.create("never", "weekly", every=60)
    shop.schedules.pause("never")
    never, weekly = client.call("schedules", runs=2)["schedules"]
    assert (never["id"], never["next_runs"]) == ("never", [])
    assert len(weekly["next_runs"]) == 2
    assert weekly["next_runs"][0] == weekly["next_run"]


def test_secrets_are_redacted_and_can_not_be_searched_for(client: McpClient) -> None:
    (failed,) = client.call("find_jobs", text="charge")["jobs"]
    assert client.call("find_jobs", text="4000-1234") == {"jobs": [], "cursor": None, "searched": 2}
    for told in (client.call("job", id=failed["id"]), client.call("dead_letters")):
        assert "4000-1234" not in json.dumps(told)
        assert "***" in json.dumps(told)


def test_a_search_continues_after_its_page(client: McpClient, shop: Headrace) -> None:
    shop.enqueue_many([shop.task_by_name("charge").bind(n, card="x") for n in range(3)])
    first = client.call("find_jobs", text="charge", limit=2)
    rest = client.call("find_jobs", text="charge", limit=5, cursor=first["cursor"])
    ids = [job["id"] for job in first["jobs"] + rest["jobs"]]
    assert (len(ids), len(set(ids)), rest["cursor"]) == (4, 4, None)


def test_jobs_are_found_by_an_indexed_argument(client: McpClient, shop: Headrace) -> None:
    @shop.task(index=("order",))
    def refund(order: int) -> None: ...

    shop.enqueue_many([refund.bind(order=n) for n in range(3)])
    (found,) = client.call("find_jobs", args={"order": 2})["jobs"]
    assert (found["task"], found["arguments"]) == ("refund", {"order": 2})
    assert client.call("find_jobs", args={"order": "2"}, task="charge")["jobs"] == []
    assert client.call("plan_cancel", args={"order": 1})["matched"] == 1
    assert "Expected `object` of length <= 1" in client.call("find_jobs", args={"order": 2, "card": "x"})
    assert "Expected `object` of length >= 1" in client.call("plan_cancel", args={})


def test_a_text_search_says_how_many_jobs_it_read(client: McpClient, shop: Headrace) -> None:
    shop.enqueue_many([shop.task_by_name("charge").bind(n, card="x") for n in range(2_050)])
    first = client.call("find_jobs", text="ann@example.com")
    assert (first["jobs"], first["searched"]) == ([], 2_000)
    rest = client.call("find_jobs", text="ann@example.com", cursor=first["cursor"])
    assert ([job["task"] for job in rest["jobs"]], rest["searched"], rest["cursor"]) == (["send"], 52, None)
    assert client.call("find_jobs", text="charge", limit=3)["searched"] == 3


def test_dry_runs_count_and_change_nothing(client: McpClient, shop: Headrace) -> None:
    assert client.call("plan_requeue", everything=True)["requeued"] == 1
    (letter,) = shop.dead.list()
    assert client.call("plan_requeue", id=letter.id)["matched"] == 1
    planned = client.call("plan_cancel", queue="mail")
    assert (planned["matched"], planned["newest"][0]["task"]) == (1, "send")
    assert client.call("plan_cancel", state=["failed"])["matched"] == 0, "a finished job can't be cancelled"
    assert client.call("plan_retry", queue="default")["matched"] == 1
    assert client.call("plan_retention")["dry_run"] is True
    assert shop.dead.count() == 1
    assert shop.jobs.count(state="pending") == 1
    assert shop.audit.list() == []


@pytest.mark.parametrize(
    "value",
    [
        {"traceback": "x" * 1_000_000 + "the error"},
        {"jobs": [{"args": ["y" * 500]} for _ in range(5_000)]},
        {f"name{n}": n for n in range(100_000)},
        {"z" * 100_000: [["z" * 1000] * 300] * 300},
    ],
)
def test_an_answer_is_bounded_whatever_a_job_holds(value: object) -> None:
    told = answers.encode(value)
    assert len(told.encode()) <= answers.MAX_ANSWER
    assert "not shown" in told
    assert isinstance(json.loads(told), dict)


def test_an_answer_keeps_the_end_of_a_long_text_and_what_is_short() -> None:
    deep: list[Any] = []
    for _ in range(50):
        deep = [deep]
    told = json.loads(answers.encode({"traceback": "x" * 1_000_000 + "the error", "id": 7, "deep": deep}))
    assert told["traceback"].endswith("the error")
    assert told["id"] == 7
    assert "nested too deeply" in json.dumps(told["deep"], ensure_ascii=False)


# -- acting


@pytest.mark.parametrize("tool", ["requeue_dead_letters", "retry_jobs", "cancel_jobs", "pause_queue", "resume_queue"])
def test_an_action_is_refused_unless_it_was_allowed(client: McpClient, shop: Headrace, tool: str) -> None:
    arguments = {"queue": "mail"} | ({"everything": True} if tool == "requeue_dead_letters" else {})
    assert "--allow-actions" in client.call(tool, **arguments)
    assert shop.dead.count() == 1
    assert shop.jobs.count(state="pending") == 1
    assert not shop.queue("mail").paused


def test_an_allowed_action_is_done_and_recorded(acting: McpClient, shop: Headrace) -> None:
    acting.ask("initialize", clientInfo={"name": "helper"})
    acts = [
        tool["name"] for tool in acting.ask("tools/list")["result"]["tools"] if not tool["annotations"]["readOnlyHint"]
    ]
    assert set(acts) == {
        *("requeue_dead_letters", "resolve_dead_letter", "retry_jobs", "cancel_jobs", "pause_queue", "resume_queue")
    }
    acting.call("pause_queue", queue="mail")
    assert shop.queue("mail").paused
    acting.call("resume_queue", queue="mail")
    assert acting.call("cancel_jobs", queue="mail") == {"changed": 1}
    (letter,) = shop.dead.list()
    assert acting.call("requeue_dead_letters", id=letter.id, note="fixed")["job_id"] == letter.job_id
    assert shop.dead.get(letter.id).resolved_by == "mcp"
    assert acting.call("cancel_jobs", task="charge") == {"changed": 1}
    assert acting.call("retry_jobs", state=["cancelled"], task="charge") == {"changed": 1}
    drain(shop)
    (letter,) = shop.dead.list()
    assert acting.call("resolve_dead_letter", id=letter.id)["status"] == "manually_resolved"
    entries = [(entry.who, entry.what, entry.outcome) for entry in reversed(shop.audit.list())]
    assert entries == [
        ("mcp", "queues.pause", "done"),
        ("mcp", "queues.resume", "done"),
        ("mcp", "jobs.cancel_many", "done"),
        ("mcp", "dead.requeue_many", "done"),
        ("mcp", "jobs.cancel_many", "done"),
        ("mcp", "jobs.retry_many", "done"),
        ("mcp", "dead.resolve", "done"),
    ]
    assert shop.audit.list(limit=1)[0].detail["client"] == "helper"
    assert [entry.target for entry in reversed(shop.audit.list())] == ["mail", "mail", "", "", "", "", letter.id]


def test_an_action_is_answered_even_if_it_can_not_be_recorded(
    shop: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: object) -> None:
        raise EngineUnavailable("the store is away")

    monkeypatch.setattr(shop.audit, "record", fail)
    tool = acting_tools.tools.get("pause_queue")
    assert tool is not None
    assert tool.call(ToolContext(shop), {"queue": "mail"}) == {"queue": "mail", "paused": True}
    assert "queues.pause could not be recorded: the store is away" in caplog.text


def test_an_action_that_fails_is_recorded_too_and_none_applies_to_everything_by_mistake(
    acting: McpClient, shop: Headrace
) -> None:
    assert "at least one filter" in acting.call("retry_jobs")
    assert "at least one filter" in acting.call("cancel_jobs")
    assert "give at least one filter" in acting.call("requeue_dead_letters")
    assert "not both" in acting.call("requeue_dead_letters", id="x", task="charge")
    assert "nowhere" in acting.call("resolve_dead_letter", id="nowhere")
    assert {entry.outcome for entry in shop.audit.list()} == {"InvalidJob", "DeadLetterNotFound"}
    assert shop.dead.count() == 1
