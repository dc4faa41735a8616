"""The documentation tells the truth: examples run, commands exist, tables are complete, links lead somewhere.

Pages are read with `docs.tools`. A page's Python blocks run in a process of its own, in an empty folder, on a store
of its own, so that nothing of one page helps another. URLs of servers lead to the servers of the tests; pages that
need an engine which is not tested in this run are left out.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
from _pytest.mark import ParameterSet

import headrace
import headrace.testing
from docs.tools.generate import every_command, generated
from docs.tools.page import ROOT, Block, Page, anchor, pages, table_rows
from docs.tools.run import run
from docs.tools.stand_ins import engines_in, on_real_servers
from headrace import Headrace, Retry, errors
from headrace.app.admin.admin import Admin
from headrace.app.breakers import Breakers
from headrace.app.config import open_engine
from headrace.app.dead_letters.dead import Dead
from headrace.app.flows import Flows
from headrace.app.jobs.jobs import Jobs
from headrace.app.metrics.metrics import Metrics
from headrace.app.services.filters import _NAMES as FILTERS
from headrace.cli.root import root
from headrace.cli.session import Session
from headrace.core.codec.decode import _READ
from headrace.core.dead_letters.records import REASONS
from headrace.core.jobs.states import State, Trigger, diagram
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.settings.settings import Settings, resolve
from headrace.core.tasks.options import OPTION_NAMES
from headrace.engines.redis.schema import MIGRATIONS as REDIS_MIGRATIONS
from headrace.engines.redis.store_url import parse as parse_redis
from headrace.engines.sqlite_file.database import SqliteDatabase
from headrace.errors import ConfigError
from headrace.runtime.jobs.async_twin import twin
from tests.support.cases import check_each
from tests.support.engines import KINDS

PAGES = {page.name: page for page in pages()}
REFERENCE = {name: PAGES[f"docs/reference/{name}.md"] for name in ("api", "cli", "errors", "settings", "states")}
REFERENCE |= {name: PAGES[f"docs/reference/{name}.md"] for name in ("storage", "testing")}
LANGUAGES = {"python", "console", "text", "toml", "ini", "mermaid", "sql", "json", "typescript"}
TOOLS = {"cd", "curl", "export", "kill", "make", "pg_dump", "pg_restore", "pip", "python", "redis-cli", "sqlite3"}
TOOLS |= {"cp", "docker", "kubectl", "systemctl"}
PATIENCE = 90.0


# -- examples


def run_page(path: Path) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    places = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **servers_for(engines_of(Page(path)))}
    command = [sys.executable, "-W", "error", "-m", "docs.tools.run", str(path)]
    # Not pytest's folder: its long name would leave no room for the address of a socket.
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        return subprocess.run(
            command, cwd=folder, env=outside | places, capture_output=True, text=True, timeout=PATIENCE, check=False
        )


def engines_of(page: Page) -> set[str]:
    return engines_in("".join(block.text for block in page.blocks if block.language == "python"))


def servers_for(engines: set[str]) -> dict[str, str]:
    """The servers of this run, as a page's process is told them: else each would start its own."""
    if not engines:
        return {}
    from tests.support import servers  # a run on SQLite alone needs neither it nor its drivers

    urls = {"postgres": servers.postgres_url, "redis": servers.redis_url}
    return {f"HEADRACE_TEST_{name.upper()}": urlsplit(urls[name]())._replace(query="").geturl() for name in engines}


def with_python() -> list[str]:
    found = [name for name, page in PAGES.items() if any(block.language == "python" for block in page.blocks)]
    return [name for name in found if engines_of(PAGES[name]) <= set(KINDS)]


def examples() -> list[ParameterSet]:
    """Those that everybody reads first; the others take a while."""
    first = ("README.md", "docs/tutorial.md")
    return [pytest.param(name, marks=() if name in first else pytest.mark.slow) for name in with_python()]


@pytest.mark.parametrize("name", examples())
def test_every_python_example_runs_and_gives_what_the_page_says(name: str) -> None:
    done = run_page(PAGES[name].path)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    unexpected = [above for above, line in itertools.pairwise(lines) if line.startswith("Traceback")]
    assert all("failed" in line for line in unexpected), done.stderr  # the stack of an attempt follows its line


def test_no_example_uses_a_name_it_does_not_have(tmp_path: Path) -> None:
    """Running it would not always tell: a line may be reached only when a machine is slow."""
    for name in with_python():
        for block in PAGES[name].blocks:
            if block.language == "python":
                with (tmp_path / f"{name}-{block.file or ''}.py".replace("/", "-")).open("a") as file:
                    file.write(block.text)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F823", "--output-format=concise"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 + 1  # -> 3", "line 2 promises 3, but it is 2"),
        ("print('a', 'b')  # -> b", "line 2 promises b, but it prints a b"),
        ("with open(__import__('os').devnull):\n    1  # -> 2", "line 3 promises 2, but it is 1"),
        ("one = 1  # -> 1", "must stand behind an expression"),
        ("def test_it():\n    assert False, 'not so'", "not so"),
        ("raise KeyError('gone')", "gone"),
    ],
)
def test_an_example_that_is_not_true_is_found(tmp_path: Path, text: str, told: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```python\n{text}\n```\n", "utf-8")
    done = run_page(page)
    assert done.returncode != 0
    assert told in done.stderr


def test_an_example_may_leave_out_what_varies_and_spread_over_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "<!-- file: spread_out.py -->\n```python\n{}\n```\n"
    lines = [text.format("one = 1"), "```python\nimport spread_out\n```\n", text.format("two = one + 1")]
    lines.append("```python\nf'{spread_out.two} of many'  # -> '2 ... many'\n```\n")
    (tmp_path / "page.md").write_text("\n".join(lines), "utf-8")
    assert run(Page(tmp_path / "page.md")) == 4
    assert (tmp_path / "spread_out.py").read_text("utf-8") == "one = 1\ntwo = one + 1\n"


@pytest.mark.engines("postgres", "redis")
def test_an_example_that_names_a_server_gets_a_real_one_to_itself(engine_name: str) -> None:
    scheme = {"postgres": "postgresql", "redis": "redis"}[engine_name]
    text = on_real_servers(f'"{scheme}://nobody@nowhere.example/0?prefix=theirs", "memory://"')
    served, memory = ast.literal_eval(text)
    assert "nowhere" not in served
    assert "theirs" not in served or engine_name == "postgres"
    assert memory == "memory://"


@pytest.mark.engines("postgres")
def test_every_query_on_the_pages_runs(engine_name: str) -> None:
    from tests.support import servers

    blocks = [(name, block) for name, page in PAGES.items() for block in page.blocks if block.language == "sql"]
    url = servers.postgres_url(own_database=True)
    with Headrace(f"{url}?schema=jobs") as app:
        app.enqueue("task")
        db = servers.postgres_connection(url)

        def check(place: tuple[str, Block]) -> None:
            for statement in filter(str.strip, place[1].text.split(";")):
                assert db.execute(statement).rowcount >= 0

        check_each(blocks, check)
    servers.drop(url)


def test_no_block_is_of_a_kind_that_nobody_checks() -> None:
    kinds = {(name, block.language) for name, page in PAGES.items() for block in page.blocks}
    assert {kind for kind in kinds if kind[1] not in LANGUAGES} == set()


def test_settings_in_examples_are_valid() -> None:
    def check(name: str) -> None:
        for block in PAGES[name].blocks:
            if block.language == "toml":
                values = tomllib.loads(block.text)
                assert resolve({}, {}, values.get("tool", {}).get("headrace", values), "the example").origin

    check_each([name for name, page in PAGES.items() if any(b.language == "toml" for b in page.blocks)], check)


URLS = re.compile(r"""\b(?:sqlite|memory|postgres\w*|rediss?(?:\+\w+)?|valkeys?|unix)://[^\s`"')|]*""")


def store_urls() -> Iterator[tuple[str, str]]:
    for name, page in PAGES.items():
        for found in URLS.findall("\n".join(page.lines)):
            if "..." not in found and not found.endswith("//"):
                yield name, found.rstrip(".,;")


def test_every_url_of_a_store_on_the_pages_can_be_used() -> None:
    wrong, found = [], set(store_urls()) | {("", "memory://")}
    assert len(found) > 20
    for where, url in sorted(found):
        try:
            open_engine(Settings(url=url)).close()
        except ConfigError as error:
            wrong.append(f"{where}: {error}")
    assert wrong == []


# -- commands


def commands() -> Iterator[tuple[str, list[str]]]:
    """Everything on the pages that one could type, with where it stands."""
    for name, page in PAGES.items():
        yield from ((f"{name}:{line}", words) for line, words in page.commands())
        yield from ((f"{name} `{span}`", shlex.split(span)) for span in page.spans if span.startswith("headrace "))
        for block in page.blocks:
            for started in re.findall(r"^ExecStart=\S*/(headrace .*)$", block.text, re.MULTILINE):
                yield f"{name} ExecStart", shlex.split(started)


def parse(arguments: list[str]) -> click.Context:
    """Parse down to the command, without running any."""
    context = root.make_context("headrace", list(arguments), obj=Session())
    while isinstance(context.command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def ensure_command(words: list[str]) -> None:
    """Raise if there is no such command, or it has no such option."""
    if words[0] == "headrace":
        # A sentence may name a command without its arguments.
        for given in ([], ["x"], ["x", "1"]):
            try:
                parse([*words[1:], *given])
                break
            except click.MissingParameter:
                if len(given) == 2:
                    raise
    elif words[0] == "make":
        assert set(words[1:]) <= targets(), f"make has no target {words[1:]}"
    else:
        assert words[0] in TOOLS, f"what is {words[0]!r}?"


def test_every_command_on_the_pages_exists_with_these_options() -> None:
    wrong, found = [], list(commands())
    assert len(found) > 100
    for where, words in found:
        try:
            ensure_command(words)
        except (click.ClickException, AssertionError) as error:
            wrong.append(f"{where}: {getattr(error, 'message', error)}")
    assert wrong == []


@pytest.mark.parametrize(
    "words", [["headrace", "wrk"], ["headrace", "jobs", "--sate", "failed"], ["make", "coffee"], ["headrase"]]
)
def test_a_command_that_does_not_exist_is_found(words: list[str]) -> None:
    with pytest.raises((click.ClickException, AssertionError)):
        ensure_command(words)


def test_the_reference_has_every_command_with_every_option() -> None:
    cli = REFERENCE["cli"]
    titles = {title for _, title in cli.headings}
    for path, command in every_command():
        words = " ".join(path)
        assert path == ("headrace",) or f"`{words}`" in titles, f"{words} is missing"
        told = cli.prose if path == ("headrace",) else cli.section(f"`{words}`")
        for name in (name for parameter in command.params for name in parameter.opts if name.startswith("-")):
            assert f"`{name}`" in told or f"`{name}`" in cli.prose.partition("## Commands")[0], f"{words} {name}"


# -- what is made from the code


def test_generated_parts_are_up_to_date() -> None:
    def check(name: str) -> None:
        page = PAGES[name]
        told = page.path.read_text("utf-8")
        assert told == generated(page), "run: python -m docs.tools.generate"

    check_each(PAGES, check)


def test_the_diagram_of_states_is_the_one_the_code_works_with() -> None:
    drawn = [block.text.strip() for block in REFERENCE["states"].blocks if block.language == "mermaid"]
    assert drawn == [diagram()]


def test_every_state_and_event_is_explained() -> None:
    explained = {cell for row in table_rows(REFERENCE["states"].prose) for cell in row[:1]}
    assert {f"`{name}`" for name in (*State, *Trigger)} <= explained


def test_every_reason_of_a_failure_is_explained() -> None:
    rows = table_rows(REFERENCE["states"].section("Reasons"))
    explained = {match[1] for row in rows if row[0] == "`failed`" and (match := re.match(r"`(\w+)`", row[1]))}
    assert explained >= set(REASONS)


def test_every_reason_that_the_code_writes_is_known() -> None:
    """As far as its text tells: the reason is a literal of a call that fails a job or refuses a claim."""
    written = set()
    for path in (ROOT / "src" / "headrace").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
                "fail",
                "Refusal",
            ):
                written |= {
                    arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                }
    assert written <= set(REASONS)
    assert len(written) >= 4


# -- tables that must be complete


def test_every_setting_is_listed_with_its_default() -> None:
    defaults = Settings()
    rows = table_rows(REFERENCE["settings"].section("All settings"))
    listed = [(row[0].strip("`"), row[1].strip("`")) for row in rows]
    assert listed == [(name, as_written(getattr(defaults, name))) for name in Settings.__struct_fields__]


def as_written(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def test_every_option_of_a_task_is_listed() -> None:
    rows = table_rows(REFERENCE["api"].section("Options"))
    assert sorted(row[0].strip("`") for row in rows) == sorted(OPTION_NAMES)


def test_no_route_of_an_example_lies_where_another_example_mounts_the_dashboard() -> None:
    texts = [page.path.read_text("utf-8") for page in pages()]
    mounts = {found for text in texts for found in re.findall(r"""mount\(\s*"(/[\w-]+)\"""", text, re.IGNORECASE)}
    routes = {found for text in texts for found in re.findall(r"""@web\.(?:get|post)\("(/[^"]+)\"""", text)}
    assert mounts
    assert routes
    assert {route for route in routes for mount in mounts if f"{route}/".startswith(f"{mount}/")} == set()


def test_the_pages_agree_on_when_a_job_that_kills_its_workers_is_given_up() -> None:
    most = Settings().max_crashes or 0
    number, ordinal = {3: ("three", "third")}[most]
    assert most < Retry().max_attempts, "else the attempts would be used up before"
    told = {name: " ".join(PAGES[f"docs/{name}.md"].prose.split()) for name in ("how-to/staleness", "how-to/retries")}
    assert f"A job that lost {number} workers in a row" in told["how-to/staleness"]
    assert f"when {number} workers died under it" in told["how-to/retries"]
    assert f"if it was the {ordinal} worker" in " ".join(PAGES["docs/discussion/guarantees.md"].prose.split())


def test_every_exception_is_explained() -> None:
    known = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    prose = REFERENCE["errors"].prose
    public = {name for name in known if not name.startswith("_")}
    assert {name for name in public if not re.search(rf"`{name}\b", prose)} == set()


def test_the_tree_of_exceptions_names_the_bases_they_have() -> None:
    [tree] = [block.text for block in REFERENCE["errors"].blocks if "HeadraceError" in block.text]
    for line in tree.splitlines():
        if match := re.match(r"[│├└─ ]*(\w+) \((\w+)\)", line):
            assert issubclass(getattr(errors, match[1]), getattr(builtins, match[2])), line


def test_every_public_name_is_in_the_reference() -> None:
    told = REFERENCE["api"].prose + REFERENCE["errors"].prose
    assert {name for name in headrace.__all__ if not re.search(rf"`{name}\b", told)} == set()


def test_every_name_of_headrace_that_is_told_anywhere_can_be_imported() -> None:
    """In the pages and in the comments and docstrings of the code, as `headrace.X` or `from headrace import X`."""
    texts = [page.path.read_text("utf-8") for page in pages()]
    texts += [path.read_text("utf-8") for path in Path(headrace.__file__).parent.rglob("*.py")]
    told: set[str] = set()
    for text in texts:
        told.update(re.findall(r"\bheadrace\.([A-Z]\w*[a-z]\w*)", text))
        for several, one in re.findall(r"^\s*from headrace import (?:\(([^)]*)\)|([^(#\n]+))", text, re.MULTILINE):
            told.update(re.findall(r"(\w+)(?: as \w+)?", re.sub(r" as \w+", "", several or one)))
    assert {"Headrace", "InvalidJob", "Retry"} <= told
    assert {name for name in told if not hasattr(headrace, name)} == set()
    kinds = {
        name for name, kind in vars(errors).items() if inspect.isclass(kind) and kind.__module__ == errors.__name__
    }
    assert {name for name in kinds if not name.startswith("_")} <= {*headrace.__all__}


def test_a_name_the_reference_offers_can_be_imported() -> None:
    offered = {row[0] for row in table_rows(REFERENCE["api"].prose.partition("## Headrace")[0])}
    names = {name for cell in offered for name in re.findall(r"`(\w+)`", cell)}
    assert len(names) > 50
    assert {name for name in names if not hasattr(headrace, name)} == set()


# -- signatures

CLASSES: dict[str, type] = {
    "Headrace": Headrace,
    "Task": headrace.Task,
    "Job": headrace.Job,
    "Jobs": Jobs,
    "Queue": headrace.Queue,
    "Worker": headrace.Worker,
    "JobContext": headrace.JobContext,
    "Flow": headrace.Flow,
    "FlowRun": headrace.FlowRun,
    "Flows": Flows,
    "Dead": Dead,
    "Admin": Admin,
    "Metrics": Metrics,
    "Breaker": headrace.Breaker,
    "Breakers": Breakers,
}
RECORDS: tuple[str, ...] = (
    "Retry",
    "Unique",
    "Cache",
    "Call",
    "Finding",
    "Backup",
    "Restored",
    "QueueStats",
    "QueueRules",
    "TaskRules",
    "TaskStats",
    "WorkerInfo",
    "HistoryEntry",
    "AttemptError",
)
RECORDS += ("BreakerStatus", "LogEntry", "Schedule", "ScheduleRun", "ParentFailure")
RECORDS += ("DeadLetter", "DeadNote", "DeadGroup", "DeadStats", "RequeueResult", "BulkRequeue")
# For other parts of headrace, not for users.
INNER = {
    "Headrace": {"on_another_store", "intercepting", "reset_after_fork", "trace"},
    "Worker": {"describe", "held", "drop", "apply_command", "now", "note", "renew", "steps", "save_step"},
    "JobContext": {
        "relay",
        "still_held",
        "add_stop_reason",
        "note_timeout",
        "step_store",
        "stream_limits",
        "enclosed",
        "claim",
        "add_line",
        "exceeded",
    },
    "Task": {"submits"},
}


def members(cls: type) -> dict[str, str]:
    """The public members as the reference should write them; twins as bare names."""
    found = {}
    own = [vars(each) for each in reversed(cls.__mro__) if each.__module__.startswith("headrace.")]
    for name, value in ((name, value) for each in own for name, value in each.items()):
        if not name.startswith("_") and name not in INNER.get(cls.__name__, ()):
            is_method = inspect.isfunction(value) and not _is_twin(name, cls)
            found[name] = f"{name}{signature(value)}" if is_method else name
    return found


def _is_twin(name: str, cls: type) -> bool:
    return isinstance(inspect.getattr_static(cls, name), twin) or (name.startswith("a") and hasattr(cls, name[1:]))


def signature(function: Any, *, bound: bool = True) -> str:
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    text = str(inspect.Signature(bare)).replace("10_000", "10000")
    return re.sub(r"<class '(\w+)'>", r"\1", text)


def test_the_reference_lists_every_member_with_its_signature() -> None:
    def check(name: str) -> None:
        section = REFERENCE["api"].section(name)
        spans = set(re.findall(r"`([^`\n]+)`", section))
        assert {told for told in members(CLASSES[name]).values() if told not in spans} == set()

    check_each(CLASSES, check)


def test_the_reference_lists_no_member_that_is_not_there() -> None:
    def check(name: str) -> None:
        cells = [row[0] for row in table_rows(REFERENCE["api"].section(name)) if row[0].startswith("`")]
        told = {span for cell in cells for span in re.findall(r"`([^`]+)`", cell)}
        allowed = set(members(CLASSES[name]).values()) | (set(FILTERS) if name == "Jobs" else set())
        assert told
        assert told - allowed == set()

    check_each(CLASSES, check)


def test_the_reference_lists_every_field_of_a_record() -> None:
    def check(name: str) -> None:
        section = REFERENCE["api"].section(name)
        fields = getattr(headrace, name).__struct_fields__
        assert {field for field in fields if f"`{field}`" not in section} == set()

    check_each(RECORDS, check)


def test_the_way_to_make_an_app_and_a_retry_is_told_as_it_is() -> None:
    prose = REFERENCE["api"].prose
    assert f"`Headrace{signature(Headrace.__init__)}`" in prose
    told = re.search(r"`Retry\((limit=.*)\)`", prose)
    assert told is not None
    call = ast.parse(f"Retry({told[1]})", mode="eval").body
    assert isinstance(call, ast.Call)
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    default = headrace.Retry()
    assert given == {field: getattr(default, field) for field in headrace.Retry.__struct_fields__}


def test_the_testing_kit_is_listed_with_its_signatures() -> None:
    cells = [row[0].strip("`") for row in table_rows(REFERENCE["testing"].prose) if "(" in row[0]]
    listed = dict(cell.split("(", 1) for cell in cells)
    assert sorted(listed) == sorted(headrace.testing.__all__)
    for name, rest in listed.items():
        thing = getattr(headrace.testing, name)
        is_class = inspect.isclass(thing)
        assert f"({rest}" == signature(thing.__init__ if is_class else thing, bound=is_class), name


# -- what is stored


def sqlite_columns(folder: Path) -> dict[str, set[str]]:
    with Headrace(f"sqlite:///{folder / 'jobs.db'}") as app:
        app.queues()
        assert app.engine.archive is not None
        [*_, partition] = app.engine.archive.update_partitions(app.clock.now(), "weekly", None).created
    found: dict[str, set[str]] = {}
    for path in (folder / "jobs.db", folder / "jobs.db.d" / "archive" / f"{partition}.db"):
        with closing(sqlite3.connect(path)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            found |= {table: {row[1] for row in db.execute(f"PRAGMA table_info({table})")} for table in tables}
    return found


def postgres_columns() -> dict[str, set[str]]:
    from tests.support import servers

    url = servers.postgres_url()
    with Headrace(url) as app:
        app.queues()
    schema = url.partition("schema=")[2]
    found: dict[str, set[str]] = {}
    asked = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s"
    for table, column in servers.postgres_connection(url).execute(asked, [schema]):
        found.setdefault(table, set()).add(column)
    servers.drop(url)
    assert found.pop("headrace_archive_default") == found["headrace_archive"]
    return found


@pytest.mark.engines("sqlite", "postgres")
def test_every_table_and_column_is_explained(engine_name: str, tmp_path: Path) -> None:
    tables = sqlite_columns(tmp_path) if engine_name == "sqlite" else postgres_columns()
    for table, columns in tables.items():
        rows = [row for row in storage_rows(f"`{table}`") if is_about(row, engine_name)]
        assert {column for row in rows for column in re.findall(r"`(\w+)`", row[0])} == columns, table
    explained = {title for level, title in REFERENCE["storage"].headings if level == 3}
    of_others = {title for title in explained if not any(is_about(row, engine_name) for row in storage_rows(title))}
    assert {f"`{table}`" for table in tables} == explained - of_others


def storage_rows(title: str) -> list[list[str]]:
    return table_rows(REFERENCE["storage"].section(title))


def is_about(row: list[str], engine: str) -> bool:
    others = {"postgres": "SQLite only", "sqlite": "PostgreSQL only"}
    return others[engine] not in row[-1]


def keys_explained() -> set[str]:
    cells = [row[0] for row in table_rows(REFERENCE["storage"].section("Keys of Redis"))]
    return {key for cell in cells for key in re.findall(r"`\{p\}:([^`]+)`", cell)}


def test_the_keys_of_redis_are_those_that_its_scripts_begin_with() -> None:
    library = (ROOT / "src/headrace/engines/redis/scripts/lib/base.lua").read_text("utf-8")
    head = library.partition("\nlocal ")[0]
    listed = re.findall(
        r"\{p\}:([a-z_]+(?::(?:<\w+>|[a-z_]+))*)", "\n".join(re.findall(r"^--   (\{p\}.*)$", head, re.MULTILINE))
    )
    assert len(listed) > 20
    assert {re.sub(r"<(\w+)>", lambda match: match[1].upper(), key) for key in listed} == keys_explained()


@pytest.mark.engines("redis")
def test_every_key_in_a_redis_store_is_explained(engine_name: str) -> None:
    from tests.support import servers

    def fail() -> None:
        headrace.current_job().log("about to fail")
        raise headrace.PermanentError("it failed")

    url = servers.redis_url()
    with Headrace(url) as app:
        task = app.task(fail).using(tags=["tag"])
        with app.worker():
            assert task.enqueue().wait(PATIENCE) == State.FAILED
        task.using(delay=60, expires=3600).enqueue()
        app.queue("paused").pause()
        app.engine.transfer.set_status(StoreStatus("arriving", "elsewhere", 1))
    prefix = "{" + url.partition("prefix=")[2] + "}:"
    keys: list[Any] = list(servers.redis_connection(url).keys(f"{prefix}*"))
    found = {key.decode().removeprefix(prefix) for key in keys}
    servers.drop(url)
    patterns = [re.sub(r"[A-Z]+", ".+", key) for key in keys_explained()]
    assert {"status", "dead_letters", "paused", "tag:tag"} <= found
    assert {key for key in found if not any(re.fullmatch(pattern, key) for pattern in patterns)} == set()


def test_every_migration_is_told() -> None:
    rows = table_rows(REFERENCE["storage"].section("Migrations"))
    told = [(row[0], row[1].strip("`")) for row in rows]
    known = [("Redis", name) for name in REDIS_MIGRATIONS]
    for store, engine in (("SQLite", "sqlite"), ("PostgreSQL", "postgres")):
        files = (ROOT / "src/headrace/engines" / engine / "migrations").glob("*.sql")
        known += [(store, file.stem) for file in files]
    assert sorted(told) == sorted(known)


# -- servers

POSTGRES, REDIS = PAGES["docs/how-to/postgresql.md"], PAGES["docs/how-to/redis.md"]


def parameters_in(page: Page) -> dict[str, str]:
    rows = [row for row in table_rows(page.section("The URL")) if len(row) == 3]
    return {name: row[1].strip("`") for row in rows for name in re.findall(r"`(\w+)`", row[0])}


def test_every_parameter_of_a_postgresql_url_is_listed_with_its_default() -> None:
    source = (ROOT / "src/headrace/engines/postgres/store_url.py").read_text("utf-8")
    assert parameters_in(POSTGRES) == dict(re.findall(r'given\.pop\("(\w+)", "(\w+)"\)', source))


def test_every_parameter_of_a_redis_url_is_listed_with_its_default() -> None:
    known: set[str] = set()
    for scheme, rest in {"redis": "h", "rediss": "h", "unix": "/r.sock", "redis+sentinel": "h/name"}.items():
        with pytest.raises(ConfigError) as caught:
            parse_redis(f"{scheme}://{rest}?nonsense=1")
        known |= set(str(caught.value).partition("known are ")[2].split(", "))
    told = parameters_in(REDIS)
    assert set(told) == known
    address = parse_redis("redis://host")
    defaults = {name: getattr(address, name, None) for name in told}
    assert {name: as_written(value) for name, value in defaults.items()} == told


@pytest.mark.parametrize(("page", "engine"), [(POSTGRES, "postgres"), (REDIS, "redis")], ids=["postgres", "redis"])
def test_the_doctor_says_what_the_pages_say_it_does(page: Page, engine: str) -> None:
    places = (f"engines/{engine}/health.py", f"engines/{engine}/maintenance.py", "core/health/findings.py")
    source = "".join((ROOT / "src/headrace" / place).read_text("utf-8") for place in places)
    joined = re.sub(r'"\s+f?"', "", source)  # sentences that are spread over lines
    told = [words for row in table_rows(page.prose) for words in re.findall(r'^"([^"]+)"', row[0])]
    assert len(told) > 5
    assert [words for words in told if words not in joined] == []


def test_the_times_that_redis_keeps_jobs_are_told_as_they_are() -> None:
    usual = Settings()
    kept = {"completed": usual.keep_completed, "cancelled": usual.keep_cancelled, "failed": usual.keep_failed}
    days = {state: (seconds or 0) / 86_400 for state, seconds in kept.items()}
    section = " ".join(REDIS.section("How long jobs are kept").split())
    told = re.search(r"completed and cancelled ones (\d+) days after their end, failed ones after (\d+)", section)
    assert told is not None
    assert days == {"completed": int(told[1]), "cancelled": int(told[1]), "failed": int(told[2])}


def test_every_tag_of_the_payload_format_is_explained() -> None:
    rows = table_rows(REFERENCE["storage"].section("The payload format"))
    assert [row[0].strip("`") for row in rows] == list(_READ)


def test_the_pragmas_in_the_discussion_are_those_of_the_writing_connection(tmp_path: Path) -> None:
    rows = table_rows(PAGES["docs/discussion/sqlite.md"].section("Settings of the connection"))
    told = {row[0].strip("`"): row[1].split(",")[0].strip("`") for row in rows}
    names = {"WAL": "wal", "NORMAL": 1, "ON": 1, "MEMORY": 2, "not set": 0, "5000 ms": 5000, "4000 pages": 4000}
    store = SqliteDatabase(tmp_path / "jobs.db")
    with store.writing() as db:
        found = {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in told}
    store.close()
    assert found == {name: names[value] if value in names else int(value) for name, value in told.items()}


# -- links


def test_every_link_leads_somewhere() -> None:
    def check(name: str) -> None:
        page = PAGES.get(name) or Page(ROOT / name)
        broken = [link for link in page.links if not link.startswith("https://") and not leads_somewhere(page, link)]
        assert broken == []

    check_each([*PAGES, "CHANGELOG.md", "CONTRIBUTING.md"], check)


def leads_somewhere(page: Page, link: str) -> bool:
    path, _, fragment = link.partition("#")
    target = (page.path.parent / path).resolve() if path else page.path
    if not target.is_file():
        return False
    return not fragment or fragment in Page(target).anchors


def test_every_page_can_be_found_from_the_index() -> None:
    index = PAGES["docs/index.md"]
    linked = {(index.path.parent / link.partition("#")[0]).resolve() for link in index.links}
    missing = {name for name, page in PAGES.items() if page.path.resolve() not in linked and page is not index}
    assert missing == {"README.md"}


def test_a_page_has_one_title_and_no_two_headings_of_one_name() -> None:
    def check(name: str) -> None:
        headings = PAGES[name].headings
        assert [level for level, _ in headings].count(1) == 1
        anchors = [anchor(title) for _, title in headings]
        assert len(anchors) == len(set(anchors))

    check_each(PAGES, check)
