"""Reads the files under deploy/: what they contain, and the commands in them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

DEPLOY = Path(__file__).parents[3] / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
Command = tuple[str, list[str]]  # where it stands, and its words


def read(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


def all_files() -> list[Path]:
    return sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def load_yaml(path: Path | str) -> list[Any]:
    """All documents of a file. A key that is given twice is an error."""
    return list(yaml.load_all((DEPLOY / path).read_text("utf-8"), _Strict))


class _Strict(yaml.SafeLoader):  # type: ignore[misc]
    pass


def _mapping(loader: Any, node: Any) -> Any:
    keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
    assert len(keys) == len(set(keys)), f"line {node.start_mark.line + 1}: a key is given twice"
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_Strict.add_constructor("tag:yaml.org,2002:map", _mapping)


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, with continued lines joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines).splitlines()
    return [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in joined if line.strip())]


def unit(path: Path) -> ConfigParser:
    """A unit of systemd. Only keys that may be repeated are."""
    parser = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text("utf-8"))
    return parser


def manifests() -> Iterator[tuple[str, Any]]:
    for path in KUBERNETES:
        yield from ((path.name, one) for one in load_yaml(path))


def pods() -> Iterator[tuple[str, Any]]:
    """The specification of each pod."""
    for name, one in manifests():
        if one["kind"] in ("Deployment", "Job"):
            yield f"{name} {one['metadata']['name']}", one["spec"]["template"]["spec"]


def commands() -> Iterator[Command]:
    """Every command that the files run, whatever starts it."""
    for word, rest in instructions(read("Dockerfile")):
        if word in ("CMD", "ENTRYPOINT"):
            yield f"Dockerfile {word}", json.loads(rest)
        if word == "HEALTHCHECK":
            yield "Dockerfile HEALTHCHECK", json.loads(rest.partition("CMD ")[2])
    for name, service in load_yaml("compose.yaml")[0]["services"].items():
        if "command" in service:
            yield f"compose.yaml {name}", service["command"]
    for line in read("Procfile").splitlines():
        name, _, command = line.partition(": ")
        yield f"Procfile {name}", shlex.split(command.replace("$PORT", "5000"))
    for path in UNITS:
        words = shlex.split(unit(path)["Service"]["ExecStart"].replace("%i", "1"))
        yield path.name, [words[0].rpartition("/")[2], *words[1:]]
    for name, pod in pods():
        yield from ((f"{name} {one['name']}", one["command"]) for one in pod["containers"])
    for path in all_files():
        text = path.read_text("utf-8")
        yield from ((f"{path.name} in a text", shlex.split(found)) for found in re.findall(r"`(headrace [^`]+)`", text))


def queries() -> Iterator[tuple[str, str]]:
    """Every query for Prometheus."""
    for group in load_yaml("prometheus/rules.yaml")[0]["groups"]:
        yield from ((f"rules.yaml {rule['alert']}", rule["expr"]) for rule in group["rules"])
    board = json.loads(read("grafana/headrace.json"))
    for panel in board["panels"]:
        yield from ((f"headrace.json {panel['title']}", target["expr"]) for target in panel["targets"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield f"headrace.json ${variable['name']}", variable["query"]["query"]
    for name, one in manifests():
        for trigger in one["spec"].get("triggers", ()) if one["kind"] == "ScaledObject" else ():
            if trigger["type"] == "prometheus":
                yield f"{name} {trigger['type']}", trigger["metadata"]["query"]
