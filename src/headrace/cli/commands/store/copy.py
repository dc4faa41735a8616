"""`headrace copy`: moves all jobs to another store. The steps are in `app.transfer.move`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from headrace.app.config import find_settings, open_engine
from headrace.app.transfer.move import CopyPlan, CopyResult, StoreCopy, reopen
from headrace.app.transfer.pages import StoreContents
from headrace.app.transfer.preconditions import file_of
from headrace.app.transfer.verify import CopyVerification
from headrace.cli.commands.store.copy_progress import Progress
from headrace.cli.options import as_json_option, duration, example, shared, yes_option
from headrace.cli.output import Column, clean, confirm, print_facts, print_json, print_table, remark, say
from headrace.cli.session import Session
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError, EngineUnavailable

_MAX_LISTED = 20
_HOW_TO_CONTINUE = "jobs copied so far are safe: run the same command again to continue"


@click.command(
    "copy",
    epilog=example(
        "headrace copy sqlite:///jobs.db postgresql://shop@db/shop --dry-run",
        "headrace copy sqlite:///jobs.db postgresql://shop@db/shop --wait 2m",
        "headrace copy --reopen sqlite:///jobs.db",
    ),
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="[TO]", required=False)
@click.option("--dry-run", is_flag=True, help="Show what would be copied; change nothing.")
@click.option(
    "--wait",
    default="30",
    show_default=True,
    callback=duration,
    metavar="TIME",
    help="Time for running jobs to finish: seconds or 500ms, 10m. The rest is copied as after a crash.",
)
@click.option("--into-used", is_flag=True, help="Copy into a store that has jobs; ids that exist there are skipped.")
@click.option("--reopen", "reopening", is_flag=True, help="Reopen FROM for use after a copy.")
@yes_option
@as_json_option
@shared
@click.pass_obj
def copy(
    session: Session,
    source: str,
    target: str | None,
    dry_run: bool,
    wait: float,
    into_used: bool,
    reopening: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Move to another store: copy every job of FROM to TO, compare both, and open TO.

    FROM accepts and starts no jobs from the beginning of the copy. TO accepts new jobs at once, and its workers start
    when the copy is complete. After an interruption, the same command continues where it stopped.
    """
    _check_choice(session, target, dry_run or into_used, reopening)
    session.read_env_file()
    with ExitStack() as exit_stack:
        if reopening:
            return _reopen(_open(source, exit_stack), yes, as_json)
        progress = exit_stack.enter_context(Progress(quiet=as_json))
        engines = _open(source, exit_stack), _open(str(target), exit_stack, may_create=True)
        store_copy = StoreCopy(*engines, into_used=into_used, progress=progress.show)
        if dry_run:
            return _report_plan(*engines, store_copy.plan(), as_json)
        return _copy(store_copy, engines, wait, progress, as_json, has_password=_has_password(str(target)))


def _check_choice(session: Session, target: str | None, has_copy_options: bool, reopening: bool) -> None:
    if session.url or session.app:
        raise click.UsageError("copy takes both stores as FROM and TO; leave --url and --app out")
    if reopening and (target or has_copy_options):
        raise click.UsageError("--reopen takes FROM alone")
    if not reopening and not target:
        raise click.UsageError("give the target store: headrace copy FROM TO")


def _open(url: str, exit_stack: ExitStack, *, may_create: bool = False) -> Engine:
    engine = open_engine(find_settings({"url": url}).settings)
    exit_stack.callback(engine.close)
    path = file_of(engine)
    if path is not None and not may_create and not path.exists():
        raise ConfigError(f"there is no store at {path}")
    return engine


def _has_password(url: str) -> bool:
    return urlsplit(url).password is not None


@contextmanager
def _errors_say_how_to_continue() -> Iterator[None]:
    try:
        yield
    except EngineUnavailable as error:
        raise EngineUnavailable(f"{error}; {_HOW_TO_CONTINUE}") from error
    except KeyboardInterrupt:
        remark(_HOW_TO_CONTINUE)
        raise


# -- the plan


def _report_plan(source: Engine, target: Engine, plan: CopyPlan, as_json: bool) -> int:
    if as_json:
        facts = {"status": plan.copy_status, "target_has_tables": plan.has_tables}
        print_json({"from": source.url, "to": target.url, **facts, **_contents_record(plan.contents)})
        return 0
    columns = (Column("QUEUE", min_width=8), Column("STATE"), Column("JOBS", right=True))
    print_table(columns, [[count.queue, count.state, f"{count.jobs:,}"] for count in plan.contents.counts()])
    print_facts(_content_facts(plan.contents))
    _report_damage(plan.contents)
    if plan.copy_status == "done":
        say(_done_text(source, target))
        return 0
    if not plan.has_tables:
        say(f"{target.url} has no tables yet; the copy creates them")
    if plan.copy_status == "begun":
        say("an earlier copy was interrupted; this one continues it")
    say(f"this would be copied from {source.url} to {target.url}; nothing was changed")
    return 0


def _content_facts(contents: StoreContents) -> list[tuple[str, str]]:
    return [
        ("jobs", f"{contents.jobs:,}"),
        ("history entries", f"{contents.history:,}"),
        ("log lines", f"{contents.logs:,}"),
        ("dead letters", f"{contents.dead_letters:,}"),
        ("size", f"about {contents.bytes / 1e6:,.1f} MB"),
    ]


def _report_damage(contents: StoreContents) -> None:
    for record in contents.damaged[:_MAX_LISTED]:
        say(clean(f"damaged, copied as is: {record}"))
    if len(contents.damaged) > _MAX_LISTED:
        say(f"and {len(contents.damaged) - _MAX_LISTED:,} more are damaged; --json lists them")


def _contents_record(contents: StoreContents) -> dict[str, Any]:
    record = msgspec.structs.asdict(contents)
    record["by_queue_and_state"] = contents.counts()
    return record


# -- the copy


def _copy(
    store_copy: StoreCopy,
    engines: tuple[Engine, Engine],
    wait: float,
    progress: Progress,
    as_json: bool,
    *,
    has_password: bool,
) -> int:
    source, target = engines
    began = time.monotonic()
    if store_copy.copy_status() == "done":
        if as_json:
            print_json({"from": source.url, "to": target.url, "status": "done"})
        else:
            say(_done_text(source, target))
        return 0
    progress.note(f"closing {source.url}: it accepts and starts no more jobs")
    with _errors_say_how_to_continue():
        copied = store_copy.run(wait)
        verification = store_copy.verify()
        if not verification.different:
            store_copy.open()
    progress.close()
    seconds = time.monotonic() - began
    if as_json:
        print_json(
            {"from": source.url, "to": target.url, **_result(copied, verification), "seconds": round(seconds, 3)}
        )
    elif verification.different:
        _report_differences(source, target, verification)
    else:
        _report_end(source, target, copied, verification, seconds, has_password)
    return 1 if verification.different else 0


def _result(copied: CopyResult, verification: CopyVerification) -> dict[str, Any]:
    return {
        "status": "begun" if verification.different else "done",
        **_contents_record(verification.contents),
        "carried": copied.jobs,
        "already_there": copied.known,
        "still_running": sorted(copied.running),
        "taken": sorted(verification.taken),
        "kept": verification.kept,
        "different": verification.different,
        "differences": verification.differences,
    }


def _report_end(
    source: Engine,
    target: Engine,
    copied: CopyResult,
    verification: CopyVerification,
    seconds: float,
    has_password: bool,
) -> None:
    contents = verification.contents
    say(
        f"{contents.jobs:,} jobs with {contents.history:,} history entries, {contents.logs:,} log lines and "
        f"{contents.dead_letters:,} dead letters copied to {target.url} and compared, in {seconds:.1f} s"
    )
    if copied.known:
        say(f"{copied.known:,} of them were copied earlier")
    if verification.taken:
        say(
            f"{_jobs_were(len(verification.taken))} not copied, because the id exists there: "
            f"{_id_list(verification.taken)}"
        )
    for item in verification.kept[:_MAX_LISTED]:
        say(clean(f"{item.what} {item.id} was kept as it is there: it {item.how}"))
    if len(verification.kept) > _MAX_LISTED:
        say(f"and {len(verification.kept) - _MAX_LISTED:,} more were kept as they are there; --json lists them")
    _report_damage(contents)
    if copied.running:
        say(f"{_jobs_were(len(copied.running))} still running; the new store runs them again as after a crash")
    password_hint = ", with its password" if has_password else ""
    say(f"next: set HEADRACE_URL={target.url}{password_hint}, and restart the processes that use the old store")
    say(f"the old store stays closed: {source.url}")


def _report_differences(source: Engine, target: Engine, verification: CopyVerification) -> None:
    for difference in verification.differences:
        say(clean(str(difference)))
    if verification.different > len(verification.differences):
        say(f"and {verification.different - len(verification.differences):,} more")
    remark(
        f"error: {target.url} differs from {source.url}: {verification.different:,} differences. Both stay closed: "
        f"run the same command again, or accept the copy as it is with `headrace copy --reopen {target.url}`"
    )


def _done_text(source: Engine, target: Engine) -> str:
    return (
        f"nothing to do: the jobs of {source.url} were copied to {target.url} already, and it is in use; "
        f"set HEADRACE_URL={target.url}"
    )


def _jobs_were(count: int) -> str:
    return "1 job was" if count == 1 else f"{count:,} jobs were"


def _id_list(ids: set[str]) -> str:
    first = sorted(ids)[:5]
    return clean(", ".join(first)) + (", ..." if len(ids) > len(first) else "")


# -- reopening


def _reopen(engine: Engine, yes: bool, as_json: bool) -> int:
    store_status = engine.transfer.store_status()
    if store_status is not None and not yes:
        remark(_warning(store_status))
        confirm(f"reopen {engine.url}")
    reopen(engine)
    if as_json:
        print_json({"url": engine.url, "status": store_status})
    elif store_status is None:
        say(f"nothing to do: {engine.url} is open")
    else:
        say(f"{engine.url} is open again")
    return 0


def _warning(store_status: StoreStatus) -> str:
    if store_status.kind == "moved":
        return (
            f"jobs that were copied to {store_status.other} will exist twice, and unfinished ones "
            "will run at both stores"
        )
    return f"the copy from {store_status.other} may be incomplete"
