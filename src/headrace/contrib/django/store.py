"""The store of a backend: a URL of its own, or the project's database and its transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from headrace.runtime.jobs.task import Call

SCHEMA = "headrace"
_LIBPQ = ("sslmode", "sslcert", "sslkey", "sslrootcert", "connect_timeout", "application_name", "options")


def database_url(alias: str, database: Mapping[str, Any], vendor: str, schema: str = SCHEMA) -> str:
    """The headrace URL of one of Django's `DATABASES`."""
    if vendor == "sqlite":
        name = str(database["NAME"])
        if is_in_memory(name):
            return "memory://"
        return f"sqlite:///{quote(str(Path(name).absolute()))}"
    if vendor == "postgresql":
        return _postgresql_url(alias, database, schema)
    raise ImproperlyConfigured(
        f"headrace stores jobs in SQLite, PostgreSQL or Redis, and the database {alias!r} is {vendor}; give TASKS a "
        'store of its own: "OPTIONS": {"url": "redis://..."}'
    )


def joining(database: str) -> Callable[[Call[Any]], Call[Any] | None]:
    """A hook around enqueue: jobs join the transaction that this thread has open in the database."""

    def join(call: Call[Any]) -> Call[Any] | None:
        connection = connections[database]
        if not connection.in_atomic_block or is_in_memory(str(connection.settings_dict["NAME"])):
            return None
        return call.using(connection=connection) if call.options.connection is msgspec.UNSET else None

    return join


def is_in_memory(name: str) -> bool:
    """Whether SQLite would keep a database of this name in memory, as Django does for tests."""
    return name == ":memory:" or "mode=memory" in name


def _postgresql_url(alias: str, database: Mapping[str, Any], schema: str) -> str:
    options = database.get("OPTIONS") or {}
    if not database.get("NAME"):
        raise ImproperlyConfigured(
            f"the database {alias!r} has no NAME for headrace to connect to; give TASKS a url under OPTIONS"
        )
    host, port = str(database.get("HOST") or ""), str(database.get("PORT") or "")
    query = {name: str(options[name]) for name in _LIBPQ if options.get(name) is not None}
    if host.startswith("/"):
        query["host"], host = host, ""
        if port:
            query["port"], port = port, ""
    user, password = str(database.get("USER") or ""), str(database.get("PASSWORD") or "")
    login = f"{quote(user, safe='')}{':' + quote(password, safe='') if password else ''}@" if user else ""
    place = f"{f'[{host}]' if ':' in host else host}{':' + port if port else ''}"
    return (
        f"postgresql://{login}{place}/{quote(str(database['NAME']), safe='')}?{urlencode({'schema': schema, **query})}"
    )
