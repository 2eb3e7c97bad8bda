"""The source as a page of the documentation."""

from collections.abc import Iterator

from holdfast.strategies.types import lua
from holdfast.strategies.types.kinds import Callback, Kind, Listing, Name, Union
from holdfast.strategies.types.source import Function, Group, RecordType, Source, camel, parameter_name


def page(source: Source) -> str:
    records = {record.name: record for record in source.records}
    shown: set[str] = set()
    sections = ["\n".join(_group(group, _new(group, records, shown))) for group in source.groups]
    return "\n".join([source.page, *sections])


def _group(group: Group, records: list[RecordType]) -> Iterator[str]:
    yield f"## {group.title}\n"
    if group.text:
        yield f"{group.text.strip()}\n"
    if group.functions:
        yield "| Lua | JavaScript | gives | |"
        yield "|---|---|---|---|"
        yield from (_row(one) for one in group.functions)
        yield ""
    for record in records:
        yield from _record(record)
    for example in group.examples:
        for language, program in example.programs.items():
            yield f"```{language}\n{program.strip()}\n```\n"
    if group.after:
        yield f"{group.after.strip()}\n"


def _row(function: Function) -> str:
    names = [
        _call(function, "alc", function.name, "") if function.is_in("lua") else "",
        _call(function, "hf", camel(function.name), "await " * function.waits) if function.is_in("javascript") else "",
    ]
    gives = function.signatures[0].gives if function.signatures else (function.kind,)
    shown = ", ".join(words(one) for one in gives if one is not None and one != Name("nothing"))
    return f"| {' | '.join(names)} | {shown} | {function.doc}{_defaults(function)} |"


def _call(function: Function, table: str, name: str, before: str) -> str:
    if not function.signatures:
        return f"`{table}.{name}`"
    listed = ", ".join(_shown(one.name, one.optional, one.rest, table == "hf") for one in function.signatures[0].parameters)
    return f"`{before}{table}.{name}({listed})`"


def _shown(name: str, optional: bool, rest: bool, in_javascript: bool) -> str:
    name = parameter_name(name) if in_javascript else name
    return f"...{name}" if rest else name + "?" * optional


def _defaults(function: Function) -> str:
    found = [
        f"`{one.name}` is {one.default}" for signature in function.signatures[:1] for one in signature.parameters if one.default
    ]
    return f" By default {', '.join(found)}." if found else ""


def _record(record: RecordType) -> Iterator[str]:
    if not record.fields:
        return
    yield f"`{record.name}`: {record.doc[0].lower()}{record.doc[1:]}{' As `' + record.base + '`, and:' if record.base else ''}\n"
    yield "| | | |"
    yield "|---|---|---|"
    for field in record.fields:
        name = field.name + "?" * field.optional
        other = camel(field.name) + "?" * field.optional
        both = f"`{name}`" + (f", `{other}`" if record.options and other != name else "")
        yield f"| {both} | {words(field.kind)} | {field.doc} |"
    yield ""


def _new(group: Group, records: dict[str, RecordType], shown: set[str]) -> list[RecordType]:
    """The records that this group is the first to speak of."""
    found: list[RecordType] = []

    def add(kind: Kind) -> None:
        for name in _named(kind):
            if name in records and name not in shown:
                shown.add(name)
                found.append(records[name])
                for field in records[name].fields:
                    add(field.kind)

    for function in group.functions:
        for signature in function.signatures:
            for kind in (*(one.kind for one in signature.parameters), *signature.gives):
                add(kind)
        if function.kind is not None:
            add(function.kind)
    return found


def _named(kind: Kind) -> Iterator[str]:
    match kind:
        case Union(kinds):
            for one in kinds:
                yield from _named(one)
        case Listing(item):
            yield from _named(item)
        case Callback(parameters, gives):
            for parameter in parameters:
                yield from _named(parameter.kind)
            yield from _named(gives)
        case Name(name, of):
            yield name
            for one in of:
                yield from _named(one)


def words(kind: Kind) -> str:
    """A type, for people."""
    text = lua.kind(kind).replace("alc.", "").replace("table<string, any>", "table")
    return f"`{text}`".replace("|", "\\|")
