"""`headrace copy`: moving to another store, and what is told on the way. The steps are in `app.moving`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from headrace.app.config import find_settings, open_engine
from headrace.app.transfer.move import CopyPlan, CopyResult, StoreCopy, file_of, reopen
from headrace.app.transfer.pages import StoreContents
from headrace.app.transfer.verify import CopyVerification
from headrace.cli.commands.copy_progress import Progress
from headrace.cli.options import as_json_option, duration, example, shared, yes_option
from headrace.cli.output import Column, clean, confirm, print_facts, print_json, print_table, remark, say
from headrace.cli.session import Session
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError, EngineUnavailable

_KEPT_TOLD = 20
_GO_ON = "what was carried is safe: run the same command again, and it goes on from there"


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
@click.option("--dry-run", is_flag=True, help="Tell what would be carried, and change nothing.")
@click.option(
    "--wait",
    default="30",
    show_default=True,
    callback=duration,
    metavar="TIME",
    help="How long running jobs may take to end: seconds or 500ms, 10m. The rest is carried as after a crash.",
)
@click.option("--into-used", is_flag=True, help="Add to a store that has jobs; an id that is there is not carried.")
@click.option("--reopen", "reopening", is_flag=True, help="Bring FROM back into use: take its notice down.")
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
    """Move to another store: carry every job of FROM to TO, compare them, and open TO.

    From the beginning on nothing is enqueued or started at FROM; TO takes new jobs at once, and its workers begin when
    all is there. If it is cut off, the same command goes on where it stopped.
    """
    _check_choice(session, target, dry_run or into_used, reopening)
    with ExitStack() as opened:
        if reopening:
            return _reopen(_open(source, opened), yes, as_json)
        progress = opened.enter_context(Progress(quiet=as_json))
        engines = _open(source, opened), _open(str(target), opened, may_create=True)
        move = StoreCopy(*engines, into_used=into_used, progress=progress.show)
        if dry_run:
            return _tell_plan(*engines, move.plan(), as_json)
        return _carry(move, engines, wait, progress, as_json, has_password=_has_password(str(target)))


def _check_choice(session: Session, target: str | None, about_a_copy: bool, reopening: bool) -> None:
    if session.url or session.app:
        raise click.UsageError("copy is told both stores as FROM and TO; leave --url and --app out")
    if reopening and (target or about_a_copy):
        raise click.UsageError("--reopen takes FROM alone")
    if not reopening and not target:
        raise click.UsageError("say where to carry the jobs: headrace copy FROM TO")


def _open(url: str, opened: ExitStack, *, may_create: bool = False) -> Engine:
    engine = open_engine(find_settings({"url": url}).settings)
    opened.callback(engine.close)
    path = file_of(engine)
    if path is not None and not may_create and not path.exists():
        raise ConfigError(f"there is no store at {path}")
    return engine


def _has_password(url: str) -> bool:
    return urlsplit(url).password is not None


@contextmanager
def _telling_how_to_go_on() -> Iterator[None]:
    try:
        yield
    except EngineUnavailable as error:
        raise EngineUnavailable(f"{error}; {_GO_ON}") from error
    except KeyboardInterrupt:
        remark(_GO_ON)
        raise


# -- the plan


def _tell_plan(source: Engine, target: Engine, plan: CopyPlan, as_json: bool) -> int:
    if as_json:
        facts = {"standing": plan.standing, "target_has_tables": plan.has_tables}
        print_json({"from": source.url, "to": target.url, **facts, **_told(plan.contents)})
        return 0
    columns = (Column("QUEUE", least=8), Column("STATE"), Column("JOBS", right=True))
    print_table(columns, [[count.queue, count.state, f"{count.jobs:,}"] for count in plan.contents.counts()])
    print_facts(_in_words(plan.contents))
    _tell_damage(plan.contents)
    if plan.standing == "done":
        say(_already_done(source, target))
        return 0
    if not plan.has_tables:
        say(f"{target.url} has no tables yet; the copy makes them")
    if plan.standing == "begun":
        say("a part is there already; the copy goes on from there")
    say(f"this would be carried from {source.url} to {target.url}; nothing was changed")
    return 0


def _in_words(contents: StoreContents) -> list[tuple[str, str]]:
    return [
        ("jobs", f"{contents.jobs:,}"),
        ("history entries", f"{contents.history:,}"),
        ("log lines", f"{contents.logs:,}"),
        ("dead letters", f"{contents.dead_letters:,}"),
        ("size", f"about {contents.bytes / 1e6:,.1f} MB"),
    ]


def _tell_damage(contents: StoreContents) -> None:
    for what in contents.damaged[:_KEPT_TOLD]:
        say(clean(f"damaged, and as damaged there: {what}"))
    if len(contents.damaged) > _KEPT_TOLD:
        say(f"and {len(contents.damaged) - _KEPT_TOLD:,} more are damaged; --json names them")


def _told(contents: StoreContents) -> dict[str, Any]:
    told = msgspec.structs.asdict(contents)
    told["by_queue_and_state"] = contents.counts()
    return told


# -- the copy


def _carry(
    move: StoreCopy,
    engines: tuple[Engine, Engine],
    wait: float,
    progress: Progress,
    as_json: bool,
    *,
    has_password: bool,
) -> int:
    source, target = engines
    began = time.monotonic()
    if move.standing() == "done":
        if as_json:
            print_json({"from": source.url, "to": target.url, "standing": "done"})
        else:
            say(_already_done(source, target))
        return 0
    progress.note(f"closing {source.url}: from now on nothing is enqueued or started there")
    with _telling_how_to_go_on():
        carried = move.run(wait)
        verdict = move.verify()
        if not verdict.different:
            move.open()
    progress.close()
    seconds = time.monotonic() - began
    if as_json:
        print_json({"from": source.url, "to": target.url, **_result(carried, verdict), "seconds": round(seconds, 3)})
    elif verdict.different:
        _tell_differences(source, target, verdict)
    else:
        _tell_end(source, target, carried, verdict, seconds, has_password)
    return 1 if verdict.different else 0


def _result(carried: CopyResult, verdict: CopyVerification) -> dict[str, Any]:
    return {
        "standing": "begun" if verdict.different else "done",
        **_told(verdict.contents),
        "carried": carried.jobs,
        "already_there": carried.known,
        "still_running": sorted(carried.running),
        "taken": sorted(verdict.taken),
        "kept": verdict.kept,
        "different": verdict.different,
        "differences": verdict.differences,
    }


def _tell_end(
    source: Engine, target: Engine, carried: CopyResult, verdict: CopyVerification, seconds: float, has_password: bool
) -> None:
    contents = verdict.contents
    say(
        f"{contents.jobs:,} jobs with {contents.history:,} history entries, {contents.logs:,} log lines and "
        f"{contents.dead_letters:,} dead letters are now at {target.url}, in {seconds:.1f} s; all were compared"
    )
    if carried.known:
        say(f"{carried.known:,} of them were there already")
    if verdict.taken:
        say(f"{_jobs(len(verdict.taken))} not carried, since the id is taken there: {_listed(verdict.taken)}")
    for kept in verdict.kept[:_KEPT_TOLD]:
        say(clean(f"{kept.what} {kept.id} stays as it is there: it {kept.how}"))
    if len(verdict.kept) > _KEPT_TOLD:
        say(f"and {len(verdict.kept) - _KEPT_TOLD:,} more stay as they are there; --json names them")
    _tell_damage(contents)
    if carried.running:
        say(f"{_jobs(len(carried.running))} still running and taken away, to go on at the new store as after a crash")
    hidden = ", with its password" if has_password else ""
    say(f"next: set HEADRACE_URL={target.url}{hidden}, and restart what uses the old store")
    say(f"the old store stays closed: {source.url}")


def _tell_differences(source: Engine, target: Engine, verdict: CopyVerification) -> None:
    for difference in verdict.differences:
        say(clean(str(difference)))
    if verdict.different > len(verdict.differences):
        say(f"and {verdict.different - len(verdict.differences):,} more")
    remark(
        f"error: {target.url} is not as {source.url}: {verdict.different:,} differences. Both stay closed: run the "
        f"same command again, or accept what is there with `headrace copy --reopen {target.url}`"
    )


def _already_done(source: Engine, target: Engine) -> str:
    return (
        f"nothing to do: the jobs of {source.url} were carried over to {target.url} already, and it is in use; "
        f"set HEADRACE_URL={target.url}"
    )


def _jobs(count: int) -> str:
    return "1 job was" if count == 1 else f"{count:,} jobs were"


def _listed(ids: set[str]) -> str:
    first = sorted(ids)[:5]
    return clean(", ".join(first)) + (", ..." if len(ids) > len(first) else "")


# -- back again


def _reopen(engine: Engine, yes: bool, as_json: bool) -> int:
    store_status = engine.transfer.store_status()
    if store_status is not None and not yes:
        remark(_warning(store_status))
        confirm(f"take the notice at {engine.url} down")
    reopen(engine)
    if as_json:
        print_json({"url": engine.url, "status": store_status})
    elif store_status is None:
        say(f"nothing to do: no notice hangs at {engine.url}, it is in use")
    else:
        say(f"{engine.url} is in use again")
    return 0


def _warning(store_status: StoreStatus) -> str:
    if store_status.kind == "moved":
        return (
            f"jobs that were carried over to {store_status.other} exist twice from then on, and unfinished ones "
            "run at both stores"
        )
    return f"not everything may have been carried here from {store_status.other} yet"
