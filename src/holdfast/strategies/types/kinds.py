"""Types and signatures as the source writes them: a small part of TypeScript, in the names of Lua.

    map<T, U>(items: T[], fn: (item: T, index: integer) => U): U[]

A parameter may be left out if its name ends in `?`; `= 50` says what it is then. `...` before a name stands for any number. Several
results, as Lua has them, have commas between them.
"""

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(r'\s*(=>|\.\.\.|\[\]|"[^"]*"|[\w.-]+|[()<>:,|?=])', re.ASCII)


@dataclass(frozen=True, slots=True)
class Name:
    """A type by its name, perhaps of others: `string`, `Card`, `Record<integer>`. A text in quotes is that text."""

    name: str
    of: "tuple[Kind, ...]" = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """A list."""

    item: "Kind"


@dataclass(frozen=True, slots=True)
class Union:
    """One of several."""

    kinds: "tuple[Kind, ...]"


@dataclass(frozen=True, slots=True)
class Callback:
    """A function that is given to one of the library."""

    parameters: "tuple[Parameter, ...]"
    gives: "Kind"


Kind = Name | Listing | Union | Callback


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a function takes. `default` is as the source writes it."""

    name: str
    kind: Kind
    optional: bool = False
    default: str = ""
    rest: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function is called. `generics` are the types that its callers choose."""

    name: str
    generics: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    gives: tuple[Kind, ...]


def read_kind(text: str) -> Kind:
    """A type.

    >>> read_kind("string | Card[]")
    Union(kinds=(Name(name='string', of=()), Listing(item=Name(name='Card', of=()))))
    """
    reader = _Reader(text)
    found = reader.kind()
    reader.end()
    return found


def read_signature(text: str) -> Signature:
    """How a function is called.

    >>> read_signature("chunk(text: string, size?: integer = 50): string[]").parameters[1].default
    '50'
    """
    reader = _Reader(text)
    name = reader.take()
    generics = reader.generics()
    parameters = reader.parameters()
    reader.expect(":")
    gives = [reader.kind()]
    while reader.next_is(","):
        gives.append(reader.kind())
    reader.end()
    return Signature(name, generics, parameters, tuple(gives))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        if "".join(self._tokens) != re.sub(r'\s+(?=(?:[^"]*"[^"]*")*[^"]*$)', "", text):
            raise ValueError(f"there is something else in {text!r}")
        self._at = 0

    def take(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1])

    def next_is(self, token: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] == token
        self._at += found
        return found

    def expect(self, token: str) -> None:
        if not self.next_is(token):
            raise ValueError(f"{token} is missing at word {self._at} of {self._text!r}")

    def end(self) -> None:
        if self._at != len(self._tokens):
            raise ValueError(f"there is more than expected at word {self._at} of {self._text!r}")

    def kind(self) -> Kind:
        found = [self._one()]
        while self.next_is("|"):
            found.append(self._one())
        return found[0] if len(found) == 1 else Union(tuple(found))

    def generics(self) -> tuple[str, ...]:
        found: list[str] = []
        if self.next_is("<"):
            found.append(self.take())
            while self.next_is(","):
                found.append(self.take())
            self.expect(">")
        return tuple(found)

    def parameters(self) -> tuple[Parameter, ...]:
        self.expect("(")
        found: list[Parameter] = []
        while not self.next_is(")"):
            if found:
                self.expect(",")
            rest = self.next_is("...")
            name = self.take()
            optional = self.next_is("?")
            self.expect(":")
            kind = self.kind()
            found.append(Parameter(name, kind, optional, self.take() if self.next_is("=") else "", rest))
        return tuple(found)

    def _one(self) -> Kind:
        found: Kind
        if self._tokens[self._at] == "(" and self._is_callback():
            parameters = self.parameters()
            self.expect("=>")
            return Callback(parameters, self.kind())
        if self.next_is("("):
            found = self.kind()
            self.expect(")")
        else:
            found = Name(self.take())
            if self.next_is("<"):
                found = Name(found.name, (self.kind(),))
                self.expect(">")
        while self.next_is("[]"):
            found = Listing(found)
        return found

    def _is_callback(self) -> bool:
        """Whether an arrow follows what is in these brackets."""
        depth = 0
        for at in range(self._at, len(self._tokens)):
            depth += {"(": 1, ")": -1}.get(self._tokens[at], 0)
            if depth == 0:
                return at + 1 < len(self._tokens) and self._tokens[at + 1] == "=>"
        return False
