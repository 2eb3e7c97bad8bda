"""What a package says of itself: its `meta` and `spec`.

They are values of a program, so the program is run: in a sandbox of its own, with tight limits, that offers packages and nothing else. What
comes of it is plain data, and is kept by the package's hash.
"""

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.domain import HoldfastError, Limits
from holdfast.sandbox import (
    Breached,
    Engine,
    Failed,
    Finished,
    Host,
    HostError,
    Language,
    Map,
    Module,
    Outcome,
    Paused,
    Template,
)
from holdfast.strategies._errors import PackageInvalid
from holdfast.strategies.loading import SessionPackages
from holdfast.strategies.packages import Package, PackagePath

_LIMITS: Final = Limits(wall_ms=5_000, cpu_ms=500, mem_mb=64, max_events=1_000, max_output_kb=256)
_LONGEST: Final = 500
"""Characters of a description."""
_DEEPEST: Final = 16
_KEPT: Final = 1_000

_SOURCES: Final[dict[Language, str]] = {
    "lua": """
local type, next = type, next
local left = 10000
local function plain(value, depth)
  local kind = type(value)
  if kind ~= "table" then
    if kind == "string" or kind == "number" or kind == "boolean" then return value end
    return nil
  end
  left = left - 1
  if depth == 0 or left < 0 then return nil end
  local copy = {}
  for key, item in next, value do
    if type(key) == "string" or type(key) == "number" then copy[key] = plain(item, depth - 1) end
  end
  return copy
end
local module = require("NAME")
if type(module) ~= "table" then return type(module) end
return { meta = plain(module.meta, DEPTH), spec = plain(module.spec, DEPTH) }
""",
    "javascript": """
await (async ({ stringify }) => {
  const found = await import("NAME");
  const own = found.meta === undefined && found.run === undefined && found.default ? found.default : found;
  return typeof own === "object" || typeof own === "function" ? stringify({ meta: own.meta, spec: own.spec }) : typeof own;
})({ stringify: JSON.stringify })
""",
}
"""They are written to give the same whatever the package has done to the globals before."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What a package says of itself. `meta` and `spec` are JSON, without what has no such form."""

    version: str = ""
    description: str = ""
    category: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] | None = None


class MetaReader:
    """Reads what packages say of themselves. For any thread; one package at a time is run."""

    def __init__(self, packages: PackagePath, engine: Engine) -> None:
        self._packages, self._engine = packages, engine
        self._lock = threading.Lock()
        self._templates: dict[str, Template] = {}
        self._known: OrderedDict[tuple[str, str, str], Meta] = OrderedDict()

    def read(self, package: Package) -> Meta:
        """What it says. `PackageInvalid` if running it comes to nothing."""
        key = package.name, package.language, package.sha256
        with self._lock:
            found = self._known.get(key) or self._run(package)
            if isinstance(found, Meta):  # what failed may work when another package is there
                self._known[key] = found
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        if isinstance(found, str):
            raise PackageInvalid(f"the package {package.name!r} cannot be used: {found}")
        return found

    def _run(self, package: Package) -> Meta | str:
        language: Language = "lua" if package.language == "lua" else "javascript"
        if language not in self._templates:
            self._templates[language] = self._engine.guest(language).template()
        source = _SOURCES[language].replace("NAME", package.name).replace("DEPTH", str(_DEEPEST))
        host = Host(modules=_Packages(self._packages, language))
        with self._templates[language].create(limits=_LIMITS, host=host, seed=0) as sandbox:
            outcome = sandbox.evaluate(source, "<meta>", now=0.0)
        return _problem(outcome) or _said(outcome)


class _Packages:
    """The loader of a sandbox that offers packages only."""

    def __init__(self, packages: PackagePath, language: str) -> None:
        self._packages = SessionPackages(packages, language, lambda name: True, grants_any=True)

    def resolve(self, specifier: str, referrer: str, kind: str) -> str:
        try:
            found = self._packages.resolve(specifier, referrer)
        except HoldfastError as error:
            raise HostError(str(error), code=error.code) from None
        if found is None:
            raise HostError(f"there is no package {specifier[:80]!r}", code="MODULE_NOT_FOUND")
        return found

    def load(self, name: str) -> Module:
        try:
            found = self._packages.load(name)
        except HoldfastError as error:
            raise HostError(str(error), code=error.code) from None
        if found is None:
            raise HostError(f"there is no module {name[:80]!r}", code="MODULE_NOT_FOUND")
        return found


def _problem(outcome: Outcome) -> str:
    if isinstance(outcome, Failed):
        return f"it raises an error when it is loaded: {outcome.error.message[:_LONGEST]}"
    if isinstance(outcome, Paused):
        return "it waits for something when it is loaded"
    if isinstance(outcome, Breached):
        return f"it takes too much when it is loaded: {outcome.breach}"
    return "" if isinstance(outcome, Finished) else "it was stopped"


def _said(outcome: Outcome) -> Meta | str:
    value = outcome.result.value if isinstance(outcome, Finished) else None
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except RecursionError:
            return "what it says of itself is nested too deeply"
    if not isinstance(value, Mapping):
        return f"it must give a table or an object, and gives {value[:20] if isinstance(value, str) else 'something else'}"
    meta, spec = _plain(value.get("meta"), _DEEPEST), _plain(value.get("spec"), _DEEPEST)
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        return "its meta must be a table or an object"
    return Meta(
        _text(meta.get("version")),
        _text(meta.get("description")),
        _text(meta.get("category")),
        meta,
        spec if isinstance(spec, dict) else None,
    )


def _plain(value: Any, depth: int) -> Any:
    """JSON of what came out of a guest, and nothing of what is deeper in it."""
    if isinstance(value, Map | Mapping | list) and depth == 0:
        return None
    if isinstance(value, Map | Mapping):
        entries = value.entries if isinstance(value, Map) else value.items()
        return {str(key): _plain(item, depth - 1) for key, item in entries if isinstance(key, str | int | float)}
    if isinstance(value, list):
        return [_plain(item, depth - 1) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool) else None


def _text(value: Any) -> str:
    return str(value)[:_LONGEST] if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
