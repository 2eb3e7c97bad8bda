"""Secrets do not leave: neither in the log, nor when the configuration is shown."""

import re
from typing import Final

_WORD: Final = re.compile(r"\S+")
_USER: Final = re.compile(r"://[^:/@?#]*:")
_RULES: Final = (
    (re.compile(r"(?i)\b((?:proxy-)?authorization\W{1,8}(?:basic|digest|negotiate))\s+[^\s'\",)]+"), r"\1 ***"),
    (re.compile(r"(?i)\b(bearer)\s+[^\s'\",)]+"), r"\1 ***"),
    (re.compile(r"\bhf_[A-Za-z0-9_-]{8,}"), "hf_***"),
    (re.compile(r"(?i)\b(\w*(?:password|passwd|secret|api_?key|access_token))(\s*=\s*)('[^']*'|[^\s&;,'\"]+)"), r"\1\2***"),
)


def masked(text: str) -> str:
    """The text without bearer tokens, and without passwords of addresses.

    >>> masked("postgresql://ada:l0ve@db/work")
    'postgresql://ada:***@db/work'
    >>> masked("Authorization: Bearer hf_abc, from 127.0.0.1")
    'Authorization: Bearer ***, from 127.0.0.1'
    """
    if "://" in text:
        text = _WORD.sub(_without_password, text)
    for rule, instead in _RULES:
        text = rule.sub(instead, text)
    return text


def _without_password(found: re.Match[str]) -> str:
    """What a password ends at is the last @ of the word: it may have an @ of its own. Too much may be hidden, never too little.

    Not one expression, which would take the square of the length: what is logged may have been chosen by a stranger.
    """
    word = found[0]
    user = _USER.search(word)
    end = word.rfind("@")
    return f"{word[: user.end()]}***{word[end:]}" if user and end >= user.end() else word
