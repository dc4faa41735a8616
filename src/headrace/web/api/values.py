"""Types of request values that the core validates. The schema documents the rule; the core raises the error."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Meta

from headrace.core.alerts.expressions import LONGEST_WINDOW, SHORTEST_WINDOW
from headrace.core.alerts.rules import MAX_SPAN
from headrace.core.jobs.ids import GIVEN
from headrace.core.option_times import LONGEST_WAIT, SHORTEST
from headrace.core.queues.limits import RATE
from headrace.core.queues.rules_text import MAX_AGEING, MAX_JOBS, MAX_WEIGHT
from headrace.core.retention.lifecycle import MAX_KEPT, MAX_SECONDS
from headrace.core.schedules.parse import LONGEST_DURATION
from headrace.core.schedules.schedule import MOST_FIRES, MOST_FIRES_AT_ONCE, SHORTEST_INTERVAL
from headrace.core.tasks.options import (
    HIGHEST_PRIORITY,
    LABEL,
    LONGEST_TIMEOUT,
    LOWEST_PRIORITY,
    MAX_LABELS,
    QUEUE_NAME,
    TASK_NAME,
)
from headrace.core.tasks.retry import LONGEST_LIMIT
from headrace.core.tasks.unique import LONGEST_KEY


def _matching(pattern: re.Pattern[str]) -> Meta:
    return _schema(pattern=f"^(?:{pattern.pattern})$")


def _between(minimum: float, maximum: float) -> Meta:
    return _schema(minimum=minimum, maximum=maximum)


def _schema(**rules: Any) -> Meta:
    return Meta(extra_json_schema=rules)


QueueName = Annotated[str, _matching(QUEUE_NAME)]
TaskName = Annotated[str, _matching(TASK_NAME)]
Word = Annotated[str, _matching(LABEL)]
Words = Annotated[list[Word], _schema(maxItems=MAX_LABELS)]
JobId = Annotated[str, _matching(GIVEN)]
Key = Annotated[str, _schema(minLength=1, maxLength=LONGEST_KEY)]
RateText = Annotated[str, _matching(RATE)]
Priority = Annotated[int, _between(LOWEST_PRIORITY, HIGHEST_PRIORITY)]
Boost = Annotated[int, _between(LOWEST_PRIORITY - HIGHEST_PRIORITY, HIGHEST_PRIORITY - LOWEST_PRIORITY)]
RetryLimit = Annotated[int, _between(0, LONGEST_LIMIT)]
Kept = Annotated[int, _between(1, MAX_KEPT)]
PolicyTime = Annotated[float, _between(SHORTEST, MAX_SECONDS)]
RetentionTime = Annotated[float, _between(0, MAX_SECONDS)]
RequeueLimit = Annotated[int, _schema(minimum=0)]
AtLeastOne = Annotated[int, _schema(minimum=1)]
AlertTime = Annotated[float, _between(0, MAX_SPAN)]
AlertWindow = Annotated[float, _between(SHORTEST_WINDOW / 1000, LONGEST_WINDOW / 1000)]
JobCount = Annotated[int, _between(1, MAX_JOBS)]
Weight = Annotated[int, _between(1, MAX_WEIGHT)]
Ageing = Annotated[float, _between(SHORTEST, MAX_AGEING)]
Wait = Annotated[float, _between(0, LONGEST_WAIT)]
Span = Annotated[float, _between(SHORTEST, LONGEST_WAIT)]
Interval = Annotated[float, _between(SHORTEST_INTERVAL / 1000, LONGEST_DURATION / 1000)]
Window = Annotated[float, _between(0, LONGEST_DURATION / 1000)]
FireLimit = Annotated[int, _between(1, MOST_FIRES)]
FiresAtOnce = Annotated[int, _between(1, MOST_FIRES_AT_ONCE)]
Timeout = Annotated[float, _between(SHORTEST, LONGEST_TIMEOUT)]
