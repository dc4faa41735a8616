"""Annotations: whether a value fits, and how to rebuild it from what was stored.

An Annotation is made once per parameter. One that can't be checked (Any, a TypeVar, a Protocol, an unresolvable name)
fits everything. Only models are rebuilt, wherever they sit inside lists, dicts, tuples and unions; everything else
comes back from the codec as it was. This module knows nothing of tasks, calls or the names of parameters.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from headrace.core.codec.encode import step_to
from headrace.core.codec.models import field_names, is_model, is_pydantic, struct_tag
from headrace.core.codec.result_refs import ParentFailure, ResultRef, is_result_ref
from headrace.core.text import short, why


class TypeMismatch(Exception):
    """A value that its annotation does not allow, or that its model can no longer be rebuilt from."""

    def __init__(self, expected: str, value: Any, reason: str = "") -> None:
        super().__init__(expected)
        self.expected, self.value, self.reason = expected, value, reason
        self.steps: list[str] = []

    def inside(self, step: str) -> TypeMismatch:
        self.steps.insert(0, step)
        return self

    def message(self, *, hide: bool) -> str:
        """`[2]: expected int, got str 'x'`; with `hide`, nothing of the value is shown."""
        got = "***" if hide else f"{type(self.value).__name__} {short(self.value)}"
        reason = f" ({self.reason})" if self.reason and not hide else ""
        return f"{''.join(self.steps)}: expected {self.expected}, got {got}{reason}"


class Annotation(msgspec.Struct, frozen=True):
    """`exact` holds the types whose every instance fits, None if all do. `build` is None if no model is in it."""

    text: str
    exact: frozenset[type] | None
    check: Callable[[Any], None]
    build: Callable[[Any], Any] | None = None
    fields: frozenset[str] = frozenset()

    def fit(self, value: Any) -> None:
        """Raises TypeMismatch if the value does not fit. A reference to a job's result always fits."""
        if self.exact is not None and type(value) not in self.exact and not is_result_ref(value):
            self.check(value)

    def rebuilt(self, value: Any) -> Any:
        """The value with its models rebuilt; it fits. Raises TypeMismatch. A result reference stays as it is."""
        if type(value) is ParentFailure or type(value) is ResultRef:
            return value
        if self.build is not None:
            return self.build(value)
        self.fit(value)
        return value


def _accept(value: Any) -> None:
    return None


ANYTHING = Annotation("anything", None, _accept)

# What else fits besides the class itself: numbers as type checkers see them, and types stored as equals.
_ALSO_ACCEPTED: dict[type, tuple[type, ...]] = {
    int: (bool,),
    float: (int, bool),
    bytes: (bytearray,),
    date: (datetime,),
}
_CHECKED_CONTAINERS = (list, tuple, set, frozenset)


def shape_of(annotation: Any, *, aliases: frozenset[Any] = frozenset()) -> Annotation:
    """The Annotation of any annotation. Never raises: an unknown one fits everything."""
    origin = get_origin(annotation)
    if annotation is Any or annotation is object:
        return ANYTHING
    if annotation is None:
        return _class(NoneType)
    if isinstance(annotation, NewType):
        return shape_of(annotation.__supertype__, aliases=aliases)
    if hasattr(annotation, "__value__") and not isinstance(annotation, type):
        # `type Json = dict[str, Json]`: an alias met again inside itself is not unrolled.
        known = annotation in aliases
        return ANYTHING if known else shape_of(annotation.__value__, aliases=aliases | {annotation})
    if origin is not None:
        return _composed(annotation, origin, list(get_args(annotation)), aliases)
    return _class(annotation) if isinstance(annotation, type) else ANYTHING


def _composed(annotation: Any, origin: Any, args: list[Any], aliases: frozenset[Any]) -> Annotation:
    if origin is Literal:
        return _literal(args)
    if origin is Annotated:
        return shape_of(args[0], aliases=aliases)
    if origin is Union or origin is UnionType:
        return _union([shape_of(arg, aliases=aliases) for arg in args])
    if not isinstance(origin, type) or is_model(origin):
        return _class(origin) if isinstance(origin, type) else ANYTHING
    if origin is tuple:
        return _tuple(args, aliases)
    shapes = [shape_of(arg, aliases=aliases) for arg in args]
    if issubclass(origin, Mapping) and len(args) == 2:
        return _mapping(origin, *shapes)
    if issubclass(origin, Iterable) and len(args) == 1:
        return _items(origin, shapes[0])
    return _class(origin)


# -- classes -------------------------------------------------------------------------------------------------


def _class(kind: Any) -> Annotation:
    if is_typeddict(kind):
        return _class(dict)
    if getattr(kind, "_is_protocol", False) or kind is Callable:
        return ANYTHING
    if is_model(kind):
        return _model(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind)
    try:
        isinstance(None, kind)
    except TypeError:
        return ANYTHING
    accepted = (kind, *_ALSO_ACCEPTED.get(kind, ()))
    return Annotation(kind.__name__, frozenset(accepted), _instance_check(kind.__name__, accepted))


def _instance_check(text: str, accepted: tuple[type, ...]) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not isinstance(value, accepted):
            raise TypeMismatch(text, value)

    return check


def _literal(constants: list[Any]) -> Annotation:
    text = f"one of {', '.join(map(short, constants))}"
    kinds = {type(constant) for constant in constants if isinstance(constant, Enum)}

    def check(value: Any) -> None:
        if not any(type(value) is type(constant) and value == constant for constant in constants):
            raise TypeMismatch(text, value)

    build = _union([shape_of(kind) for kind in kinds] + [ANYTHING]).build if kinds else None
    return Annotation(text, frozenset(), check, build)


# -- unions and containers -----------------------------------------------------------------------------------


def _union(arms: list[Annotation]) -> Annotation:
    text = " | ".join("None" if arm.text == "NoneType" else arm.text for arm in arms)
    sets = [arm.exact for arm in arms if arm.exact is not None]

    def check(value: Any) -> None:
        if not any(_fits(arm, value) for arm in arms):
            raise TypeMismatch(text, value)

    def build(value: Any) -> Any:
        misfits = []
        for arm in _likeliest_first(arms, value):
            try:
                return arm.rebuilt(value)
            except TypeMismatch as error:
                misfits.append(error)
        # The error inside the likeliest arm says more than that no arm fits.
        raise next((misfit for misfit in misfits if misfit.steps or misfit.reason), TypeMismatch(text, value))

    exact = frozenset[type]().union(*sets) if len(sets) == len(arms) else None
    return Annotation(text, exact, check, build if any(arm.build for arm in arms) else None)


def _fits(shape: Annotation, value: Any) -> bool:
    try:
        shape.fit(value)
    except TypeMismatch:
        return False
    return True


def _likeliest_first(arms: list[Annotation], value: Any) -> list[Annotation]:
    """Models before plain types; of two models that could both take a dict, the one whose fields it has."""

    def unlikeliness(arm: Annotation) -> tuple[bool, int]:
        return arm.build is None, len(arm.fields ^ value.keys()) if type(value) is dict else 0

    return sorted(arms, key=unlikeliness)


def optional(shape: Annotation) -> Annotation:
    """The shape, or None: what `x: int = None` means."""
    return _union([shape, _class(NoneType)])


def _fit_at(shape: Annotation, value: Any, step: str) -> None:
    try:
        shape.fit(value)
    except TypeMismatch as error:
        raise error.inside(step) from None


def _rebuilt_at(shape: Annotation, value: Any, step: str) -> Any:
    try:
        return shape.rebuilt(value)
    except TypeMismatch as error:
        raise error.inside(step) from None


def _items(origin: type, item: Annotation) -> Annotation:
    text = origin.__name__ if item is ANYTHING else f"{origin.__name__}[{item.text}]"
    of_origin = _instance_check(text, (origin,))

    def check(value: Any) -> None:
        of_origin(value)
        # Other iterables, such as a generator, might be used up by a check.
        if item is not ANYTHING and isinstance(value, _CHECKED_CONTAINERS):
            for index, one in enumerate(value):
                _fit_at(item, one, f"[{index}]")

    def build(value: Any) -> Any:
        of_origin(value)
        if type(value) not in _CHECKED_CONTAINERS:
            return value
        return type(value)(_rebuilt_at(item, one, f"[{index}]") for index, one in enumerate(value))

    exact = frozenset({origin}) if item is ANYTHING else frozenset[type]()
    return Annotation(text, exact, check, build if item.build else None)


def _tuple(args: list[Any], aliases: frozenset[Any]) -> Annotation:
    if len(args) == 2 and args[1] is Ellipsis:
        return _items(tuple, shape_of(args[0], aliases=aliases))
    shapes = [shape_of(arg, aliases=aliases) for arg in args]
    text = f"tuple[{', '.join(shape.text for shape in shapes) or '()'}]"

    def sized(value: Any) -> None:
        if not isinstance(value, tuple) or len(value) != len(shapes):
            raise TypeMismatch(text, value)

    def check(value: Any) -> None:
        sized(value)
        for index, shape in enumerate(shapes):
            _fit_at(shape, value[index], f"[{index}]")

    def build(value: Any) -> Any:
        sized(value)
        return tuple(_rebuilt_at(shape, value[index], f"[{index}]") for index, shape in enumerate(shapes))

    return Annotation(text, frozenset(), check, build if any(shape.build for shape in shapes) else None)


def _mapping(origin: type, key: Annotation, item: Annotation) -> Annotation:
    text = f"{origin.__name__}[{key.text}, {item.text}]"
    of_origin = _instance_check(text, (origin,))

    def check(value: Any) -> None:
        of_origin(value)
        for name, one in value.items():
            _fit_at(key, name, f" key {short(name)}")
            _fit_at(item, one, step_to(name))

    def build(value: Any) -> Any:
        of_origin(value)
        return {
            _rebuilt_at(key, name, f" key {short(name)}"): _rebuilt_at(item, one, step_to(name))
            for name, one in value.items()
        }

    return Annotation(text, frozenset(), check, build if key.build or item.build else None)


# -- models --------------------------------------------------------------------------------------------------


def _model(kind: type) -> Annotation:
    if issubclass(kind, Enum):
        return _class_with(kind, kind)
    make = _from_validation(kind) if is_pydantic(kind) else _from_fields(kind)
    return _class_with(kind, make, frozenset(field_names(kind)) | struct_tag(kind).keys())


def _named_tuple(kind: Any) -> Annotation:
    def make(value: Any) -> Any:
        if type(value) is not tuple:
            raise TypeMismatch(kind.__name__, value)
        shapes = [_field_shapes(kind).get(name, ANYTHING) for name in kind._fields]
        # Fields that a newer version added take their defaults; values it has no field for are refused.
        shapes += [ANYTHING] * (len(value) - len(shapes))
        return kind(*(_rebuilt_at(shapes[index], item, f"[{index}]") for index, item in enumerate(value)))

    return _class_with(kind, make)


def _class_with(kind: type, make: Callable[[Any], Any], fields: frozenset[str] = frozenset()) -> Annotation:
    """A class whose instances are made from stored data. That runs the user's code: it may raise anything."""

    def build(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        try:
            return make(value)
        except TypeMismatch:
            raise
        except Exception as error:
            raise TypeMismatch(kind.__name__, value, why(error)) from error

    check = _instance_check(kind.__name__, (kind,))
    return Annotation(kind.__name__, frozenset({kind}), check, build, fields)


def _from_validation(kind: Any) -> Callable[[Any], Any]:
    """Fields are stored by name. Where they have aliases, pydantic accepts names only with `by_name`."""
    if "by_name" in inspect.signature(kind.model_validate).parameters:
        return lambda value: kind.model_validate(value, by_alias=True, by_name=True)
    validate: Callable[[Any], Any] = kind.model_validate
    return validate


def _from_fields(kind: Any) -> Callable[[Any], Any]:
    """A dataclass or a Struct."""
    tag = struct_tag(kind)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    set_later = {field.name for field in fields if not field.init}

    def make(value: Any) -> Any:
        if type(value) is not dict or any(value.get(name) != mark for name, mark in tag.items()):
            raise TypeMismatch(kind.__name__, value)
        shapes = _field_shapes(kind)
        made = {
            name: _rebuilt_at(shapes.get(name, ANYTHING), item, step_to(name))
            for name, item in value.items()
            if name not in tag
        }
        instance = kind(**{name: item for name, item in made.items() if name not in set_later})
        for name in set_later & made.keys():
            object.__setattr__(instance, name, made[name])
        return instance

    return make


@functools.cache
def _field_shapes(kind: type) -> dict[str, Annotation]:
    """Resolved at first use, not with the class: a model may contain itself."""
    shapes = {name: shape_of(hint) for name, hint in _hints(kind).items()}
    return shapes | {name: optional(shapes[name]) for name in _none_by_default(kind) if name in shapes}


def _none_by_default(kind: Any) -> Iterator[str]:
    if issubclass(kind, tuple):
        return (name for name, default in kind._field_defaults.items() if default is None)
    fields = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else dataclasses.fields(kind)
    return (field.name for field in fields if field.default is None)


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind, localns={kind.__name__: kind})
    except Exception:  # a name imported for type checkers only, or anything else in there
        return {}
