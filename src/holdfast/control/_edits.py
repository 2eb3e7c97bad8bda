"""Edits of single parts of a template: capabilities, modules, libraries, startup files. Each that changes something is a new version."""

from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from holdfast.capabilities import check_module, parse_path
from holdfast.control import _given
from holdfast.control._once import Once
from holdfast.control._policy import Policies
from holdfast.control._tenancy import TenantRuntime
from holdfast.control._versions import Change, Versions
from holdfast.domain import (
    Capability,
    CapabilityExists,
    CapabilityNotFound,
    InvalidId,
    InvalidValue,
    StartupFileExists,
    StartupModeUnsupported,
    StartupNotFound,
    StartupPath,
    TemplateSpec,
    TemplateVersion,
    parse_id,
)
from holdfast.libraries import check_library, is_meant
from holdfast.store import Reply

_LONGEST: Final = 200
_LARGEST_INDEX: Final = (1 << 31) - 1
_MODES: Final = ("eval",)


class TemplateEdits:
    """The half of `hf.templates` that edits parts."""

    def __init__(self, runtime: TenantRuntime, once: Once, versions: Versions, policies: Policies) -> None:
        self._runtime, self._once, self._versions, self._policies = runtime, once, versions, policies

    # ---- capabilities

    async def add_capability(
        self,
        template: UUID | str,
        kind: str,
        name: str,
        *,
        enabled: bool = False,
        config: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Capability:
        """Names something that sessions may reach if it is enabled, and are denied if it is not: a module, a package, or a function or
        tool of this process. Raises `CapabilityInvalid`, whose details have the path of the bad field, and `CapabilityExists`.
        """
        kind, name = _word(kind, "a capability's kind"), _word(name, "a capability's name")
        if type(enabled) is not bool:
            raise InvalidValue("a capability is enabled or not: say True or False")
        added = Capability(kind, name, enabled, _given.mapping(config, "config"))
        settled = await self._runtime.call(self._policies.settled, added)

        def change(spec: TemplateSpec) -> TemplateSpec:
            if any((known.kind, known.name) == (kind, name) for known in spec.capabilities):
                raise CapabilityExists
            return replace(spec, capabilities=(*spec.capabilities, settled))

        version = await self._edit(template, {"add_capability": added}, change, idempotency_key)
        return next(known for known in version.spec.capabilities if (known.kind, known.name) == (kind, name))

    async def remove_capability(
        self, template: UUID | str, capability: UUID | str, *, idempotency_key: str | None = None
    ) -> None:
        """By its id. Raises `CapabilityNotFound`."""
        wanted = str(parse_id(capability, "capability"))

        def change(spec: TemplateSpec) -> TemplateSpec:
            left = tuple(known for known in spec.capabilities if known.id != wanted)
            if len(left) == len(spec.capabilities):
                raise CapabilityNotFound
            for known in spec.capabilities:
                if known.id == wanted:
                    self._policies.check_grantable(known.kind, known.name)
            return replace(spec, capabilities=left)

        await self._edit(template, {"remove_capability": wanted}, change, idempotency_key)

    # ---- modules and libraries

    async def add_module(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> str:
        """Exposes a native module. Twice is fine. Raises `ModuleNotAllowed`; gives the name as it is kept."""
        module = check_module(name)
        self._policies.check_grantable("module", module)

        def change(spec: TemplateSpec) -> TemplateSpec:
            return replace(spec, exposed=_with(spec.exposed, module))

        await self._edit(template, {"add_module": module}, change, idempotency_key)
        return module

    async def remove_module(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> None:
        """Exposes it no more. Twice is fine."""
        module = _word(name, "a module's name").lower()

        def change(spec: TemplateSpec) -> TemplateSpec:
            return replace(spec, exposed=_without(spec.exposed, module))

        await self._edit(template, {"remove_module": module}, change, idempotency_key)

    async def add_library(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> str:
        """Loads a library of the cache before all else: `lodash`, `lodash@4` or `lodash-4.17.21`. Twice is fine. Gives its full name, with
        the version that is meant from now on: that of the catalogue, or the newest of the cache.

        An exact version need not be in the cache yet. Raises `LibraryUnknown`, `LibraryNotCached` if nothing says which version is meant,
        and `LibraryLoadFailed` if it is there and does not load.
        """
        given = check_library(name)

        def change(spec: TemplateSpec) -> TemplateSpec:
            return replace(spec, packages=_with(spec.packages, self._versions.library(given, spec.language)))

        version = await self._edit(template, {"add_library": given}, change, idempotency_key)
        return next((known for known in reversed(version.spec.packages) if is_meant(given, known)), given)

    async def remove_library(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> None:
        """Loads it no more: the version that is named, or all. Twice is fine."""
        library = _word(name, "a library's name")

        def change(spec: TemplateSpec) -> TemplateSpec:
            return replace(spec, packages=tuple(known for known in spec.packages if not is_meant(library, known)))

        await self._edit(template, {"remove_library": library}, change, idempotency_key)

    # ---- startup files

    async def add_startup(
        self,
        template: UUID | str,
        path: str,
        *,
        order_index: int = 0,
        mode: str = "eval",
        idempotency_key: str | None = None,
    ) -> StartupPath:
        """Runs a file of the worktree in each new session. It need not be there yet.

        Raises `InvalidPath`, `StartupModeUnsupported` and `StartupFileExists`.
        """
        word = mode.strip().lower() if isinstance(mode, str) else ""
        if word not in _MODES:
            raise StartupModeUnsupported().with_details(requested_mode=str(mode)[:40], supported_modes=list(_MODES))
        clean = parse_path(path)
        added = StartupPath("", clean, _given.number(order_index, "order_index", -_LARGEST_INDEX, _LARGEST_INDEX), word)

        def change(spec: TemplateSpec) -> TemplateSpec:
            if clean in [*(file.path for file in spec.files), *(file.filename for file in spec.startup)]:
                raise StartupFileExists
            return replace(spec, files=(*spec.files, added))

        version = await self._edit(template, {"add_startup": added}, change, idempotency_key)
        return next(file for file in version.spec.files if file.path == clean)

    async def remove_startup(self, template: UUID | str, startup: UUID | str, *, idempotency_key: str | None = None) -> None:
        """By its id. Raises `StartupNotFound`."""
        wanted = str(parse_id(startup, "startup file"))

        def change(spec: TemplateSpec) -> TemplateSpec:
            left = tuple(file for file in spec.files if file.id != wanted)
            if len(left) == len(spec.files):
                raise StartupNotFound
            return replace(spec, files=left)

        await self._edit(template, {"remove_startup": wanted}, change, idempotency_key)

    async def _edit(self, template: UUID | str, request: dict[str, Any], change: Change, key: str | None) -> TemplateVersion:
        found = which(template)

        async def do(reply: Reply | None) -> TemplateVersion:
            return await self._runtime.call(self._versions.edit, found, change, reply)

        async def again(outcome: dict[str, Any]) -> TemplateVersion:
            number = outcome["number"]
            return await self._runtime.call(self._runtime.store.get_version, UUID(outcome["template_id"]), number)

        return await self._once(key, {"template": str(template), **request}, do, again)


def which(template: UUID | str) -> UUID | str:
    """A template's id if it is one, else its name."""
    if not isinstance(template, str | UUID):
        raise InvalidId("a template is named by its id or its name, which is text")
    try:
        return parse_id(template, "template")
    except InvalidId:
        return str(template)


def _word(given: str, what: str) -> str:
    word = given.strip() if isinstance(given, str) else ""
    if not 0 < len(word) <= _LONGEST:
        raise InvalidValue(f"{what} has 1 to {_LONGEST} characters")
    return word


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(known for known in names if known != name)
