"""Named SQL statements and numbered migrations, read from files that ship with an engine.

A statement may read a batch that is passed as one JSON parameter. Its header then names the record type,

    -- name: settle (each o: Outcome)

and the body says `FROM json_each(:o) AS o` (or its database's equivalent) and uses `o.id` or `o.version` like columns.
`{Claim}` expands to the record's field names, for `json_array({Claim})`; `{JobRow:most}` to the same without long
fields of more than `:most` bytes. Parameters are written `:name` for every database. Nothing else is replaced, and
never a value.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headrace.core.jobs.light_rows import LEFT_OUT, LONG, LONGEST

_encode = msgspec.json.Encoder().encode
_HEADER = re.compile(r"^-- name: (\w+)(?: \(each (\w+): (\w+)\))?[ \t]*$", re.MULTILINE)
_NEEDS = re.compile(r"^-- needs: (\d+)", re.MULTILINE)

_NO_LIMIT = 1 << 62

Extract = Callable[[str, int, str], str]


def as_json(value: object) -> str:
    """The value as JSON text, for the batch parameter of a statement."""
    return _encode(value).decode()


def most(light: bool) -> int:
    """The longest value of a row to read, for the parameter of `{JobRow:most}`."""
    return LONGEST if light else _NO_LIMIT


class Migration(NamedTuple):
    """A migration of the tables. `needs` is the oldest version of the code that works with the tables after it."""

    version: int
    name: str
    script: str
    needs: int = 0

    @property
    def full_name(self) -> str:
        return f"{self.version:04d}_{self.name}"


def _json_extract(alias: str, position: int, _kind: str) -> str:
    return f"json_extract({alias}.value, '$[{position}]')"


def _columns_of(alias: str, record: type[msgspec.Struct], body: str, extract: Extract) -> str:
    place = {name: index for index, name in enumerate(record.__struct_fields__)}
    kinds = record.__annotations__

    def extract_field(match: re.Match[str]) -> str:
        name = match[1]
        return extract(alias, place[name], str(kinds[name])) if name in place else match[0]

    return re.sub(rf"\b{alias}\.(\w+)\b", extract_field, body)


def load_statements(
    package: str,
    records: Mapping[str, type[msgspec.Struct]],
    extract: Extract = _json_extract,
    files: Sequence[str] = (),
    size: str = "octet_length({})",
) -> dict[str, str]:
    """The statements of these files in the package's folder `sql`, by name. `size` is the SQL for a text's size."""
    text = "".join(_read(package, f"sql/{name}.sql") for name in files)
    for known, kind in records.items():
        text = text.replace(f"{{{known}}}", ", ".join(kind.__struct_fields__))
        text = text.replace(f"{{{known}:most}}", ", ".join(_up_to_most(kind.__struct_fields__, size)))
    parts = _HEADER.split(text)[1:]
    statements: dict[str, str] = {}
    for name, alias, record, body in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        lines = (line for line in body.splitlines() if not line.lstrip().startswith("--"))
        sql = "\n".join(lines).strip().rstrip(";")
        statements[name] = _columns_of(alias, records[record], sql, extract) if alias else sql
    return statements


def _up_to_most(fields: Sequence[str], size: str) -> list[str]:
    """The fields of a record; a long field is left out where it exceeds `:most`."""
    return [
        f"CASE WHEN {size.format(field)} > :most THEN '{LEFT_OUT}' ELSE {field} END" if field in LONG else field
        for field in fields
    ]


def load_migrations(package: str, names: Sequence[str]) -> list[Migration]:
    """The files `migrations/NNNN_name.sql` of the package, sorted by number.

    A line `-- needs: 3` says that code of version 3 works after this migration, so that a deploy may migrate first and
    replace the workers one by one. Without it, only code that knows the migration works.
    """
    loaded = []
    for name in sorted(names):
        script = _read(package, f"migrations/{name}.sql")
        version = int(name[:4])
        needs = _NEEDS.search(script)
        loaded.append(Migration(version, name[5:], script, int(needs[1]) if needs else version))
    return loaded


def _read(package: str, name: str) -> str:
    # pkgutil: importlib.resources alone would take a tenth of the time of `import headrace`.
    data = pkgutil.get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"{name} is missing from {package}")
    return data.decode()
