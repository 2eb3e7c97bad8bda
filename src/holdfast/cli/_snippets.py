"""Whether a snippet is whole, or more lines are to come. Decided by looking at it: nothing is run, no sandbox is asked.

Brackets, strings and comments that are open go on, and so does a line that ends with an operator or, in Lua, a block without its `end`.
When in doubt it is whole: the guest's own parser then says what is wrong, and an empty line always sends what there is.
"""

import re
from typing import Final

_JAVASCRIPT: Final = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<open_comment>/\*.*)
  | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<unclosed>["'][^\n]*)
  | (?P<template>`)
  | (?P<open>[(\[{]) | (?P<close>[)\]}])
  | (?P<word>[\w$]+)
  | (?P<regex>/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*)
  | (?P<space>\s+)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LUA: Final = re.compile(
    r"""
    (?P<comment>--\[(?P<marks>=*)\[.*?\](?P=marks)\]|--(?!\[=*\[)[^\n]*)
  | (?P<open_comment>--\[=*\[.*)
  | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\[(?P<level>=*)\[.*?\](?P=level)\])
  | (?P<open_string>\[=*\[.*)
  | (?P<open>[(\[{]) | (?P<close>[)\]}])
  | (?P<word>\w+)
  | (?P<space>\s+)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_GOES_ON: Final = {
    "javascript": re.compile(r"(?:[-+*/%&|^=<>?:,.!~]|\b(?:new|typeof|await|return|throw|else|in|of|instanceof|do))\Z"),
    "lua": re.compile(r"(?:[-+*/%^#=<>~,.]|\b(?:and|or|not|local|return|function))\Z"),
}
_BEFORE_A_REGEX: Final = frozenset(
    {"return", "typeof", "case", "in", "of", "await", "delete", "void", "throw", "new", "else", "do"}
)


def is_whole(snippet: str, language: str) -> bool:
    """Whether a snippet can be sent.

    >>> is_whole("f(1,", "javascript"), is_whole("for i = 1, 3 do", "lua"), is_whole("1 + 1", "javascript")
    (False, False, True)
    """
    last = snippet.rpartition("\n")[2]
    if not last.strip():  # an empty line, or nothing at all
        return True
    if language == "lua":
        return _lua_is_whole(snippet)
    return _javascript_is_whole(snippet)


def _javascript_is_whole(snippet: str) -> bool:
    brackets: list[str] = []
    """What is open; a backtick is a template, `${` an expression within one."""
    at, before = 0, ""
    while at < len(snippet):
        if brackets and brackets[-1] == "`":
            at = _after_template_text(snippet, at, brackets)
            before = "`"
            continue
        found = _JAVASCRIPT.match(snippet, at)
        assert found is not None
        kind, text = found.lastgroup or "", found.group()
        at = found.end()
        if kind == "open_comment":
            return False
        if kind in ("space", "comment"):
            continue
        if kind == "regex" and not _may_be_regex(before):
            kind, text, at = "sign", "/", found.start() + 1
        if kind == "template":
            brackets.append("`")
        elif kind == "open":
            brackets.append(text)
        elif kind == "close":
            if not brackets:
                return True  # the parser will say so
            brackets.pop()
        before = '"' if kind in ("regex", "unclosed") else text
    if brackets:
        return False
    return before.endswith(("++", "--")) or snippet.rstrip().endswith(("++", "--")) or not _GOES_ON["javascript"].search(before)


def _after_template_text(snippet: str, at: int, brackets: list[str]) -> int:
    """The place after the text of a template: at its end, in an expression within it, or at the end of all."""
    while at < len(snippet):
        if snippet[at] == "\\":
            at += 2
        elif snippet[at] == "`":
            brackets.pop()
            return at + 1
        elif snippet.startswith("${", at):
            brackets.append("${")
            return at + 2
        else:
            at += 1
    return at


def _may_be_regex(before: str) -> bool:
    """Whether a slash begins a regular expression here, and is no division."""
    return not before or before in _BEFORE_A_REGEX or not (before[-1].isalnum() or before[-1] in "_$)]}`\"'")


def _lua_is_whole(snippet: str) -> bool:
    depth, blocks, before = 0, 0, ""
    waits_for_do = 0
    for found in _LUA.finditer(snippet):
        kind, text = found.lastgroup or "", found.group()
        if kind in ("open_comment", "open_string"):
            return False
        if kind in ("space", "comment"):
            continue
        depth += {"open": 1, "close": -1}.get(kind, 0)
        if kind == "word":
            if text in ("function", "if", "repeat"):
                blocks += 1
            elif text in ("for", "while"):
                blocks, waits_for_do = blocks + 1, waits_for_do + 1
            elif text == "do":
                if waits_for_do:
                    waits_for_do -= 1
                else:
                    blocks += 1
            elif text in ("end", "until"):
                blocks -= 1
        before = text
    if depth > 0 or blocks > 0:
        return False
    return depth < 0 or blocks < 0 or not _GOES_ON["lua"].search(before)
