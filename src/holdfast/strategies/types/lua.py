"""The source as definitions for editors of Lua: LuaCATS, which is comments and functions without bodies."""

from collections.abc import Iterator
from typing import Final

from holdfast.strategies.types.kinds import Callback, Kind, Listing, Name, Parameter, Signature, Union
from holdfast.strategies.types.source import Function, RecordType, Source

_HEAD: Final = """\
---@meta
---The script library of Holdfast. This file is for editors, it is never run. `hf` is another name of `alc`.

---What a strategy is given.
---@type table<string, any>
ctx = {}

---@class alc
alc = {}
hf = alc
"""
_PLAIN: Final = {"null": "nil", "Record": "table<string, any>", "Pattern": "string"}
_BUILT_IN: Final = frozenset(["string", "number", "integer", "boolean", "any", "nothing"])


def definitions(source: Source) -> str:
    parts = [_HEAD]
    parts += [f"---{doc}\n---@class alc.{name}\nalc.{name} = {{}}\n" for name, doc in source.tables.items()]
    parts += ["\n".join(_record(one)) + "\n" for one in source.records]
    parts += ["\n".join(_function(one)) + "\n" for one in source.functions("lua")]
    return "\n".join(parts)


def _record(record: RecordType) -> Iterator[str]:
    yield f"---{record.doc}"
    yield f"---@class alc.{record.name}" + (f" : alc.{record.base}" if record.base else "")
    for field in record.fields:
        yield f"---@field {field.name}{'?' * field.optional} {kind(field.kind)} {field.doc}"
    if record.open:
        yield "---@field [string] any"


def _function(function: Function) -> Iterator[str]:
    yield f"---{function.doc}"
    if function.kind is not None:
        yield f"---@type {kind(function.kind)}"
        yield f"alc.{function.name} = nil"
        return
    first, *others = function.signatures
    generics = dict.fromkeys(name for one in function.signatures for name in one.generics)
    if generics:
        yield f"---@generic {', '.join(generics)}"
    for parameter in first.parameters:
        yield f"---@param {_parameter(parameter, ' ')}" + (f" {_default(parameter)}" if parameter.default else "")
    for given in _results(first):
        yield f"---@return {given}"
    for other in others:
        yield f"---@overload {_callable(other)}"
    listed = ", ".join("..." if one.rest else one.name for one in first.parameters)
    yield f"function alc.{function.name}({listed}) end"


def _default(parameter: Parameter) -> str:
    return f"{parameter.default} if it is left out"


def _parameter(parameter: Parameter, join: str) -> str:
    if parameter.rest:
        return f"...{join}{kind(parameter.kind.item if isinstance(parameter.kind, Listing) else parameter.kind)}"
    return f"{parameter.name}{'?' * parameter.optional}{join}{kind(parameter.kind)}"


def _results(signature: Signature) -> list[str]:
    return [kind(one) for one in signature.gives if one != Name("nothing")]


def _callable(signature: Signature | Callback) -> str:
    listed = ", ".join(_parameter(one, ": ") for one in signature.parameters)
    results = _results(signature) if isinstance(signature, Signature) else [kind(signature.gives)]
    return f"fun({listed})" + (f": {', '.join(results)}" if results and results != ["nothing"] else "")


def kind(given: Kind) -> str:
    """A type as LuaCATS writes it."""
    match given:
        case Union(kinds):
            return "|".join(_grouped(one) if isinstance(one, Callback) else kind(one) for one in kinds)
        case Listing(item):
            return f"{_grouped(item)}[]"
        case Callback():
            return _callable(given)
        case Name("Record", (of,)):
            return f"table<string, {kind(of)}>"
        case Name(name):
            return _name(name)


def _grouped(given: Kind) -> str:
    return f"({kind(given)})" if isinstance(given, Union | Callback) else kind(given)


def _name(name: str) -> str:
    if name in _PLAIN:
        return _PLAIN[name]
    is_plain = name in _BUILT_IN or name.startswith('"') or len(name) == 1
    return name if is_plain else f"alc.{name}"
