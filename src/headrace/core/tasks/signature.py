"""A task's parameters: checks a call at enqueue, and rebuilds it in the worker.

Built once per function. A call is bound to the parameters by hand, because `inspect.Signature.bind` takes longer than
the rest of an enqueue. Every error names the parameter. This module knows nothing of queues, options or storage.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn, get_type_hints

import msgspec

from headrace.core.codec.annotations import ANYTHING, Annotation, TypeMismatch, optional, shape_of
from headrace.core.codec.codec import decode, dump_call, dump_tree, encode_call, refusal
from headrace.core.codec.decode import Tree
from headrace.core.codec.encode import NotEncodable, ValueEncoder, lower
from headrace.core.codec.models import same
from headrace.core.codec.redaction import NO_WORDS
from headrace.core.codec.result_refs import MARK
from headrace.core.codec.secret_names import mentions
from headrace.core.tasks import batches
from headrace.core.tasks.arguments import by_name
from headrace.core.tasks.injection import injected_names
from headrace.core.text import a_kind, short
from headrace.errors import CorruptPayload, InvalidJob, PayloadTooLarge

MAX_ARGS = 100
MAX_KWARGS = 50

Call = tuple[tuple[Any, ...], dict[str, Any]]
Plan = tuple[frozenset[str], dict[str, frozenset[type] | None]]


class Parameter(msgspec.Struct, frozen=True):
    name: str
    kind: inspect._ParameterKind
    required: bool
    shape: Annotation
    annotation_note: str = ""

    @property
    def gathers(self) -> bool:
        """Whether it is `*rest` or `**named`."""
        return self.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Signature:
    """What a function accepts and returns. `Signature.of(fn)` makes one."""

    __slots__ = (
        "_any_models", "_exact", "_hidden", "_keyword", "_named", "_places", "_plans", "_rest", "_result",
        "_words", "name", "parameters",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        parameters: tuple[Parameter, ...],
        result: Annotation,
        redact: Collection[str] = (),
        words: frozenset[str] = NO_WORDS,
    ) -> None:
        kinds = inspect.Parameter
        by_place = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        by_name = (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
        self.name = name
        self.parameters = parameters
        self._result = result
        self._hidden = frozenset(name.casefold() for name in redact)
        self._words = words
        self._places = tuple(p for p in parameters if p.kind in by_place)
        self._named = {p.name: p for p in parameters if p.kind in by_name}
        self._rest = next((p for p in parameters if p.kind is kinds.VAR_POSITIONAL), None)
        self._keyword = next((p for p in parameters if p.kind is kinds.VAR_KEYWORD), None)
        self._any_models = any(p.shape.build for p in parameters)
        self._exact = tuple(p.shape.exact for p in self._places)
        few = len(parameters) <= MAX_KWARGS
        self._plans = [self._plan(count) for count in range(len(self._places) + 1)] if few else []

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        name: str | None = None,
        redact: Collection[str] = (),
        words: frozenset[str] = NO_WORDS,
        *,
        is_batch: bool = False,
    ) -> Signature:
        """The signature of a function; errors hide values of parameters in `redact`, or whose names match `words`.

        That of a batch task describes a job: its argument is an item of the list that the function takes.
        """
        title = str(name or getattr(fn, "__name__", type(fn).__name__))
        try:
            found = inspect.signature(fn)
        except (ValueError, TypeError):  # some builtins have none
            found = inspect.signature(lambda *args, **kwargs: None)
        resolve = _resolver(fn)
        injected = injected_names(found.parameters.values(), title)
        own = [p for p in found.parameters.values() if p.name not in injected]
        of_item, of_result = resolve, resolve
        if is_batch:
            batches.check_parameters(own, title)
            of_item, of_result = _item_resolver(own[0], resolve, title), lambda text: batches.result_of(resolve(text))
        parameters = tuple(_parameter(p, of_item) for p in own)
        return cls(title, parameters, _shape(found.return_annotation, of_result)[0], redact, words)

    def _plan(self, count: int) -> Plan:
        """The rest of a call with `count` positional arguments: the names it needs, and all those it may use."""
        by_name = [p for p in self._named.values() if p not in self._places[:count]]
        only_by_place = [p.name for p in self._places[count:] if p.name not in self._named and p.required]
        needed = frozenset([p.name for p in by_name if p.required] + only_by_place)
        return needed, {p.name: p.shape.exact for p in by_name}

    @property
    def positional(self) -> tuple[str, ...]:
        """The names of the positional parameters, in order; `*rest` last, with its star."""
        names = tuple(p.name for p in self._places)
        return names if self._rest is None else (*names, f"*{self._rest.name}")

    # -- at enqueue ------------------------------------------------------------------------------------------

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call as it will be encoded. Raises InvalidJob if the function would refuse it."""
        if len(args) < len(self._plans) and self._fits_at_once(args, kwargs):
            return args, kwargs
        for parameter, step, value in self._bound(args, kwargs):
            try:
                parameter.shape.fit(value)
            except TypeMismatch as error:
                self._refuse(parameter, error.inside(step))
        return args, kwargs

    def _fits_at_once(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """The usual case: all names are right and all values have exactly the annotated types. Raises no error."""
        needed, usable = self._plans[len(args)]
        if needed and not needed <= kwargs.keys():
            return False
        for value, exact in zip(args, self._exact):  # noqa: B905 - naming `strict` costs a tenth of it all
            if exact is not None and type(value) not in exact:
                return False
        for name, value in kwargs.items():
            if name not in usable:
                return False
            exact = usable[name]
            if exact is not None and type(value) not in exact:
                return False
        return True

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, limit: int | None = None) -> str:
        """The encoded call, checked: `rebuild` will return what was given."""
        self.check(args, kwargs)
        if not self._any_models:
            try:
                return encode_call(args, kwargs, limit=limit)
            except PayloadTooLarge:
                raise
            except InvalidJob:
                pass  # it names a position in the call; below, the parameter is named
        trees = [self._lowered(*bound, limit) for bound in self._bound(args, kwargs)]
        return dump_call(trees[: len(args)], dict(zip(kwargs, trees[len(args) :], strict=True)), limit)

    def _lowered(self, parameter: Parameter, step: str, value: Any, limit: int | None) -> Tree:
        try:
            tree = lower(ValueEncoder(parameter.shape.build is not None, limit, call=True), value)
            if parameter.shape.build is not None:
                self._ensure_rebuilt(parameter, step, value, dump_tree(tree))
        except TypeMismatch as error:
            self._refuse(parameter, error.inside(step))
        except NotEncodable as error:
            error.reason += parameter.annotation_note
            raise refusal(self._place(parameter) + step, error) from None
        except Exception as error:  # any error is reported, see refusal
            raise refusal(self._place(parameter) + step, error) from None
        return tree

    def _ensure_rebuilt(self, parameter: Parameter, step: str, value: Any, text: str) -> None:
        if MARK in text:
            return  # the values to rebuild it from do not exist yet
        rebuilt = parameter.shape.rebuilt(decode(text))
        if not same(value, rebuilt):
            raise InvalidJob(
                f"{self._place(parameter)}{step}: {a_kind(value)} would reach the worker as a different value "
                f"({a_kind(rebuilt)}); annotate the parameter with exactly its type, or pass plain data",
                field=parameter.name,
            )

    # -- in the worker ---------------------------------------------------------------------------------------

    def rebuild(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call with its models rebuilt from the decoded values. Raises CorruptPayload if one no longer fits."""
        if not self._any_models:
            return args, kwargs
        places = [*self._places[: len(args)], *[self._rest] * (len(args) - len(self._places))]
        named = ((name, self._named.get(name, self._keyword), value) for name, value in kwargs.items())
        return (
            tuple(self._rebuilt(parameter, value) for parameter, value in zip(places, args, strict=True)),
            {name: self._rebuilt(parameter, value) for name, parameter, value in named},
        )

    def _rebuilt(self, parameter: Parameter | None, value: Any) -> Any:
        if parameter is None or parameter.shape.build is None:
            return value
        try:
            return parameter.shape.rebuilt(value)
        except TypeMismatch as error:
            hide = self._hides(parameter, error)
            text = f"{self._place(parameter)}{error.message(hide=hide)}; the stored data is of another version"
            # A model's error quotes its input, and a traceback shows the whole chain.
            raise CorruptPayload(text) from None if hide else error

    def rebuild_result(self, value: Any) -> Any:
        """The result as the return annotation describes it, or the plain value if it does not fit."""
        if self._result.build is None:
            return value
        try:
            return self._result.build(value)
        except TypeMismatch:
            return value

    # -- for people ------------------------------------------------------------------------------------------

    def names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Parameter name -> value, for display. Accepts any call, also one the function would refuse."""
        return by_name(self.positional, args, kwargs)

    def _place(self, parameter: Parameter) -> str:
        return f"{self.name}() argument '{parameter.name}'"

    def _hides(self, parameter: Parameter, misfit: TypeMismatch) -> bool:
        # A redacted name may also be a key inside the value, or on the path to it.
        nested = bool(misfit.steps) or not isinstance(misfit.value, str | int | float | bytes | None)
        declared = parameter.name.casefold() in self._hidden or (bool(self._hidden) and nested)
        return declared or self._suspects(parameter, misfit, nested)

    def _suspects(self, parameter: Parameter, misfit: TypeMismatch, nested: bool) -> bool:
        if not self._words:
            return False
        shown = " ".join((parameter.name, *misfit.steps, short(misfit.value) if nested else ""))
        return mentions(shown, self._words)

    def _refuse(self, parameter: Parameter, misfit: TypeMismatch) -> NoReturn:
        hides = self._hides(parameter, misfit)
        text = self._place(parameter) + misfit.message(hide=hides)
        raise InvalidJob(text, field=parameter.name, value=None if hides else misfit.value) from None

    # -- binding ---------------------------------------------------------------------------------------------

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Parameter, str, Any]]:
        """Each value with its parameter, in the order given, and the step between them."""
        self._ensure_bindable(args, kwargs)
        yield from ((p, "", value) for p, value in zip(self._places, args, strict=False))
        if self._rest is not None:
            rest = args[len(self._places) :]
            yield from ((self._rest, f"[{index}]", value) for index, value in enumerate(rest))
        for name, value in kwargs.items():
            if name in self._named:
                yield self._named[name], "", value
            elif self._keyword is not None:
                yield self._keyword, f"[{short(name)}]", value

    def _ensure_bindable(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(args) > MAX_ARGS or len(kwargs) > MAX_KWARGS:
            raise InvalidJob(
                f"{self.name}() got {len(args)} positional and {len(kwargs)} keyword arguments; "
                f"at most {MAX_ARGS} and {MAX_KWARGS} are allowed: pass a list or a dict instead"
            )
        if len(args) > len(self._places) and self._rest is None:
            raise InvalidJob(f"{self.name}() takes {len(self._places)} positional arguments but {len(args)} were given")
        taken = {p.name for p in self._places[: len(args)]}
        for name in kwargs:
            self._ensure_nameable(name, taken)
        given = taken | (kwargs.keys() & self._named.keys())
        missing = [p.name for p in self.parameters if p.required and p.name not in given]
        if missing:
            raise InvalidJob(
                f"{self.name}() misses the argument{'s' * (len(missing) > 1)} {_quoted(missing)}", field=missing[0]
            )

    def _ensure_nameable(self, name: str, taken: set[str]) -> None:
        if name in self._named:
            if name in taken:
                raise InvalidJob(f"{self.name}() argument '{name}' is given twice: by position and by name", field=name)
        elif self._keyword is None:
            if name in {p.name for p in self._places}:
                raise InvalidJob(f"{self.name}() argument '{name}' can be given by position only", field=name)
            known = f"it takes {_quoted(self._named)}" if self._named else "it takes none by name"
            raise InvalidJob(f"{self.name}() has no argument {short(name)}; {known}", field=name)


def _quoted(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


# -- reading a function ----------------------------------------------------------------------------------------

Resolve = Callable[[Any], Any]


def _parameter(parameter: inspect.Parameter, resolve: Resolve) -> Parameter:
    gathers = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    shape, annotation_note = _shape(parameter.annotation, resolve)
    if parameter.default is None and shape is not ANYTHING:
        shape = optional(shape)
    required = parameter.default is parameter.empty and not gathers
    return Parameter(parameter.name, parameter.kind, required, shape, annotation_note)


def _shape(annotation: Any, resolve: Resolve) -> tuple[Annotation, str]:
    """The shape, and the text to add to an error if the annotation could not be read."""
    if annotation is inspect.Parameter.empty:
        return ANYTHING, ""
    try:
        return shape_of(resolve(annotation)), ""
    except Exception:  # a name known to type checkers only: ignore the annotation
        return ANYTHING, f" (its annotation {short(annotation)} can't be resolved here)"


def _resolver(fn: Callable[..., Any]) -> Resolve:
    """Resolves annotations one at a time: a missing name affects only its own."""
    code = _function_in(fn)
    known = getattr(code, "__globals__", {})
    free = getattr(getattr(code, "__code__", None), "co_freevars", ())
    cells = zip(free, getattr(code, "__closure__", None) or (), strict=False)
    local = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}

    def resolve(annotation: Any) -> Any:
        return get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), known, local)["it"]

    return resolve


def _item_resolver(parameter: inspect.Parameter, resolve: Resolve, title: str) -> Resolve:
    """Resolves the annotation of a list to that of its items; ConfigError if it is no list."""
    if parameter.annotation is not parameter.empty:
        try:
            resolved = resolve(parameter.annotation)
        except Exception:  # a name known to type checkers only
            return resolve
        batches.item_of(resolved, title)
    return lambda annotation: batches.item_of(resolve(annotation), title)


def _function_in(fn: Any) -> Any:
    """The function with the annotations, under decorators, partials, classes and callable objects."""
    inner = inspect.unwrap(fn)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    if isinstance(inner, type):
        return inner.__init__  # type: ignore[misc]  # that of this class
    return getattr(inner, "__func__", inner) if inspect.isroutine(inner) else type(inner).__call__


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - to read it is the question
    except ValueError:
        return False
    return True
