"""The type definitions are of what is really there: the library that scripts find, and the languages in which they are written."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from guests.build.cache import Cache, default_root
from guests.build.npm import install_packages, run
from holdfast import Holdfast
from holdfast.control.strategies import Response
from holdfast.strategies import types
from holdfast.strategies.types.source import Example, camel, source
from tests.acceptance.scenes import opened, scene

SAMPLES = Path(__file__).parent.parent / "types"
MEMBERS = {
    "lua": """
        local found = {}
        local function walk(members, prefix)
          for name, value in pairs(members) do
            if type(value) == "table" then walk(value, prefix .. name .. ".") else found[#found + 1] = prefix .. name end
          end
        end
        walk(alc, "")
        table.sort(found)
        return found
    """,
    "javascript": """
        const found = [];
        const walk = (members, prefix) => {
          for (const name of Object.keys(members)) {
            if (typeof members[name] === "object") walk(members[name], `${prefix}${name}.`);
            else found.push(prefix + name);
          }
        };
        walk(hf, "");
        found.sort();
    """,
}
EXAMPLES = [
    (f"{group.title} {number + 1}", language, example)
    for group in source().groups
    for number, example in enumerate(group.examples)
    for language in example.programs
]


@pytest.mark.parametrize("language", ["lua", "javascript"])
def test_the_definitions_have_what_scripts_find(engine: Any, language: Any) -> None:
    named = camel if language == "javascript" else str
    expected = sorted(named(function.name) for function in source().functions(language))
    with engine.guest(language).template().create() as sandbox:
        assert sandbox.evaluate(MEMBERS[language]).result.value == expected


def test_the_definitions_for_lua_are_lua(engine: Any) -> None:
    with engine.guest("lua").template().create() as sandbox:
        text = types.text("lua")
        assert "]==]" not in text
        assert sandbox.evaluate(f"return (select(2, load([==[{text}]==])))").result.value is None
        sandbox.evaluate(text)  # and it may even be run
        assert sandbox.evaluate("return type(alc.card.find)").result.value == "function"


def test_typescript_takes_what_is_right_and_finds_what_is_wrong(tmp_path: Path) -> None:
    """In bad.ts each mistake is marked: a mark without a mistake is an error too."""
    for name in ("good.ts", "bad.ts", "tsconfig.json"):
        shutil.copy(SAMPLES / name, tmp_path)
    (tmp_path / types.FILES["javascript"]).write_text(types.text("javascript"))
    compiler = install_packages(SAMPLES, Cache(default_root())) / "node_modules" / "typescript" / "bin" / "tsc"
    assert run(["node", str(compiler), "-p", "."], tmp_path) == ""


@pytest.mark.parametrize(
    ("language", "example"), [one[1:] for one in EXAMPLES], ids=[f"{title}, {language}" for title, language, _ in EXAMPLES]
)
@scene
async def test_an_example_of_the_reference(language: str, example: Example) -> None:
    async with opened("memory:") as hf:
        reply = await hf.strategies.run(example.programs[language], language=language)
        left = dict(example.answers) if isinstance(example.answers, dict) else list(example.answers)
        while reply["status"] == "needs_response":
            reply = await answer(hf, reply, left)
        assert reply["status"] == "completed", reply
        assert reply["result"] == example.value
        assert not left, "nobody asked for these"


async def answer(hf: Holdfast, reply: dict[str, Any], left: Any) -> dict[str, Any]:
    """Answers all that is asked, in the order given or by what was asked."""
    asked = reply.get("queries") or [reply]
    given = [
        Response(left.pop(0) if isinstance(left, list) else left.pop(one["prompt"]), one.get("id") or one["query_id"])
        for one in asked
    ]
    return await hf.strategies.resume(reply["session_id"], given)
