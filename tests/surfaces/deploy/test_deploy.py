"""The files under deploy/ are well-formed and true: commands, settings, probes, metrics and tables exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from headrace import Headrace
from headrace.cli.env_file import parse_env
from headrace.core.health.probes import parse_address
from headrace.core.settings.settings import NAMES, Settings, resolve
from headrace.web.monitoring import ROUTES
from tests.surfaces.deploy import files
from tests.surfaces.docs.test_docs import parse

SHUTDOWN = Settings().shutdown_timeout
SECONDS = re.compile(r"(\d+)s")


# -- commands and settings


def ensure(words: list[str]) -> click.Context:
    assert words[0] == "headrace", f"{words[0]} is not headrace"
    return parse(words[1:])


def test_every_command_exists_with_its_options() -> None:
    found, wrong = list(files.commands()), []
    assert len(found) > 15
    for where, words in found:
        try:
            ensure(words)
        except (click.ClickException, AssertionError) as error:
            wrong.append(f"{where}: {getattr(error, 'message', error)}")
    assert wrong == []


@pytest.mark.parametrize(
    "words", [["headrace", "wrk"], ["headrace", "worker", "--healthport", "1"], ["python"], ["headrace", "web", "x"]]
)
def test_a_wrong_command_would_be_found(words: list[str]) -> None:
    with pytest.raises((click.ClickException, AssertionError)):
        ensure(words)


def test_every_variable_is_a_setting() -> None:
    named = {(path.name, name) for path in files.all_files() for name in _variables(path.read_text("utf-8"))}
    assert len(named) > 8
    assert [(where, name) for where, name in named if name.removeprefix("HEADRACE_").lower() not in NAMES] == []


def _variables(text: str) -> set[str]:
    return set(re.findall(r"\bHEADRACE_[A-Z_]+", text))


# -- the image


def test_the_image_runs_without_root_and_fetches_nothing_by_hand() -> None:
    found = files.instructions(files.read("Dockerfile"))
    words = [word for word, _ in found]
    assert words.count("FROM") == 2, "the tools of the build are not in the image"
    assert not {"ADD", "MAINTAINER"} & set(words)
    assert all(re.fullmatch(r"python:3\.\d+-slim( AS \w+)?", rest) for word, rest in found if word == "FROM")
    users = [rest for word, rest in found if word == "USER"]
    assert users == ["10001:10001"], "a number: Kubernetes checks runAsNonRoot without reading /etc/passwd"
    assert words.index("USER") > max(place for place, word in enumerate(words) if word == "RUN")
    assert words.count("CMD") == words.count("HEALTHCHECK") == 1
    assert not any("curl" in rest or "wget" in rest for word, rest in found if word == "RUN")
    stages = {rest.split(" AS ")[1] for word, rest in found if word == "FROM" and " AS " in rest}
    assert set(re.findall(r"--from=(\w+)", "\n".join(rest for word, rest in found if word == "COPY"))) <= stages


def test_the_health_check_reads_the_file_that_the_worker_writes() -> None:
    found = dict(files.instructions(files.read("Dockerfile")))
    [written] = re.findall(r"HEADRACE_HEALTH_FILE=(\S+)", files.read("Dockerfile"))
    assert json.loads(found["HEALTHCHECK"].partition("CMD ")[2])[-2:] == ["--health-file", written]
    mounted = files.load_yaml("compose.yaml")[0]["services"]["worker"]["tmpfs"]
    assert any(written.startswith(folder.partition(":")[0] + "/") for folder in mounted), "a read-only root"


def test_no_secret_gets_into_the_image() -> None:
    ignored = files.read(".dockerignore").splitlines()
    assert {".env", ".git", "*.key", "*.pem", "*.db"} <= set(ignored)


# -- compose


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = files.load_yaml("compose.yaml")[0]["services"]
    return found


def test_services_wait_for_what_they_need_and_have_time_to_stop(services: dict[str, Any]) -> None:
    assert set(services) == {"postgres", "migrate", "web", "worker"}
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services
            assert how["condition"] in ("service_healthy", "service_completed_successfully")
        if name != "migrate":
            assert SECONDS.fullmatch(service["stop_grace_period"])
    assert services["postgres"]["healthcheck"]["test"]
    assert services["web"]["healthcheck"]["test"][0] == "CMD"
    assert "healthcheck" not in services["worker"], "it is that of the image"
    grace = SECONDS.fullmatch(services["worker"]["stop_grace_period"])
    assert grace is not None
    assert int(grace[1]) > SHUTDOWN


def test_passwords_come_from_outside_and_ports_stay_on_the_machine(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, value in service.get("environment", {}).items():
            assert not re.search("PASSWORD|AUTH|URL", name) or "${" in value
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


# -- Kubernetes


def test_manifests_have_what_their_kind_requires() -> None:
    found = {(one["kind"], one["metadata"]["name"]): one for _, one in files.manifests() if "metadata" in one}
    assert {kind for kind, _ in found} == {"Deployment", "Job", "Service", "ScaledObject", "TriggerAuthentication"}
    for one in found.values():
        assert re.fullmatch(r"([a-z0-9.-]+/)?v\d\w*", one["apiVersion"])
    for (kind, name), one in found.items():
        if kind == "Deployment":
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"].items() <= labels.items(), name
        if kind == "Service":
            target = found["Deployment", name]["spec"]["template"]
            assert one["spec"]["selector"].items() <= target["metadata"]["labels"].items()
            ports = {port["name"] for box in target["spec"]["containers"] for port in box["ports"]}
            assert {port["targetPort"] for port in one["spec"]["ports"]} <= ports


def test_pods_run_without_privileges() -> None:
    for name, pod in files.pods():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] == 10001, "that of the image"
        for box in pod["containers"]:
            assert box["securityContext"]["allowPrivilegeEscalation"] is False
            assert box["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert box["resources"]["requests"]
            assert box["resources"]["limits"]["memory"]


def _probes(box: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((kind, probe) for kind, probe in box.items() if kind.endswith("Probe"))


def test_probes_ask_for_paths_and_ports_that_exist() -> None:
    web_paths = {route.path for route in ROUTES}
    for name, pod in files.pods():
        for box in pod["containers"]:
            ports = {port["name"]: port["containerPort"] for port in box.get("ports", ())}
            options = ensure(box["command"]).params
            for kind, probe in _probes(box):
                ask = probe["httpGet"]
                assert ask["port"] in ports, name
                if box["name"] == "worker":
                    host, port = parse_address(options["health_port"])
                    assert (host, port) == ("0.0.0.0", ports[ask["port"]]), "Kubernetes asks from outside"
                    assert ask["path"] == ("/ready" if kind == "readinessProbe" else "/live")
                else:
                    assert (options["host"], options["port"]) == ("0.0.0.0", ports[ask["port"]])
                    assert ask["path"] in web_paths
    kinds = {name: {kind for kind, _ in _probes(pod["containers"][0])} for name, pod in files.pods()}
    assert kinds["worker.yaml headrace-worker"] == {"startupProbe", "livenessProbe", "readinessProbe"}
    assert kinds["web.yaml headrace-web"] == {"livenessProbe", "readinessProbe"}


def test_workers_have_time_to_finish_their_jobs() -> None:
    pods = dict(files.pods())
    assert pods["worker.yaml headrace-worker"]["terminationGracePeriodSeconds"] > SHUTDOWN
    units = {path.name: files.unit(path) for path in files.UNITS}
    assert int(units["worker@.service"]["Service"]["TimeoutStopSec"]) > SHUTDOWN


def test_the_kustomization_names_files_that_exist() -> None:
    [found] = files.load_yaml("kubernetes/kustomization.yaml")
    assert {path.name for path in files.KUBERNETES} >= set(found["resources"])


def test_the_autoscaler_scales_the_workers_by_their_slots() -> None:
    found = {one["kind"]: one for _, one in files.manifests()}
    spec = found["ScaledObject"]["spec"]
    deployments = {one["metadata"]["name"]: one for _, one in files.manifests() if one["kind"] == "Deployment"}
    worker = deployments[spec["scaleTargetRef"]["name"]]["spec"]["template"]["spec"]["containers"][0]
    slots = ensure(worker["command"]).params["concurrency"]
    assert 1 <= spec["minReplicaCount"] < spec["maxReplicaCount"], "one worker fires schedules"
    by_type = {trigger["type"]: trigger for trigger in spec["triggers"]}
    assert set(by_type) == {"prometheus", "postgresql"}
    assert by_type["prometheus"]["metadata"]["threshold"] == slots
    assert by_type["postgresql"]["metadata"]["targetQueryValue"] == slots
    assert by_type["postgresql"]["authenticationRef"]["name"] == found["TriggerAuthentication"]["metadata"]["name"]


@pytest.mark.slow
@pytest.mark.every_engine
@pytest.mark.engines("postgres")
def test_the_query_for_postgresql_counts_pending_and_running_jobs(app: Headrace) -> None:
    import psycopg

    app.enqueue_many([{"task": "work"}] * 3)
    [one] = [one for _, one in files.manifests() if one["kind"] == "ScaledObject"]
    [query] = [one["metadata"]["query"] for one in one["spec"]["triggers"] if one["type"] == "postgresql"]
    url, _, schema = app.settings.url.partition("?schema=")
    with psycopg.connect(url) as connection:
        row = connection.execute(query.replace("headrace_jobs", f"{schema}.headrace_jobs")).fetchone()
    assert row == (3,)


# -- systemd and nginx


@pytest.mark.parametrize("path", files.UNITS, ids=lambda path: path.name)
def test_units_restart_and_run_as_a_user(path: Any) -> None:
    found = files.unit(path)
    service = found["Service"]
    assert set(found.sections()) == {"Unit", "Service", "Install"}
    assert (service["Restart"], service["KillSignal"], service["NoNewPrivileges"]) == ("always", "SIGTERM", "yes")
    assert service["User"] not in ("", "root")
    assert service["ExecStart"].startswith("/"), "systemd wants an absolute path"


def test_the_health_file_of_a_worker_is_in_a_folder_that_exists() -> None:
    [worker] = [files.unit(path)["Service"] for path in files.UNITS if path.name == "worker@.service"]
    path = ensure(["headrace", *worker["ExecStart"].split()[1:]]).params["health_file"]
    assert path.startswith(f"/run/{worker['RuntimeDirectory']}/")


def test_nginx_passes_events_on_at_once() -> None:
    text = re.sub(r"#.*", "", files.read("nginx/headrace.conf"))
    assert text.count("{") == text.count("}")
    assert all(line.strip().endswith((";", "{", "}")) for line in text.splitlines() if line.strip())
    for directive in (
        "proxy_buffering off",
        "proxy_http_version 1.1",
        "proxy_set_header X-Forwarded-For $remote_addr",
        "proxy_set_header Host $host",
    ):
        assert f"{directive};" in text
    size = re.search(r"client_max_body_size (\d+)m;", text)
    assert size is not None
    assert int(size[1]) * 2**20 >= Settings().web_max_body


# -- metrics


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The names that Prometheus gets, each with its labels."""
    with Headrace("memory://") as app:
        app.enqueue_many([{"task": "work", "queue": "mail"}])
        app.engine.maintenance.facts(app.clock.now())
        text = app.metrics.prometheus()[1].decode()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    names: dict[str, set[str]] = {}
    for name, kind in kinds.items():
        for ending in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            names[f"{name}{ending}"] = set()
    for name, labels in re.findall(r"^(\w+)\{([^}]*)\}", text, re.MULTILINE):
        names.setdefault(name, set()).update(re.findall(r"(\w+)=", labels))
    return names


def test_every_query_uses_metrics_that_exist(exported: dict[str, set[str]]) -> None:
    found = list(files.queries())
    assert len(found) > 20
    for where, query in found:
        names = set(re.findall(r"\bheadrace_\w+", query))
        assert names, where
        assert names <= exported.keys(), where
        assert query.count("(") == query.count(")"), where
        for name, labels in re.findall(r"(headrace_\w+)\{([^}]*)\}", query):
            assert not exported[name] or set(re.findall(r"(\w+)=", labels)) <= exported[name], where


def test_a_metric_that_does_not_exist_would_be_found(exported: dict[str, set[str]]) -> None:
    assert "headrace_jobs_pending" not in exported
    assert exported["headrace_workers_wanted"] == {"queue"}
    assert exported["headrace_jobs"] == {"queue", "state"}


def test_rules_say_what_is_wrong_and_for_how_long() -> None:
    [group] = files.load_yaml("prometheus/rules.yaml")[0]["groups"]
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
    names = [rule["alert"] for rule in group["rules"]]
    assert len(names) == len(set(names))
    [config] = files.load_yaml("prometheus/prometheus.yaml")
    assert all((files.DEPLOY / "prometheus" / name).is_file() for name in config["rule_files"])
    assert config["scrape_configs"][0]["metrics_path"] in {route.path for route in ROUTES}


def test_the_dashboard_has_panels_that_do_not_overlap() -> None:
    board = json.loads(files.read("grafana/headrace.json"))
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"${datasource}"}
    assert {"datasource", "queue"} == {variable["name"] for variable in board["templating"]["list"]}


# -- the variables


def test_the_example_of_variables_is_accepted() -> None:
    variables = parse_env(files.read("env.example"), "env.example")
    settings = resolve({}, variables, {}, "").settings
    assert (settings.concurrency, settings.retry_limit, settings.web_label) == (8, 5, "production")
    assert [credential.role for credential in settings.credentials("web_auth")] == ["admin", "viewer"]
