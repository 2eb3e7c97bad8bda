"""Tokens: as counted by whoever answered, or estimated, and always with the word for which."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class TokenSource(StrEnum):
    """How sure a number of tokens is. A sum is as sure as its weakest part."""

    DEFINITE = "definite"
    PROVIDED = "provided"
    ESTIMATED = "estimated"


_STRENGTH: Final = {TokenSource.ESTIMATED: 0, TokenSource.PROVIDED: 1, TokenSource.DEFINITE: 2}


def estimate(text: str) -> int:
    """A rough count: four ASCII characters a token, and two tokens for three others.

    >>> [estimate(text) for text in ("", "hello world", "かきく", "abcdefか")]
    [0, 3, 2, 3]
    """
    ascii_count = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-ascii_count // 4) + -(-2 * (len(text) - ascii_count) // 3)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A number of tokens and how sure it is. Nothing at all is zero for certain."""

    tokens: int = 0
    source: TokenSource = TokenSource.DEFINITE

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.tokens + other.tokens, min(self.source, other.source, key=_STRENGTH.__getitem__))

    def as_dict(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "source": self.source.value}


def estimated(text: str) -> Tokens:
    """The tokens of a text, estimated."""
    return Tokens(estimate(text), TokenSource.ESTIMATED)


def provided(count: int) -> Tokens:
    """A count that somebody gave."""
    return Tokens(count, TokenSource.PROVIDED)
