"""When a worker process is live and ready, what several of them are together, and how an address is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.core.health.probes import Health, HealthReport, health_of, json_line, parse_address, whole
from headrace.core.settings.settings import Settings, resolve
from headrace.errors import ConfigError

WELL = Health(True, True, worker="w")
PAUSED = Health(True, reason="the worker is paused", worker="w")
HUNG = Health(False, reason="its worker loop has hung for 90 s", worker="w")


@pytest.mark.parametrize(
    ("state", "late", "answers", "live", "ready", "reason"),
    [
        ("running", 0.0, True, True, True, ""),
        ("running", 60.0, True, True, True, ""),
        ("running", 60.5, True, False, False, "its loop has hung for 60 s"),
        ("running", 0.0, False, True, False, "the store is not available"),
        ("starting", 0.0, True, True, False, "the worker is starting"),
        ("paused", 0.0, True, True, False, "the worker is paused"),
        ("stopping", 0.0, True, True, False, "the worker is stopping"),
        ("stopping", 99.0, True, False, False, "its loop has hung for 99 s"),
    ],
)
def test_only_a_hung_loop_asks_for_a_restart(
    state: str, late: float, answers: bool, live: bool, ready: bool, reason: str
) -> None:
    found = health_of("w", state, {"loop": late, "heartbeat": 0.0}, 60.0, store_answers=answers)
    assert (found.live, found.ready, found.reason) == (live, ready, reason)


def test_several_processes_are_ready_only_if_all_are() -> None:
    assert whole([(WELL, 1.0), (WELL, 2.0)], 60.0) == Health(True, True)
    found = whole([(WELL, 1.0), (PAUSED, 0.0), (PAUSED, 0.0), (None, 0.0)], 60.0)
    assert (found.live, found.ready) == (True, False)
    assert found.reason == "1 of 4 processes are ready: the worker is paused; a process starts"


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ((HUNG, 0.0), "process 2: its worker loop has hung for 90 s"),
        ((WELL, 61.0), "process 2 has not reported for 61 s"),
        ((None, 61.0), "process 2 has not reported for 61 s"),
    ],
)
def test_one_hung_process_is_enough_for_a_restart(second: tuple[Health | None, float], reason: str) -> None:
    found = whole([(WELL, 0.0), second], 60.0)
    assert (found.live, found.ready, found.reason) == (False, False, reason)


def test_a_report_holds_for_a_while_and_not_from_the_future() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    report = HealthReport(live=True, ready=False, reason="x", pid=1, at=at, fresh_for=20.0)
    assert report.is_fresh(at + timedelta(seconds=20))
    assert not report.is_fresh(at + timedelta(seconds=21))
    assert not report.is_fresh(at - timedelta(seconds=21))
    assert json_line(report).count(b"\n") == 1


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8081", ("127.0.0.1", 8081)),
        (8081, ("127.0.0.1", 8081)),
        ("0.0.0.0:8081", ("0.0.0.0", 8081)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:9", ("::1", 9)),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(text: int | str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert resolve({"health_port": text}, {}, {}, "").settings.health_port == text


@pytest.mark.parametrize("text", ["", "http", ":8081", "host:", "1:65536", "-1", "8081 8082", "host:\uff18\uff10", -1])
def test_another_address_is_refused_with_an_example(text: int | str) -> None:
    with pytest.raises(ConfigError, match=r"health_port: .* is not an address; use a port such as 8081"):
        Settings(health_port=text)


def test_a_port_may_be_a_number_in_a_file_and_a_text_in_the_environment() -> None:
    assert parse_address(resolve({}, {}, {"health_port": 81}, "f").settings.health_port or "") == ("127.0.0.1", 81)
    assert parse_address(resolve({}, {"HEADRACE_HEALTH_PORT": "81"}, {}, "").settings.health_port or "") == (
        "127.0.0.1",
        81,
    )
    assert resolve({}, {"HEADRACE_HEALTH_PORT": "none"}, {"health_port": 81}, "f").settings.health_port is None
    with pytest.raises(ConfigError, match="health_file: '' should be the path of a file"):
        Settings(health_file="")
