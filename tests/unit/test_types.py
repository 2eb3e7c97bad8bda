"""The type definitions come from one source, and say what it says."""

import re

import pytest

from holdfast.strategies import types
from holdfast.strategies.types import lua, typescript
from holdfast.strategies.types.__main__ import made, main
from holdfast.strategies.types.kinds import read_kind, read_signature
from holdfast.strategies.types.source import camel, source


def test_what_is_committed_is_what_the_source_says() -> None:
    """If this fails: python -m holdfast.strategies.types"""
    assert [path.name for path in made()] == ["alc.d.lua", "holdfast.d.ts", "script-library.md"]
    for path, text in made().items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    assert main(["lua"]) == 0
    assert capsys.readouterr().out == types.text("lua")
    assert main(["javascript"]) == 0
    assert capsys.readouterr().out == types.text("javascript")
    assert main(["other"]) == 2
    assert "usage" in capsys.readouterr().err


def test_each_function_is_in_both_definitions() -> None:
    for function in source().functions("lua"):
        assert f"alc.{function.name}(" in types.text("lua") or f"alc.{function.name} =" in types.text("lua"), function.name
    for function in source().functions("javascript"):
        name = camel(function.name).rpartition(".")[2]
        assert re.search(rf"^ +(readonly )?{name}(<.*>)?[(:]", types.text("javascript"), re.MULTILINE), function.name
    assert len([one for one in source().functions("lua") if one.name.startswith("math.")]) == 68


def test_each_type_that_is_named_is_there() -> None:
    records = {record.name for record in source().records}
    for name in re.findall(r"alc\.([A-Z]\w*)", types.text("lua")):
        assert name in records
    for record in records:
        assert re.search(rf"alc\.{record}\b(?!\n---@field)", types.text("lua").replace(f"---@class alc.{record}", "")), (
            f"{record} is not used"
        )


def test_all_is_said_in_a_sentence() -> None:
    for language in ("lua", "javascript"):
        for function in source().functions(language):  # type: ignore[arg-type]
            assert function.doc[0].isupper(), function.name
            assert function.doc.endswith("."), function.name


def test_types_in_both_languages() -> None:
    for text, in_lua, in_typescript in [
        ("string | null", "string|nil", "string | null"),
        ("(string | integer)[]", "(string|integer)[]", "(string | number)[]"),
        ("Record", "table<string, any>", "Record<string, any>"),
        ("Record<integer>[]", "table<string, integer>[]", "(Record<string, number>)[]"),
        ("Card[][]", "alc.Card[][]", "(Card[])[]"),
        ("(item: T, at?: integer) => U", "fun(item: T, at?: integer): U", "(item: T, at?: number) => U"),
        ('"a" | "b"', '"a"|"b"', '"a" | "b"'),
    ]:
        assert lua.kind(read_kind(text)) == in_lua
        assert typescript.kind(read_kind(text)) == in_typescript
    assert typescript.kind(read_kind("(x: any) => T"), waits=True) == "(x: any) => T | PromiseLike<T>"


@pytest.mark.parametrize(
    "text", ["f(", "f(a): string", "f(a: string)", "f(): string string", "f(): a & b", "f(a: string b: string): any"]
)
def test_signatures_that_make_no_sense(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        read_signature(text)
