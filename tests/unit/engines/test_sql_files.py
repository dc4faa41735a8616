"""Named statements and migrations: read as written, fields by name, values never."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from headrace.engines.postgres import statements as postgres
from headrace.engines.shared.sql_files import Dialect, Migration, load_migrations, load_statements
from headrace.engines.sql import records
from headrace.engines.sqlite import archive, schema
from headrace.engines.sqlite import statements as sqlite
from headrace.engines.sqlite.statements import SQL


class Pair(Struct, array_like=True):
    id: str
    value: int


class Longer(Struct, array_like=True):
    id: str
    value_more: int
    value: int


RECORDS: dict[str, type[Struct]] = {"Pair": Pair, "Longer": Longer}
ENGINES = {"sqlite": (sqlite.DIALECT, (*sqlite.FILES, "archive")), "postgres": (postgres.DIALECT, postgres.FILES)}
ENGINES_FOLDER = Path(schema.__file__).parents[1]
Package = Callable[[dict[str, str]], str]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Makes an importable package of these files."""
    name = "a_package_of_statements"

    def make(files: dict[str, str]) -> str:
        for path, text in {"__init__.py": "", **files}.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        return name

    monkeypatch.syspath_prepend(tmp_path)
    yield make
    sys.modules.pop(name, None)


def load(package: Package, text: str) -> dict[str, str]:
    return load_statements(package({"sql/some.sql": text}), RECORDS, sqlite.DIALECT, ["some"])


def common_of(dialect: Dialect) -> dict[str, str]:
    return load_statements("headrace.engines.sql", records.RECORDS, dialect, (*records.COMMON, "archive"))


def own_of(engine: str) -> dict[str, str]:
    dialect, files = ENGINES[engine]
    return load_statements(f"headrace.engines.{engine}", records.RECORDS, dialect, files)


def in_one_line(sql: str) -> str:
    return " ".join(sql.split())


# -- statements


def test_statements_are_found_by_name_without_their_semicolon(package: Package) -> None:
    found = load(package, "-- name: one\nSELECT 1;\n\n-- name: two\nSELECT\n  2\n")
    assert found == {"one": "SELECT 1", "two": "SELECT\n  2"}


def test_comments_do_not_travel_with_the_statement(package: Package) -> None:
    text = "-- About this file.\n\n-- name: one\n-- why\nSELECT 1; \n\n-- The next part.\n\n-- name: two\nSELECT 2;\n"
    assert load(package, text) == {"one": "SELECT 1", "two": "SELECT 2"}


def test_a_batch_reads_its_fields_by_their_position(package: Package) -> None:
    found = load(package, "-- name: one (each o: Pair)\nSELECT o.id, o.value FROM json_each(:o) AS o")
    assert found["one"] == "SELECT json_extract(o.value, '$[0]'), json_extract(o.value, '$[1]') FROM json_each(:o) AS o"


def test_a_field_is_not_mistaken_for_one_that_starts_like_it(package: Package) -> None:
    found = load(package, "-- name: one (each o: Longer)\nSELECT o.value, o.value_more, foo.value, o.valued FROM o")
    assert (
        found["one"]
        == "SELECT json_extract(o.value, '$[2]'), json_extract(o.value, '$[1]'), foo.value, o.valued FROM o"
    )


def test_columns_of_json_each_that_are_no_field_stay_as_they_are(package: Package) -> None:
    found = load(package, "-- name: one (each o: Pair)\nSELECT o.key FROM json_each(:o) AS o ORDER BY o.key")
    assert found["one"] == "SELECT o.key FROM json_each(:o) AS o ORDER BY o.key"


def test_a_record_in_braces_becomes_its_fields(package: Package) -> None:
    assert load(package, "-- name: one\nSELECT json_array({Pair})") == {"one": "SELECT json_array(id, value)"}


def test_nothing_else_is_replaced(package: Package) -> None:
    sql = "SELECT '{Unknown} %s $1', :o, 'o.id' FROM t WHERE a = ?"
    assert load(package, f"-- name: one\n{sql}") == {"one": sql}


def test_a_macro_gets_its_argument_and_the_macros_and_records_in_it_come_first(package: Package) -> None:
    text = "-- name: one\nSELECT {rows {Pair}}, {list x}\nWHERE a {in\n  SELECT b WHERE {where} AND c {in_texts :n}}"
    assert load(package, text)["one"] == (
        "SELECT json_group_array(json_array(id, value)), json_group_array(x)"
        "\nWHERE a IN (SELECT b WHERE {where} AND c IN (SELECT value FROM json_each(:n)))"
    )


def test_a_lookup_gets_a_table_an_alias_and_a_condition(package: Package) -> None:
    text = "-- name: one (each o: Pair)\nSELECT 1 FROM {each o} {lookup jobs AS job ON job.id = CAST(o.value AS text)}"
    found = load_statements(package({"sql/some.sql": text}), RECORDS, postgres.DIALECT, ["some"])
    assert found["one"] == (
        "SELECT 1 FROM jsonb_array_elements(:o::jsonb) WITH ORDINALITY AS o(value, key)"
        " CROSS JOIN LATERAL (SELECT * FROM jobs AS job WHERE job.id = CAST((o.value ->> 1)::bigint AS text) OFFSET 0)"
        " AS job"
    )


def test_a_batch_statement_does_what_it_says(package: Package) -> None:
    text = "-- name: one (each o: Pair)\nSELECT o.id || ':' || o.value FROM json_each(:o) AS o ORDER BY o.key"
    sql = load(package, text)["one"]
    db = sqlite3.connect(":memory:")
    assert db.execute(sql, {"o": '[["b", 2], ["a", 1]]'}).fetchall() == [("b:2",), ("a:1",)]
    db.close()


def test_an_unknown_record_is_an_error_at_loading(package: Package) -> None:
    with pytest.raises(KeyError, match="Stranger"):
        load(package, "-- name: one (each o: Stranger)\nSELECT o.id")


# -- migrations


def test_migrations_come_in_the_order_of_their_numbers(package: Package) -> None:
    name = package(
        {
            "migrations/0010_ten.sql": "SELECT 10;",
            "migrations/0002_two.sql": "SELECT 2;",
            "migrations/0001_one_thing.sql": "SELECT 1;",
        }
    )
    assert load_migrations(name, ["0010_ten", "0001_one_thing", "0002_two"]) == [
        Migration(1, "one_thing", "SELECT 1;", 1),
        Migration(2, "two", "SELECT 2;", 2),
        Migration(10, "ten", "SELECT 10;", 10),
    ]


def test_a_migration_that_is_missing_is_an_error_at_loading(package: Package) -> None:
    name = package({"migrations/0001_one.sql": "SELECT 1;"})
    with pytest.raises(FileNotFoundError):
        load_migrations(name, ["0001_one", "0002_two"])


# -- what ships


@pytest.mark.parametrize("engine", ENGINES)
def test_every_statement_that_ships_is_whole_and_has_nothing_left_to_fill_in_but_rows_and_conditions(
    engine: str,
) -> None:
    shipped = {**common_of(ENGINES[engine][0]), **own_of(engine)}
    assert len(shipped) > 300
    for name, sql in shipped.items():
        assert sql, name
        assert sqlite3.complete_statement(sql + ";"), name
        assert re.findall(r"\{[^{}]*\w[^{}]*\}|--", sql.replace('{"$sealed"', "")) in ([], ["{rows}"], ["{where}"]), (
            name
        )


def test_an_engine_uses_the_common_statements_and_its_own() -> None:
    assert {**SQL, **archive.SQL}.keys() >= common_of(sqlite.DIALECT).keys() | own_of("sqlite").keys()
    assert postgres.statements_in("here").keys() >= common_of(postgres.DIALECT).keys() | own_of("postgres").keys()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_statement_is_common_or_the_engines_own(engine: str) -> None:
    assert common_of(ENGINES[engine][0]).keys() & own_of(engine).keys() == set()


def test_what_both_engines_say_alike_is_common() -> None:
    own, other = own_of("sqlite"), own_of("postgres")
    assert [name for name in own.keys() & other.keys() if in_one_line(own[name]) == in_one_line(other[name])] == []


@pytest.mark.parametrize("folder", ["sql", *ENGINES])
def test_every_file_of_statements_that_ships_is_listed(folder: str) -> None:
    listed = ENGINES[folder][1] if folder in ENGINES else (*records.COMMON, "archive")
    assert sorted(listed) == sorted(file.stem for file in (ENGINES_FOLDER / folder / "sql").glob("*.sql"))


@pytest.mark.parametrize("folder", ["sql", *ENGINES])
def test_a_name_stands_once_in_the_files_of_a_folder(folder: str) -> None:
    texts = (file.read_text("utf-8") for file in (ENGINES_FOLDER / folder / "sql").glob("*.sql"))
    names = [name for text in texts for name in re.findall(r"^-- name: (\w+)", text, re.MULTILINE)]
    assert sorted(set(names)) == sorted(names)


def test_every_migration_file_that_ships_is_listed() -> None:
    folder = Path(schema.__file__).with_name("migrations")
    listed = [f"{migration.version:04d}_{migration.name}.sql" for migration in schema.MIGRATIONS]
    assert listed == sorted(file.name for file in folder.glob("*.sql"))
    assert [migration.version for migration in schema.MIGRATIONS] == list(range(1, schema.CURRENT + 1))
