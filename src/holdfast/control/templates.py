"""Templates: what sessions start from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal
from uuid import UUID

from holdfast.control import _given
from holdfast.control._edits import TemplateEdits, which
from holdfast.control._policy import Permission
from holdfast.control._versions import Change, check_sources
from holdfast.domain import (
    Capability,
    InvalidId,
    InvalidValue,
    Limits,
    SourceFile,
    StartupFile,
    Template,
    TemplateNotFound,
    TemplateSpec,
    TemplateVersion,
    parse_id,
)
from holdfast.store import Page, Reply

_LONGEST_NAME: Final = 200


class Templates(TemplateEdits):
    """`hf.templates`: create, get, update, list, delete, clone; and edits of single parts, each a version of its own.

    A version never changes. Sessions keep the one that they started from.
    """

    async def create(
        self,
        name: str,
        *,
        language: Literal["javascript", "lua"] = "javascript",
        libraries: Sequence[SourceFile] = (),
        modules: Sequence[SourceFile] = (),
        startup: Sequence[StartupFile] = (),
        capabilities: Sequence[Capability] = (),
        limits: Limits | None = None,
        idempotency_key: str | None = None,
    ) -> Template:
        """A new template. Its libraries and startup files run once, now; a session starts with what they left.

        Raises `NameTaken`, `CapabilityInvalid`, and `TemplateFailed` if a file does not run to its end.
        """
        name = _checked_name(name)
        if not isinstance(language, str):
            raise InvalidValue("a language is text: javascript or lua")
        given = {"libraries": libraries, "modules": modules, "startup": startup, "capabilities": capabilities, "limits": limits}
        spec = replace(TemplateSpec(language), **(await self._checked_parts(given)))
        check_sources(spec)

        async def do(reply: Reply | None) -> Template:
            return await self._runtime.call(self._versions.create, name, spec, reply)

        async def again(outcome: dict[str, Any]) -> Template:
            return await self.get(outcome["template_id"])

        return await self._once(idempotency_key, {"create": name, "spec": spec.as_dict()}, do, again)

    async def get(self, template: UUID | str) -> Template:
        """By id or name. Raises `TemplateNotFound`."""
        return await self._runtime.call(self._runtime.store.get_template, which(template))

    async def version(self, template: UUID | str, number: int | None = None) -> TemplateVersion:
        """One version, by default the latest."""
        found = await self.get(template)
        wanted = _given.some_number(number, "number", 1)
        return await self._runtime.call(self._runtime.store.get_version, found.id, wanted or found.latest)

    async def policy(self, template: UUID | str, number: int | None = None) -> tuple[Permission, ...]:
        """What sessions of a version may reach, by default of the latest, and what they may not, each with the reason."""
        version = await self.version(template, number)
        return await self._runtime.call(self._policies.of, version.spec)

    async def versions(self, template: UUID | str, *, limit: int = 50, after: str | None = None) -> Page[TemplateVersion]:
        """All versions, newest first."""
        found = await self.get(template)
        return await self._runtime.call(self._runtime.store.list_versions, found.id, **_given.page(limit, after))

    async def update(self, template: UUID | str, *, idempotency_key: str | None = None, **changes: Any) -> TemplateVersion:
        """A new version with some parts changed: `libraries`, `modules`, `startup`, `capabilities`, `limits`.

        Sessions keep the version that they started from. Raises `VersionConflict` if somebody else added one in between.
        """
        unknown = changes.keys() - {"libraries", "modules", "startup", "capabilities", "limits"}
        if unknown:
            raise InvalidValue(f"a template's {min(unknown)} cannot be changed")
        parts = await self._checked_parts(changes)
        found = which(template)

        def change(spec: TemplateSpec) -> TemplateSpec:
            return replace(spec, **parts)

        async def do(reply: Reply | None) -> TemplateVersion:
            return await self._runtime.call(self._versions.edit, found, change, reply, patient=False)

        async def again(outcome: dict[str, Any]) -> TemplateVersion:
            return await self.version(outcome["template_id"], outcome["number"])

        return await self._once(idempotency_key, {"update": str(template), "changes": parts}, do, again)

    async def set(
        self,
        template: UUID | str,
        *,
        name: str | None = None,
        active: bool | None = None,
        limits: Mapping[str, int] | None = None,
        resolver: Mapping[str, Any] | None = None,
        runtime: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Template:
        """Another name, or a version with some settings changed; of `limits`, `resolver` and `runtime` only what is named.

        Raises `NameTaken`. Of a template that is not active no session is made; those that exist go on.
        """
        new_name = None if name is None else _checked_name(name)
        change = _settings(active, limits, resolver, runtime)
        found = which(template)

        async def do(reply: Reply | None) -> Template:
            return await self._runtime.call(self._set, found, new_name, change, reply)

        async def again(outcome: dict[str, Any]) -> Template:
            return await self.get(outcome["template_id"])

        given = {"active": active, "limits": limits, "resolver": resolver, "runtime": runtime}
        return await self._once(idempotency_key, {"set": str(template), "name": name, **given}, do, again)

    def _set(self, template: UUID | str, name: str | None, change: Change, reply: Reply | None) -> Template:
        store = self._runtime.store
        # Whoever died after it was renamed, and before it could reply, has left where to look for it.
        plan = None if reply is None else reply._replace(request=f"{reply.request} set")
        planned = None if plan is None else self._once.planned(plan)
        found = store.get_template(template if planned is None else UUID(planned["template_id"]))
        change(store.get_version(found.id, found.latest).spec)  # before anything is done
        if name is not None:
            if plan is not None:
                self._once.plan(plan, {"template_id": str(found.id)})
            store.rename_template(found.id, name, int(self._runtime.settings.clock()))
        self._versions.edit(found.id, change, reply)
        return store.get_template(found.id)

    async def clone(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> Template:
        """A new template, made from what the latest version of this one is made from. Raises `NameTaken`."""
        new_name = _checked_name(name)
        found = which(template)

        async def do(reply: Reply | None) -> Template:
            return await self._runtime.call(self._clone, found, new_name, reply)

        async def again(outcome: dict[str, Any]) -> Template:
            return await self.get(outcome["template_id"])

        return await self._once(idempotency_key, {"clone": str(template), "name": new_name}, do, again)

    def _clone(self, template: UUID | str, name: str, reply: Reply | None) -> Template:
        found = self._runtime.store.get_template(template)
        spec = self._runtime.store.get_version(found.id, found.latest).spec
        return self._versions.create(name, spec, reply)

    async def list(self, *, limit: int = 50, after: str | None = None) -> Page[Template]:
        """Newest first."""
        return await self._runtime.call(self._runtime.store.list_templates, **_given.page(limit, after))

    async def delete(self, template: UUID | str, *, idempotency_key: str | None = None) -> None:
        """With all versions. Raises `TemplateInUse` while sessions of it exist."""
        which(template)

        async def find() -> UUID:
            return (await self.get(template)).id

        async def remove(template_id: UUID) -> None:
            await self._runtime.call(self._runtime.store.delete_template, template_id)
            self._runtime.core.shelf.forget(template_id)

        await self._once.removal(idempotency_key, {"delete": str(template)}, find, remove, TemplateNotFound)

    async def _checked_parts(self, given: dict[str, Any]) -> dict[str, Any]:
        parts = _checked_parts(given)
        if parts.get("capabilities"):
            parts["capabilities"] = await self._runtime.call(self._settled, parts["capabilities"])
        return parts

    def _settled(self, capabilities: tuple[Capability, ...]) -> tuple[Capability, ...]:
        return tuple(self._policies.settled(one, f"capabilities[{at}].") for at, one in enumerate(capabilities))


def _checked_name(name: str) -> str:
    name = name.strip() if isinstance(name, str) else ""
    if not name or len(name) > _LONGEST_NAME:
        raise InvalidValue(f"a template's name has 1 to {_LONGEST_NAME} characters")
    try:
        parse_id(name)
    except InvalidId:
        return name
    raise InvalidValue("a template's name must not look like an id")


def _settings(
    active: bool | None,
    limits: Mapping[str, int] | None,
    resolver: Mapping[str, Any] | None,
    runtime: Mapping[str, Any] | None,
) -> Change:
    """The change of a template's settings."""
    settings = {"resolver": _given.mapping(resolver, "resolver"), "runtime": _given.mapping(runtime, "runtime")}
    fewer = _given.mapping(limits, "limits")
    unknown = fewer.keys() - Limits.__dataclass_fields__.keys()
    if unknown:
        raise InvalidValue(f"there is no limit {min(unknown)[:40]!r}; there are {', '.join(Limits.__dataclass_fields__)}")

    def change(spec: TemplateSpec) -> TemplateSpec:
        return replace(
            spec,
            active=spec.active if active is None else active,
            limits=spec.limits.but(**fewer),
            resolver={**spec.resolver, **settings["resolver"]},
            runtime={**spec.runtime, **settings["runtime"]},
        )

    return change


def _checked_parts(given: dict[str, Any]) -> dict[str, Any]:
    """The parts of a template, each of its kind."""
    kinds: dict[str, type] = {
        "libraries": SourceFile,
        "modules": SourceFile,
        "startup": StartupFile,
        "capabilities": Capability,
    }
    parts: dict[str, Any] = {
        part: _given.parts(kinds[part], values, part) for part, values in given.items() if part != "limits"
    }
    if "limits" in given:
        parts["limits"] = _given.some(Limits, given["limits"], "limits") or Limits()
    for file in (*parts.get("libraries", ()), *parts.get("modules", ()), *parts.get("startup", ())):
        if not isinstance(file.filename, str) or not 0 < len(file.filename) <= _LONGEST_NAME or not isinstance(file.text, str):
            raise InvalidValue(f"a file has a text, and a name of 1 to {_LONGEST_NAME} characters")
    for file in parts.get("startup", ()):
        if file.when not in ("auto", "template", "session"):
            raise InvalidValue(
                "a startup file runs when the template is made, or in each session: say auto, template or session"
            )
    for capability in parts.get("capabilities", ()):
        if not isinstance(capability.kind, str) or not isinstance(capability.name, str):
            raise InvalidValue("a capability has a kind and a name, which are text")
        if type(capability.enabled) is not bool:
            raise InvalidValue("a capability is enabled or not: say True or False")
        if capability.config is None:
            raise InvalidValue("a capability's config must be an object; leave it out if there is none")
        _given.mapping(capability.config, "a capability's config")
    return parts
