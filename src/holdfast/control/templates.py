"""Templates: what sessions start from."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal
from uuid import UUID

from holdfast.control._once import Once
from holdfast.domain import (
    Capability,
    InvalidId,
    InvalidValue,
    Limits,
    SourceFile,
    StartupFile,
    Template,
    TemplateSpec,
    TemplateVersion,
    new_id,
    parse_id,
)
from holdfast.runtime import Runtime
from holdfast.store import Page, Reply

_LONGEST_NAME: Final = 200
_LARGEST_SOURCE: Final = 16 << 20


class Templates:
    """`hf.templates`: create, get, update, list, delete. A version never changes; `update` adds one."""

    def __init__(self, runtime: Runtime, once: Once) -> None:
        self._runtime, self._once = runtime, once

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

        Raises `NameTaken`, and `TemplateFailed` if a file does not run to its end.
        """
        name = _checked_name(name)
        spec = TemplateSpec(language, tuple(libraries), tuple(modules), tuple(startup), tuple(capabilities), limits or Limits())
        _check_sources(spec)

        async def do(reply: Reply | None) -> Template:
            return await self._runtime.call(self._create, name, spec, reply)

        async def again(outcome: dict[str, Any]) -> Template:
            return await self.get(outcome["template_id"])

        return await self._once(idempotency_key, {"create": name, "spec": spec.as_dict()}, do, again)

    def _create(self, name: str, spec: TemplateSpec, reply: Reply | None) -> Template:
        runtime = self._runtime
        guest, baked = runtime.core.shelf.bake(spec)
        now = int(runtime.settings.clock())
        template = Template(new_id(), name, 1, now, now)
        runtime.store.create_template(template, TemplateVersion(template.id, 1, spec, guest, baked, now))
        if reply is not None:
            runtime.store.put_reply(reply._replace(outcome={"template_id": str(template.id)}))
        return template

    async def get(self, template: UUID | str) -> Template:
        """By id or name. Raises `TemplateNotFound`."""
        return await self._runtime.call(self._runtime.store.get_template, which(template))

    async def version(self, template: UUID | str, number: int | None = None) -> TemplateVersion:
        """One version, by default the latest."""
        found = await self.get(template)
        return await self._runtime.call(self._runtime.store.get_version, found.id, number or found.latest)

    async def versions(self, template: UUID | str, *, limit: int = 50, after: str | None = None) -> Page[TemplateVersion]:
        """All versions, newest first."""
        found = await self.get(template)
        return await self._runtime.call(self._runtime.store.list_versions, found.id, limit=limit, after=after)

    async def update(self, template: UUID | str, **changes: Any) -> TemplateVersion:
        """A new version with some parts changed: `libraries`, `modules`, `startup`, `capabilities`, `limits`.

        Sessions keep the version that they started from. Raises `VersionConflict` if somebody else added one in between.
        """
        latest = await self.version(template)
        unknown = changes.keys() - {"libraries", "modules", "startup", "capabilities", "limits"}
        if unknown:
            raise InvalidValue(f"a template's {min(unknown)} cannot be changed")
        parts: dict[str, Any] = {name: part if name == "limits" else tuple(part) for name, part in changes.items()}
        spec = replace(latest.spec, **parts)
        _check_sources(spec)
        return await self._runtime.call(self._add, latest, spec)

    def _add(self, latest: TemplateVersion, spec: TemplateSpec) -> TemplateVersion:
        runtime = self._runtime
        guest, baked = runtime.core.shelf.bake(spec)
        now = int(runtime.settings.clock())
        version = TemplateVersion(latest.template_id, latest.number + 1, spec, guest, baked, now)
        runtime.store.add_version(version, now)
        return version

    async def list(self, *, limit: int = 50, after: str | None = None) -> Page[Template]:
        """Newest first."""
        return await self._runtime.call(self._runtime.store.list_templates, limit=limit, after=after)

    async def delete(self, template: UUID | str) -> None:
        """With all versions. Raises `TemplateInUse` while sessions of it exist."""
        found = await self.get(template)
        await self._runtime.call(self._runtime.store.delete_template, found.id)
        self._runtime.core.shelf.forget(found.id)


def which(template: UUID | str) -> UUID | str:
    """A template's id if it is one, else its name."""
    try:
        return parse_id(template, "template")
    except InvalidId:
        if not isinstance(template, str):
            raise
        return template


def _checked_name(name: str) -> str:
    name = name.strip() if isinstance(name, str) else ""
    if not name or len(name) > _LONGEST_NAME:
        raise InvalidValue(f"a template's name has 1 to {_LONGEST_NAME} characters")
    try:
        parse_id(name)
    except InvalidId:
        return name
    raise InvalidValue("a template's name must not look like an id")


def _check_sources(spec: TemplateSpec) -> None:
    texts = [file.text for file in (*spec.libraries, *spec.modules)] + [file.text for file in spec.startup]
    size = sum(map(len, texts))
    if size > _LARGEST_SOURCE:
        raise InvalidValue(f"the files of a template have {size} characters; at most {_LARGEST_SOURCE} are taken")
