"""Named SQL statements and numbered migrations, read from files that ship with an engine.

A statement may read a batch that is passed as one JSON parameter. Its header then names the record type,

    -- name: settle (each o: Outcome)

and the body says `FROM json_each(:o) AS o` and uses `o.id` or `o.version` like columns. `{Claim}` expands to the
record's field names, for `json_array({Claim})`. Nothing else is replaced, and never a value.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

_encode = msgspec.json.Encoder().encode
_HEADER = re.compile(r"^-- name: (\w+)(?: \(each (\w+): (\w+)\))?[ \t]*$", re.MULTILINE)


def as_json(value: object) -> str:
    """The value as the JSON text a statement takes for a batch."""
    return _encode(value).decode()


class Migration(NamedTuple):
    version: int
    name: str
    script: str


def _columns_of(alias: str, record: type[msgspec.Struct], body: str) -> str:
    position = {name: index for index, name in enumerate(record.__struct_fields__)}

    def extract(match: re.Match[str]) -> str:
        return f"json_extract({alias}.value, '$[{position[match[1]]}]')" if match[1] in position else match[0]

    return re.sub(rf"\b{alias}\.(\w+)\b", extract, body)


def load_statements(package: str, records: Mapping[str, type[msgspec.Struct]]) -> dict[str, str]:
    """The statements of `statements.sql` in the package, by name."""
    text = _read(package, "statements.sql")
    parts = _HEADER.split(text)[1:]
    statements: dict[str, str] = {}
    for name, alias, record, body in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        lines = (line for line in body.splitlines() if not line.lstrip().startswith("--"))
        sql = "\n".join(lines).strip().rstrip(";")
        for known, kind in records.items():
            sql = sql.replace(f"{{{known}}}", ", ".join(kind.__struct_fields__))
        statements[name] = _columns_of(alias, records[record], sql) if alias else sql
    return statements


def load_migrations(package: str, names: Sequence[str]) -> list[Migration]:
    """The files `migrations/NNNN_name.sql` of the package, in the order of their numbers."""
    return [Migration(int(name[:4]), name[5:], _read(package, f"migrations/{name}.sql")) for name in sorted(names)]


def _read(package: str, name: str) -> str:
    # pkgutil, since importlib.resources alone would take a tenth of the time of `import headrace`.
    data = pkgutil.get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"{name} is missing from {package}")
    return data.decode()
