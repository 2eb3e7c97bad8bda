"""Templates: what sessions start from."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal
from uuid import UUID

from holdfast.control import _given
from holdfast.control._once import Once
from holdfast.domain import (
    Capability,
    InvalidId,
    InvalidValue,
    Limits,
    NameTaken,
    SourceFile,
    StartupFile,
    Template,
    TemplateNotFound,
    TemplateSpec,
    TemplateVersion,
    VersionConflict,
    new_id,
    parse_id,
)
from holdfast.runtime import Runtime
from holdfast.store import Page, Reply

_LONGEST_NAME: Final = 200
_LARGEST_SOURCE: Final = 16 << 20
_TRIES: Final = 5
"""How often something is done again that others have undone in between, for no fault of the caller."""


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
        if not isinstance(language, str):
            raise InvalidValue("a language is text: javascript or lua")
        given = {"libraries": libraries, "modules": modules, "startup": startup, "capabilities": capabilities, "limits": limits}
        spec = replace(TemplateSpec(language), **_checked_parts(given))
        _check_sources(spec)

        async def do(reply: Reply | None) -> Template:
            return await self._runtime.call(self._create, name, spec, reply)

        async def again(outcome: dict[str, Any]) -> Template:
            return await self.get(outcome["template_id"])

        return await self._once(idempotency_key, {"create": name, "spec": spec.as_dict()}, do, again)

    def _create(self, name: str, spec: TemplateSpec, reply: Reply | None) -> Template:
        runtime = self._runtime
        now = int(runtime.settings.clock())
        template = Template(new_id(), name, 1, now, now)
        if reply is not None:
            template.id = UUID(self._once.plan(reply, {"template_id": str(template.id)})["template_id"])
        template = self._made(template, spec)
        if reply is not None:
            runtime.store.put_reply(reply._replace(outcome={"template_id": str(template.id)}))
        return template

    def _made(self, template: Template, spec: TemplateSpec) -> Template:
        store = self._runtime.store
        for left in reversed(range(_TRIES)):
            try:
                self._check_free(template.name)  # before anything is baked that nobody would need
                self._baked(
                    template.id,
                    1,
                    spec,
                    template.created_at,
                    lambda version: store.create_template(template, version),
                    lambda: False,  # nobody else knows of this template
                )
                break
            except NameTaken:
                try:
                    found = store.get_template(template.name)
                except TemplateNotFound:  # it was deleted meanwhile: the name is free
                    if left:
                        continue
                    raise NameTaken from None
                if found.id != template.id:
                    raise
                return found  # another process was asked the same, or one that died before it could reply
        return template

    def _check_free(self, name: str) -> None:
        try:
            self._runtime.store.get_template(name)
        except TemplateNotFound:
            return
        raise NameTaken

    def _baked(
        self,
        template_id: UUID,
        number: int,
        spec: TemplateSpec,
        now: int,
        keep: Callable[[TemplateVersion], None],
        is_taken: Callable[[], bool],
    ) -> TemplateVersion:
        """A version, baked and kept; baked again, if what came of it was dropped with another template in between.

        A store says the same of that and of a number that is taken. Whether the memory is there now tells nothing: somebody may have put
        it back.
        """
        for left in reversed(range(_TRIES)):
            guest, baked = self._runtime.core.shelf.bake(spec)
            version = TemplateVersion(template_id, number, spec, guest, baked, now)
            try:
                keep(version)
                break
            except VersionConflict:
                if not left or is_taken():
                    raise
        return version

    async def get(self, template: UUID | str) -> Template:
        """By id or name. Raises `TemplateNotFound`."""
        return await self._runtime.call(self._runtime.store.get_template, which(template))

    async def version(self, template: UUID | str, number: int | None = None) -> TemplateVersion:
        """One version, by default the latest."""
        found = await self.get(template)
        wanted = _given.some_number(number, "number", 1)
        return await self._runtime.call(self._runtime.store.get_version, found.id, wanted or found.latest)

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
        parts = _checked_parts(changes)
        which(template)

        async def do(reply: Reply | None) -> TemplateVersion:
            return await self._runtime.call(self._update, which(template), parts, reply)

        async def again(outcome: dict[str, Any]) -> TemplateVersion:
            return await self.version(outcome["template_id"], outcome["number"])

        return await self._once(idempotency_key, {"update": str(template), "changes": parts}, do, again)

    def _update(self, template: UUID | str, parts: dict[str, Any], reply: Reply | None) -> TemplateVersion:
        store = self._runtime.store
        if reply is None:
            found = store.get_template(template)
            return self._add(found.id, found.latest + 1, self._changed(found.id, found.latest, parts))
        step = reply
        while True:
            found = store.get_template(template)
            plan = self._once.plan(step, {"template_id": str(found.id), "number": found.latest + 1})
            if plan["template_id"] == str(found.id):
                number = plan["number"]
                spec = self._changed(found.id, number - 1, parts)
                version = self._same(found.id, number, spec)
                if version is None and number > found.latest:
                    try:
                        version = self._add(found.id, number, spec)
                    except VersionConflict:
                        version = self._same(found.id, number, spec)
                        if version is None:
                            raise
                if version is not None:  # perhaps by another process, or by one that died before it could reply
                    store.put_reply(reply._replace(outcome={"template_id": str(found.id), "number": number}))
                    return version
            # What was planned did not happen, nor can it now: the number is somebody else's, or the name is another template's.
            step = reply._replace(request=f"{reply.request} {plan['template_id']} {plan['number']}")

    def _changed(self, template_id: UUID, number: int, parts: dict[str, Any]) -> TemplateSpec:
        spec = replace(self._runtime.store.get_version(template_id, number).spec, **parts)
        _check_sources(spec)
        return spec

    def _same(self, template_id: UUID, number: int, spec: TemplateSpec) -> TemplateVersion | None:
        """The version of this number, if it is made from this."""
        try:
            version = self._runtime.store.get_version(template_id, number)
        except TemplateNotFound:
            return None
        return version if _text(version.spec) == _text(spec) else None

    def _add(self, template_id: UUID, number: int, spec: TemplateSpec) -> TemplateVersion:
        store = self._runtime.store
        now = int(self._runtime.settings.clock())
        return self._baked(
            template_id,
            number,
            spec,
            now,
            lambda version: store.add_version(version, now),
            lambda: store.get_template(template_id).latest >= number,
        )

    async def list(self, *, limit: int = 50, after: str | None = None) -> Page[Template]:
        """Newest first."""
        return await self._runtime.call(self._runtime.store.list_templates, **_given.page(limit, after))

    async def delete(self, template: UUID | str, *, idempotency_key: str | None = None) -> None:
        """With all versions. Raises `TemplateInUse` while sessions of it exist."""
        which(template)

        async def do() -> None:
            found = await self.get(template)
            await self._runtime.call(self._runtime.store.delete_template, found.id)
            self._runtime.core.shelf.forget(found.id)

        await self._once.simple(idempotency_key, {"delete": str(template)}, do)


def which(template: UUID | str) -> UUID | str:
    """A template's id if it is one, else its name."""
    if not isinstance(template, str | UUID):
        raise InvalidId("a template is named by its id or its name, which is text")
    try:
        return parse_id(template, "template")
    except InvalidId:
        return str(template)


def _checked_name(name: str) -> str:
    name = name.strip() if isinstance(name, str) else ""
    if not name or len(name) > _LONGEST_NAME:
        raise InvalidValue(f"a template's name has 1 to {_LONGEST_NAME} characters")
    try:
        parse_id(name)
    except InvalidId:
        return name
    raise InvalidValue("a template's name must not look like an id")


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
        if file.when not in ("template", "session"):
            raise InvalidValue("a startup file runs when the template is made, or in each session: say template or session")
    for capability in parts.get("capabilities", ()):
        if not isinstance(capability.kind, str) or not isinstance(capability.name, str):
            raise InvalidValue("a capability has a kind and a name, which are text")
        if type(capability.enabled) is not bool:
            raise InvalidValue("a capability is enabled or not: say True or False")
        if capability.config is None:
            raise InvalidValue("a capability's config must be an object; leave it out if there is none")
        _given.mapping(capability.config, "a capability's config")
    return parts


def _check_sources(spec: TemplateSpec) -> None:
    texts = [file.text for file in (*spec.libraries, *spec.modules)] + [file.text for file in spec.startup]
    size = sum(map(len, texts))
    if size > _LARGEST_SOURCE:
        raise InvalidValue(f"the files of a template have {size} characters; at most {_LARGEST_SOURCE} are taken")


def _text(spec: TemplateSpec) -> str:
    """As it is stored, where a tuple is a list."""
    return json.dumps(spec.as_dict(), sort_keys=True)
