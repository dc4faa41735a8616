"""Actions on flows, dead letters, schedules, alerts, terms and the store in the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from headrace import Headrace, ScheduleNotFound
from tests.support.waiting import PATIENCE
from tests.surfaces.web.pages.browser import SHOTS
from tests.surfaces.web.pages.stock import PATHS, stock
from tests.surfaces.web.pages.test_actions import answer, expect_toast, press
from tests.surfaces.web.pages.test_appearance import violations
from tests.surfaces.web.pages.test_live import REMEMBER, REMEMBERED

pytestmark = pytest.mark.slow

Visit = Callable[[str], Page]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_admin_page_is_valid_and_accessible(
    app: Headrace, tasks: dict[str, Any], visit: Visit, scheme: Any
) -> None:
    names = stock(app, tasks)
    wrong: dict[str, list[str]] = {}
    visit("/healthz").emulate_media(color_scheme=scheme)
    for name, path in PATHS.items():
        page = visit(path.format(**names))
        assert page.title() != "owned"
        page.screenshot(path=SHOTS / f"{name}-{scheme}.png", full_page=True)
        if found := violations(page, scheme):
            wrong[name] = found
    assert wrong == {}


def test_no_admin_page_is_wider_than_a_phone(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    names = stock(app, tasks)
    wide: dict[str, int] = {}
    for name, path in PATHS.items():
        page = visit(path.format(**names))
        page.set_viewport_size({"width": 360, "height": 740})
        width = page.evaluate("document.documentElement.scrollWidth")
        page.screenshot(path=SHOTS / f"{name}-phone.png", full_page=True)
        if width > 360:
            wide[name] = width
    assert wide == {}


def test_a_flow_is_zoomed_cancelled_and_retried(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    flow = app.flow("import")
    held = flow.add(tasks["hold"].bind("x"))
    flow.add(tasks["sign"].bind("ann", password="x")).after(held)
    run = flow.enqueue()
    visit("/flows").get_by_role("link", name="import").click()
    page = visit(f"/flows/{run.id}")
    page.evaluate(REMEMBER)
    node = page.locator("a.node").first
    expect(node).to_contain_text("pending")
    before = page.locator("#graph-svg").bounding_box()
    page.get_by_role("button", name="Larger").click()
    larger = page.locator("#graph-svg").bounding_box()
    assert before is not None
    assert larger is not None
    assert larger["width"] > before["width"]
    with app.worker(concurrency=1, queues=["slow"]):
        expect(node).to_contain_text("running")
        assert page.locator("#graph-svg").bounding_box() == larger  # an update keeps the zoom
        press(page, "Cancel")
        expect(page.locator("#confirm")).to_contain_text("2 of its 2 jobs are unfinished")
        answer(page, "Cancel the flow")
        expect_toast(page, "2 of the jobs of flow import were cancelled")
        expect(page.locator("#state")).to_contain_text("cancelled")
        tasks["gate"].set()
    assert run.refresh().state == "cancelled"
    press(page, "Retry")
    expect_toast(page, "were queued again")
    assert run.refresh().state == "running"
    assert page.evaluate(REMEMBERED)
    node.click()
    expect(page.locator("#job-id")).to_have_text(run.jobs[0].id)


def test_a_dead_letter_is_noted_edited_and_requeued(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    names = stock(app, tasks)
    page = visit("/dead")
    page.locator("#groups").get_by_role("link", name="refuse").click()
    expect(page.locator("#dead-letters tbody tr")).to_have_count(3)
    page = visit(f"/dead/{names['letter']}")
    page.get_by_label("A note").fill("the address is known now")
    press(page, "Note")
    expect(page.locator("#notes")).to_contain_text("the address is known now")
    page.locator("[name=args]").fill('["x"]')
    press(page, "Requeue")
    expect_toast(page, "expected int")
    page.locator("[name=args]").fill("[41]")
    press(page, "Requeue")
    expect_toast(page, "is queued again")
    expect(page.locator("#status")).to_contain_text("requeued")
    assert app.jobs.get(names["job"]).args == (41,)


def test_many_dead_letters_are_resolved_and_requeued(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    stock(app, tasks)
    newest, *others = app.dead.list()
    page = visit("/dead")
    press(page, "Requeue")
    expect_toast(page, "or filter the list first")
    page.get_by_label(f"Pick {newest.id}").check()
    expect(page.locator("#picked-count")).to_have_text("1 dead letter picked")
    page.get_by_label("Resolve as").select_option("permanently_failed")
    press(page, "Resolve")
    answer(page, "Resolve 1 dead letter")
    expect_toast(page, "1 dead letter is resolved")
    assert app.dead.get(newest.id).status == "permanently_failed"
    expect(page.locator("#dead-letters tbody tr")).to_have_count(len(others))

    page = visit("/dead?queue=orders")
    page.get_by_label("Rate of their starts").fill("10/s")
    press(page, "Requeue")
    expect(page.locator("#confirm")).to_contain_text("They start at 10/s")
    answer(page, f"Requeue {len(others)} jobs")
    expect_toast(page, f"{len(others)} jobs requeued")
    assert app.dead.count() == 0
    expect(page.get_by_role("main")).to_contain_text("No dead letter matches")


def test_a_schedule_is_created_with_a_preview_changed_and_deleted(
    app: Headrace, tasks: dict[str, Any], visit: Visit
) -> None:
    page = visit("/new-schedule")
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_label("Task", exact=True).fill("add")
    page.get_by_label("Cron").fill("0 2 * *")
    expect(page.locator("#preview")).to_contain_text("cron")
    page.get_by_label("Cron").fill("0 2 * * *")
    page.get_by_label("Time zone").fill("Europe/Vienna")
    expect(page.locator("#preview li")).to_have_count(6)
    expect(page.locator("#preview li").first).to_contain_text("02:00:00 CE")
    page.locator("[name=args]").fill("[1, 2]")
    press(page, "Create the schedule")
    expect(page.get_by_role("heading", level=1)).to_have_text("nightly")
    assert app.schedules.get("nightly").args == (1, 2)

    press(page, "Pause")
    expect_toast(page, "is paused")
    expect(page.locator("#state")).to_contain_text("paused")
    press(page, "Resume")
    expect_toast(page, "is resumed")
    press(page, "Run now")
    expect_toast(page, "is enqueued")
    expect(page.locator("#runs")).to_contain_text("run by hand")
    press(page, "Save the schedule")
    expect_toast(page, "Nothing was changed")
    page.get_by_label("Cron").fill("")
    page.get_by_label("or every, seconds").fill("60")
    page.locator("[name=args]").fill("[3, 4]")
    press(page, "Save the schedule")
    expect_toast(page, "nightly was changed")
    changed = app.schedules.get("nightly")
    assert changed.every is not None
    assert (changed.cron, changed.every.total_seconds(), changed.args) == (None, 60, (3, 4))
    assert changed.tz == "Europe/Vienna"
    press(page, "Delete")
    answer(page, "Delete the schedule")
    expect(page.get_by_role("heading", level=1)).to_have_text("Schedules")
    with pytest.raises(ScheduleNotFound):
        app.schedules.get("nightly")


FIELDS = {
    "priority": "7",
    "queue": "nights",
    "start": "2030-01-01T00:00:01",
    "end": "2031-01-01T00:00",
    "limit": "9",
    "jitter": "2.5",
    "catch_up_limit": "3",
    "catch_up_window": "600",
}
CHOICES = {"overlap": "skip", "catch_up": "all", "dst_gap": "skip", "dst_overlap": "last"}


def test_every_field_of_a_schedule_is_set_and_changed_and_its_secrets_are_kept(
    app: Headrace, tasks: dict[str, Any], visit: Visit
) -> None:
    page = visit("/new-schedule")
    page.locator("#s-more summary").click()
    texts = {"id": "sign", "task": "sign", "cron": "30 2 * * *", "tz": "Europe/Vienna", **FIELDS}
    for name, text in {**texts, "args": '["ann"]', "kwargs": '{"password": "s3cret"}'}.items():
        page.locator(f"form.card [name={name}]").fill(text)
    for name, word in CHOICES.items():
        page.locator(f"form.card [name={name}]").select_option(word)
    press(page, "Create the schedule")
    expect(page.get_by_role("heading", level=1)).to_have_text("sign")
    made = app.schedules.get("sign")
    assert {name: getattr(made, name) for name in CHOICES} == CHOICES
    assert (made.priority, made.queue, made.limit, made.catch_up_limit) == (7, "nights", 9, 3)
    assert (made.jitter.total_seconds(), made.catch_up_window.total_seconds()) == (2.5, 600)
    assert (made.start, made.end) == (datetime(2030, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC))

    assert "s3cret" not in page.content()
    page.locator("#s-more summary").click()
    for name, text in {**FIELDS, **CHOICES}.items():
        expect(page.locator(f"form [name={name}]")).to_have_value(text)
    press(page, "Save the schedule")
    expect_toast(page, "Nothing was changed")
    page.locator("[name=args]").fill('["bob"]')
    page.locator("[name=dst_gap]").select_option("shift")
    page.locator("[name=end]").fill("")
    press(page, "Save the schedule")
    expect_toast(page, "sign was changed")
    changed = app.schedules.get("sign")
    assert (changed.dst_gap, changed.end, changed.priority, changed.catch_up_limit) == ("shift", None, 7, 3)
    job = app.schedules.run_now("sign")
    assert (job.args, job.kwargs, job.queue, job.priority) == (("bob",), {"password": "s3cret"}, "nights", 7)


def test_an_alert_is_acknowledged_silenced_and_resolved(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    app.alerts.trigger("smoke", "somebody saw smoke", severity="critical")
    page = visit("/alerts")
    expect(page.locator("#nav .badge")).to_have_text("1")
    press(page, "Acknowledge")
    expect_toast(page, "smoke is acknowledged")
    expect(page.locator("#active")).to_contain_text("local acknowledged it")
    assert app.alerts.active()[0].state == "acknowledged"
    page.locator("#active").get_by_role("button", name="Silence").click()
    expect_toast(page, "smoke is silenced for 1 hour")
    assert [silence.rule for silence in app.alerts.silences()] == ["smoke"]
    press(page, "End")
    expect_toast(page, "The silence has ended")
    assert app.alerts.silences() == []
    press(page, "Resolve")
    expect_toast(page, "smoke is resolved")
    assert app.alerts.active() == []
    expect(page.locator("#history")).to_contain_text("resolved")


def test_a_rule_is_previewed_created_changed_and_deleted(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    tasks["add"].enqueue(1, 2)
    page = visit("/alerts/new-rule")
    page.get_by_label("Name").fill("deep")
    page.get_by_label("Condition").fill("depht > 0")
    expect(page.locator("#preview")).to_contain_text("depht")
    page.get_by_label("Condition").fill("depth > 0")
    expect(page.locator("#preview")).to_contain_text("it holds")
    page.get_by_label("Condition").fill("depth > 5")
    expect(page.locator("#preview")).to_contain_text("it does not hold")
    page.get_by_label("Severity").select_option("critical")
    press(page, "Create the rule")
    expect(page.get_by_role("heading", level=1)).to_have_text("deep")
    page.get_by_label("Must hold for").fill("90")
    page.get_by_label("queue", exact=True).check()
    press(page, "Save the rule")
    expect_toast(page, "deep was changed")
    rule = app.alerts.rules.get("deep")
    assert (rule.when, rule.for_, rule.per, rule.severity) == ("depth > 5", 90, ("queue",), "critical")
    press(page, "Switch off")
    expect(page.locator("#state")).to_contain_text("off")
    press(page, "Delete")
    answer(page, "Delete the rule")
    expect(page.get_by_role("heading", level=1)).to_have_text("Alert rules")
    assert "deep" not in {rule.name for rule in app.alerts.rules.list()}


def test_stale_jobs_are_handled_and_jobs_are_archived(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    done = tasks["sign"].enqueue("ann", password="x")
    with app.worker(concurrency=1, queues=["sums"]):
        done.wait(PATIENCE)
    job = tasks["refuse"].enqueue(1)
    page = visit("/lifecycle")
    page.get_by_text("Set the policy of a task or a queue").click()
    page.get_by_label("Name").fill("orders")
    page.get_by_label("Max pending").fill("soon")
    press(page, "Set policy")
    expect_toast(page, "neither a number of seconds")
    page.get_by_label("Max pending").fill("0.001")
    press(page, "Set policy")
    expect_toast(page, "applies from the next check")
    expect(page.locator("#stale")).to_contain_text("refuse")
    press(page, "Handle stale jobs")
    expect(page.locator("#confirm")).to_contain_text("1 become dead letters")
    answer(page, "Apply")
    expect_toast(page, "1 job ended")
    assert job.refresh().state == "failed"
    press(page, "Remove")
    expect_toast(page, "is removed")

    app.lifecycle.configure(queue="sums", keep_completed=0)
    press(page, "Archive now")
    answer(page, "Archive now")
    expect_toast(page, "1 job archived")
    expect(page.locator("#partitions")).to_be_visible()
    page.get_by_label("Restore an archived job").fill(done.id)
    press(page, "Restore")
    expect(page.locator("#job-id")).to_have_text(done.id)


def test_the_system_page_shows_settings_and_the_audit_trail(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    page = visit("/system")
    expect(page.locator("#set-heartbeat")).to_contain_text("argument")
    press(page, "Optimize")
    expect_toast(page, "Statistics are up to date")
    expect(page.locator("#audit")).to_contain_text("store.optimize")
    expect(page.locator("#findings")).to_contain_text("All is well")


def test_admin_pages_have_keys_and_palette_entries(app: Headrace, visit: Visit) -> None:
    page = visit("/")
    keys = {"f": "Flows", "s": "Schedules", "d": "Dead letters", "a": "Alerts", "l": "Lifecycle", "y": "System"}
    for key, title in keys.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("new sched")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("New schedule")
