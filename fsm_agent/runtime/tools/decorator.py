"""``@tool``: a typed Python function as a tool; its schema comes from annotations and docstring (spec 03, Tools)."""

from __future__ import annotations

import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from ..threads import run_on_thread
from .base import JsonObject, Tool, ToolContext, ToolOutput, object_schema
from .results import to_output

Predicate = bool | Callable[[JsonObject], bool]

_PLAIN: dict[Any, JsonObject] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
    dict: {"type": "object"},
    list: {"type": "array"},
}


class FunctionTool(Tool):
    """A tool made of a function, sync (run in a thread) or async."""

    def __init__(
        self, function: Callable[..., Any], *, read_only: Predicate, concurrency_safe: Predicate, **traits: Any
    ) -> None:
        """Make the tool.

        Args:
            function: its parameters are the input's fields; one annotated ``ToolContext`` gets the context.
            read_only: a bool, or a function of the input.
            concurrency_safe: a bool, or a function of the input.
            traits: attributes of ``Tool`` to set.

        Raises:
            TypeError: for a parameter that no schema can be made of.
        """
        self._function = function
        self._read_only = read_only
        self._safe = concurrency_safe
        self.name = function.__name__
        summary, fields = _docstring(inspect.getdoc(function) or "")
        self.description = summary
        self.input_schema, self._context_name = _schema(function, fields)
        for name, value in traits.items():
            if value is not None or name in ("timeout", "max_result_chars"):
                setattr(self, name, value)

    def is_read_only(self, tool_input: JsonObject) -> bool:
        """What was declared."""
        return self._read_only(tool_input) if callable(self._read_only) else self._read_only

    def is_concurrency_safe(self, tool_input: JsonObject) -> bool:
        """What was declared."""
        return self._safe(tool_input) if callable(self._safe) else self._safe

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Call the function."""
        arguments = dict(tool_input)
        if self._context_name:
            arguments[self._context_name] = context
        if inspect.iscoroutinefunction(self._function):
            return to_output(await self._function(**arguments))
        return to_output(await run_on_thread(lambda: self._function(**arguments)))


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: Predicate = False,
    concurrency_safe: Predicate | None = None,
    idempotent: bool = False,
    max_result_chars: int | None = 50_000,
    cancels_siblings_on_error: bool = False,
    timeout: float | None = 120.0,
    compactable: bool = False,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: Predicate = False,
    concurrency_safe: Predicate | None = None,
    idempotent: bool = False,
    max_result_chars: int | None = 50_000,
    cancels_siblings_on_error: bool = False,
    timeout: float | None = 120.0,
    compactable: bool = False,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function; see ``Tool`` for the traits. Without ``concurrency_safe`` a read-only call is safe."""

    def make(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(
            function,
            read_only=read_only,
            concurrency_safe=read_only if concurrency_safe is None else concurrency_safe,
            name=name,
            description=description,
            idempotent=idempotent,
            max_result_chars=max_result_chars,
            cancels_siblings_on_error=cancels_siblings_on_error,
            timeout=timeout,
            compactable=compactable,
        )

    return make if function is None else make(function)


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into what stands before its sections and the texts of its arguments."""
    head, *sections = re.split(r"\n\s*\n?(?=(?:Args|Returns|Raises|Yields|Example|Examples):\s*\n)", text)
    fields: dict[str, str] = {}
    for section in sections:
        if not section.startswith("Args:"):
            continue
        current = ""
        for line in section.splitlines()[1:]:
            found = re.match(r"\s{2,8}(\w+)\s*(?:\([^)]*\))?:\s*(.*)", line)
            if found and not line.startswith(" " * 8):
                current = found.group(1)
                fields[current] = found.group(2).strip()
            elif current and line.strip():
                fields[current] += " " + line.strip()
    return head.strip(), fields


def _schema(function: Callable[..., Any], fields: Mapping[str, str]) -> tuple[JsonObject, str]:
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        where = f"parameter {parameter.name!r} of {function.__name__}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{where} cannot be a field of an input")
        if parameter.name not in hints:
            raise TypeError(f"{where} has no annotation")
        hint = hints[parameter.name]
        if hint is ToolContext:
            context_name = parameter.name
            continue
        value = dict(schema_of(hint, where))
        if fields.get(parameter.name):
            value.setdefault("description", fields[parameter.name])
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        properties[parameter.name] = value
    return object_schema(properties, tuple(required)), context_name


def schema_of(hint: Any, where: str = "annotation") -> JsonObject:
    """Make a JSON schema of an annotation.

    Raises:
        TypeError: for an annotation that is not known, naming ``where`` it stands.
    """
    if hint is None:
        return {"type": "null"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    try:
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
    except TypeError:
        pass
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        inner = dict(schema_of(arguments[0], where))
        for extra in arguments[1:]:
            if isinstance(extra, str):
                inner["description"] = extra
            elif isinstance(extra, Mapping):
                inner.update(extra)
        return inner
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(argument, where) for argument in arguments]}
    if origin in (list, Sequence):
        return {"type": "array", "items": schema_of(arguments[0], where)}
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", "items": schema_of(arguments[0], where)}
    if origin in (dict, Mapping) and arguments[0] is str:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], where)}
    if typing.is_typeddict(hint):
        inner_hints = typing.get_type_hints(hint, include_extras=True)
        names = tuple(name for name in inner_hints if name in hint.__required_keys__)
        return object_schema({name: schema_of(inner, where) for name, inner in inner_hints.items()}, names)
    raise TypeError(f"{where}: no schema is known for {hint!r}")
