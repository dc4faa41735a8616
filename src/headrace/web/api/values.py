"""Types of request values that the core validates. The schema documents the rule; the core raises the error."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headrace.core.alerts.expressions import LONGEST_WINDOW, SHORTEST_WINDOW
from headrace.core.fields import between
from headrace.core.tasks.options import HIGHEST_PRIORITY, LOWEST_PRIORITY
from headrace.core.tasks.retry import LONGEST_LIMIT

Boost = Annotated[int, between(LOWEST_PRIORITY - HIGHEST_PRIORITY, HIGHEST_PRIORITY - LOWEST_PRIORITY)]
RetryLimit = Annotated[int, between(0, LONGEST_LIMIT)]
RequeueLimit = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
AtLeastOne = Annotated[int, Meta(extra_json_schema={"minimum": 1})]
AlertWindow = Annotated[float, between(SHORTEST_WINDOW / 1000, LONGEST_WINDOW / 1000)]
