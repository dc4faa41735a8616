"""What a run of `bench scale` leaves behind: readings, pictures and sentences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bench
from bench.scale import command, report
from bench.scale.readings import Reading, Readings


def _queues(step: int, drain: float, **more: str) -> Reading:
    rates = {} if "error" in more else {"drain": drain, "cores": 0.2, "size": 1.0}
    return Reading("redis", "queues", step, rates, "0.5", **more)


def test_the_best_reading_of_a_step_counts_and_a_failed_one_does_not(tmp_path: Path) -> None:
    readings = Readings(tmp_path)
    for reading in (_queues(1, 1.0), _queues(10, 3.0), _queues(1, 2.0), _queues(10, 0, error="gone"), _queues(1, 1.5)):
        readings.add(reading)
    assert [(reading.step, reading.rates["drain"]) for reading in Readings(tmp_path).all()] == [(1, 2.0), (10, 3.0)]


def test_facts_of_several_runs_are_kept_side_by_side(tmp_path: Path) -> None:
    Readings(tmp_path).add_facts({"python": "3", "redis": "7"})
    Readings(tmp_path).add_facts({"python": "4"})
    assert Readings(tmp_path).facts() == {"python": "4", "redis": "7"}


def test_readings_that_others_disturbed_do_not_count(tmp_path: Path) -> None:
    for step, others in ((1, 5.0), (1, 80.0), (10, 30.0)):
        Readings(tmp_path).add(Reading("redis", "queues", step, {"drain": 10 * others, "others": others}))
    assert [(reading.step, reading.rates["drain"]) for reading in Readings(tmp_path, quiet=20).all()] == [(1, 50.0)]
    assert Readings(tmp_path, quiet=20).has("redis", "queues", 1)
    assert not Readings(tmp_path, quiet=20).has("redis", "queues", 10)
    assert [reading.step for reading in Readings(tmp_path).all()] == [1, 10]


def test_the_report_names_the_bend_and_who_waited(tmp_path: Path) -> None:
    readings = Readings(tmp_path)
    for reading in (_queues(1, 1000.0), _queues(10, 990.0), _queues(100, 400.0), _queues(1000, 0, error="too slow")):
        readings.add(reading)
    text = report.write(readings, tmp_path, cores=2).read_text()
    assert "bends at 100 queues, with 400 after 1,000 at 1 (40%)" in text
    assert "used 0.2 of 1 core: they waited" in text
    assert "Redis was not measured at 1,000: too slow" in text
    assert (tmp_path / "scale-queues.svg").read_text().count('class="bend ') == 1


def test_beside_the_work_of_others_only_a_halved_rate_bends(tmp_path: Path) -> None:
    readings = Readings(tmp_path)
    for step, drain in ((1, 1000.0), (10, 600.0), (100, 400.0)):
        readings.add(Reading("redis", "queues", step, {"drain": drain, "cores": 0.2, "others": 70.0}))
    assert "bends at 100 queues" in report.write(readings, tmp_path, cores=2).read_text()


def test_sizes_do_not_bend(tmp_path: Path) -> None:
    readings = Readings(tmp_path)
    for step, size in ((1, 5.0), (10, 1.0)):
        readings.add(Reading("sqlite", "queues", step, {"size": size}))
    assert "bends" not in report.write(readings, tmp_path, cores=2).read_text()


def test_a_folder_without_readings_has_a_report_without_pictures(tmp_path: Path) -> None:
    assert command.main(["--draw", "--out", str(tmp_path)]) == 0
    assert not list(tmp_path.glob("*.svg"))


@pytest.mark.slow
def test_the_command_measures_and_draws_a_small_store(tmp_path: Path) -> None:
    what = ["--engine", "sqlite", "--only", "keys", "--only", "schedules", "--up-to", "10", "--jobs", "1100"]
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "scale", *what, "--out", tmp_path, "--dir", tmp_path],
        cwd=Path(bench.__file__ or ".").parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    readings = Readings(tmp_path).all()
    assert [(reading.axis, reading.step) for reading in readings] == [("keys", 1), ("keys", 10), ("schedules", 100)]
    for reading in readings:
        assert {"enqueue", "drain", "p50", "size"} <= reading.rates.keys()
        assert all(value > 0 for rate, value in reading.rates.items() if rate not in {"cost", "others"})  # in ticks
    assert {"create", "fire"} <= readings[-1].rates.keys()
    assert "## keys of a limit" in ran.stdout
    assert {path.name for path in tmp_path.glob("*.svg")} == {"scale-keys.svg", "scale-schedules.svg"}
