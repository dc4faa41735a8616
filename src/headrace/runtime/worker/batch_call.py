"""One call of a batch task's function, from the arguments of its jobs to the value of each: a result or an exception.

It knows neither the worker nor the testing kit, which both make such calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from headrace.core.jobs.records import Claim
from headrace.core.tasks.batches import results_of
from headrace.runtime.context.current_job import JobContext, current_batch
from headrace.runtime.worker.execution import RunSpec


class Batched(Protocol):
    """An attempt, as the call needs it."""

    @property
    def claim(self) -> Claim: ...
    @property
    def plan(self) -> RunSpec: ...
    @property
    def context(self) -> JobContext: ...


B = TypeVar("B", bound=Batched)


class BatchCall(Generic[B]):
    """The call for these attempts. `values` has, at its end, what each of them returned or raised.

    Those that `failed` before the call are not part of it.
    """

    def __init__(self, attempts: Sequence[B], failed: Mapping[B, Exception] = {}) -> None:
        self.values: dict[B, Any] = dict(failed)
        self.items: list[Any] = []
        self._called: list[B] = []
        for attempt in attempts:
            if attempt in failed:
                continue
            try:
                args, kwargs = attempt.plan.arguments(attempt.claim)
                items = (*args, *kwargs.values())
                if len(items) != 1:  # it was enqueued where the task is not known
                    raise TypeError(f"{attempt.claim.task}() takes one argument for each job, not {len(items)}")
            except Exception as error:  # it fails its own job alone
                self.values[attempt] = error
            else:
                self.items += items
                self._called.append(attempt)
        current_batch.set(tuple(attempt.context for attempt in self._called))

    def returned(self, value: Any) -> None:
        """The function has returned this."""
        try:
            results = results_of(value, len(self._called), self._called[0].claim.task)
        except Exception as error:
            self.raised(error)
        else:
            self._end(results)

    def raised(self, error: BaseException) -> None:
        """The function has raised this: all its jobs have."""
        self._end([error] * len(self._called))

    def _end(self, values: Sequence[Any]) -> None:
        for attempt, value in zip(self._called, values, strict=True):
            self.values[attempt] = attempt.context.exceeded or value
