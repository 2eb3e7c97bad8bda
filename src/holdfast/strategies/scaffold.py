"""A package to begin with."""

import json
import re
from pathlib import Path
from typing import Final

from holdfast.domain import InvalidValue
from holdfast.strategies import names
from holdfast.strategies._errors import PackageExists

_LONGEST: Final = 500
_SURROGATES: Final = re.compile("[\ud800-\udfff]")

_LUA: Final = """\
local M = {}

M.meta = {
  name = <name>,
  version = "0.1.0",
  description = <description>,
  category = <category>,
}

-- What `run` takes and gives. It is for readers, people and programs: nothing is checked by it.
M.spec = {
  entries = {
    run = {
      input = { task = { type = "string", required = true } },
      result = { answer = { type = "string" } },
    },
  },
}

function M.run(ctx)
  local task = ctx.task or error("ctx.task is required")

  -- Every call of alc.llm is a pause: whoever runs this answers it, now or next week.
  local answer = alc.llm(task, { system = "You are careful and brief." })

  ctx.result = { answer = answer }
  return ctx
end

return M
"""
_JAVASCRIPT: Final = """\
export const meta = {
  name: <name>,
  version: "0.1.0",
  description: <description>,
  category: <category>,
};

// What `run` takes and gives. It is for readers, people and programs: nothing is checked by it.
export const spec = {
  entries: {
    run: {
      input: { task: { type: "string", required: true } },
      result: { answer: { type: "string" } },
    },
  },
};

export async function run(ctx) {
  if (!ctx.task) throw new Error("ctx.task is required");

  // Every call of hf.llm is a pause: whoever runs this answers it, now or next week.
  const answer = await hf.llm(ctx.task, { system: "You are careful and brief." });

  ctx.result = { answer };
  return ctx;
}
"""


def scaffold(into: Path, name: str, language: str = "lua", description: str = "", category: str = "") -> Path:
    """Writes the init file of a new package into a folder of its name. Gives the file.

    `PackageExists` if it is there. The package may be there for the other language.
    """
    names.check_new(name)
    if language not in names.INIT:
        raise InvalidValue(f"a package is written in {' or '.join(names.INIT)}, not {language[:40]!r}")
    given = {"name": name, "description": _text(description, "a description"), "category": _text(category, "a category")}
    quoted = _lua_quoted if language == "lua" else _javascript_quoted
    text = _LUA if language == "lua" else _JAVASCRIPT
    filled = re.sub("<(name|description|category)>", lambda found: quoted(given[found[1]]), text)
    file = into / name / names.INIT[language]
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(filled)
    except FileExistsError:
        raise PackageExists(f"there is an {file.name} in {name}: it stays as it is") from None
    return file


def _text(text: str, what: str) -> str:
    if len(text) > _LONGEST or _SURROGATES.search(text):
        raise InvalidValue(f"{what} is text of at most {_LONGEST} characters")
    return text


def _lua_quoted(text: str) -> str:
    r"""
    >>> print(_lua_quoted('a"\n]] .. os.exit()'))
    "a\"\010]] .. os.exit()"
    """
    escaped = re.sub(
        r'[\x00-\x1f\x7f"\\]', lambda found: f"\\{found[0]}" if found[0] in '"\\' else f"\\{ord(found[0]):03}", text
    )
    return f'"{escaped}"'


def _javascript_quoted(text: str) -> str:
    return json.dumps(text)
