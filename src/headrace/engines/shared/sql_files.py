"""Named SQL statements and numbered migrations, read from files that ship with an engine.

A statement that SQLite and PostgreSQL say alike stands once, in `engines/sql/sql/`; the others in the files of each
engine. A further engine may replace a common statement by one of the same name.

A statement may read a batch that is passed as one JSON parameter. Its header then names the record type,

    -- name: settle (each o: Outcome)

and the body says `FROM {each o}` and uses `o.id` or `o.version` like columns. `{Claim}` expands to the record's field
names, for `{rows {Claim}}`, and `{o.Claim}` to those of the batch; `{JobRow:most}` to the names without long fields of
more than `:most` bytes. Parameters are written `:name` for every database. What the databases say differently is a
macro of the engine's `Dialect`:

    {rows a, b}              the result as one JSON text: an array of arrays
    {list a}                 the result as one JSON text: an array of values
    {rows a, {flag b}}       a condition in it as true or false
    id {in_texts :ids}       is one of the texts of a JSON array; {in_numbers :seqs} the same with whole numbers
    {named :ids}             names one of the jobs whose ids are in a JSON array; `job.{named :ids}` with an alias
    {has_id r.job_id}        has this id, of a job
    id {in SELECT ...}       is in the result of a query, which is executed once and not joined
    {each o}                 the elements of the JSON parameter `:o`, as table `o`; `o.key` is the position
    {lookup jobs AS job ON job.id = o.id}    joins those rows of a table, looked up for each row so far
    {lock FOR UPDATE}        locks the rows of a query that an UPDATE will change; nothing where one writer is alone
    {count UPDATE ...}       a write, as a query of one value where a caller's library may run it
    {next_version :now}      sets the columns that every change of a job's state sets

Nothing else is replaced, and never a value.
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

_BRACES = re.compile(r"\{(?:(\w+)\.)?(\w+)(?::(most)|\s+((?:[^{}]|\{\w+\})+))?\}")
_PARTS = re.compile(r"\s+(?:AS|ON)\s+")

_NO_LIMIT = 1 << 62


class Dialect(NamedTuple):
    """How one database says what the statements leave to it.

    `macros` has the text for each, with `{0}` for the argument; that of `lookup` has three: table, alias, condition.
    `extract` writes a field of a record: the alias of the batch, the position of the field, its type. `size` is the SQL
    for the size of a text.
    """

    macros: Mapping[str, str]
    extract: Callable[[str, int, str], str]
    size: str


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


def _columns_of(alias: str, record: type[msgspec.Struct], body: str, dialect: Dialect) -> str:
    place = {name: index for index, name in enumerate(record.__struct_fields__)}
    kinds = record.__annotations__

    def extract_field(match: re.Match[str]) -> str:
        name = match[1]
        return dialect.extract(alias, place[name], str(kinds[name])) if name in place else match[0]

    return re.sub(rf"\b{alias}\.(\w+)\b", extract_field, body)


def load_statements(
    package: str, records: Mapping[str, type[msgspec.Struct]], dialect: Dialect, files: Sequence[str]
) -> dict[str, str]:
    """The statements of these files in the package's folder `sql`, by name."""
    text = "".join(_read(package, f"sql/{name}.sql") for name in files)
    parts = _HEADER.split(_expanded(text, records, dialect))[1:]
    statements: dict[str, str] = {}
    for name, alias, record, body in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        lines = (line for line in body.splitlines() if not line.lstrip().startswith("--"))
        sql = "\n".join(lines).strip().rstrip(";")
        statements[name] = _columns_of(alias, records[record], sql, dialect) if alias else sql
    return statements


def _expanded(text: str, records: Mapping[str, type[msgspec.Struct]], dialect: Dialect) -> str:
    """The text without records and macros. A pass expands those without other macros inside."""

    def expand(match: re.Match[str]) -> str:
        alias, name, most, argument = match.groups()
        if argument is not None and name in dialect.macros:
            macro = dialect.macros[name]
            return macro.format(*_PARTS.split(argument, 2)) if "{2}" in macro else macro.format(argument)
        if argument is not None or name not in records:
            return match[0]
        fields = records[name].__struct_fields__
        if alias:
            return ", ".join(f"{alias}.{field}" for field in fields)
        return ", ".join(_up_to_most(fields, dialect.size) if most else fields)

    while (expanded := _BRACES.sub(expand, text)) != text:
        text = expanded
    return text


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
