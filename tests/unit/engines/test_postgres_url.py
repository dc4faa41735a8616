"""A PostgreSQL URL: our parameters are taken out, everything else is libpq's, and no password is ever shown."""

from __future__ import annotations

import traceback
from typing import Any

import psycopg
import pytest

from headrace.engines.postgres.store_url import PostgresUrl
from headrace.errors import ConfigError


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments of the driver."""
    called: dict[str, Any] = {}

    def connect(conninfo: str, **settings: Any) -> None:
        called.update(settings, parsed=psycopg.conninfo.conninfo_to_dict(conninfo))

    monkeypatch.setattr(psycopg, "connect", connect)
    return called


# -- our own parameters


def test_without_parameters_there_are_sensible_ones() -> None:
    address = PostgresUrl("postgresql://ann@db/jobs")
    assert (address.schema, address.connections, address.statement_timeout) == ("public", 10, 30)
    assert (address.pooler, address.poll) == (False, 0.25)


def test_parameters_are_taken_from_the_url() -> None:
    address = PostgresUrl("postgresql://db/jobs?schema=Crew_1&connections=3&statement_timeout=7&pooler=on&poll=50")
    assert (address.schema, address.connections, address.statement_timeout) == ("Crew_1", 3, 7)
    assert (address.pooler, address.poll) == (True, 0.05)


@pytest.mark.parametrize(
    ("parameter", "rule"),
    [
        ("connections=1", "connections=1 must be a whole number from 2 to 1000"),
        ("connections=1001", "connections=1001 must be"),
        ("connections=-3", "connections=-3 must be"),
        ("connections=many", "connections=many must be"),
        ("connections=", "connections= must be"),
        ("connections=2.5", "connections=2.5 must be"),
        (f"connections={'9' * 5000}", "connections=99999999999999999999 must be"),
        ("statement_timeout=0", "statement_timeout=0 must be a whole number from 1 to 3600"),
        ("statement_timeout=3601", "statement_timeout=3601 must be"),
        ("pooler=maybe", "pooler=maybe must be on or off"),
        ("poll=9", "poll=9 must be a whole number from 10 to 60000"),
        ("schema=", "schema '' must be"),
        ("schema=a-b", "schema 'a-b' must be"),
        ("schema=1a", "schema '1a' must be"),
        ("schema=a%22.b", "schema 'a\".b' must be"),
        ("schema=a%00", "must be letters"),
        ("schema=%C3%A4", "must be letters"),
        ("schema=a%0A", "must be letters"),
        (f"schema={'a' * 42}", "at most 41"),
        ("schema=pg_temp", "not begin with pg_"),
    ],
)
def test_a_wrong_value_is_named_with_the_rule_it_breaks(parameter: str, rule: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PostgresUrl(f"postgresql://db/jobs?{parameter}")
    assert str(caught.value).startswith("url: ")
    assert rule in str(caught.value)


@pytest.mark.parametrize("value", ["on", "ON", "true", "1"])
def test_a_switch_may_be_turned_on_in_several_ways(value: str) -> None:
    assert PostgresUrl(f"postgresql://db/jobs?pooler={value}").pooler


# -- what is libpq's


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL"])
def test_both_names_of_the_scheme_are_known(scheme: str, connected: dict[str, Any]) -> None:
    PostgresUrl(f"{scheme}://ann@db/jobs").connect()
    assert connected["parsed"] == {"user": "ann", "host": "db", "dbname": "jobs"}


@pytest.mark.parametrize("url", ["mysql://db/jobs", "postgresql", "postgresql:jobs", "", "db/jobs"])
def test_what_is_no_such_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match="url: it should look like postgresql://"):
        PostgresUrl(url)


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("postgresql://", {}),
        ("postgresql:///jobs", {"dbname": "jobs"}),
        ("postgresql:///jobs?host=/run/pg", {"dbname": "jobs", "host": "/run/pg"}),
        ("postgresql://%2Frun%2Fpg/jobs", {"dbname": "jobs", "host": "/run/pg"}),
        ("postgresql://db:6432/jobs", {"dbname": "jobs", "host": "db", "port": "6432"}),
        ("postgresql://[::1]:6432/jobs", {"dbname": "jobs", "host": "::1", "port": "6432"}),
        (
            "postgresql://a:1,b:2/jobs?target_session_attrs=read-write",
            {"dbname": "jobs", "host": "a,b", "port": "1,2", "target_session_attrs": "read-write"},
        ),
        (
            "postgresql://ann:p%40%2F%3F%23%25%3Aw@db/j%20obs",
            {"user": "ann", "password": "p@/?#%:w", "host": "db", "dbname": "j obs"},
        ),
        ("postgresql://ann:p#w@db/jobs", {"user": "ann", "password": "p#w", "host": "db", "dbname": "jobs"}),
        ("postgresql://db/jobs?password=a+b%26c", {"host": "db", "dbname": "jobs", "password": "a+b&c"}),
        (
            "postgresql://db/jobs?sslmode=verify-full&schema=s",
            {"host": "db", "dbname": "jobs", "sslmode": "verify-full"},
        ),
    ],
)
def test_everything_else_reaches_libpq_as_it_was_meant(
    url: str, parsed: dict[str, str], connected: dict[str, Any]
) -> None:
    PostgresUrl(url).connect()
    assert connected["parsed"] == parsed


def test_options_of_the_url_are_kept_and_win_over_ours(connected: dict[str, Any]) -> None:
    options = "-c%20search_path%3Da%5C%20b%20-c%20statement_timeout%3D5s"
    PostgresUrl(f"postgresql://db/jobs?options={options}&statement_timeout=9").connect()
    assert connected["options"].endswith(r" -c search_path=a\ b -c statement_timeout=5s")
    assert connected["options"].startswith("-c statement_timeout=9s -c idle_in_transaction_session_timeout=60s")


def test_settings_of_the_url_are_not_overruled(connected: dict[str, Any]) -> None:
    PostgresUrl("postgresql://db/jobs?connect_timeout=1&application_name=shop&keepalives_idle=99").connect()
    assert connected["parsed"]["connect_timeout"] == "1"
    assert connected["parsed"]["application_name"] == "shop"
    assert {"connect_timeout", "application_name", "keepalives_idle"}.isdisjoint(connected)
    assert connected["keepalives_interval"] == 5


def test_behind_a_pooler_nothing_is_set_for_the_session_and_nothing_prepared(connected: dict[str, Any]) -> None:
    PostgresUrl("postgresql://db/jobs?pooler=on").connect()
    assert "options" not in connected
    assert connected["prepare_threshold"] is None
    PostgresUrl("postgresql://db/jobs").connect()
    assert connected["prepare_threshold"] is not None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://ann:secret@db/jobs?no_such=1", '"no_such"'),
        ("postgresql://ann:secret@[::1/jobs", 'matching "]"'),
        ("postgresql://ann:secret@[::1]x/jobs", 'unexpected character "x"'),
        ("postgresql://ann:secret@db/jobs?sslmode", "name=value"),
        ("postgresql://ann:secret@db/j%zzobs", '"j%zzobs"'),
    ],
)
def test_an_error_of_libpq_is_shown_with_its_text(url: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PostgresUrl(url)
    assert str(caught.value).startswith("url: ")
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


# -- secrets


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:xyzzy%zzplugh@db/jobs",
        "postgresql://ann:xyzzy%00plugh@db/jobs",
        "postgresql://ann:xyzzy@plugh@db/jobs",
        "postgresql://ann:xyzzy/plugh@db/jobs",
        "postgresql://ann:xyzzy?plugh@db/jobs",
        "postgresql://db/jobs?password=xyzzy%00plugh",
    ],
)
def test_a_badly_encoded_password_is_refused_without_showing_any_of_it(url: str) -> None:
    with pytest.raises(ConfigError, match="%40") as caught:
        PostgresUrl(url)
    message = "".join(traceback.format_exception(caught.value))
    assert "xyzzy" not in message
    assert "plugh" not in message


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ann:secret@db:6432/jobs", "postgresql://ann@db:6432/jobs"),
        ("postgresql://db/jobs?user=ann&password=secret", "postgresql://ann@db/jobs"),
        ("postgresql://ann:se%40cret@db/jobs?schema=crew&sslmode=require", "postgresql://ann@db/jobs?schema=crew"),
        ("postgresql://ann:secret@/jobs?host=/run/pg&port=6432", "postgresql://ann@/jobs?host=/run/pg&port=6432"),
        ("postgresql:///jobs?host=/run/pg&schema=crew", "postgresql:///jobs?host=/run/pg&schema=crew"),
        ("postgresql:///jobs", "postgresql:///jobs"),
        ("postgresql://ann:secret@a:1,b:2/jobs", "postgresql://ann@a:1,b:2/jobs"),
        ("postgresql://a,b/jobs?port=6432", "postgresql://a:6432,b:6432/jobs"),
        ("postgresql://[::1]:6432/jobs", "postgresql://[::1]:6432/jobs"),
        ("postgresql://ann%40shop:secret@db/jobs", "postgresql://ann%40shop@db/jobs"),
        ("postgresql://db/j%3Fobs", "postgresql://db/j%3Fobs"),
    ],
)
def test_an_address_is_shown_as_a_url_that_leads_there_and_has_no_password(url: str, shown: str) -> None:
    address = PostgresUrl(url)
    assert str(address) == shown
    assert "secret" not in repr(address)
    assert str(PostgresUrl(shown)) == shown
