"""A second implementation of cron: reads the five fields by itself and checks one minute at a time.

Slow and plain on purpose, and nothing of the package is used. Also draws expressions for both to read.
"""

from __future__ import annotations

import calendar
from datetime import datetime, timedelta
from functools import cache

from hypothesis import strategies as st

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def matches(text: str, moment: datetime) -> bool:
    """Whether a five-field expression names this minute of the clock on the wall."""
    minute, hour, day, month, weekday = text.upper().replace("?", "*").split()
    if not (_in_field(minute, moment.minute, 0) and _in_field(hour, moment.hour, 1)):
        return False
    if not _in_field(month, moment.month, 3):
        return False
    by_day = any(_is_day(term, moment) for term in day.split(","))
    by_weekday = any(_is_weekday(term, moment) for term in weekday.split(","))
    return (by_day and by_weekday) if day[0] == "*" or weekday[0] == "*" else (by_day or by_weekday)


def _in_field(field: str, value: int, place: int) -> bool:
    return any(value in _values(term, place) for term in field.split(","))


@cache
def _values(term: str, place: int) -> range:
    base, _, step = term.partition("/")
    low, high = RANGES[place]
    if base != "*":
        first, _, last = base.partition("-")
        low = _number(first)
        high = _number(last) if last else (high if step else low)
    return range(low, high + 1, int(step or 1))


def _number(text: str) -> int:
    if text in MONTHS:
        return MONTHS.index(text) + 1
    return DAYS.index(text) if text in DAYS else int(text)


def _is_day(term: str, moment: datetime) -> bool:
    if term == "L":
        return moment.day == calendar.monthrange(moment.year, moment.month)[1]
    return moment.day in _values(term, 2)


def _is_weekday(term: str, moment: datetime) -> bool:
    today = moment.isoweekday() % 7
    if term.endswith("L"):
        last = calendar.monthrange(moment.year, moment.month)[1]
        return _number(term[:-1]) % 7 == today and moment.day + 7 > last
    if "#" in term:
        day, nth = term.split("#")
        return _number(day) % 7 == today and (moment.day - 1) // 7 + 1 == int(nth)
    return today in {value % 7 for value in _values(term, 4)}


def _fields(place: int, *special: str) -> st.SearchStrategy[str]:
    low, high = RANGES[place]
    number = st.integers(low, high)
    ranged = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    stepped = st.tuples(st.one_of(st.just("*"), ranged), st.integers(1, 12)).map(lambda both: f"{both[0]}/{both[1]}")
    # Longer lists and stars more often than not: an expression that hardly ever fires tests little.
    term = st.one_of(number.map(str), ranged, stepped, *([st.sampled_from(special)] if special else []))
    return st.one_of(st.just("*"), st.lists(term, min_size=1, max_size=3).map(",".join))


def expressions() -> st.SearchStrategy[str]:
    """Five-field expressions that come to pass."""
    day = _fields(2, "L").filter(lambda field: field == "*" or any(_is_common(term) for term in field.split(",")))
    return (
        st.tuples(
            _fields(0),
            _fields(1),
            day,
            _fields(3, *MONTHS),
            _fields(4, "MON", "FRI", "SUN", "FRIL", "2L", "TUE#1", "0#2"),
        )
        .map(" ".join)
        .filter(_has_a_day)
    )


def _has_a_day(text: str) -> bool:
    """Not `*/11` and the last Friday of January, say: they never meet."""
    _, _, *day = text.split()
    whole_days = " ".join(["*", "*", *day])
    return any(matches(whole_days, datetime(2024, 1, 1) + timedelta(days=number)) for number in range(8 * 366))


def _is_common(term: str) -> bool:
    return term == "L" or min(_values(term, 2)) <= 28
