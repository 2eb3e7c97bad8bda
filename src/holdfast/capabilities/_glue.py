"""What scripts get of a native module: its functions, or what its glue makes of them.

Functions that a script waits for are queries for a tool of their name. Glue and functions are joined by a few lines that keep what they
need of the language: whatever a script does to its globals later, it does to itself.
"""

from typing import Final

from holdfast.capabilities.native import NativeModule
from holdfast.sandbox import Module

_JAVASCRIPT: Final = """const {{ call, tool }} = hf;
const sync = (name) => (...args) => call("{module}." + name, ...args);
const wait = (name) => (...args) => tool("{module}." + name, args);
const host = {{ __proto__: null }};
for (const name of {functions}) host[name] = sync(name);
for (const name of {waiting}) host[name] = wait(name);
Object.freeze(host);
{glue}"""
_PLAIN_JAVASCRIPT: Final = "module.exports = { ...host };"

_LUA: Final = """local call, tool, array, null, select = alc.call, alc.tool, alc.array, alc.null, select
local host = {{}}
for _, name in ipairs({{{functions}}}) do
  host[name] = function(...) return call("{module}." .. name, ...) end
end
for _, name in ipairs({{{waiting}}}) do
  host[name] = function(...)
    local args = {{}}
    for i = 1, select("#", ...) do
      local value = select(i, ...)
      if value == nil then value = null end
      args[i] = value
    end
    return tool("{module}." .. name, array(args))
  end
end
{glue}"""
_PLAIN_LUA: Final = "return host"


def module_for(kind: type[NativeModule], language: str) -> Module:
    """What `require` gives of a module."""
    functions, waiting = list(kind.functions()), list(kind.waiting())
    glue = kind.lua if language == "lua" else kind.javascript
    if not waiting and not glue:
        return Module("functions", names=tuple(functions))
    if language == "lua":
        parts = {"functions": _names(functions), "waiting": _names(waiting), "glue": glue or _PLAIN_LUA}
        return Module("script", _LUA.format(module=kind.name, **parts))
    parts = {"functions": f"[{_names(functions)}]", "waiting": f"[{_names(waiting)}]", "glue": glue or _PLAIN_JAVASCRIPT}
    return Module("commonjs", _JAVASCRIPT.format(module=kind.name, **parts))


def _names(names: list[str]) -> str:
    """They are names of Python methods: nothing in them has to be escaped."""
    return ", ".join(f'"{name}"' for name in names)
