"""The URL of a store from Django's DATABASES."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from headrace.contrib.django.store import database_url
from headrace.engines.postgres.store_url import PostgresUrl

POSTGRES = {"NAME": "shop", "USER": "ann", "PASSWORD": "p@ss/w:rd", "HOST": "db.example", "PORT": 5433}


def url_of(vendor: str, **database: Any) -> str:
    return database_url("default", database, vendor)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("/srv/shop/db.sqlite3", "sqlite:////srv/shop/db.sqlite3"),
        ("/srv/a b#c?d/db", "sqlite:////srv/a%20b%23c%3Fd/db"),
        (":memory:", "memory://"),
        ("file:memorydb_default?mode=memory&cache=shared", "memory://"),
    ],
)
def test_a_file_is_named_by_its_path(name: str, url: str) -> None:
    assert url_of("sqlite", NAME=name) == url


def test_a_server_is_reached_as_django_reaches_it() -> None:
    options = {"sslmode": "require", "pool": True, "connect_timeout": 3}
    url = url_of("postgresql", **POSTGRES, OPTIONS=options)
    assert url == (
        "postgresql://ann:p%40ss%2Fw%3Ard@db.example:5433/shop?schema=headrace&sslmode=require&connect_timeout=3"
    )
    assert str(PostgresUrl(url)) == "postgresql://ann@db.example:5433/shop?schema=headrace"


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("", "", "postgresql:///shop?schema=headrace"),
        ("::1", "5432", "postgresql://[::1]:5432/shop?schema=headrace"),
        ("/var/run/postgresql", "5433", "postgresql:///shop?schema=headrace&host=%2Fvar%2Frun%2Fpostgresql&port=5433"),
    ],
)
def test_a_server_is_near_or_behind_a_socket(host: str, port: str, url: str) -> None:
    assert url_of("postgresql", NAME="shop", HOST=host, PORT=port) == url


def test_another_database_is_refused_with_what_to_do() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"is mysql; give TASKS a store of its own"):
        url_of("mysql", NAME="shop")
    with pytest.raises(ImproperlyConfigured, match="has no NAME"):
        url_of("postgresql", NAME="", OPTIONS={"service": "shop"})
