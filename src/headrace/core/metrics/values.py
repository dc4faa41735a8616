"""The metrics by name: how each is computed from cells and gauges. No data is None, not zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.core.metrics.catalog import METRICS, Source
from headrace.core.metrics.cells import COMPLETED_AFTER_RETRY, COUNTS, FAILED_AFTER_RETRY, MetricCell
from headrace.core.metrics.gauges import STORE, Gauge, Gauges
from headrace.core.metrics.histogram import Histogram, merged
from headrace.core.text import nearest, short
from headrace.errors import InvalidJob

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _of(*sources: Source) -> dict[str, str]:
    """The metrics of these sources, by name, with the stored name of each."""
    return {metric.name: metric.stored_name for metric in METRICS.values() if metric.source in sources}


RATES: Final = _of("rate")
DURATIONS: Final = tuple(_of("duration"))
OF_ARCHIVE: Final = _of("retention")
_EVENTS = {name: of for name, of in _of("event", "retention").items() if METRICS[name].is_count}
COUNTED: Final = tuple(_of("count", "rate", "ratio", "duration", "event", "retention"))
OF_QUEUES: Final = _of("queue")
OF_STORE: Final = _of("store")
GAUGED: Final = (*OF_QUEUES, *OF_STORE)
NAMES: Final = (*COUNTED, *GAUGED)


def check_metric(name: object, *, queue: str | None, task: str | None, worker: str | None) -> str:
    """The name of a metric that supports these labels; InvalidJob otherwise."""
    if not isinstance(name, str) or name not in NAMES:
        raise InvalidJob(f"metric: there is no {short(name)}; {_hint(name)}", value=name)
    if worker is not None and (queue is not None or task is not None):
        raise InvalidJob("metric: give either a worker, or a queue or task: both together are not counted")
    finer = [label for label, given in (("task", task), ("worker", worker)) if given is not None]
    is_whole = name in OF_STORE or name in OF_ARCHIVE
    if (name in GAUGED and finer) or (is_whole and (finer or queue is not None)):
        only = "the whole store" if is_whole else "a queue or the whole store"
        raise InvalidJob(f"metric: {name} is read for {only}, not by {(*finer, 'queue')[0]}")
    return name


def _hint(name: object) -> str:
    if isinstance(name, str) and name.startswith("depth."):
        offered = ", ".join(known for known in OF_QUEUES if known.startswith("depth."))
        return f"the number of jobs is known for open states: {offered}; completed counts finished jobs"
    near = nearest(name, NAMES) if isinstance(name, str) else None
    return f"did you mean {near!r}?" if near else f"metrics are {', '.join(NAMES)}"


def counted(name: str, cell: MetricCell, seconds: float) -> float | None:
    """A metric of the counts within so many seconds."""
    return summed(name, [cell], seconds)


def summed(name: str, cells: Iterable[MetricCell], seconds: float) -> float | None:
    """A metric of all of these cells; only its own parts are summed."""
    some = list(cells)
    if name in COUNTS:
        return float(_sum(some, name))
    if name in RATES:
        return _sum(some, RATES[name]) / seconds if seconds else None
    if name in _EVENTS:
        return float(_events(some, _EVENTS[name]))
    if name == "error_rate":
        return share(_sum(some, "errors"), _sum(some, "completed"))
    if name == "attempts_avg":
        ended = _sum(some, "completed") + _sum(some, "failed")
        return (_sum(some, "completed") + _sum(some, "errors")) / ended if ended else None
    if name == "retry_success":
        return share(_events(some, COMPLETED_AFTER_RETRY), _events(some, FAILED_AFTER_RETRY))
    if name == "schedule_misses":
        return share(_events(some, "schedule.skipped"), _events(some, "schedule.fired"))
    what, _, how = name.partition("_")
    return duration(merged(cell.wait if what == "wait" else cell.run for cell in some), how)


def _sum(cells: list[MetricCell], field: str) -> int:
    return sum(getattr(cell, field) for cell in cells)


def _events(cells: list[MetricCell], kind: str) -> int:
    return sum(cell.other.get(kind, 0) for cell in cells)


def share(these: int, others: int) -> float | None:
    """The share of the first in both; None without any."""
    return these / (these + others) if these or others else None


def duration(found: Histogram, how: str) -> float | None:
    """The mean, minimum, maximum or a quantile, in seconds."""
    if not found.bins:
        return None
    if how in _QUANTILES:
        ms = found.quantile(_QUANTILES[how])
    else:
        ms = {"avg": found.mean, "min": found.least, "max": found.most}[how]
    return None if ms is None else ms / 1000


def gauged(name: str, queue: str | None, buckets: Iterable[Gauges]) -> float | None:
    """The last value of a gauge in these buckets, oldest first; None without a sample."""
    read = list(buckets)
    if not read:
        return None
    if name == "depth_max":
        return max(reading(gauges, name, queue).most for gauges in read)
    if name in OF_STORE and name not in read[-1].get(STORE, {}):
        return None  # a server does not report its load, and no scan for stale jobs may have run yet
    return reading(read[-1], name, queue).last


def reading(gauges: Gauges, name: str, queue: str | None) -> Gauge:
    """One gauge of a bucket. A queue without jobs has no value: it is empty."""
    return gauges.get(STORE if queue is None else queue, {}).get(OF_QUEUES.get(name, name), _NOTHING)


_NOTHING = Gauge(0.0, 0.0, 0.0)


def mean_of(gauges: Gauges, name: str, queue: str | None) -> float:
    """The mean of a gauge in a bucket. A zero has no value, but the number of workers always has one."""
    return reading(gauges, name, queue).sum / gauges[STORE]["workers"].count


def seconds_to_drain(depth: float, coming: float, going: float) -> float | None:
    """How long until a queue is empty at these rates; None if it does not get shorter."""
    if depth <= 0:
        return 0.0
    return depth / (going - coming) if going > coming else None


def worst_first(cells: Mapping[tuple[str, str], MetricCell]) -> list[tuple[str, str]]:
    """The places of these cells: most failed attempts first, then the busiest."""
    return sorted(cells, key=lambda place: (-cells[place].errors, -cells[place].failed, -cells[place].completed, place))
