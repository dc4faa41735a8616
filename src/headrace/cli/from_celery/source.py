"""Reads the source of a Celery project without importing it, and judges each use of Celery by the rules."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.cli.from_celery import rules
from headrace.cli.from_celery.rules import Rule, Verdict
from headrace.errors import ConfigError

_CANVAS = ("chain", "group", "chord")


class Use(msgspec.Struct, frozen=True, order=True):
    """One use of Celery in the source. Field names are the JSON keys."""

    file: str
    line: int
    what: str
    verdict: Verdict
    note: str = ""


def files_of(name: str) -> list[Path]:
    """The source files of a module, a package, a file or a folder."""
    path = Path(name)
    if not path.exists():
        module = name.partition(":")[0]
        path = next((found for root in [".", *sys.path] if (found := _module(Path(root), module))), path)
    if path.is_dir():
        return sorted(found for found in path.rglob("*.py") if not any(part.startswith(".") for part in found.parts))
    if not path.is_file():
        raise ConfigError(f"there is no module, file or folder {name!r}; run this in the folder of the project")
    return [path]


def _module(root: Path, name: str) -> Path | None:
    place = root.joinpath(*name.split("."))
    if place.with_suffix(".py").is_file():
        return place.with_suffix(".py")
    return place if name and (place / "__init__.py").is_file() else None


def uses_in(path: Path) -> list[Use]:
    """Every use of Celery in a file, in the order of its lines."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{path} can't be read as Python: {error}") from None
    reader = _Reader(str(path))
    reader.visit(tree)
    return sorted(reader.found)


class _Reader(ast.NodeVisitor):
    """Collects the uses of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._tasks: set[str] = {"self"}
        self._uses_celery = False
        self.found: list[Use] = []

    def _add(self, node: ast.AST, what: str, rule: Rule) -> None:
        self.found.append(Use(self._file, getattr(node, "lineno", 0), what, rule.verdict, rule.note))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if module.partition(".")[0] == "celery" and not node.level:
            self._uses_celery = True
            for name in node.names:
                self._add(node, f"from {module} import {name.name}", _imported(module, name.name))

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            if name.name.partition(".")[0] in ("celery", "kombu"):
                note = "write `from headrace.contrib.celery import ...`"
                self._add(node, f"import {name.name}", Rule("changes", note))

    # -- tasks

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if _last_name(called) in ("task", "shared_task", "periodic_task"):
                self._task(node, decorator, _last_name(called))
        self.generic_visit(node)

    def _task(self, node: ast.FunctionDef | ast.AsyncFunctionDef, decorator: ast.expr, word: str) -> None:
        self._tasks.add(node.name)
        rule = rules.SAME
        if isinstance(node, ast.AsyncFunctionDef):
            rule = Rule("does not", "define it with @app.headrace.task, which runs coroutines")
        elif word == "periodic_task":
            rule = Rule("does not", "use app.conf.beat_schedule, or @app.headrace.cron(...)")
        self._add(node, f"task {node.name}", rule)
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg is not None:
                found = rules.TASK_OPTIONS.get(keyword.arg, Rule("carries over", "it becomes an attribute of the task"))
                self._add(keyword.value, f"task {node.name}: {keyword.arg}", found)

    # -- calls and settings

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            if self._uses_celery and function.id in (*_CANVAS, "crontab", "Celery"):
                self._named_call(node, function.id)
        elif isinstance(function, ast.Attribute):
            self._method_call(node, function)
        self.generic_visit(node)

    def _named_call(self, node: ast.Call, name: str) -> None:
        days = {keyword.arg for keyword in node.keywords} >= {"day_of_week", "day_of_month"}
        if name == "crontab" and days:
            note = "day_of_week and day_of_month together mean something else in cron; use one of them"
            self._add(node, "crontab(...)", Rule("does not", note))
        elif name == "Celery":
            self._add(node, "Celery(...)", Rule("changes", "broker= is the URL of the store; leave backend= out"))
        else:
            self._add(node, f"{name}(...)", rules.SAME)

    def _method_call(self, node: ast.Call, function: ast.Attribute) -> None:
        word, owner = function.attr, _last_name(function.value)
        if owner == "control":
            self._add(node, f"control.{word}()", rules.CONTROL.get(word, Rule("does not", "use app.headrace")))
        elif owner == "conf" and word == "update":
            for keyword in node.keywords:
                self._setting(keyword.value, keyword.arg or "", keyword.value)
        elif word in rules.CALLS and self._is_meant(word, owner):
            self._add(node, f"{owner}.{word}()" if owner else f".{word}()", rules.CALLS[word])
            for keyword in node.keywords if word in ("apply_async", "send_task") else ():
                if keyword.arg is not None:
                    unknown = Rule("does not", "it is refused")
                    self._add(keyword.value, f"{word}: {keyword.arg}", rules.CALL_OPTIONS.get(keyword.arg, unknown))

    def _is_meant(self, word: str, owner: str) -> bool:
        return word not in rules.ONLY_OF_TASKS or owner in self._tasks or (word == "s" and self._uses_celery)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute) and _last_name(target.value) == "conf":
                self._setting(node, target.attr, node.value)
        self.generic_visit(node)

    def visit_Module(self, node: ast.Module) -> None:
        """Settings that a module has for config_from_object()."""
        for found in node.body:
            if isinstance(found, ast.Assign) and len(found.targets) == 1:
                name = _name_of_setting(found.targets[0])
                if name in rules.SETTINGS:
                    self._setting(found, name, found.value)
        self.generic_visit(node)

    def _setting(self, node: ast.AST, name: str, value: ast.expr) -> None:
        rule = rules.SETTINGS.get(name, rules.OTHER_SETTING)
        if name in rules.SERIALIZERS and isinstance(value, ast.Constant):
            rule = rules.SAME if value.value == "json" else rules.OTHER_SERIALIZER
        self._add(node, f"conf.{name}", rule)


def _imported(module: str, name: str) -> Rule:
    if module == "celery.signals":
        rule = rules.SAME if name in rules.SIGNALS else rules.OTHER_SIGNAL
        place = "headrace.contrib.celery.signals"
    else:
        rule = rules.NAMES.get(name, Rule("does not", "headrace.contrib.celery has no such name"))
        place = "headrace.contrib.celery"
    return Rule("changes", f"import it from {place}") if rule.verdict == "carries over" else rule


def _name_of_setting(node: ast.expr) -> str:
    """The setting that a variable of a module stands for; empty if its name is too common to tell."""
    name = node.id if isinstance(node, ast.Name) else ""
    if name.startswith("CELERY_"):  # Django's settings
        return name.removeprefix("CELERY_").lower()
    return "" if name in ("include", "imports", "timezone") else name


def _last_name(node: ast.expr) -> str:
    """`task` of app.task, `send` of send; empty for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def all_uses(name: str) -> Iterator[Use]:
    """Every use of Celery in a module, a package, a file or a folder."""
    for path in files_of(name):
        yield from uses_in(path)
