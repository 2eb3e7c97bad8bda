"""How a library becomes a file that can be run as it is: it leaves its exports where `require` finds them, and perhaps a global.

What it needs of this is in its file, not in the guest: a library is loaded once, when the template is baked, and a session that requires
it gets what is in the image.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.libraries import names
from holdfast.libraries.catalogue import CATALOGUE

_PLACE: Final = 'Symbol.for("holdfast.libraries")'
_GLOBALS: Final[dict[str, str]] = {library["id"]: library["config"]["global"] for library in CATALOGUE}
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)

# On one line before the library's own first line, so that the lines of stack traces are right. A global that is there stays, unless
# another version of a library has left it.
_HEAD: Final = " ".join(
    f"""
(function (id, variable, body) {{
const place = {_PLACE};
if (!globalThis[place]) Object.defineProperty(globalThis, place, {{ value: Object.create(null) }});
const libraries = globalThis[place], module = {{ id, exports: {{}} }};
body.call(module.exports, module, module.exports, globalThis.require);
const made = module.exports, keys = made && made.__esModule ? Object.keys(made) : [];
const shown = keys.length === 1 && keys[0] === "default" ? made.default : made;
const mine = variable in globalThis && Object.values(libraries).some((one) => one.shown === globalThis[variable]);
if (variable && (mine || !(variable in globalThis))) globalThis[variable] = shown;
libraries[id] = {{ exports: made, shown }};
}})""".split("\n")
).strip()


def wrapped(library_id: str, variable: str, text: str) -> str:
    """A CommonJS module as a script."""
    body = re.sub(r"\A\ufeff?(#!)?", lambda match: "//" if match[1] else "", text)
    return f"{_HEAD}({json.dumps(library_id)}, {json.dumps(variable)}, function (module, exports, require) {{{body}\n}});\n"


def wrapped_lua(modules: Mapping[str, str], loaded: Sequence[str], variable: str, before: str = "") -> str:
    """Lua modules as one chunk, some of which are loaded with it. The first of these is the global, if there is to be one."""
    parts = [f"{before}\n"] if before else []
    for name, text in modules.items():
        body = re.sub(r"\A\ufeff?(#)?", lambda match: "--" if match[1] else "", text)
        parts.append(f"package.preload[{_quoted(name)}] = function(...) {body}\nend\n")
    parts += [f"require({_quoted(name)})\n" for name in loaded]
    if variable and loaded:
        parts.append(f"if _G[{_quoted(variable)}] == nil then _G[{_quoted(variable)}] = require({_quoted(loaded[0])}) end\n")
    return "".join(parts)


def stubs(packages: Iterable[str]) -> dict[str, str]:
    """For each library of a template, by its id, the CommonJS module that gives what was baked.

    A library that was put into the cache by hand left only a global. Lua needs no stubs: there `package.loaded` is part of the image.
    """
    found: dict[str, str] = {}
    for package in packages:
        library_id, _ = names.split(package)
        key, variable = json.dumps(library_id), json.dumps(_GLOBALS.get(library_id, ""))
        found[library_id] = (
            f"const libraries = globalThis[{_PLACE}] ?? {{}};"
            f" if ({key} in libraries) module.exports = libraries[{key}].exports;"
            f" else if ({variable} in globalThis) module.exports = globalThis[{variable}];"
            f' else throw new Error("Invalid module: the library " + {key} + " leaves nothing that could be required");'
        )
    return found


def variable_of(library_id: str) -> str:
    """The global of a library, unless somebody says otherwise.

    >>> variable_of("lodash"), variable_of("@scope/date-fns"), variable_of("7zip")
    ('_', 'dateFns', '')
    """
    if library_id in _GLOBALS:
        return _GLOBALS[library_id]
    word, *others = re.split(r"[^A-Za-z0-9$]+", library_id.rpartition("/")[2])
    made = word + "".join(other[:1].upper() + other[1:] for other in others)
    return made if is_identifier(made) else ""


def is_identifier(word: str) -> bool:
    """Whether a global may have this name."""
    return _IDENTIFIER.fullmatch(word) is not None


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=True)  # of letters, digits, dots, dashes and underscores: the same in Lua
