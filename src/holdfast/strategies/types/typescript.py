"""The source as definitions for editors of JavaScript, and for the compiler of TypeScript."""

import re
from collections.abc import Iterator
from typing import Final

from holdfast.strategies.types.kinds import Callback, Kind, Listing, Name, Parameter, Signature, Union
from holdfast.strategies.types.source import Function, RecordType, Source, camel, parameter_name

_HEAD: Final = """\
// The script library of Holdfast. This file is for editors and compilers, it is never run.
"""
_FOOT: Final = """\
/** The library. */
declare const hf: Holdfast.Library;
/** What a strategy is given. */
declare const ctx: Record<string, any>;
"""
_GLOBAL: Final = ("llm", "ask", "approve")
_PLAIN: Final = {
    "integer": "number",
    "nothing": "void",
    "Record": "Record<string, any>",
    "Pattern": "string | RegExp",
}
_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def definitions(source: Source) -> str:
    inside = [line for record in source.records for line in [*_record(record), ""]]
    functions = source.functions("javascript")
    for table, doc in source.tables.items():
        own = [one for one in functions if one.name.startswith(f"{table}.")]
        inside += [*_members(_table(table), doc, (line for one in own for line in _function(one))), ""]
    top = [line for one in functions if "." not in one.name for line in _function(one)]
    for table, doc in source.tables.items():
        top += [f"/** {doc} */", f"readonly {camel(table)}: {_table(table)};"]
    inside += _members("Library", "What scripts find in `hf`.", top)
    known = {one.name: one.doc for one in functions}
    shorthands = "".join(f'/** {known[name]} */\ndeclare const {name}: Holdfast.Library["{name}"];\n' for name in _GLOBAL)
    return f"{_HEAD}\ndeclare namespace Holdfast {{\n{_indented(inside)}\n}}\n\n{_FOOT}{shorthands}"


def _table(name: str) -> str:
    return f"{name.capitalize()}Library"


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" if line else "" for line in lines)


def _members(name: str, doc: str, lines: "Iterator[str] | list[str]") -> list[str]:
    return [f"/** {doc} */", f"interface {name} {{", *(f"  {line}" for line in lines), "}"]


def _record(record: RecordType) -> list[str]:
    if not record.fields and not record.open:  # nobody can make one, or look into it
        return [f"/** {record.doc} */", f"class {record.name} {{ private constructor(); private readonly opaque; }}"]
    lines: list[str] = []
    for field in record.fields:
        for name in record.names(field):
            lines += [f"/** {field.doc} */", f"{name}{'?' * field.optional}: {kind(field.kind)};"]
    if record.open:
        lines.append("[name: string]: any;")
    base = f" extends {record.base}" if record.base else ""
    return [f"/** {record.doc} */", f"interface {record.name}{base} {{", *(f"  {line}" for line in lines), "}"]


def _function(function: Function) -> Iterator[str]:
    """Those that are called with more than what the first takes come first: the compiler takes the first that fits."""
    name = camel(function.name).rpartition(".")[2]
    if function.kind is not None:
        yield f"/** {function.doc} */"
        yield f"readonly {name}: {kind(function.kind)};"
        return
    for signature in (*function.signatures[1:], function.signatures[0]):
        yield f"/** {function.doc} */"
        generics = f"<{', '.join(signature.generics)}>" if signature.generics else ""
        yield f"{name}{generics}({_parameters(signature, function.waits)}): {_result(function, signature)};"


def _parameters(signature: Signature | Callback, waits: bool) -> str:
    return ", ".join(_parameter(one, waits) for one in signature.parameters)


def _parameter(parameter: Parameter, waits: bool) -> str:
    name = f"...{parameter.name}" if parameter.rest else parameter_name(parameter.name) + "?" * parameter.optional
    return f"{name}: {kind(parameter.kind, waits)}"


def _result(function: Function, signature: Signature) -> str:
    if function.javascript_gives is not None:
        gives = kind(function.javascript_gives)
    elif len(signature.gives) > 1:
        gives = f"[{', '.join(map(kind, signature.gives))}]"
    else:
        gives = kind(signature.gives[0])
    return f"Promise<{gives}>" if function.waits else gives


def kind(given: Kind, waits: bool = False) -> str:
    """A type as TypeScript writes it. A callback of a function that waits may wait as well."""
    match given:
        case Union(kinds):
            return " | ".join(_grouped(one, waits) if isinstance(one, Callback) else kind(one, waits) for one in kinds)
        case Listing(item):
            return f"{_grouped(item, waits)}[]"
        case Callback(gives=gives):
            result = kind(gives)
            may_wait = waits and result not in ("any", "void")
            return (
                f"({_parameters(given, waits)}) => {result} | PromiseLike<{result}>"
                if may_wait
                else f"({_parameters(given, waits)}) => {result}"
            )
        case Name("Record", (of,)):
            return f"Record<string, {kind(of)}>"
        case Name(name):
            return _PLAIN.get(name, name)


def _grouped(given: Kind, waits: bool) -> str:
    text = kind(given, waits)
    return text if _WORD.fullmatch(text) else f"({text})"
