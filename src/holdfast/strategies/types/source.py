"""The source: what is in the library, read from `library.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from holdfast.strategies.types.kinds import Kind, Signature, read_kind, read_signature

LANGUAGES: Final = ("lua", "javascript")
Language = Literal["lua", "javascript"]


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a record. In JavaScript an option is called in that language's way; data has the same names everywhere."""

    name: str
    kind: Kind
    optional: bool
    doc: str


@dataclass(frozen=True, slots=True)
class RecordType:
    """A table or object with named parts. `open`: it may have others. `both`: options have the names of Lua in JavaScript as well."""

    name: str
    doc: str
    fields: tuple[Field, ...]
    options: bool
    both: bool
    open: bool
    base: str | None

    def names(self, field: Field) -> list[str]:
        """What a part is called in JavaScript."""
        name = camel(field.name) if self.options else field.name
        return [name, field.name] if self.both and name != field.name else [name]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the library, or a value if it has no signature."""

    name: str
    doc: str
    signatures: tuple[Signature, ...]
    kind: Kind | None
    waits: bool
    only: Language | None
    javascript_gives: Kind | None
    """What it gives there, if that is something else."""

    def is_in(self, language: Language) -> bool:
        return self.only in (None, language)


@dataclass(frozen=True, slots=True)
class Example:
    """A program in both languages, what models and people answer, in this order or by what is asked, and what comes of it."""

    programs: dict[str, str]
    answers: list[Any] | dict[str, Any]
    value: Any


@dataclass(frozen=True, slots=True)
class Group:
    """Functions that belong together: a section of the reference."""

    title: str
    text: str
    functions: tuple[Function, ...]
    examples: tuple[Example, ...]
    after: str


@dataclass(frozen=True, slots=True)
class Source:
    """All of it. `page` is how the reference begins; `tables` are those in which functions lie, by their names, with what they are."""

    page: str
    groups: tuple[Group, ...]
    records: tuple[RecordType, ...]
    tables: dict[str, str]

    def functions(self, language: Language) -> list[Function]:
        return [one for group in self.groups for one in group.functions if one.is_in(language)]


@cache
def source() -> Source:
    """The library as its source has it. Raises `ValueError` for what makes no sense."""
    given = tomllib.loads((files(__package__) / "library.toml").read_text(encoding="utf-8"))
    return Source(given["page"], tuple(map(_group, given["group"])), tuple(map(_record, given["record"])), given["table"])


def camel(name: str) -> str:
    """A name in JavaScript's way.

    >>> camel("state.set_nx"), camel("_ns")
    ('state.setNx', '_ns')
    """
    return ".".join(_camel(part) for part in name.split("."))


def parameter_name(name: str) -> str:
    """What a parameter is called in JavaScript, where a word may be the language's own."""
    return "fallback" if name == "default" else camel(name)


def _camel(name: str) -> str:
    first, *others = name.lstrip("_").split("_")
    return "_" * (len(name) - len(name.lstrip("_"))) + first + "".join(other[:1].upper() + other[1:] for other in others)


def _group(given: dict[str, Any]) -> Group:
    return Group(
        given["title"],
        given["text"],
        tuple(map(_function, given.get("function", []))),
        tuple(map(_example, given.get("example", []))),
        given.get("after", ""),
    )


def _function(given: dict[str, Any]) -> Function:
    known = {"sign", "also", "value", "doc", "waits", "only", "javascript_gives"}
    if unknown := given.keys() - known:
        raise ValueError(f"{', '.join(unknown)} is not known")
    signatures = tuple(read_signature(sign) for sign in (given.get("sign"), *given.get("also", [])) if sign)
    name, _, kind = given.get("value", "").partition(": ")
    gives = given.get("javascript_gives")
    return Function(
        name or signatures[0].name,
        given["doc"],
        signatures,
        read_kind(kind) if kind else None,
        given.get("waits", False),
        given.get("only"),
        read_kind(gives) if gives else None,
    )


def _record(given: dict[str, Any]) -> RecordType:
    fields = []
    for name, kind, doc in given["fields"]:
        fields.append(Field(name.removesuffix("?"), read_kind(kind), name.endswith("?"), doc))
    options, both = given.get("options", False), given.get("both", False)
    return RecordType(given["name"], given["doc"], tuple(fields), options, both, given.get("open", False), given.get("base"))


def _example(given: dict[str, Any]) -> Example:
    programs: dict[str, str] = {language: given[language] for language in LANGUAGES if language in given}
    return Example(programs, given.get("answers", []), given["value"])
