"""The options and settings that type checkers know are the ones that exist, and they take the values that they name."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from headrace.app.registry import task_options
from headrace.app.schedules import declared
from headrace.core.schedules.schedule import Timing
from headrace.core.settings.setting_types import AppSettings, WebOptions, WorkerSettings
from headrace.core.settings.settings import NAMES
from headrace.core.tasks.option_types import (
    BatchOptions,
    CallOptions,
    IntervalOptions,
    ScheduleOptions,
    SharedOptions,
    TaskOptions,
)
from headrace.core.tasks.options import OPTION_NAMES
from headrace.errors import ConfigError

JOB, TASK, CALL = (frozenset(kind.__annotations__) for kind in (SharedOptions, BatchOptions, CallOptions))


def test_every_option_is_typed_once() -> None:
    assert frozenset(OPTION_NAMES) == TASK | CALL
    assert TASK & CALL == JOB


def test_the_options_of_a_single_call_are_those_that_a_task_refuses() -> None:
    for name in CALL - JOB:
        with pytest.raises(ConfigError, match=f"{name} belongs to one call"):
            task_options({name: None})


def test_a_schedule_takes_the_options_of_a_job_and_of_its_times() -> None:
    times = frozenset(Timing.__struct_fields__) - {"cron", "every", "at"}
    assert frozenset(ScheduleOptions.__annotations__) - JOB == times | {"args", "kwargs", "immediate"}
    assert set(IntervalOptions.__annotations__) - set(ScheduleOptions.__annotations__) == set(declared._UNITS)


def test_every_setting_is_typed() -> None:
    assert frozenset(AppSettings.__annotations__) == frozenset(NAMES) - {"url"}
    assert frozenset(WorkerSettings.__annotations__) < frozenset(AppSettings.__annotations__)
    of_the_web = {name.removeprefix("web_") for name in NAMES if name.startswith("web_")}
    assert frozenset(WebOptions.__annotations__) == of_the_web | {"prefix", "login_url"}


@pytest.mark.parametrize("kind", [TaskOptions, BatchOptions, CallOptions, IntervalOptions, AppSettings, WebOptions])
def test_the_types_can_be_read_at_run_time(kind: type) -> None:
    assert get_type_hints(kind).keys() == kind.__annotations__.keys()
